"""Wires to servers over HTTP: to a URL, or to a server that is served for as long as they last."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.bindings.headers import media_type
from accord.bindings.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.client.connect import http_wire
from accord.client.options import Settings
from accord.errors import MissingExtra
from accord.protocol.exchange import Exchange
from accord.testing.recording import Recording
from accord.trace import HttpFacts
from accord.transports.asgi import HttpApp
from accord.transports.http_sender import NotSent, Response, Sender
from accord.transports.http_two_endpoints import STREAM
from accord.transports.wire import Lost, Receive, Watcher

if TYPE_CHECKING:
    from accord.transports.http import HttpWire


_LOOPBACK: Final = "127.0.0.1"
# How long responses may take to end once their connections are gone.
_STOP_EXPECTED: Final = 2.0


# What a response may say that bears on the protocol; the seam has no way to list all.
_RESPONSE_HEADERS: Final = (
    "allow",
    "cache-control",
    "content-length",
    "content-type",
    "location",
    "mcp-session-id",
    "retry-after",
    "www-authenticate",
)


class TappedHttpWire:
    """The HTTP client on a real socket; a recording observes what travels.

    Args:
        target: a URL, or an app that is served on loopback while the wire is open.
        recording: what observes.
        settings: how the client connects.
    """

    def __init__(self, target: str | HttpApp, recording: Recording, settings: Settings) -> None:
        recording.transport = settings.transport or "http"
        self.inner: HttpWire | None = None
        self._target = target
        self._recording = recording
        self._settings = settings
        self._served = None if isinstance(target, str) else _Served(target)
        self._loop: asyncio.AbstractEventLoop
        self._watcher: Watcher

    def watch(self, watcher: Watcher) -> None:
        """Serve this party."""
        self._watcher = watcher

    @property
    def congested(self) -> bool:
        """Whether too many messages are under way."""
        return self.inner is not None and self.inner.congested

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Serve the app where there is one, and make the connection."""
        self._loop = asyncio.get_running_loop()
        url = str(self._target)
        if self._served is not None:
            url = await self._served.start(is_older=self._settings.transport == "sse")
        self.inner = http_wire(url, self._settings)
        self.inner.tap = lambda sender: TappedSender(sender, self._recording)
        self.inner.watch(self._watcher)
        await self.inner.open(receive, lost)

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        """Send one message."""
        if self.inner is not None:
            self.inner.write(data, exchange)

    async def writable(self) -> None:
        """Wait until fewer messages are under way."""
        if self.inner is not None:
            await self.inner.writable()

    async def close(self) -> None:
        """End the session, close the connections, stop the server."""
        if self.inner is not None:
            await self.inner.close()
        served, self._served = self._served, None
        if served is not None:
            await served.stop()

    def abort(self) -> None:
        """Let go of everything at once."""
        if self.inner is not None:
            self.inner.abort()
        served, self._served = self._served, None
        if served is not None and self._loop.is_running():
            with suppress(RuntimeError):  # the loop was closed in between
                asyncio.run_coroutine_threadsafe(served.stop(), self._loop)


class _Served:
    """An app on uvicorn, on the running loop, at a free port of loopback.

    Not by `uvicorn.Server.serve`, which takes the signals of the process and a tenth of a second to
    notice its end.
    """

    def __init__(self, app: HttpApp) -> None:
        try:
            import uvicorn

            from accord.transports.uvicorn_protocol import BoundedProtocol
            from accord.transports.uvicorn_server import listen
        except ImportError:
            raise MissingExtra("http", needed_for="testing over HTTP") from None
        self.app = app
        self._listen = listen
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
            )
        )

    async def start(self, *, is_older: bool) -> str:
        """Begin to serve; returns the URL of the endpoint."""
        await self.app.start()
        config, server = self._server.config, self._server
        config.load()
        server.lifespan = config.lifespan_class(config)
        (socket,) = self._listen(_LOOPBACK, 0)
        port = socket.getsockname()[1]
        await server.startup([socket])
        await server.on_tick(0)  # the headers of every response
        return f"http://{_LOOPBACK}:{port}{STREAM if is_older else self.app.options.path}"

    async def stop(self) -> None:
        """Stop, and leave nothing behind."""
        for each in getattr(self._server, "servers", ()):
            each.close()
        await self.app.stop()
        state = self._server.server_state
        for connection in list(state.connections):
            connection.transport.abort()
        tasks = set(state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_STOP_EXPECTED)
            for task in late:
                task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_EXPECTED):
                while state.connections:
                    await asyncio.sleep(0)  # until the loop has closed them


# -- requests and responses with an observer


class _Head(msgspec.Struct):
    method: str | None = None


class TappedSender:
    """Passes everything on as it is, and lets a recording observe it.

    A request is observed before it is sent, an answer before it is handed over, so that the order
    is the one in which the client lives through it.
    """

    def __init__(self, inner: Sender, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording
        self._numbers = count(1)
        # The stream that an event came on: a client that resumes names the event.
        self._streams: dict[str, str] = {}
        # What no server has taken, and may be sent again as it is.
        self._untaken: set[bytes] = set()
        self._is_open = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Send a request and wait for the head of its response."""
        last = next((text for name, text in headers.items() if _is_last_event(name)), None)
        stream = self._streams.get(last or "") or f"{method.lower()}-{next(self._numbers)}"
        self._observe_request(HttpFacts(method, None, headers, stream), body)
        try:
            response = await self._inner.send(method, url, headers, body)
        except NotSent:
            self._leave(body)
            raise
        if response.status >= 300:
            self._leave(body)
        said = {name: text for name in _RESPONSE_HEADERS if (text := response.header(name))}
        if last is not None:
            said["last-event-id"] = last  # what is replayed may belong to any request
        facts = HttpFacts(method, response.status, said, stream)
        if response.status == 200 and media_type(response.header("content-type")) == CONTENT_TYPE:
            self._recording.observe("server", None, http=facts)
            return _TappedStream(response, self, facts)
        return _TappedBody(response, self._recording, facts)

    def _observe_request(self, facts: HttpFacts, body: bytes | None) -> None:
        name = None if body is None else _method_of(body)
        if name == "initialize" and self._is_open:
            # The server lost the session: with this one another conversation begins.
            self._is_open = False
            self._untaken.clear()
            self._recording.begin_anew()
        elif name == "notifications/initialized":
            self._is_open = True
        is_repeated = body is not None and body in self._untaken
        self._recording.observe("client", None if is_repeated else body, http=facts)

    def _leave(self, body: bytes | None) -> None:
        if body is not None:
            self._untaken.add(body)

    def observe_event(self, event: Event, facts: HttpFacts) -> None:
        """Take down an event of a stream."""
        if event.id is not None and facts.stream is not None:
            self._streams[event.id] = facts.stream
        if event.name == "endpoint":
            self._recording.transport = "sse"
        elif event.name == "message":
            self._recording.observe("server", event.data, http=facts)


class _Tapped:
    """A response with an observer."""

    def __init__(self, inner: Response, facts: HttpFacts) -> None:
        self.status = inner.status
        self._inner = inner
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # whatever else a response can do

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case."""
        return self._inner.header(name)

    def close(self) -> None:
        """Let go of the response."""
        self._inner.close()


class _TappedBody(_Tapped):
    """A response that is one body."""

    def __init__(self, inner: Response, recording: Recording, facts: HttpFacts) -> None:
        super().__init__(inner, facts)
        self._recording = recording
        self._chunks: list[bytes] = []
        self._is_observed = False

    async def chunk(self) -> bytes:
        """Return the next bytes of the body."""
        data = await self._inner.chunk()
        if data:
            self._chunks.append(data)
        else:
            self._observe(b"".join(self._chunks))
        return data

    def close(self) -> None:
        """Let go of the response."""
        self._observe(b"")
        super().close()

    def _observe(self, body: bytes) -> None:
        if not self._is_observed:
            self._is_observed = True
            message = body if _is_message(body, self._facts) else None
            self._recording.observe("server", message, http=self._facts)


class _TappedStream(_Tapped):
    """A response that is a stream of events."""

    def __init__(self, inner: Response, tap: TappedSender, facts: HttpFacts) -> None:
        super().__init__(inner, facts)
        self._tap = tap
        self._decoder = Decoder()

    async def chunk(self) -> bytes:
        """Return the next bytes of the stream."""
        data = await self._inner.chunk()
        with suppress(EventTooLong):  # the client finds out by itself
            for event in self._decoder.feed(data):
                self._tap.observe_event(event, self._facts)
        return data


def _is_message(body: bytes, facts: HttpFacts) -> bool:
    """Whether a body is meant as a message; a refusal may say anything in any form."""
    if not body.strip() or media_type(facts.header("content-type")) not in ("application/json", ""):
        return False
    return b'"jsonrpc"' in body if facts.is_refusal else True


def _is_last_event(name: str) -> bool:
    return name.lower() == "last-event-id"


def _method_of(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Head).method
    except msgspec.MsgspecError:
        return None
