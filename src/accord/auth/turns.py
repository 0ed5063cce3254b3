"""Takes turns: few at once, fairly between sources, the rest in lines that are bounded."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["REQUEST_SOURCE", "FairQueue", "QueueFull"]

REQUEST_SOURCE: Final[ContextVar[str]] = ContextVar("accord-source", default="")
"""What the address counts as that the request comes from whose token is being verified."""


class QueueFull(Exception):
    """The line of a source is full, or its turn did not come in time."""


class FairQueue:
    """Lets few work at once. For one event loop.

    No source gets more than its share, and free places go round between the sources that wait: one
    that sends a flood delays itself.

    Args:
        most: how many may work at once.
        share: how many of these may be of one source.
        waiting: how many more of one source may wait.
        waiting_in_all: how many may wait in all.
        seconds: how long one waits at most.
    """

    def __init__(
        self, most: int, *, share: int, waiting: int, waiting_in_all: int, seconds: float
    ) -> None:
        self._most = most
        self._share = share
        self._waiting = waiting
        self._waiting_in_all = waiting_in_all
        self._seconds = seconds
        self._working: Counter[str] = Counter()
        self._lines: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, source: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it while within.

        Raises:
            NoTurn: there is none to be had.
        """
        if self._has_place(source):
            self._working[source] += 1
        else:
            await self._wait(source)
        try:
            yield
        finally:
            self._free(source)

    def _has_place(self, source: str) -> bool:
        return self._working.total() < self._most and self._working[source] < self._share

    async def _wait(self, source: str) -> None:
        line = self._lines.get(source, ())
        is_full = sum(map(len, self._lines.values())) >= self._waiting_in_all
        if len(line) >= self._waiting or is_full:
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(source, deque()).append(turn)
        try:
            async with asyncio.timeout(self._seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._free(source)  # it came in the moment in which it was given up
            else:
                self._leave(source, turn)
            if isinstance(error, TimeoutError):
                raise QueueFull from None
            raise

    def _leave(self, source: str, turn: "asyncio.Future[None]") -> None:
        line = self._lines.get(source)
        if line is not None and turn in line:
            line.remove(turn)
            if not line:
                del self._lines[source]

    def _free(self, source: str) -> None:
        """Give back a place, and hand it to the source that has waited longest for one."""
        self._working[source] -= 1
        if not self._working[source]:
            del self._working[source]
        for waiting in list(self._lines):
            if not self._has_place(waiting):
                continue
            line = self._lines[waiting]
            turn = line.popleft()
            if line:
                self._lines.move_to_end(waiting)
            else:
                del self._lines[waiting]
            if turn.done():  # given up a moment ago
                continue
            self._working[waiting] += 1
            turn.set_result(None)
