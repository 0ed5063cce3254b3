"""The interface of client transports, and the transport within one process.

Whole messages go in, whole messages come out, and an end has a reason.

A wire knows nothing of the protocol. It is driven by one event loop, the one it was opened on.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeAlias

from accord.errors import AccordError, ConnectFailed
from accord.protocol.exchange import Exchange
from accord.protocol.mirroring import MirroredArgument
from accord.protocol.revisions import Revision
from accord.stdio.lines import LineTooLong
from accord.types._base import RequestId

Receive: TypeAlias = Callable[[bytes], None]
"""Takes one message; must not raise."""

Lost: TypeAlias = Callable[[str], None]
"""Called once, with the reason, when the connection is lost; not for our own closing."""
log = logging.getLogger("accord.server")

# How long handlers may take to clean up once they are cancelled.
_GRACE: Final = 2.0
# How many messages may be sent before others get a turn of the loop: about a millisecond.
_AT_ONCE: Final = 64


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


class ProbeRefused(ConnectFailed):
    """The server did not say what it speaks; it may know `initialize` alone."""


class WireListener(Protocol):
    """Takes reports of a wire on which each message travels by itself.

    There a single request may fail while the connection goes on, and the connection may be renewed
    while the conversation goes on. Such a wire has a method `report_to`, to be called with the
    listener before the wire is opened.
    """

    @property
    def revision(self) -> Revision:
        """The revision agreed on."""

    def is_waiting(self, id: RequestId) -> bool:
        """Whether a request waits for its answer."""

    def request_failed(self, id: RequestId, error: AccordError) -> None:
        """Called when a request will not be answered."""

    def message_dropped(self, line: LineTooLong) -> None:
        """Called when a message was too large to be kept."""

    def mirrored_arguments(self, tool: str) -> tuple[MirroredArgument, ...]:
        """The arguments of a tool that headers repeat."""

    def session_renewed(self) -> None:
        """Called when a new session has begun, which knows nothing of the last."""

    def pause_timeouts(self) -> AbstractContextManager[None]:
        """Stop all deadlines while a user is asked to authorize us."""


class MemoryWire:
    """The client's end of a connection to a server in the same process.

    The server is anything with `open_lifespan()` (an async context manager that yields its state)
    and `session(write, state)`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._session: Any = None
        self._receive: Callable[[bytes], object]
        self._stack = AsyncExitStack()
        self._written = 0

    @property
    def is_congested(self) -> bool:
        """Whether it is time to let others run: requests may be answered without any wait."""
        return self._written >= _AT_ONCE

    async def open(self, receive: Receive, lost: Lost) -> None:
        state = await self._stack.enter_async_context(self._server.open_lifespan())
        self._session = session = self._server.session(lambda data, _: receive(data), state)
        self._receive = session.dispatcher.receive

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        self._written += 1
        if self._session is not None:
            self._receive(data)

    async def writable(self) -> None:
        self._written = 0
        await asyncio.sleep(0)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
            if not await session.dispatcher.drain(_GRACE):
                log.warning("handlers did not stop although they were cancelled")
        await self._stack.aclose()

    def abort(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
