"""Serving over HTTP: its settings, and a process that does it to a clean end."""

import logging
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.server.server import Server
    from accord.stores import EventStore

__all__ = ["HttpSettings", "run"]

log = logging.getLogger("accord.http")


class HttpSettings(TypedDict, total=False):
    """How a server is reached over HTTP; `HttpOptions` says what each means."""

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


def run(server: "Server[Any]", app: Any, *, host: str, port: int) -> None:
    """Serve until a signal comes; calls under way get the grace period.

    What hangs, on the loop or in a thread, keeps the process for about a second more.

    Raises:
        MissingExtra: what serves HTTP is not installed.
        TransportError: the address cannot be listened on.
    """
    from accord.server.threads import is_working
    from accord.transports.ending import exit_at_once, leave_threads

    try:
        from accord.transports.uvicorn_server import END_SLACK, listen, serve
    except ImportError:
        raise MissingExtra("http", needed_for="serving over HTTP") from None
    server.was_run = True
    sockets = listen(host, port)
    _announce(server, app, sockets[0].getsockname())
    serve(app, sockets)
    if is_working():
        log.warning("sync work did not stop within %g s and is left behind", app.options.grace)
        exit_at_once(0)
    executor = vars(server).pop("threads", None)
    if executor is not None:
        executor.shutdown(wait=False, cancel_futures=True)
    leave_threads(END_SLACK / 2)


def _announce(server: "Server[Any]", app: Any, address: tuple[Any, ...]) -> None:
    """Say where the server is, and what keeps others from reaching it."""
    from ipaddress import ip_address

    from accord.transports.http_two_endpoints import STREAM

    host, port = address[:2]
    shown = f"[{host}]" if ":" in host else host
    origin, options = f"http://{shown}:{port}", app.options
    older = f", and in the older form at {origin}{STREAM}" if options.sse else ""
    told = f"{server.info.name} is served at {origin}{options.path}{older}; Ctrl-C ends"
    print(told, file=sys.stderr, flush=True)
    is_open = options.public_url is not None or any(options.allowed_hosts)
    if not is_open and not ip_address(host).is_loopback:
        log.warning(
            "only requests to localhost are served; set public_url or allowed_hosts for others, "
            "as in server.run('http', public_url=...)"
        )
