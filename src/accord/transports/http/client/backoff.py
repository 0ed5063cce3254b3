"""How long to wait before trying again."""

import random
from typing import Final

_FIRST: Final = 0.2
_MOST: Final = 30.0
# Bounds of the delay that a server may ask for: less would be a flood of requests, more a stream
# that is never resumed.
_LEAST_ASKED: Final = 0.2
_MOST_ASKED: Final = 3_600.0
# Clients that lost the same server return spread over this part of the delay.
_SPREAD: Final = 0.5
# A delay that a server asks for is kept; many clients are spread a little.
_SPREAD_ON_REQUEST: Final = 0.05


class Backoff:
    """Delays that double from failure to failure, with jitter, up to the longest."""

    __slots__ = ("_first", "_most", "failures")

    def __init__(self, first: float = _FIRST, most: float = _MOST) -> None:
        self._first = first
        self._most = most
        self.failures = 0

    def succeed(self) -> None:
        """Begin anew."""
        self.failures = 0

    def fail(self, asked: float | None = None) -> float:
        """Count a failure and return the delay.

        Args:
            asked: what the server asks for: the least, between 0.2 s and an hour.
        """
        if asked is not None:
            asked = min(max(asked, _LEAST_ASKED), _MOST_ASKED)
        jitter = random.random()  # noqa: S311  # spreads load, protects nothing
        first = self._first if asked is None else asked
        delay = min(first * 2.0 ** min(self.failures, 16), max(self._most, first))
        self.failures += 1
        if asked is not None and self.failures == 1:
            return asked * (1 + _SPREAD_ON_REQUEST * jitter)
        return max(delay * (1 - _SPREAD * jitter), asked or 0.0)
