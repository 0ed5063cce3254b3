"""Limits on guessing: how many attempts may fail within a time. The clock is passed in."""

from collections import OrderedDict, deque
from contextlib import suppress
from threading import Lock
from typing import Final

# Memory is bounded: the oldest key is forgotten first.
_KEYS_MOST: Final = 10_000


class Attempts:
    """Counts attempts by key within a sliding window; successful attempts are released.

    An attempt is counted before it is checked, so that concurrent attempts cannot exceed the limit.

    Args:
        limit: the number of attempts.
        window: the seconds in which they count.
    """

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self.window = window
        self._lock = Lock()
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def reserve(self, key: str, now: float) -> float:
        """Count an attempt and return 0; at the limit, return how many seconds to wait."""
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
        """Uncount the attempt of a time, because it succeeded."""
        with self._lock:
            times = self._times.get(key)
            if times is None:
                return
            with suppress(ValueError):
                times.remove(now)
            if not times:
                del self._times[key]

    def forget(self, key: str) -> None:
        """Reset a key after a success."""
        with self._lock:
            self._times.pop(key, None)
