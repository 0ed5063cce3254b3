"""The interface of client transports: whole messages in, whole messages out, an end with a reason.

A wire knows nothing of the protocol. It is driven by one event loop, the one it was opened on.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

from accord.bindings.lines import LineTooLong
from accord.errors import AccordError
from accord.protocol.exchange import Exchange
from accord.protocol.revisions import Revision
from accord.types._base import RequestId

Receive: TypeAlias = Callable[[bytes], None]
"""Takes one message; must not raise."""

Lost: TypeAlias = Callable[[str], None]
"""Called once, with the reason, when the connection is lost; not for our own closing."""


class Wire(Protocol):
    """The client's end of a connection."""

    @property
    def is_congested(self) -> bool:
        """Whether the server is slow to read; `writable` waits until it has caught up."""

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Make the connection.

        Raises:
            ConnectFailed: it could not be made; nothing is left of it.
        """

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        """Send one message; does nothing when the connection is gone."""

    async def writable(self) -> None:
        """Wait until the server has read most of what was sent, or the connection is gone."""

    async def close(self) -> None:
        """End the connection in good order and within a bounded time."""

    def abort(self) -> None:
        """End the connection at once, from any thread, with or without a loop; may be repeated."""


CALL_HEADERS: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("call_headers", default=None)
"""Headers for messages written in this context; transports without headers ignore them."""


class WireListener(Protocol):
    """Takes reports of a wire on which each message travels by itself.

    There a single request may fail while the connection goes on, and the connection may be renewed
    while the conversation goes on.
    """

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""

    def pending_requests(self) -> Iterable[RequestId]:
        """The requests that wait for an answer."""

    def is_waiting(self, id: RequestId) -> bool:
        """Whether a request waits for its answer."""

    def request_failed(self, id: RequestId, error: AccordError) -> None:
        """Called when a request will not be answered."""

    def message_dropped(self, line: LineTooLong) -> None:
        """Called when a message was too large to be kept."""

    def session_renewed(self) -> None:
        """Called when a new session has begun, which knows nothing of the last."""

    def pause_timeouts(self) -> AbstractContextManager[None]:
        """Stop all deadlines while a user is asked to authorize us."""


class ReportingWire(Wire, Protocol):
    """A wire that reports to a listener."""

    def report_to(self, listener: WireListener) -> None:
        """Report to this listener; to be called before the wire is opened."""
