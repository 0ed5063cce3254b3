"""Shared state of one process, in its memory."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from accord.sharing.backends.backend import (
    Allowance,
    LogPage,
    NotifierByOldName,
    OnNotify,
    StoredRecord,
    takes_ring,
)
from accord.sharing.backends.engine import (
    Followers,
    check_append,
    check_items,
    check_version,
    draw,
    fill,
    time_to_fill,
)

__all__ = ["MemoryBackend"]

# How many expired things an operation deletes besides its work; more than it can add on average.
_SWEEP: Final = 16
# Deleted things stay in the queue of what expires until they are so many.
_SLACK: Final = 64


class _Kept:
    """Something that expires; `due` is when the queue looks at it next."""

    __slots__ = ("due", "expires")

    def __init__(self) -> None:
        self.expires = self.due = math.inf


class _Record(_Kept):
    __slots__ = ("stored",)

    stored: StoredRecord


class _Log(_Kept):
    __slots__ = ("fence", "is_closed", "items", "last")

    def __init__(self) -> None:
        super().__init__()
        self.items: list[bytes] = []
        self.last = self.fence = 0
        self.is_closed = False


class _Bucket(_Kept):
    __slots__ = ("at", "level")

    level: float
    at: float


class MemoryBackend(NotifierByOldName):
    """Keeps what workers share in the memory of this process.

    Several servers of one process may share it; each opens and closes it. It serves one event loop
    at a time. What it keeps is gone with the process.

    Args:
        clock: returns the seconds since 1970.
    """

    url = "memory:"
    is_shared = False
    is_remote = False

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._records: dict[str, _Record] = {}
        self._indexes: dict[str, dict[str, _Kept]] = {}
        self._logs: dict[str, _Log] = {}
        self._buckets: dict[str, _Bucket] = {}
        self._followers = Followers()
        self._version = 0
        self._members = 0  # of all indexes
        # When to look, a number that decides between equal times, where it is, its name there, and
        # the name of the index if it is in one.
        self._queue: list[tuple[float, int, dict[str, Any], str, str | None]] = []
        self._queued = 0

    async def open(self) -> None:
        """Do nothing: it is always open."""

    async def close(self) -> None:
        """Do nothing: others may use it."""

    async def now(self) -> float:
        """Return the time of the clock."""
        return self._clock()

    # -- records

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record; None if it does not exist, or has expired."""
        return self._find_record(key, self._tick())

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record; return its version."""
        now = self._tick()
        if expect is not None:
            check_version(key, expect, self._find_record(key, now))
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record()
        # One count for all names, so that a version never comes back.
        self._version += 1
        record.stored = StoredRecord(value, self._version)
        self._keep(record, now + ttl, self._records, key)
        return self._version

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record; return whether there was one."""
        stored = self._find_record(key, self._tick())
        if stored is None:
            return False
        check_version(key, expect, stored)
        del self._records[key]
        return True

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Let a record live for this long from now on; return whether there is one."""
        now = self._tick()
        if self._find_record(key, now) is None:
            return False
        self._keep(self._records[key], now + ttl, self._records, key)
        return True

    # -- indexes

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index; those that are in it live for this long from now on."""
        now = self._tick()
        names = list(members)
        if not names:
            return
        held = self._indexes.setdefault(index, {})
        for name in names:
            member = held.get(name)
            if member is None:
                member = held[name] = _Kept()
                self._members += 1
            self._keep(member, now + ttl, held, name, index)

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index; return how many were in it."""
        now = self._tick()
        held = self._indexes.get(index, {})
        removed = 0
        for name in members:
            member = held.pop(name, None)
            if member is not None:
                self._members -= 1
                removed += member.expires > now
        if not held:
            self._indexes.pop(index, None)
        return removed

    async def members(self, index: str, *, limit: int = 1000) -> list[str]:
        """Return names of an index that have not expired, in any order."""
        now = self._tick()
        held = self._indexes.get(index, {})
        return [name for name, member in held.items() if member.expires > now][:limit]

    async def count(self, index: str) -> int:
        """Return how many names of an index have not expired."""
        now = self._tick()
        held = self._indexes.get(index, {})
        if self._queue and self._queue[0][0] <= now:
            return sum(member.expires > now for member in held.values())
        return len(held)  # everything that has expired is swept

    # -- logs

    @takes_ring
    async def append(
        self,
        log: str,
        items: Sequence[bytes],
        *,
        ttl: float,
        fence: int | None = None,
        after: int | None = None,
        final: bool = False,
        keep: int = 0,
        notify: Sequence[str] = (),
    ) -> int:
        """Add entries to a log, all of them or none; return the number of the last one."""
        check_items(items, final=final)
        now = self._tick()
        found = self._logs.get(log)
        if found is None or found.expires <= now:
            found = _Log()
        found.fence = check_append(
            log,
            last=found.last,
            held=found.fence,
            is_closed=found.is_closed,
            fence=fence,
            after=after,
        )
        found.items.extend(items)
        found.last += len(items)
        found.is_closed = final
        if 0 < keep < len(found.items):
            del found.items[:-keep]
        self._logs[log] = found
        self._keep(found, now + ttl, self._logs, log)
        if notify:
            self._followers.notify(notify)
        return found.last

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return the entries after a number; None if there is no such log, or it has expired."""
        found = self._find_log(log, self._tick())
        if found is None:
            return None
        skipped = found.last - len(found.items)
        start = max(0, after - skipped)
        items = found.items[start : start + limit]
        return LogPage(
            items=items,
            first=skipped + start + 1 if items else found.last + 1,
            last=found.last,
            is_closed=found.is_closed,
            fence=found.fence,
        )

    async def seize(self, log: str, *, fence: int) -> bool:
        """Take an open log over from the holder of a fence: it becomes higher by one."""
        found = self._find_log(log, self._tick())
        if found is None or found.is_closed or found.fence != fence:
            return False
        found.fence += 1
        return True

    async def extend(self, log: str, *, ttl: float) -> bool:
        """Let a log live for this long from now on; return whether there is one."""
        now = self._tick()
        found = self._find_log(log, now)
        if found is None:
            return False
        self._keep(found, now + ttl, self._logs, log)
        return True

    async def drop(self, log: str) -> None:
        """Delete a log with its entries."""
        self._tick()
        self._logs.pop(log, None)

    # -- notifications

    async def notify(self, *topics: str) -> None:
        """Call what follows these topics."""
        self._followers.notify(topics)

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified, from when this returns until `unfollow`."""
        self._followers.add(topic, on_notify)

    async def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        self._followers.discard(topic, on_notify)

    # -- buckets

    async def take(self, bucket: str, *, cost: float, rate: float, burst: float) -> Allowance:
        """Take from a bucket that fills by itself; all of the cost, or nothing."""
        now = self._tick()
        found = self._buckets.get(bucket)
        if found is None or found.expires <= now:
            level = burst
        else:
            level = fill(found.level, now - found.at, rate=rate, burst=burst)
        allowance = draw(level, cost=cost, rate=rate, burst=burst)
        if allowance.is_granted:
            if found is None:
                found = self._buckets[bucket] = _Bucket()
            found.level, found.at = max(0.0, level - cost), now
            expires = now + time_to_fill(found.level, rate=rate, burst=burst)
            self._keep(found, expires, self._buckets, bucket)
        return allowance

    # -- operation

    async def describe(self) -> dict[str, str | int | float]:
        """Return how much it holds."""
        now = self._clock()
        while self._queue and self._queue[0][0] <= now:
            self._sweep(now)
            await asyncio.sleep(0)
        return {
            "engine": "memory",
            "records": len(self._records),
            "indexes": len(self._indexes),
            "index_members": self._members,
            "logs": len(self._logs),
            "log_entries": sum(len(log.items) for log in self._logs.values()),
            "buckets": len(self._buckets),
        }

    # -- what expires

    def _find_record(self, key: str, now: float) -> StoredRecord | None:
        record = self._records.get(key)
        return None if record is None or record.expires <= now else record.stored

    def _find_log(self, log: str, now: float) -> _Log | None:
        found = self._logs.get(log)
        return None if found is None or found.expires <= now else found

    def _keep(
        self,
        kept: _Kept,
        expires: float,
        place: dict[str, Any],
        name: str,
        index: str | None = None,
    ) -> None:
        """Let something live until then."""
        kept.expires = expires
        # What lives longer than was queued is queued again when its old time has come.
        if expires < kept.due:
            kept.due = expires
            self._queued += 1
            heappush(self._queue, (expires, self._queued, place, name, index))
            if len(self._queue) > _SLACK + 2 * self._count():
                self._rebuild()

    def _count(self) -> int:
        return len(self._records) + self._members + len(self._logs) + len(self._buckets)

    def _tick(self) -> float:
        """Return the time, after some of what has expired was deleted."""
        now = self._clock()
        if self._queue and self._queue[0][0] <= now:
            self._sweep(now)
        return now

    def _sweep(self, now: float) -> None:
        for _ in range(_SWEEP):
            if not self._queue or self._queue[0][0] > now:
                return
            due, number, place, name, index = heappop(self._queue)
            kept = place.get(name)
            if kept is None or kept.due != due:
                continue  # it was deleted, or is queued for another time
            if kept.expires > now:
                kept.due = kept.expires
                heappush(self._queue, (kept.due, number, place, name, index))
                continue
            del place[name]
            if index is not None:
                self._members -= 1
                if not place and self._indexes.get(index) is place:
                    del self._indexes[index]

    def _rebuild(self) -> None:
        """Queue everything that is kept, once."""
        places: list[tuple[dict[str, Any], str | None]] = [
            (self._records, None),
            (self._logs, None),
            (self._buckets, None),
            *((held, index) for index, held in self._indexes.items()),
        ]
        self._queue = []
        for place, index in places:
            for name, kept in place.items():
                kept.due = kept.expires
                self._queued += 1
                self._queue.append((kept.due, self._queued, place, name, index))
        heapify(self._queue)
