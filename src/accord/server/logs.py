"""Standard logging: passed on to clients, and written without ever holding up a server."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Final

from accord.server.context import current
from accord.types import LoggingLevel

_LEVELS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
)
# Lines that wait for a reader of stderr; what comes on top is counted and dropped.
_LINES_MOST: Final = 1_000
# How long the end waits for the last lines.
_LAST_LINES: Final = 0.5


class ClientLogHandler(logging.Handler):
    """Sends log records to the client whose request is being handled where they are made.

    Add it to the loggers that clients may read: `logging.getLogger("desk").addHandler(...)`. The
    client chooses the level; what is logged outside of requests, and what accord logs itself, is
    left out. Exceptions are left out too: they may name files, hosts or secrets.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, if a request is being handled."""
        context = current.get(None)
        if context is None or record.name.partition(".")[0] == "accord":
            return
        try:
            context.log(_level(record.levelno), record.getMessage(), logger=record.name)
        except Exception:
            self.handleError(record)


def _level(number: int) -> LoggingLevel:
    return next((name for floor, name in _LEVELS if number >= floor), "debug")


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
                self._pass_on(_record_of(text))

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


def _record_of(text: str) -> logging.LogRecord:
    return logging.LogRecord("accord", logging.WARNING, __file__, 0, text, None, None)


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
