"""Servers on real sockets, in a thread of their own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from accord.runtime.tasks import run_to_end
from accord.transports.http.server.running import ServedApp, fastest_loop
from accord.transports.http.server.sockets import listen
from support.waiting import LONG, until_sync


@contextmanager
def serving(app: Any, **config: Any) -> Iterator[int]:
    """Serve any ASGI app with a plain uvicorn; yield the port."""
    with _running(uvicorn.Server(_config(app, **config))) as port:
        yield port


@contextmanager
def bounded(app: Any, *, loop: str = "auto") -> Iterator[int]:
    """Serve one of our apps as `server.run("http")` does."""
    (listening,) = listen("127.0.0.1", 0)
    served = ServedApp(app, [listening])
    factory = None if loop == "asyncio" else fastest_loop()
    thread = threading.Thread(
        target=lambda: run_to_end(served.serve(), loop_factory=factory), daemon=True
    )
    thread.start()
    try:
        until_sync(lambda: served.is_started)
        yield listening.getsockname()[1]
    finally:
        served.stop()
        thread.join(LONG)
        listening.close()
        assert not thread.is_alive(), "the server does not stop"


def _config(app: Any, **config: Any) -> uvicorn.Config:
    settings = {"log_level": "critical", "lifespan": "auto", "timeout_graceful_shutdown": 2}
    return uvicorn.Config(app, access_log=False, ws="none", **(settings | config))


@contextmanager
def _running(server: uvicorn.Server) -> Iterator[int]:
    (listening,) = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        until_sync(lambda: server.started)
        yield port
    finally:
        server.should_exit = True
        thread.join(LONG)
        assert not thread.is_alive(), "the server does not stop"


def free_port() -> int:
    """A free port."""
    (taken,) = listen("127.0.0.1", 0)
    port: int = taken.getsockname()[1]
    taken.close()
    return port
