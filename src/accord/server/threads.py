"""Sync work in threads of its own, which a time-out really stops where Python can."""

import asyncio
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

Value = TypeVar("Value")


class _Stopped(BaseException):
    """Raised inside a thread whose work has run out of time."""


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
        try:
            return self._work()
        except _Stopped:
            return None
        finally:
            with self._lock:
                self._thread = None

    def stop(self) -> None:
        """Raise in the thread at its next bytecode; a call into C is left only when it returns."""
        with self._lock:
            self._stopped = True
            if self._thread is not None:
                raised = ctypes.py_object(_Stopped)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), raised)


async def in_thread(
    executor: Executor, work: Callable[[], Value], *, timeout: float | None
) -> Value:
    """Run work in a thread and wait for it.

    Raises:
        TimeoutError: the time ran out; the work is stopped, and nobody waits for it any more.
    """
    job = _Job(work)
    future = asyncio.get_running_loop().run_in_executor(executor, job)
    if timeout is None:
        result: Value = await future
        return result
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(future)
    except TimeoutError:
        job.stop()
        # What it still returns or raises interests nobody.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise
