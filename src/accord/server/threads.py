"""Sync work in threads of its own, which a time-out really stops where Python can."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

__all__ = ["OutOfTime", "finished", "in_thread", "is_working"]

Value = TypeVar("Value")

_running: Final[set["_Job"]] = set()


class OutOfTime(TimeoutError):
    """The time for some work ran out, as opposed to a time-out within the work."""


class _Stopped(BaseException):
    """Raised inside a thread whose work has run out of time."""


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raise in another thread, or take back what was not raised yet."""
    import ctypes  # takes 2 ms, and few tools ever run out of time

    raised = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


class _Job:
    """Work in a thread, which knows the thread it runs in as long as it runs."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._stopped = False

    def __call__(self) -> Any:
        with self._lock:
            if self._stopped:
                return None
            self._thread = threading.get_ident()
        _running.add(self)
        try:
            try:
                return self._work()
            finally:
                self._leave()
        except _Stopped:
            return None
        finally:
            _running.discard(self)

    def _leave(self) -> None:
        """Let a stop that is on its way arrive now, rather than in the next work of the thread."""
        with self._lock:
            self._thread = None
            is_stopped = self._stopped
        if is_stopped:
            # It is raised where bytecode is interruptible. To take it back would leave the
            # interpreter, which spins under a tracer then, looking for it.
            for _ in range(100):
                pass

    def stop(self) -> None:
        """Raise in the thread at its next bytecode; a call into C is left only when it returns."""
        with self._lock:
            self._stopped = True
            if self._thread is not None:
                _raise_in(self._thread, _Stopped)


async def in_thread(
    executor: Executor, work: Callable[[], Value], *, timeout: float | None
) -> Value:
    """Run work in a thread and wait for it.

    Raises:
        OutOfTime: the time ran out; the work is stopped, and nobody waits for it any more.
    """
    job = _Job(work)
    future = asyncio.get_running_loop().run_in_executor(executor, job)
    result: Value
    if timeout is None:
        result = await future
        return result
    try:
        done, _ = await asyncio.wait([future], timeout=timeout)
    except asyncio.CancelledError:
        future.cancel()  # work that has not begun never will
        raise
    if done:
        result = future.result()
        return result
    job.stop()
    # What it still returns or raises interests nobody.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    raise OutOfTime


def is_working() -> bool:
    """Whether any work goes on, wanted or not."""
    return bool(_running)


async def finished(timeout: float) -> bool:
    """Wait until no work goes on; returns whether that came about in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while _running and loop.time() < end:
        await asyncio.sleep(0.01)
    return not _running
