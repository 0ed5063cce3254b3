"""Between a host and a server that it launched: bytes pass unchanged, copies are judged."""

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from accord.stdio.child import spawn
from accord.stdio.lines import LineReader, LineTooLong
from accord.trace import LINE_LIMIT, Party
from accord_tools.watch.watcher import Copy, Watcher

if TYPE_CHECKING:
    import subprocess


_CHUNK: Final = 64 * 1024
# Seconds to pass on the rest of the output when the server has ended.
_DRAINING: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1
# si_code SI_KERNEL, which signals of a terminal have on Linux.
_FROM_KERNEL: Final = 0x80
# Signals end the wait; this is for a SIGCHLD that another thread received.
_LOOK: Final = 1.0


def watch_command(
    command: Sequence[str],
    watcher: Watcher,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    launched: Callable[[], None] | None = None,
    stdin: int = 0,
    stdout: int = 1,
) -> int:
    """Launch a server and relay between it and the host.

    Returns the server's exit code, or the signal that ended it as a negative number, so that the
    host sees the same exit.

    Args:
        command: launches the server.
        watcher: receives the copies.
        env: variables for the server, beside those of this process.
        cwd: the folder that it runs in.
        launched: called when the server runs; threads that it starts receive no signals.
        stdin: the host writes to it; taken over once the server runs.
        stdout: the host reads from it; taken over as well.

    Raises:
        ConnectFailed: the command cannot be started.
    """
    process = spawn(
        command,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stderr=None,
        own_group=False,
        before_exec=_die_with_parent(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    # Only the thread that uses a descriptor closes it: otherwise its number may be another file.
    server_in, server_out = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    process.stdin.close()
    process.stdout.close()
    from_host, to_host = _take_over(stdin, os.O_RDONLY), _take_over(stdout, os.O_WRONLY)
    forth = _Pump(from_host, server_in, "client", watcher)
    back = _Pump(server_out, to_host, "server", watcher)
    with _forward_signals(process) as awaited:
        if launched is not None:
            launched()
        forth.start()
        back.start()
        code = awaited()
        back.join(_DRAINING)
    return code


def _die_with_parent() -> Callable[[], object] | None:
    """Return a function for the new process, so that it is killed with us; None if unsupported.

    A host may kill this process, which would leave the server running.
    """
    # The kernel counts the launching thread as the parent.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    import ctypes

    return partial(ctypes.CDLL(None).prctl, _PR_SET_PDEATHSIG, int(signal.SIGKILL))


class _Pump(threading.Thread):
    """Passes the bytes of a sender on until either side ends, and then closes both.

    The watcher gets copies of the lines. One that waits for the host may outlive the relay, so both
    descriptors are its own.
    """

    def __init__(self, source: int, sink: int, sender: Party, watcher: Watcher) -> None:
        super().__init__(name="accord-watch", daemon=True)
        self._source = source
        self._sink = sink
        self._sender: Party = sender
        self._watcher = watcher
        self._lines = LineReader(LINE_LIMIT)

    def run(self) -> None:
        while chunk := self._read():
            # Copied before it is passed on, so that its answer is not copied first.
            self._copy(self._lines.feed(chunk))
            if not self._write(memoryview(chunk)):
                break
        rest = self._lines.end()
        self._copy([] if rest is None else [rest])
        # A writer gets an error from now on, a reader the end of the stream.
        os.close(self._source)
        os.close(self._sink)

    def _copy(self, lines: Iterable[bytes | LineTooLong]) -> None:
        t = self._watcher.now()
        for line in lines:
            if isinstance(line, LineTooLong):
                self._watcher.drop()
            else:
                self._watcher.take(Copy(self._sender, line, t))

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
    """Wait for a pipe that its owner made non-blocking; other processes share that setting."""
    poll = select.poll()
    poll.register(file, event)
    poll.poll()


def _take_over(file: int, mode: int) -> int:
    """Return a descriptor of our own for a pipe; the old number leads nowhere from now on.

    It stays taken, because other code may still use it as a stream. Whose it is may close it.
    """
    nothing = os.open(os.devnull, mode)
    try:
        own = os.dup(file)
    except OSError:  # it was closed when the process began
        return nothing
    os.dup2(nothing, file)
    os.close(nothing)
    return own


@contextmanager
def _forward_signals(process: "subprocess.Popen[bytes]") -> Iterator[Callable[[], int]]:
    """Forward signals to the server; yields a function that waits for its exit."""

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
    """Block signals so that they can be waited for; threads that start meanwhile inherit that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield numbers
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for_exit(
    process: "subprocess.Popen[bytes]", held: set[int], pass_on: Callable[[int], None]
) -> int:
    """Wait for the server's exit, and forward signals that only this process received."""
    while (code := process.poll()) is None:
        told = signal.sigtimedwait(held, _LOOK)
        # A terminal signals the whole group: the server has received it already.
        if told and told.si_signo != signal.SIGCHLD and told.si_code != _FROM_KERNEL:
            pass_on(told.si_signo)
    return code
