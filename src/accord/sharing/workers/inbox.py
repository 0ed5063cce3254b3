"""The messages to one worker: a log that it alone reads, so that nothing gets lost on the way."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.errors import StoreError, StoreUnavailable
from accord.sharing.workers import names
from accord.sharing.workers.messages import decode_message

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.sharing.workers")

TakeMessage: TypeAlias = Callable[[bytes], Awaitable[None] | None]
"""Takes the body of a message. What it returns runs by itself."""

# Notifications may get lost; so the log is looked at as often as this.
LOOK: Final = 1.0
# How many earlier ids of the worker are looked at.
_FORMER_MOST: Final = 5
BEHIND: Final = 2**50
"""A number behind the last entry of any log: what is read after it tells where the log ends."""


class Inbox:
    """The messages to one worker."""

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._kinds: dict[str, TakeMessage] = {}
        self._position = 0
        self._log = ""
        self._notified = asyncio.Event()
        self._lock = asyncio.Lock()
        # The logs of earlier ids, and the last entry that was taken from each.
        self._former: dict[str, int] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    def on(self, kind: str, take: TakeMessage) -> None:
        """Call something with the body of each message of a kind."""
        self._kinds[kind] = take

    async def open(self, id: str) -> None:
        """Begin to follow the inbox of an id that the worker is about to take."""
        backend, former = self._worker.backend, self._log
        notified, log = asyncio.Event(), names.inbox_of(id)
        try:
            await backend.follow(log, notified.set)
        except StoreError:
            with suppress(StoreError):
                await backend.unfollow(log, notified.set)
            raise
        if former:
            # Others may send to the former id for a while: answers to what was asked under it.
            self._former[former] = self._position
            while len(self._former) > _FORMER_MOST:
                del self._former[next(iter(self._former))]
        before, self._notified = self._notified, notified
        self._log, self._position = log, 0
        before.set()
        if former:
            with suppress(StoreError):
                await backend.unfollow(former, before.set)

    def begin_anew(self) -> None:
        """Take everything that is there: the store has lost its data."""
        self._position = 0
        self._notified.set()

    async def follow_forever(self) -> None:
        """Take messages as they come."""
        while True:
            await self.take_all()
            was_notified = await wait_for_notification(self._notified)
            if not was_notified and await self.take_all():
                self._worker.metrics.missed_notifications += 1

    async def take_all(self) -> int:
        """Take the messages that are there; return how many there were."""
        async with self._lock:
            for former in [*self._former]:
                await self._take_former(former)
            return await self._take_all()

    async def _take_former(self, name: str) -> None:
        """Take what was sent to an id that the worker had before."""
        page = await self._worker.backend.read(name, after=self._former[name], limit=500)
        if page is not None and page.items:
            self._former[name] = page.first + len(page.items) - 1
            for item in page.items:
                self._take(item)

    async def _take_all(self) -> int:
        count, end = 0, None
        while True:
            self._notified.clear()
            read_from, position = self._log, self._position
            try:
                page = await self._worker.backend.read(read_from, after=position, limit=500)
            except StoreUnavailable:
                raise
            except StoreError as error:
                await self._skip(error)
                continue
            if read_from != self._log:
                return count
            if position != self._position:  # it begins anew
                continue
            if page is None:  # it has expired in a long silence: the next one has the number 1
                self._position = 0
                return count
            if page.last < self._position:
                self._position = 0
                continue
            if end is None:
                end = page.last
                self._worker.metrics.inbox_lag = end - self._position
            if page.items:
                self._position = page.first + len(page.items) - 1
            for item in page.items:
                count += 1
                self._take(item)
            if not page.items or self._position >= end:
                return count

    async def _skip(self, error: StoreError) -> None:
        """Go on behind entries that cannot be read; what they said is not known."""
        log.error("messages to this worker cannot be read, and are left out: %s", error)
        page = await self._worker.backend.read(self._log, after=BEHIND, limit=1)
        self._position = 0 if page is None else page.last
        self._worker.distrust()

    def _take(self, item: bytes) -> None:
        self._worker.metrics.messages_received += 1
        message = decode_message(item)
        take = None if message is None else self._kinds.get(message.kind)
        if message is None or take is None:
            log.info("a message of another version was left out")
            return
        try:
            work = take(message.body)
        except Exception:
            log.exception("a message of kind %s failed", message.kind)
            return
        if work is not None:
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Future[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a message failed", exc_info=task.exception())


async def wait_for_notification(notified: asyncio.Event, seconds: float = LOOK) -> bool:
    """Wait for a notification, or for the next look; return whether there was one."""
    try:
        async with asyncio.timeout(seconds):
            await notified.wait()
    except TimeoutError:
        return False
    return True
