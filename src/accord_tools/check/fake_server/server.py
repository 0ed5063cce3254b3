"""The fake server of a client check: correct, until a scenario overrides something."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from accord.errors import InvalidParams, MethodNotFound, RequestError, UnsupportedRevision
from accord.protocol.catalogue import catalogue
from accord.protocol.exchange import (
    META_CAPABILITIES,
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    meta_of,
)
from accord.protocol.revisions import (
    BEFORE_HANDSHAKE,
    HANDSHAKE,
    REVISIONS,
    Revision,
    find_revision,
)
from accord.trace import Transport
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.messages import (
    MessageLog,
    Reply,
    new_notification,
    new_request,
    next_id,
    params_of,
)
from accord_tools.check.probing.raw_connection import (
    ConnectionEnded,
    MessageTimeout,
    RawCarrier,
    RawConnection,
)

if TYPE_CHECKING:
    from accord_tools.check.fake_server.client_run import ClientRun
    from accord_tools.check.fake_server.transports import CannedResponse, ReceivedRequest


STATELESS: Final[Revision] = [row for row in REVISIONS.values() if not row.handshake][-1]
"""The newest revision without a handshake."""

SERVER_INFO: Final = {"name": "accord-check", "version": "1"}
TASKS: Final = "io.modelcontextprotocol/tasks"
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""The methods whose results say how long they may be kept."""

_NOT_KEPT: Final[Mapping[str, object]] = {"ttlMs": 0, "cacheScope": "private"}
_OF_CHANGES: Final[Mapping[str, tuple[str, str]]] = {
    "toolsListChanged": ("tools", "listChanged"),
    "promptsListChanged": ("prompts", "listChanged"),
    "resourcesListChanged": ("resources", "listChanged"),
    "resourceSubscriptions": ("resources", "subscribe"),
}


def names_own_revision(message: object) -> bool:
    """Return whether a message names the revision that it belongs to."""
    return isinstance(message, dict) and META_VERSION in meta_of(message.get("params"))


def capabilities_in(request: Mapping[str, object]) -> JsonObject:
    """Return what a request says that the client can do."""
    declared = meta_of(request.get("params")).get(META_CAPABILITIES)
    return declared if isinstance(declared, dict) else {}


def has_extension(capabilities: Mapping[str, object], name: str) -> bool:
    """Return whether an extension is declared."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and name in extensions


def find_refusal(request: JsonObject, supported: Sequence[str]) -> RequestError | None:
    """Return why a correct server refuses a request before it looks at the parameters."""
    method = str(request.get("method"))
    meta = meta_of(request.get("params"))
    named = meta.get(META_VERSION)
    if method == "initialize" or (isinstance(named, str) and named != STATELESS.id):
        if named is None:
            named = params_of(request).get("protocolVersion")
        text = f"this server speaks {', '.join(supported)}"
        return UnsupportedRevision(text, data={"supported": list(supported), "requested": named})
    if not isinstance(named, str) or not isinstance(meta.get(META_CAPABILITIES), dict):
        return InvalidParams(f"the _meta of {method[:80]} has no revision or no capabilities")
    if method not in STATELESS.requests["client"]:
        return MethodNotFound(f"there is no method {method[:80]}")
    return None


def complete_result(
    method: str, result: Mapping[str, object], hints: Mapping[str, object] | None
) -> JsonObject:
    """Return a result with what every result of a server has; what it has already stays.

    Args:
        method: of the request.
        result: what answers it.
        hints: how long it may be kept; None leaves that out.
    """
    made: JsonObject = {"resultType": "complete", **result}
    made["_meta"] = {META_SERVER: SERVER_INFO, **meta_of(result)}
    if method in CACHEABLE and made["resultType"] == "complete":
        made = {**({} if hints is None else {**_NOT_KEPT, **hints}), **made}
    return made


def acknowledged_part(request: JsonObject, capabilities: Mapping[str, object]) -> JsonObject:
    """Return the notifications that a server will send, of those that a client listens for."""
    wanted = params_of(request).get("notifications")
    found: JsonObject = {}
    for name, value in wanted.items() if isinstance(wanted, dict) else ():
        area, capability = _OF_CHANGES.get(name, ("", ""))
        offered = capabilities.get(area)
        if isinstance(offered, dict) and offered.get(capability) and value:
            found[name] = value
    return found


def tag(id: object, params: Mapping[str, object] | None = None) -> JsonObject:
    """Return the parameters of a notification for a subscription, with the id of it."""
    given = params or {}
    return {**given, "_meta": {**meta_of(given), META_SUBSCRIPTION: id}}


Era: TypeAlias = Literal["handshake", "stateless", "both"]
"""The revisions under which a scenario runs: with a handshake, without one, or under both."""

Result: TypeAlias = Mapping[str, object] | None
"""The result of a request; None leaves it unanswered."""

TOOLS: Final[tuple[Mapping[str, object], ...]] = (
    {
        "name": "echo",
        "description": "Say the same again.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    },
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
)
RESOURCES: Final = ({"uri": "play://note", "name": "note", "mimeType": "text/plain"},)
PROMPTS: Final = (
    {
        "name": "greet",
        "arguments": [{"name": "name", "description": "the name to greet", "required": False}],
    },
)
LISTS: Final[Mapping[str, tuple[str, tuple[Mapping[str, object], ...]]]] = {
    "tools/list": ("tools", TOOLS),
    "resources/list": ("resources", RESOURCES),
    "resources/templates/list": (
        "resourceTemplates",
        ({"uriTemplate": "play://{name}", "name": "any"},),
    ),
    "prompts/list": ("prompts", PROMPTS),
}
_RESULTS: Final[Mapping[str, JsonObject]] = {
    "ping": {},
    "logging/setLevel": {},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "prompts/get": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hello."}}],
    },
    "completion/complete": {"completion": {"values": ["one", "two"], "total": 2, "hasMore": False}},
}


class FakeServer:
    """A correct server; scenarios of a client check are its subclasses.

    Args:
        revision: the revision it agrees to; None agrees to any that has a handshake.

    Attributes:
        ids: the requirements that the scenario decides.
        shows: beginnings of the ids of further requirements, which a monitor judges in its runs.
        era: the revisions under which it can run.
        needs_both: whether it concerns only clients that speak revisions of both eras.
        is_dual: whether it takes stateless requests, and handshakes.
        on: the transports on which it can run.
        lines: the connections that clients opened, in order.
        is_judged: whether a monitor judges the client; False if the scenario itself breaks rules.
        revisions: the revisions under which it can run; empty for all.
        env: variables for the client.
        events: over stdio, what happened to the launched servers: `input ended`, `signal 15`,
            `gone`.
        relay_commands: over stdio, commands for each relay: `stubborn`, `stderr some text`.
        odd: over stdio, the lines of the client that are not JSON.
        unanswered_methods: requests that a connected client never answered.
        capabilities: what the server declares.
        streams: over HTTP, whether answers are event streams.
        listens: over HTTP, whether a GET is answered with a stream.
        retry: over HTTP, the milliseconds of the `retry` field of events.
        is_older: over HTTP, whether it speaks only HTTP with SSE.
        refusal: the status with which it then refuses Streamable HTTP.
        hints: without a handshake, how long results may be kept.
        is_stamped: without a handshake, whether results say of which type they are.
        comment: without a handshake over HTTP, what precedes each event of a stream.
        fulfilled: without a handshake, the requests that got a result.
        listening: without a handshake, the open requests for notifications.
        visited: the paths beside that of the server which were requested over HTTP.
    """

    ids: ClassVar[tuple[str, ...]] = ()
    shows: ClassVar[tuple[str, ...]] = ()
    era: ClassVar[Era] = "handshake"
    needs_both: ClassVar[bool] = False
    on: ClassVar[tuple[Transport, ...]] = ("stdio", "http", "sse")
    is_judged: ClassVar[bool] = True
    revisions: ClassVar[tuple[RevisionId, ...]] = ()
    env: ClassVar[Mapping[str, str]] = {}
    relay_commands: tuple[str, ...] = ()
    capabilities: Mapping[str, object] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    }
    streams = False
    listens = True
    retry: int | None = None
    is_older = False
    refusal = 405
    hints: Mapping[str, object] = {}
    is_stamped = True
    comment = b""
    is_dual = False

    def __init__(self, revision: RevisionId | None = None) -> None:
        self.revision = revision
        self.lines: list[RawConnection] = []
        self.fake_transport: Any = None
        self.events: list[str] = []
        self.odd: list[bytes] = []
        self.unanswered_methods: list[str] = []
        self.requested_revisions: list[str] = []
        self.fulfilled: list[JsonObject] = []
        self.listening: list[JsonObject] = []
        self.visited: list[str] = []
        self._started_lines: set[RawConnection] = set()
        self._has_integer_id = False

    @property
    def signals(self) -> list[int]:
        """The signals that launched relays received."""
        return [int(each.split()[1]) for each in self.events if each.startswith("signal")]

    @property
    def name(self) -> str:
        """What it does, as a sentence without a subject."""
        words = (self.__doc__ or type(self).__name__).strip().splitlines()[0]
        return words.rstrip(".")

    @property
    def is_stateless(self) -> bool:
        """Whether it takes stateless requests."""
        return self.is_dual or not self.has_handshake

    @property
    def has_handshake(self) -> bool:
        """Whether it answers initialize."""
        return self.revision is None or REVISIONS[self.revision].handshake

    @property
    def supported_revisions(self) -> list[str]:
        """The revisions that it names to clients that send requests on their own."""
        return [STATELESS.id, *([*HANDSHAKE][::-1] if self.is_dual else ())]

    # -- the conversation

    async def respond(self, line: RawConnection, request: JsonObject) -> None:
        """Answer a request of the client."""
        answer: JsonObject = {"jsonrpc": "2.0", "id": request.get("id")}
        stands_alone = self.is_stateless and (not self.has_handshake or names_own_revision(request))
        try:
            if stands_alone:
                result = await self.stateless_result(line, request)
            else:
                result = await self.session_result(line, request)
        except RequestError as error:
            answer["error"] = {"code": error.code, "message": error.message}
            if error.data is not None:
                answer["error"]["data"] = error.data
        else:
            if result is None:
                return
            answer["result"] = result
            if stands_alone:
                self.fulfilled.append(request)
        await line.send(answer)

    async def session_result(self, line: RawConnection, request: JsonObject) -> Result:
        """Return the result of a request after a handshake, or of the handshake itself."""
        method = str(request.get("method"))
        if method not in ("initialize", "ping", "server/discover"):
            await self._begin(line, request)
        return await self.result(line, method, params_of(request))

    async def _begin(self, line: RawConnection, request: JsonObject) -> None:
        """Run the scenario before the first request of a connection is answered."""
        if line not in self._started_lines:
            self._started_lines.add(line)
            with contextlib.suppress(ConnectionEnded, MessageTimeout):
                if not names_own_revision(request):
                    await _wait_until_initialized(line)
                await self.before_first_answer(line, request)

    # -- stateless requests

    async def stateless_result(self, line: RawConnection, request: JsonObject) -> Result:
        """Return the result of a request that stands on its own.

        Raises:
            RequestError: the answer is an error.
        """
        method, params = str(request.get("method")), params_of(request)
        if method == "initialize":
            self.requested_revisions.append(str(params.get("protocolVersion")))
        refusal = find_refusal(request, self.supported_revisions)
        if refusal is not None:
            raise refusal
        line.revision = STATELESS.id
        line.client_capabilities = capabilities_in(request)
        if method == LISTEN:
            await self.listen(line, request)
            return None
        if method == "server/discover":
            result: Result = self.discover_result(line)
        else:
            await self._begin(line, request)
            result = await self.work_result(line, request)
        if result is None or not self.is_stamped:
            return result
        return complete_result(method, result, self.hints_of(method))

    def hints_of(self, method: str) -> Mapping[str, object] | None:
        """Return how long the result of a method may be kept; None leaves that out."""
        return self.hints

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        """Return the result of a request that is more than a question about the server.

        Raises:
            RequestError: the answer is an error.
        """
        return await self.result(line, str(request.get("method")), params_of(request))

    def discover_result(self, line: RawConnection) -> JsonObject:
        """Return the answer to server/discover."""
        return {
            "supportedVersions": self.supported_revisions,
            "capabilities": dict(self.capabilities),
        }

    async def listen(self, line: RawConnection, request: JsonObject) -> None:
        """Acknowledge a request for notifications, which stays open."""
        self.listening.append(request)
        part = acknowledged_part(request, self.capabilities)
        await self.notify(line, request, ACKNOWLEDGED, {"notifications": part})

    async def notify(
        self,
        line: RawConnection,
        subscription: JsonObject,
        method: str,
        params: Mapping[str, object] | None = None,
    ) -> None:
        """Send a notification to a client that listens, on the stream of its request."""
        id = subscription.get("id")
        message = new_notification(method, tag(id, params))
        if hasattr(line.carrier, "send_beside"):
            await line.carrier.send_beside(id, message)
        else:
            await line.send(message)

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        """Return the result of a request; None leaves it unanswered.

        Raises:
            RequestError: the answer is an error.
        """
        if method == "initialize":
            return self.initialize_result(line, params)
        if method in LISTS:
            member, entries = LISTS[method]
            return {member: list(entries)}
        if method == "tools/call":
            return await self.call(line, params)
        if method == "resources/read":
            uri = str(params.get("uri"))
            return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "a note"}]}
        if method in _RESULTS:
            return _RESULTS[method]
        raise MethodNotFound(f"there is no method {method[:80]}")

    def initialize_result(self, line: RawConnection, params: JsonObject) -> JsonObject:
        """Return the answer to initialize."""
        request = params.get("protocolVersion")
        self.requested_revisions.append(str(request))
        line.revision = self.revision or (find_revision(request) or BEFORE_HANDSHAKE).id
        declared = params.get("capabilities")
        line.client_capabilities = declared if isinstance(declared, dict) else {}
        return {
            "protocolVersion": line.revision,
            "capabilities": dict(self.capabilities),
            "serverInfo": SERVER_INFO,
        }

    async def call(self, line: RawConnection, params: JsonObject) -> Result:
        """Return the result of a tool call."""
        arguments = params.get("arguments")
        arguments = arguments if isinstance(arguments, dict) else {}
        text = str(arguments.get("text", "a text"))
        if params.get("name") == "add":
            text = str(arguments.get("a", 0))
        return {"content": [{"type": "text", "text": text}], "isError": False}

    async def before_first_answer(self, line: RawConnection, request: JsonObject) -> None:
        """Run the part of a scenario during which the client waits for its first result."""

    async def ask(
        self,
        line: RawConnection,
        method: str,
        params: object = None,
        *,
        beside: Mapping[str, object] | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        """Send a request to the client and wait; None if it stays connected without an answer.

        Over HTTP it travels on the stream of the client's request `beside`.

        Raises:
            ConnectionEnded: the client disconnected.
        """
        # Integers and strings in turn: an answer repeats the id with its JSON type.
        number = next_id()
        self._has_integer_id = not self._has_integer_id
        id = number if self._has_integer_id else f"ask-{number}"
        await self.send(line, new_request(method, params, id=id), beside=beside)
        try:
            return await line.reply_to(id, what=method, patience=patience)
        except MessageTimeout:
            self.unanswered_methods.append(method)
            return None

    async def send(
        self, line: RawConnection, message: object, *, beside: Mapping[str, object] | None
    ) -> None:
        """Send a message, over HTTP on the stream of a request that waits for its answer."""
        if beside is not None and self.streams and hasattr(line.carrier, "send_beside"):
            await line.carrier.send_beside(beside.get("id"), message)
        else:
            await line.send(message)

    # -- HTTP

    def http(self, request: "ReceivedRequest") -> "CannedResponse | None":
        """Return a raw response to an HTTP request; None leaves it to the conversation."""
        return None

    # -- the end

    async def judge(self, run: "ClientRun") -> None:
        """Record verdicts on the requirements of this scenario."""

    def declares(self, line: RawConnection, capability: str) -> bool:
        """Return whether the client declared a capability."""
        return capability in line.client_capabilities


CLIENT_SCENARIOS: Final[list[type[FakeServer]]] = []


async def _wait_until_initialized(line: RawConnection) -> None:
    """Wait for notifications/initialized, which some requests overtake."""
    with contextlib.suppress(MessageTimeout):
        await line.until(
            lambda message: message.get("method") == "notifications/initialized",
            "the client's readiness",
            patience=1.0,
        )
    # Let the client finish what it does at the same time, such as opening a stream.
    await asyncio.sleep(0)


def revisions_of(id: str) -> tuple[RevisionId, ...]:
    """Return the revisions with a handshake in which a requirement holds."""
    row = catalogue()[id]
    return tuple(id for id in HANDSHAKE if row.holds_in(id))


def client_scenario(
    *ids: str,
    on: tuple[Transport, ...] = ("stdio", "http", "sse"),
    is_judged: bool = True,
    revisions: tuple[RevisionId, ...] = (),
    era: Era = "handshake",
    shows: tuple[str, ...] = (),
) -> Callable[[type[FakeServer]], type[FakeServer]]:
    """Register a scenario of a client check: a fake server that decides these requirements."""

    def register(server: type[FakeServer]) -> type[FakeServer]:
        server.ids, server.on, server.is_judged, server.revisions = ids, on, is_judged, revisions
        server.era, server.shows = era, shows
        CLIENT_SCENARIOS.append(server)
        return server

    return register


class FakeTransport:
    """Connects clients to a fake server.

    Attributes:
        fake: the server that they reach.
        url: over HTTP, where the client connects.
        origin: where pages can be requested over HTTP, whatever the transport.
        requests: over HTTP, all requests of the client, in order.
        most_streams: over HTTP, how many event streams were open at the same time.
        command: over stdio, the command that the client has to launch.
        pids: over stdio, the launched processes.
    """

    def __init__(self, server: FakeServer, patience: float) -> None:
        self.fake = server
        self._patience = patience
        self.url = ""
        self.origin = ""
        self.requests: list[ReceivedRequest] = []
        self.most_streams = 0
        self.command: list[str] = []
        self.pids: list[int] = []

    def open_line(self, carrier: RawCarrier, transport: Transport) -> RawConnection:
        """Return a connection of a client, which the fake server answers."""
        clock = asyncio.get_running_loop().time
        log = MessageLog(transport, "client", is_judged=self.fake.is_judged, clock=clock)
        line = RawConnection(carrier, log, patience=self._patience, me="server")
        line.respond = self.fake.respond
        self.fake.lines.append(line)
        return line
