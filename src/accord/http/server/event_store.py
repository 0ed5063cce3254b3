"""The events of resumable streams."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

__all__ = ["EventStore", "MemoryEventStore"]

# Clients come back within seconds, and want the few messages that they missed.
_SESSION_BYTES: Final = 4 * 1024 * 1024
_BYTES: Final = 24 * 1024 * 1024
# What an event costs beside its bytes; so many empty events are limited too.
_OVERHEAD: Final = 64


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
