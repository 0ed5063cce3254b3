"""Workers without anything that is served: several on one store, each with its own connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from accord.sharing import KeyRing
from accord.sharing.workers.worker import Worker
from support.faulty_backend import FaultyBackend, SharedStore
from support.shared import KEY, LEASE, loop_clock


class Mate(Worker):
    """A worker of a test.

    Attributes:
        connection: its connection to the store.
        lost: the workers that it has taken over.
        late: how often its lease had run out.
    """

    def __init__(self, store: SharedStore, *, keys: KeyRing | None, lease: float) -> None:
        self.connection = FaultyBackend(store)
        super().__init__(self.connection, keys, lease=lease)  # type: ignore[arg-type]
        self.lost: list[str] = []
        self.late = 0
        self.on_worker_lost(self._note_lost)
        self.on_late(self._note_late)

    async def _note_lost(self, id: str) -> None:
        self.lost.append(id)

    def _note_late(self) -> None:
        self.late += 1

    def kill(self) -> None:
        """Let it do nothing more, without a goodbye."""
        self.connection.cut()
        for task in (*self._tasks, *self._taking.values()):
            task.cancel()


class Mates(list[Mate]):
    """Workers on one store."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SharedStore(loop_clock)

    async def add(self, *, has_key: bool = True, lease: float = LEASE) -> Mate:
        """Let another worker join."""
        mate = Mate(self.store, keys=KeyRing([KEY]) if has_key else None, lease=lease)
        await mate.start()
        self.append(mate)
        return mate

    async def facts(self) -> dict[str, Any]:
        """Return how much the store holds."""
        return await self.store.backend.describe()


@asynccontextmanager
async def working(count: int = 2, **options: Any) -> AsyncIterator[Mates]:
    """Let workers join; those that are left at the end leave in good order."""
    mates = Mates()
    try:
        for _ in range(count):
            await mates.add(**options)
        yield mates
    finally:
        for mate in mates:
            mate.connection.move_on()
            await mate.stop()


async def pass_lease(times: float = 2.5) -> None:
    """Let some leases run out, in the time of the loop."""
    await asyncio.sleep(times * LEASE)
