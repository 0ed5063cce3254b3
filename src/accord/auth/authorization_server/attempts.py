"""Limits on guessing: how often somebody may fail within a time. Pure; the clock is passed in."""

from collections import OrderedDict, deque
from threading import Lock
from typing import Final

__all__ = ["Attempts"]

# What is remembered is bounded; the oldest is forgotten first.
_KEYS_MOST: Final = 10_000


class Attempts:
    """Counts failures by key within a sliding window.

    Args:
        limit: how many there may be.
        window: within how many seconds.
    """

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self.window = window
        self._lock = Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, key: str, now: float) -> float:
        """Return how many seconds must pass before the next attempt; 0 where none."""
        with self._lock:
            times = self._failures.get(key)
            if times is None:
                return 0.0
            while times and times[0] <= now - self.window:
                times.popleft()
            if not times:
                del self._failures[key]
                return 0.0
            return times[-self.limit] + self.window - now if len(times) >= self.limit else 0.0

    def failed(self, key: str, now: float) -> None:
        """Count a failure."""
        with self._lock:
            times = self._failures.setdefault(key, deque(maxlen=self.limit))
            times.append(now)
            self._failures.move_to_end(key)
            if len(self._failures) > _KEYS_MOST:
                self._failures.popitem(last=False)

    def forget(self, key: str) -> None:
        """Begin anew after a success."""
        with self._lock:
            self._failures.pop(key, None)
