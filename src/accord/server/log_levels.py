"""The levels of log messages, and which of them a client wants."""

from typing import Final, get_args

from accord.types import LoggingLevel

_SEVERITY: Final = {level: rank for rank, level in enumerate(get_args(LoggingLevel))}


def is_wanted(level: LoggingLevel, least: LoggingLevel | None) -> bool:
    """Whether a client that wants messages from a level on wants one of this level.

    Args:
        level: of the message.
        least: the level that the client has asked for; None if it wants no messages.

    Raises:
        ValueError: there is no such level.
    """
    try:
        rank = _SEVERITY[level]
    except KeyError:
        levels = ", ".join(_SEVERITY)
        raise ValueError(f"there is no log level {level!r}; expected one of {levels}") from None
    return least is not None and rank >= _SEVERITY[least]
