"""Log messages from server to client."""

from typing import Any, Literal, TypeAlias

from accord.types._base import until
from accord.types.messages import Params

__all__ = ["LogMessageParams", "LoggingLevel", "SetLevelParams"]

LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]


@until("2025-11-25")
class SetLevelParams(Params):
    """Choose the least level that is sent from now on."""

    level: LoggingLevel


class LogMessageParams(Params):
    """One log message; `data` is any JSON."""

    level: LoggingLevel
    data: Any
    logger: str | None = None
