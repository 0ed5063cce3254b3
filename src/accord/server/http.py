"""Serving over HTTP: its settings, and uvicorn brought to a clean end."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.stores import EventStore

__all__ = ["HttpSettings", "run"]


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
    session_idle: float
    connections: int
    listeners: int
    keep_alive: float
    body_timeout: float
    write_timeout: float


def run(app: Any, *, host: str, port: int) -> None:
    """Serve until a signal comes; calls under way get the grace period."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("http", needed_for="serving over HTTP") from None
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="info",
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=max(1, round(app.options.grace)),
        server_header=False,
    )
    _Server(config, app).run()


def _Server(config: Any, app: Any) -> Any:  # noqa: N802  # a class that exists only with the extra
    import uvicorn

    class Stopping(uvicorn.Server):
        """Ends streams before it waits for them."""

        async def shutdown(self, sockets: Any = None) -> None:
            for server in self.servers:
                server.close()
            await app.finish()
            await super().shutdown(sockets)

    return Stopping(config)
