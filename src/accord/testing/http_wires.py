"""Recorded wires over HTTP: to a URL, or to an app that is served while the wire is open."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from accord.client.connect import http_wire
from accord.client.options import ClientSettings
from accord.errors import MissingExtra
from accord.http.client.sender import NotSent, Sender, SenderResponse
from accord.http.rules.sse import EventTooLong
from accord.http.server.sockets import listen
from accord.protocol.exchange import Exchange
from accord.protocol.party import Bounded
from accord.runtime.wire import Lost, Receive, WireListener
from accord.testing.http_records import ExchangeRecorder, StreamNames
from accord.testing.recording import Observer
from accord.trace import HttpFacts, Party

if TYPE_CHECKING:
    from accord.http.client.wire import HttpWire
    from accord.http.server.app import HttpApp


_LOOPBACK: Final = "127.0.0.1"
# Bodies that no server accepted and that are remembered.
_REJECTED: Final = 100


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
    "x-accel-buffering",
)


class TappedHttpWire:
    """The HTTP client on a real socket, with a recording.

    Args:
        target: a URL, or an app that is served on loopback while the wire is open.
        recording: keeps requests and responses.
        settings: how the client connects.
    """

    def __init__(
        self, target: "str | HttpApp", recording: Observer, settings: ClientSettings
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
    """An app on the running loop, at a free port of loopback."""

    def __init__(self, app: "HttpApp") -> None:
        try:
            from accord.http.server.listener import HttpListener
        except ImportError:
            raise MissingExtra("http", needed_for="testing over HTTP") from None
        self.app = app
        self._make = HttpListener
        self._listener: HttpListener | None = None

    async def start(self, *, is_older: bool) -> str:
        """Begin to serve; return the URL of the endpoint."""
        await self.app.start()
        self._listener = self._make(self.app, self.app.options["limits"])
        (socket,) = listen(_LOOPBACK, 0)
        port = socket.getsockname()[1]
        await self._listener.start([socket])
        # Imported late: a client of a URL needs no server.
        from accord.http.server.endpoint import STREAM

        path = STREAM if is_older else self.app.options["path"]
        return f"http://{_LOOPBACK}:{port}{path}"

    async def stop(self) -> None:
        """Stop the server, its connections and its tasks."""
        if self._listener is not None:
            self._listener.close()
            await self.app.stop()
            await self._listener.stop()


# -- recorded requests and responses


class _Head(msgspec.Struct):
    method: str | None = None


class TappedSender:
    """A sender that passes everything on unchanged, and records it.

    A request is recorded before it is sent, a response before the client gets it, so that the
    recording has the order that the client sees.
    """

    def __init__(self, inner: Sender, recording: Observer) -> None:
        self._inner = inner
        self._recording = recording
        self._numbers = count(1)
        self._streams = StreamNames()
        # Bodies that no server accepted; the client may send them again.
        self._rejected: Bounded[bytes, None] = Bounded(_REJECTED)
        self._is_open = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> SenderResponse:
        """Send a request and wait for the head of its response."""
        parts = urlsplit(url)
        recorder = ExchangeRecorder(
            self._observe,
            method,
            f"{method.lower()}-{next(self._numbers)}",
            headers,
            path=parts.path or "/",
            query=parts.query,
            streams=self._streams,
        )
        self._note_conversation(body)
        recorder.request(body, is_repeated=body is not None and body in self._rejected)
        try:
            response = await self._inner.send(method, url, headers, body)
        except NotSent:
            self._mark_rejected(body)
            raise
        if response.status >= 300:
            self._mark_rejected(body)
        said = {name: text for name in _RESPONSE_HEADERS if (text := response.header(name))}
        recorder.head(response.status, said, recorded=_RESPONSE_HEADERS)
        return (_TappedStream if recorder.is_stream else _TappedBody)(response, recorder)

    def _observe(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        if facts.event == "endpoint":
            self._recording.transport = "sse"
        self._recording.observe(sender, data, http=facts)

    def _note_conversation(self, body: bytes | None) -> None:
        name = None if body is None else _method_of(body)
        if name == "initialize" and self._is_open:
            # The server lost the session, and another conversation begins.
            self._is_open = False
            self._rejected.clear()
            self._recording.begin_anew()
        elif name == "notifications/initialized":
            self._is_open = True

    def _mark_rejected(self, body: bytes | None) -> None:
        if body is not None:
            self._rejected[body] = None


class _Tapped:
    """A response that is recorded."""

    def __init__(self, inner: SenderResponse, recorder: ExchangeRecorder) -> None:
        self.status = inner.status
        self._inner = inner
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all other members of a response

    def header(self, name: str) -> str | None:
        return self._inner.header(name)

    async def chunk(self) -> bytes:
        return await self._inner.chunk()

    def close(self) -> None:
        self._inner.close()


class _TappedBody(_Tapped):
    """A response that is one body."""

    def __init__(self, inner: SenderResponse, recorder: ExchangeRecorder) -> None:
        super().__init__(inner, recorder)
        self._chunks: list[bytes] = []

    async def chunk(self) -> bytes:
        data = await self._inner.chunk()
        if data:
            self._chunks.append(data)
        else:
            body = b"".join(self._chunks)
            self._recorder.body(body, size=len(body))
        return data

    def close(self) -> None:
        self._recorder.body(b"")
        super().close()


class _TappedStream(_Tapped):
    """A response that is a stream of events."""

    async def chunk(self) -> bytes:
        data = await self._inner.chunk()
        if not data:
            self._recorder.end("server")
            return data
        with suppress(EventTooLong):  # the client raises it, too
            self._recorder.feed(data)
        return data

    def close(self) -> None:
        self._recorder.end("client")
        super().close()


def _method_of(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Head).method
    except msgspec.MsgspecError:
        return None
