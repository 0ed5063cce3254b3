"""Streams whose events are entries of logs in a store, so that any worker can go on with them.

A `LoggedStream` is the response of the worker that runs a handler: each event is stored before the
client can see it. A `FollowedStream` is the response of a worker to which the client came back. An
`OutboxStream` is the response to a client that listens: it joins the messages of its session with
those that all sessions hear of.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from accord.errors import StoreError, StoreUnavailable
from accord.http.rules import sse
from accord.http.server.stream import CONGESTED, Stream
from accord.sharing.backends.backend import LogPage
from accord.sharing.workers import names
from accord.sharing.workers.event_logs import (
    MESSAGE,
    PRIMING,
    RETRY,
    LogWriter,
    Prepare,
    encode_event,
)
from accord.sharing.workers.messages import BEHIND, wait_for_notification

if TYPE_CHECKING:
    from accord.http.server.stream import Reader
    from accord.sharing.sessions.session import SharedSession
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.http")

_PAGE: Final = 256
# Seconds between attempts while the store does not answer.
_PAUSE: Final = 0.3
# How many messages may lie between two copies of one, which a failed attempt can cause.
_REMEMBERED: Final = 256
NONCE_BYTES: Final = 8


class LoggedStream(Stream):
    """The stream of a POST whose handlers run here.

    Args:
        label: its name within the session.
        retry: milliseconds after which the client should come back.

    Attributes:
        writer: adds its events to the log.
        asked: the requests of the server that it carries.
    """

    __slots__ = ("_is_first", "_pending", "asked", "label", "writer")

    def __init__(self, label: str, *, retry: int) -> None:
        super().__init__(retry=retry)
        self.label = label
        self._pending = 0
        self._is_first = True
        self.asked: list[bytes] = []
        self.writer: LogWriter

    def leave_to_log(self) -> None:
        """Keep nothing here: no response follows the stream where its handlers run."""
        self._is_behind = True

    def append(self, data: bytes) -> None:
        self._add(MESSAGE + data)

    def ask(self, data: bytes, prepare: Prepare) -> None:
        """Send a request to the client; `prepare` is awaited first."""
        self._add(MESSAGE + data, prepare)

    def prime(self) -> None:
        self._add(PRIMING)

    def hang_up(self, retry: int | None = None) -> None:
        if retry is not None:
            self._add(RETRY + b"%d" % retry)
        if self.reader is not None:
            self.reader.end()

    def end(self) -> None:
        self.writer.finish()

    def _add(self, entry: bytes, prepare: Prepare | None = None) -> None:
        self._pending += len(entry)
        self.unread += len(entry)
        self.count += 1
        self.writer.append(entry, prepare)

    def note_stored(self, number: int, entry: bytes | None) -> None:
        """Send an event that the store has; None ends the stream."""
        if entry is None:
            super().end()
            return
        self._pending -= len(entry)
        self.unread -= len(entry)
        retry, self._is_first = self._retry if self._is_first else None, False
        self.put(encode_event(entry, f"{self.label}-{number}", retry))
        if self._room is not None and self._pending <= CONGESTED:
            self._make_room()

    def note_lost(self) -> None:
        """End the response without an answer: the client goes on with another worker."""
        self._pending = 0
        self._make_room()
        if self.reader is not None:
            self.reader.let_go()

    def relieve(self) -> None:
        if self.reader is not None and self.reader.is_stalled():
            # It has the log to go on with, which costs no memory here.
            self.reader.let_go()

    @property
    def is_read(self) -> bool:
        return not self.unread

    def detach(self, reader: "Reader") -> None:
        super().detach(reader)
        self.unread = self._pending

    async def writable(self) -> None:
        while self._pending > CONGESTED or (self.is_congested and self.reader is not None):
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()


class _FollowingStream(Stream):
    """A stream that a task fills for as long as a response follows it."""

    __slots__ = ("_notified", "_task", "_worker")

    def __init__(self, worker: "Worker") -> None:
        super().__init__()
        self._worker = worker
        self._notified = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def attach(self, reader: "Reader") -> None:
        super().attach(reader)
        if self._task is None:
            self._worker.metrics.streams_followed += 1
            self._task = asyncio.get_running_loop().create_task(self._run(), name="accord-follow")
            self._task.add_done_callback(self._note_end)  # also of one that never began

    def detach(self, reader: "Reader") -> None:
        super().detach(reader)
        if self._task is not None and self.reader is None:
            self._task.cancel()

    def wake(self) -> None:
        """Look at the logs soon."""
        self._notified.set()

    async def _run(self) -> None:
        try:
            await self._follow()
        except Exception:
            log.exception("a stream cannot be followed")
            if self.reader is not None:
                self.reader.let_go()

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._worker.metrics.streams_followed -= 1

    async def _follow(self) -> None:
        raise NotImplementedError

    async def _read(self, name: str, after: int) -> LogPage | None:
        """Return the next entries of a log, however long the store takes to answer."""
        while True:
            try:
                return await self._worker.backend.read(name, after=after, limit=_PAGE)
            except StoreUnavailable as error:
                self._worker.note_silence(error)
                await asyncio.sleep(_PAUSE)


class FollowedStream(_FollowingStream):
    """The stream of a POST whose client came back, read from its log.

    Args:
        worker: reads the log.
        name: the log.
        label: the name of the stream within its session.
        page: what follows the event from which the client goes on.
        after: the number of that event.
    """

    __slots__ = ("_after", "_first_page", "_name", "label")

    def __init__(
        self, worker: "Worker", name: str, label: str, page: LogPage, *, after: int
    ) -> None:
        super().__init__(worker)
        self._name = name
        self.label = label
        self._first_page: LogPage | None = page
        self._after = after

    async def _follow(self) -> None:
        backend = self._worker.backend
        await backend.follow(self._name, self._notified.set)
        try:
            while True:
                self._notified.clear()
                page, self._first_page = self._first_page, None
                if page is None:
                    page = await self._read(self._name, self._after)
                if page is None or page.first > self._after + 1:
                    # Entries were dropped; the client asks again, and is refused then.
                    if self.reader is not None:
                        self.reader.let_go()
                    return
                for number, entry in enumerate(page.items, page.first):
                    self.put(encode_event(entry, f"{self.label}-{number}"))
                self._after = page.first + len(page.items) - 1
                if page.is_closed and self._after == page.last:
                    self.end()
                    return
                await self.writable()
                if self._after == page.last and not await wait_for_notification(self._notified):
                    await self._note_missed()
        finally:
            await _unfollow(self._worker, self._name, self._notified.set)

    async def _note_missed(self) -> None:
        page = await self._read(self._name, self._after)
        if page is not None and page.items:
            self._worker.metrics.missed_notifications += 1


class OutboxStream(_FollowingStream):
    """The stream of a client that listens.

    Args:
        session: the session.
        number: unlike that of any other connection on which the client listens.
        outbox: the last message of the session that the client has.
        broadcasts: the last message to all workers that it has heard of.
        has_ids: whether clients can go on from an event.
        may_skip: whether to begin with the oldest message that is kept, if earlier ones are not.
    """

    __slots__ = (
        "_gaps",
        "_has_ids",
        "_is_due",
        "_may_skip",
        "_owner",
        "_seen",
        "broadcasts",
        "number",
        "outbox",
    )

    def __init__(
        self,
        session: "SharedSession",
        number: str,
        *,
        outbox: int,
        broadcasts: int,
        has_ids: bool = True,
        may_skip: bool = False,
    ) -> None:
        super().__init__(session.worker)
        self._owner = session
        self.number = number
        self.outbox = outbox
        self.broadcasts = broadcasts
        self._has_ids = has_ids
        self._may_skip = may_skip
        self._gaps = session.worker.broadcasts.gaps
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        # Whether there may be messages of the session: what all sessions hear of costs no reading.
        self._is_due = True

    @property
    def _event_id(self) -> str | None:
        return f"o{self.outbox}b{self.broadcasts}" if self._has_ids else None

    @property
    def is_active(self) -> bool:
        """Whether messages go to this connection: it is the newest one."""
        listeners = self._owner.cached.record.listeners
        return bool(listeners) and listeners[-1].number == self.number

    @property
    def _is_listed(self) -> bool:
        listeners = self._owner.cached.record.listeners
        return any(each.number == self.number for each in listeners)

    def prime(self) -> None:
        """Give the client something to resume from before there is any message."""
        if self._event_id is not None:
            # http.sse.event-id-unique: several connections may begin at the same positions.
            self.put(sse.encode(b"", id=f"{self._event_id}p{self.number}"))

    def hang_up(self, retry: int | None = None) -> None:
        """End the response; the client should come back after so many milliseconds."""
        if self.reader is None or self.reader.is_ending:
            return
        if self._has_ids and retry is not None:
            self.put(sse.encode(b"", retry=retry))
        self.reader.end()

    def catch_up(self) -> None:
        """Go on where another connection, which was the newest until now, has ended."""
        record = self._owner.cached.record
        self.outbox = max(self.outbox, record.outbox)
        self.broadcasts = max(self.broadcasts, record.broadcasts)
        self._notify()

    async def _follow(self) -> None:
        worker, name = self._worker, self._owner.outbox_name
        await worker.backend.follow(name, self._notify)
        worker.broadcasts.follow(self._notified.set)
        try:
            await self._remember(name)
            was_active = True
            while True:
                self._notified.clear()
                if not self._is_listed:
                    # This worker was taken over while it was stalled: the client comes back.
                    self.hang_up()
                    return
                if self.is_active:
                    if not was_active:
                        self.catch_up()
                    if not await self._is_ahead():
                        self._send_broadcasts()
                    if self._is_due:
                        self._is_due = False
                        await self._send_outbox(name)
                was_active = self.is_active
                await self.writable()
                if not await wait_for_notification(self._notified, self._owner.look_interval):
                    self._is_due = True
        finally:
            worker.broadcasts.unfollow(self._notified.set)
            await _unfollow(worker, name, self._notify)

    def _notify(self) -> None:
        self._is_due = True
        self._notified.set()

    async def _is_ahead(self) -> bool:
        """Whether the client has heard of more than this worker, which is only late."""
        if self.broadcasts <= self._worker.broadcasts.position:
            return False
        page = await self._read(names.BROADCAST, BEHIND)
        # A log that ends before that was lost, and began anew.
        return page is not None and page.last >= self.broadcasts

    def _send_broadcasts(self) -> None:
        broadcasts = self._worker.broadcasts
        has_gap, self._gaps = self._gaps != broadcasts.gaps, broadcasts.gaps
        if self.broadcasts == broadcasts.position and not has_gap:
            return
        found = None if has_gap else broadcasts.after(self.broadcasts)
        if found is None:
            self.broadcasts = broadcasts.position
            messages = self._owner.relay_everything()
            for message in messages[:-1]:
                # Without an id: a client that does not get all of them gets them again.
                self.put(sse.encode(message, name="message"))
            for message in messages[-1:]:
                self._send(message)
            return
        for each in found:
            self.broadcasts = each.number
            notice = self._owner.relay(each.kind, each.body)
            if notice is not None:
                self._send(notice)

    async def _remember(self, name: str) -> None:
        """Learn which messages the client has got: one of them may follow again, as a copy."""
        before = max(0, self.outbox - _REMEMBERED)
        page = await self._read(name, before) if self.outbox else None
        if page is not None:
            got = page.items[: max(0, self.outbox - page.first + 1)]
            self._seen.update(dict.fromkeys(item[:NONCE_BYTES] for item in got))

    async def _send_outbox(self, name: str) -> None:
        while True:
            page = await self._read(name, self.outbox)
            if page is None or not self.is_active:
                return
            if page.last < self.outbox:  # the store has lost its data
                self.outbox = 0
                continue
            is_gap = page.first > self.outbox + 1 and not self._may_skip
            if (
                is_gap
                and self.reader is not None
                and (self._has_ids or self._owner.only_stream is not None)
            ):
                # The client must notice the gap: it asks again, and is refused. (In the older form
                # its session ends: answers may be missing.)
                self.reader.let_go()
                return
            self._may_skip = False
            for entry in self._new_entries(page):
                self._send(entry)
            if not page.items:
                return
            await self.writable()

    def _new_entries(self, page: LogPage) -> Iterator[bytes]:
        for number, item in enumerate(page.items, page.first):
            self.outbox = number
            nonce, data = item[:NONCE_BYTES], item[NONCE_BYTES:]
            if nonce in self._seen:
                continue
            self._seen[nonce] = None
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
            yield data

    def _send(self, data: bytes) -> None:
        self.put(sse.encode(data, name="message", id=self._event_id))


async def _unfollow(worker: "Worker", name: str, callback: Callable[[], None]) -> None:
    try:
        await worker.backend.unfollow(name, callback)
    except StoreError as error:
        log.debug("a log cannot be unfollowed: %s", error)
