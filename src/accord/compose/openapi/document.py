"""OpenAPI documents: reading them, following their references, finding their operations."""

from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from accord.errors import RegistrationError, lower_first
from accord.json_schema.reader import find_by_pointer
from accord.types import JsonObject

DocumentSource: TypeAlias = str | PathLike[str] | Mapping[str, Any]
"""A file with a document in JSON or YAML, or the document as a dictionary."""

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_LONGEST_CHAIN: Final = 12
_YAML_ENDINGS: Final = (".yaml", ".yml")
# A file without aliases has no more values than bytes; the largest public ones have half a million.
_NODES_MOST: Final = 1_000_000


class Inexpressible(Exception):
    """Something in a document that cannot become part of a tool; the text says why."""


class SkippedOperation(NamedTuple):
    """An operation that became no tool, as `GET /pets`, and the reason."""

    operation: str
    reason: str


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a document, with what its path says about all operations.

    Attributes:
        method: in capitals.
        path: with its variables in braces.
        id: its `operationId`; empty without one.
        parameters: in their order; those of the path that it does not replace come first.
        body: its `requestBody`.
        security: the alternatives of schemes; None where the document names none.
        servers: the URLs of its servers.
    """

    method: str
    path: str
    id: str = ""
    summary: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    is_deprecated: bool = False
    parameters: tuple[JsonObject, ...] = ()
    body: JsonObject | None = None
    responses: JsonObject = {}
    security: list[JsonObject] | None = None
    servers: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"


def read_document(document: DocumentSource) -> JsonObject:
    """Return a document as a dictionary.

    Raises:
        RegistrationError: it cannot be read, or it is not an OpenAPI document of version 3.
    """
    if isinstance(document, Mapping):
        where, found = "the document", dict(document)
    elif isinstance(document, str | PathLike):
        where = fspath(document)
        found = _read_file(where)
    else:
        raise TypeError(
            "openapi() takes the path of a document, or the document as a dictionary, not a "
            f"{type(document).__name__}"
        )
    version = found.get("openapi")
    if "swagger" in found:
        raise RegistrationError(
            f"{where} is a document of Swagger {found['swagger']}; convert it to OpenAPI 3, for "
            "example with swagger2openapi"
        )
    if not isinstance(version, str) or not version.startswith("3."):
        raise RegistrationError(
            f"{where}: openapi is {version!r}, expected a version such as '3.0.3' or '3.1.0'"
        )
    return found


def _read_file(path: str) -> JsonObject:
    if path.startswith(("http://", "https://")):
        raise RegistrationError(
            f"{path.partition('?')[0]} is a URL; download the document and give its path, so that "
            "the server starts without the network"
        )
    if path.lstrip()[:1] == "{" or "\n" in path:
        raise RegistrationError(
            "openapi() takes the path of a document, or the document as a dictionary, not its "
            "text; json.loads(...) makes a dictionary of JSON"
        )
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RegistrationError(f"{path} cannot be read: {lower_first(error.strerror)}") from None
    is_yaml = path.endswith(_YAML_ENDINGS) or data.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"{"
    if is_yaml:
        found = _read_yaml(path, data)
    else:
        try:
            found = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RegistrationError(f"{path} is not JSON: {lower_first(error)}") from None
    if not isinstance(found, dict):
        raise RegistrationError(f"{path} is not an OpenAPI document, which is an object")
    return found


def _read_yaml(path: str, data: bytes) -> object:
    try:
        import yaml
    except ImportError:
        raise RegistrationError(
            f"{path} is YAML, and PyYAML is not installed; run pip install pyyaml, or convert the "
            "document to JSON"
        ) from None
    try:
        found = yaml.load(data, Loader=_yaml_loader(yaml))  # noqa: S506  # a safe loader
        return _YamlCopy(max(len(data), _NODES_MOST)).copy(found)
    except _TooManyNodes as error:
        raise RegistrationError(f"{path}: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        text = " ".join(str(error).split())[:200]
        raise RegistrationError(f"{path} is not YAML: {text}") from None


def _yaml_loader(yaml: Any) -> Any:
    """Return a safe loader that leaves dates as text, as JSON has them."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # found at run time
        pass

    Loader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    return Loader


class _TooManyNodes(Exception):
    pass


class _YamlCopy:
    """Copies what YAML holds to what JSON would: keys are text, such as those of responses.

    Each alias becomes a copy of what it stands for, so that a few lines may stand for gigabytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0

    def copy(self, value: object) -> object:
        self._count += 1
        if self._count > self._most:
            raise _TooManyNodes(f"its aliases stand for more than {self._most} values")
        if isinstance(value, dict):
            return {
                str(key).lower() if isinstance(key, bool) else str(key): self.copy(each)
                for key, each in value.items()
            }
        return [self.copy(each) for each in value] if isinstance(value, list) else value


class ApiDocument:
    """A document, and the operations in it.

    Args:
        root: the whole document.

    Attributes:
        is_old: whether it is of version 3.0, whose schemas are not those of JSON Schema.
        skipped: the operations that cannot be read, after `operations` has run.
    """

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.is_old = str(root.get("openapi")).startswith("3.0")
        self.skipped: list[SkippedOperation] = []

    @property
    def title(self) -> str:
        """The title of the API."""
        return text_at(object_at(self.root, "info"), "title") or "API"

    @property
    def servers(self) -> tuple[str, ...]:
        """The URLs of the servers of all operations."""
        return _server_urls(self.root)

    @property
    def security_schemes(self) -> dict[str, JsonObject]:
        """The security schemes by name, those that can be read."""
        found = {}
        for name, scheme in object_at(
            object_at(self.root, "components"), "securitySchemes"
        ).items():
            try:
                found[name] = self.resolve(scheme)
            except Inexpressible:
                continue
        return found

    def find(self, reference: object) -> object:
        """Return what a reference within the document leads to.

        Raises:
            Inexpressible: it leads elsewhere.
        """
        if not isinstance(reference, str):
            raise Inexpressible(f"a $ref is {reference!r:.60}, expected text")
        if not reference.startswith("#"):
            raise Inexpressible(
                f"the reference {reference[:120]!r} leads out of the document; bundle its files "
                "into one"
            )
        found = find_by_pointer(self.root, reference[1:])
        if found is None:
            raise Inexpressible(f"the reference {reference[:120]!r} leads to nothing")
        return found

    def resolve(self, node: object) -> JsonObject:
        """Return a parameter, body, response or path item, where it may be a reference.

        Raises:
            Inexpressible: it is something else.
        """
        for _ in range(_LONGEST_CHAIN):
            if not isinstance(node, dict):
                raise Inexpressible(f"{node!r:.60} stands where an object is expected")
            if "$ref" not in node:
                return node
            siblings = {key: value for key, value in node.items() if key != "$ref"}
            node = self.find(node["$ref"])
            if isinstance(node, dict):
                node = {**node, **siblings}
        raise Inexpressible("a chain of references leads in a circle")

    def operations(self) -> Iterator[ApiOperation]:
        """Yield the operations that can be read; the others are noted in `skipped`."""
        for path, item in object_at(self.root, "paths").items():
            if path.startswith("x-"):
                continue
            try:
                shared = self.resolve(item)
            except Inexpressible as error:
                self.skipped.append(SkippedOperation(f"* {path}", str(error)))
                continue
            for method in METHODS:
                if method not in shared:
                    continue
                try:
                    yield self._read(method, path, shared)
                except Inexpressible as error:
                    self.skipped.append(SkippedOperation(f"{method.upper()} {path}", str(error)))

    def _read(self, method: str, path: str, shared: JsonObject) -> ApiOperation:
        if not path.startswith("/"):
            # Written after the URL of a server, it could change the host.
            raise Inexpressible('its path does not begin with "/"')
        own = shared[method]
        if not isinstance(own, dict):
            raise Inexpressible("the operation is not an object")
        security = own.get("security", self.root.get("security"))
        body = own.get("requestBody")
        return ApiOperation(
            method=method.upper(),
            path=path,
            id=text_at(own, "operationId"),
            summary=text_at(own, "summary") or text_at(shared, "summary"),
            description=text_at(own, "description") or text_at(shared, "description"),
            tags=tuple(each for each in list_at(own, "tags") if isinstance(each, str)),
            is_deprecated=own.get("deprecated") is True,
            parameters=self._parameters(shared, own),
            body=None if body is None else self.resolve(body),
            responses=object_at(own, "responses"),
            security=[each for each in security if isinstance(each, dict)]
            if isinstance(security, list)
            else None,
            servers=_server_urls(own) or _server_urls(shared) or _server_urls(self.root),
        )

    def _parameters(self, shared: JsonObject, own: JsonObject) -> tuple[JsonObject, ...]:
        found: dict[tuple[object, object], JsonObject] = {}
        for each in (*list_at(shared, "parameters"), *list_at(own, "parameters")):
            parameter = self.resolve(each)
            found[text_at(parameter, "in"), text_at(parameter, "name")] = parameter
        return tuple(found.values())


def _server_urls(node: JsonObject) -> tuple[str, ...]:
    """Return the URLs of servers, with the defaults of their variables."""
    urls = []
    for server in list_at(node, "servers"):
        if not isinstance(server, dict) or not isinstance(server.get("url"), str):
            continue
        url = server["url"]
        for name, variable in object_at(server, "variables").items():
            default = variable.get("default") if isinstance(variable, dict) else None
            url = url.replace(f"{{{name}}}", str(default if default is not None else ""))
        urls.append(url)
    return tuple(urls)


def text_at(node: JsonObject, key: str) -> str:
    """Return the text of a member; empty if it is something else."""
    value = node.get(key)
    return value.strip() if isinstance(value, str) else ""


def object_at(node: JsonObject, key: str) -> JsonObject:
    """Return the object of a member; empty if it is something else."""
    value = node.get(key)
    return value if isinstance(value, dict) else {}


def list_at(node: JsonObject, key: str) -> list[Any]:
    """Return the list of a member; empty if it is something else."""
    value = node.get(key)
    return value if isinstance(value, list) else []
