"""Messages to all workers: one log that all of them follow.

Each worker keeps the newest entries, since every listening session of it reads them.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from accord.errors import StoreError, StoreUnavailable
from accord.sharing.workers import names
from accord.sharing.workers.inbox import BEHIND, wait_for_notification
from accord.sharing.workers.messages import decode_message, encode_message

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.sharing.workers")

# Changes of lists and resources: clients that were away for longer read everything again.
_KEEP: Final = 10_000
_TTL: Final = 86_400.0


class Broadcast(NamedTuple):
    """One message to all workers.

    Attributes:
        number: its place in the log.
    """

    number: int
    kind: str
    body: bytes


class Broadcasts:
    """The messages to all workers.

    Attributes:
        position: the number of the last entry that was heard here.
        gaps: how often entries may have been missed.
    """

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._kinds: dict[str, Callable[[bytes], None]] = {}
        self._gap_callbacks: list[Callable[[], None]] = []
        self._followers: dict[Callable[[], None], None] = {}
        self._tail: deque[Broadcast] = deque(maxlen=_KEEP)
        self._notified = asyncio.Event()
        self.position = 0
        self.gaps = 0

    def on(self, kind: str, hear: Callable[[bytes], None]) -> None:
        """Call something with the body of each message of a kind."""
        self._kinds[kind] = hear

    def on_gap(self, callback: Callable[[], None]) -> None:
        """Call something when messages may have been missed."""
        self._gap_callbacks.append(callback)

    def follow(self, callback: Callable[[], None]) -> None:
        """Call something after each part of the log that was heard, until `unfollow`."""
        self._followers[callback] = None

    def unfollow(self, callback: Callable[[], None]) -> None:
        """Call it no more."""
        self._followers.pop(callback, None)

    def after(self, number: int) -> Iterator[Broadcast] | None:
        """Return the messages after a number; None if some of them are not kept here."""
        oldest = self._tail[0].number if self._tail else self.position + 1
        if number > self.position or number < oldest - 1:
            return None
        newer = []
        for each in reversed(self._tail):
            if each.number <= number:
                break
            newer.append(each)
        return reversed(newer)

    async def publish(self, kind: str, body: bytes) -> None:
        """Send a message to all workers, this one too."""
        message = encode_message(kind, body, self._worker.id)
        await self._worker.backend.append(
            names.BROADCAST, [message], ttl=_TTL, keep=_KEEP, notify=(names.BROADCAST,)
        )

    async def start(self) -> None:
        """Begin with what comes from now on; the newest entries are kept for sessions."""
        self._notified = asyncio.Event()
        await self._worker.backend.follow(names.BROADCAST, self._notified.set)
        end = await self._find_end()
        try:
            await self._read_tail(max(0, end - _KEEP), end)
        except StoreUnavailable:
            raise
        except StoreError as error:
            # Older entries may be sealed with a key that is not in use any more.
            log.warning("older messages to all workers cannot be read: %s", error)
            self._tail.clear()
        self.position = end

    async def _find_end(self) -> int:
        page = await self._worker.backend.read(names.BROADCAST, after=BEHIND, limit=1)
        return 0 if page is None else page.last

    async def _read_tail(self, last: int, end: int) -> None:
        """Keep the entries from one number to another."""
        self._tail.clear()
        while last < end:
            page = await self._worker.backend.read(names.BROADCAST, after=last)
            if page is None or not page.items:
                return
            for number, item in enumerate(page.items, page.first):
                if number <= end:
                    self._keep(number, item)
            last = page.first + len(page.items) - 1

    async def extend(self) -> None:
        """Keep the log, to which nothing may have been written for a long time."""
        await self._worker.backend.extend(names.BROADCAST, ttl=_TTL)

    def begin_anew(self) -> None:
        """Hear everything that is there: the store has lost its data."""
        self._report_gap(0)
        self._notified.set()

    def _keep(self, number: int, item: bytes) -> Broadcast | None:
        message = decode_message(item)
        if message is None:
            return None
        kept = Broadcast(number, message.kind, message.body)
        self._tail.append(kept)
        return kept

    async def follow_forever(self) -> None:
        """Hear messages as they come."""
        while True:
            await self._hear_all()
            was_notified = await wait_for_notification(self._notified)
            if not was_notified and await self._hear_all():
                self._worker.metrics.missed_notifications += 1

    async def _hear_all(self) -> int:
        count = 0
        while True:
            self._notified.clear()
            try:
                page = await self._worker.backend.read(names.BROADCAST, after=self.position)
            except StoreUnavailable:
                raise
            except StoreError as error:
                log.error("messages to all workers cannot be read: %s", error)  # noqa: TRY400
                self._report_gap(await self._find_end())
                return count
            last = 0 if page is None else page.last
            if last < self.position or (page is not None and page.first > self.position + 1):
                self._report_gap(0 if page is None or last < self.position else page.first - 1)
                continue
            if page is None or not page.items:
                return count
            for number, item in enumerate(page.items, page.first):
                count += 1
                self._hear(number, item)
            for callback in [*self._followers]:
                callback()

    def _hear(self, number: int, item: bytes) -> None:
        self.position = number
        kept = self._keep(number, item)
        hear = None if kept is None else self._kinds.get(kept.kind)
        if kept is not None and hear is not None:
            try:
                hear(kept.body)
            except Exception:
                log.exception("a broadcast of kind %s failed", kept.kind)

    def _report_gap(self, position: int) -> None:
        """Go on behind entries that were dropped, or in a store that has lost its data."""
        log.warning("messages to all workers were missed")
        self._tail.clear()
        self.position = position
        self.gaps += 1
        for callback in self._gap_callbacks:
            try:
                callback()
            except Exception:
                log.exception("a gap could not be reported")
        for follower in [*self._followers]:
            follower()
