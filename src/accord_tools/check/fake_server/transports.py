"""The transports of a fake server: HTTP, Streamable or with SSE, and stdio through a relay."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping, MutableMapping
from itertools import count
from typing import Any, Final, Self

import msgspec

from accord.errors import MissingExtra
from accord.http.rules import headers as names
from accord.http.rules import sse
from accord.http.rules.headers import media_type
from accord.http.rules.sse import CONTENT_TYPE, Decoder
from accord.http.rules.stateless import status_of_refusal
from accord.http.server.exchange import Receive, ResponseCut, Scope, Send
from accord.http.server.sockets import listen
from accord.trace import ALL, HttpFacts
from accord.types import JsonObject
from accord_tools.check.fake_server import launched
from accord_tools.check.fake_server.server import (
    LISTEN,
    STATELESS,
    FakeServer,
    FakeTransport,
    names_own_revision,
)
from accord_tools.check.probing.messages import decode_json, is_request, objects_in, params_of
from accord_tools.check.probing.raw_connection import ConnectionEnded, RawConnection


class ExchangeNotes:
    """Notes of one request and its response, once it is known to which connection they belong.

    Args:
        request: the request.
        name: of the exchange.
    """

    def __init__(self, request: "ReceivedRequest", name: str) -> None:
        self.facts = HttpFacts(
            method=request.method,
            headers=request.headers,
            recorded=ALL,
            exchange=name,
            path=request.path,
            query=request.query,
        )
        self._request = request
        self._connection: RawConnection | None = None
        self._decoder = Decoder(with_empty=True)
        self._is_stream = False

    def belong_to(self, connection: "RawConnection", *, has_message: bool) -> HttpFacts:
        """Note the request, unless its message is recorded; return its facts."""
        self._connection = connection
        if not has_message:
            connection.log.note("client", self.facts)
        return self.facts

    def wrap(self, send: Send) -> Send:
        """Return a function that sends, and notes what was sent."""

        async def send_and_note(message: MutableMapping[str, Any]) -> None:
            if self._is_stream and not message.get("more_body", False):
                # Before the client can see it, or the time until it comes back would be too short.
                self.end()
            await send(message)
            if self._connection is not None:
                self._note(self._connection, message)

        return send_and_note

    def _note(self, connection: "RawConnection", message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            pairs = message["headers"]
            headers = {name.decode(): text.decode("latin-1") for name, text in pairs}
            self._is_stream = media_type(headers.get("content-type")) == CONTENT_TYPE
            self._tell(connection, status=message["status"], headers=headers, recorded=ALL)
        elif self._is_stream:
            for event in self._decoder.feed(message.get("body", b"")):
                data = event.data.decode(errors="replace") if event.name == "endpoint" else None
                retry = self._decoder.retry
                self._tell(connection, event=event.name, id=event.id, retry=retry, data=data)

    def end(self) -> None:
        """Note the end of a stream and the party that ended it; may be repeated."""
        if self._connection is not None and self._is_stream:
            self._is_stream = False
            self._tell(self._connection, ended="client" if self._request.was_left else "server")

    def _tell(self, connection: "RawConnection", **facts: Any) -> None:
        name = self.facts.exchange
        connection.log.note("server", HttpFacts(self.facts.method, exchange=name, **facts))


JSON_HEAD: Final = {"content-type": "application/json"}
# In place of data: break the connection here.
_DROP: Final = b"drop"


class StreamCut(ResponseCut):
    """Raised to drop a connection within a response."""


class MessageStream:
    """Messages of one stream, which several connections may carry in turn."""

    def __init__(self, name: str, wanted: set[Any] | None) -> None:
        self.name = name
        # The requests that it answers before it ends; None for a stream without an end.
        self.wanted = wanted
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.count = 0

    async def messages(
        self, request: "ReceivedRequest", receive: Receive
    ) -> AsyncGenerator[bytes, None]:
        """Yield messages until every request is answered, or the client disconnects."""
        gone = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
        try:
            while self.wanted is None or self.wanted:
                data = await _next_message(self.queue, gone)
                if data is None:
                    return
                if data is _DROP:
                    raise StreamCut
                message = decode_json(data)
                if self.wanted and isinstance(message, dict) and "method" not in message:
                    self.wanted.discard(key_of(message.get("id")))
                yield data
        finally:
            request.was_left = gone.done()
            gone.cancel()


class FakeHttpSession:
    """A session: the streams of its messages."""

    takes_down = True

    def __init__(self, session: str, content_type: str) -> None:
        self._facts = HttpFacts(status=200, headers={"content-type": content_type})
        self.session = session
        self.connection: RawConnection
        # The stream of each request that waits for its answer.
        self.waiting: dict[Any, MessageStream] = {}
        self.standing = MessageStream("0", None)
        self.streams = {"0": self.standing}
        self.is_ended = False

    async def open(self, line: RawConnection) -> None:
        """Do nothing: the client has connected."""

    async def send(self, data: bytes) -> None:
        """Send an answer on the stream of its request, other messages on the standing one."""
        message = decode_json(data)
        is_answer = isinstance(message, dict) and "method" not in message
        stream = self.waiting.get(key_of(message.get("id"))) if is_answer else None
        await self._send_on(stream or self.standing, data)

    async def send_beside(self, id: object, message: object) -> None:
        """Send a message on the stream of a request that waits for its answer."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        await self._send_on(self.waiting.get(key_of(id), self.standing), data)

    async def _send_on(self, stream: MessageStream, data: bytes) -> None:
        self.connection.log.take("server", data, self.facts_of(data))
        await stream.queue.put(data)

    def facts_of(self, data: bytes) -> HttpFacts:
        """Return the facts about the response that carries a message."""
        return self._facts

    def is_waited_for(self, id: object) -> bool:
        """Return whether a request still has a stream for its answer."""
        return key_of(id) in self.waiting

    def drop(self, id: object = None) -> None:
        """Break the connection of a request's stream, or of the standing one."""
        stream = self.standing if id is None else self.waiting.get(key_of(id), self.standing)
        stream.queue.put_nowait(_DROP)

    async def close(self) -> None:
        """End all streams."""
        self.is_ended = True
        for stream in self.streams.values():
            stream.queue.put_nowait(None)


class StatelessPosts(FakeHttpSession):
    """All stateless requests: each has its stream, and there is no session."""

    def facts_of(self, data: bytes) -> HttpFacts:
        """Return the facts about the response: an error has a status of its own."""
        status = status_of_message(data)
        return self._facts if status == 200 else HttpFacts(status=status, headers=JSON_HEAD)


def key_of(id: object) -> Any:
    return (type(id).__name__, id) if isinstance(id, int | str) else None


def status_of_message(data: bytes) -> int:
    """Return the status with which a message begins a response."""
    message = decode_json(data)
    error = message.get("error") if isinstance(message, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return status_of_refusal(code) if isinstance(code, int) else 200


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _next_message(
    queue: "asyncio.Queue[bytes | None]", gone: "asyncio.Task[None]"
) -> bytes | None:
    """Return the next item of a queue; None once the client has disconnected."""
    getting = asyncio.get_running_loop().create_task(queue.get())
    await asyncio.wait({getting, gone}, return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    return None


_JSON: Final = JSON_HEAD["content-type"]
_CLOSING: Final = 2.0
# How long a cancellation waits for its request, which travels on another connection.
_OVERTAKEN: Final = 1.0


class ReceivedRequest(msgspec.Struct):
    """An HTTP request of the client.

    Attributes:
        at: when it arrived.
        status: of the response; None before it.
        ended: when the response ended; None before that.
        was_left: whether the client disconnected before the response ended.
        notes: what the monitor of the client sees of it.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""
    at: float = 0.0
    status: int | None = None
    ended: float | None = None
    was_left: bool = False
    notes: Any = None

    @property
    def message(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        return decode_json(self.body)

    @property
    def name(self) -> str | None:
        """The method of the JSON-RPC message in it."""
        message = self.message
        return message.get("method") if isinstance(message, dict) else None


class CannedResponse(msgspec.Struct):
    """A raw response in place of one of the conversation."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class FakeHttpTransport(FakeTransport):
    """Serves a fake server over HTTP.

    Attributes:
        streaming: how many event streams are open.
    """

    def __init__(
        self, server: FakeServer, *, is_older: bool = False, patience: float = 5.0
    ) -> None:
        super().__init__(server, patience)
        self._is_older = is_older or server.is_older
        self._path = "/sse" if is_older else "/mcp"
        self._sessions: dict[str, FakeHttpSession] = {}
        self._names = count(1)
        self._stateless: StatelessPosts | None = None
        self.streaming = 0
        self._serving: contextlib.AbstractAsyncContextManager[object]

    async def __aenter__(self) -> Self:
        try:
            from accord.http.server.running import serve_asgi
        except ImportError:
            raise MissingExtra("http", needed_for="checking clients over HTTP") from None
        sockets = listen("127.0.0.1", 0)
        self.origin = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        self.url = self.origin + self._path
        self._serving = serve_asgi(self, sockets)
        await self._serving.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for line in self.fake.lines:
            await line.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                while any(each.ended is None for each in self.requests):
                    await asyncio.sleep(0.005)
        await self._serving.__aexit__(None, None, None)

    # -- one request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = ReceivedRequest(
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            {name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]},
            await _body(receive),
            asyncio.get_running_loop().time(),
        )
        self.requests.append(request)
        notes = request.notes = ExchangeNotes(request, str(len(self.requests)))
        try:
            await self._serve(request, receive, notes.wrap(send))
        except StreamCut:
            notes.end()
            raise
        finally:
            request.ended = asyncio.get_running_loop().time()

    async def _serve(self, request: ReceivedRequest, receive: Receive, send: Send) -> None:
        answer = self.fake.http(request)
        if answer is None and self._is_older:
            answer = await self._serve_two_endpoints(request, receive, send)
        elif answer is None and request.method == "GET" and request.path != self._path:
            self.fake.visited.append(request.path)
            answer = CannedResponse(404)
        elif answer is None and not self.fake.has_handshake and request.method != "POST":
            answer = CannedResponse(405)
        elif answer is None and self._stands_alone(request):
            answer = await self._post_stateless(request, receive, send)
        elif answer is None and request.method == "POST":
            answer = await self._post(request, receive, send)
        elif answer is None and request.method == "GET":
            answer = await self._get(request, receive, send)
        elif answer is None:
            answer = await self._delete(request)
        if answer is not None:
            await send(self._head(request, answer.status, answer.headers))
            await send({"type": "http.response.body", "body": answer.body})

    def _head(
        self, request: ReceivedRequest, status: int, headers: Mapping[str, str]
    ) -> JsonObject:
        request.status = status
        shown = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]
        return {"type": "http.response.start", "status": status, "headers": shown}

    # -- Streamable HTTP; these return None after they answered with a stream

    async def _post(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        # Also in a batch, where it may not be, so that it is heard and judged.
        if any(each.get("method") == "initialize" for each in objects_in(request.message)):
            http_session = self._begin()
        elif (known := self._find_session(request)) is not None:
            http_session = known
        else:
            return CannedResponse(404 if names.SESSION in request.headers else 400)
        wanted = {key_of(each["id"]) for each in objects_in(request.message) if is_request(each)}
        stream = MessageStream(str(next(self._names)), set(wanted))
        http_session.streams[stream.name] = stream
        http_session.waiting |= dict.fromkeys(wanted, stream)
        await self._hear_request(http_session, request)
        if not wanted:
            return CannedResponse(202)
        more = {names.SESSION: http_session.session}
        answer = None
        if self.fake.streams:
            await self._send_events(stream, request, receive, send, more)
        else:
            body = b",".join([each async for each in stream.messages(request, receive)])
            if isinstance(request.message, list):
                body = b"[" + body + b"]"
            answer = CannedResponse(200, {"content-type": _JSON, **more}, body)
        for key in wanted:
            http_session.waiting.pop(key, None)
        return answer

    async def _send_events(
        self,
        stream: MessageStream,
        request: ReceivedRequest,
        receive: Receive,
        send: Send,
        headers: Mapping[str, str],
        *,
        opening: bytes = b"",
    ) -> None:
        """Send events until every request is answered."""
        await send(self._head(request, 200, {"content-type": sse.CONTENT_TYPE, **headers}))
        # Even if it is empty: the head leaves with it.
        await send({"type": "http.response.body", "body": opening, "more_body": True})
        self.streaming += 1
        self.most_streams = max(self.most_streams, self.streaming)
        try:
            async with contextlib.aclosing(stream.messages(request, receive)) as messages:
                async for data in messages:
                    body = self._event_head(stream) + sse.encode(data)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            self.streaming -= 1
        await send({"type": "http.response.body", "body": b""})

    def _event_head(self, stream: MessageStream) -> bytes:
        """Return the fields before the data of an event; HTTP with SSE has none."""
        if self._is_older:
            return b""
        stream.count += 1
        retry = b"" if self.fake.retry is None else b"retry: %d\n" % self.fake.retry
        return b"%sid: %s-%d\n" % (retry, stream.name.encode(), stream.count)

    async def _get(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        http_session = self._find_session(request)
        if http_session is None:
            return CannedResponse(404 if names.SESSION in request.headers else 400)
        request.notes.belong_to(http_session.connection, has_message=False)
        last = request.headers.get("last-event-id", "0").partition("-")[0]
        stream = http_session.streams.get(last, http_session.standing)
        if stream is http_session.standing and not self.fake.listens:
            return CannedResponse(405)
        await self._send_events(stream, request, receive, send, {})
        return None

    async def _delete(self, request: ReceivedRequest) -> CannedResponse:
        if request.method != "DELETE":
            return CannedResponse(405)
        http_session = self._find_session(request)
        if http_session is None:
            return CannedResponse(404)
        request.notes.belong_to(http_session.connection, has_message=False)
        http_session.connection.end("the client ended the session")
        await http_session.close()
        return CannedResponse(204)

    def end_session(self, line: RawConnection) -> None:
        """Forget a session: requests that name it are answered with 404."""
        self._sessions.pop(line.carrier.session, None)

    def _find_session(self, request: ReceivedRequest) -> FakeHttpSession | None:
        http_session = self._sessions.get(request.headers.get(names.SESSION, ""))
        return None if http_session is None or http_session.is_ended else http_session

    def _begin(self) -> FakeHttpSession:
        is_stream = self.fake.streams or self._is_older
        session = secrets.token_urlsafe(16)
        http_session = FakeHttpSession(session, sse.CONTENT_TYPE if is_stream else _JSON)
        http_session.connection = self.open_line(http_session, "sse" if self._is_older else "http")
        self._sessions[session] = http_session
        return http_session

    async def _hear_request(self, http_session: FakeHttpSession, request: ReceivedRequest) -> None:
        if request.name == "notifications/cancelled":
            await _wait_for_cancelled(http_session.connection, request.message)
        facts = request.notes.belong_to(http_session.connection, has_message=True)
        http_session.connection.receive(request.body, facts)

    # -- stateless requests

    def _stands_alone(self, request: ReceivedRequest) -> bool:
        if request.method != "POST" or not self.fake.is_stateless:
            return False
        named = request.headers.get(names.VERSION)
        is_named = names_own_revision(request.message) or named == STATELESS.id
        return is_named or not self.fake.has_handshake

    async def _post_stateless(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        if self._stateless is None:
            self._stateless = StatelessPosts("", _JSON)
            self._stateless.connection = self.open_line(self._stateless, "http")
        carrier, message = self._stateless, request.message
        if not isinstance(message, dict) or not is_request(message):
            await self._hear_request(carrier, request)
            is_told = isinstance(message, dict) and "method" in message
            return CannedResponse(202) if is_told else CannedResponse(400)
        key = key_of(message["id"])
        stream = MessageStream(str(next(self._names)), {key})
        carrier.waiting[key] = stream
        await self._hear_request(carrier, request)
        try:
            return await self._answer_stateless(stream, request, receive, send)
        finally:
            if carrier.waiting.get(key) is stream:
                del carrier.waiting[key]

    async def _answer_stateless(
        self, stream: MessageStream, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        async with contextlib.aclosing(stream.messages(request, receive)) as messages:
            first = await anext(messages, None)
            if first is None:
                return CannedResponse(200)  # the client has left
            status, is_answer = status_of_message(first), not stream.wanted
            is_streamed = self.fake.streams or request.name == LISTEN
            if status != 200 or (is_answer and not is_streamed):
                return CannedResponse(status, JSON_HEAD, first)
            more = {"content-type": sse.CONTENT_TYPE, "x-accel-buffering": "no"}
            await send(self._head(request, 200, more))
            self.streaming += 1
            self.most_streams = max(self.most_streams, self.streaming)
            try:
                data: bytes | None = first
                while data is not None:
                    body = self.fake.comment + sse.encode(data)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                    data = await anext(messages, None)
            finally:
                self.streaming -= 1
        await send({"type": "http.response.body", "body": b""})
        return None

    # -- HTTP with SSE

    async def _serve_two_endpoints(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        if request.method == "GET" and request.path == self._path:
            http_session = self._begin()
            endpoint = f"/messages?session_id={http_session.session}"
            place = f"event: endpoint\ndata: {endpoint}\n\n".encode()
            request.notes.belong_to(http_session.connection, has_message=False)
            await self._send_events(
                http_session.standing, request, receive, send, {}, opening=place
            )
            http_session.connection.end("the client left the stream")
            return None
        key = request.query.removeprefix("session_id=")
        known = self._sessions.get(key) if request.path == "/messages" else None
        if request.method != "POST" or known is None:
            # A request of Streamable HTTP: its client shall fall back.
            return CannedResponse(self.fake.refusal if request.path == self._path else 404)
        await self._hear_request(known, request)
        return CannedResponse(202)


async def _wait_for_cancelled(connection: RawConnection, message: JsonObject) -> None:
    """Let a request arrive before its cancellation, or the client would be blamed for the order."""
    cancelled = key_of(params_of(message).get("requestId"))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_OVERTAKEN):
            while cancelled not in {key_of(each.get("id")) for each in connection.received}:
                await asyncio.sleep(0.01)


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return b"".join(parts)


# -- stdio

_CHUNK: Final = 64 * 1024
_LONGEST: Final = 64 * 1024 * 1024
_CLOSING_STDIO: Final = 1.0


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
            async with asyncio.timeout(_CLOSING_STDIO):
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
        self.origin = f"http://127.0.0.1:{port}"
        self.command = [*launched.COMMAND, "relay", str(port), self._key]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self.fake.lines:
            await line.close()
        for writer in self._controls:
            with contextlib.suppress(OSError):
                writer.write(b"exit 0\n")
                writer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_STDIO)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            words = (await reader.readline()).decode(errors="replace").split()
            if len(words) != 3 or not secrets.compare_digest(words[0], self._key):
                if len(words) == 3 and words[2].startswith("HTTP/"):
                    self.fake.visited.append(words[1])
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
        for command in self.fake.relay_commands:
            self._controls[-1].write(f"{command}\n".encode())
        try:
            while line := (await reader.readline()).decode(errors="replace"):
                self.fake.events.append(line.strip())
        finally:
            self.fake.events.append("gone")

    async def _hear_data(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = self.fake
        line = self.open_line(_RelayConnection(writer), "stdio")
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
            self.fake.odd.append(data)
            # Only `odd` shows lines that are not messages.
            return
        line.receive(data)
