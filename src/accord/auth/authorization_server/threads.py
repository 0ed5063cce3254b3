"""Threads beside event loops: for one kind of work each, and with a loop of their own.

`WorkPool` runs blocking work for a loop, so that no other kind of work has to wait behind it.
`LoopCalls` runs coroutines on a loop, for threads that wait for the result, and `DirectCalls` runs
those that need no loop.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import copy_context
from typing import Any, Final, Protocol, TypeVar

from accord.errors import StoreUnavailable
from accord.runtime.tasks import run_without_loop

log = logging.getLogger("accord.auth")

Value = TypeVar("Value")

# Longer than a store may take to answer: after that the loop itself does not run.
_PATIENCE: Final = 30.0


class PoolFull(Exception):
    """As much work waits as may wait."""


class WorkPool:
    """Runs work in a few threads of its own; they begin with the first work.

    Args:
        name: of its threads.
        threads: how many there are at most.
        waiting: how much work may wait for a thread; None for any.
    """

    def __init__(self, name: str, *, threads: int, waiting: int | None = None) -> None:
        self._name = name
        self._threads = threads
        self._waiting = waiting
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
        waiting = self._waiting
        self._places = None if waiting is None else threading.Semaphore(self._threads + waiting)

    async def run(self, work: Callable[[], Value]) -> Value:
        """Do work in a thread and return what it returns.

        Raises:
            PoolFull: too much work waits already.
        """
        if os.getpid() != self._process:  # a fork has none of the threads
            self._begin()
        places = self._places
        if places is not None and not places.acquire(blocking=False):
            raise PoolFull
        future = self._executor.submit(copy_context().run, work)
        if places is not None:
            # Not when it is awaited no more: what has begun keeps its thread until it ends.
            future.add_done_callback(lambda _: places.release())
        return await asyncio.wrap_future(future)


class BackendCalls(Protocol):
    """Runs coroutines that use a backend, for code that waits for the result."""

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Return the result of a coroutine."""

    async def gather(self, *work: Coroutine[Any, Any, Value]) -> list[Value]:
        """Return the results of several, which run at the same time if that is possible."""

    def transaction(self, *, is_durable: bool = True) -> AbstractContextManager[object]:
        """Run a block as one exclusive transaction, if the backend has transactions.

        Args:
            is_durable: whether it has to survive a loss of power.
        """


class DirectCalls:
    """Runs coroutines in the thread that calls, one at a time; for backends that never wait.

    Args:
        lock: held meanwhile; that of the backend, if it has one.
        transaction: begins a transaction of the backend. Without it, one excludes other threads.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object] | None = None,
        transaction: Callable[..., AbstractContextManager[object]] | None = None,
    ) -> None:
        self._lock = threading.RLock() if lock is None else lock
        self._begin = transaction

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Return the result of a coroutine."""
        with self._lock:
            return run_without_loop(work)

    async def gather(self, *work: Coroutine[Any, Any, Value]) -> list[Value]:
        """Return the results of several, one after the other."""
        return [await each for each in work]

    def transaction(self, *, is_durable: bool = True) -> AbstractContextManager[object]:
        """Run a block as one exclusive transaction."""
        return self._lock if self._begin is None else self._begin(is_durable=is_durable)


class LoopCalls:
    """Runs coroutines on an event loop that runs in another thread. Blocks.

    Args:
        loop: the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Return the result of a coroutine.

        Raises:
            StoreUnavailable: the loop has ended, or does not run.
            RuntimeError: this is the thread of the loop, which would wait for itself.
        """
        if asyncio._get_running_loop() is self.loop:
            work.close()
            raise RuntimeError(
                "this waits for the event loop that it is called on: use await asyncio.to_thread()"
            )
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise StoreUnavailable("the event loop of the store has ended") from None
        try:
            return future.result(_PATIENCE)
        except CancelledError:
            raise StoreUnavailable("the event loop of the store has ended") from None
        except FutureTimeout:
            if future.done():
                raise  # of the coroutine itself
            future.cancel()
            why = f"the event loop of the store did not run for {_PATIENCE:g} s"
            raise StoreUnavailable(why) from None

    async def gather(self, *work: Coroutine[Any, Any, Value]) -> list[Value]:
        """Return the results of several, which run at the same time."""
        return await asyncio.gather(*work)

    def transaction(self, *, is_durable: bool = True) -> AbstractContextManager[object]:
        """Do nothing: such backends have no transactions."""
        return nullcontext()


class StoreLoop(LoopCalls):
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self._last: list[Callable[[], Awaitable[None]]] = []
        self._thread = threading.Thread(
            target=_run_loop, args=(self.loop, self._last), name="accord-auth-store", daemon=True
        )
        self._thread.start()

    def at_end(self, work: Callable[[], Awaitable[None]]) -> None:
        """Let the loop do something last."""
        self._last.append(work)

    def end(self) -> None:
        """Let the loop end, without waiting for it; it may have ended."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)

    def close(self) -> None:
        """End the loop and the thread."""
        self.end()
        self._thread.join(_PATIENCE)


def _run_loop(
    loop: asyncio.AbstractEventLoop, last: Sequence[Callable[[], Awaitable[None]]]
) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_end_tasks(last))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _end_tasks(last: Sequence[Callable[[], Awaitable[None]]]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for work in last:
        try:
            async with asyncio.timeout(_PATIENCE):
                await work()
        except Exception:
            log.exception("the store of the authorization server was not closed properly")
