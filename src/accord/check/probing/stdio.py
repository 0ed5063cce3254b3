"""Carries messages to a launched server, over its standard streams, or to one in memory."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from accord.check.probing.raw_connection import ConnectionEnded, RawConnection
from accord.transports.child import Child
from accord.transports.wire import MemoryWire

if TYPE_CHECKING:
    from accord.server import Server

# A longer line is a flood, and is cut to this much.
_LONGEST: Final = 64 * 1024 * 1024
_CUT: Final = 64 * 1024
# A server with this many unread bytes, beside a full pipe, no longer reads.
_UNREAD: Final = 64 * 1024
# A signal that arrives just before a process begins to wait may be noticed only after the wait.
_REST: Final = 0.2
_DEAF: Final = "the server no longer reads its input"
# How long a server that is known to stay may take to exit after its input was closed.
_BRIEF: Final = 0.1


class Habits:
    """Facts learned about a server as a process, from one launch for the next.

    Attributes:
        stays: whether it kept running long after its input was closed.
        startup_seconds: the most that it took from its launch to its first output.
    """

    def __init__(self) -> None:
        self.stays = False
        self.startup_seconds = 0.0


class StdioCarrier:
    """Launches a server and exchanges bytes with it.

    Attributes:
        child: the process.
        left_by_itself: whether it ended after its input was closed, without a signal.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        leaving: float = 3.0,
        habits: Habits | None = None,
    ) -> None:
        self.habits = habits or Habits()
        self.child = Child(
            command,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            on_output=self._on_output,
            on_end=self._on_end,
            exit_expected=leaving,
        )
        self.left_by_itself: bool | None = None
        self._leaving = leaving
        self._connection: RawConnection
        self._rest = bytearray()
        self._launched: float | None = None

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that the server wrote to stderr."""
        return self.child.stderr.lines

    async def open(self, connection: RawConnection) -> None:
        """Launch the server.

        Raises:
            ConnectFailed: the command cannot be started.
        """
        self._connection = connection
        self._launched = asyncio.get_running_loop().time()
        self.child.start()

    def _on_output(self, chunk: bytes) -> None:
        if self._connection.ended is not None:
            self.child.pause_output()
            return
        if self._launched is not None:
            took = asyncio.get_running_loop().time() - self._launched
            self.habits.startup_seconds = max(self.habits.startup_seconds, took)
            self._launched = None
        rest = self._rest
        rest += chunk
        if b"\n" in chunk:
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            for line in lines:
                self._connection.receive(line)
        if len(rest) > _LONGEST:
            self._connection.receive(bytes(rest[:_CUT]))
            rest.clear()
            self._connection.end("the server wrote a line without an end")

    def _on_end(self, reason: str) -> None:
        if self._rest:
            self._connection.receive(bytes(self._rest))
            self._rest.clear()
        self._connection.end(f"the server {reason}")

    async def send(self, data: bytes) -> None:
        """Write a message and the end of its line."""
        await self.write(data + b"\n")

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.child.write(data)
        # Queued bytes are written in the next turn of the loop, which may find the pipe broken.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self._connection.patience):
                await self.child.writable(_UNREAD)
        except TimeoutError:
            raise ConnectionEnded(_DEAF) from None
        if not self.child.has_open_input:
            code = await self.child.wait(self._leaving)
            raise ConnectionEnded(_DEAF if code is None else f"the server {self.child.state}")

    async def end_input(self, patience: float | None = None) -> bool:
        """Close the server's input; returns whether it exited by itself within this time."""
        self.child.end_input()
        patience = self._leaving if patience is None else patience
        self.left_by_itself = await self.child.wait(patience) is not None
        return self.left_by_itself

    async def exit_after(self, number: int) -> int | None:
        """Send a signal to the server and return its exit code; None when it keeps running."""
        await asyncio.sleep(_REST)
        self.child.signal(number)
        return await self.child.wait(self._leaving)

    async def close(self) -> None:
        """End the server: by closing its input, then by force."""
        if self.child.pid is None:
            return
        if self.child.exit_code is None:
            has_left = await self.end_input(_BRIEF if self.habits.stays else None)
            # The next launch need not wait again.
            self.habits.stays |= not has_left
        await self.child.stop(terminate_grace=self._leaving)


class MemoryCarrier:
    """Reaches a server object in this process, with the messages of stdio."""

    def __init__(self, server: "Server[Any]") -> None:
        self._wire = MemoryWire(server)

    async def open(self, connection: RawConnection) -> None:
        """Begin a session."""
        await self._wire.open(connection.receive, connection.end)

    async def send(self, data: bytes) -> None:
        """Send a message."""
        self._wire.write(data, None)

    async def close(self) -> None:
        """End the session."""
        await self._wire.close()
