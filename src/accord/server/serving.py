"""A process that serves: over stdio or HTTP, until the input ends or a signal arrives.

Or a part of a program that does so in its own event loop, until its task is cancelled.
"""

import asyncio
import logging
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import AccordError, MissingExtra
from accord.server.serving_logs import log_in_background

if TYPE_CHECKING:
    from socket import socket

    from accord.http.server.app import HttpApp
    from accord.runtime.shutdown import Stop
    from accord.server.core import ServerCore
    from accord.server.http_settings import HttpSettings, ListenSettings
    from accord.server.listen_place import ListenPlace
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


def _take_place(host: str, port: int, options: Any) -> "ListenPlace":
    """Return where to listen; its settings are removed from the options."""
    from accord.server.listen_place import ListenPlace

    names = ListenPlace.__struct_fields__
    return ListenPlace(
        host=host, port=port, **{name: options.pop(name) for name in names if name in options}
    )


def build_app(server: "ServerCore", grace: float, options: "HttpSettings") -> "HttpApp":
    """Return the ASGI app of a server, behind its guard if it has one."""
    from accord.http.server.app import HttpApp
    from accord.http.server.state import HttpOptions

    if server.auth is not None:
        options.setdefault("public_url", getattr(server.auth, "public_url", None))
    settings = HttpOptions(grace=grace, **options)
    app = HttpApp(server, settings)
    # The guard and the log have the interface of the app.
    if server.auth is not None:
        app = server.auth.guard(app, path=settings.path, public_url=settings.public_url)
    if settings.access_log:
        from accord.http.server.access_log import AccessLog

        app = AccessLog(app, is_json=settings.access_log == "json")  # type: ignore[assignment]  # as above
    return app


def run(
    server: "ServerCore",
    transport: str,
    *,
    grace: float,
    host: str,
    port: int,
    options: "ListenSettings",
) -> None:
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
    if transport == "http":
        count = count_workers(options)
        if count > 1:
            workers = import_module("accord.sharing.serving.worker_processes")
            workers.run_in_workers(
                server, _take_place(host, port, options), grace, options, count=count
            )
            return
    with log_in_background():
        if transport == "stdio":
            run_stdio(server, grace=grace)
        else:
            place = _take_place(host, port, options)
            run_http(server, build_app(server, grace, options), place)


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


async def serve(
    server: "ServerCore",
    transport: str,
    *,
    grace: float,
    host: str,
    port: int,
    options: "ListenSettings",
) -> None:
    """Serve in the running event loop; as `Server.serve`.

    Raises:
        ValueError: the transport does not exist, or a setting is invalid.
        MissingExtra: what serves HTTP is not installed.
        TransportError: the address cannot be listened on.
    """
    transport = _read_transport(transport, options)
    server.was_run = True
    with log_in_background():
        if transport == "stdio":
            await _serve_stdio_as_guest(server, grace=grace)
            return
        place = _take_place(host, port, options)
        if options.pop("workers", 1) != 1:
            raise ValueError("workers: a loop that is running cannot be forked; use server.run()")
        app = build_app(server, grace, options)
        serve_in_loop, tls = http_server().serve_in_loop, place.load_tls()
        sockets = place.open_sockets()
        from accord.server.listen_place import describe_place

        _http_log.info("%s", describe_place(server, app, sockets, is_tls=tls is not None))
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
    place: "ListenPlace",
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
        place: where to listen.
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
    tls = place.load_tls()
    opened = sockets or (place.open_sockets() if worker is None else worker.sockets)
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
    _leave(server, _http_log, grace=app.options.grace, seconds=serving.END_SLACK / 2)


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
    from accord.server.listen_place import describe_place

    text = describe_place(server, app, sockets, is_tls=is_tls)
    return Announcement(text, _find_refusals(app, sockets, advice))


def announce(said: Announcement, workers: int) -> None:
    """Say where a server is served, and by how many processes."""
    by = f", by {workers} workers" if workers > 1 else ""
    print(f"{said.text}{by}; Ctrl-C ends", file=sys.stderr, flush=True)
    if said.warning is not None:
        _http_log.warning("%s", said.warning)


def _find_refusals(app: "HttpApp", sockets: "list[socket]", advice: str) -> str | None:
    """Return the warning for a server that listens for other machines but refuses them."""
    is_open = app.options.public_url is not None or any(app.options.allowed_hosts)
    from accord.server.listen_place import is_reached_by_others

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
