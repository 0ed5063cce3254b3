"""A warning at the end of a lifespan that a request has opened, and that nothing closes."""

import asyncio
import atexit
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from accord.http.server.state import ServedServer
from accord.runtime.shutdown import on_host_stop

log = logging.getLogger("accord.http")


class _OpenApp(Protocol):
    server: ServedServer


class _Warning:
    """Logs once that the lifespan of an app stays open."""

    def __init__(self, app: _OpenApp) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self.is_due = True

    def give_soon(self) -> None:
        # Called by a signal handler, in the middle of anything.
        self._loop.call_soon_threadsafe(self.give)

    def give(self) -> None:
        server = self._app.server
        if self.is_due and server.must_close:
            self.is_due = False
            log.warning(
                "the lifespan of %r was opened by its first request, and nothing closes it: give "
                "the framework that mounts app = server.asgi() the lifespan of the app, as in "
                "FastAPI(lifespan=app.lifespan)",
                getattr(server, "name", "the server"),
            )


@contextmanager
def warn_if_left_open(app: _OpenApp) -> Iterator[None]:
    """Warn if the process or the loop ends before the block, which nothing else ends."""
    warning = _Warning(app)
    atexit.register(warning.give)
    on_host_stop(warning.give_soon)
    try:
        yield
        warning.is_due = False
    except asyncio.CancelledError:
        warning.give()
        raise
    finally:
        atexit.unregister(warning.give)
