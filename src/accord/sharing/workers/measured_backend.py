"""A backend that counts what the store is asked for, and limits how long that may take."""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from accord.errors import StoreUnavailable
from accord.sharing.backends.backend import Allowance, Backend, LogPage, OnRing, StoredRecord
from accord.sharing.workers.metrics import WorkerMetrics

__all__ = ["MeasuredBackend"]

Value = TypeVar("Value")


class MeasuredBackend:
    """Passes everything on to a backend, and counts it.

    Args:
        backend: the store.
        metrics: where it is counted.
        patience: seconds that an operation may take; backends may have shorter limits.
    """

    def __init__(self, backend: Backend, metrics: WorkerMetrics, *, patience: float) -> None:
        self._backend = backend
        self._patience = patience
        self._metrics = metrics
        self.url = backend.url
        self.is_shared = backend.is_shared
        self.is_remote = backend.is_remote

    async def _measure(self, operation: Awaitable[Value]) -> Value:
        metrics, began = self._metrics, time.perf_counter()
        metrics.store_operations += 1
        try:
            async with asyncio.timeout(self._patience):
                return await operation
        except StoreUnavailable:
            metrics.store_errors += 1
            raise
        except TimeoutError:
            metrics.store_errors += 1
            why = f"the store {self.url} did not answer within {self._patience:g} s"
            raise StoreUnavailable(why) from None
        finally:
            metrics.store_seconds += time.perf_counter() - began

    async def open(self) -> None:
        """Connect."""
        await self._backend.open()

    async def close(self) -> None:
        """Let go of connections, files and threads."""
        await self._backend.close()

    async def now(self) -> float:
        """Return the time of the engine."""
        return await self._measure(self._backend.now())

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record."""
        return await self._measure(self._backend.get(key))

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record."""
        return await self._measure(self._backend.put(key, value, ttl=ttl, expect=expect))

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record."""
        return await self._measure(self._backend.delete(key, expect=expect))

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Let a record live for longer."""
        return await self._measure(self._backend.touch(key, ttl=ttl))

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index."""
        await self._measure(self._backend.add(index, members, ttl=ttl))

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index."""
        return await self._measure(self._backend.remove(index, members))

    async def members(self, index: str, *, limit: int = 1000) -> list[str]:
        """Return names of an index."""
        return await self._measure(self._backend.members(index, limit=limit))

    async def count(self, index: str) -> int:
        """Return how many names an index has."""
        return await self._measure(self._backend.count(index))

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
        ring: Sequence[str] = (),
    ) -> int:
        """Add entries to a log."""
        return await self._measure(
            self._backend.append(
                log,
                items,
                ttl=ttl,
                fence=fence,
                after=after,
                final=final,
                keep=keep,
                ring=ring,
            )
        )

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return entries of a log."""
        return await self._measure(self._backend.read(log, after=after, limit=limit))

    async def seize(self, log: str, *, fence: int) -> bool:
        """Take a log over."""
        return await self._measure(self._backend.seize(log, fence=fence))

    async def extend(self, log: str, *, ttl: float) -> bool:
        """Let a log live for longer."""
        return await self._measure(self._backend.extend(log, ttl=ttl))

    async def drop(self, log: str) -> None:
        """Delete a log."""
        await self._measure(self._backend.drop(log))

    async def ring(self, *topics: str) -> None:
        """Ring topics."""
        await self._measure(self._backend.ring(*topics))

    async def follow(self, topic: str, on_ring: OnRing) -> None:
        """Call something whenever a topic rings."""
        await self._measure(self._backend.follow(topic, on_ring))

    async def unfollow(self, topic: str, on_ring: OnRing) -> None:
        """Call it no more."""
        await self._measure(self._backend.unfollow(topic, on_ring))

    async def take(self, bucket: str, *, cost: float, rate: float, burst: float) -> Allowance:
        """Take from a bucket."""
        return await self._measure(self._backend.take(bucket, cost=cost, rate=rate, burst=burst))

    async def describe(self) -> dict[str, str | int | float]:
        """Return facts about the engine."""
        return await self._backend.describe()
