"""Launched processes: start one, feed it, read it, and end it with everything it started.

A child leads a process group of its own, so that one signal reaches whatever it starts. Its output
is always drained, and the first and last lines of its stderr are kept for error messages. No child
watcher of asyncio is involved, so that any loop in any thread will do.
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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from accord.errors import ConnectFailed
from accord.stdio.error_lines import FirstAndLastLines
from accord.stdio.lines import LineReader, LineTooLong
from accord.stdio.pipes import HIGH_WATER, OnChunk, Pipes, attach

log = logging.getLogger("accord.client")

StderrSink: TypeAlias = Literal["keep", "forward"] | Callable[[str], object]
"""Lines of stderr are kept, and forwarded to our own stderr or passed to a function."""

_KEPT_LINES: Final = 40
_KEPT_LINE_LENGTH: Final = 1_000
# How long a child that closed a pipe may take to exit, so that its exit code can be reported.
_EXIT_EXPECTED: Final = 0.5
# How long the rest of the output may take after the exit; a surviving grandchild may hold the pipe.
_REST_EXPECTED: Final = 0.2
# A process that outlives SIGKILL by this much is stuck in the kernel.
_KILL_GRACE: Final = 5.0
# The same for `abort`, which blocks its thread.
_ABORT_GRACE: Final = 1.0

TERMINATE: Final = signal.SIGTERM
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)


def spawn(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: int | None = subprocess.PIPE,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = subprocess.PIPE,
    own_group: bool = True,
    before_exec: Callable[[], object] | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a process; needs no event loop.

    Args:
        command: program and arguments.
        env: all variables that it sees; None passes on our own.
        cwd: the folder it runs in.
        stdin: as for `subprocess.Popen`.
        stdout: likewise.
        stderr: likewise.
        own_group: whether it leads a process group of its own.
        before_exec: called in the new process, just before the program starts.

    Raises:
        ConnectFailed: the command is empty or cannot be started.
    """
    names = [os.fspath(part) for part in command]
    if not names:
        raise ConnectFailed("the command is empty", phase="starting")
    program = names[0]
    flags = 0
    if sys.platform == "win32":
        path = (os.environ if env is None else env).get("PATH")
        program = shutil.which(program, path=path) or program
        flags = subprocess.CREATE_NEW_PROCESS_GROUP if own_group else 0
    try:
        return subprocess.Popen(  # noqa: S603  # running the caller's command is the purpose
            [program, *names[1:]],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            env=env,
            cwd=cwd,
            start_new_session=own_group and os.name == "posix",
            creationflags=flags,
            preexec_fn=before_exec,  # noqa: PLW1509  # callers pass functions that take no lock
        )
    except (OSError, ValueError) as error:
        raise ConnectFailed(
            f"{shlex.join(names)[:120]}: could not be started: {_cause(error)}"[:300],
            command=names,
            phase="starting",
        ) from None


def _cause(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename!r} was not found"
    if isinstance(error, PermissionError):
        return f"{error.filename!r} may not be executed"
    return getattr(error, "strerror", None) or str(error)


def describe_exit(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


# -- process groups
#
# Children are named by number: the methods of Popen first look whether the process has ended, and
# so take the exit status away from a thread that waits for it.


def signal_group(leader: int, number: int) -> None:
    """Send a signal to a child that leads a process group, and to everything else in the group."""
    if sys.platform == "win32":
        # There are no groups of this kind; the tree is ended by its root.
        command = ["taskkill", "/T", "/F", "/PID", str(leader)]
        subprocess.run(command, capture_output=True, timeout=5, check=False)  # noqa: S603
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def group_is_alive(group: int) -> bool:
    """Return whether a process of this group still runs."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return not _are_all_zombies(group)


def _are_all_zombies(group: int) -> bool:
    """Look closer where the system allows: in containers dead orphans may stay unreaped."""
    found = False
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may contain anything, so the fields count from its end.
            state, _, of_group = stat.read_bytes().rpartition(b")")[2].split()[:3]
            if int(of_group) == group:
                found = True
                if state not in (b"Z", b"X"):
                    return False
    return found


# -- standard error


class StderrLines:
    """Cuts stderr into lines, keeps the first and the last ones and passes each on."""

    def __init__(self, sink: StderrSink = "keep") -> None:
        self._kept = FirstAndLastLines(_KEPT_LINES)
        self._sink = sink
        self._reader = LineReader(_KEPT_LINE_LENGTH * 64)

    def feed(self, chunk: bytes) -> None:
        for line in self._reader.feed(chunk):
            self._take(b"[a very long line]" if isinstance(line, LineTooLong) else line)

    def end(self) -> None:
        """Take a last line that has no line end."""
        rest = self._reader.end()
        if rest is not None:
            self._take(rest)

    def _take(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        self._kept.add(line[:_KEPT_LINE_LENGTH])
        try:
            if callable(self._sink):
                self._sink(line)
            elif self._sink == "forward" and sys.stderr is not None:
                sys.stderr.write(f"{line}\n")
        except Exception:
            # The listener may be gone (a closed window, a notebook); the child goes on.
            log.debug("a line of stderr could not be passed on", exc_info=True)

    @property
    def lines(self) -> tuple[str, ...]:
        """The first and last lines, each cut to a length that fits an error message."""
        return tuple(self._kept)

    def summarize(self, length: int) -> str:
        """Return the end of it in one line: errors end with what matters."""
        text = " | ".join(line.strip() for line in self.lines if line.strip())
        return text if len(text) <= length else f"...{text[3 - length :]}"


# -- a child on an event loop


class Child:
    """A launched process and its pipes, driven by the event loop it was started on.

    Args:
        command: program and arguments.
        env: all variables that it sees; None passes on our own.
        cwd: the folder it runs in.
        on_output: takes bytes of its stdout as they are read; None discards them.
        on_end: called once, with the reason in words ("ended with exit code 3"), when it has exited
            and its output is read, or when it has closed a pipe and does not exit soon. Not called
            for an end that `stop` or `abort` brought about.
        stderr: what happens to its lines on stderr besides being kept.
        has_input: whether its stdin is a pipe; otherwise it is empty.
        exit_expected: seconds that it may take to exit after it has closed a pipe.

    Attributes:
        pipes: set by `start`; None before and after.
        stderr: the first and last lines that it wrote there.
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_output: OnChunk | None = None,
        on_end: Callable[[str], None] | None = None,
        stderr: StderrSink = "keep",
        has_input: bool = True,
        exit_expected: float = _EXIT_EXPECTED,
    ) -> None:
        self.command = tuple(os.fspath(part) for part in command)
        self.pipes: Pipes | None = None
        self.stderr = StderrLines(stderr)
        self._spawn = partial(
            spawn,
            self.command,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if on_output is None else subprocess.PIPE,
        )
        self._on_output = on_output
        self._on_end = on_end
        self._exit_expected = exit_expected
        self._popen: subprocess.Popen[bytes] | None = None
        self._closed = "output"
        self._open_outputs = 0
        self._loop: asyncio.AbstractEventLoop
        self._exited: asyncio.Future[None]
        self._read: asyncio.Future[None]
        self._watched: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lock = threading.Lock()
        self._aborted = False

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""
        return None if self._popen is None else self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or a negative signal number; None while it runs."""
        return None if self._popen is None else self._popen.returncode

    @property
    def state(self) -> str:
        """How it ended, or which pipe it closed, in words."""
        code = self.exit_code
        return f"closed its {self._closed}" if code is None else describe_exit(code)

    # -- starting

    def start(self) -> None:
        """Launch the process; to be called on the loop.

        Raises:
            ConnectFailed: the command is empty or cannot be started.
        """
        self._loop = asyncio.get_running_loop()
        self._exited = self._loop.create_future()
        self._read = self._loop.create_future()
        self._popen = popen = self._spawn()
        try:
            outputs: dict[IO[bytes], OnChunk] = {}
            if popen.stdout is not None and self._on_output is not None:
                outputs[popen.stdout] = self._on_output
            if popen.stderr is not None:
                outputs[popen.stderr] = self.stderr.feed
            self._open_outputs = len(outputs)
            self.pipes = attach(popen.stdin, outputs, self._on_output_end, self._on_broken_input)
            self._watch(popen)
        except BaseException:
            self.abort()
            raise

    # -- noticing the end

    def _watch(self, popen: "subprocess.Popen[bytes]") -> None:
        try:
            watched = os.pidfd_open(popen.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, args=(popen,), daemon=True).start()
            return
        self._watched = watched
        self._loop.add_reader(watched, self._on_exit)

    def _wait_in_thread(self, popen: "subprocess.Popen[bytes]") -> None:
        popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._on_exit)

    def _unwatch(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(watched)
            os.close(watched)

    def _on_exit(self) -> None:
        assert self._popen is not None
        self._popen.poll()
        self._unwatch()
        if self.pipes is None:
            return
        _resolve(self._exited)
        self.pipes.read_rest()
        self._end_after(_REST_EXPECTED if self._open_outputs else 0)

    def _on_output_end(self, output: IO[bytes]) -> None:
        assert self._popen is not None
        self._open_outputs -= 1
        if output is self._popen.stderr:
            self.stderr.end()
        elif not self._exited.done():
            self._end_after(self._exit_expected)
        if self._exited.done() and not self._open_outputs:
            self._end_after(0)

    def _on_broken_input(self) -> None:
        if not self._exited.done():
            self._closed = "input"
            self._end_after(self._exit_expected)

    def _end_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._end)

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self.state)
        if self._exited.done():
            _resolve(self._read)

    async def wait(self, seconds: float | None = None) -> int | None:
        """Wait until it has exited and its output is read; None when that takes longer."""
        await asyncio.wait([self._exited], timeout=seconds)
        if self._exited.done():
            await asyncio.wait([self._read])
        return self.exit_code

    # -- writing

    @property
    def has_open_input(self) -> bool:
        """Whether bytes can still be written to it."""
        return self.pipes is not None and self.pipes.is_open

    def write(self, data: bytes) -> None:
        """Queue bytes for its stdin; does nothing when that is closed."""
        if self.pipes is not None:
            self.pipes.write(data)

    async def writable(self, most: int = HIGH_WATER) -> None:
        """Wait until at most this many bytes wait for it, or its stdin is closed."""
        if self.pipes is not None:
            await self.pipes.writable(most)

    def end_input(self) -> None:
        """Close its stdin, after what is queued and fits."""
        if self.pipes is not None:
            self.pipes.end_input()

    def pause_output(self) -> None:
        """Read nothing from its stdout for now."""
        if self.pipes is not None and self._popen is not None and self._popen.stdout is not None:
            self.pipes.pause(self._popen.stdout)

    def resume_output(self) -> None:
        """Read from its stdout again."""
        if self.pipes is not None and self._popen is not None and self._popen.stdout is not None:
            self.pipes.resume(self._popen.stdout)

    # -- ending

    def signal(self, number: int) -> None:
        """Send a signal to the process alone, not to its group."""
        if self._popen is not None and self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._popen.pid, number)

    async def stop(self, *, exit_grace: float = 0.0, terminate_grace: float = 2.0) -> None:
        """Close the input, wait, then terminate, then kill; nothing of its group is left.

        Args:
            exit_grace: seconds to exit by itself after its input was closed.
            terminate_grace: seconds from SIGTERM to SIGKILL.
        """
        self._on_end = None
        if self._popen is None or self.pipes is None:
            return
        try:
            self.pipes.end_input()  # lifecycle.shutdown.stdio-close-stdin
            if exit_grace:
                await asyncio.wait([self._exited], timeout=exit_grace)
            for number, grace in ((TERMINATE, terminate_grace), (KILL, _KILL_GRACE)):
                if self._is_alive():
                    signal_group(self._popen.pid, number)
                    await self._wait_for_group(grace)
        finally:
            # Also when stopping is cancelled: then there is no more time to be polite.
            self.abort()

    async def _wait_for_group(self, seconds: float) -> None:
        deadline = self._loop.time() + seconds
        await asyncio.wait([self._exited], timeout=seconds)
        pause = 0.005
        while self._is_alive() and self._loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)

    def _is_alive(self) -> bool:
        assert self._popen is not None
        return self._popen.poll() is None or group_is_alive(self._popen.pid)

    def abort(self) -> None:
        """Kill what is left and let go of everything, from any thread; may be repeated."""
        self._on_end = None
        with self._lock:
            popen = self._popen
            if popen is None or self._aborted:
                return
            self._aborted = True
            if self._is_alive():
                signal_group(popen.pid, KILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(_ABORT_GRACE)
        if self._loop.is_closed() or _is_running_here(self._loop):
            self._release(popen)
        else:
            with contextlib.suppress(RuntimeError):  # closed in between
                self._loop.call_soon_threadsafe(self._release, popen)

    def _release(self, popen: "subprocess.Popen[bytes]") -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        pipes, self.pipes = self.pipes, None
        if pipes is not None:
            pipes.release()
        for pipe in (popen.stdin, popen.stdout, popen.stderr):
            if pipe is not None:
                pipe.close()
        if not self._loop.is_closed():
            _resolve(self._exited)
            _resolve(self._read)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
