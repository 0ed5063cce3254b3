"""A server over standard input and output, such that nothing but messages reaches stdout.

`claim()` takes both descriptors away from the rest of the process: other output goes to stderr, and
other readers of stdin read nothing. It may be called early, before user code is imported.
"""

import asyncio
import logging
import os
import select
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from typing import Final, cast

from accord.protocol.exchange import Exchange
from accord.runtime.tasks import call_in_batch, leave_for_end
from accord.stdio.lines import LINE_LIMIT, LineReader, LineTooLong

log = logging.getLogger("accord.stdio")

# asyncio's 256 KiB reads cost a third of the rate: the buffer falls out of the cache.
_READ_SIZE: Final = 64 * 1024
# What a pipe holds by default; joining more into one write gains nothing.
_WRITE_SIZE: Final = 64 * 1024
# Holds nearly every message (Linux's pipe-max-size); memory is used only for the content.
_PIPE_SIZE: Final = 1024 * 1024
# As much as the longest message; the numbers are those of malloc.h.
_KEPT: Final = 16 * 1024 * 1024
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# Above this backlog, messages of a client that does not read are not read either.
_BACKLOG_HIGH: Final = 1024 * 1024
_BACKLOG_LOW: Final = 256 * 1024

_STDERR: Final = 2
_claimed: tuple[int, int] | None = None


def claim() -> tuple[int, int]:
    """Take stdin and stdout for messages; return their private descriptors. Idempotent."""
    global _claimed  # noqa: PLW0603  # the process has one pair
    if _claimed is None:
        try:
            os.fstat(0), os.fstat(1)
        except OSError:
            raise RuntimeError("stdin or stdout is closed; a server needs both") from None
        nothing = os.open(os.devnull, os.O_RDWR)
        reading, writing = os.dup(0), os.dup(1)
        os.dup2(nothing, 0)
        if nothing == _STDERR:  # it was closed; otherwise a copy for messages would take its number
            os.set_inheritable(nothing, True)
        os.dup2(_STDERR, 1)
        if nothing != _STDERR:
            os.close(nothing)
        # Buffered prints must not reach the wire either.
        with suppress(Exception):
            sys.stdout.flush()
        _claimed = reading, writing
        _leave_to_parent_on_fork()
    return _claimed


@contextmanager
def claim_for_a_while() -> Iterator[None]:
    """Take stdin and stdout within a block, and put them back after it."""
    global _claimed  # noqa: PLW0603  # the process has one pair
    was_claimed = _claimed is not None
    reading, writing = claim()
    try:
        yield
    finally:
        if not was_claimed:
            _claimed = None
            with suppress(Exception):
                sys.stdout.flush()  # prints that went to stderr meanwhile
            for number, descriptor in enumerate((reading, writing)):
                with suppress(OSError):
                    os.set_blocking(descriptor, True)
                os.dup2(descriptor, number)
                os.close(descriptor)


@cache
def _leave_to_parent_on_fork() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_leave_to_parent)


def _leave_to_parent() -> None:
    """Take the descriptors away from a forked child: all messages belong to the parent."""
    if _claimed is None:
        return
    with suppress(OSError):
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in _claimed:
            os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)


class _Writer:
    """Writes messages to a descriptor, one write per loop turn, without ever blocking on a pipe."""

    def __init__(
        self, descriptor: int, on_backlog: Callable[[int], None], on_broken: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._on_backlog = on_backlog
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._size = 0
        self._queue: deque[memoryview] = deque()
        self._scheduled = False
        self._room = asyncio.Event()
        self._is_broken = False
        self.backlog = 0
        if _is_pipe(descriptor):
            os.set_blocking(descriptor, False)
            _widen(descriptor)

    def write(self, message: bytes, exchange: Exchange | None = None) -> None:
        """Send one message with the next flush, whatever exchange it belongs to."""
        if self._is_broken:
            return
        if len(message) > _WRITE_SIZE:
            _keep_memory()
            # Copying it to add a line break would cost as much as encoding it.
            self.flush()
            self._send(message)
            message = b""
        self._pending.append(message)
        self._size += len(message)
        if self._size > _WRITE_SIZE:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            if not leave_for_end(self._loop, self.flush):
                self._loop.call_soon(self.flush)

    def cork(self) -> None:
        """Collect messages until `flush`."""
        self._scheduled = True

    def flush(self) -> None:
        """Write pending messages, as far as the pipe has room."""
        self._scheduled = False
        if not self._pending:
            return
        self._pending.append(b"")
        data = b"\n".join(self._pending)
        self._pending.clear()
        self._size = 0
        self._send(data)

    def _send(self, data: bytes) -> None:
        written = 0
        if not self._queue:
            try:
                written = os.write(self._descriptor, data)
            except BlockingIOError:
                pass
            except OSError:
                self._break()
                return
            if written == len(data):
                return
            self._loop.add_writer(self._descriptor, self._continue)
        self._queue.append(memoryview(data)[written:])
        self.backlog += len(data) - written
        self._on_backlog(self.backlog)

    def _continue(self) -> None:
        try:
            while self._queue:
                written = os.write(self._descriptor, self._queue[0])
                self.backlog -= written
                if written < len(self._queue[0]):
                    self._queue[0] = self._queue[0][written:]
                    break
                self._queue.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._break()
        if not self._queue:
            self._loop.remove_writer(self._descriptor)
        self._on_backlog(self.backlog)
        if self.backlog < _BACKLOG_LOW:
            self._room.set()

    def _break(self) -> None:
        """Drop all messages: the reader is gone."""
        self._is_broken = True
        self._drop()
        self._on_broken()

    def _drop(self) -> None:
        if self._queue:
            self._loop.remove_writer(self._descriptor)
        self._queue.clear()
        self._pending.clear()
        self.backlog = 0
        self._room.set()

    async def writable(self) -> None:
        """Wait until most has been read, or the reader is gone."""
        while self.backlog > _BACKLOG_HIGH:
            self._room.clear()
            await self._room.wait()

    def finish(self, seconds: float) -> None:
        """Write pending messages for at most some seconds: the process is about to end."""
        self.flush()
        left = [bytes(view) for view in self._queue]
        self._drop()
        end = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        data = memoryview(b"".join(left))
        with suppress(OSError):
            while data and time.monotonic() < end:
                if poll.poll(max(0.0, end - time.monotonic()) * 1000):
                    with suppress(BlockingIOError):
                        data = data[os.write(self._descriptor, data) :]
        with suppress(OSError):
            # Other processes may share the pipe, and expect it to block.
            os.set_blocking(self._descriptor, True)


class _Reader(asyncio.Protocol):
    """Splits the input into lines and passes them on."""

    def __init__(
        self,
        limit: int,
        receive: Callable[[bytes], object],
        refuse: Callable[[LineTooLong], object],
        writer: _Writer,
        ended: asyncio.Event,
    ) -> None:
        self._lines = LineReader(limit)
        self._receive = receive
        self._refuse = refuse
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._paused = False
        self._is_at_end = False
        self._rest: Iterator[bytes | LineTooLong] | None = None
        self.transport: asyncio.ReadTransport | None = None
        self.ended = ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not a subclass.
        self.transport = transport = cast("asyncio.ReadTransport", transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_SIZE

    def data_received(self, data: bytes) -> None:
        lines = self._lines.feed(data)
        if self._rest is not None:
            # Some transports deliver data that they had read before they were paused.
            self._rest = chain(self._rest, lines)
            return
        call_in_batch(self._loop, self._serve, lines)

    def _serve(self, lines: Iterator[bytes | LineTooLong]) -> None:
        """Receive lines, as long as the client reads the answers."""
        writer = self._writer
        # Most answers are complete at the end of this loop; one write sends all of them.
        writer.cork()
        receive = self._receive
        for line in lines:
            if line.__class__ is bytes:
                try:
                    receive(line)
                except Exception:  # one message must not end the connection
                    log.exception("receiving a message failed")
            else:
                self._refuse(line)  # type: ignore[arg-type]  # the only other class
            if writer.backlog > _BACKLOG_HIGH:
                # One read may hold a thousand requests with answers of a megabyte each.
                self._rest = lines
                break
        writer.flush()
        if self._rest is not None and writer.backlog < _BACKLOG_LOW:
            self._go_on_soon()  # a broken pipe has no backlog

    def _go_on(self) -> None:
        """Receive the rest of the last read."""
        rest, self._rest = self._rest, None
        if rest is not None:
            call_in_batch(self._loop, self._serve, rest)
        if self._is_at_end and not self._has_rest():
            self._end()

    def _has_rest(self) -> bool:
        return self._rest is not None

    def eof_received(self) -> None:
        self._is_at_end = True
        if self._rest is None:
            self._end()

    def _end(self) -> None:
        last = self._lines.end()
        if last is not None:
            self._serve(iter((last,)))
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_at_end = True
        if self._rest is None:
            self.ended.set()

    def hold(self, backlog: int) -> None:
        """Pause reading while the client does not read."""
        if backlog > _BACKLOG_HIGH and not self._paused:
            self._paused = True
            if self._is_open():
                self.transport.pause_reading()  # type: ignore[union-attr]  # it is open
        elif backlog < _BACKLOG_LOW and self._paused:
            self._paused = False
            self._go_on_soon()
            if self._is_open():
                self.transport.resume_reading()  # type: ignore[union-attr]  # it is open

    def _go_on_soon(self) -> None:
        if self._rest is not None:
            self._loop.call_soon(self._go_on)

    def _is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()


class StdioConnection:
    """The process's own stdin and stdout as a connection.

    Args:
        limit: the longest line in bytes.

    Attributes:
        write: sends one message.
        writable: waits until the client has read most of what was sent, or is gone.
        ended: set when the input has ended.
    """

    def __init__(self, *, limit: int = LINE_LIMIT) -> None:
        self._reading, writing = claim()
        self._is_finished = False
        self._limit = limit
        self._reader: _Reader | None = None
        self.ended = asyncio.Event()
        self._writer = _Writer(writing, self._hold, self.ended.set)
        self.write = self._writer.write
        self.writable = self._writer.writable

    @property
    def backlog(self) -> int:
        """How many bytes the client has yet to read."""
        return self._writer.backlog

    @property
    def is_congested(self) -> bool:
        """Whether the client is slow to read; `writable` waits until it has caught up."""
        return self._writer.backlog > _BACKLOG_HIGH

    def _hold(self, backlog: int) -> None:
        if self._reader is not None:
            self._reader.hold(backlog)

    async def start(
        self, receive: Callable[[bytes], object], refuse: Callable[[LineTooLong], object]
    ) -> None:
        """Begin to read.

        Args:
            receive: called with each message.
            refuse: called for a line that is too long, and dropped.
        """
        self._reader = reader = _Reader(self._limit, receive, refuse, self._writer, self.ended)
        loop = asyncio.get_running_loop()
        if _is_pipe(self._reading):
            pipe = os.fdopen(self._reading, "rb", buffering=0, closefd=False)
            await loop.connect_read_pipe(lambda: reader, pipe)
        else:
            # Files cannot be polled. Terminals can, but would become non-blocking for all users.
            threading.Thread(
                target=self._read_in_thread, args=(loop, reader), name="accord-stdin", daemon=True
            ).start()

    def _read_in_thread(self, loop: asyncio.AbstractEventLoop, reader: _Reader) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            with suppress(OSError):
                # Once it is finished, its descriptor may be that of another file.
                while not self._is_finished and (chunk := os.read(self._reading, _READ_SIZE)):
                    asyncio.run_coroutine_threadsafe(self._take(chunk, reader), loop).result()
            loop.call_soon_threadsafe(reader.eof_received)

    async def _take(self, chunk: bytes, reader: _Reader) -> None:
        reader.data_received(chunk)
        await self._writer.writable()

    def finish(self, seconds: float) -> None:
        """Write pending messages for at most some seconds, and stop reading."""
        self._is_finished = True
        self._writer.finish(seconds)
        if self._reader is not None and self._reader.transport is not None:
            self._reader.transport.close()


@cache
def _keep_memory() -> None:
    """Keep freed memory for the next long message.

    Otherwise glibc gives it back to the kernel each time, and a third of the time for a message of
    1 MB is page faults.
    """
    with suppress(ImportError, AttributeError, OSError):  # not glibc
        from ctypes import CDLL

        libc = CDLL(None)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT)


def _widen(descriptor: int) -> None:
    """Let a pipe hold a long message: one write instead of one loop turn per 64 KiB."""
    with suppress(ImportError, AttributeError, OSError):  # not Linux, or above its limit
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(descriptor, F_SETPIPE_SZ, _PIPE_SIZE)


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
