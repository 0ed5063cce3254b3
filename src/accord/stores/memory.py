"""Stores within the process: bounded, and gone with it."""

from collections import deque
from collections.abc import Sequence
from typing import Final

# A client that comes back within a few hundred events finds everything; one that does not starts
# over. Per session, so that nobody's traffic costs another's events.
_EVENTS: Final = 512
_BYTES: Final = 4 * 1024 * 1024


class _Log:
    __slots__ = ("events", "numbers", "size")

    def __init__(self) -> None:
        self.events: deque[tuple[str, str, bytes]] = deque()
        self.numbers: dict[str, int] = {}
        self.size = 0


class MemoryEventStore:
    """Keeps the newest events of each session."""

    def __init__(self, *, events: int = _EVENTS, size: int = _BYTES) -> None:
        self._limit = events
        self._size_limit = size
        self._logs: dict[str, _Log] = {}

    def append(self, session: str, stream: str, data: bytes) -> str:
        """Keep an event and return its id; the oldest make room."""
        log = self._logs.get(session)
        if log is None:
            log = self._logs[session] = _Log()
        number = log.numbers.get(stream, 0)
        log.numbers[stream] = number + 1
        event_id = f"{stream}.{number}"
        log.events.append((stream, event_id, data))
        log.size += len(data)
        while len(log.events) > self._limit or (
            log.size > self._size_limit and len(log.events) > 1
        ):
            gone, _, old = log.events.popleft()
            log.size -= len(old)
            if gone != stream and all(gone != each[0] for each in log.events):
                log.numbers.pop(gone, None)
        return event_id

    def after(self, session: str, event_id: str) -> tuple[str, Sequence[tuple[str, bytes]]] | None:
        """Return the stream of an event and all that came on it later."""
        log = self._logs.get(session)
        if log is None:
            return None
        stream: str | None = None
        later: list[tuple[str, bytes]] = []
        for owner, kept_id, data in log.events:
            if stream is None:
                if kept_id == event_id:
                    stream = owner
            elif owner == stream:
                later.append((kept_id, data))
        return None if stream is None else (stream, later)

    def forget(self, session: str) -> None:
        """Drop all events of a session."""
        self._logs.pop(session, None)
