"""What a store must be able to do."""

from collections.abc import Sequence
from typing import Protocol


class EventStore(Protocol):
    """Keeps what was sent on resumable streams, for clients that come back.

    An event id names its stream and its place there; ids are unique within a session.
    """

    def append(self, session: str, stream: str, data: bytes) -> str:
        """Keep an event and return its id."""

    def after(self, session: str, event_id: str) -> tuple[str, Sequence[tuple[str, bytes]]] | None:
        """Return the stream of an event and all that came on it later.

        None where the event is not known any more, or is another session's.
        """

    def forget(self, session: str) -> None:
        """Drop all events of a session."""
