"""Limits on guessing: attempts are counted by key, here or in a store that processes share."""

from collections import Counter, OrderedDict, deque
from contextlib import suppress
from threading import Lock
from typing import Final, Protocol

# Memory is bounded: the oldest key is forgotten first.
_KEYS_MOST: Final = 10_000


class AttemptCounter(Protocol):
    """Counts attempts by key within a sliding window; successful attempts are released.

    An attempt is counted before it is checked, so that concurrent attempts cannot exceed the limit.
    """

    def reserve(self, key: str, now: float) -> float:
        """Count an attempt and return 0; at the limit, return how many seconds to wait."""

    def release(self, key: str, now: float) -> None:
        """Uncount the attempt of a time, because it succeeded."""

    def forget(self, key: str) -> None:
        """Reset a key after a success."""

    def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        """Return how many seconds to wait, without counting anything.

        Args:
            key: what the attempts are counted by.
            now: the time.
            more: how many attempts count in addition.
        """


class Attempts:
    """Counts the attempts of one process.

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
        with self._lock:
            times = self._times.get(key)
            if times is None:
                return
            with suppress(ValueError):
                times.remove(now)
            if not times:
                del self._times[key]

    def forget(self, key: str) -> None:
        with self._lock:
            self._times.pop(key, None)

    def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        with self._lock:
            kept = [each for each in self._times.get(key, ()) if each > now - self.window]
        return wait_until_free(kept, now, more, limit=self.limit, window=self.window)


def wait_until_free(
    times: list[float], now: float, more: int, *, limit: int, window: float
) -> float:
    """Return how many seconds to wait after attempts at these times, and `more` at present."""
    if len(times) + more < limit:
        return 0.0
    return min(times, default=now) + window - now


class FailureLimit:
    """Limits failures: what succeeds writes nothing, so that it costs as little as before.

    What is under way in this process counts as a failure until it has succeeded.

    Args:
        failures: counts what has failed.
    """

    def __init__(self, failures: AttemptCounter) -> None:
        self._failures = failures
        self._lock = Lock()
        self._under_way: Counter[str] = Counter()

    def begin(self, key: str, now: float) -> float:
        """Begin an attempt and return 0; at the limit, return how many seconds to wait."""
        with self._lock:
            more = self._under_way[key]
            self._under_way[key] += 1
        try:
            wait = self._failures.wait_for(key, now, more=more)
        except BaseException:
            self._end(key)
            raise
        if wait > 0:
            self._end(key)
        return wait

    def end(self, key: str, now: float, *, is_failure: bool) -> None:
        """End an attempt that has begun."""
        try:
            if is_failure:
                self._failures.reserve(key, now)
        finally:
            self._end(key)

    def _end(self, key: str) -> None:
        with self._lock:
            self._under_way[key] -= 1
            if self._under_way[key] <= 0:
                del self._under_way[key]
