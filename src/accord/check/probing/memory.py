"""A line to a server in this process."""

from typing import Any

from accord.check.probing.raw_connection import RawConnection
from accord.transports.memory import MemoryWire


class MemoryCarrier:
    """Talks to a server object; its messages pass as they would over stdio."""

    def __init__(self, server: Any) -> None:
        self._wire = MemoryWire(server)

    async def open(self, line: RawConnection) -> None:
        """Begin a session."""
        await self._wire.open(line.hear, line.end)

    async def send(self, data: bytes) -> None:
        """Hand a message over."""
        self._wire.write(data, None)

    async def close(self) -> None:
        """End the session."""
        await self._wire.close()
