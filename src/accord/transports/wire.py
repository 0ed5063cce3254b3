"""What a client needs of a transport: whole messages in, whole messages out, an end that is known.

A wire knows nothing of the protocol. It is driven by one event loop, the one it was opened on.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

from accord.bindings.lines import LineTooLong
from accord.errors import AccordError
from accord.protocol.exchange import Exchange
from accord.protocol.revision import Revision
from accord.types._base import RequestId

Receive: TypeAlias = Callable[[bytes], None]
"""Takes one message; must not raise."""

Lost: TypeAlias = Callable[[str], None]
"""Told once, with the reason, that nothing more will come; not told of our own closing."""


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
        """Send one message; does nothing where the connection is gone."""

    async def writable(self) -> None:
        """Wait until the server has read most of what was sent, or the connection is gone."""

    async def close(self) -> None:
        """End the connection in good order and within a bounded time."""

    def abort(self) -> None:
        """End the connection at once, from any thread, with or without a loop; may be repeated."""


CALL_HEADERS: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("call_headers", default=None)
"""Headers for what is written in this context; transports without headers ignore them."""


class WireListener(Protocol):
    """The party that a wire serves, as seen by a wire on which each message has a way of its own.

    There a single request may fail while the connection goes on, and the connection may begin anew
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
        """Take note that a request will not be answered."""

    def message_dropped(self, line: LineTooLong) -> None:
        """Take note of a message that was too large to be kept."""

    def session_renewed(self) -> None:
        """Take note that the server has begun a new session, which knows nothing of the last."""

    def pause_timeouts(self) -> AbstractContextManager[None]:
        """Let no time run out meanwhile: a person is asked to authorize us."""


class ReportingWire(Wire, Protocol):
    """A wire that wants to know whom it serves."""

    def report_to(self, watcher: WireListener) -> None:
        """Serve this party; to be said before the wire is opened."""
