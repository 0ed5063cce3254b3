"""Between a host and a server that it launched: bytes pass as they are, copies are judged."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, Final

from accord.bindings.lines import LineReader, LineTooLong
from accord.check.watching.watcher import Copy, Watcher
from accord.errors import ConnectFailed
from accord.trace import LINE_LIMIT, Party

__all__ = ["watch_command"]

_CHUNK: Final = 64 * 1024
# What is still on its way when the server has ended.
_DRAINING: Final = 5.0


def watch_command(
    command: Sequence[str],
    watcher: Watcher,
    *,
    env: Mapping[str, str] | None = None,
    stdin: int = 0,
    stdout: int = 1,
) -> int:
    """Launch a server and stand between it and whoever launched us.

    Returns the server's exit code, so that the host sees what it would have seen.

    Raises:
        ConnectFailed: there is no such command.
    """
    try:
        process = subprocess.Popen(  # noqa: S603  # to launch this command is the purpose
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            bufsize=0,
        )
    except OSError as error:
        why = error.strerror or str(error)
        raise ConnectFailed(f"{command[0]} cannot be launched: {why}", command=command) from None
    assert process.stdin is not None
    assert process.stdout is not None
    server_in, server_out = process.stdin, process.stdout

    def end_input() -> None:
        with contextlib.suppress(OSError):
            server_in.close()

    to_server = _Pump(stdin, server_in.fileno(), _Ear("client", watcher), end_input)
    # Where nobody reads any more, the server is told by the end of its input, as without us.
    to_host = _Pump(server_out.fileno(), stdout, _Ear("server", watcher), end_input)
    with _passed_on(process):
        to_server.start()
        to_host.start()
        code = process.wait()
        to_host.join(_DRAINING)
    for pipe in (server_in, server_out):
        _close(pipe)
    # As a shell tells it: 128 and the number of the signal.
    return 128 - code if code < 0 else code


class _Ear:
    """Cuts what passes into lines and hands copies of them over."""

    def __init__(self, sender: Party, watcher: Watcher) -> None:
        self._sender: Party = sender
        self._watcher = watcher
        self._lines = LineReader(LINE_LIMIT)

    def hear(self, chunk: bytes) -> None:
        t = self._watcher.now()
        for line in self._lines.feed(chunk):
            if isinstance(line, LineTooLong):
                self._watcher.dropped += 1
            else:
                self._watcher.take(Copy(self._sender, line, t))

    def end(self) -> None:
        rest = self._lines.end()
        if rest is not None:
            self._watcher.take(Copy(self._sender, rest, self._watcher.now()))


class _Pump(threading.Thread):
    """Passes bytes on until either side ends."""

    def __init__(self, source: int, sink: int, ear: _Ear, ended: Callable[[], None]) -> None:
        super().__init__(name="accord-watch", daemon=True)
        self._source = source
        self._sink = sink
        self._ear = ear
        self._ended = ended

    def run(self) -> None:
        try:
            while chunk := os.read(self._source, _CHUNK):
                # Heard before it is passed on: its answer must not be heard first.
                self._ear.hear(chunk)
                rest = memoryview(chunk)
                while rest:
                    rest = rest[os.write(self._sink, rest) :]
        except OSError:
            pass
        self._ear.end()
        self._ended()


@contextmanager
def _passed_on(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Pass signals on to the server: how they end it is its own affair."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        pipe.close()
