"""Threads for one kind of work, so that no other kind has to wait behind it."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Semaphore
from typing import TypeVar

Value = TypeVar("Value")


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
        self._places = None if waiting is None else Semaphore(self._threads + waiting)

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
