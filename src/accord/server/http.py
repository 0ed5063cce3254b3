"""Serving over HTTP with uvicorn, to a clean end."""

from typing import Any

from accord.errors import MissingExtra


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
            app.end_streams()
            await super().shutdown(sockets)

    return Stopping(config)
