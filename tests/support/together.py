"""Several servers of one process that serve together: each is a worker, and all share a backend."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from accord import Server
from accord.errors import StoreUnavailable
from accord.sharing import KeyRing, MemoryBackend
from accord.sharing.backends.backend import Backend
from accord.sharing.workers.worker import Worker
from accord.testing import run_in_virtual_time

KEY = "a key that all the workers of the tests share"


class CutBackend:
    """A backend whose connection can be cut: everything then fails as if it did not answer."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.is_cut = False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if not callable(found):
            return found

        async def call(*args: Any, **keywords: Any) -> Any:
            self.calls.append(name)
            if self.is_cut:
                raise StoreUnavailable("the connection is cut")
            return await found(*args, **keywords)

        return call


@dataclass
class Mate:
    """One of the servers that serve together."""

    server: Server[Any]
    worker: Worker
    backend: CutBackend

    def stall(self) -> None:
        """Let its lease run out while its handlers go on, as in a process that was stopped."""
        for task in self.worker._tasks:
            task.cancel()

    def kill(self) -> None:
        """Let it do nothing more in the store, as a process that was killed."""
        self.stall()
        self.backend.is_cut = True


def in_bounded_virtual_time(
    test: Callable[..., Coroutine[Any, Any, None]],
) -> Callable[..., None]:
    """Run a test on a loop whose timers are due at once, for a quarter of an hour of its time."""

    @wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(900):
                await test(*args, **keywords)

        run_in_virtual_time(bounded())

    return run


def loop_clock() -> float:
    """Return the time by the clock of the loop, which a test may skip."""
    return 1_800_000_000 + asyncio.get_running_loop().time()


@asynccontextmanager
async def serve_together(
    make: Callable[[], Server[Any]],
    count: int = 2,
    *,
    backend: Backend | None = None,
    lease: float = 0.6,
    keys: Sequence[Sequence[str]] = ((KEY,),),
) -> AsyncIterator[list[Mate]]:
    """Make servers, each with a worker, on one backend; the last keys are those of the others."""
    shared = backend or MemoryBackend(clock=loop_clock)
    async with AsyncExitStack() as stack:
        mates = []
        for number in range(count):
            cut = CutBackend(shared)
            ring = KeyRing(keys[min(number, len(keys) - 1)])
            worker = Worker(cut, ring, lease=lease)  # type: ignore[arg-type]
            await worker.start()
            stack.push_async_callback(_leave, worker, cut)
            server = make()
            server._core.join_workers(worker)
            stack.push_async_callback(server._core.leave_workers)
            await stack.enter_async_context(server.run_lifespan())
            mates.append(Mate(server, worker, cut))
        yield mates


async def _leave(worker: Worker, backend: CutBackend) -> None:
    for task in worker._tasks:
        task.cancel()
    backend.is_cut = False
    await worker.stop()
