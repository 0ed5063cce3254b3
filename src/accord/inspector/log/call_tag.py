"""The call of the page that the running task works for."""

from contextvars import ContextVar
from typing import Final

current_call: Final[ContextVar[str | None]] = ContextVar("accord_current_call", default=None)
"""The id of a call; messages of the client that are sent in its context belong to it."""
