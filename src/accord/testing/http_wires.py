"""Wires to servers over HTTP: to a URL, or to a server that is served for as long as they last."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final, Literal

from accord.client import ConnectOptions
from accord.errors import MissingExtra
from accord.protocol.codec import Limits
from accord.protocol.exchange import Exchange
from accord.testing.http_tap import TappedSender
from accord.testing.recording import Recording
from accord.transports.asgi import HttpApp
from accord.transports.http import HttpClientOptions, HttpTarget, HttpWire, Sender
from accord.transports.http_sender import AiohttpSender
from accord.transports.wire import Lost, Receive, Watcher

__all__ = ["TappedHttpWire"]

_LOOPBACK: Final = "127.0.0.1"
# How long responses may take to end once their connections are gone.
_STOP_EXPECTED: Final = 2.0


class TappedHttpWire:
    """The HTTP client on a real socket; a recording observes what travels.

    Args:
        target: a URL, or an app that is served on loopback while the wire is open.
        recording: what observes.
        form: "http" or "sse"; None tries both.
        options: how the client was told to connect.
    """

    def __init__(
        self,
        target: str | HttpApp,
        recording: Recording,
        *,
        form: Literal["http", "sse"] | None,
        options: ConnectOptions,
    ) -> None:
        recording.transport = form or "http"
        self.inner: HttpWire | None = None
        self._target = target
        self._recording = recording
        self._form: Literal["http", "sse"] | None = form
        self._options = options
        self._served = None if isinstance(target, str) else _Served(target)
        self._sender: AiohttpSender | None = None
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
        if self._served is not None:
            await self._served.start()
            place = "/sse" if self._form == "sse" else self._served.app.options.path
            url = f"http://{_LOOPBACK}:{self._served.port}{place}"
        else:
            url = str(self._target)
        self.inner = HttpWire(self._aim(url))
        self.inner.watch(self._watcher)
        await self.inner.open(receive, lost)

    def _aim(self, url: str) -> HttpTarget:
        given = self._options
        options = given.get("http") or HttpClientOptions()
        inner: Sender | None = options.sender
        if inner is None:
            inner = self._sender = AiohttpSender(url, options)
        return HttpTarget(
            url=url,
            headers=given.get("headers"),
            form=self._form,
            options=HttpClientOptions(
                sender=TappedSender(inner, self._recording),
                listen=options.listen,
                patience=options.patience,
            ),
            limits=given.get("limits") or Limits(),
        )

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
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.close()
        served, self._served = self._served, None
        if served is not None:
            await served.stop()

    def abort(self) -> None:
        """Let go of everything at once."""
        if self.inner is not None:
            self.inner.abort()
        if self._sender is None and self._served is None:
            return
        if self._loop.is_running():
            with contextlib.suppress(RuntimeError):  # the loop was closed in between
                self._loop.call_soon_threadsafe(self._spawn, self.close())
        elif self._sender is not None:
            self._sender.abandon()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._closing = self._loop.create_task(work)


class _Served:
    """An app on uvicorn, on the running loop, at a free port of loopback.

    Not by `uvicorn.Server.serve`, which takes the signals of the process and a tenth of a second to
    notice its end.
    """

    def __init__(self, app: HttpApp) -> None:
        try:
            import uvicorn

            from accord.transports.uvicorn_server import BoundedProtocol, listen
        except ImportError:
            raise MissingExtra("http", needed_for="testing over HTTP") from None
        self.app = app
        self.port = 0
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

    async def start(self) -> None:
        await self.app.start()
        config, server = self._server.config, self._server
        config.load()
        server.lifespan = config.lifespan_class(config)
        (socket,) = self._listen(_LOOPBACK, 0)
        self.port = socket.getsockname()[1]
        await server.startup([socket])
        await server.on_tick(0)  # the headers of every response

    async def stop(self) -> None:
        for each in getattr(self._server, "servers", ()):
            each.close()
        await self.app.stop()
        state = self._server.server_state
        for connection in list(state.connections):
            connection.transport.close()
        tasks = set(state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_STOP_EXPECTED)
            for task in late:
                task.cancel()
        while state.connections:
            await asyncio.sleep(0)  # until the loop has told them that they are closed
