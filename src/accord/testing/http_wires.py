"""Recorded wires over HTTP: to a URL, or to an app that is served while the wire is open."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from accord.bindings.headers import LAST_EVENT, media_type
from accord.bindings.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.client.connect import http_wire
from accord.client.options import ClientSettings
from accord.errors import MissingExtra
from accord.protocol.exchange import Exchange
from accord.testing.recording import Recording
from accord.trace import HttpFacts
from accord.transports.http.client.sender import NotSent, Sender, SenderResponse
from accord.transports.http.server.app import HttpApp
from accord.transports.http.server.endpoint import STREAM
from accord.transports.wire import Lost, Receive, WireListener

if TYPE_CHECKING:
    from accord.transports.http.client.wire import HttpWire


_LOOPBACK: Final = "127.0.0.1"
# Seconds that responses get to end after their connections are closed.
_STOP_EXPECTED: Final = 2.0


# The headers of a response that matter to the protocol; `Response` cannot list all.
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
    """The HTTP client on a real socket, with a recording.

    Args:
        target: a URL, or an app that is served on loopback while the wire is open.
        recording: keeps requests and responses.
        settings: how the client connects.
    """

    def __init__(
        self, target: str | HttpApp, recording: Recording, settings: ClientSettings
    ) -> None:
        recording.transport = settings.transport or "http"
        self.inner: HttpWire | None = None
        self._target = target
        self._recording = recording
        self._settings = settings
        self._served = None if isinstance(target, str) else _Served(target)
        self._loop: asyncio.AbstractEventLoop
        self._listener: WireListener

    @property
    def transport(self) -> Literal["http", "sse"]:
        """The form of HTTP."""
        return self._settings.transport or "http"

    def report_to(self, listener: WireListener) -> None:
        """Report to this listener."""
        self._listener = listener

    @property
    def is_congested(self) -> bool:
        """Whether too many messages are under way."""
        return self.inner is not None and self.inner.is_congested

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Serve the app, if there is one, and connect."""
        self._loop = asyncio.get_running_loop()
        url = str(self._target)
        if self._served is not None:
            url = await self._served.start(is_older=self._settings.transport == "sse")
        self.inner = http_wire(url, self._settings)
        self.inner.tap = lambda sender: TappedSender(sender, self._recording)
        self.inner.report_to(self._listener)
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
        """Close everything at once."""
        if self.inner is not None:
            self.inner.abort()
        served, self._served = self._served, None
        if served is not None and self._loop.is_running():
            with suppress(RuntimeError):  # the loop was closed in between
                asyncio.run_coroutine_threadsafe(served.stop(), self._loop)


class _Served:
    """An app on uvicorn, on the running loop, at a free port of loopback.

    It does not use `uvicorn.Server.serve`, which handles the signals of the process and takes a
    tenth of a second to stop.
    """

    def __init__(self, app: HttpApp) -> None:
        try:
            import uvicorn

            from accord.transports.http.server.uvicorn_server import BoundedProtocol, listen
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
        """Begin to serve; return the URL of the endpoint."""
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
        """Stop the server, its connections and its tasks."""
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


# -- recorded requests and responses


class _Head(msgspec.Struct):
    method: str | None = None


class TappedSender:
    """A sender that passes everything on unchanged, and records it.

    A request is recorded before it is sent, a response before the client gets it, so that the
    recording has the order that the client sees.
    """

    def __init__(self, inner: Sender, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording
        self._numbers = count(1)
        # The stream of each event: a client that resumes a stream names the event.
        self._streams: dict[str, str] = {}
        # Bodies that no server accepted; the client may send them again.
        self._rejected: set[bytes] = set()
        self._is_open = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> SenderResponse:
        """Send a request and wait for the head of its response."""
        last = next((text for name, text in headers.items() if name.lower() == LAST_EVENT), None)
        stream = self._streams.get(last or "") or f"{method.lower()}-{next(self._numbers)}"
        self._observe_request(HttpFacts(method, None, headers, stream), body)
        try:
            response = await self._inner.send(method, url, headers, body)
        except NotSent:
            self._mark_rejected(body)
            raise
        if response.status >= 300:
            self._mark_rejected(body)
        said = {name: text for name in _RESPONSE_HEADERS if (text := response.header(name))}
        if last is not None:
            said[LAST_EVENT] = last  # replayed events may belong to any request
        facts = HttpFacts(method, response.status, said, stream)
        if response.status == 200 and media_type(response.header("content-type")) == CONTENT_TYPE:
            self._recording.observe("server", None, http=facts)
            return _TappedStream(response, self, facts)
        return _TappedBody(response, self._recording, facts)

    def _observe_request(self, facts: HttpFacts, body: bytes | None) -> None:
        name = None if body is None else _method_of(body)
        if name == "initialize" and self._is_open:
            # The server lost the session, and another conversation begins.
            self._is_open = False
            self._rejected.clear()
            self._recording.begin_anew()
        elif name == "notifications/initialized":
            self._is_open = True
        is_repeated = body is not None and body in self._rejected
        self._recording.observe("client", None if is_repeated else body, http=facts)

    def _mark_rejected(self, body: bytes | None) -> None:
        if body is not None:
            self._rejected.add(body)

    def observe_event(self, event: Event, facts: HttpFacts) -> None:
        """Record an event of a stream."""
        if event.id is not None and facts.stream is not None:
            self._streams[event.id] = facts.stream
        if event.name == "endpoint":
            self._recording.transport = "sse"
        elif event.name == "message":
            self._recording.observe("server", event.data, http=facts)


class _Tapped:
    """A response that is recorded."""

    def __init__(self, inner: SenderResponse, facts: HttpFacts) -> None:
        self.status = inner.status
        self._inner = inner
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all other members of a response

    def header(self, name: str) -> str | None:
        return self._inner.header(name)

    def close(self) -> None:
        self._inner.close()


class _TappedBody(_Tapped):
    """A response that is one body."""

    def __init__(self, inner: SenderResponse, recording: Recording, facts: HttpFacts) -> None:
        super().__init__(inner, facts)
        self._recording = recording
        self._chunks: list[bytes] = []
        self._is_observed = False

    async def chunk(self) -> bytes:
        data = await self._inner.chunk()
        if data:
            self._chunks.append(data)
        else:
            self._observe(b"".join(self._chunks))
        return data

    def close(self) -> None:
        self._observe(b"")
        super().close()

    def _observe(self, body: bytes) -> None:
        if not self._is_observed:
            self._is_observed = True
            message = body if _is_message(body, self._facts) else None
            self._recording.observe("server", message, http=self._facts)


class _TappedStream(_Tapped):
    """A response that is a stream of events."""

    def __init__(self, inner: SenderResponse, tap: TappedSender, facts: HttpFacts) -> None:
        super().__init__(inner, facts)
        self._tap = tap
        self._decoder = Decoder()

    async def chunk(self) -> bytes:
        data = await self._inner.chunk()
        with suppress(EventTooLong):  # the client raises it, too
            for event in self._decoder.feed(data):
                self._tap.observe_event(event, self._facts)
        return data


def _is_message(body: bytes, facts: HttpFacts) -> bool:
    """Whether a body is a message; the body of a refusal may be anything."""
    if not body.strip() or media_type(facts.header("content-type")) not in ("application/json", ""):
        return False
    return b'"jsonrpc"' in body if facts.is_refusal else True


def _method_of(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Head).method
    except msgspec.MsgspecError:
        return None
