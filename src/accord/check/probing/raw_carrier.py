"""Carriers move the messages of a raw connection: their interface, and the one in memory."""

from typing import TYPE_CHECKING, Any, Protocol

from accord.errors import AccordError
from accord.transports.memory import MemoryWire

if TYPE_CHECKING:
    from accord.check.probing.raw_connection import RawConnection
    from accord.server import Server


class MessageTimeout(AccordError):
    """A message did not arrive in time.

    Attributes:
        method: of the request without an answer; empty if another message is missing.
        has_started: whether the server sent anything at all on this connection.
    """

    def __init__(self, text: str, *, method: str = "", has_started: bool = True) -> None:
        super().__init__(text)
        self.method = method
        self.has_started = has_started


class ConnectionEnded(AccordError):
    """The server closed the connection, or exited.

    Attributes:
        has_started: whether the server sent anything at all on this connection.
    """

    def __init__(self, text: str, *, has_started: bool = True) -> None:
        super().__init__(text)
        self.has_started = has_started


class AuthorizationRequired(ConnectionEnded):
    """The server answers nothing without authorization."""


class RawCarrier(Protocol):
    """The transport of a raw connection."""

    async def open(self, connection: "RawConnection") -> None:
        """Make the connection; pass each message to `connection.receive`."""

    async def send(self, data: bytes) -> None:
        """Send these bytes as one message."""

    async def close(self) -> None:
        """End the connection within a bounded time."""


class MemoryCarrier:
    """Reaches a server object in this process, with the messages of stdio."""

    def __init__(self, server: "Server[Any]") -> None:
        self._wire = MemoryWire(server)

    async def open(self, connection: "RawConnection") -> None:
        """Begin a session."""
        await self._wire.open(connection.receive, connection.end)

    async def send(self, data: bytes) -> None:
        """Send a message."""
        self._wire.write(data, None)

    async def close(self) -> None:
        """End the session."""
        await self._wire.close()
