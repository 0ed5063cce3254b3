"""Records of an authorization server in a store that several machines share.

Each operation of the store is one atomic step on one name, so records are changed by compare and
set. Records are JSON objects: a newer version may add fields, which an older one ignores.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from accord.auth.authorization_server.secrets import digest, wait_until_free
from accord.errors import Conflict, StoreError, StoreUnavailable
from accord.sharing.backends.backend import Backend, StoredRecord

T = TypeVar("T")

# Each failed try means that another process succeeded.
_TRIES: Final = 100
_TTL_LEAST: Final = 1.0


class SharedRecords:
    """Reads and changes records.

    Args:
        backend: an open store.
        now: returns the time.
    """

    def __init__(self, backend: Backend, now: Callable[[], float]) -> None:
        self.backend = backend
        self.now = now

    def ttl(self, expires_at: float) -> float:
        """Return how long a record lives that expires at a time."""
        return max(expires_at - self.now(), _TTL_LEAST)

    async def get(self, kind: type[T], name: str) -> T | None:
        """Return a record.

        Raises:
            StoreError: it cannot be decoded.
        """
        found = await self.backend.get(name)
        return None if found is None else decode_record(kind, name, found)

    async def get_versioned(self, kind: type[T], name: str) -> tuple[T, int] | None:
        """Return a record and its version; as `get`."""
        found = await self.backend.get(name)
        return None if found is None else (decode_record(kind, name, found), found.version)

    async def put(self, name: str, record: Any, *, ttl: float) -> None:
        """Write a record, in place of any other."""
        await self.backend.put(name, msgspec.json.encode(record), ttl=ttl)

    async def add(self, name: str, record: Any, *, ttl: float) -> bool:
        """Write a record that must not exist; false if it does."""
        try:
            await self.backend.put(name, msgspec.json.encode(record), ttl=ttl, expect=0)
        except Conflict:
            return False
        return True

    async def change(
        self,
        kind: type[T],
        name: str,
        decide: Callable[[T], T | None],
        *,
        ttl: Callable[[T], float],
    ) -> T | None:
        """Change a record.

        Args:
            kind: of the record.
            name: of the record.
            decide: called with the record, again if it has changed meanwhile; returns the new one,
                or None to leave it as it is.
            ttl: called with the new record; returns how long it lives.

        Returns:
            The record as it is stored then; None if it does not exist.
        """
        for _ in range(_TRIES):
            found = await self.backend.get(name)
            if found is None:
                return None
            old = decode_record(kind, name, found)
            new = decide(old)
            if new is None:
                return old
            body = msgspec.json.encode(new)
            try:
                await self.backend.put(name, body, ttl=ttl(new), expect=found.version)
            except Conflict:
                continue
            return new
        raise StoreUnavailable(f"{name!r} is changed by too many processes at once")

    async def put_either(
        self,
        kind: type[T],
        name: str,
        decide: Callable[[T | None], T | None],
        *,
        ttl: float,
    ) -> None:
        """Change a record, or write the first one; as `change`."""
        for _ in range(_TRIES):
            found = await self.backend.get(name)
            new = decide(None if found is None else decode_record(kind, name, found))
            if new is None:
                return
            version = 0 if found is None else found.version
            try:
                await self.backend.put(name, msgspec.json.encode(new), ttl=ttl, expect=version)
            except Conflict:
                continue
            return
        raise StoreUnavailable(f"{name!r} is changed by too many processes at once")

    async def take(self, kind: type[T], name: str, fits: Callable[[T], bool]) -> T | None:
        """Delete a record and return it, once; None for one that does not fit, which stays."""
        found = await self.backend.get(name)
        if found is None:
            return None
        record = decode_record(kind, name, found)
        if not fits(record):
            return None
        try:
            was_there = await self.backend.delete(name, expect=found.version)
        except Conflict:
            return None
        return record if was_there else None


def decode_record(kind: type[T], name: str, found: StoredRecord) -> T:
    """Decode a record.

    Raises:
        StoreError: it is not of this kind.
    """
    try:
        return msgspec.json.decode(found.value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"record {name!r} cannot be read: {str(error)[:200]}") from None


class SharedAttempts:
    """Counts the attempts of all processes that share a store, by key within a sliding window.

    Args:
        records: where they are counted.
        name: of the counter.
        limit: the number of attempts.
        window: the seconds in which they count.
    """

    def __init__(self, records: SharedRecords, name: str, limit: int, window: float) -> None:
        self._records = records
        self._name = name
        self._limit = limit
        self._window = window

    def _at(self, key: str) -> str:
        return f"auth:attempts:{self._name}:{digest(key)}"

    def _recent(self, times: Iterable[float] | None, now: float) -> list[float]:
        return [each for each in times or () if each > now - self._window]

    def _wait(self, times: list[float], now: float, more: int) -> float:
        return wait_until_free(times, now, more, limit=self._limit, window=self._window)

    async def reserve(self, key: str, now: float) -> float:
        wait = 0.0

        def count(found: list[float] | None) -> list[float] | None:
            nonlocal wait
            times = self._recent(found, now)
            wait = self._wait(times, now, 0)
            return None if wait > 0 else [*times, now]

        await self._records.put_either(list[float], self._at(key), count, ttl=self._window)
        return wait

    async def release(self, key: str, now: float) -> None:
        def uncount(found: list[float]) -> list[float] | None:
            if now not in found:
                return None
            left = list(found)
            left.remove(now)
            return left

        await self._records.change(list[float], self._at(key), uncount, ttl=lambda _: self._window)

    async def forget(self, key: str) -> None:
        await self._records.backend.delete(self._at(key))

    async def wait_for(self, key: str, now: float, more: int) -> float:
        times = self._recent(await self._records.get(list[float], self._at(key)), now)
        return self._wait(times, now, more)
