"""Two endpoints in one process: bytes pass from hand to hand, without tasks or queues."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any, Final

from accord.protocol.exchange import Exchange
from accord.transports.wire import Lost, Receive

log = logging.getLogger("accord.server")

# How long handlers may take to clean up once they are cancelled.
_GRACE: Final = 2.0
# How many messages may be sent before others get a turn of the loop.
_AT_ONCE: Final = 16


class MemoryWire:
    """The client's end of a connection to a server in the same process.

    The server is anything with `running()` (an async context manager that yields its state) and
    `session(write, state)`.
    """

    def __init__(self, server: Any) -> None:
        self._server = server
        self._session: Any = None
        self._stack = AsyncExitStack()
        self._written = 0

    @property
    def is_congested(self) -> bool:
        """Whether it is time to let others run: requests may be answered without any wait."""
        return self._written >= _AT_ONCE

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Begin a session with the server."""
        state = await self._stack.enter_async_context(self._server.running())
        self._session = self._server.session(lambda data, _: receive(data), state)

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        """Hand a message to the server."""
        self._written += 1
        if self._session is not None:
            self._session.dispatcher.receive(data)

    async def writable(self) -> None:
        """Let others run."""
        self._written = 0
        await asyncio.sleep(0)

    async def close(self) -> None:
        """End the session and the server's lifespan."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            if not await session.dispatcher.drained(_GRACE):
                log.warning("handlers did not stop although they were cancelled")
        await self._stack.aclose()

    def abort(self) -> None:
        """End the session at once."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
