"""Between a host and a server that it launched: bytes pass as they are, copies are judged."""

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from accord.bindings.lines import LineReader, LineTooLong
from accord.check.watching.watcher import Copy, Watcher
from accord.trace import LINE_LIMIT, Party
from accord.transports.child import spawn

if TYPE_CHECKING:
    import subprocess

_CHUNK: Final = 64 * 1024
# What is still on its way when the server has ended.
_DRAINING: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1
# Of a signal: SI_KERNEL, which is what a terminal's are on Linux.
_FROM_KERNEL: Final = 0x80
# The end of the server and all signals wake us; this is for what another thread took.
_LOOK: Final = 1.0


def watch_command(
    command: Sequence[str],
    watcher: Watcher,
    *,
    env: Mapping[str, str] | None = None,
    stdin: int = 0,
    stdout: int = 1,
) -> int:
    """Launch a server and stand between it and whoever launched us.

    Returns the server's exit code, or the signal that ended it as a negative number, so that the
    host can be shown what it would have seen.

    Raises:
        ConnectFailed: there is no such command.
    """
    process = spawn(
        command,
        env={**os.environ, **(env or {})},
        stderr=None,
        own_group=False,
        before_exec=_die_with_parent(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # Each end is let go by the thread that uses it: a number freed by another may be a file then.
    server_in, server_out = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    process.stdin.close()
    process.stdout.close()
    to_server = _Pump(stdin, server_in, _LineCopier("client", watcher))
    to_host = _Pump(server_out, stdout, _LineCopier("server", watcher))
    with _forward_signals(process) as awaited:
        to_server.start()
        to_host.start()
        code = awaited()
        to_host.join(_DRAINING)
    return code


def _die_with_parent() -> Callable[[], object] | None:
    """Return what a new process calls so that it is killed where we are; None where it cannot be.

    A host that loses patience kills what it launched: that would leave the server behind.
    """
    # The thread that launches it counts as the parent.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    import ctypes

    return partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, int(signal.SIGKILL))


class _LineCopier:
    """Cuts what passes into lines and hands copies of them over."""

    def __init__(self, sender: Party, watcher: Watcher) -> None:
        self._sender: Party = sender
        self._watcher = watcher
        self._lines = LineReader(LINE_LIMIT)

    def hear(self, chunk: bytes) -> None:
        t = self._watcher.now()
        for line in self._lines.feed(chunk):
            if isinstance(line, LineTooLong):
                self._watcher.drop()
            else:
                self._watcher.take(Copy(self._sender, line, t))

    def end(self) -> None:
        rest = self._lines.end()
        if rest is not None:
            self._watcher.take(Copy(self._sender, rest, self._watcher.now()))


class _Pump(threading.Thread):
    """Passes bytes on until either side ends, and then lets the other side see that."""

    def __init__(self, source: int, sink: int, ear: _LineCopier) -> None:
        super().__init__(name="accord-watch", daemon=True)
        self._source = source
        self._sink = sink
        self._ear = ear

    def run(self) -> None:
        while chunk := self._read():
            # Heard before it is passed on: its answer must not be heard first.
            self._ear.hear(chunk)
            if not self._write(memoryview(chunk)):
                break
        self._ear.end()
        # Who still writes to us learns that nobody reads, who still reads that this was all.
        _leave(self._source, os.O_RDONLY)
        _leave(self._sink, os.O_WRONLY)

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._source, _CHUNK)
            except BlockingIOError:
                _wait_for(self._source, select.POLLIN)
            except OSError:
                return b""

    def _write(self, rest: memoryview) -> bool:
        while rest:
            try:
                rest = rest[os.write(self._sink, rest) :]
            except BlockingIOError:
                _wait_for(self._sink, select.POLLOUT)
            except OSError:
                return False
        return True


def _wait_for(file: int, event: int) -> None:
    """Wait for a pipe that its owner made non-blocking; how it is set is not ours to change."""
    poll = select.poll()
    poll.register(file, event)
    poll.poll()


def _leave(file: int, mode: int) -> None:
    """Let go of a pipe; its number stays taken, for others may still hold it to be a stream."""
    with contextlib.suppress(OSError):
        nothing = os.open(os.devnull, mode)
        os.dup2(nothing, file)
        os.close(nothing)


@contextmanager
def _forward_signals(process: "subprocess.Popen[bytes]") -> Iterator[Callable[[], int]]:
    """Pass signals on to the server: how they end it is its own affair. Yields the wait for it."""

    def pass_on(number: int, _frame: FrameType | None = None) -> None:
        with contextlib.suppress(OSError):
            process.send_signal(number)

    if threading.current_thread() is not threading.main_thread():
        yield process.wait
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    numbers = {getattr(signal, name) for name in names if hasattr(signal, name)}
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        if hasattr(signal, "sigtimedwait"):
            with _block_signals({*numbers, signal.SIGCHLD}) as held:
                yield lambda: _wait_for_exit(process, held, pass_on)
        else:
            yield process.wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _block_signals(numbers: set[int]) -> Iterator[set[int]]:
    """Hold signals back for whoever waits for them; threads that start meanwhile get none."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield numbers
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for_exit(
    process: "subprocess.Popen[bytes]", held: set[int], pass_on: Callable[[int], None]
) -> int:
    """Wait for the server's end, and pass on the signals that came to us alone."""
    while (code := process.poll()) is None:
        told = signal.sigtimedwait(held, _LOOK)
        # A terminal sends to the whole group: the server has got it already.
        if told and told.si_signo != signal.SIGCHLD and told.si_code != _FROM_KERNEL:
            pass_on(told.si_signo)
    return code
