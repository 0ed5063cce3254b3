"""What a dispatcher calls with the messages that it receives."""

from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from accord.errors import ConnectionClosed
from accord.protocol.exchange import Exchange, NotificationReceived, Refused

if TYPE_CHECKING:
    from accord.runtime.dispatcher import Dispatcher

OVER: Final = ConnectionClosed("the request has been answered")


class Handlers(Protocol):
    """What a party does with the messages it receives."""

    def request(self, exchange: Exchange, params: object, dispatcher: "Dispatcher") -> object:
        """Return the result, a coroutine for it, or LASTING. A RequestError is an error reply."""

    def notification(self, event: NotificationReceived, dispatcher: "Dispatcher") -> None:
        """Handle a notification. Must not block."""

    def breach(self, event: Refused) -> None:
        """Handle a message of the peer that had no effect."""


class _NoHandlers:
    """The handlers of a conversation that is over."""

    def request(self, exchange: Exchange, params: object, dispatcher: "Dispatcher") -> NoReturn:
        raise OVER

    def notification(self, event: NotificationReceived, dispatcher: "Dispatcher") -> None:
        return None

    def breach(self, event: Refused) -> None:
        return None


def discard(message: bytes, exchange: Exchange | None) -> None:
    return None


NO_HANDLERS: Final = _NoHandlers()
