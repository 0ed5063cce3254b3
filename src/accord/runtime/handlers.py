"""What a dispatcher and its handlers know of each other.

Handlers answer the messages of the peer, at once or by an outcome that is known later. The origin
of a request is where it was received, on transports that answer each on its own stream.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeAlias

from msgspec import Raw, UnsetType

from accord.errors import ConnectionClosed
from accord.protocol.exchange import Exchange, NotificationReceived, Refused

if TYPE_CHECKING:
    from accord.protocol.mirroring import MirroredArgument
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


# -- outcomes of requests whose work goes on elsewhere, without a task that waits for it


class OutOfTime(TimeoutError):
    """The time limit of the work passed, as opposed to a time-out within the work."""


class Deferred(asyncio.Future[Any]):
    """What a handler returns that works elsewhere, such as in a thread.

    The dispatcher answers in the same turn of the loop in which the outcome is known: a task that
    awaits a future costs two turns more. Others await it as any future.
    """

    __slots__ = ("_follower",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._follower: Callable[[Deferred], None] | None = None

    def follow(self, follower: Callable[["Deferred"], None]) -> None:
        """Let something be called once it is done, without another turn of the loop."""
        self._follower = follower

    def set_outcome(self, result: object, error: BaseException | None = None) -> None:
        """Set the result or the exception, unless it is done."""
        if self.done():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)
        self._end()

    def cancel(self, msg: object = None) -> bool:
        """Give it up: its outcome is no longer wanted."""
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._end()
        return is_cancelled

    def _end(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower(self)


# -- where a request was received


class ClientFlow(Protocol):
    """How fast a client reads; of transports that can measure it."""

    @property
    def backlog(self) -> int:
        """How many bytes the client has yet to read."""

    @property
    def is_congested(self) -> bool:
        """Whether the backlog is above the high-water mark."""

    async def writable(self) -> None:
        """Wait until the client has caught up or disconnected."""


class Origin(ClientFlow, Protocol):
    """Where a request was received, on transports that answer each on its own stream."""

    @property
    def can_ask(self) -> bool:
        """Whether its stream can carry questions before the answer."""

    def reject(self, reply: bytes) -> None:
        """Take the answer to a message that could not be served."""

    def check(self, exchange: Exchange, params: Any) -> None:
        """Compare a request that stands on its own with what the transport says of it.

        Raises:
            HeaderMismatch: they differ.
        """

    def check_arguments(
        self, mirrored: "tuple[MirroredArgument, ...]", arguments: Raw | UnsetType
    ) -> None:
        """Compare the arguments of a call with the headers that repeat them; raises as `check`."""

    def listen(self, end: Callable[[], None]) -> None:
        """Keep the response open for a request that only listens: messages leave at once.

        Args:
            end: called once when the request should be answered: its token is no longer valid, or
                the server stops.

        Raises:
            RequestError: it cannot be kept open, or the caller has too many of them.
        """

    @property
    def can_hang_up(self) -> bool:
        """Whether the client will come back for the answer if the response ends without it."""

    def hang_up(self, retry: int | None) -> None:
        """End the response before the answer, if the client will come back for that."""

    def finish(self) -> None:
        """Note that the work for a request has ended, with or without an answer."""


# -- what a handler may await after it has sent something: a turn of the loop, or a slow client


class Done:
    """The outcome of something that has already happened: may be awaited, need not be."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class Delayed(Done):
    """The same for a client that reads slowly: to await it is to wait until it has caught up."""

    __slots__ = ("_writable",)

    def __init__(self, writable: Callable[[], Coroutine[object, None, None]]) -> None:
        self._writable = writable

    def __await__(self) -> Generator[None, None, None]:
        return self._writable().__await__()


class Turn(Done):
    """The same for a handler that has sent a lot: to await it is to let others run."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


DONE: Final = Done()
TURN: Final = Turn()
