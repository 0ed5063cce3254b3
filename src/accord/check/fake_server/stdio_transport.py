"""The transport for clients that launch their server: a port to which the relay connects."""

import asyncio
import contextlib
import secrets
import sys
from typing import TYPE_CHECKING, Final, Self

import msgspec

from accord.check.fake_server import stdio_relay
from accord.check.probing.message_log import MessageLog
from accord.check.probing.raw_connection import ConnectionEnded, RawConnection

if TYPE_CHECKING:
    from accord.check.fake_server.server import FakeServer

_CHUNK: Final = 64 * 1024
_LONGEST: Final = 64 * 1024 * 1024
_CLOSING: Final = 1.0


class _RelayConnection:
    """The standard streams of one launched relay."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.stays = False

    async def open(self, line: RawConnection) -> None:
        """Do nothing: the client has connected."""

    async def send(self, data: bytes) -> None:
        """Send a message and a newline."""
        await self.write(data + b"\n")

    async def write(self, data: bytes) -> None:
        """Send bytes unchanged."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            raise ConnectionEnded("the client no longer reads") from None

    async def close(self) -> None:
        """Close the relay's output, which ends the relay."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._writer.wait_closed()


class FakeStdioTransport:
    """Connects a fake server to launched relays.

    Attributes:
        command: the command that the client has to launch.
        pids: the launched processes.
    """

    def __init__(self, server: "FakeServer", *, patience: float = 5.0) -> None:
        self._fake = server
        self._patience = patience
        self._key = secrets.token_hex(8)
        self._server: asyncio.Server
        self._controls: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.pids: list[int] = []
        self.command: list[str] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        # By its path and without site-packages: clients wait for it to start.
        self.command = [sys.executable, "-I", "-S", stdio_relay.__file__, str(port), self._key]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self._fake.lines:
            await line.close()
        for writer in self._controls:
            with contextlib.suppress(OSError):
                writer.write(b"exit 0\n")
                writer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)

    def tell(self, command: str) -> None:
        """Send a command to the launched relays: `stubborn`, `exit 3`, `stderr some text`."""
        for writer in self._controls:
            with contextlib.suppress(OSError):
                writer.write(f"{command}\n".encode())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            words = (await reader.readline()).decode(errors="replace").split()
            if len(words) != 3 or not secrets.compare_digest(words[0], self._key):
                writer.close()
            elif words[1] == "control":
                self.pids.append(int(words[2]))
                self._controls.append(writer)
                await self._hear_control(reader)
            else:
                await self._hear(reader, writer)
        except (asyncio.CancelledError, OSError):
            writer.close()
        finally:
            self._tasks.discard(task)

    async def _hear_control(self, reader: asyncio.StreamReader) -> None:
        for command in self._fake.relay_commands:
            self._controls[-1].write(f"{command}\n".encode())
        try:
            while line := (await reader.readline()).decode(errors="replace"):
                self._fake.events.append(line.strip())
        finally:
            self._fake.events.append("gone")

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = self._fake
        tape = MessageLog("stdio", "client", is_judged=server.is_judged)
        line = RawConnection(_RelayConnection(writer), tape, patience=self._patience, me="server")
        line.respond = server.respond
        server.lines.append(line)
        rest = b""
        while chunk := await reader.read(_CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            for each in whole:
                self._take(line, each)
            if len(rest) > _LONGEST:
                break
        if rest.strip():
            server.odd.append(rest)
            self._take(line, rest)
        line.end("the client closed the server's input")
        if "stubborn" not in server.relay_commands:
            writer.close()  # as a server does after its input ended

    def _take(self, line: RawConnection, data: bytes) -> None:
        if not data.strip():
            return
        if not _is_message(data):
            self._fake.odd.append(data)
            # Only `odd` shows lines that are not messages.
            return
        line.receive(data)
        if line.received and line.received[-1].get("method") == "notifications/initialized":
            task = asyncio.get_running_loop().create_task(self._run_scenario(line))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run_scenario(self, line: RawConnection) -> None:
        with contextlib.suppress(ConnectionEnded):
            await self._fake.on_initialized(line)


def _is_message(data: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(data.decode(errors="replace")), dict | list)
    except (ValueError, RecursionError):
        return False
