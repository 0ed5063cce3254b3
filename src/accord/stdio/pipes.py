"""Bytes through the pipes of a child process, without blocking the loop.

Where the loop can watch file descriptors it reads and writes by itself; elsewhere (Windows) threads
do. The bytes are not interpreted here.
"""

import asyncio
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import IO, Final, TypeAlias

OnChunk: TypeAlias = Callable[[bytes], None]
"""Takes bytes that were read; never called with none."""

OnEnd: TypeAlias = Callable[[IO[bytes]], None]
"""Takes an output that has ended."""

# The capacity of a pipe: more cannot arrive at once, and a larger buffer is cleared for nothing.
CHUNK: Final = 64 * 1024
# Beyond this many unread bytes callers wait, until a quarter of them is left. A few messages of
# usual size fit in.
HIGH_WATER: Final = 1024 * 1024
# How often the rest of a pipe is read after its writer died; a survivor may hold it open.
LAST_READS: Final = 64


class Pipes(ABC):
    """The pipes of a child, seen from the parent.

    Args:
        loop: calls the functions below.
        stdin: the input of the child; None when it has none.
        outputs: with a function for the bytes of each.
        on_output_end: called when an output has ended.
        on_broken_input: called when the child no longer reads its input.

    Attributes:
        unsent: bytes that wait for the child.
        is_open: whether the child still reads its input.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stdin: IO[bytes] | None,
        outputs: Mapping[IO[bytes], OnChunk],
        on_output_end: OnEnd,
        on_broken_input: Callable[[], None],
    ) -> None:
        self.unsent = 0
        self.is_open = stdin is not None
        self._loop = loop
        self._on_output_end = on_output_end
        self._on_broken_input = on_broken_input
        # Callers that wait until the queue is short again, and how short.
        self._waiting: list[asyncio.Future[None]] = []
        self._lowest = 0
        self._begin(stdin, outputs)

    @abstractmethod
    def _begin(self, stdin: IO[bytes] | None, outputs: Mapping[IO[bytes], OnChunk]) -> None:
        """Start reading the outputs."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Queue bytes for the child; all that is queued in one turn of the loop leaves together."""

    async def writable(self, most: int = HIGH_WATER) -> None:
        """Wait until at most this many bytes are queued, or the input is closed."""
        while self.is_open and self.unsent > most:
            future = self._loop.create_future()
            low = most // 4
            self._lowest = min(self._lowest, low) if self._waiting else low
            self._waiting.append(future)
            await future

    def _wake(self) -> None:
        """Wake all callers if the queue is short enough for each of them."""
        if self._waiting and (self.unsent <= self._lowest or not self.is_open):
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    @abstractmethod
    def end_input(self) -> None:
        """Let the child read the end, after what is queued and fits."""

    @abstractmethod
    def pause(self, output: IO[bytes]) -> None:
        """Read nothing more from one of the outputs for now."""

    @abstractmethod
    def resume(self, output: IO[bytes]) -> None:
        """Read from it again."""

    @abstractmethod
    def read_rest(self) -> None:
        """Read what is left after the exit of the child."""

    @abstractmethod
    def release(self) -> None:
        """Let go of all file descriptors; on the loop, or after its end."""


def attach(
    stdin: IO[bytes] | None,
    outputs: Mapping[IO[bytes], OnChunk],
    on_output_end: OnEnd,
    on_broken_input: Callable[[], None],
) -> Pipes:
    """Start reading the outputs of a child, in the way that the running loop allows."""
    loop = asyncio.get_running_loop()
    try:
        return PolledPipes(loop, stdin, outputs, on_output_end, on_broken_input)
    except NotImplementedError:
        return ThreadedPipes(loop, stdin, outputs, on_output_end, on_broken_input)


class PolledPipes(Pipes):
    """Pipes that the loop watches."""

    def _begin(self, stdin: IO[bytes] | None, outputs: Mapping[IO[bytes], OnChunk]) -> None:
        self._stdin = stdin
        self._outputs = dict(outputs)
        self._queue: list[bytes] = []
        self._rest: memoryview | None = None
        self._scheduled = False
        self._prompt = True
        for pipe in outputs:
            self._loop.add_reader(pipe.fileno(), self._read, pipe)
        for pipe in outputs:
            os.set_blocking(pipe.fileno(), False)
        if stdin is not None:
            os.set_blocking(stdin.fileno(), False)

    # -- reading

    def _read(self, pipe: IO[bytes]) -> bool:
        """Read once and return whether more may be there."""
        try:
            chunk = os.read(pipe.fileno(), CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            chunk = b""
        self._prompt = not self._scheduled
        if chunk:
            self._outputs[pipe](chunk)
            return True
        self._loop.remove_reader(pipe.fileno())
        del self._outputs[pipe]
        pipe.close()
        self._on_output_end(pipe)
        return False

    def pause(self, output: IO[bytes]) -> None:
        if output in self._outputs:
            self._loop.remove_reader(output.fileno())

    def resume(self, output: IO[bytes]) -> None:
        if output in self._outputs:
            self._loop.add_reader(output.fileno(), self._read, output)

    def read_rest(self) -> None:
        for pipe in list(self._outputs):
            for _ in range(LAST_READS):
                # A callback may release all pipes meanwhile.
                if pipe not in self._outputs or not self._read(pipe):
                    break

    # -- writing

    def write(self, data: bytes) -> None:
        if self._stdin is None:
            return
        self._queue.append(data)
        self.unsent += len(data)
        if self._prompt:
            # A caller that takes turns with the child would lose a loop turn by batching.
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
            self._on_broken_input()
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
        self._wake()

    def end_input(self) -> None:
        if self._rest is None:
            self._send()
        self._discard()

    def _discard(self) -> None:
        """Close the input; what has not left is lost."""
        pipe, self._stdin = self._stdin, None
        self.is_open = False
        if pipe is not None:
            if not self._loop.is_closed():
                self._loop.remove_writer(pipe.fileno())
            pipe.close()
        self._queue.clear()
        self._rest = None
        self.unsent = 0
        self._wake()

    def release(self) -> None:
        self._discard()
        outputs, self._outputs = self._outputs, {}
        for pipe in outputs:
            if not self._loop.is_closed():
                self._loop.remove_reader(pipe.fileno())
            pipe.close()


class ThreadedPipes(Pipes):
    """Pipes that threads wait on, for loops that cannot watch file descriptors."""

    def _begin(self, stdin: IO[bytes] | None, outputs: Mapping[IO[bytes], OnChunk]) -> None:
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._open = {output: threading.Event() for output in outputs}
        for gate in self._open.values():
            gate.set()
        self._threads = [self._start(self._read_all, *each) for each in outputs.items()]
        if stdin is not None:
            self._threads.append(self._start(self._write_all, stdin))

    @staticmethod
    def _start(work: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, daemon=True, name="accord-pipe")
        thread.start()
        return thread

    def _call(self, function: Callable[..., None], *args: object) -> None:
        """Call a function on the loop, if that still runs."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *args)

    def _read_all(self, pipe: IO[bytes], on_chunk: OnChunk) -> None:
        # At most this many chunks wait for a loop that is behind.
        room = threading.Semaphore(4)

        def hand_over(chunk: bytes) -> None:
            room.release()
            if chunk:
                on_chunk(chunk)
            else:
                self._on_output_end(pipe)

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
            self._call(hand_over, chunk)
        pipe.close()

    def _write_all(self, stdin: IO[bytes]) -> None:
        while (data := self._queue.get()) is not None:
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[os.write(stdin.fileno(), rest) :]
            except OSError:
                self._call(self._break_input)
                break
            self._call(self._count_sent, len(data))
        stdin.close()

    def _break_input(self) -> None:
        self.is_open = False
        self._wake()
        self._on_broken_input()

    def _count_sent(self, size: int) -> None:
        self.unsent -= size
        self._wake()

    def write(self, data: bytes) -> None:
        if self.is_open:
            self.unsent += len(data)
            self._queue.put(data)

    def end_input(self) -> None:
        if self.is_open:
            self.is_open = False
            self._queue.put(None)
            self._wake()

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
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(0.2)
