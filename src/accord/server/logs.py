"""Standard logging that reaches the client."""

import logging
from typing import Final

from accord.server.context import current
from accord.types import LoggingLevel

_LEVELS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
)


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
