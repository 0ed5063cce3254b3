"""The last messages of the parties: what an error without id may answer."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from accord.protocol.exchange import Exchange, Step
from accord.protocol.jsonrpc import METHOD_NOT_FOUND, NOTIFICATION, REQUEST, Kind
from accord.protocol.methods import REQUESTS
from accord.protocol.violation import CLIENT, OTHER, SERVER, Party

if TYPE_CHECKING:
    from accord.types._base import RequestId

_NEXT_REQUESTS: Final = 8


class LastMessages:
    """The kind of each party's last message, its last notification, and the next few requests.

    An answer to one of those shows that the notification was passed over in silence.
    """

    def __init__(self) -> None:
        self._kinds: dict[Party, Kind | None] = {CLIENT: None, SERVER: None}
        self._in_batch: dict[Party, bool] = {CLIENT: False, SERVER: False}
        self._notified: dict[Party, tuple[str, set[RequestId]] | None] = {
            CLIENT: None,
            SERVER: None,
        }

    def note(self, step: Step) -> None:
        """Note a message."""
        sender, kind = step.sender, step.kind
        self._kinds[sender], self._in_batch[sender] = kind, step.in_batch
        if kind == NOTIFICATION:
            self._notified[sender] = step.name, set()
        elif kind == REQUEST:
            notified = self._notified[sender]
            if notified is not None and step.id is not None and len(notified[1]) < _NEXT_REQUESTS:
                notified[1].add(step.id)
        else:
            notified = self._notified[OTHER[sender]]
            if notified is not None and step.id in notified[1]:
                self._notified[OTHER[sender]] = None

    def is_batch(self, party: Party) -> bool:
        """Return whether the last message of a party was part of a batch."""
        return self._in_batch[party]

    def is_notification(self, party: Party) -> bool:
        """Return whether the last message of a party was a notification."""
        return self._kinds[party] == NOTIFICATION

    def is_notification_answered(self, error: Step, waiting: Iterable[Exchange]) -> bool:
        """Return whether an error without id seems to answer a notification.

        Args:
            error: the message.
            waiting: the requests that it may answer just as well.
        """
        asker = OTHER[error.sender]
        if self.is_notification(asker):
            return True
        notified = self._notified[asker]
        if notified is None or error.error is None:
            return False
        if notified[0] in str(error.error.message):
            return True
        # A method that exists is not "not found".
        is_known = all(each.name in REQUESTS for each in waiting)
        return error.error.code == METHOD_NOT_FOUND and is_known
