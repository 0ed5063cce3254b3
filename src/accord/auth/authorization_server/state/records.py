"""Records of an authorization server in a backend.

Each operation of the store is one atomic step on one name, so records are changed by compare and
set. Records are JSON objects: a newer version may add fields, which an older one ignores.
"""

from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

import msgspec

from accord.auth.authorization_server.secrets import digest
from accord.auth.authorization_server.threads import BackendCalls
from accord.errors import Conflict, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend, StoredRecord

T = TypeVar("T")
P = ParamSpec("P")
Group = TypeVar("Group", bound="RecordGroup")

# Each failed try means that another process succeeded.
_TRIES: Final = 100
_TTL_LEAST: Final = 1.0


class RecordGroup(Protocol):
    """Operations on some of the records."""

    records: "Records"


def blocks(
    method: Callable[Concatenate[Group, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Group, P], T]:
    """Let an operation block: it runs where the backend is used, and its caller waits."""

    @wraps(method)
    def call(self: Group, /, *args: P.args, **keywords: P.kwargs) -> T:
        return self.records.calls.run(method(self, *args, **keywords))

    return call


class Records:
    """Reads and changes records.

    Args:
        backend: an open store.
        calls: runs coroutines where the backend is used.
        now: returns the time.
    """

    def __init__(self, backend: "Backend", calls: BackendCalls, now: Callable[[], float]) -> None:
        self.backend = backend
        self.calls = calls
        self.gather = calls.gather
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


def decode_record(kind: type[T], name: str, found: "StoredRecord") -> T:
    """Decode a record.

    Raises:
        StoreError: it is not of this kind.
    """
    try:
        record: T = _DECODERS[kind].decode(found.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"record {name!r} cannot be read: {str(error)[:200]}") from None
    return record


class _Decoders(dict[Any, msgspec.json.Decoder[Any]]):
    """Decoders by the kinds of records, made when they are first used."""

    def __missing__(self, kind: Any) -> msgspec.json.Decoder[Any]:
        self[kind] = made = msgspec.json.Decoder(kind)
        return made


_DECODERS: Final = _Decoders()


class AttemptCounter:
    """Counts the attempts of all processes that share a backend, by key within a sliding window.

    An attempt is counted before it is checked, so that concurrent attempts cannot exceed the limit;
    successful attempts are released.

    Args:
        records: where they are counted.
        name: of the counter.
        limit: the number of attempts.
        window: the seconds in which they count.
    """

    def __init__(self, records: Records, name: str, limit: int, window: float) -> None:
        self.records = records
        self._name = name.replace(" ", "-")
        self._limit = limit
        self._window = window

    def reserve(self, key: str, now: float) -> float:
        """Count an attempt and return 0; at the limit, return how many seconds to wait."""
        # A loss of power forgets attempts of the last moments, which does no harm.
        with self.records.calls.transaction(is_durable=False):
            return self._reserve(key, now)

    @blocks
    async def _reserve(self, key: str, now: float) -> float:
        wait = 0.0

        def count(found: list[float] | None) -> list[float] | None:
            nonlocal wait
            times = self._recent(found, now)
            wait = self._wait(times, now, 0)
            return None if wait > 0 else [*times, now]

        await self.records.put_either(list[float], self._at(key), count, ttl=self._window)
        return wait

    @blocks
    async def release(self, key: str, now: float) -> None:
        """Uncount the attempt of a time, because it succeeded."""

        def uncount(found: list[float]) -> list[float] | None:
            if now not in found:
                return None
            left = list(found)
            left.remove(now)
            return left

        await self.records.change(list[float], self._at(key), uncount, ttl=lambda _: self._window)

    @blocks
    async def forget(self, key: str) -> None:
        """Reset a key after a success."""
        await self.records.backend.delete(self._at(key))

    @blocks
    async def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        """Return how many seconds to wait, without counting anything.

        Args:
            key: what the attempts are counted by.
            now: the time.
            more: how many attempts count in addition.
        """
        times = self._recent(await self.records.get(list[float], self._at(key)), now)
        return self._wait(times, now, more)

    def _at(self, key: str) -> str:
        return f"auth:attempts:{self._name}:{digest(key)}"

    def _recent(self, times: Iterable[float] | None, now: float) -> list[float]:
        return [each for each in times or () if each > now - self._window]

    def _wait(self, times: list[float], now: float, more: int) -> float:
        if len(times) + more < self._limit:
            return 0.0
        return min(times, default=now) + self._window - now
