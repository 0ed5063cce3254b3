"""A server over standard input and output, done so that nothing but messages ever reaches stdout.

`claim()` takes both descriptors away from the rest of the process: whatever else is printed goes to
stderr, whatever else reads gets nothing. It may be called early, before user code is imported.
"""

import asyncio
import logging
import os
import selectors
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from accord.bindings.lines import LINE_LIMIT, LineReader, LineTooLong

log = logging.getLogger("accord.stdio")

# asyncio's 256 KiB reads cost a third of the rate: the buffer falls out of the cache.
_READ_SIZE: Final = 64 * 1024
# A client that does not read what it is sent is not read from either, above this backlog.
_BACKLOG_HIGH: Final = 1024 * 1024
_BACKLOG_LOW: Final = 256 * 1024
_PARENT_CHECK: Final = 1.0
# How long a client may take, at the end, to make room for what it has not read yet.
_LAST_WRITE: Final = 1.0

_claimed: tuple[int, int] | None = None


def claim() -> tuple[int, int]:
    """Take stdin and stdout for messages; returns their private descriptors. Idempotent."""
    global _claimed  # noqa: PLW0603  # the process has one pair
    if _claimed is None:
        reading, writing = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(nothing, 1)
        os.close(nothing)
        # What was printed but not yet written must not reach the wire either.
        with suppress(Exception):
            sys.stdout.flush()
        _claimed = reading, writing
    return _claimed


class _Writer:
    """Writes messages to a descriptor, one write per loop turn, without ever blocking on a pipe."""

    def __init__(self, descriptor: int, on_backlog: Callable[[int], None]) -> None:
        self._descriptor = descriptor
        self._on_backlog = on_backlog
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._rest = memoryview(b"")
        self._unsent = 0
        self._scheduled = False
        self.broken = False
        self._blocks = not _is_pipe(descriptor)
        if not self._blocks:
            os.set_blocking(descriptor, False)

    def write(self, message: bytes) -> None:
        """Send one message with the next flush."""
        self._pending.append(message)
        self._unsent += len(message) + 1
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self.flush)

    def cork(self) -> None:
        """Collect what is written until `uncork`."""
        self._scheduled = True

    def uncork(self, expected: int) -> None:
        """Write what was collected.

        Where fewer messages than expected were written, the others come from tasks that run next:
        a flush right behind them saves a turn of the loop.
        """
        missing = expected - len(self._pending)
        self.flush()
        if missing > 0:
            self._schedule()

    def flush(self) -> None:
        """Write what is pending, as far as the reader has room."""
        self._scheduled = False
        if self._rest:
            self._on_backlog(self._unsent)
        elif self._pending:
            self._pending.append(b"")
            data = b"\n".join(self._pending)
            self._pending.clear()
            self._send(memoryview(data))

    def _send(self, data: memoryview) -> None:
        was_waiting = bool(self._rest)
        try:
            while data:
                sent = os.write(self._descriptor, data)
                data = data[sent:]
                self._unsent -= sent
                if not self._blocks:
                    break  # it is full, or all is written
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
            self._pending.clear()
            self._unsent = 0
            data = memoryview(b"")
        self._rest = data
        if data and not was_waiting:
            self._loop.add_writer(self._descriptor, self._continue)
        elif was_waiting and not data:
            self._loop.remove_writer(self._descriptor)

    def _continue(self) -> None:
        self._send(self._rest)
        if not self._rest:
            self.flush()
        self._on_backlog(self._unsent)

    @property
    def is_empty(self) -> bool:
        """Whether everything has been written."""
        return not self._pending and not self._rest

    def finish(self) -> None:
        """Write what is left while the client still reads: the process is about to end."""
        self.flush()
        if self._rest:
            with selectors.DefaultSelector() as selector:
                selector.register(self._descriptor, selectors.EVENT_WRITE)
                while self._rest and selector.select(_LAST_WRITE):
                    self._continue()


class _Reader(asyncio.Protocol):
    """Cuts what arrives into lines and hands them on."""

    def __init__(
        self,
        limit: int,
        receive: Callable[[bytes], object],
        too_long: Callable[[LineTooLong], None],
        writer: _Writer,
    ) -> None:
        self._lines = LineReader(limit)
        self._receive = receive
        self._too_long = too_long
        self._writer = writer
        self._paused = False
        self.transport: asyncio.ReadTransport | None = None
        self.ended: asyncio.Event = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self.transport = transport
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_SIZE

    def data_received(self, data: bytes) -> None:
        received = 0
        self._writer.cork()
        try:
            for line in self._lines.feed(data):
                received += 1
                if isinstance(line, bytes):
                    self._receive(line)
                else:
                    self._too_long(line)
        finally:
            self._writer.uncork(received)

    def eof_received(self) -> None:
        last = self._lines.end()
        if last is not None:
            self._receive(last)
            self._writer.flush()
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def hold(self, backlog: int) -> None:
        """Stop reading while the client does not read, and go on when it does."""
        if self.transport is None:
            return
        if backlog > _BACKLOG_HIGH and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        elif backlog < _BACKLOG_LOW and self._paused:
            self._paused = False
            self.transport.resume_reading()


class StdioConnection:
    """The process's own pipes as a connection."""

    def __init__(self, receive: Callable[[bytes], object], *, limit: int = LINE_LIMIT) -> None:
        reading, writing = claim()
        self._reading = reading
        self._writer = _Writer(writing, self._hold)
        self._reader = _Reader(limit, receive, self._refuse, self._writer)
        self.refuse: Callable[[LineTooLong], None] = lambda _: None
        self.ended = self._reader.ended

    def write(self, message: bytes, exchange: object = None) -> None:
        """Send one message; there is one stream, whatever exchange it belongs to."""
        self._writer.write(message)

    def _hold(self, backlog: int) -> None:
        self._reader.hold(backlog)

    def _refuse(self, error: LineTooLong) -> None:
        self.refuse(error)

    async def start(self) -> None:
        """Begin to read."""
        loop = asyncio.get_running_loop()
        if _is_pipe(self._reading) or os.isatty(self._reading):
            pipe = os.fdopen(self._reading, "rb", buffering=0, closefd=False)
            await loop.connect_read_pipe(lambda: self._reader, pipe)
        else:
            threading.Thread(target=self._read_file, args=(loop,), daemon=True).start()

    def _read_file(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read what cannot be polled, such as a file."""
        while chunk := os.read(self._reading, _READ_SIZE):
            loop.call_soon_threadsafe(self._reader.data_received, chunk)
        loop.call_soon_threadsafe(self._reader.eof_received)

    def finish(self) -> None:
        """Write what is left and stop reading."""
        self._writer.finish()
        if self._reader.transport is not None:
            self._reader.transport.close()


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class Stop:
    """Notices what ends a stdio process: end of input, a signal, the death of the parent."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended
        self._parent = os.getppid()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        """Wait for any of them."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                self._loop.add_signal_handler(number, self._ended.set)
        self._watch_parent()
        try:
            await self._ended.wait()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _watch_parent(self) -> None:
        if os.getppid() != self._parent:
            self._ended.set()
            return
        self._timer = self._loop.call_later(_PARENT_CHECK, self._watch_parent)


def exit_at_once(code: int) -> None:
    """End the process although threads still run; what is logged gets out first."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


__all__ = ["StdioConnection", "Stop", "claim", "exit_at_once"]
