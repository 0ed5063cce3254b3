"""A server as a child process: launched, spoken to line by line, and stopped with all its children.

The child gets a session of its own, so that one signal reaches whatever it starts. Its stderr is
always drained, and the last lines of it are kept for error messages.
"""

import asyncio
import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from accord.bindings.lines import LINE_LIMIT, LineReader, LineTooLong
from accord.errors import ConnectFailed
from accord.protocol.exchange import Exchange
from accord.transports.pipes import ANSWERS_MOST, HIGH_WATER, Pipes, attach
from accord.transports.process_group import group_is_alive, signal_group
from accord.transports.wire import Lost, Receive, Watcher

__all__ = ["INHERITED", "Launch", "Process", "StderrSink", "environment"]

log = logging.getLogger("accord.client")

StderrSink: TypeAlias = Literal["keep", "forward"] | Callable[[str], Any]

INHERITED: Final = frozenset(
    {
        "APPDATA",
        "COMSPEC",
        "HOME",
        "HOMEDRIVE",
        "HOMEPATH",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LOCALAPPDATA",
        "LOGNAME",
        "NUMBER_OF_PROCESSORS",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
        "USERNAME",
        "USERPROFILE",
        "VIRTUAL_ENV",
        "WINDIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
    }
)
"""The variables a server inherits: where things are and how to talk, no keys and no tokens."""

_KEPT_LINES: Final = 40
_WORDS: Final = 200
_KEPT_LINE_LENGTH: Final = 1_000
# How long a child that closed a pipe may take to exit, so that the error can tell its exit code.
_EXIT_EXPECTED: Final = 0.5
# How long the rest of the output may take after the exit; a surviving child may hold the pipe.
_REST_EXPECTED: Final = 0.2
# What cannot be killed in this time is stuck in the kernel.
_KILL_EXPECTED: Final = 1.0

_TERM: Final = signal.SIGTERM
_KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a server is started and stopped.

    Args:
        command: program and arguments.
        env: variables in addition to the inherited ones (`INHERITED`), which they override.
        cwd: the folder it runs in.
        stderr: what happens to its lines on stderr: kept for error messages alone, forwarded to
            our own stderr as well, or handed to a function.
        exit_grace: seconds to exit by itself after its input has ended.
        terminate_grace: seconds from SIGTERM to SIGKILL.
        line_limit: the longest message in bytes.
    """

    command: Sequence[str]
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    stderr: StderrSink = "keep"
    exit_grace: float = 2.0
    terminate_grace: float = 2.0
    line_limit: int = LINE_LIMIT


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a server sees: the harmless part of our own variables, and the extra ones."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # A value that starts so is a function exported by bash, which a shell would run.
        if name.upper() in INHERITED and not value.startswith("()")
    }
    return {**kept, **(extra or {})}


@dataclass
class _Stderr:
    """Drains stderr by lines; keeps the last ones and passes each on."""

    sink: StderrSink
    reader: LineReader = field(default_factory=lambda: LineReader(_KEPT_LINE_LENGTH * 64))
    kept: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))

    def feed(self, chunk: bytes) -> None:
        if chunk:
            for line in self.reader.feed(chunk):
                self._take(b"[a very long line]" if isinstance(line, LineTooLong) else line)
        elif (rest := self.reader.end()) is not None:
            self._take(rest)

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        self.kept.append(line[:_KEPT_LINE_LENGTH])
        try:
            if callable(self.sink):
                self.sink(line)
            elif self.sink == "forward" and sys.stderr is not None:
                sys.stderr.write(f"{line}\n")
        except Exception:
            # Whoever listens may be gone (a closed window, a notebook); the server goes on.
            log.debug("a line of stderr could not be passed on", exc_info=True)


class Process:
    """The wire to a server that runs as a child process."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.command = tuple(os.fspath(part) for part in launch.command)
        self.has_spoken = False
        self._stderr = _Stderr(launch.stderr)
        self._lines = LineReader(launch.line_limit)
        self._child: subprocess.Popen[bytes] | None = None
        self._pipes: Pipes | None = None
        self._loop: asyncio.AbstractEventLoop
        self._receive: Receive
        self._lost: Lost | None = None
        self._watcher: Watcher | None = None
        # Bytes ever queued; for each answer among them, where it ends and how long it is.
        self._queued = 0
        self._answers: deque[tuple[int, int]] = deque()
        self._unread = 0
        self._resuming: asyncio.Task[None] | None = None
        self._open_outputs = 2
        self._exited: asyncio.Future[None]
        self._watched: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._aborted = False

    def watch(self, watcher: Watcher) -> None:
        """Serve this party."""
        self._watcher = watcher

    # -- what errors tell

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._child is None else self._child.returncode

    @property
    def pid(self) -> int | None:
        """Its process id, once it was started."""
        return None if self._child is None else self._child.pid

    @property
    def stderr(self) -> str:
        """The last lines it wrote to stderr."""
        return "\n".join(self._stderr.kept)

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        code = self.exit_code
        if code is None:
            return "closed its output"
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"

    def last_words(self, length: int) -> str:
        """The end of what it wrote to stderr in one line: errors end with what matters."""
        said = " | ".join(line.strip() for line in self._stderr.kept if line.strip())
        return said if len(said) <= length else f"...{said[3 - length :]}"

    # -- starting

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Start the server; raises ConnectFailed where that is impossible."""
        self._loop = asyncio.get_running_loop()
        self._receive, self._lost = receive, lost
        self._exited = self._loop.create_future()
        self._child = child = self._spawn()
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stderr is not None
            outputs = {child.stdout: self._on_stdout, child.stderr: self._on_stderr}
            self._pipes = attach(child.stdin, outputs, self._on_broken_input)
            self._watch(child)
        except BaseException:
            self.abort()
            raise

    def _spawn(self) -> subprocess.Popen[bytes]:
        command, variables = list(self.command), environment(self.launch.env)
        if not command:
            raise ConnectFailed("the command is empty", phase="starting")
        own_group: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            own_group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
            command[0] = shutil.which(command[0], path=variables.get("PATH")) or command[0]
        try:
            return subprocess.Popen(  # noqa: S603  # running what the caller names is the purpose
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=variables,
                cwd=self.launch.cwd,
                **own_group,
            )
        except (OSError, ValueError) as error:
            raise ConnectFailed(
                f"{shlex.join(self.command)[:120]}: could not be started: {_cause(error)}"[:300],
                command=self.command,
                phase="starting",
            ) from None

    # -- noticing the end

    def _watch(self, child: subprocess.Popen[bytes]) -> None:
        try:
            watched = os.pidfd_open(child.pid)
        except (AttributeError, OSError):
            waiting = threading.Thread(
                target=self._wait_in_thread, args=(child,), daemon=True, name="accord-wait"
            )
            waiting.start()
            return
        self._watched = watched
        self._loop.add_reader(watched, self._on_exit)

    def _wait_in_thread(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_exit)

    def _unwatch(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(watched)
            os.close(watched)

    def _on_exit(self) -> None:
        assert self._child is not None
        assert self._pipes is not None
        self._child.poll()
        self._unwatch()
        if not self._exited.done():
            self._exited.set_result(None)
        self._pipes.read_rest()
        self._lose_after(0 if self._open_outputs == 0 else _REST_EXPECTED)

    def _on_broken_input(self) -> None:
        self._lose_after(_EXIT_EXPECTED)

    def _lose_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._lose)

    def _lose(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            said = self.last_words(_WORDS)
            lost(f"the server {self.ending}" + (f"; it said: {said}" if said else ""))

    # -- reading

    def _on_stdout(self, chunk: bytes) -> None:
        if not chunk:
            return self._on_output_end()
        self.has_spoken = True
        receive = self._receive
        for line in self._lines.feed(chunk):
            if line.__class__ is bytes:
                receive(line)
            else:
                self._drop(line)  # type: ignore[arg-type]  # the only other class
        return None

    def _drop(self, line: LineTooLong) -> None:
        log.warning("%s: %s", self.command[0], line)
        if self._watcher is not None:
            self._watcher.dropped(line)

    def _on_stderr(self, chunk: bytes) -> None:
        self._stderr.feed(chunk)
        if not chunk:
            self._open_outputs -= 1

    def _on_output_end(self) -> None:
        self._open_outputs -= 1
        last = self._lines.end()
        if last is not None:
            self._receive(last)
        if not self._exited.done():
            self._lose_after(_EXIT_EXPECTED)

    # -- writing

    @property
    def is_congested(self) -> bool:
        """Whether the server is slow to read."""
        return self._pipes is not None and self._pipes.unsent > HIGH_WATER

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        """Send one message; only answers belong to an exchange."""
        pipes = self._pipes
        if pipes is None:
            return
        pipes.write(data + b"\n")
        self._queued += len(data) + 1
        if exchange is not None:
            self._count_answer(pipes, len(data) + 1)

    def _count_answer(self, pipes: Pipes, size: int) -> None:
        """Stop reading a server that does not read the answers to what it asks.

        Our own requests do not count: callers wait before they send more, and a server that is
        slow to read them may well be waiting until its answers are read.
        """
        self._answers.append((self._queued, size))
        self._unread += size
        sent = self._queued - pipes.unsent
        while self._answers and self._answers[0][0] <= sent:
            self._unread -= self._answers.popleft()[1]
        if self._unread > ANSWERS_MOST and self._resuming is None:
            log.warning("%s does not read the answers to what it asks", self.command[0])
            self._resuming = self._loop.create_task(self._pause_until_read(pipes))

    async def _pause_until_read(self, pipes: Pipes) -> None:
        assert self._child is not None
        assert self._child.stdout is not None
        pipes.pause(self._child.stdout)
        await pipes.writable()
        pipes.resume(self._child.stdout)
        self._resuming = None

    async def writable(self) -> None:
        """Wait until the server has read most of what was sent."""
        if self._pipes is not None:
            await self._pipes.writable()

    # -- ending

    async def close(self) -> None:
        """End the input, wait, then terminate, then kill; all children are gone afterwards."""
        self._lost = None
        child, pipes = self._child, self._pipes
        if child is None or pipes is None:
            return
        launch = self.launch
        try:
            pipes.end_input()  # lifecycle.shutdown.stdio-close-stdin
            await self._exit_within(launch.exit_grace)
            for number, grace in ((_TERM, launch.terminate_grace), (_KILL, _KILL_EXPECTED)):
                if self._is_alive():
                    signal_group(child.pid, number)
                    await self._gone_within(grace)
        finally:
            # Also where closing is cancelled: then there is no more time to be polite.
            self.abort()

    async def _exit_within(self, seconds: float) -> None:
        await asyncio.wait([self._exited], timeout=seconds)

    async def _gone_within(self, seconds: float) -> None:
        deadline = self._loop.time() + seconds
        await self._exit_within(seconds)
        pause = 0.005
        while self._is_alive() and self._loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)

    def _is_alive(self) -> bool:
        assert self._child is not None
        return self._child.poll() is None or group_is_alive(self._child.pid)

    def abort(self) -> None:
        """Kill what is left and let go of everything, from any thread."""
        self._lost = None
        with self._lock:
            child = self._child
            if child is None or self._aborted:
                return
            self._aborted = True
            if self._is_alive():
                signal_group(child.pid, _KILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_KILL_EXPECTED)
        if self._loop.is_closed() or _runs_here(self._loop):
            self._release(child)
        else:
            with contextlib.suppress(RuntimeError):  # closed in between
                self._loop.call_soon_threadsafe(self._release, child)

    def _release(self, child: subprocess.Popen[bytes]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._resuming is not None and not self._loop.is_closed():
            self._resuming.cancel()
        self._unwatch()
        pipes, self._pipes = self._pipes, None
        if pipes is not None:
            pipes.release()
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _cause(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename!r} was not found"
    if isinstance(error, PermissionError):
        return f"{error.filename!r} may not be executed"
    return getattr(error, "strerror", None) or str(error)
