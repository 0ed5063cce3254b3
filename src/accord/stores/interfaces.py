"""What a store must be able to do."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["EventStore"]


class EventStore(Protocol):
    """Keeps what was sent on resumable streams, for clients that come back.

    Events are ready to be sent. Streams are numbered within their session, events within their
    stream, from 0 and without gaps.
    """

    def append(self, session: str, stream: int, number: int, event: bytes) -> None:
        """Keep the next event of a stream; older ones, of this stream or others, may make room."""

    def after(self, session: str, stream: int, number: int) -> Sequence[bytes] | None:
        """Return the events of a stream after one of them; None unless all of them are there."""

    def forget(self, session: str, stream: int | None = None) -> None:
        """Drop the events of a stream, or of all streams of a session."""
