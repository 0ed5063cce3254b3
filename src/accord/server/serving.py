"""A process that serves: over stdio or HTTP, until the input ends or a signal arrives.

What accord logs meanwhile is written in a thread, so that a full stderr never holds up the server.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.bindings.lines import LineTooLong
    from accord.server.server import Server
    from accord.server.session import Session
    from accord.stores import EventStore
    from accord.transports.http.server.app import HttpApp
    from accord.transports.shutdown import Stop

_stdio_log = logging.getLogger("accord.stdio")
_http_log = logging.getLogger("accord.http")

# Lines that wait for a reader of stderr; what comes on top is counted and dropped.
_LINES_MOST: Final = 1_000
# How long the end waits for the last lines.
_LAST_LINES: Final = 0.5


class HttpSettings(TypedDict, total=False):
    """How a server is reached over HTTP; `HttpOptions` documents each setting."""

    path: str
    answers: Literal["auto", "json", "stream"]
    sse: bool
    stateless: bool
    public_url: str | None
    allowed_hosts: Iterable[str]
    allowed_origins: Iterable[str]
    cors: bool
    principal: Callable[[Mapping[str, Any]], Hashable] | None
    resumable: bool
    events: "EventStore | None"
    retry: int
    sessions: int
    sessions_per_caller: int
    session_idle: float
    connections: int
    listeners: int
    keep_alive: float
    body_timeout: float
    body_rate: int
    bodies_bytes: int
    opening_bytes: int
    write_timeout: float
    unread_bytes: int


def build_app(server: "Server[Any]", grace: float, options: HttpSettings) -> "HttpApp":
    """Return the ASGI app of a server, behind its guard if it has one."""
    from accord.transports.http.server.app import HttpApp
    from accord.transports.http.server.state import HttpOptions

    if server.auth is None:
        return HttpApp(server, HttpOptions(grace=grace, **options))
    options.setdefault("public_url", getattr(server.auth, "public_url", None))
    settings = HttpOptions(grace=grace, **options)
    app = HttpApp(server, settings)
    # The guard has the interface of the app.
    guarded: HttpApp = server.auth.guard(app, path=settings.path, public_url=settings.public_url)
    return guarded


def run(
    server: "Server[Any]",
    transport: str,
    *,
    grace: float,
    host: str,
    port: int,
    options: HttpSettings,
) -> None:
    """Serve over a transport until the end; as `Server.run`.

    Raises:
        RuntimeError: an event loop is running in this thread.
        ValueError: the transport does not exist.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "run() starts an event loop; call it outside of async code, or serve "
            "server.asgi() with an ASGI server in the loop that is running"
        )
    if transport not in ("stdio", "http"):
        raise ValueError(f"transport is {transport!r}, expected 'stdio' or 'http'")
    with log_in_background():
        if transport == "stdio":
            run_stdio(server, grace=grace)
        else:
            run_http(server, build_app(server, grace, options), host=host, port=port)


def run_stdio(server: "Server[Any]", *, grace: float) -> None:
    """Serve until the input ends, a signal arrives or the parent exits.

    A tool that does not end delays the exit by no more than the grace period.
    """
    from accord.runtime.tasks import run_to_end
    from accord.transports.shutdown import Stop, exit_at_once
    from accord.transports.stdio import claim

    server.was_run = True
    claim()
    stop = Stop(grace=grace)
    try:
        with stop.signals():
            run_to_end(_serve_stdio(server, stop))
    except BaseException:
        _stdio_log.critical("the server stopped", exc_info=True)
        exit_at_once(1)
    _leave(server, _stdio_log, grace=grace, seconds=grace)


async def _serve_stdio(server: "Server[Any]", stop: "Stop") -> None:
    from accord.runtime import tasks
    from accord.server.threads import wait_until_idle
    from accord.transports.stdio import StdioConnection, claim

    generation = tasks.fork_generation
    async with server.run_lifespan() as state:
        session: Session
        if tasks.fork_generation != generation:
            tasks.end_child()

        def receive(line: bytes) -> None:
            session.dispatcher.receive(line)

        def refuse(error: "LineTooLong") -> None:
            session.dispatcher.receive_malformed(error)

        connection = StdioConnection(receive, refuse, limit=server.limits.message_bytes)
        session = server.session(lambda message, _: connection.write(message), state)
        session.flow = connection
        await connection.start()
        server.watchdog().while_blocked = partial(stop.look_for_end, claim()[0])
        only_input_ended = await stop.wait(connection.ended)
        session.dispatcher.end_of_input()
        if only_input_ended:
            # A client that closed the input may still wait for its answers. The last quarter is
            # for handlers that clean up when they are cancelled.
            await stop.wait_unless_signalled(session.dispatcher.drain(), stop.seconds_left * 3 / 4)
        session.close()
        await session.dispatcher.drain(stop.seconds_left)
        await wait_until_idle(stop.seconds_left)
        connection.finish(max(stop.seconds_left, 0.1))


def run_http(server: "Server[Any]", app: "HttpApp", *, host: str, port: int) -> None:
    """Serve until a signal arrives; calls under way get the grace period.

    Code that hangs, on the loop or in a thread, delays the exit by about a second more.

    Raises:
        MissingExtra: what serves HTTP is not installed.
        TransportError: the address cannot be listened on.
    """
    try:
        from accord.transports.http.server.uvicorn_server import END_SLACK, listen, serve
    except ImportError:
        raise MissingExtra("http", needed_for="serving over HTTP") from None
    server.was_run = True
    sockets = listen(host, port)
    _announce(server, app, sockets[0].getsockname())
    serve(app, sockets)
    _leave(server, _http_log, grace=app.options.grace, seconds=END_SLACK / 2)


def _announce(server: "Server[Any]", app: "HttpApp", address: tuple[Any, ...]) -> None:
    """Print the server's URL; warn if it listens for other machines but refuses them."""
    from ipaddress import ip_address

    from accord.transports.http.server.endpoint import STREAM

    host, port = address[:2]
    bracketed = f"[{host}]" if ":" in host else host
    origin, options = f"http://{bracketed}:{port}", app.options
    older = f", and in the older form at {origin}{STREAM}" if options.sse else ""
    where = f"{server.info.name} is served at {origin}{options.path}{older}; Ctrl-C ends"
    print(where, file=sys.stderr, flush=True)
    is_open = options.public_url is not None or any(options.allowed_hosts)
    if not is_open and not ip_address(host).is_loopback:
        _http_log.warning(
            "only requests to localhost are served; set public_url or allowed_hosts for others, "
            "as in server.run('http', public_url=...)"
        )


def _leave(server: "Server[Any]", log: logging.Logger, *, grace: float, seconds: float) -> None:
    """Exit although threads may still run: at once if they work, else some seconds from now."""
    from accord.server.threads import is_working
    from accord.transports.shutdown import exit_at_once, leave_threads

    if is_working():
        log.warning("sync work did not stop within %g s and is left behind", grace)
        exit_at_once(0)
    workers = vars(server).pop("threads", None)
    if workers is not None:
        workers.shutdown()
    leave_threads(seconds)


# -- logs


class _Background(logging.Handler):
    """Hands records to other handlers in a thread, since those may block.

    A pipe that is not read, as stderr often is, holds 64 KB. Then a write waits for ever.
    """

    def __init__(self, handlers: list[logging.Handler], *, is_propagated: bool) -> None:
        super().__init__()
        self._handlers = handlers
        self._is_propagated = is_propagated
        self._queue: SimpleQueue[logging.LogRecord | None] = SimpleQueue()
        self._counting = threading.Lock()
        self._waiting = 0
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record, unless too many wait."""
        with self._counting:
            if self._waiting >= _LINES_MOST:
                self._dropped += 1
                return
            self._waiting += 1
        # Its arguments may change before it is written.
        record.msg, record.args = record.getMessage(), None
        self._queue.put(record)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="accord-log", daemon=True)
            self._thread.start()

    def _write(self) -> None:
        while (record := self._queue.get()) is not None:
            self._pass_on(record)
            with self._counting:
                self._waiting -= 1
                dropped = self._dropped if self._waiting == 0 else 0
                self._dropped -= dropped
            if dropped:
                text = f"{dropped} log lines were dropped because stderr was not read"
                record = logging.LogRecord("accord", logging.WARNING, __file__, 0, text, None, None)
                self._pass_on(record)

    def _pass_on(self, record: logging.LogRecord) -> None:
        handlers = list(self._handlers)
        if self._is_propagated:
            handlers += logging.getLogger().handlers
        if not handlers and logging.lastResort is not None:
            handlers = [logging.lastResort]
        for handler in handlers:
            if record.levelno >= handler.level:
                handler.handle(record)

    def flush(self) -> None:
        """Wait a moment until all is written."""
        end = time.monotonic() + _LAST_LINES
        while self._waiting and time.monotonic() < end:
            time.sleep(0.005)

    def stop(self) -> None:
        """Write what is queued, if that takes but a moment, and end the thread.

        Not in `close`: whatever configures logging anew closes every handler, also those in use.
        """
        self.flush()
        self._queue.put(None)
        self.close()


@contextmanager
def log_in_background() -> Iterator[None]:
    """Write what accord logs in a thread, so that a full stderr does not hold up the server."""
    logger = logging.getLogger("accord")
    handlers, is_propagated = logger.handlers[:], logger.propagate
    background = _Background(handlers, is_propagated=is_propagated)
    logger.handlers[:] = [background]
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers[:] = handlers
        logger.propagate = is_propagated
        background.stop()
