"""How parties introduce themselves: capabilities, `initialize`, `server/discover`."""

from typing import Annotated

import msgspec

from accord.types._base import (
    CacheableResult,
    JsonObject,
    Params,
    ProgressToken,
    RequestId,
    Result,
    Struct,
    must_send,
    only,
    since,
    until,
    was,
)
from accord.types.content import Icon
from accord.types.server_features import LoggingLevel

__all__ = [
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "DiscoverParams",
    "DiscoverResult",
    "ElicitationCapability",
    "ElicitationTasks",
    "FormElicitationCapability",
    "Implementation",
    "InitializeParams",
    "InitializeResult",
    "MissingCapabilityData",
    "NotificationMeta",
    "PromptsCapability",
    "RequestMeta",
    "ResourcesCapability",
    "ResultMeta",
    "RootsCapability",
    "SamplingCapability",
    "SamplingTasks",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "ToolTasks",
    "ToolsCapability",
    "UnsupportedVersionData",
]


class Implementation(Struct):
    """Name and version of a program that speaks the protocol."""

    name: str
    version: str
    title: Annotated[str | None, since("2025-06-18")] = None
    description: Annotated[str | None, since("2025-11-25")] = None
    icons: Annotated[list[Icon] | None, since("2025-11-25")] = None
    website_url: Annotated[str | None, since("2025-11-25")] = None


class RootsCapability(Struct):
    """The client can list its roots."""

    list_changed: Annotated[bool, until("2025-11-25")] = False


class SamplingCapability(Struct):
    """The client can ask a model."""

    context: Annotated[JsonObject | None, since("2025-11-25")] = None
    tools: Annotated[JsonObject | None, since("2025-11-25")] = None


@since("2025-06-18")
class ElicitationCapability(Struct):
    """The client can ask its user. Neither mode named means `form` alone."""

    form: Annotated[JsonObject | None, since("2025-11-25")] = None
    url: Annotated[JsonObject | None, since("2025-11-25")] = None


@since("2025-06-18")
class FormElicitationCapability(Struct):
    """The client can ask its user by a form, which was the only mode."""


class SamplingTasks(Struct):
    """Sampling requests that may be tasks."""

    create_message: JsonObject | None = None


class ElicitationTasks(Struct):
    """Elicitation requests that may be tasks."""

    create: JsonObject | None = None


class ToolTasks(Struct):
    """Tool requests that may be tasks."""

    call: JsonObject | None = None


class ClientTaskRequests(Struct):
    """Requests to the client that may be tasks."""

    sampling: SamplingTasks | None = None
    elicitation: ElicitationTasks | None = None


class ServerTaskRequests(Struct):
    """Requests to the server that may be tasks."""

    tools: ToolTasks | None = None


@only("2025-11-25")
class ClientTasksCapability(Struct):
    """The client can run requests as tasks."""

    list: JsonObject | None = None
    cancel: JsonObject | None = None
    requests: ClientTaskRequests | None = None


@only("2025-11-25")
class ServerTasksCapability(Struct):
    """The server can run requests as tasks."""

    list: JsonObject | None = None
    cancel: JsonObject | None = None
    requests: ServerTaskRequests | None = None


class ClientCapabilities(Struct):
    """What a client can do."""

    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: Annotated[
        ElicitationCapability | None, was(FormElicitationCapability, until="2025-06-18")
    ] = None
    tasks: ClientTasksCapability | None = None
    experimental: dict[str, JsonObject] | None = None
    # In the schema since 2026-07-28, but extensions may be negotiated in older handshakes as well.
    extensions: dict[str, JsonObject] | None = None


class PromptsCapability(Struct):
    """The server offers prompts."""

    list_changed: bool = False


class ResourcesCapability(Struct):
    """The server offers resources."""

    subscribe: bool = False
    list_changed: bool = False


class ToolsCapability(Struct):
    """The server offers tools."""

    list_changed: bool = False


class ServerCapabilities(Struct):
    """What a server can do."""

    tools: ToolsCapability | None = None
    resources: ResourcesCapability | None = None
    prompts: PromptsCapability | None = None
    completions: Annotated[JsonObject | None, since("2025-03-26")] = None
    logging: JsonObject | None = None
    tasks: ServerTasksCapability | None = None
    experimental: dict[str, JsonObject] | None = None
    # In the schema since 2026-07-28, but extensions may be negotiated in older handshakes as well.
    extensions: dict[str, JsonObject] | None = None


@until("2025-11-25")
class InitializeParams(Params):
    """Open a session."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


@until("2025-11-25")
class InitializeResult(Result):
    """Accept a session."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


@since("2026-07-28")
class DiscoverParams(Params):
    """Ask what a server can do."""


@since("2026-07-28")
class DiscoverResult(CacheableResult):
    """Say what the server can do."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class RequestMeta(Struct):
    """The keys of a request's `_meta` that the protocol defines; for reading only."""

    protocol_version: Annotated[str | None, since("2026-07-28"), must_send(since="2026-07-28")] = (
        msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=None)
    )
    client_capabilities: Annotated[
        ClientCapabilities | None, since("2026-07-28"), must_send(since="2026-07-28")
    ] = msgspec.field(name="io.modelcontextprotocol/clientCapabilities", default=None)
    client_info: Annotated[Implementation | None, since("2026-07-28")] = msgspec.field(
        name="io.modelcontextprotocol/clientInfo", default=None
    )
    log_level: Annotated[LoggingLevel | None, since("2026-07-28")] = msgspec.field(
        name="io.modelcontextprotocol/logLevel", default=None
    )
    progress_token: ProgressToken | None = None


@since("2026-07-28")
class ResultMeta(Struct):
    """The keys of a result's `_meta` that the protocol defines; for reading only."""

    server_info: Implementation | None = msgspec.field(
        name="io.modelcontextprotocol/serverInfo", default=None
    )
    subscription_id: RequestId | None = msgspec.field(
        name="io.modelcontextprotocol/subscriptionId", default=None
    )


@since("2026-07-28")
class NotificationMeta(Struct):
    """The keys of a notification's `_meta` that the protocol defines; for reading only."""

    subscription_id: RequestId | None = msgspec.field(
        name="io.modelcontextprotocol/subscriptionId", default=None
    )


@since("2026-07-28")
class UnsupportedVersionData(Struct):
    """The data of error -32022."""

    supported: list[str]
    requested: str


@since("2026-07-28")
class MissingCapabilityData(Struct):
    """The data of error -32021."""

    required_capabilities: ClientCapabilities
