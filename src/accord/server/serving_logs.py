"""Writes what accord logs in a thread, so that a full stderr never holds up the server."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from queue import SimpleQueue

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
