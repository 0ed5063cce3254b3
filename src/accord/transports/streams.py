"""Streams of messages over HTTP, and the responses that follow them.

A stream has one list of what is yet to be read. Whoever follows it takes from there; whoever comes
back has the list filled again from the store. So what is live and what is replayed take the same
way: nothing is lost, doubled, or shown to another session, and an unread stream delays nobody else.

While no response follows a stream, or one that stands still, events go to the store alone. The
stream is *behind* then: the list is filled from the store, part by part, once it is read again.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.bindings import sse

if TYPE_CHECKING:
    from accord.stores.interfaces import EventStore

__all__ = ["Reader", "Receive", "Send", "Stream", "place_of"]

log = logging.getLogger("accord.http")

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# As much as a socket takes at once; more would be copied for nothing.
_CHUNK: Final = 64 * 1024
# From here on, whoever tells the client something and awaits it is slowed down.
_CONGESTED: Final = 64 * 1024
# What clients that do not listen may leave unread of messages that belong to no request, where
# there is no store.
_UNREAD_MOST: Final = 1024 * 1024
# What the list keeps for a client that does not read, and takes from the store at once.
_LIST_MOST: Final = 256 * 1024
# Seconds after which a client that takes nothing stands still.
_STALLED: Final = 1.0
_EVENT_ID: Final = re.compile(r"(\d{1,12})-(\d{1,12})", re.ASCII)


def place_of(event_id: str) -> tuple[int, int] | None:
    """Return the stream that an event id names, and its number there; None where it is none."""
    found = _EVENT_ID.fullmatch(event_id)
    return None if found is None else (int(found[1]), int(found[2]))


class Stream:
    """Messages that belong together: those of one POST, or those that stand alone.

    Args:
        name: unique within the session.
        session: whose it is.
        store: what makes it resumable.
        retry: milliseconds after which the client should come back.
        is_lossy: whether the oldest unread messages may be dropped.
    """

    __slots__ = (
        "_first",
        "_is_behind",
        "_is_lossy",
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
    ) -> None:
        self.name = name
        self._session = session
        self._store = store
        self._retry = retry
        self._is_lossy = is_lossy
        self.count = 0
        self.unread = 0
        self.is_ended = False
        self.reader: Reader | None = None
        self._unread: list[bytes] = []
        # The number of the first event that no response has taken: the first in the list, or the
        # next to come from the store.
        self._first = 0
        self._is_behind = is_lossy and store is not None
        self._room: list[asyncio.Future[None]] | None = None

    # -- writing

    def append(self, data: bytes) -> None:
        """Send a message on this stream."""
        if self._store is None:
            self._put(sse.encode(data, name="message"))
        else:
            self._put(self._numbered(data, name="message"))

    def prime(self) -> None:
        """Give the client something to resume from before there is any message."""
        if self._store is not None:  # http.sse.priming-event
            self._put(self._numbered(b""))

    def _numbered(self, data: bytes, name: str | None = None) -> bytes:
        assert self._store is not None
        number = self.count
        retry = None if number else self._retry
        event = sse.encode(data, name=name, id=f"{self.name}-{number}", retry=retry)
        try:
            self._store.append(self._session, self.name, number, event)
        except Exception:  # a store may be anybody's, and no message may be lost with it
            log.exception("the event store failed; a stream cannot be resumed any more")
            self._store = None
            self._catch_up_without_store()
        self.count = number + 1
        return event

    def _catch_up_without_store(self) -> None:
        """Go on without what only the store had."""
        if self._is_behind and self._is_lossy:
            self._is_behind = False
        if self._is_behind and self.reader is not None:
            self.reader.let_go()

    def put_first(self, event: bytes) -> None:
        """Put an event on a stream that has none yet."""
        self._put(event)

    def _put(self, event: bytes) -> None:
        if not self._is_behind:
            self._unread.append(event)
            self.unread += len(event)
            if self.unread > _LIST_MOST:
                self._relieve()
        if self.reader is not None:
            self.reader.wake()

    def _relieve(self) -> None:
        """Keep the list short while the client takes nothing."""
        if self._is_lossy and self.unread > _UNREAD_MOST:
            while self.unread > _UNREAD_MOST // 2 and len(self._unread) > 1:
                self.unread -= len(self._unread.pop(0))
                self._first += 1
            if self.reader is not None:
                # It must not take what follows for all there was: it may come back and be told.
                self.reader.let_go()
        elif self._store is not None:
            self._is_behind = self.reader is not None and self.reader.is_stalled()

    def end(self) -> None:
        """Say that nothing more will come."""
        self.is_ended = True
        if self.reader is not None:
            self.reader.wake()

    # -- reading

    def take(self) -> bytes:
        """Return what is unread, as one chunk; of a lot, the beginning."""
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
        """Whether all there is has been taken."""
        return not self.unread and not self._is_behind

    def _refill(self) -> None:
        """Take the next events from the store."""
        missed = () if self._first >= self.count else self._missed(self._first - 1)
        if missed is not None:
            self._load(missed)
        elif self.reader is not None:
            # It may come back, and be told that something is lost.
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
        """Let the next reader begin with the oldest event that is kept."""
        if not self._is_behind or self._missed(self._first - 1) is not None:
            return
        lost, self._first = self._first, self.count
        while lost + 1 < self._first:
            middle = (lost + self._first) // 2
            if self._missed(middle - 1) is None:
                lost = middle
            else:
                self._first = middle

    def take_all(self) -> bytes:
        """Return everything unread."""
        return b"".join(iter(self.take, b""))

    def attach(self, reader: "Reader") -> None:
        """Let a response follow; one that did so before is ended."""
        previous, self.reader = self.reader, reader
        if previous is not None:
            previous.wake()
        reader.wake()

    def detach(self, reader: "Reader") -> None:
        """Take note that a response follows no more."""
        if self.reader is reader:
            self.reader = None
            self._make_room()
            if self._store is not None or not self._is_lossy:
                # Whoever comes back says from where; without a store, there is no way back.
                self._unread.clear()
                self.unread = 0
                self._is_behind = True

    def resume(self, number: int) -> bool:
        """Let the next reader begin after an event; false where what follows is not there."""
        missed: Sequence[bytes] | None = ()
        if self._store is None or number != self.count - 1:
            missed = self._missed(number)
        if missed is None:
            return False
        self._first = number + 1
        self._load(missed)
        return True

    def _missed(self, number: int) -> Sequence[bytes] | None:
        if self._store is None:
            return None
        try:
            return self._store.after(self._session, self.name, number)
        except Exception:
            log.exception("the event store failed")
            return None

    # -- how well it is read

    @property
    def backlog(self) -> int:
        """How many bytes are unread."""
        return self.unread

    @property
    def is_congested(self) -> bool:
        """Whether that is a lot."""
        return self.unread > _CONGESTED

    async def writable(self) -> None:
        """Wait until the client has read enough, or does not read at all."""
        while self.is_congested and self.reader is not None:
            if self._room is None:
                self._room = []
            waiter = asyncio.get_running_loop().create_future()
            self._room.append(waiter)
            await waiter

    def _make_room(self) -> None:
        waiting, self._room = self._room or (), None
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class Reader:
    """One response that follows a stream: it writes while there is something to write.

    In between nothing runs: a silent stream costs no task beside that of its request, and no timer.

    Args:
        stream: what to follow.
        send: writes the response.
        head: its beginning, sent before anything else.
        among: the readers that are open; this one is among them until it is done.
    """

    __slots__ = (
        "_among",
        "_comment",
        "_head",
        "_is_ending",
        "_is_let_go",
        "_loop",
        "_owner",
        "_task",
        "is_admitted",
        "is_done",
        "is_due",
        "send",
        "spoke",
        "stream",
    )

    def __init__(
        self, stream: Stream, send: Send, head: MutableMapping[str, Any], among: "set[Reader]"
    ) -> None:
        self.stream = stream
        self.send = send
        self._among = among
        self._head: MutableMapping[str, Any] | None = head
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[Any] | None = None
        # Servers may hold back the head until there is something of the body.
        self._comment = True
        self._is_ending = False
        self._is_let_go = False
        # Says whether it is time to end the response, where it may not be followed for ever.
        self.is_due: Callable[[float], bool] | None = None
        # Says whether who follows may still do so, where that can change.
        self.is_admitted: Callable[[], Awaitable[bool]] | None = None
        self.is_done = False
        self.spoke = self._loop.time()
        among.add(self)

    def wake(self) -> None:
        """Write what there is to write."""
        if self._task is None and not self.is_done:
            self._task = self._loop.create_task(self._write())

    def tick(self, now: float, *, keep_alive: float, write_timeout: float) -> None:
        """Break a long silence, ours or the client's; end what is due."""
        if self.is_due is not None and self.is_due(now):
            self.is_due = None
            self.end()
        if self._task is None:
            if now - self.spoke >= keep_alive:
                self._comment = True
                self.wake()
        elif now - self.spoke >= write_timeout:
            self.let_go()

    def is_stalled(self) -> bool:
        """Whether the client takes nothing of what is written."""
        return self._task is not None and self._loop.time() - self.spoke >= _STALLED

    def end(self) -> None:
        """End the response, though not the stream: the client may come back."""
        self._is_ending = True
        self.wake()

    def let_go(self) -> None:
        """Give up a client that does not read."""
        self._is_let_go = True
        self._finish()
        if self._task is not None:
            self._task.cancel()

    async def _write(self) -> None:
        send = self.send
        try:
            if self._head is not None:
                head, self._head = self._head, None
                await send(head)
            while not self.is_done:
                chunk, is_last = self._next()
                if not chunk and not is_last:
                    break
                self.spoke = self._loop.time()
                message = {"type": "http.response.body", "body": chunk, "more_body": not is_last}
                await send(message)
                if is_last:
                    self._finish()
        except asyncio.CancelledError:
            if not self._is_let_go:
                raise
        except Exception as error:  # servers differ in what they raise when the client is gone
            log.debug("a client is gone: %r", error)
            self._finish()
        finally:
            self._task = None

    def _next(self) -> tuple[bytes, bool]:
        """Return what to write next, and whether that is the end."""
        stream = self.stream
        if stream.reader is not self:  # another response has taken over
            return b"", True
        chunk = stream.take()
        if not chunk and self._comment:
            chunk = sse.KEEP_ALIVE
        self._comment = False
        return chunk, (stream.is_ended or self._is_ending) and stream.is_read

    def _finish(self) -> None:
        self.is_done = True
        self._among.discard(self)
        self.stream.detach(self)
        if self._owner is not None:
            # Servers end the wait for a disconnect themselves, now that the response is complete.
            self._loop.call_soon(self._free)

    def _free(self) -> None:
        if self._owner is not None:
            self._owner.cancel()

    async def follow(self, receive: Receive) -> None:
        """Keep the response open until the stream ends or the client is gone."""
        owner = self._owner = asyncio.current_task()
        assert owner is not None
        try:
            while not self.is_done and (await receive())["type"] != "http.disconnect":
                pass
        except asyncio.CancelledError:
            if not self.is_done:
                raise
            owner.uncancel()
        finally:
            self._owner = None
            self._among.discard(self)
            self.stream.detach(self)
            if self._task is not None and not self.is_done:
                self.is_done = self._is_let_go = True
                self._task.cancel()
