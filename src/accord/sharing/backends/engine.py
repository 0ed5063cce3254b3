"""Parts of every engine: rules for changes of records, logs and buckets; followers of topics."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Final

from accord.errors import Conflict, Fenced, LogClosed
from accord.sharing.backends.backend import Allowance, OnNotify, StoredRecord

__all__ = [
    "Followers",
    "check_append",
    "check_items",
    "check_version",
    "draw",
    "fill",
    "time_to_fill",
]

# Sums of fractions are a little off; a caller that has waited as long as it was asked to is served.
_TOLERANCE: Final = 1e-6
# A bucket that never fills is forgotten after a day: everything expires.
_DAY: Final = 86_400.0


def check_version(key: str, expect: int | None, found: StoredRecord | None) -> None:
    """Check that a record is as a caller expects.

    Raises:
        Conflict: it is not.
    """
    version = 0 if found is None else found.version
    if expect is not None and expect != version:
        state = f"has version {version}" if version else "does not exist"
        raise Conflict(f"the record {key!r} {state}, expected version {expect}", record=found)


def check_items(items: Sequence[bytes], *, final: bool) -> None:
    """Check that an append does something.

    Raises:
        ValueError: it has no entries, and is not the final one.
    """
    if not items and not final:
        raise ValueError("an append without entries must be final")


def check_append(
    log: str,
    *,
    last: int,
    held: int,
    is_closed: bool,
    fence: int | None,
    after: int | None,
) -> int:
    """Check that entries may be added to a log; return its fence from now on.

    Args:
        log: its name.
        last: the number of its last entry.
        held: its fence.
        is_closed: whether it has its final entry.
        fence: that of the caller, if it has one.
        after: the number that the caller expects the last entry to have, if it does.

    Raises:
        Fenced: the caller's fence is lower.
        LogClosed: nothing may follow.
        Conflict: its last entry has another number.
    """
    if fence is not None and fence < held:
        raise Fenced(f"the log {log!r} has the fence {held}, and this worker has {fence}")
    if is_closed:
        raise LogClosed(f"the log {log!r} ended with entry {last}")
    if after is not None and after != last:
        raise Conflict(f"the log {log!r} ends with entry {last}, expected {after}", last=last)
    return held if fence is None else fence


def fill(level: float, elapsed: float, *, rate: float, burst: float) -> float:
    """Return what a bucket holds after some seconds; a clock that was set back adds nothing."""
    return min(burst, level + max(0.0, elapsed) * rate)


def draw(level: float, *, cost: float, rate: float, burst: float) -> Allowance:
    """Return whether a bucket with this level grants a cost."""
    if cost <= level + _TOLERANCE:
        return Allowance(is_granted=True, wait=0.0)
    if cost > burst or rate <= 0:
        return Allowance(is_granted=False, wait=math.inf)
    return Allowance(is_granted=False, wait=(cost - level) / rate)


def time_to_fill(level: float, *, rate: float, burst: float) -> float:
    """Return the seconds until a bucket is full; from then on it need not be kept."""
    return (burst - level) / rate if rate > 0 else _DAY


# -- notifications


class Followers:
    """Callbacks by topic, called on the running loop. Notifications of one turn are joined."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[OnNotify, None]] = {}
        self._due: dict[OnNotify, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def add(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified."""
        self._by_topic.setdefault(topic, {})[on_notify] = None

    def discard(self, topic: str, on_notify: OnNotify) -> bool:
        """Call it no more; return whether it was the last one of its topic."""
        callbacks = self._by_topic.get(topic)
        if callbacks is None or on_notify not in callbacks:
            return False
        del callbacks[on_notify]
        if not callbacks:
            del self._by_topic[topic]
        if on_notify in self._due and not any(
            on_notify in each for each in self._by_topic.values()
        ):
            del self._due[on_notify]
        return not callbacks

    def notify(self, topics: Iterable[str]) -> None:
        """Call what follows these topics, in the next turn of the running loop."""
        for topic in topics:
            callbacks = self._by_topic.get(topic)
            if callbacks:
                self._due.update(callbacks)
        self._schedule()

    def notify_all(self) -> None:
        """Call everything once, since notifications may have got lost."""
        self.notify(tuple(self._by_topic))

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        # A loop that ended before it could call them leaves them to the next one.
        if self._due and self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._call, loop)

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        # One may be unfollowed by another that is called before it.
        for _ in range(len(self._due)):
            on_notify = next(iter(self._due), None)
            if on_notify is None:
                return
            del self._due[on_notify]
            try:
                on_notify()
            except Exception as error:
                loop.call_exception_handler(
                    {"message": f"{on_notify!r} failed, which follows a topic", "exception": error}
                )
