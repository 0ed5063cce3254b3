"""Calls of coroutines on an event loop, from threads that wait for the result."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, Final, TypeVar

from accord.errors import StoreUnavailable

T = TypeVar("T")

# Longer than a store may take to answer: after that the loop itself does not run.
_PATIENCE: Final = 30.0


class LoopCalls:
    """Runs coroutines on an event loop that runs in another thread. Blocks.

    Args:
        loop: the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
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

    def close(self) -> None:
        """Do nothing: the loop belongs to others."""


class LoopThread(LoopCalls):
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self._thread = threading.Thread(
            target=_run_loop, args=(self.loop,), name="accord-auth-store", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the loop and the thread."""
        end_loop(self.loop)()
        self._thread.join(_PATIENCE)


def end_loop(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Return a function that lets the loop of a thread end; for any thread, also twice."""

    def end() -> None:
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(loop.stop)

    return end


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
