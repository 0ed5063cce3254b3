"""The HTTP transport of a fake server: Streamable HTTP, HTTP with SSE, and raw responses."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from accord.bindings import headers as names
from accord.bindings import sse
from accord.check.probing.message_log import MessageLog
from accord.check.probing.raw_connection import ConnectionEnded, RawConnection
from accord.errors import MissingExtra
from accord.trace import HttpFacts, Transport
from accord.types import JsonObject

if TYPE_CHECKING:
    from socket import socket

    from accord.check.fake_server.server import FakeServer

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_JSON: Final = "application/json"
_CLOSING: Final = 2.0
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
        try:
            return msgspec.json.decode(self.body)
        except (ValueError, RecursionError):
            return None

    @property
    def name(self) -> str | None:
        """The method of the JSON-RPC message in it."""
        message = self.message
        return message.get("method") if isinstance(message, dict) else None


class CannedResponse(msgspec.Struct):
    """A raw response in place of one of the conversation.

    Attributes:
        body: the body, or its beginning if the connection is cut.
        is_cut: whether the connection breaks after the body.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    is_cut: bool = False


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

    def note(self, data: bytes) -> None:
        """Record an answer that was sent."""
        message = _decode(data)
        if self.wanted is not None and isinstance(message, dict) and "method" not in message:
            self.wanted.discard(_key(message.get("id")))


class _HttpSession:
    """A session: the streams of its messages."""

    takes_down = True

    def __init__(self, stage: "FakeHttpTransport", session: str | None) -> None:
        self._transport = stage
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
        message = _decode(data)
        is_answer = isinstance(message, dict) and "method" not in message
        stream = self.waiting.get(_key(message.get("id"))) if is_answer else None
        await self._send_on(stream or self.standing, data)

    async def send_beside(self, id: object, message: object) -> None:
        """Send a message on the stream of a request that waits for its answer."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        await self._send_on(self.waiting.get(_key(id), self.standing), data)

    async def _send_on(self, stream: _Stream, data: bytes) -> None:
        facts = HttpFacts(status=200, headers={"content-type": self._transport.content_type})
        self.connection.log.take("server", data, facts)
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


class FakeHttpTransport:
    """Serves a fake server over HTTP.

    Attributes:
        url: where the client connects.
        requests: all requests, in order.
        most_streams: how many event streams were open at the same time.
    """

    def __init__(
        self, server: "FakeServer", *, is_older: bool = False, patience: float = 5.0
    ) -> None:
        self._fake = server
        self._is_older = is_older or server.is_older
        self._path = "/sse" if is_older else "/mcp"
        self._patience = patience
        self._sessions: dict[str, _HttpSession] = {}
        self._names = count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: Any = None
        self._sockets: list[socket] = []
        self.url = ""
        self.origin = ""
        self.requests: list[ReceivedRequest] = []
        self.streaming = 0
        self.most_streams = 0

    @property
    def content_type(self) -> str:
        """The content type of answers."""
        return sse.CONTENT_TYPE if self._fake.streams or self._is_older else _JSON

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
        for task in self._tasks:
            task.cancel()
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

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
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
            await self._serve(request, receive, _record_status(request, send))
        finally:
            request.ended = asyncio.get_running_loop().time()

    async def _serve(self, request: ReceivedRequest, receive: _Receive, send: _Send) -> None:
        answer = self._fake.http(request)
        if answer is not None:
            await _answer(send, answer)
        elif self._is_older:
            await self._serve_two_endpoints(request, receive, send)
        elif request.method == "POST":
            await self._post(request, receive, send)
        elif request.method == "GET":
            await self._get(request, receive, send)
        elif request.method == "DELETE":
            await self._delete(request, send)
        else:
            await _answer(send, CannedResponse(405))

    # -- Streamable HTTP

    async def _post(self, request: ReceivedRequest, receive: _Receive, send: _Send) -> None:
        message = request.message
        http_session = self._find_session(request, opens=request.name == "initialize")
        if http_session is None:
            status = 404 if names.SESSION in request.headers else 400
            await _answer(send, CannedResponse(status))
            return
        wanted = _requests_in(message)
        stream = _Stream(str(next(self._names)), {_key(each["id"]) for each in wanted})
        http_session.streams[stream.name] = stream
        for each in wanted:
            http_session.waiting[_key(each["id"])] = stream
        self._hear(http_session, request)
        if not wanted:
            await _answer(send, CannedResponse(202))
            return
        more = {} if http_session.session is None else {names.SESSION: http_session.session}
        if self._fake.streams:
            await self._send_events(stream, request, receive, send, more)
        else:
            await self._send_json(stream, request, receive, send, more)
        for each in wanted:
            http_session.waiting.pop(_key(each["id"]), None)

    async def _send_json(
        self,
        stream: _Stream,
        request: ReceivedRequest,
        receive: _Receive,
        send: _Send,
        headers: Mapping[str, str],
    ) -> None:
        found: list[bytes] = []
        gone = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
        try:
            while stream.wanted:
                data = await _next_message(stream.queue, gone)
                if data is None:
                    break
                stream.note(data)
                found.append(data)
        finally:
            request.was_left = gone.done()
            gone.cancel()
        body = b",".join(found)
        if isinstance(request.message, list):
            body = b"[" + body + b"]"
        await _answer(send, CannedResponse(200, {"content-type": _JSON, **headers}, body))

    async def _send_events(
        self,
        stream: _Stream,
        request: ReceivedRequest,
        receive: _Receive,
        send: _Send,
        headers: Mapping[str, str],
    ) -> None:
        """Send events until every request is answered."""
        await send(_head(200, {"content-type": sse.CONTENT_TYPE, **headers}))
        self.streaming += 1
        self.most_streams = max(self.most_streams, self.streaming)
        gone = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
        try:
            while stream.wanted is None or stream.wanted:
                data = await _next_message(stream.queue, gone)
                if data is None:
                    break
                if data is _DROP:
                    raise _Cut
                stream.note(data)
                stream.count += 1
                retry = b"" if self._fake.retry is None else b"retry: %d\n" % self._fake.retry
                event = b"%sid: %s-%d\n" % (retry, stream.name.encode(), stream.count)
                body = event + sse.encode(data)
                await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            self.streaming -= 1
            request.was_left = gone.done()
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _get(self, request: ReceivedRequest, receive: _Receive, send: _Send) -> None:
        http_session = self._find_session(request, opens=False)
        if http_session is None:
            await _answer(send, CannedResponse(404 if names.SESSION in request.headers else 400))
            return
        last = request.headers.get("last-event-id", "0").partition("-")[0]
        stream = http_session.streams.get(last, http_session.standing)
        if stream is http_session.standing and not self._fake.listens:
            await _answer(send, CannedResponse(405))
        else:
            await self._send_events(stream, request, receive, send, {})

    async def _delete(self, request: ReceivedRequest, send: _Send) -> None:
        http_session = self._find_session(request, opens=False)
        if http_session is not None:
            http_session.connection.end("the client ended the session")
            await http_session.close()
        await _answer(send, CannedResponse(404 if http_session is None else 204))

    def end_session(self, line: RawConnection) -> None:
        """Forget a session: requests that name it are answered with 404."""
        http_session: _HttpSession = line.carrier
        self._sessions.pop(http_session.session or "", None)

    def _find_session(self, request: ReceivedRequest, *, opens: bool) -> _HttpSession | None:
        if not opens:
            key = request.headers.get(names.SESSION, "")
            http_session = self._sessions.get(key)
            return None if http_session is None or http_session.is_ended else http_session
        session = secrets.token_urlsafe(16) if self._fake.has_sessions else None
        return self._begin(session or "", _HttpSession(self, session))

    def _begin(self, key: str, http_session: _HttpSession) -> _HttpSession:
        transport: Transport = "sse" if self._is_older else "http"
        log = MessageLog(transport, "client", is_judged=self._fake.is_judged)
        connection = RawConnection(http_session, log, patience=self._patience, me="server")
        connection.respond = self._fake.respond
        self._fake.lines.append(connection)
        http_session.connection = connection
        self._sessions[key] = http_session
        return http_session

    def _hear(self, http_session: _HttpSession, request: ReceivedRequest) -> None:
        http_session.connection.receive(
            request.body, HttpFacts(method=request.method, headers=request.headers)
        )
        if request.name == "notifications/initialized":
            work = self._run_scenario(http_session.connection)
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_scenario(self, line: RawConnection) -> None:
        with contextlib.suppress(ConnectionEnded):
            await self._fake.on_initialized(line)

    # -- HTTP with SSE

    async def _serve_two_endpoints(
        self, request: ReceivedRequest, receive: _Receive, send: _Send
    ) -> None:
        if request.method == "GET" and request.path == self._path:
            key = secrets.token_urlsafe(16)
            http_session = self._begin(key, _HttpSession(self, key))
            await send(_head(200, {"content-type": sse.CONTENT_TYPE}))
            place = f"event: endpoint\ndata: /messages?session_id={key}\n\n".encode()
            await send({"type": "http.response.body", "body": place, "more_body": True})
            gone = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
            while (data := await _next_message(http_session.standing.queue, gone)) is not None:
                if data is _DROP:
                    raise _Cut
                await send(
                    {"type": "http.response.body", "body": sse.encode(data), "more_body": True}
                )
            gone.cancel()
            http_session.connection.end("the client left the stream")
            return
        key = request.query.removeprefix("session_id=")
        known = self._sessions.get(key) if request.path == "/messages" else None
        if request.method != "POST" or known is None:
            # A request of Streamable HTTP: its client shall fall back.
            await _answer(
                send, CannedResponse(self._fake.refusal if request.path == self._path else 404)
            )
            return
        await _answer(send, CannedResponse(202))
        self._hear(known, request)


def _record_status(request: ReceivedRequest, send: _Send) -> _Send:
    async def record(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            request.status = message["status"]
        await send(message)

    return record


def _key(id: object) -> Any:
    return (type(id).__name__, id) if isinstance(id, int | str) else None


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


def _requests_in(message: object) -> list[JsonObject]:
    """Return the requests of a message or a batch."""
    found = message if isinstance(message, list) else [message]
    return [each for each in found if isinstance(each, dict) and {"method", "id"} <= {*each}]


async def _body(receive: _Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return b"".join(parts)


async def _wait_for_disconnect(receive: _Receive) -> None:
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


def _head(status: int, headers: Mapping[str, str]) -> JsonObject:
    shown = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": shown}


async def _answer(send: _Send, answer: CannedResponse) -> None:
    headers = dict(answer.headers)
    if answer.is_cut:
        # Announce more than is sent, so that the server drops the connection.
        headers.setdefault("content-length", str(len(answer.body) + 1000))
    await send(_head(answer.status, headers))
    await send({"type": "http.response.body", "body": answer.body, "more_body": answer.is_cut})
    if answer.is_cut:
        raise _Cut
