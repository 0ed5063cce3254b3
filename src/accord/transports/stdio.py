"""A server over standard input and output, done so that nothing but messages ever reaches stdout.

`claim()` takes both descriptors away from the rest of the process: whatever else is printed goes to
stderr, whatever else reads gets nothing. It may be called early, before user code is imported.
"""

import asyncio
import logging
import os
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
        self._backlog = b""
        self._scheduled = False
        self.broken = False
        self._blocks = not _is_pipe(descriptor)
        if not self._blocks:
            os.set_blocking(descriptor, False)

    def write(self, message: bytes) -> None:
        """Send one message with the next flush."""
        self._pending.append(message)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what is pending, as far as the reader has room."""
        self._scheduled = False
        if not self._pending:
            return
        self._pending.append(b"")
        data = b"\n".join(self._pending)
        self._pending.clear()
        if self._backlog:
            self._backlog += data
            self._on_backlog(len(self._backlog))
        else:
            self._push(data)

    def _push(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            if not self._backlog:
                self._loop.add_writer(self._descriptor, self._continue)
            self._backlog = data
            self._on_backlog(len(data))
        except OSError:
            self.broken = True
            self._stop()

    def _continue(self) -> None:
        data, self._backlog = self._backlog, b""
        self._loop.remove_writer(self._descriptor)
        self._push(data)
        self._on_backlog(len(self._backlog))

    def _stop(self) -> None:
        if self._backlog:
            self._loop.remove_writer(self._descriptor)
        self._backlog = b""
        self._pending.clear()

    @property
    def is_empty(self) -> bool:
        """Whether everything has been written."""
        return not self._pending and not self._backlog

    def finish(self) -> None:
        """Write what is left, blocking: the process is about to end."""
        self.flush()
        data, self._backlog = self._backlog, b""
        if data:
            self._loop.remove_writer(self._descriptor)
            with suppress(OSError):
                os.set_blocking(self._descriptor, True)
                os.write(self._descriptor, data)


class _Reader(asyncio.Protocol):
    """Cuts what arrives into lines and hands them on."""

    def __init__(
        self,
        limit: int,
        receive: Callable[[bytes], None],
        too_long: Callable[[LineTooLong], None],
        flush: Callable[[], None],
    ) -> None:
        self._lines = LineReader(limit)
        self._receive = receive
        self._too_long = too_long
        self._flush = flush
        self._paused = False
        self.transport: asyncio.ReadTransport | None = None
        self.ended: asyncio.Event = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self.transport = transport
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_SIZE

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, bytes):
                self._receive(line)
            else:
                self._too_long(line)
        self._flush()

    def eof_received(self) -> None:
        last = self._lines.end()
        if last is not None:
            self._receive(last)
            self._flush()
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

    def __init__(self, receive: Callable[[bytes], None], *, limit: int = LINE_LIMIT) -> None:
        reading, writing = claim()
        self._reading = reading
        self._reader = _Reader(limit, receive, self._refuse, self._flush)
        self._writer = _Writer(writing, self._reader.hold)
        self.refuse: Callable[[LineTooLong], None] = lambda _: None
        self.ended = self._reader.ended

    def write(self, message: bytes) -> None:
        """Send one message."""
        self._writer.write(message)

    def _flush(self) -> None:
        self._writer.flush()

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
