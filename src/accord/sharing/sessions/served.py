"""What the server behind an app does for sessions that several workers serve."""

from collections.abc import Callable
from typing import Any, Protocol

from accord.protocol.exchange import Exchange
from accord.sharing.workers.session_records import SessionRecord


class ServedSharing(Protocol):
    """Puts the sessions of a server into records, and back; see `server.session_sharing`."""

    def restore(self, session: Any, record: SessionRecord) -> None:
        """Let a new session go on where another worker has left."""

    def apply(self, session: Any, base: SessionRecord, record: SessionRecord) -> None:
        """Take over what another worker has changed."""

    def is_changed(self, session: Any) -> bool:
        """Whether something may have changed here that the record should have."""

    def note_opening(self, session: Any) -> None:
        """Note that a message may have opened the session, or confirmed that."""

    def describe(
        self, session: Any, base: SessionRecord
    ) -> Callable[[SessionRecord], SessionRecord]:
        """Return what puts the present state of a session into a record."""

    def merge(
        self, session: Any, base: SessionRecord
    ) -> Callable[[SessionRecord], SessionRecord | None]:
        """Return what puts into a record what was changed here."""

    def relay(self, session: Any, body: bytes) -> bytes | None:
        """Return the notification of a change that another worker has published."""

    def relay_everything(self, session: Any) -> list[bytes]:
        """Return a notification of everything that the client hears of."""

    def is_repeatable(self, exchange: Exchange) -> bool:
        """Whether a request may be served again by another worker."""
