"""Streams of messages over HTTP, and the responses that follow them.

A stream has one list of unread events. The response that follows it takes events from there; for a
client that comes back, the list is filled again from the store. So live and replayed events take
the same way: none is lost, doubled or sent to another session, and a client that does not read
delays no other.

While no response follows a stream, or its client has stalled, events go to the store alone. The
stream is *behind* then: the list is filled from the store, part by part, once it is read again.

A response writes while there is something to write. In between nothing runs: a silent stream costs
no timer, and on the listener no task either.
"""

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final, Protocol

from accord.http.rules import sse

log = logging.getLogger("accord.http")

# Clients come back within seconds, and want the few messages that they missed.
_SESSION_BYTES: Final = 4 * 1024 * 1024
_BYTES: Final = 24 * 1024 * 1024
# What an event costs beside its bytes; so many empty events are limited too.
_OVERHEAD: Final = 64
# As much as a socket takes at once (Linux: 64 KiB and more); the rest would be copied for nothing.
_CHUNK: Final = 64 * 1024
# Above this, handlers that await what they send have to wait.
CONGESTED: Final = 64 * 1024
# How many unread bytes a lossy stream keeps without a store.
_LOSSY_MOST: Final = 1024 * 1024
# How many unread bytes a stream that cannot be resumed keeps; its client will not read so much.
_OVERFLOW: Final = 32 * 1024 * 1024
# How many bytes the list keeps for a client that does not read, and takes from the store at once.
_LIST_MOST: Final = 256 * 1024
# How many seconds an ended stream can be resumed: as long as a client may take to come back.
_RETIRED_FOR: Final = 120.0
# However few events it has, a stream costs a KB.
_RETIRED_MOST: Final = 10_000
_EVENT_ID: Final = re.compile(r"(\d{1,12})-(\d{1,12})", re.ASCII)
# Seconds without reading after which a client counts as stalled.
STALLED: Final = 1.0


def parse_event_id(event_id: str) -> tuple[int, int] | None:
    """Return the number of the stream and of the event in it; None for an invalid event id."""
    found = _EVENT_ID.fullmatch(event_id)
    return None if found is None else (int(found[1]), int(found[2]))


class Stream:
    """Messages that belong together: those of one POST, or those of no request.

    Args:
        name: unique within the session.
        session: the id of the session.
        store: makes it resumable.
        retry: milliseconds after which the client should come back.
        is_lossy: whether the oldest unread messages may be dropped.
        on_overflow: called when far too much is unread.
    """

    __slots__ = (
        "_first",
        "_is_behind",
        "_is_lossy",
        "_on_overflow",
        "_retry",
        "_room",
        "_session",
        "_store",
        "_unread",
        "count",
        "is_ended",
        "name",
        "reader",
        "unread",
    )

    def __init__(
        self,
        name: int = 0,
        *,
        session: str = "",
        store: "EventStore | None" = None,
        retry: int | None = None,
        is_lossy: bool = False,
        on_overflow: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._session = session
        self._store = store
        self._retry = retry
        self._is_lossy = is_lossy
        self._on_overflow = on_overflow
        self.count = 0
        self.unread = 0
        self.is_ended = False
        self.reader: Reader | None = None
        self._unread: list[bytes] = []
        # The number of the first event that no response has taken: the first in the list, or the
        # next in the store.
        self._first = 0
        self._is_behind = is_lossy and store is not None
        self._room: asyncio.Event | None = None

    # -- writing

    def append(self, data: bytes) -> None:
        """Send a message on this stream."""
        if self._store is None:
            self.put(sse.encode(data, name="message"))
        else:
            self.put(self._store_event(data, name="message"))

    def prime(self) -> None:
        """Give the client something to resume from before there is any message."""
        if self._store is not None:  # http.sse.priming-event
            self.put(self._store_event(b""))

    def hang_up(self, retry: int | None = None) -> None:
        """End the response that follows the stream; the client comes back for what follows.

        Args:
            retry: milliseconds after which it should; as before by default.
        """
        if self._store is not None and retry is not None:
            self.put(self._store_event(b"", retry=retry))
        if self.reader is not None:
            self.reader.end()

    def _store_event(self, data: bytes, name: str | None = None, retry: int | None = None) -> bytes:
        assert self._store is not None
        number = self.count
        if not number and retry is None:
            retry = self._retry
        event = sse.encode(data, name=name, id=f"{self.name}-{number}", retry=retry)
        try:
            self._store.append(self._session, self.name, number, event)
        except Exception:  # the user's store may raise anything; the message must not be lost
            log.exception("the event store failed; a stream can no longer be resumed")
            self._store = None
            self._catch_up_without_store()
        self.count = number + 1
        return event

    def _catch_up_without_store(self) -> None:
        """Go on without the events that only the store had."""
        if self._is_behind and self._is_lossy:
            self._is_behind = False
        if self._is_behind and self.reader is not None:
            self.reader.let_go()

    def put(self, event: bytes) -> None:
        """Put an event on this stream, as it is."""
        if not self._is_behind:
            self._unread.append(event)
            self.unread += len(event)
            if self.unread > _LIST_MOST:
                self.relieve()
        if self.reader is not None:
            self.reader.wake()

    def relieve(self) -> None:
        """Keep the list short while the client takes nothing."""
        if self._is_lossy and self.unread > _LOSSY_MOST:
            while self.unread > _LOSSY_MOST // 2 and len(self._unread) > 1:
                self.unread -= len(self._unread.pop(0))
                self._first += 1
            if self.reader is not None:
                # The client must notice the gap: it is disconnected, and may resume.
                self.reader.let_go()
        elif self._store is not None:
            self._is_behind = self.reader is not None and self.reader.is_stalled()
        elif self._on_overflow is not None and self.unread > _OVERFLOW:
            self._on_overflow()

    def end(self) -> None:
        """Mark the stream as complete."""
        self.is_ended = True
        if self.reader is not None:
            self.reader.wake()

    # -- reading

    def take(self) -> bytes:
        """Return unread events as one chunk of limited size."""
        if self._is_behind and not self._unread:
            self._refill()
        unread = self._unread
        if self.unread <= _CHUNK:
            self._first += len(unread)
            chunk = b"".join(unread)
            unread.clear()
        else:
            size = count = 0
            while size < _CHUNK:
                size += len(unread[count])
                count += 1
            self._first += count
            chunk = b"".join(unread[:count])
            del unread[:count]
        self.unread -= len(chunk)
        if self._room is not None and not self.is_congested:
            self._make_room()
        return chunk

    @property
    def is_read(self) -> bool:
        """Whether every event so far has been taken."""
        return not self.unread and not self._is_behind

    def _refill(self) -> None:
        """Take the next events from the store."""
        missed = () if self._first >= self.count else self._read_store(self._first - 1)
        if missed is not None:
            self._load(missed)
        elif self.is_ended and self._is_lossy:
            # It ends with its session, whose events are forgotten.
            self._first, self._is_behind = self.count, False
        elif self.reader is not None:
            # The client may resume, and is refused then because events are lost.
            self.reader.let_go()

    def _load(self, missed: Sequence[bytes]) -> None:
        size = count = 0
        while count < len(missed) and size < _LIST_MOST:
            size += len(missed[count])
            count += 1
        self._unread = list(missed[:count])
        self.unread = size
        self._is_behind = count < len(missed)

    def skip_lost(self) -> None:
        """Let the next reader begin with the oldest event that the store still has."""
        if not self._is_behind or self._read_store(self._first - 1) is not None:
            return
        lost, self._first = self._first, self.count
        while lost + 1 < self._first:
            middle = (lost + self._first) // 2
            if self._read_store(middle - 1) is None:
                lost = middle
            else:
                self._first = middle

    def take_all(self) -> bytes:
        return b"".join(iter(self.take, b""))

    def attach(self, reader: "Reader") -> None:
        """Let a response follow the stream; the one before it ends."""
        previous, self.reader = self.reader, reader
        if previous is not None:
            previous.wake()
        reader.wake()

    def dismiss(self) -> None:
        """End the response that follows the stream, at once: its client has come back elsewhere."""
        reader = self.reader
        if reader is not None:
            self.detach(reader)
            reader.wake()

    def detach(self, reader: "Reader") -> None:
        """Stop a response from following the stream."""
        if self.reader is reader:
            self.reader = None
            self._make_room()
            if self._store is not None or not self._is_lossy:
                # A client that comes back says from where; without a store, it cannot.
                self._unread.clear()
                self.unread = 0
                self._is_behind = True

    def resume(self, number: int) -> bool:
        """Let the next reader begin after an event; False if later events were dropped."""
        missed: Sequence[bytes] | None = ()
        if self._store is None or number != self.count - 1:
            missed = self._read_store(number)
        if missed is None:
            return False
        self._first = number + 1
        self._load(missed)
        return True

    def _read_store(self, number: int) -> Sequence[bytes] | None:
        if self._store is None:
            return None
        try:
            return self._store.after(self._session, self.name, number)
        except Exception:
            log.exception("the event store failed")
            return None

    # -- flow control

    @property
    def is_congested(self) -> bool:
        """Whether so much is unread that handlers have to wait."""
        return self.unread > CONGESTED

    async def writable(self) -> None:
        """Wait until the client has read enough, or is gone."""
        while self.is_congested and self.reader is not None:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()

    def _make_room(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.set()


class RetiredStreams:
    """Streams that have ended, and are kept for a while for clients that missed something."""

    def __init__(self) -> None:
        self._streams: deque[tuple[float, Callable[[int], None], int]] = deque()

    def add(self, now: float, stream: Stream, forget: Callable[[int], None]) -> None:
        """Keep a stream for a while; `forget` is called with its name after that."""
        self._streams.append((now + _RETIRED_FOR, forget, stream.name))
        if len(self._streams) > _RETIRED_MOST:
            self._forget_oldest()

    def sweep(self, now: float) -> None:
        """Forget streams whose time is over."""
        while self._streams and self._streams[0][0] < now:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, forget, name = self._streams.popleft()
        forget(name)

    def clear(self) -> None:
        self._streams.clear()


class Reader(ABC):
    """One response that follows a stream.

    Args:
        stream: the stream.
        among: the open readers; this one is added, and removed when it is done.

    Attributes:
        is_due: whether it is time to end the response: its token has expired.
        is_admitted: whether the token is still accepted: it may have been revoked.
        on_due: how the response ends then, if not at once.
        on_end: called once, when the response has ended or its client is gone.
        is_done: whether it has ended.
        last_write: when it last wrote something.
    """

    __slots__ = (
        "_among",
        "_comment",
        "_is_ending",
        "_loop",
        "is_admitted",
        "is_done",
        "is_due",
        "last_write",
        "on_due",
        "on_end",
        "stream",
    )

    def __init__(self, stream: Stream, among: "set[Reader]") -> None:
        self.stream = stream
        self._among = among
        self._loop = asyncio.get_running_loop()
        # Servers may hold back the head until the first bytes of the body.
        self._comment = True
        self._is_ending = False
        self.is_due: Callable[[float], bool] | None = None
        self.is_admitted: Callable[[], Awaitable[bool]] | None = None
        self.on_due: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.is_done = False
        self.last_write = self._loop.time()
        among.add(self)

    @abstractmethod
    def wake(self) -> None:
        """Write what there is to write, soon."""

    @abstractmethod
    def follow(self) -> Awaitable[None]:
        """Keep the response open until the stream ends or the client is gone."""

    @abstractmethod
    def let_go(self) -> None:
        """Disconnect a client that does not read."""

    @property
    @abstractmethod
    def is_writing(self) -> bool:
        """Whether something waits to be written."""

    def tick(self, now: float, *, keep_alive: float, write_timeout: float) -> None:
        """Send a comment after a long silence; end a response that is due or is not read."""
        if self.is_due is not None and self.is_due(now):
            self.end_admission()
        if not self.is_writing:
            if now - self.last_write >= keep_alive:
                self._comment = True
                self.wake()
        elif now - self.last_write >= write_timeout:
            self.let_go()

    def is_stalled(self) -> bool:
        """Whether the client has not read for a while."""
        return self.is_writing and self._loop.time() - self.last_write >= STALLED

    @property
    def is_ending(self) -> bool:
        """Whether the response ends as soon as everything so far is written."""
        return self._is_ending

    def end_admission(self) -> None:
        """End a response whose token is not valid any more."""
        self.is_due = self.is_admitted = None
        if self.on_due is None:
            self.end()
        else:
            self.on_due()

    def end(self) -> None:
        """End the response, but not the stream: the client may come back."""
        self._is_ending = True
        self.wake()

    def _next(self) -> tuple[bytes, bool]:
        """Return the next chunk, and whether it is the last."""
        stream = self.stream
        if stream.reader is not self:  # another response has taken over
            return b"", True
        chunk = stream.take()
        if not chunk and self._comment:
            chunk = sse.KEEP_ALIVE
        self._comment = False
        return chunk, (stream.is_ended or self._is_ending) and stream.is_read

    def finish(self) -> None:
        """Leave the stream."""
        self.is_done = True
        self._among.discard(self)
        self.stream.detach(self)

    def _report_end(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()


class EventStore(Protocol):
    """Keeps what was sent on resumable streams, for clients that come back.

    Events are ready to be sent. Streams are numbered within their session, events within their
    stream, from 0 and without gaps.
    """

    def append(self, session: str, stream: int, number: int, event: bytes) -> None:
        """Keep the next event of a stream; older events, of any stream, may be dropped for it."""

    def after(self, session: str, stream: int, number: int) -> Sequence[bytes] | None:
        """Return the events of a stream after a number; None if any of them was dropped."""

    def forget(self, session: str, stream: int | None = None) -> None:
        """Drop the events of a stream, or of all streams of a session."""


class _Log:
    """The events of one stream: those from number `first` on."""

    __slots__ = ("events", "first", "size")

    def __init__(self, first: int) -> None:
        self.events: deque[bytes] = deque()
        self.first = first
        self.size = 0

    def drop(self) -> int:
        """Drop the oldest event; return how many bytes that frees."""
        gone = len(self.events.popleft()) + _OVERHEAD
        self.first += 1
        self.size -= gone
        return gone


class _Session:
    __slots__ = ("logs", "size")

    def __init__(self) -> None:
        self.logs: dict[int, _Log] = {}
        self.size = 0


class MemoryEventStore:
    """Keeps the newest events of each session, for the sessions that were used last.

    Args:
        session_bytes: limit for one session; its newest event is kept whatever its size.
        bytes: limit for all sessions together.
    """

    def __init__(self, *, session_bytes: int = _SESSION_BYTES, bytes: int = _BYTES) -> None:
        self._session_limit = session_bytes
        self._limit = bytes
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self.size = 0

    def append(self, session: str, stream: int, number: int, event: bytes) -> None:
        """Keep the next event of a stream; beyond the limits, the oldest are dropped."""
        kept = self._sessions.get(session)
        if kept is None:
            kept = self._sessions[session] = _Session()
        else:
            self._sessions.move_to_end(session)
        log = kept.logs.get(stream)
        if log is None:
            log = kept.logs[stream] = _Log(number)
        size = len(event) + _OVERHEAD
        log.events.append(event)
        log.size += size
        kept.size += size
        self.size += size
        if kept.size > self._session_limit:
            self._shrink(kept, log)
        while self.size > self._limit and len(self._sessions) > 1:
            _, oldest = self._sessions.popitem(last=False)
            self.size -= oldest.size

    def _shrink(self, kept: _Session, newest: _Log) -> None:
        """Drop events of a session: the oldest of the stream that began first, then of the next."""
        for number in list(kept.logs):
            log = kept.logs[number]
            while kept.size > self._session_limit and len(log.events) > (log is newest):
                gone = log.drop()
                kept.size -= gone
                self.size -= gone
            if log.events:
                return
            del kept.logs[number]

    def after(self, session: str, stream: int, number: int) -> Sequence[bytes] | None:
        """Return the events of a stream after a number; None if any of them was dropped."""
        kept = self._sessions.get(session)
        log = None if kept is None else kept.logs.get(stream)
        if log is None:
            return None
        start = number + 1 - log.first
        if not 0 <= start <= len(log.events):
            return None
        return list(islice(log.events, start, None))

    def forget(self, session: str, stream: int | None = None) -> None:
        """Drop the events of a stream, or of all streams of a session."""
        kept = self._sessions.get(session)
        if kept is None:
            return
        if stream is None:
            gone = kept.size
        else:
            log = kept.logs.pop(stream, None)
            gone = 0 if log is None else log.size
        kept.size -= gone
        self.size -= gone
        if stream is None or not kept.logs:
            del self._sessions[session]
