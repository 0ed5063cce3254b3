"""Streams of messages over HTTP: one list of events, followed by any reader.

What is sent live and what is replayed take the same path, so nothing is lost, doubled or shown to
another session. A stream that nobody reads delays nobody else, and keeps a bounded backlog.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from accord.bindings import sse

if TYPE_CHECKING:
    from accord.stores.interfaces import EventStore

# What a slow or absent reader may leave unread; beyond it the oldest are gone for it.
_UNREAD: Final = 1_000


class Stream:
    """Messages that belong together: those of one POST, or those that stand alone."""

    __slots__ = ("_first", "_unread", "_waiter", "ended", "events", "name", "store")

    def __init__(self, name: str, store: "tuple[EventStore, str] | None") -> None:
        self.name = name
        self.store = store
        self.events = 0
        self.ended = False
        self._first = 0
        self._unread: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def append(self, data: bytes) -> None:
        """Send a message on this stream."""
        event_id = None
        if self.store is not None:
            store, session = self.store
            event_id = store.append(session, self.name, data)
        self._unread.append(sse.encode(data, name="message", id=event_id))
        self.events += 1
        if len(self._unread) > _UNREAD:
            self._unread.popleft()
            self._first += 1
        self._wake()

    def end(self) -> None:
        """Say that nothing more will come."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self) -> bytes:
        """Return everything unread, as one chunk."""
        chunk = b"".join(self._unread)
        self._first += len(self._unread)
        self._unread.clear()
        return chunk

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait until there is something to read or the end; false when the time is up first."""
        if self._unread or self.ended:
            return True
        loop = asyncio.get_running_loop()
        if self._waiter is not None and not self._waiter.done():
            # A newer reader takes over; the older one ends.
            self._waiter.set_result(None)
        self._waiter = waiter = loop.create_future()
        timer = None
        if seconds is not None:
            timer = loop.call_later(seconds, _expire, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if self._waiter is waiter:
                self._waiter = None
        return bool(self._unread) or self.ended

    async def follow(self, keep_alive: float) -> AsyncIterator[bytes]:
        """Yield chunks until the end, and a comment when it has been quiet for long."""
        while True:
            spoke = await self.wait(keep_alive)
            chunk = self.take()
            if chunk:
                yield chunk
            elif self.ended:
                return
            elif not spoke:
                yield sse.KEEP_ALIVE


def _expire(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
