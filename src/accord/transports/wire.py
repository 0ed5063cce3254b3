"""What a client needs of a transport: whole messages in, whole messages out, an end that is known.

A wire knows nothing of the protocol. It is driven by one event loop, the one it was opened on.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from accord.protocol.exchange import Exchange

__all__ = ["Lost", "Receive", "Wire"]

Receive: TypeAlias = Callable[[bytes], None]
"""Takes one message; must not raise."""

Lost: TypeAlias = Callable[[str], None]
"""Told once, with the reason, that nothing more will come; not told of our own closing."""


class Wire(Protocol):
    """The client's end of a connection."""

    @property
    def congested(self) -> bool:
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
