"""The fake server of a client check: correct, until a scenario overrides something."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

from accord.check.fake_server import launched
from accord.check.probing.failures import ConnectionEnded, MessageTimeout
from accord.check.probing.messages import (
    MessageLog,
    Reply,
    decode_json,
    new_request,
    next_id,
    params_of,
)
from accord.check.probing.raw_connection import RawCarrier, RawConnection
from accord.errors import RequestError
from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import BEFORE_HANDSHAKE, HANDSHAKE, find_revision
from accord.trace import Transport
from accord.types import JsonObject, RevisionId

if TYPE_CHECKING:
    from accord.check.fake_server.client_run import ClientRun
    from accord.check.fake_server.http_transport import CannedResponse, ReceivedRequest

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
        revision: the revision it agrees to; None agrees to the one the client asks for.

    Attributes:
        ids: the requirements that the scenario decides.
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
    """

    ids: ClassVar[tuple[str, ...]] = ()
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

    def __init__(self, revision: RevisionId | None = None) -> None:
        self.revision = revision
        self.lines: list[RawConnection] = []
        self.fake_transport: Any = None
        self.events: list[str] = []
        self.odd: list[bytes] = []
        self.unanswered_methods: list[str] = []
        self.requested_revisions: list[str] = []
        self._started_lines: set[RawConnection] = set()

    @property
    def signals(self) -> list[int]:
        """The signals that launched relays received."""
        return [int(each.split()[1]) for each in self.events if each.startswith("signal")]

    @property
    def name(self) -> str:
        """What it does, as a sentence without a subject."""
        words = (self.__doc__ or type(self).__name__).strip().splitlines()[0]
        return words.rstrip(".")

    # -- the conversation

    async def respond(self, line: RawConnection, request: JsonObject) -> None:
        """Answer a request of the client."""
        id, method = request.get("id"), str(request.get("method"))
        answer: JsonObject = {"jsonrpc": "2.0", "id": id}
        if (
            method not in ("initialize", "ping", "server/discover")
            and line not in self._started_lines
        ):
            self._started_lines.add(line)
            with contextlib.suppress(ConnectionEnded, MessageTimeout):
                await _wait_until_initialized(line)
                await self.before_first_answer(line, request)
        try:
            result = await self.result(line, method, params_of(request))
        except RequestError as error:
            answer["error"] = {"code": error.code, "message": error.message}
        else:
            if result is None:
                return
            answer["result"] = result
        await line.send(answer)

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
        raise RequestError(f"there is no method {method[:80]}", code=-32601)

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
            "serverInfo": {"name": "accord-check", "version": "1"},
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
        id = f"ask-{next_id()}"
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
    """Return the spoken revisions in which a requirement holds."""
    row = catalogue()[id]
    return tuple(id for id in HANDSHAKE if row.holds_in(id))


def client_scenario(
    *ids: str,
    on: tuple[Transport, ...] = ("stdio", "http", "sse"),
    is_judged: bool = True,
    revisions: tuple[RevisionId, ...] = (),
) -> Callable[[type[FakeServer]], type[FakeServer]]:
    """Register a scenario of a client check: a fake server that decides these requirements."""

    def register(server: type[FakeServer]) -> type[FakeServer]:
        server.ids, server.on, server.is_judged, server.revisions = ids, on, is_judged, revisions
        CLIENT_SCENARIOS.append(server)
        return server

    return register


class FakeTransport:
    """Connects clients to a fake server.

    Attributes:
        url: over HTTP, where the client connects.
        requests: over HTTP, all requests of the client, in order.
        most_streams: over HTTP, how many event streams were open at the same time.
        command: over stdio, the command that the client has to launch.
        pids: over stdio, the launched processes.
    """

    def __init__(self, server: FakeServer, patience: float) -> None:
        self._fake = server
        self._patience = patience
        self.url = ""
        self.requests: list[ReceivedRequest] = []
        self.most_streams = 0
        self.command: list[str] = []
        self.pids: list[int] = []

    def _open_line(self, carrier: RawCarrier, transport: Transport) -> RawConnection:
        log = MessageLog(transport, "client", is_judged=self._fake.is_judged)
        line = RawConnection(carrier, log, patience=self._patience, me="server")
        line.respond = self._fake.respond
        self._fake.lines.append(line)
        return line


# -- over stdio: a port to which the relays connect that clients launch

_CHUNK: Final = 64 * 1024
_LONGEST: Final = 64 * 1024 * 1024
_CLOSING: Final = 1.0


class _RelayConnection:
    """The standard streams of one launched relay."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def open(self, line: RawConnection) -> None:
        """Do nothing: the client has connected."""

    async def send(self, data: bytes) -> None:
        """Send a message and a newline."""
        try:
            self._writer.write(data + b"\n")
            await self._writer.drain()
        except OSError:
            raise ConnectionEnded("the client no longer reads") from None

    async def close(self) -> None:
        """Close the relay's output, which ends the relay."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._writer.wait_closed()


class FakeStdioTransport(FakeTransport):
    """Connects a fake server to launched relays."""

    def __init__(self, server: FakeServer, *, patience: float = 5.0) -> None:
        super().__init__(server, patience)
        self._tasks: set[asyncio.Task[None]] = set()
        self._key = secrets.token_hex(8)
        self._server: asyncio.Server
        self._controls: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.command = [*launched.COMMAND, "relay", str(port), self._key]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self._fake.lines:
            await line.close()
        for writer in self._controls:
            with contextlib.suppress(OSError):
                writer.write(b"exit 0\n")
                writer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            words = (await reader.readline()).decode(errors="replace").split()
            if len(words) != 3 or not secrets.compare_digest(words[0], self._key):
                writer.close()
            elif words[1] == "control":
                self.pids.append(int(words[2]))
                self._controls.append(writer)
                await self._hear_control(reader)
            else:
                await self._hear_data(reader, writer)
        except (asyncio.CancelledError, OSError):
            writer.close()
        finally:
            self._tasks.discard(task)

    async def _hear_control(self, reader: asyncio.StreamReader) -> None:
        for command in self._fake.relay_commands:
            self._controls[-1].write(f"{command}\n".encode())
        try:
            while line := (await reader.readline()).decode(errors="replace"):
                self._fake.events.append(line.strip())
        finally:
            self._fake.events.append("gone")

    async def _hear_data(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = self._fake
        line = self._open_line(_RelayConnection(writer), "stdio")
        rest = b""
        while chunk := await reader.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            for each in whole:
                self._take(line, each)
            if len(rest) > _LONGEST:
                break
        if rest.strip():
            server.odd.append(rest)
            self._take(line, rest)
        line.end("the client closed the server's input")
        if "stubborn" not in server.relay_commands:
            writer.close()  # as a server does after its input ended

    def _take(self, line: RawConnection, data: bytes) -> None:
        if not data.strip():
            return
        if not isinstance(decode_json(data.decode(errors="replace")), dict | list):
            self._fake.odd.append(data)
            # Only `odd` shows lines that are not messages.
            return
        line.receive(data)
