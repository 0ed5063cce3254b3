"""Limits on guessing: how often an attempt may fail within a time. Pure; the clock is passed in."""

from collections import OrderedDict, deque
from contextlib import suppress
from threading import Lock
from typing import Final

# What is remembered is bounded; the oldest is forgotten first.
_KEYS_MOST: Final = 10_000


class Attempts:
    """Counts attempts by key within a sliding window; those that succeed are taken back.

    An attempt is counted before it is looked at, so that many at the same time are not more.

    Args:
        limit: how many there may be.
        window: within how many seconds.
    """

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self.window = window
        self._lock = Lock()
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def reserve(self, key: str, now: float) -> float:
        """Count an attempt and return 0; where none is left, return how many seconds to wait."""
        with self._lock:
            times = self._times.setdefault(key, deque())
            while times and times[0] <= now - self.window:
                times.popleft()
            if len(times) >= self.limit:
                return times[0] + self.window - now
            times.append(now)
            self._times.move_to_end(key)
            if len(self._times) > _KEYS_MOST:
                self._times.popitem(last=False)
            return 0.0

    def release(self, key: str, now: float) -> None:
        """Take back an attempt of a time, because it succeeded."""
        with self._lock:
            times = self._times.get(key)
            if times is None:
                return
            with suppress(ValueError):
                times.remove(now)
            if not times:
                del self._times[key]

    def forget(self, key: str) -> None:
        """Begin anew after a success."""
        with self._lock:
            self._times.pop(key, None)
