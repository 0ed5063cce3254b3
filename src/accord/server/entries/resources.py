"""Resources with a fixed URI or a URI template: their registration, look-up and contents.

The functions that read them are checked against the URI here, and called by `methods`.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

import msgspec

from accord.errors import InvalidParams, RegistrationError, ResourceNotFound, ToolError
from accord.json_schema.reader import admits
from accord.protocol import uri_template
from accord.protocol.exchange import Exchange
from accord.protocol.syntax import is_mime_type, is_uri
from accord.protocol.uri_template import UriTemplate
from accord.server.access import parse_scopes, parse_tags
from accord.server.caching import add_read_hints, to_milliseconds
from accord.server.entries.entry import EntryKind, FunctionEntry, call_user, source_location
from accord.server.media import (
    build_contents,
    guess_mime_type,
    not_found,
)
from accord.server.schema.signature import BoundArguments, Parameter, Signature
from accord.server.settings import EntryDetails, check_details
from accord.types import (
    Annotations,
    CacheScope,
    JsonObject,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
)

_SEPARATOR: Final = re.compile(r"[/\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")


if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.server.session import Session

    _Annotations: TypeAlias = Annotations | JsonObject
else:
    # A dictionary is converted to this.
    _Annotations = Annotations


class ResourceDetails(EntryDetails, total=False):
    """Details of a resource; name and description default to the function's.

    Attributes:
        mime_type: of what the function returns; guessed by default.
        size: in bytes.
        annotations: hints such as `audience` and `priority`.
        allow_path_escapes: whether values of template variables may lead out of a path.
        ttl: seconds for which clients may keep the contents; a result may have its own.
        cache_scope: "public" if caches may pass the contents on to other callers.
    """

    mime_type: str
    size: int
    annotations: _Annotations
    allow_path_escapes: bool
    ttl: float
    cache_scope: CacheScope


# Details that clients do not see.
_UNLISTED: Final = ("scopes", "tags", "replace", "allow_path_escapes", "ttl", "cache_scope")


class ReadableEntry(FunctionEntry, frozen=True, kw_only=True):
    """A resource with a fixed URI, or a family of them.

    Attributes:
        mime_type: of what the function returns; None if it is to be guessed.
        ttl_ms: for how long clients may keep the contents; None if the server says it.
        cache_scope: "public" if caches may pass the contents on; None if the server says it.
    """

    mime_type: str | None = None
    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: ReadResourceParams,
        context: "Context[Any] | None" = None,
    ) -> Awaitable[ReadResourceResult]:
        variables = self.match(params.uri)
        if variables is None:
            raise not_found(params.uri)
        bound = self.bind(variables)
        exchange.state = f"resource {self.key}"
        context = context or session.context(exchange, params)
        return self._read(session, context, params.uri, bound)

    async def _read(
        self, session: "Session", context: "Context[Any]", uri: str, bound: BoundArguments
    ) -> ReadResourceResult:
        convert = partial(build_contents, self, uri)
        try:
            result: ReadResourceResult = await call_user(session, context, self, bound, convert)
        except ResourceNotFound as error:
            if error.data is None:  # errors.resource-not-found.data-uri
                error.data = {"uri": uri}
            raise
        if context._exchange.revision.cache_hints and isinstance(result, ReadResourceResult):
            add_read_hints(result, self, session.server)
        return result

    def bind(self, variables: Mapping[str, str]) -> BoundArguments:
        """Convert the values in a URI to arguments.

        Raises:
            InvalidParams: a value does not fit its parameter.
        """
        try:
            return self.signature.bind_strings(variables)
        except ToolError as error:
            raise InvalidParams(str(error)) from None


class ResourceEntry(ReadableEntry, frozen=True, kw_only=True):
    """A resource with a fixed URI."""

    kind: EntryKind = "resources"
    item: Resource

    def match(self, uri: str) -> dict[str, str] | None:
        return {} if uri == self.key else None


class TemplateEntry(ReadableEntry, frozen=True, kw_only=True):
    """A family of resources named by a URI template.

    `matched` is the latest URI with its variables: what has found a template asks it to read next,
    and matching takes 30 µs.
    """

    kind: EntryKind = "resource_templates"
    item: ResourceTemplate
    template: UriTemplate
    prefix: str
    allow_path_escapes: bool = False
    matched: tuple[str, dict[str, str] | None] = ("", None)

    @property
    def arguments(self) -> Iterable[str]:
        return self.template.variables

    def bind(self, variables: Mapping[str, str]) -> BoundArguments:
        """Convert the values in a URI to arguments; a list takes the parts of its value.

        Raises:
            InvalidParams: a value leads out of a path, or does not fit its parameter.
        """
        if not self.allow_path_escapes:
            self._refuse_path_escapes(variables)
        given = {name: str(value) for name, value in variables.items()}
        for parameter in self.signature.parameters:
            value = variables.get(parameter.name)
            if value and value[0] != "[" and _is_list(parameter, self.signature):
                parts = getattr(value, "parts", (value,))
                given[parameter.name] = msgspec.json.encode(parts).decode()
        return super().bind(given)

    def _refuse_path_escapes(self, variables: Mapping[str, str]) -> None:
        spanning = self.template.slash_variables
        # In file URIs an absolute path follows the two slashes.
        is_file = self.prefix == "file://"
        for name, value in variables.items():
            for part in getattr(value, "parts", (value,)):
                escape = path_escape(part, spans_segments=name in spanning, may_be_absolute=is_file)
                if escape is not None:
                    raise InvalidParams(
                        f"resource {self.key!r}: variable {name!r} {escape} ({part[:80]!r}), which "
                        "may lead out of a path; the resource can permit it (allow_path_escapes)"
                    )

    def match(self, uri: str) -> dict[str, str] | None:
        if not may_match(uri, self.prefix):
            return None
        matched = self.matched
        if matched[0] != uri:
            matched = uri, self.template.match(uri)
            msgspec.structs.force_setattr(self, "matched", matched)
        return matched[1]


def may_match(uri: str, prefix: str) -> bool:
    """Whether a template that begins with this text may expand to a URI; decided at once."""
    return uri.startswith(prefix) or "%" in uri or not uri.isascii()


def literal_prefix(template: str) -> str:
    """Return the text with which all expansions of a template begin."""
    return re.split("[{%]", template, maxsplit=1)[0]


def _is_list(parameter: Parameter, signature: Signature) -> bool:
    root = signature.input_schema
    return admits(parameter.schema, ("array",), root) and not admits(
        parameter.schema, ("string",), root
    )


def path_escape(value: str, *, spans_segments: bool, may_be_absolute: bool = False) -> str | None:
    """Say how a value leads out of the path it is put into; None if it does not.

    Functions make file names of variables. `%2F`, `%2E%2E` and `%00` in a URI are decoded before,
    so a function would have to check for their meaning; such values are refused here instead.

    Args:
        value: the value of a variable, decoded; of a list, one of its parts.
        spans_segments: whether its expression lets it hold slashes, as `{+path}` does.
        may_be_absolute: whether it is at the beginning of a path.

    >>> path_escape("../etc", spans_segments=True)
    'has a segment ".."'
    """
    if "\0" in value:
        return "holds a NUL character"
    if ".." in _SEPARATOR.split(value):
        return 'has a segment ".."'
    if not spans_segments:
        return "holds a slash or backslash" if _SEPARATOR.search(value) else None
    if may_be_absolute or not (_SEPARATOR.match(value) or _DRIVE.match(value)):
        return None
    return "is an absolute path"


def build_resource(
    uri: str,
    function: Callable[..., object],
    *,
    signature: Signature,
    **details: Unpack[ResourceDetails],
) -> ResourceEntry | TemplateEntry:
    """Return the entry of a function that reads a resource; a URI with `{variables}` is a template.

    Args:
        uri: the URI, or a template of RFC 6570 with the parameters of the function as variables.
        function: called to read it.
        signature: that of the function.
        details: what clients see, and access.

    Raises:
        RegistrationError: the URI is invalid, or does not fit the function.
    """
    if not isinstance(uri, str):
        raise RegistrationError(
            f"the first argument of resource() is a URI such as 'note://today', not {uri!r}"
        )
    details = check_details(f"resource({uri!r})", details, ResourceDetails)
    mime_type = details.get("mime_type")
    if mime_type is not None and not is_mime_type(mime_type):
        raise RegistrationError(f"resource {uri!r}: invalid MIME type {mime_type!r}")
    listed: JsonObject = {"description": signature.description, **details}
    for name in _UNLISTED:
        listed.pop(name, None)
    common: JsonObject = {
        "key": uri,
        "function": function,
        "signature": signature,
        "mime_type": mime_type,
        "scopes": parse_scopes(details.get("scopes", ())),
        "tags": parse_tags(details.get("tags", ())),
        **read_hints(details, f"resource {uri!r}"),
    }
    listed.setdefault("name", uri if signature.name == "<lambda>" else signature.name)
    if "{" not in uri and "}" not in uri:
        _check_fixed(uri, function, signature)
        listed["mime_type"] = mime_type or guess_mime_type(uri)
        return ResourceEntry(item=Resource(uri=uri, **listed), **common)
    if "size" in details:
        raise RegistrationError(f"resource {uri!r}: a template has no size")
    template = _parse(uri)
    _check_template(template, function, signature)
    return TemplateEntry(
        item=ResourceTemplate(uri_template=uri, **listed),
        template=template,
        prefix=literal_prefix(uri),
        allow_path_escapes=details.get("allow_path_escapes", False),
        **common,
    )


def read_hints(details: ResourceDetails, where: str) -> JsonObject:
    """Return the cache hints of an entry.

    Raises:
        RegistrationError: one is invalid, or contents that need scopes are said to be public.
    """
    ttl, scope = details.get("ttl"), details.get("cache_scope")
    if scope == "public" and parse_scopes(details.get("scopes", ())):
        raise RegistrationError(f"{where} needs scopes, so that its cache_scope cannot be 'public'")
    ttl_ms = None if ttl is None else to_milliseconds(ttl, f"{where}: ttl")
    return {"ttl_ms": ttl_ms, "cache_scope": scope}


def _check_fixed(uri: str, function: Callable[..., object], signature: Signature) -> None:
    if not is_uri(uri):  # resources.uri.custom-scheme
        raise RegistrationError(
            f"resource {uri!r}: invalid URI; expected a scheme, as in 'note://today', and only "
            "characters that are allowed in a URI"
        )
    needed = [parameter.name for parameter in signature.parameters if parameter.required]
    if needed:
        variables = "".join(f"{{{name}}}" for name in needed)
        raise RegistrationError(
            f"resource {uri!r} has no variables, but its function at {source_location(function)} "
            f"needs {_format_names(needed)}; write a template such as '{uri}/{variables}', or give "
            "defaults"
        )


def _parse(uri: str) -> UriTemplate:
    try:
        template = uri_template.parse(uri)
        sample = template.expand(dict.fromkeys(template.variables, "x"))
    except ValueError as error:
        raise RegistrationError(f"resource {uri!r}: invalid URI template: {error}") from None
    if not is_uri(sample):
        if ":" not in uri.partition("{")[0]:
            path = uri.lstrip("/")
            raise RegistrationError(
                f"resource {uri!r}: a URI begins with a scheme; write for example 'desk://{path}'"
            )
        raise RegistrationError(
            f"resource {uri!r} does not expand to URIs: with every variable set to 'x' it gives "
            f"{sample!r}"
        )
    return template


def _check_template(
    template: UriTemplate, function: Callable[..., object], signature: Signature
) -> None:
    required = {parameter.name: parameter.required for parameter in signature.parameters}
    unknown = [name for name in template.variables if name not in required]
    unset = [name for name, needed in required.items() if needed and name not in template.variables]
    optional = [name for name in _may_be_absent(template) if required.get(name)]
    faults = []
    if unknown:
        faults.append(f"{_format_names(unknown)} in the template but not a parameter")
    if unset:
        faults.append(f"{_format_names(unset)} a parameter without default but not in the template")
    if optional:
        faults.append(f"{_format_names(optional)} optional in the template but without a default")
    if faults:
        raise RegistrationError(
            f"resource {template.text!r} does not fit its function at {source_location(function)}: "
            + "; ".join(faults)
        )


def _format_names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _may_be_absent(template: UriTemplate) -> list[str]:
    """Return the variables that a matching URI may leave out."""
    absent = []
    for name in template.variables:
        others = {other: "x" for other in template.variables if other != name}
        found = template.match(template.expand(others))
        if found is not None and name not in found:
            absent.append(name)
    return absent
