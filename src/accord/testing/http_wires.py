"""Wires to servers over HTTP: to a URL, or to a server that is served for as long as they last."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from accord.client.connect import http_wire
from accord.client.options import Settings
from accord.errors import MissingExtra
from accord.protocol.exchange import Exchange
from accord.testing.http_tap import TappedSender
from accord.testing.recording import Recording
from accord.transports.asgi import HttpApp
from accord.transports.http_two_endpoints import STREAM
from accord.transports.wire import Lost, Receive, Watcher

if TYPE_CHECKING:
    from accord.transports.http_wire import HttpWire

__all__ = ["TappedHttpWire"]

_LOOPBACK: Final = "127.0.0.1"
# How long responses may take to end once their connections are gone.
_STOP_EXPECTED: Final = 2.0


class TappedHttpWire:
    """The HTTP client on a real socket; a recording observes what travels.

    Args:
        target: a URL, or an app that is served on loopback while the wire is open.
        recording: what observes.
        settings: how the client was told to connect.
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
            with contextlib.suppress(RuntimeError):  # the loop was closed in between
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
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_EXPECTED):
                while state.connections:
                    await asyncio.sleep(0)  # until the loop has told them that they are closed
