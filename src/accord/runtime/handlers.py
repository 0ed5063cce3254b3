"""What a party does with the messages it receives, and how its own leave."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypeAlias

from accord.errors import ConnectionClosed
from accord.protocol.exchange import Exchange, NotificationReceived, Refused

if TYPE_CHECKING:
    from accord.runtime.dispatcher import Dispatcher

Write: TypeAlias = Callable[[bytes, Exchange | None], None]
"""Sends a message; the exchange is the one it belongs to, None where it stands alone."""


class Handlers(Protocol):
    """What a party does with the messages it receives."""

    def request(self, exchange: Exchange, params: object, dispatcher: "Dispatcher") -> object:
        """Return the result, a coroutine or a Deferred for it, or LASTING.

        A RequestError is an error reply.
        """

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
    """Send nothing: the conversation is over."""
    return


NO_HANDLERS: Final = _NoHandlers()
OVER: Final = ConnectionClosed("the request has been answered")


class Unwound(BaseException):
    """Ends a handler whose question has no answer yet. Not an Exception: handlers must not see it.

    Blocks with `finally` run; the handler runs again when the answer is there.
    """

    def __init__(self) -> None:
        super().__init__("the question goes to the client; the handler runs again with the answer")
