"""A listener as a program: until a signal arrives, or until its task is cancelled."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from socket import socket
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.http.server.listener import HttpListener
from accord.http.server.proxies import TrustedProxies
from accord.http.settings import HttpLimits
from accord.runtime.shutdown import exit_at_once, exit_later, take_signals
from accord.runtime.tasks import run_to_end, run_until_cancelled

if TYPE_CHECKING:
    from accord.http.server.app import HttpApp
    from accord.sharing.serving.worker_processes import WorkerEnd

Start: TypeAlias = Callable[[], Awaitable[None]]
OnStarted: TypeAlias = Callable[[], None]
# What a shutdown takes beyond the grace period: last responses, and leaving the lifespan. With the
# grace period of `server.run`, a server that hangs exits within 3 s.
END_SLACK: Final = 1.25


class ServedApp:
    """One of our apps on a listener, until it is stopped.

    Args:
        app: the app, or a guard or a log around it.
        sockets: open ones.
        tls: for HTTPS.
        worker: for one of several processes that serve on the same sockets.
        on_started: called once it accepts connections.

    Raises:
        TransportError: the variable that names trusted proxies is malformed.

    Attributes:
        should_exit: whether it has been stopped.
        is_started: whether it accepts connections.
        listener: once it is started.
    """

    def __init__(
        self,
        app: "HttpApp",
        sockets: list[socket],
        tls: ssl.SSLContext | None = None,
        *,
        worker: "WorkerEnd | None" = None,
        on_started: OnStarted | None = None,
    ) -> None:
        TrustedProxies.from_environment()  # before anything has started
        self._app = app
        self._sockets = sockets
        self._tls = tls
        self._worker = worker
        self._on_started = on_started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self.should_exit = False
        self.is_started = False
        self.listener: HttpListener | None = None

    async def serve(self, start: Start | None = None) -> None:
        """Serve until it is stopped; `start` is awaited first."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        await (start or self._app.start)()
        listener = self.listener = HttpListener(self._app, self._app.options["limits"])
        self._app.note_listener(listener.metrics)
        try:
            load = None if self._worker is None else self._worker.load
            await listener.start(self._sockets, self._tls, load=load)
            self.is_started = True
            if self._on_started is not None:
                self._on_started()
            if not self.should_exit:
                await self._stopped.wait()
        finally:
            listener.close()
            if self._worker is not None:
                listener.send_elsewhere()
            # Until then, clients may have to answer questions of calls that are under way.
            later = self._loop.call_later(self._app.options["grace"] / 2, listener.drain)
            try:
                await self._app.finish(
                    None if self._worker is None else lambda: bool(len(listener))
                )
                await listener.stop()
                await self._app.stop()
            finally:  # a second cancellation leaves no time
                later.cancel()
                listener.abort()
                self._app.abort()

    def stop(self) -> None:
        """Let calls finish, and end. From any thread, or from the handler of a signal."""
        self.should_exit = True
        if self._loop is not None and self._stopped is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._stopped.set)

    # -- signals

    def run(self, start: Start | None = None) -> None:
        """Serve until a signal arrives.

        Signals are handled for longer than the loop lives: code that hangs may keep it from ending.
        """
        with take_signals(self.handle_exit):
            run_to_end(self.serve(start), loop_factory=fastest_loop())

    def handle_exit(self, number: int, frame: FrameType | None) -> None:
        """Begin to stop at the first signal; exit at once at the second.

        One of several processes ignores the second: a terminal and a service manager send signals
        to all of them, and so does their parent.
        """
        if self.should_exit:
            if self._worker is not None:
                return
            exit_at_once(0)
        self.stop()
        grace = self._app.options["grace"]
        exit_later(grace, grace + END_SLACK)


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the fastest event loop that is installed; None for the one of Python."""
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def serve(
    app: "HttpApp",
    sockets: list[socket],
    start: Start,
    tls: ssl.SSLContext | None = None,
    *,
    worker: "WorkerEnd | None" = None,
    on_started: OnStarted | None = None,
) -> None:
    """Serve an app on open sockets until a signal arrives; `start` is awaited first."""
    with suppress(KeyboardInterrupt):
        ServedApp(app, sockets, tls, worker=worker, on_started=on_started).run(start)


async def serve_in_loop(
    app: "HttpApp", sockets: list[socket], tls: ssl.SSLContext | None = None
) -> None:
    """Serve an app on open sockets, which are closed at the end, until the task is cancelled.

    Signals, the logging and the loop of the process stay as they are.
    """
    served = ServedApp(app, sockets, tls)
    try:
        seconds = app.options["grace"] + END_SLACK
        await run_until_cancelled(served.serve(), served.stop, seconds=seconds)
    finally:
        for each in sockets:
            each.close()


@asynccontextmanager
async def serve_asgi(
    app: Any,
    sockets: list[socket],
    limits: HttpLimits | None = None,
    make: Callable[[Any, HttpLimits], HttpListener] = HttpListener,
) -> AsyncIterator[HttpListener]:
    """Serve any ASGI app on open sockets within a block of the running loop; yield the listener.

    Signals and the logging of the process stay as they are. The app gets no lifespan events. The
    sockets are closed at the end of the block.

    Args:
        app: the app.
        sockets: open ones.
        limits: how much clients may use; those of a server by default.
        make: makes the listener.
    """
    listener = make(app, limits or HttpLimits())
    try:
        await listener.start(sockets)
        yield listener
    finally:
        await listener.stop()
        for each in sockets:
            each.close()
