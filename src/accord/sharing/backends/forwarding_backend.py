"""A backend that passes everything on to another one: what seals or measures begins with it."""

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Protocol, TypeVar
from warnings import warn

from accord.sharing.backends.backend import Allowance, Backend, LogPage, OnNotify, StoredRecord

__all__ = ["ForwardingBackend"]

Value = TypeVar("Value")


class _Run(Protocol):
    """Awaits an operation and returns its result, and may do something around it."""

    async def __call__(self, operation: Coroutine[Any, Any, Value], /) -> Value: ...


async def _await(operation: Coroutine[Any, Any, Value], /) -> Value:
    return await operation


class ForwardingBackend:
    """Passes every operation on to a backend.

    Args:
        backend: the other one; one that was written for accord 0.2, with `ring`, is taken as well.
        run: awaits each operation of the store, all but `open`, `close` and `describe`.
    """

    def __init__(self, backend: Backend, run: _Run = _await) -> None:
        self._backend: Backend = backend
        if not hasattr(backend, "notify"):
            older: Any = _OlderBackend(backend)
            self._backend = older
        self._run = run
        self.url = backend.url
        self.is_shared = backend.is_shared
        self.is_remote = backend.is_remote

    async def open(self) -> None:
        """Open the backend."""
        await self._backend.open()

    async def close(self) -> None:
        """Close the backend."""
        await self._backend.close()

    async def now(self) -> float:
        """Return the time of the engine, in seconds since 1970."""
        return await self._run(self._backend.now())

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record; None if it does not exist, or has expired."""
        return await self._run(self._backend.get(key))

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record; return its version."""
        return await self._run(self._backend.put(key, value, ttl=ttl, expect=expect))

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record; return whether there was one."""
        return await self._run(self._backend.delete(key, expect=expect))

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Let a record live for this long from now on; return whether there is one."""
        return await self._run(self._backend.touch(key, ttl=ttl))

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index; those that are in it live for this long from now on."""
        await self._run(self._backend.add(index, members, ttl=ttl))

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index; return how many were in it."""
        return await self._run(self._backend.remove(index, members))

    async def members(self, index: str, *, limit: int = 1000) -> list[str]:
        """Return names of an index that have not expired, in any order."""
        return await self._run(self._backend.members(index, limit=limit))

    async def count(self, index: str) -> int:
        """Return how many names of an index have not expired."""
        return await self._run(self._backend.count(index))

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
        return await self._run(
            self._backend.append(
                log,
                items,
                ttl=ttl,
                fence=fence,
                after=after,
                final=final,
                keep=keep,
                notify=notify,
            )
        )

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return the entries after a number; None if there is no such log, or it has expired."""
        return await self._run(self._backend.read(log, after=after, limit=limit))

    async def seize(self, log: str, *, fence: int) -> bool:
        """Take an open log over from the holder of a fence: it becomes higher by one."""
        return await self._run(self._backend.seize(log, fence=fence))

    async def extend(self, log: str, *, ttl: float) -> bool:
        """Let a log live for this long from now on; return whether there is one."""
        return await self._run(self._backend.extend(log, ttl=ttl))

    async def drop(self, log: str) -> None:
        """Delete a log with its entries."""
        await self._run(self._backend.drop(log))

    async def notify(self, *topics: str) -> None:
        """Call what follows these topics, in every process."""
        await self._run(self._backend.notify(*topics))

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified, from when this returns until `unfollow`."""
        await self._run(self._backend.follow(topic, on_notify))

    async def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        await self._run(self._backend.unfollow(topic, on_notify))

    async def take(self, bucket: str, *, cost: float, rate: float, burst: float) -> Allowance:
        """Take from a bucket that fills by itself; all of the cost, or nothing."""
        return await self._run(self._backend.take(bucket, cost=cost, rate=rate, burst=burst))

    async def describe(self) -> dict[str, str | int | float]:
        """Return facts about the engine for an operator."""
        return await self._backend.describe()


class _OlderBackend:
    """A backend that was written for accord 0.2, where `notify` was `ring`; taken until 0.4."""

    def __init__(self, older: Any) -> None:
        name = type(older).__name__
        warn(
            f"the backend {name} has no notify(), which was ring() up to accord 0.2, and "
            "append(ring=...) is append(notify=...): rename both; 0.4 will refuse it",
            DeprecationWarning,
            stacklevel=3,
        )
        self._older = older

    async def notify(self, *topics: str) -> None:
        await self._older.ring(*topics)

    async def append(
        self, log: str, items: Sequence[bytes], *, notify: Sequence[str] = (), **options: Any
    ) -> int:
        return int(await self._older.append(log, items, ring=notify, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._older, name)
