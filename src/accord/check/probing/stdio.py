"""A line to a server that was launched for it: over its standard streams."""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from accord.check.probing.raw_carrier import ConnectionEnded
from accord.check.probing.raw_connection import RawConnection
from accord.errors import ConnectFailed
from accord.transports.process_group import signal_group

if TYPE_CHECKING:
    from asyncio.subprocess import Process

__all__ = ["Habits", "StdioCarrier"]

_CHUNK: Final = 64 * 1024
# A line beyond this is a flood, and is cut: memory is for other things.
_LONGEST: Final = 64 * 1024 * 1024
_STDERR_KEPT: Final = 40
_LAST_WORDS: Final = 1.0
# A signal that comes just before a process begins to wait may be noticed only after the wait.
_REST: Final = 0.2
_DEAF: Final = "the server no longer reads its input"
# How long readers, and whoever waits for the exit status, may take once a process has ended.
_CLOSING: Final = 10.0


# How long who is known to stay is asked to leave.
_BRIEF: Final = 0.1


class Habits:
    """What was learned of a server as a process, from one launch for the next.

    Attributes:
        stays: whether it went on for long after its input was closed.
        starting: the most seconds that it took from its launch to its first word.
    """

    def __init__(self) -> None:
        self.stays = False
        self.starting = 0.0


class StdioCarrier:
    """Launches a server and talks to it, byte for byte.

    Attributes:
        stderr: the last lines that it wrote there.
        exit_code: how it ended; None while it runs.
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
        self.command = list(command)
        self.habits = habits or Habits()
        self.stderr: deque[str] = deque(maxlen=_STDERR_KEPT)
        self.exit_code: int | None = None
        self.left_by_itself: bool | None = None
        self._env = {**os.environ, **(env or {})}
        self._cwd = cwd
        self._leaving = leaving
        self._line: RawConnection
        self._process: Process
        self._readers: list[asyncio.Task[None]] = []
        self._launched: float | None = None

    @property
    def pid(self) -> int:
        """The process, for signals."""
        return self._process.pid

    async def open(self, line: RawConnection) -> None:
        """Launch the server.

        Raises:
            ConnectFailed: there is no such command.
        """
        self._line = line
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=self._env,
                cwd=self._cwd,
                # A group of its own: what it launches ends with it.
                start_new_session=os.name == "posix",
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConnectFailed(
                f"{self.command[0]} cannot be launched: {why}", command=self.command
            ) from None
        loop = asyncio.get_running_loop()
        self._launched = loop.time()
        self._readers = [loop.create_task(self._hear()), loop.create_task(self._keep_stderr())]

    async def _hear(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        rest = bytearray()
        while chunk := await stdout.read(_CHUNK):
            if self._launched is not None:
                took = asyncio.get_running_loop().time() - self._launched
                self.habits.starting = max(self.habits.starting, took)
                self._launched = None
            rest += chunk
            if b"\n" in chunk:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    self._line.hear(line)
            if len(rest) > _LONGEST:
                self._line.hear(bytes(rest[:_CHUNK]))
                break
            if self._line.ended is not None:
                return
        if rest and len(rest) <= _LONGEST:
            self._line.hear(bytes(rest))
        code = await self._exited(self._leaving)
        how = "closed its output" if code is None else f"ended with exit code {code}"
        self._line.end(f"the server {how}")

    async def _keep_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        rest = b""
        while chunk := await stderr.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            self.stderr.extend(line.decode(errors="replace") for line in lines)
            rest = rest[-_CHUNK:]

    async def _exited(self, seconds: float) -> int | None:
        if self.exit_code is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    self.exit_code = await self._process.wait()
        return self.exit_code

    async def send(self, data: bytes) -> None:
        """Write a message and the end of its line."""
        await self.write(data + b"\n")

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(data)
            async with asyncio.timeout(self._line.patience):
                await stdin.drain()
        except TimeoutError:
            raise ConnectionEnded(_DEAF) from None
        except (OSError, RuntimeError):
            raise ConnectionEnded(await self._why_deaf()) from None

    async def _why_deaf(self) -> str:
        """Say why the server cannot be written to; that it has ended may not be known yet."""
        code = await self._exited(self._leaving)
        if code is None:
            return _DEAF
        await asyncio.wait(self._readers, timeout=_LAST_WORDS)
        return f"the server ended with exit code {code}"

    async def end_input(self, patience: float | None = None) -> bool:
        """Close the server's input; returns whether it ended by itself within this time."""
        patience = self._leaving if patience is None else patience
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
        self.left_by_itself = await self._exited(patience) is not None
        if self.left_by_itself:
            # Its last words are still in the pipe; a survivor may hold that open.
            await asyncio.wait(self._readers, timeout=_LAST_WORDS)
        return self.left_by_itself

    def signal(self, number: int) -> None:
        """Send a signal to the server and what it launched."""
        signal_group(self._process.pid, number)

    async def exit_after(self, number: int, patience: float | None = None) -> int | None:
        """Send a signal and return how the server ended, None where it did not."""
        await asyncio.sleep(_REST)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)
        return await self._exited(self._leaving if patience is None else patience)

    async def close(self) -> None:
        """End the server: kindly, then by force."""
        if not hasattr(self, "_process"):
            return
        if self.exit_code is None:
            left = await self.end_input(_BRIEF if self.habits.stays else None)
            # Nobody waits again for what was waited for in vain.
            self.habits.stays |= not left
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if self.exit_code is None:
                self.signal(number)
                await self._exited(self._leaving)
        # What it launched may have outlived it.
        self.signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        for reader in self._readers:
            reader.cancel()
        await asyncio.wait(self._readers, timeout=_CLOSING)
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            if self.exit_code is None:
                # While pipes are open, which a survivor may hold, nobody is told of the end; and a
                # transport that is closed before takes the exit status from who waits for it.
                for pipe in map(transport.get_pipe_transport, range(3)):
                    if not pipe.is_closing():
                        pipe.close()
                await self._exited(_CLOSING)
            transport.close()
