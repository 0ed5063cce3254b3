"""What workers send each other: to the inbox of one, or to all of them.

A message is MessagePack: its format, its kind, its body and the worker that sent it. A worker of a
later version may send kinds that this one does not know; those are left out. An inbox is a log that
one worker alone reads; what goes to all workers is one log that each of them reads.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from accord.errors import StoreError, StoreUnavailable
from accord.sharing.workers import names

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker


__all__ = [
    "BEHIND",
    "Broadcast",
    "Broadcasts",
    "Inbox",
    "TakeMessage",
    "WorkerMessage",
    "decode_message",
    "encode_message",
    "wait_for_notification",
]

log = logging.getLogger("accord.sharing.workers")

TakeMessage: TypeAlias = Callable[[bytes], Awaitable[None] | None]
"""Takes the body of a message. What it returns runs by itself."""

FORMAT: Final = 1
# Notifications may get lost; so the log is looked at as often as this.
LOOK: Final = 1.0
# How many earlier ids of the worker are looked at.
_FORMER_MOST: Final = 5
BEHIND: Final = 2**50
"""A number behind the last entry of any log: what is read after it tells where the log ends."""
# Changes of lists and resources: clients that were away for longer read everything again.
_KEEP: Final = 10_000
_TTL: Final = 86_400.0


class WorkerMessage(msgspec.Struct, frozen=True, array_like=True):
    """One message between workers.

    Attributes:
        format: that of the message.
        kind: says how to read the body.
        body: what it says.
        sender: the id of the worker that sent it; empty for a command of an operator.
    """

    format: int
    kind: str
    body: bytes
    sender: str = ""


_decode: Final = msgspec.msgpack.Decoder(WorkerMessage).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_message(kind: str, body: bytes, sender: str = "") -> bytes:
    """Return a message as bytes."""
    return _encode(WorkerMessage(FORMAT, kind, body, sender))


def decode_message(data: bytes) -> WorkerMessage | None:
    """Return a message; None if it cannot be read here."""
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        return None


# -- to one worker


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


# -- to all workers


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
