"""Counts of what a listener does."""

from typing import Final

_CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")


class ListenerMetrics:
    """Counts since the start.

    Attributes:
        connections: accepted ones.
        refused: connections that were refused, because there were too many.
        responses: by the class of their status, 2 for 2xx.
    """

    __slots__ = ("connections", "refused", "responses")

    def __init__(self) -> None:
        self.connections = 0
        self.refused = 0
        self.responses = [0] * 6

    def count(self, status: int) -> None:
        """Count a response."""
        self.responses[status // 100] += 1
