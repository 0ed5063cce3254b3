"""Bytes through the pipes of a child process, without blocking the loop.

Where the loop can watch file descriptors it reads and writes by itself; elsewhere (Windows) threads
do. What the bytes mean is not decided here.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import IO, Final, Protocol, TypeAlias

__all__ = ["Pipes", "PolledPipes", "ThreadedPipes", "attach"]

OnChunk: TypeAlias = Callable[[bytes], None]
"""Takes what was read; an empty chunk is the end."""

# The capacity of a pipe: more cannot come at once, and a larger buffer is only cleared for nothing.
CHUNK: Final = 64 * 1024
# Beyond this many unread bytes callers wait. A few messages of usual size fit in.
HIGH_WATER: Final = 1024 * 1024
LOW_WATER: Final = HIGH_WATER // 4
# How often the rest of a pipe is read after its writer died; a survivor may hold it open.
LAST_READS: Final = 64
# A server that asks without reading the answers is not read from beyond this. It is far more than
# what makes an honest server stop reading, so that the two never wait for each other.
ANSWERS_MOST: Final = 16 * 1024 * 1024


class Pipes(Protocol):
    """The three pipes of a child, seen from the parent."""

    unsent: int

    def write(self, data: bytes) -> None:
        """Queue bytes for the child; they leave together with what else is queued this turn."""

    async def writable(self) -> None:
        """Wait until most of the queue has left, or never will."""

    def end_input(self) -> None:
        """Let the child read the end, after what is queued and fits."""

    def pause(self, output: IO[bytes]) -> None:
        """Read nothing more from one of the outputs for now."""

    def resume(self, output: IO[bytes]) -> None:
        """Read from it again."""

    def read_rest(self) -> None:
        """Hand over what is left after the child's death."""

    def release(self) -> None:
        """Let go of all file descriptors; on the loop, or after its end."""


def attach(
    stdin: IO[bytes], outputs: Mapping[IO[bytes], OnChunk], broken: Callable[[], None]
) -> Pipes:
    """Start reading the outputs of a child; `broken` is told when it no longer reads its input."""
    loop = asyncio.get_running_loop()
    try:
        return PolledPipes(loop, stdin, outputs, broken)
    except NotImplementedError:
        return ThreadedPipes(loop, stdin, outputs, broken)


class _Waiters:
    """Callers that wait until the queue is short again."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class PolledPipes:
    """Pipes that the loop watches."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stdin: IO[bytes],
        outputs: Mapping[IO[bytes], OnChunk],
        broken: Callable[[], None],
    ) -> None:
        self.unsent = 0
        self._loop = loop
        self._stdin: IO[bytes] | None = stdin
        self._outputs = dict(outputs)
        self._broken = broken
        self._queue: list[bytes] = []
        self._rest: memoryview | None = None
        self._scheduled = False
        self._prompt = True
        self._waiters = _Waiters()
        for pipe in outputs:
            loop.add_reader(pipe.fileno(), self._read, pipe)
        for pipe in (stdin, *outputs):
            os.set_blocking(pipe.fileno(), False)

    # -- reading

    def _read(self, pipe: IO[bytes]) -> bool:
        """Read once; returns whether more may be there."""
        try:
            chunk = os.read(pipe.fileno(), CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            chunk = b""
        self._prompt = not self._scheduled
        on_chunk = self._outputs[pipe]
        if not chunk:
            self._loop.remove_reader(pipe.fileno())
            del self._outputs[pipe]
            pipe.close()
        on_chunk(chunk)
        return bool(chunk)

    def pause(self, output: IO[bytes]) -> None:
        if output in self._outputs:
            self._loop.remove_reader(output.fileno())

    def resume(self, output: IO[bytes]) -> None:
        if output in self._outputs:
            self._loop.add_reader(output.fileno(), self._read, output)

    def read_rest(self) -> None:
        for pipe in list(self._outputs):
            for _ in range(LAST_READS):
                if not self._read(pipe):
                    break

    # -- writing

    def write(self, data: bytes) -> None:
        if self._stdin is None:
            return
        self._queue.append(data)
        self.unsent += len(data)
        if self._prompt:
            # Who takes turns with the child would lose a loop turn by waiting for company.
            self._prompt = False
            self._flush()
        elif not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = self._prompt = False
        if self._rest is None:
            self._send()

    def _send(self) -> None:
        if self._stdin is None or not self.unsent:
            return
        fd = self._stdin.fileno()
        if self._rest is None:
            queue = self._queue
            self._rest = memoryview(queue[0] if len(queue) == 1 else b"".join(queue))
            queue.clear()
            watched = False
        else:
            watched = True
        try:
            sent = os.write(fd, self._rest)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._discard()
            self._broken()
            return
        self.unsent -= sent
        if sent < len(self._rest):
            self._rest = self._rest[sent:]
            if not watched:
                self._loop.add_writer(fd, self._send)
        else:
            self._rest = None
            if watched:
                self._loop.remove_writer(fd)
                if self._queue and not self._scheduled:
                    self._schedule()
        if self.unsent <= LOW_WATER:
            self._waiters.wake()

    async def writable(self) -> None:
        while self._stdin is not None and self.unsent > HIGH_WATER:
            await self._waiters.wait()

    def end_input(self) -> None:
        if self._rest is None:
            self._send()
        self._discard()

    def _discard(self) -> None:
        """Close the input; what did not leave is lost."""
        pipe, self._stdin = self._stdin, None
        if pipe is not None:
            if not self._loop.is_closed():
                self._loop.remove_writer(pipe.fileno())
            pipe.close()
        self._queue.clear()
        self._rest = None
        self.unsent = 0
        self._waiters.wake()

    def release(self) -> None:
        self._discard()
        outputs, self._outputs = self._outputs, {}
        for pipe in outputs:
            if not self._loop.is_closed():
                self._loop.remove_reader(pipe.fileno())
            pipe.close()


class ThreadedPipes:
    """Pipes that threads wait on, for loops that cannot watch file descriptors."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stdin: IO[bytes],
        outputs: Mapping[IO[bytes], OnChunk],
        broken: Callable[[], None],
    ) -> None:
        self.unsent = 0
        self._loop = loop
        self._stdin = stdin
        self._broken = broken
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._ended = False
        self._waiters = _Waiters()
        self._open = {output: threading.Event() for output in outputs}
        for gate in self._open.values():
            gate.set()
        self._writer = self._start(self._write_all)
        self._readers = [self._start(self._read_all, *each) for each in outputs.items()]

    @staticmethod
    def _start(work: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, daemon=True, name="accord-pipe")
        thread.start()
        return thread

    def _tell(self, function: Callable[..., None], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody listens
            self._loop.call_soon_threadsafe(function, *args)

    def _read_all(self, pipe: IO[bytes], on_chunk: OnChunk) -> None:
        # A loop that is behind is not buried: at most this many chunks wait for it.
        room = threading.Semaphore(4)

        def hand_over(chunk: bytes) -> None:
            room.release()
            on_chunk(chunk)

        gate = self._open[pipe]
        chunk = b"-"
        while chunk:
            gate.wait()
            try:
                chunk = os.read(pipe.fileno(), CHUNK)
            except OSError:
                chunk = b""
            while not room.acquire(timeout=1) and not self._loop.is_closed():
                pass
            self._tell(hand_over, chunk)
        pipe.close()

    def _write_all(self) -> None:
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(self._stdin.fileno(), rest) :]
            except OSError:
                self._tell(self._broken)
                break
            self._tell(self._sent, len(data))
        self._stdin.close()

    def _sent(self, size: int) -> None:
        self.unsent -= size
        if self.unsent <= LOW_WATER:
            self._waiters.wake()

    def write(self, data: bytes) -> None:
        self.unsent += len(data)
        self._queue.put(data)

    async def writable(self) -> None:
        while not self._ended and self.unsent > HIGH_WATER:
            await self._waiters.wait()

    def end_input(self) -> None:
        if not self._ended:
            self._ended = True
            self._queue.put(None)
            self._waiters.wake()

    def pause(self, output: IO[bytes]) -> None:
        self._open[output].clear()

    def resume(self, output: IO[bytes]) -> None:
        self._open[output].set()

    def read_rest(self) -> None:
        """Let the threads read to the end by themselves."""
        for gate in self._open.values():
            gate.set()

    def release(self) -> None:
        self.end_input()
        self.read_rest()
        for thread in (self._writer, *self._readers):
            if thread is not threading.current_thread():
                thread.join(0.2)
