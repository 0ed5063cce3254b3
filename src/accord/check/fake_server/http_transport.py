"""The HTTP transport of a fake server: Streamable HTTP, HTTP with SSE, and raw responses."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from accord.bindings import headers as names
from accord.bindings import sse
from accord.check.fake_server.server import FakeServer, FakeTransport
from accord.check.probing.messages import decode_json, is_request, objects_in, params_of
from accord.check.probing.raw_connection import RawConnection
from accord.errors import MissingExtra
from accord.trace import HttpFacts
from accord.transports.http.server.exchange import Receive, Scope, Send
from accord.types import JsonObject

if TYPE_CHECKING:
    from socket import socket

_JSON: Final = "application/json"
_CLOSING: Final = 2.0
# How long a cancellation waits for its request, which travels on another connection.
_OVERTAKEN: Final = 1.0
# In place of data: break the connection here.
_DROP: Final = b"drop"


class ReceivedRequest(msgspec.Struct):
    """An HTTP request of the client.

    Attributes:
        at: when it arrived.
        status: of the response; None before it.
        ended: when the response ended; None before that.
        was_left: whether the client disconnected before the response ended.
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


class _Cut(Exception):
    """Raised to drop a connection within a response."""


class _Stream:
    """Messages of one stream, which several connections may carry in turn."""

    def __init__(self, name: str, wanted: set[Any] | None) -> None:
        self.name = name
        # The requests that it answers before it ends; None for a stream without an end.
        self.wanted = wanted
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.count = 0

    async def messages(
        self, request: ReceivedRequest, receive: Receive
    ) -> AsyncGenerator[bytes, None]:
        """Yield messages until every request is answered, or the client disconnects."""
        gone = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
        try:
            while self.wanted is None or self.wanted:
                data = await _next_message(self.queue, gone)
                if data is None:
                    return
                if data is _DROP:
                    raise _Cut
                message = decode_json(data)
                if self.wanted and isinstance(message, dict) and "method" not in message:
                    self.wanted.discard(_key(message.get("id")))
                yield data
        finally:
            request.was_left = gone.done()
            gone.cancel()


class _HttpSession:
    """A session: the streams of its messages."""

    takes_down = True

    def __init__(self, session: str, content_type: str) -> None:
        self._facts = HttpFacts(status=200, headers={"content-type": content_type})
        self.session = session
        self.connection: RawConnection
        # The stream of each request that waits for its answer.
        self.waiting: dict[Any, _Stream] = {}
        self.standing = _Stream("0", None)
        self.streams = {"0": self.standing}
        self.is_ended = False

    async def open(self, line: RawConnection) -> None:
        """Do nothing: the client has connected."""

    async def send(self, data: bytes) -> None:
        """Send an answer on the stream of its request, other messages on the standing one."""
        message = decode_json(data)
        is_answer = isinstance(message, dict) and "method" not in message
        stream = self.waiting.get(_key(message.get("id"))) if is_answer else None
        await self._send_on(stream or self.standing, data)

    async def send_beside(self, id: object, message: object) -> None:
        """Send a message on the stream of a request that waits for its answer."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        await self._send_on(self.waiting.get(_key(id), self.standing), data)

    async def _send_on(self, stream: _Stream, data: bytes) -> None:
        self.connection.log.take("server", data, self._facts)
        await stream.queue.put(data)

    def is_waited_for(self, id: object) -> bool:
        """Return whether a request still has a stream for its answer."""
        return _key(id) in self.waiting

    def drop(self, id: object = None) -> None:
        """Break the connection of a request's stream, or of the standing one."""
        stream = self.standing if id is None else self.waiting.get(_key(id), self.standing)
        stream.queue.put_nowait(_DROP)

    async def close(self) -> None:
        """End all streams."""
        self.is_ended = True
        for stream in self.streams.values():
            stream.queue.put_nowait(None)


class FakeHttpTransport(FakeTransport):
    """Serves a fake server over HTTP.

    Attributes:
        origin: the scheme, host and port of the URL.
        streaming: how many event streams are open.
    """

    def __init__(
        self, server: FakeServer, *, is_older: bool = False, patience: float = 5.0
    ) -> None:
        super().__init__(server, patience)
        self._is_older = is_older or server.is_older
        self._path = "/sse" if is_older else "/mcp"
        self._sessions: dict[str, _HttpSession] = {}
        self._names = count(1)
        self._server: Any = None
        self._sockets: list[socket] = []
        self.origin = ""
        self.streaming = 0

    async def __aenter__(self) -> Self:
        try:
            import uvicorn

            from accord.transports.http.server.uvicorn_server import listen
        except ImportError:
            raise MissingExtra("http", needed_for="checking clients over HTTP") from None
        sockets = listen("127.0.0.1", 0)
        self.origin = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        self.url = self.origin + self._path
        config = uvicorn.Config(
            self,
            lifespan="off",
            ws="none",
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        config.load()
        self._sockets = sockets
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        # Not `serve`, which installs signal handlers and polls every 0.1 s.
        await self._server.startup(sockets=sockets)
        return self

    async def __aexit__(self, *_: object) -> None:
        for line in self._fake.lines:
            await line.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                while any(each.ended is None for each in self.requests):
                    await asyncio.sleep(0.005)
                # Only idle connections are left.
                self._server.force_exit = True
                await self._server.shutdown(sockets=self._sockets)
                while self._server.server_state.connections:
                    await asyncio.sleep(0.001)

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
        try:
            await self._serve(request, receive, send)
        finally:
            request.ended = asyncio.get_running_loop().time()

    async def _serve(self, request: ReceivedRequest, receive: Receive, send: Send) -> None:
        answer = self._fake.http(request)
        if answer is None and self._is_older:
            answer = await self._serve_two_endpoints(request, receive, send)
        elif answer is None and request.method == "POST":
            answer = await self._post(request, receive, send)
        elif answer is None and request.method == "GET":
            answer = await self._get(request, receive, send)
        elif answer is None:
            answer = await self._delete(request)
        if answer is not None:
            await send(_head(request, answer.status, answer.headers))
            await send({"type": "http.response.body", "body": answer.body})

    # -- Streamable HTTP; these return None after they answered with a stream

    async def _post(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        if request.name == "initialize":
            http_session = self._begin()
        elif (known := self._find_session(request)) is not None:
            http_session = known
        else:
            return CannedResponse(404 if names.SESSION in request.headers else 400)
        wanted = {_key(each["id"]) for each in objects_in(request.message) if is_request(each)}
        stream = _Stream(str(next(self._names)), set(wanted))
        http_session.streams[stream.name] = stream
        http_session.waiting |= dict.fromkeys(wanted, stream)
        await self._hear_request(http_session, request)
        if not wanted:
            return CannedResponse(202)
        more = {names.SESSION: http_session.session}
        answer = None
        if self._fake.streams:
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
        stream: _Stream,
        request: ReceivedRequest,
        receive: Receive,
        send: Send,
        headers: Mapping[str, str],
        *,
        opening: bytes = b"",
    ) -> None:
        """Send events until every request is answered."""
        await send(_head(request, 200, {"content-type": sse.CONTENT_TYPE, **headers}))
        if opening:
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

    def _event_head(self, stream: _Stream) -> bytes:
        """Return the fields before the data of an event; HTTP with SSE has none."""
        if self._is_older:
            return b""
        stream.count += 1
        retry = b"" if self._fake.retry is None else b"retry: %d\n" % self._fake.retry
        return b"%sid: %s-%d\n" % (retry, stream.name.encode(), stream.count)

    async def _get(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        http_session = self._find_session(request)
        if http_session is None:
            return CannedResponse(404 if names.SESSION in request.headers else 400)
        last = request.headers.get("last-event-id", "0").partition("-")[0]
        stream = http_session.streams.get(last, http_session.standing)
        if stream is http_session.standing and not self._fake.listens:
            return CannedResponse(405)
        await self._send_events(stream, request, receive, send, {})
        return None

    async def _delete(self, request: ReceivedRequest) -> CannedResponse:
        if request.method != "DELETE":
            return CannedResponse(405)
        http_session = self._find_session(request)
        if http_session is None:
            return CannedResponse(404)
        http_session.connection.end("the client ended the session")
        await http_session.close()
        return CannedResponse(204)

    def end_session(self, line: RawConnection) -> None:
        """Forget a session: requests that name it are answered with 404."""
        self._sessions.pop(line.carrier.session, None)

    def _find_session(self, request: ReceivedRequest) -> _HttpSession | None:
        http_session = self._sessions.get(request.headers.get(names.SESSION, ""))
        return None if http_session is None or http_session.is_ended else http_session

    def _begin(self) -> _HttpSession:
        is_stream = self._fake.streams or self._is_older
        session = secrets.token_urlsafe(16)
        http_session = _HttpSession(session, sse.CONTENT_TYPE if is_stream else _JSON)
        http_session.connection = self._open_line(http_session, "sse" if self._is_older else "http")
        self._sessions[session] = http_session
        return http_session

    async def _hear_request(self, http_session: _HttpSession, request: ReceivedRequest) -> None:
        if request.name == "notifications/cancelled":
            await _wait_for_cancelled(http_session.connection, request.message)
        facts = HttpFacts(method=request.method, headers=request.headers)
        http_session.connection.receive(request.body, facts)

    # -- HTTP with SSE

    async def _serve_two_endpoints(
        self, request: ReceivedRequest, receive: Receive, send: Send
    ) -> CannedResponse | None:
        if request.method == "GET" and request.path == self._path:
            http_session = self._begin()
            endpoint = f"/messages?session_id={http_session.session}"
            place = f"event: endpoint\ndata: {endpoint}\n\n".encode()
            await self._send_events(
                http_session.standing, request, receive, send, {}, opening=place
            )
            http_session.connection.end("the client left the stream")
            return None
        key = request.query.removeprefix("session_id=")
        known = self._sessions.get(key) if request.path == "/messages" else None
        if request.method != "POST" or known is None:
            # A request of Streamable HTTP: its client shall fall back.
            return CannedResponse(self._fake.refusal if request.path == self._path else 404)
        await self._hear_request(known, request)
        return CannedResponse(202)


async def _wait_for_cancelled(connection: RawConnection, message: JsonObject) -> None:
    """Let a request arrive before its cancellation, or the client would be blamed for the order."""
    cancelled = _key(params_of(message).get("requestId"))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_OVERTAKEN):
            while cancelled not in {_key(each.get("id")) for each in connection.received}:
                await asyncio.sleep(0.01)


def _key(id: object) -> Any:
    return (type(id).__name__, id) if isinstance(id, int | str) else None


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return b"".join(parts)


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


def _head(request: ReceivedRequest, status: int, headers: Mapping[str, str]) -> JsonObject:
    request.status = status
    shown = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": shown}
