"""A raw client over HTTP: the test chooses every byte, and a monitor judges every message."""

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from accord.http.rules.sse import Decoder, Event
from accord.protocol.monitor import Monitor
from accord.trace import HttpFacts, Record
from support.waiting import LONG

if TYPE_CHECKING:
    from accord.protocol.violation import Violation

BOTH = "application/json, text/event-stream"
REVISION = "2025-06-18"


def call(id: Any, tool: str, *, token: Any = None, **arguments: Any) -> dict[str, Any]:
    """A call of a tool; a token asks for progress."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def initialize(revision: str = REVISION, **capabilities: Any) -> dict[str, Any]:
    return request(
        "open",
        "initialize",
        protocolVersion=revision,
        capabilities=capabilities,
        clientInfo={"name": "raw", "version": "1"},
    )


def text_of(message: dict[str, Any]) -> str:
    """The text of a tool's result."""
    return str(message["result"]["content"][0]["text"])


class Response:
    """A response: the head at once, the body when it is read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.status = 0
        self.headers: dict[str, str] = {}
        self.events = Decoder()
        self.last_id: str | None = None
        self._pending: list[Any] = []
        self.names: list[str] = []
        self.ids: list[str | None] = []
        self.raw = b""
        self.whole = False
        self.talk: Talk | None = None
        self.facts: HttpFacts | None = None

    async def head(self) -> Self:
        head = await self._bounded(self._reader.readuntil(b"\r\n\r\n"))
        first, *lines = head.decode("latin-1").rstrip().split("\r\n")
        self.status = int(first.split(" ")[1])
        for line in lines:
            name, value = line.split(":", 1)
            self.headers[name.lower()] = value.strip()
        return self

    async def _bounded(self, work: Any) -> Any:
        async with asyncio.timeout(LONG):
            return await work

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")

    async def chunk(self) -> bytes:
        """The next bytes of the body; none at its end."""
        if self.whole:
            return b""
        if "content-length" in self.headers:
            self.whole = True
            length = int(self.headers["content-length"])
            data: bytes = await self._bounded(self._reader.readexactly(length))
        elif self.headers.get("transfer-encoding") == "chunked":
            size = int(await self._bounded(self._reader.readuntil(b"\r\n")), 16)
            data = (await self._bounded(self._reader.readexactly(size + 2)))[:-2]
            self.whole = size == 0
        else:
            data = await self._bounded(self._reader.read(1 << 16))
            self.whole = not data
        self.raw += data
        return data

    async def body(self) -> bytes:
        """The whole body."""
        while await self.chunk():
            pass
        return self.raw

    async def json(self) -> Any:
        body = await self.body()
        message = json.loads(body)
        if self.talk is not None and self.facts is not None:
            self.talk.observe("server", body, self.facts)
        return message

    async def error(self) -> str:
        """The message of the error in the body."""
        return str((await self.json())["error"]["message"])

    async def event(self) -> Any:
        """The next message of the stream; None at its end."""
        while not self._pending:
            data = await self.chunk()
            if not data:
                return None
            for event in self.events.feed(data):
                self.names.append(event.name)
                self.ids.append(event.id)
                if event.name == "message" and self.talk is not None and self.facts is not None:
                    self.talk.observe_event(event, self.facts)
                is_json = event.name == "message"
                self._pending.append(json.loads(event.data) if is_json else event.data.decode())
        self.last_id = self.events.last_id
        return self._pending.pop(0)

    async def rest(self) -> list[Any]:
        """All messages until the end of the stream."""
        found = []
        while (message := await self.event()) is not None:
            found.append(message)
        return found

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        """Break the connection with a reset."""
        self.writer.transport.abort()


class Talk:
    """One client with a session of its own; each request takes a connection of its own."""

    def __init__(
        self, port: int, *, path: str = "/mcp", host: str = "127.0.0.1", revision: str = REVISION
    ) -> None:
        self.port = port
        self.host = host
        self.path = path
        self.revision = revision
        self.session: str | None = None
        self.version: str | None = None
        self.headers: dict[str, str] = {}
        self.transport: Any = "http"
        self.violations: list[Violation] = []
        self._monitor = Monitor()
        self._open: list[Response] = []
        self._streams = 0
        self._seen = 0
        self._event_ids: set[str | None] = set()
        self._start = time.monotonic()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for response in self._open:
            response.close()
        for response in self._open:
            with suppress(OSError):
                await response.writer.wait_closed()

    # -- judging

    def observe(self, sender: Any, data: bytes, facts: HttpFacts) -> None:
        """Let the monitor see a message."""
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            return
        self._seen += 1
        record = Record(
            sender=sender,
            t=time.monotonic() - self._start,
            transport=self.transport,
            message=data,  # type: ignore[arg-type]  # bytes are what Raw is made of
            http=facts,
            number=self._seen,
        )
        self.violations += self._monitor.observe(record)

    def observe_event(self, event: Event, facts: HttpFacts) -> None:
        """Let the monitor see an event; replayed ones only once."""
        if event.id is None or event.id not in self._event_ids:
            self._event_ids.add(event.id)
            self.observe("server", event.data, facts)

    def broken(self) -> list[str]:
        """The requirements that the server has broken so far."""
        found = [each for each in self.violations if each.party == "server"]
        return [f"{each.requirement}: {each.why}" for each in found]

    # -- requests

    def _head(self, method: str, path: str, headers: dict[str, str | None]) -> bytes:
        given: dict[str, str | None] = {
            "Host": f"{self.host}:{self.port}",
            "Accept": BOTH if method == "POST" else "text/event-stream",
            "Mcp-Session-Id": self.session,
            "MCP-Protocol-Version": self.version,
            **self.headers,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def raw(self, data: bytes) -> Response:
        """Send bytes, and return the response with its head read."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        response = Response(reader, writer)
        self._open.append(response)
        writer.write(data)
        return await response.head()

    async def send(
        self, method: str, body: bytes | None = None, *, path: str | None = None, **headers: Any
    ) -> Response:
        """Send any request."""
        if body is not None:
            headers = {
                "Content_Type": "application/json",
                "Content_Length": str(len(body)),
                **headers,
            }
        head = self._head(method, self.path if path is None else path, headers)
        return await self.raw(head + (body or b""))

    async def post(self, message: Any, **headers: Any) -> Response:
        """Post a message, or bytes."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._streams += 1
        stream = f"post-{self._streams}"
        self.observe("client", body, self._facts("POST", stream))
        response = await self.send("POST", body, **headers)
        response.talk = self
        response.facts = self._facts("POST", stream, response.status)
        return response

    async def get(self, **headers: Any) -> Response:
        """Listen, or resume a stream."""
        response = await self.send("GET", **headers)
        response.talk = self
        last = headers.get("Last_Event_ID")
        sent = {} if last is None else {"last-event-id": last}
        response.facts = HttpFacts("GET", response.status, sent)
        return response

    def _facts(self, method: str, stream: str, status: int | None = None) -> HttpFacts:
        sent = {
            name: value
            for name, value in (
                ("mcp-session-id", self.session),
                ("mcp-protocol-version", self.version),
            )
            if value is not None
        }
        return HttpFacts(method, status, sent, stream)

    # -- sessions and calls

    async def open(self, **capabilities: Any) -> Any:
        """Begin a session, and return the result of initialize."""
        response = await self.post(initialize(self.revision, **capabilities))
        assert response.status == 200, await response.body()
        self.session = response.headers.get("mcp-session-id")
        message = await (response.json() if "json" in response.kind else response.event())
        if self.revision > "2025-03-26":
            self.version = self.revision
        accepted = await self.post(notification("notifications/initialized"))
        assert accepted.status == 202
        return message["result"]

    async def answer(self, message: Any, **headers: Any) -> Any:
        """Post a request and return its answer, skipping messages before it."""
        response = await self.post(message, **headers)
        assert response.status == 200, await response.body()
        if "json" in response.kind:
            return await response.json()
        return (await response.rest())[-1]


class Connection:
    """A connection for many requests, for tests with thousands of them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, method: str, body: bytes = b"", session: str | None = None) -> Response:
        lines = [f"{method} /mcp HTTP/1.1", "Host: localhost", f"Accept: {BOTH}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [] if session is None else [f"Mcp-Session-Id: {session}"]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await Response(self._reader, self._writer).head()

    async def open(self) -> str:
        """Begin a session, and return its id."""
        response = await self.send("POST", json.dumps(initialize()).encode())
        await response.body()
        session = response.headers["mcp-session-id"]
        ready = json.dumps(notification("notifications/initialized")).encode()
        assert (await self.send("POST", ready, session)).status == 202
        return session

    async def listen(self, session: str) -> None:
        """Open a stream and do not read it."""
        assert (await self.send("GET", session=session)).status == 200

    async def delete(self, session: str) -> None:
        assert (await self.send("DELETE", session=session)).status == 204

    def close(self) -> None:
        self._writer.close()
