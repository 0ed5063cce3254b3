"""The stdio transport of a fake server: a port to which the relays connect that clients launch."""

import asyncio
import contextlib
import secrets
from typing import Final, Self

from accord_tools.check.fake_server import launched
from accord_tools.check.fake_server.server import FakeServer, FakeTransport
from accord_tools.check.probing.messages import decode_json
from accord_tools.check.probing.raw_connection import ConnectionEnded, RawConnection

_CHUNK: Final = 64 * 1024
_LONGEST: Final = 64 * 1024 * 1024
_CLOSING: Final = 1.0


class _RelayConnection:
    """The standard streams of one launched relay."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def open(self, line: RawConnection) -> None:
        """Do nothing: the client has connected."""

    async def send(self, data: bytes) -> None:
        """Send a message and a newline."""
        try:
            self._writer.write(data + b"\n")
            await self._writer.drain()
        except OSError:
            raise ConnectionEnded("the client no longer reads") from None

    async def close(self) -> None:
        """Close the relay's output, which ends the relay."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._writer.wait_closed()


class FakeStdioTransport(FakeTransport):
    """Connects a fake server to launched relays."""

    def __init__(self, server: FakeServer, *, patience: float = 5.0) -> None:
        super().__init__(server, patience)
        self._tasks: set[asyncio.Task[None]] = set()
        self._key = secrets.token_hex(8)
        self._server: asyncio.Server
        self._controls: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.origin = f"http://127.0.0.1:{port}"
        self.command = [*launched.COMMAND, "relay", str(port), self._key]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for line in self.fake.lines:
            await line.close()
        for writer in self._controls:
            with contextlib.suppress(OSError):
                writer.write(b"exit 0\n")
                writer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            words = (await reader.readline()).decode(errors="replace").split()
            if len(words) != 3 or not secrets.compare_digest(words[0], self._key):
                if len(words) == 3 and words[2].startswith("HTTP/"):
                    self.fake.visited.append(words[1])
                writer.close()
            elif words[1] == "control":
                self.pids.append(int(words[2]))
                self._controls.append(writer)
                await self._hear_control(reader)
            else:
                await self._hear_data(reader, writer)
        except (asyncio.CancelledError, OSError):
            writer.close()
        finally:
            self._tasks.discard(task)

    async def _hear_control(self, reader: asyncio.StreamReader) -> None:
        for command in self.fake.relay_commands:
            self._controls[-1].write(f"{command}\n".encode())
        try:
            while line := (await reader.readline()).decode(errors="replace"):
                self.fake.events.append(line.strip())
        finally:
            self.fake.events.append("gone")

    async def _hear_data(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = self.fake
        line = self.open_line(_RelayConnection(writer), "stdio")
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
        if not isinstance(decode_json(data.decode(errors="replace")), dict | list):
            self.fake.odd.append(data)
            # Only `odd` shows lines that are not messages.
            return
        line.receive(data)
