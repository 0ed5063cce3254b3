"""The source of tools and resources that an OpenAPI document describes."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict
from urllib.parse import urlsplit

from accord.compose.openapi.answers import AnswerShape, find_shape
from accord.compose.openapi.arguments import PlanBuilder
from accord.compose.openapi.document import (
    ApiDocument,
    ApiOperation,
    DocumentSource,
    Inexpressible,
    SkippedOperation,
    read_document,
)
from accord.compose.openapi.entries import (
    NameGiver,
    OperationCall,
    ToolNames,
    build_resource_entries,
    build_tool_entry,
)
from accord.compose.openapi.schemas import InputConverter, OutputConverter
from accord.compose.openapi.security import AuthOption, Credentials, Security
from accord.errors import RegistrationError, ToolError, refuse_unknown
from accord.http.client.sender import HttpClientOptions
from accord.server.context import Context
from accord.server.entries.entry import EntryKind
from accord.server.entries.resources import ResourceEntry
from accord.server.sources.source import Source

if TYPE_CHECKING:
    from accord.compose.openapi.sending import ApiResponse, ApiSender
    from accord.server.entries.entry import Entry


log = logging.getLogger("accord.compose")

ResourceChoice: TypeAlias = bool | Collection[str] | Callable[[ApiOperation], bool]
"""Which GET operations become resources: all, those with an `operationId`, or a function."""

_LOGGED: Final = 10
_SCHEME: Final = re.compile(r"[^a-z0-9]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class OpenApiOptions(TypedDict, total=False):
    """Options of `openapi()` beside the server and the credentials.

    Attributes:
        names: of tools, by `operationId` or `GET /path`; or a function of the operation.
        as_resources: which GET operations become resources in place of tools.
        name: of the source, and the scheme of its URIs; from the title by default.
        timeout: seconds that a call may take.
        max_bytes: the largest answer.
        output_schemas: whether tools have output schemas.
        max_schema_bytes: how large the definitions of one schema may be; the rest is left open.
        http: how requests are sent: proxy, certificates, an aiohttp session.
    """

    names: ToolNames
    as_resources: ResourceChoice
    name: str
    timeout: float
    max_bytes: int
    output_schemas: bool
    max_schema_bytes: int
    http: HttpClientOptions


class OpenApiSource(Source):
    """Offers the operations of an API as tools, and as resources where asked.

    Args:
        document: a file, or the document as a dictionary.
        base_url: of the server, for all operations; by default what the document says.
        auth: credentials.
        headers: those of every request; they are not arguments.
        options: see `OpenApiOptions`.

    Attributes:
        skipped: the operations that cannot become tools, each with the reason.

    Raises:
        RegistrationError: the document cannot be used, or an option does not fit it.
    """

    def __init__(
        self,
        document: DocumentSource,
        *,
        base_url: str | None = None,
        auth: AuthOption = None,
        headers: Mapping[str, str] | None = None,
        options: OpenApiOptions | None = None,
    ) -> None:
        options = options or {}
        known = ("base_url", "auth", "headers", *OpenApiOptions.__annotations__)
        refuse_unknown("openapi()", options, known)
        found = ApiDocument(read_document(document))
        super().__init__(options.get("name") or found.title)
        self.skipped: list[SkippedOperation] = []
        self._base_url = None if base_url is None else _check_url(base_url, "base_url")
        self._security = Security(found.security_schemes, auth)
        self._headers = _check_headers(headers or {})
        self._timeout = _check_number(options, "timeout", 30.0)
        self._max_bytes = int(_check_number(options, "max_bytes", 4 * 1024 * 1024))
        self._http = options.get("http") or HttpClientOptions()
        self._senders: dict[asyncio.AbstractEventLoop, ApiSender] = {}
        self._entries: dict[EntryKind, list[Entry]] = {
            "tools": [],
            "prompts": [],
            "resources": [],
            "resource_templates": [],
        }
        self._load(found, options)

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        """Return what it offers."""
        return self._entries[kind]

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[None]:
        """Keep connections to the API while the source is in use."""
        from accord.compose.openapi.sending import ApiSender

        loop = asyncio.get_running_loop()
        sender = ApiSender(self._http, timeout=self._timeout, max_bytes=self._max_bytes)
        self._senders[loop] = sender
        try:
            yield None
        finally:
            if self._senders.get(loop) is sender:
                del self._senders[loop]
            await sender.close()

    async def _exchange(
        self, call: OperationCall, arguments: dict[str, Any], context: Context[Any]
    ) -> "tuple[ApiResponse, Credentials]":
        request = call.plan.write(arguments)
        sender = self._senders.get(asyncio.get_running_loop())
        if sender is None:
            raise ToolError(f"{self.name} is not connected: its server is not running")
        credentials = await self._security.find(call.operation, context)
        response = await sender.exchange(call.base, request, self._headers, credentials)
        return response, credentials

    # -- loading

    def _load(self, document: ApiDocument, options: OpenApiOptions) -> None:
        most_bytes = options.get("max_schema_bytes", 16 * 1024)
        inputs = InputConverter(document, most_bytes)
        outputs = OutputConverter(document, most_bytes)
        names = NameGiver(options.get("names"))
        hidden = self._security.hidden_parameters | {
            ("header", name.lower()) for name in self._headers
        }
        is_resource = _resource_filter(options.get("as_resources", False))
        scheme = _SCHEME.sub("-", self.name.lower()).strip("-0123456789") or "api"
        has_output = options.get("output_schemas", True)
        for operation in document.operations():
            try:
                plan = PlanBuilder(operation, inputs, hidden).build()
                base = self._base_of(document, operation)
            except Inexpressible as error:
                self.skipped.append(SkippedOperation(operation.label, str(error)))
                continue
            except RecursionError:
                reason = "its schemas nest too deep"
                self.skipped.append(SkippedOperation(operation.label, reason))
                continue
            shape = find_shape(operation, outputs) if has_output else AnswerShape()
            name = names.name(operation)
            call = OperationCall(operation, plan, shape, base, self._exchange)
            needed = set(plan.input_schema.get("required", ())) - set(plan.path_arguments)
            if operation.method == "GET" and not needed and is_resource(operation):
                for entry in build_resource_entries(scheme, name, call):
                    is_fixed = isinstance(entry, ResourceEntry)
                    self._entries["resources" if is_fixed else "resource_templates"].append(entry)
            else:
                self._entries["tools"].append(build_tool_entry(name, call))
        self.skipped += document.skipped
        if not self.skipped:
            names.check_unused()
        self._report()

    def _base_of(self, document: ApiDocument, operation: ApiOperation) -> str:
        if self._base_url is not None:
            return self._base_url
        if not operation.servers:
            raise RegistrationError(f"{self.name}: the document names no server; give base_url=...")
        try:
            return _check_url(operation.servers[0], f"the server of {operation.label}")
        except RegistrationError as error:
            if operation.servers == document.servers:
                raise
            raise Inexpressible(str(error)) from None

    def _report(self) -> None:
        if not self.skipped:
            return
        count = len(self.skipped)
        are_left_out = "operation is left out" if count == 1 else "operations are left out"
        shown = "; ".join(f"{each}: {why}" for each, why in self.skipped[:_LOGGED])
        rest = f"; and {count - _LOGGED} more" if count > _LOGGED else ""
        log.warning("%s: %d %s: %s%s", self.name, count, are_left_out, shown, rest)


def _check_number(
    options: OpenApiOptions, name: Literal["timeout", "max_bytes"], usual: float
) -> float:
    value: object = options.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise RegistrationError(f"{name} is {value!r}, expected a number of more than 0")
    return value


def _resource_filter(choice: ResourceChoice) -> Callable[[ApiOperation], bool]:
    if callable(choice):
        return choice
    if isinstance(choice, bool):
        return lambda _: choice
    chosen = frozenset([choice] if isinstance(choice, str) else choice)
    return lambda operation: operation.id in chosen


def _check_url(url: str, what: str) -> str:
    """Return a URL without the slash at its end.

    Raises:
        RegistrationError: it is not a URL of http or https.
    """
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_fine = False
    if not is_fine or _CONTROL.search(url) or " " in url:
        shown = url.rpartition("@")[2][:120]  # before it may be a password
        raise RegistrationError(
            f"{what} is {shown!r}, expected a URL such as 'https://api.example.com/v1'; give "
            "base_url=..."
        )
    return url.partition("#")[0].partition("?")[0].rstrip("/")


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        text: object = value
        if not isinstance(text, str) or _CONTROL.search(name) or _CONTROL.search(text):
            raise RegistrationError(f"headers: the value of {name!r} is not text on one line")
    return dict(headers)
