"""A process that serves: over stdio or HTTP, until the input ends or a signal arrives.

Or a part of a program that does so in its own event loop, until its task is cancelled.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import AccordError, MissingExtra
from accord.runtime import GRACE

if TYPE_CHECKING:
    from queue import SimpleQueue
    from socket import socket
    from ssl import SSLContext

    from accord.http.server.app import HttpApp
    from accord.http.settings import HttpSettings, ListenSettings
    from accord.runtime.shutdown import Stop
    from accord.server.core import ServerCore
    from accord.sharing.serving.worker_processes import WorkerEnd


_stdio_log = logging.getLogger("accord.stdio")
_http_log = logging.getLogger("accord.http")

# How many seconds the end of a part of a program takes beyond the grace period.
_END_SLACK: Final = 0.5
# How to let other machines in, of a server that code started.
ADVICE: Final = (
    "set public_url or allowed_hosts for others, as in server.run('http', public_url=...)"
)


class Announcement(msgspec.Struct):
    """What is said when a server is ready; with several workers, the first lets the parent say it.

    Attributes:
        text: where the server is served.
        warning: what the user should know.
    """

    text: str
    warning: str | None = None


def build_app(server: "ServerCore", options: "HttpSettings") -> "HttpApp":
    """Return the ASGI app of a server, behind its guard if it has one."""
    from accord.http.server.app import HttpApp

    if server.auth is not None:
        options.setdefault("public_url", getattr(server.auth, "public_url", None))
    app = HttpApp(server, options)
    settings = app.options
    # The guard and the log have the interface of the app.
    if server.auth is not None:
        app = server.auth.guard(app, path=settings["path"], public_url=settings["public_url"])
    if settings["access_log"]:
        from accord.http.server.access_log import AccessLog

        app = AccessLog(app, is_json=settings["access_log"] == "json")  # type: ignore[assignment]  # as above
    return app


def run(server: "ServerCore", transport: str, options: "ListenSettings") -> None:
    """Serve over a transport until the end; as `Server.run`.

    Raises:
        RuntimeError: an event loop is running in this thread.
        ValueError: the transport does not exist, or a setting is invalid.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "run() starts an event loop, and one is running here already; "
            f"in async code write: await server.serve({transport!r})"
        )
    transport = _read_transport(transport, options)
    grace = options.setdefault("grace", GRACE)
    if transport == "http":
        count = count_workers(options)
        if count > 1:
            workers = import_module("accord.sharing.serving.worker_processes")
            workers.run_in_workers(server, ListenAddress.take(options), options, count=count)
            return
    with log_in_background():
        if transport == "stdio":
            run_stdio(server, grace=grace)
        else:
            address = ListenAddress.take(options)
            run_http(server, build_app(server, options), address)


def count_workers(options: Any) -> int:
    """Return how many processes shall serve; the setting is removed from the options.

    Raises:
        ValueError: it is not a number of workers.
        ConfigurationError: this system cannot run several.
    """
    workers = options.pop("workers", 1)
    if workers == 1 and workers is not True:
        return 1
    http_server()
    count: int = import_module("accord.sharing.serving.worker_processes").count_workers(workers)
    return count


def _read_transport(transport: str, options: Any) -> str:
    """Return "stdio" or "http", also for the names that other libraries have for HTTP."""
    if transport == "sse":
        options.setdefault("sse", True)
    if transport in ("streamable-http", "sse"):
        return "http"
    if transport not in ("stdio", "http"):
        raise ValueError(f"transport is {transport!r}, expected 'stdio' or 'http'")
    return transport


async def serve(server: "ServerCore", transport: str, options: "ListenSettings") -> None:
    """Serve in the running event loop; as `Server.serve`.

    Raises:
        ValueError: the transport does not exist, or a setting is invalid.
        MissingExtra: what serves HTTP is not installed.
        TransportError: the address cannot be listened on.
    """
    transport = _read_transport(transport, options)
    grace = options.setdefault("grace", GRACE)
    server.was_run = True
    with log_in_background():
        if transport == "stdio":
            await _serve_stdio_as_guest(server, grace=grace)
            return
        if options.pop("workers", 1) != 1:
            raise ValueError("workers: a loop that is running cannot be forked; use server.run()")
        address = ListenAddress.take(options)
        app = build_app(server, options)
        serve_in_loop, tls = http_server().serve_in_loop, address.load_tls()
        sockets = address.open_sockets()

        _http_log.info("%s", describe_address(server, app, sockets, is_tls=tls is not None))
        warning = _find_refusals(app, sockets, ADVICE)
        if warning is not None:
            _http_log.warning("%s", warning)
        await serve_in_loop(app, sockets, tls)


async def _serve_stdio_as_guest(server: "ServerCore", *, grace: float) -> None:
    from accord.runtime.shutdown import Stop
    from accord.runtime.tasks import run_until_cancelled
    from accord.stdio.server import claim_for_a_while

    stop = Stop(grace=grace, is_guest=True)
    with claim_for_a_while():
        work = _serve_stdio(server, stop)
        await run_until_cancelled(work, stop.request, seconds=grace + _END_SLACK)


def run_stdio(server: "ServerCore", *, grace: float) -> None:
    """Serve until the input ends, a signal arrives or the parent exits.

    A tool that does not end delays the exit by no more than the grace period.

    Raises:
        AccordError: the server did not start, because of something that it mounts or connects to.
    """
    from accord.runtime.shutdown import Stop, exit_at_once
    from accord.runtime.tasks import run_to_end
    from accord.stdio.server import claim

    server.was_run = True
    claim()
    stop = Stop(grace=grace)
    try:
        with stop.signals():
            run_to_end(_serve_stdio(server, stop))
    except BaseException as error:
        if isinstance(error, AccordError) and not stop.has_begun:
            raise
        from accord.runtime.source_files import trim_traceback

        _stdio_log.critical("the server stopped", exc_info=trim_traceback(error))
        exit_at_once(1)
    _leave(server, _stdio_log, grace=grace, seconds=grace)


async def _serve_stdio(server: "ServerCore", stop: "Stop") -> None:
    from accord.runtime import tasks
    from accord.stdio.server import StdioConnection, claim

    generation = tasks.fork_generation
    async with server.run_lifespan() as state:
        stop.has_begun = True
        if tasks.fork_generation != generation:
            tasks.end_child()

        connection = StdioConnection(limit=server.limits.message_bytes)
        session = server.session(connection.write, state)
        session.flow = connection
        dispatcher = session.dispatcher
        await connection.start(dispatcher.receive, dispatcher.receive_malformed)
        server.watchdog().while_blocked = partial(stop.look_for_end, claim()[0])
        only_input_ended = await stop.wait(connection.ended)
        session.dispatcher.end_of_input()
        if only_input_ended:
            # A client that closed the input may still wait for its answers. The last quarter is
            # for handlers that clean up when they are cancelled.
            await stop.wait_unless_signalled(session.dispatcher.drain(), stop.seconds_left * 3 / 4)
        session.close()
        await session.dispatcher.drain(stop.seconds_left)
        from accord.runtime.threads import wait_until_idle

        await wait_until_idle(stop.seconds_left)
        connection.finish(max(stop.seconds_left, 0.1))


def run_http(
    server: "ServerCore",
    app: "HttpApp",
    address: "ListenAddress",
    *,
    sockets: "list[socket] | None" = None,
    advice: str = ADVICE,
    worker: "WorkerEnd | None" = None,
) -> None:
    """Serve until a signal arrives; calls under way get the grace period.

    Code that hangs, on the loop or in a thread, delays the exit by about a second more.

    Args:
        server: the server.
        app: its app.
        address: where to listen.
        sockets: those to serve on, if they are open already.
        advice: how to let other machines in, for a warning.
        worker: for one of several processes that serve on the same sockets.

    Raises:
        MissingExtra: what serves HTTP is not installed.
        TransportError: the address cannot be listened on, or the certificate cannot be used.
        AccordError: the server did not start, because of something that it mounts or connects to.
    """
    serving = http_server()
    server.was_run = True
    tls = address.load_tls()
    opened = sockets or (address.open_sockets() if worker is None else worker.sockets)
    describe = partial(_describe, server, app, opened, advice, is_tls=tls is not None)
    has_started = False

    async def start() -> None:
        nonlocal has_started
        await app.start()  # a lifespan that fails raises its own exception here
        has_started = True
        if worker is None:
            announce(describe(), 1)

    def report_ready() -> None:
        if worker is not None:
            worker.report_ready(describe())

    try:
        serving.serve(app, opened, start, tls, worker=worker, on_started=report_ready)
    except Exception as error:
        if has_started or isinstance(error, AccordError):
            raise
        from accord.runtime.source_files import trim_traceback

        _http_log.error("the server did not start", exc_info=trim_traceback(error))
        raise SystemExit(1) from None
    finally:
        for each in opened:
            each.close()
    _leave(server, _http_log, grace=app.options["grace"], seconds=serving.END_SLACK / 2)


def http_server() -> Any:
    """Return the module that serves HTTP, which needs an extra."""
    try:
        from accord.http.server import running
    except ImportError:
        raise MissingExtra("http", needed_for="serving over HTTP") from None
    return running


def _describe(
    server: "ServerCore", app: "HttpApp", sockets: "list[socket]", advice: str, *, is_tls: bool
) -> Announcement:

    text = describe_address(server, app, sockets, is_tls=is_tls)
    return Announcement(text, _find_refusals(app, sockets, advice))


def announce(said: Announcement, workers: int) -> None:
    """Say where a server is served, and by how many processes."""
    by = f", by {workers} workers" if workers > 1 else ""
    print(f"{said.text}{by}; Ctrl-C ends", file=sys.stderr, flush=True)
    if said.warning is not None:
        _http_log.warning("%s", said.warning)


def _find_refusals(app: "HttpApp", sockets: "list[socket]", advice: str) -> str | None:
    """Return the warning for a server that listens for other machines but refuses them."""
    is_open = app.options["public_url"] is not None or any(app.options["allowed_hosts"])

    if is_open or not is_reached_by_others(sockets):
        return None
    return f"only requests to localhost are served; {advice}"


def _leave(server: "ServerCore", log: logging.Logger, *, grace: float, seconds: float) -> None:
    """Exit although threads may still run: at once if they work, else some seconds from now."""
    from accord.runtime.shutdown import exit_at_once, leave_threads
    from accord.runtime.threads import is_working

    if is_working():
        log.warning("sync work did not stop within %g s and is left behind", grace)
        exit_at_once(0)
    workers = vars(server).pop("threads", None)
    if workers is not None:
        workers.shutdown()
    leave_threads(seconds)


class ListenAddress:
    """Where a server listens.

    Args:
        given: settings; those of HTTP itself do not matter.

    Raises:
        ValueError: an address is malformed, or settings exclude each other.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        from accord.http.server.sockets import split_address
        from accord.http.settings import LISTEN

        self._given = given = {name: given.get(name, each.default) for name, each in LISTEN.items()}
        for each in self.addresses or ():
            split_address(each)
        if given["tls"] is not None and given["certificate"] is not None:
            raise ValueError("tls is a context with its certificate; leave out certificate and key")
        has_key = given["key"] is not None or given["key_password"] is not None
        if has_key and given["certificate"] is None:
            raise ValueError("key is the key of a certificate; name that too: certificate='...'")

    @classmethod
    def take(cls, options: Any) -> "ListenAddress":
        """Return where to listen; its settings are removed from the options."""
        from accord.http.settings import LISTEN

        return cls({name: options.pop(name) for name in LISTEN if name in options})

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """Those to listen on; None for the host and the port."""
        given = self._given["listen"]
        if given is None:
            return None
        return (given,) if isinstance(given, str) else tuple(given)

    def open_sockets(self) -> "list[socket]":
        """Open the sockets.

        Raises:
            TransportError: an address cannot be listened on.
        """
        from accord.http.server import sockets

        given = self._given
        if self.addresses is None:
            return sockets.listen(given["host"], given["port"])
        return sockets.listen_on(self.addresses, mode=given["socket_mode"])

    def load_tls(self) -> "SSLContext | None":
        """Return what serves HTTPS; None for HTTP.

        Raises:
            TransportError: the certificate or the key cannot be used.
        """
        given = self._given
        if given["certificate"] is None:
            context: SSLContext | None = given["tls"]
            return context
        from accord.http.server.tls import load_certificate

        return load_certificate(given["certificate"], given["key"], given["key_password"])


def describe_address(
    server: "ServerCore", app: "HttpApp", sockets: "list[socket]", *, is_tls: bool
) -> str:
    """Say where a server is served."""
    from accord.http.server.endpoint import STREAM

    def places(path: str) -> str:
        return " and ".join(_url(each.getsockname(), path, is_tls=is_tls) for each in sockets)

    older = f", and in the older form at {places(STREAM)}" if app.options["sse"] else ""
    return f"{server.info.name} is served at {places(app.options['path'])}{older}"


def _url(address: Any, path: str, *, is_tls: bool) -> str:
    if not isinstance(address, tuple):  # that of a Unix socket is its path
        shown = address.decode() if isinstance(address, bytes) else address
        return f"{path} on unix:{shown}"
    host, port = address[:2]
    bracketed = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{bracketed}:{port}{path}"


def is_reached_by_others(sockets: "list[socket]") -> bool:
    """Whether other machines can connect to one of the sockets."""
    from ipaddress import ip_address

    names = [each.getsockname() for each in sockets]
    return any(isinstance(each, tuple) and not ip_address(each[0]).is_loopback for each in names)


# -- logs, written by a thread


# Lines that wait for a reader of stderr; what comes on top is counted and dropped.
_LINES_MOST: Final = 1_000
# How long the end waits for the last lines.
_LAST_LINES: Final = 0.5


class _Background(logging.Handler):
    """Hands records to other handlers in a thread, since those may block.

    A pipe that is not read, as stderr often is, holds 64 KB. Then a write waits for ever.
    """

    def __init__(self, handlers: list[logging.Handler], *, is_propagated: bool) -> None:
        super().__init__()
        self._handlers = handlers
        self._is_propagated = is_propagated
        self._queue: SimpleQueue[logging.LogRecord | None] | None = None
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
            if self._queue is None:
                from queue import SimpleQueue  # most servers log nothing before they answer

                self._queue = SimpleQueue()
        # Its arguments may change before it is written.
        record.msg, record.args = record.getMessage(), None
        self._queue.put(record)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write, args=(self._queue,), name="accord-log", daemon=True
            )
            self._thread.start()

    def _write(self, queue: "SimpleQueue[logging.LogRecord | None]") -> None:
        while (record := queue.get()) is not None:
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
        if not handlers:
            handlers = fallback_handlers(record)
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
        if self._queue is not None:
            self._queue.put(None)
        self.close()


def fallback_handlers(record: logging.LogRecord) -> list[logging.Handler]:
    """Return what writes a record where logging is not configured."""
    if record.name == "accord.access":
        from accord.http.server.access_log import fallback

        return [fallback]
    return [] if logging.lastResort is None else [logging.lastResort]


class _Sharing:
    """How many servers of the process log in the background, and what to restore after the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.handlers: list[logging.Handler] = []
        self.is_propagated = True


_sharing: Final = _Sharing()


@contextmanager
def log_in_background() -> Iterator[None]:
    """Write what accord logs in a thread while a server runs; several servers share the thread.

    The handlers of the logger `accord` are restored when the last of them ends.
    """
    logger = logging.getLogger("accord")
    shared = _sharing
    with shared.lock:
        shared.users += 1
        if shared.users == 1:
            shared.handlers, shared.is_propagated = logger.handlers[:], logger.propagate
            background = _Background(shared.handlers, is_propagated=shared.is_propagated)
            logger.handlers[:] = [background]
            logger.propagate = False
    try:
        yield
    finally:
        with shared.lock:
            shared.users -= 1
            if not shared.users:
                ours = [each for each in logger.handlers if isinstance(each, _Background)]
                logger.handlers[:] = shared.handlers
                logger.propagate = shared.is_propagated
                for each in ours:
                    each.stop()
