"""Several worker processes that serve on the same sockets, and their parent, which serves nothing.

The parent holds the sockets. So a connection that waits in a queue survives the end of a worker:
another one accepts it. Workers end with the parent, however that ends: they hold one end of a pipe.

A signal means the same as for a single process: SIGTERM and SIGINT let calls finish, a second one
ends everything at once. SIGHUP replaces the workers one by one.
"""

import atexit
import logging
import os
import secrets
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from socket import socket
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias
from urllib.parse import quote

import msgspec

from accord.errors import ConfigurationError
from accord.http.server.listener import LoadBoard, SharedLoad
from accord.http.server.sockets import adopt
from accord.runtime.shutdown import exit_at_once, is_main_thread
from accord.server.serving import (
    Announcement,
    announce,
    build_app,
    http_server,
    log_in_background,
    run_http,
)

if TYPE_CHECKING:
    from accord.http.settings import HttpSettings
    from accord.server.core import ServerCore
    from accord.server.serving import ListenAddress

log = logging.getLogger("accord.http")

Work: TypeAlias = "Callable[[WorkerEnd], int]"
"""Serves on sockets until a signal arrives; returns the exit code."""
SIGNAL_AT_ONCE: Final = getattr(signal, "SIGQUIT", signal.SIGTERM)
"""Ends a worker at once. SIGTERM and SIGINT let calls finish, and may be repeated: a terminal and a
service manager send them to all processes, and the parent sends one too."""
# What a worker may take beyond its grace period, before it is killed.
_END_SLACK: Final = 4.0
# What workers get to exit at once.
_AT_ONCE: Final = 2.0
# A worker that ends sooner than this after its start counts as failing.
_STEADY: Final = 10.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
# After so many seconds, a worker that does not become ready is reported.
_SLOW_START: Final = 30.0
_LONGEST_WAIT: Final = 60.0
_CPU_QUOTA: Final = "/sys/fs/cgroup/cpu.max"


class WorkerEnd:
    """What a worker shares with its parent, and with the other workers.

    Attributes:
        sockets: those that all workers serve on.
        load: how many connections each of them has.
    """

    def __init__(self, sockets: list[socket], load: SharedLoad, readiness: int) -> None:
        self.sockets = sockets
        self.load = load
        self._readiness = readiness

    def report_ready(self, said: Announcement) -> None:
        """Report that this worker serves; once."""
        with suppress(OSError):  # the parent is gone
            os.write(self._readiness, msgspec.json.encode(said) + b"\n")
        os.close(self._readiness)


class Inheritance(msgspec.Struct):
    """What a worker gets from its parent.

    Attributes:
        sockets: those that it serves on.
        load: how many connections it and the others have.
        readiness: the end of a pipe on which it reports that it is ready.
        lifeline: the end of a pipe whose other end is closed when the parent is gone.
        grace: seconds after which it ends then, whatever hangs.
        closed: descriptors that are the parent's own.
        signals: the handlers that the parent has replaced.
        mask: the signals that are blocked while it runs.
    """

    sockets: list[socket]
    load: Any
    readiness: int
    lifeline: int
    grace: float
    closed: list[int]
    signals: Mapping[int, Any]
    mask: Any = ()


def run_child(work: Work, given: Inheritance) -> NoReturn:
    """Run a worker in the process that was forked for it, and end the process.

    Nothing of what the parent would do on its way out happens here: its temporary files and its
    `atexit` functions are its own. Those that are registered in this process are called.
    """
    code = 1
    try:
        atexit._clear()
        for descriptor in given.closed:
            os.close(descriptor)
        # Without the owner of a Unix socket: its file belongs to the parent.
        sockets = [adopt(each.detach(), "the socket of the parent") for each in given.sockets]
        restore_signals(given.signals)
        signal.signal(SIGNAL_AT_ONCE, lambda *_: exit_at_once(0))
        signal.pthread_sigmask(signal.SIG_SETMASK, given.mask)
        _end_with_parent(given.lifeline, given.grace)
        code = work(WorkerEnd(sockets, given.load, given.readiness))
    except KeyboardInterrupt:
        code = 130
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        exit_at_once(code & 0xFF)


def restore_signals(before: Mapping[int, Any]) -> None:
    """Put handlers of signals back."""
    for number, earlier in before.items():
        # None stands for a handler that was not set in Python.
        signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


def _end_with_parent(lifeline: int, seconds: float) -> None:
    def wait() -> None:
        with suppress(OSError):
            os.read(lifeline, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(seconds)
        exit_at_once(1)

    threading.Thread(target=wait, name="accord-parent", daemon=True).start()


def usable_cores() -> int:
    """Return how many cores this process may use; in a container, what its limit allows."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    with suppress(OSError, ValueError), open(_CPU_QUOTA) as file:
        quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, -(-int(quota) // int(period)))
    return max(1, cores)


def count_workers(workers: int | Literal["auto"]) -> int:
    """Return how many processes shall serve.

    Raises:
        ValueError: it is not a number of workers.
        ConfigurationError: this system cannot run several.
    """
    if workers == "auto":
        count = usable_cores()
    elif type(workers) is not int or workers < 1:
        raise ValueError(f"workers is {workers!r}, expected 1 or more, or 'auto'")
    else:
        count = workers
    if count == 1:
        return 1
    if not hasattr(os, "fork"):
        if workers == "auto":
            return 1
        raise ConfigurationError(
            "workers: this system cannot fork a process; run several servers on ports of their "
            "own with one store, such as store='redis://...', behind a proxy"
        )
    if not is_main_thread():
        raise ConfigurationError(
            "workers: several processes need the main thread of the program, for its signals"
        )
    return count


class _WorkerProcess:
    """One worker, as its parent sees it.

    Attributes:
        pid: its process.
        number: of all that were started.
        generation: how often the workers had been replaced when it was started.
        place: on the board that says how many connections each of them has.
        started: when.
        readiness: the pipe on which it reports that it is ready; None after that.
        replaces: the one that ends once this one is ready.
        deadline: when it is killed; None unless it was asked to end.
        is_reported: whether it was reported that it does not become ready.
    """

    def __init__(self, pid: int, number: int, generation: int, place: int, readiness: int) -> None:
        self.pid = pid
        self.number = number
        self.generation = generation
        self.place = place
        self.started = time.monotonic()
        self.readiness: int | None = readiness
        self.received = b""
        self.is_ready = False
        self.is_reported = False
        self.replaces: _WorkerProcess | None = None
        self.deadline: float | None = None

    def __str__(self) -> str:
        return f"worker {self.number} (process {self.pid})"

    @property
    def is_ending(self) -> bool:
        """Whether it was asked to end."""
        return self.deadline is not None


class WorkerProcesses:
    """Starts workers, looks after them, and ends them.

    Args:
        work: what each worker does, in its own process; returns its exit code.
        sockets: those that all workers serve on.
        count: how many workers.
        grace: seconds that calls get to finish.
        announce: called in the parent when the first worker is ready, with what it reported.
    """

    def __init__(
        self,
        work: Work,
        sockets: list[socket],
        *,
        count: int,
        grace: float,
        announce: Callable[[Announcement], None],
    ) -> None:
        self._work = work
        self._sockets = sockets
        self._count = count
        self._grace = grace
        self._announce = announce
        self._workers: list[_WorkerProcess] = []
        # Those that end, and one that takes the place of another, come on top.
        self._board = LoadBoard(4 * count + 4)
        self._started = 0
        self._generation = 0
        self._failures = 0
        self._start_after = 0.0
        self._was_ready = False
        self._exit_code: int | None = None
        self._signals: list[int] = []
        self._before: dict[int, Any] = {}
        self._wake: tuple[int, int] = (-1, -1)
        self._lifeline: tuple[int, int] = (-1, -1)
        self._has_terminal = _has_terminal()

    def run(self) -> int:
        """Run workers until a signal arrives; return the exit code."""
        _warn_of_threads()
        self._wake, self._lifeline = os.pipe(), os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        try:
            with self._taken_signals():
                while self._keep_up():
                    self._wait()
                    self._take_signals()
                    self._read_readiness()
                    self._reap()
        finally:
            # An exception here is a fault of ours; the workers end with this process.
            for end in (*self._wake, *self._lifeline):
                os.close(end)
        return self._exit_code or 0

    # -- signals

    @contextmanager
    def _taken_signals(self) -> Iterator[None]:
        """Note signals, and wake the parent; an ignored SIGHUP stays ignored."""
        taken = [signal.SIGINT, signal.SIGTERM, signal.SIGCHLD]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            taken.append(signal.SIGHUP)
        self._before = {each: signal.signal(each, self._note_signal) for each in taken}
        try:
            yield
        finally:
            restore_signals(self._before)

    def _note_signal(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._signals.append(number)
        with suppress(OSError):  # the pipe is full, so it is awake
            os.write(self._wake[1], b"x")

    def _take_signals(self) -> None:
        signals, self._signals = self._signals, []
        for number in signals:
            if number == signal.SIGHUP and not self._has_lost_terminal():
                if self._exit_code is None and self._was_ready:
                    _report(logging.INFO, "the workers are replaced one by one")
                    self._generation += 1
            elif self._exit_code is None:
                self._stop(0)
            else:
                self._stop_at_once()

    def _has_lost_terminal(self) -> bool:
        """Whether SIGHUP came because the terminal was closed, which ends the programs on it."""
        return self._has_terminal and not _has_terminal()

    def _stop(self, code: int) -> None:
        self._exit_code = code
        if self._workers:
            what = "the workers end; calls get %g s to finish"
            _report(logging.INFO, what, self._grace)
        for worker in self._workers:
            self._end(worker)

    def _stop_at_once(self) -> None:
        for worker in self._workers:
            worker.deadline = time.monotonic() + _AT_ONCE
            _send(worker, SIGNAL_AT_ONCE)

    def _end(self, worker: _WorkerProcess) -> None:
        """Let a worker finish its calls, and end."""
        if not worker.is_ending:
            worker.deadline = time.monotonic() + self._grace + _END_SLACK
            _send(worker, signal.SIGTERM)

    # -- keeping up the number of workers

    def _keep_up(self) -> bool:
        """Start workers that are missing; return whether there is anything to wait for."""
        now = time.monotonic()
        self._look_for_late(now)
        if self._exit_code is not None:
            return bool(self._workers)
        # The first one alone: what keeps it from starting is reported once.
        count = self._count if self._was_ready else 1
        while self._count_lasting() < count and time.monotonic() >= self._start_after:
            if not self._start(None):
                return self._exit_code is None
        self._replace_next(now)
        return True

    def _look_for_late(self, now: float) -> None:
        """Kill workers that hang, and report those that do not become ready."""
        for worker in self._workers:
            if worker.deadline is not None and now >= worker.deadline:
                worker.deadline = now + _AT_ONCE
                _report(logging.WARNING, "%s does not end, and is killed", worker)
                _send(worker, signal.SIGKILL)
            is_slow = now - worker.started >= _SLOW_START
            if not worker.is_ready and is_slow and not worker.is_reported:
                worker.is_reported = True
                _report(logging.WARNING, "%s is not ready after %g s", worker, _SLOW_START)

    def _count_lasting(self) -> int:
        """Return how many workers there are, without those that end or take the place of others."""
        return sum(not each.is_ending and each.replaces is None for each in self._workers)

    def _replace_next(self, now: float) -> None:
        """Start the successor of an old worker, if all others are ready and none is ending."""
        is_busy = any(each.is_ending or not each.is_ready for each in self._workers)
        if is_busy or now < self._start_after:
            return
        old = next((each for each in self._workers if each.generation < self._generation), None)
        if old is not None:
            self._start(old)

    def _start(self, replaces: _WorkerProcess | None) -> bool:
        """Start a worker; return whether the system has let it."""
        reading, writing = os.pipe()
        others = [each.readiness for each in self._workers if each.readiness is not None]
        place = self._board.find_place({each.place for each in self._workers})
        given = Inheritance(
            sockets=self._sockets,
            load=SharedLoad(self._board, place),
            readiness=writing,
            lifeline=self._lifeline[0],
            grace=self._grace + _END_SLACK,
            closed=[*self._wake, self._lifeline[1], reading, *others],
            signals=self._before,
        )
        # A signal for the child must not run the handlers of the parent there.
        given.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*self._before, SIGNAL_AT_ONCE])
        try:
            pid = os.fork()
            if pid == 0:
                run_child(self._work, given)
        except OSError as error:  # there are too many processes, or too little memory
            os.close(reading)
            self._note_failed_fork(error)
            return False
        finally:
            os.close(writing)
            signal.pthread_sigmask(signal.SIG_SETMASK, given.mask)
        self._started += 1
        worker = _WorkerProcess(pid, self._started, self._generation, place, reading)
        worker.replaces = replaces
        self._workers.append(worker)
        return True

    def _note_failed_fork(self, error: OSError) -> None:
        _report(logging.ERROR, "a worker cannot be started: %s", error.strerror or error)
        self._start_after = time.monotonic() + _LONGEST_PAUSE / 3
        if not self._was_ready:
            self._stop(1)

    # -- what happens to workers

    def _wait(self) -> None:
        """Wait for a signal, a worker that is ready or has ended, or the next thing to do."""
        poll = select.poll()
        poll.register(self._wake[0], select.POLLIN)
        for worker in self._workers:
            if worker.readiness is not None:
                poll.register(worker.readiness, select.POLLIN)
        now = time.monotonic()
        ends = [now + _LONGEST_WAIT]
        ends += [each.deadline for each in self._workers if each.deadline is not None]
        ends += [
            each.started + _SLOW_START
            for each in self._workers
            if not each.is_ready and not each.is_reported
        ]
        if self._exit_code is None and self._start_after > now:
            ends.append(self._start_after)
        poll.poll(max(0.0, min(ends) - now) * 1000 + 1)
        with suppress(BlockingIOError):
            while os.read(self._wake[0], 512):
                pass

    def _read_readiness(self) -> None:
        for worker in list(self._workers):
            if worker.readiness is None or not _has_input(worker.readiness):
                continue
            chunk = os.read(worker.readiness, 65536)
            worker.received += chunk
            if chunk and not worker.received.endswith(b"\n"):
                continue
            os.close(worker.readiness)
            worker.readiness = None
            if worker.received:
                self._note_ready(worker, msgspec.json.decode(worker.received, type=Announcement))

    def _note_ready(self, worker: _WorkerProcess, said: Announcement) -> None:
        worker.is_ready = True
        _report(logging.INFO, "%s is ready", worker)
        if not self._was_ready:
            self._was_ready = True
            self._announce(said)
        old, worker.replaces = worker.replaces, None
        if old in self._workers:
            self._end(old)

    def _reap(self) -> None:
        for worker in list(self._workers):
            try:
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
            except ChildProcessError:  # code of the user has waited for all children
                pid, status = worker.pid, 0
            if pid:
                self._workers.remove(worker)
                self._board.clear(worker.place)
                if worker.readiness is not None:
                    os.close(worker.readiness)
                self._note_end(worker, os.waitstatus_to_exitcode(status))

    def _note_end(self, worker: _WorkerProcess, code: int) -> None:
        how = _describe_end(code)
        if worker.is_ending:
            _report(logging.INFO, "%s ended with %s", worker, how)
            return
        if not self._was_ready:
            _report(logging.ERROR, "no worker has become ready: %s ended with %s", worker, how)
            self._stop(code if code > 0 else 1)
            return
        for each in self._workers:
            if each.replaces is worker:  # it takes its place already
                each.replaces = None
        pause = self._choose_pause(worker, code)
        if worker.replaces is not None:
            _report(
                logging.ERROR,
                "%s did not become ready and ended with %s; the workers that were to be replaced "
                "go on",
                worker,
                how,
            )
            for each in self._workers:
                each.generation = self._generation
            return
        level = logging.INFO if code == 0 else logging.WARNING
        when = f" in {pause:g} s" if pause else ""
        _report(level, "%s ended with %s; another one is started%s", worker, how, when)

    def _choose_pause(self, worker: _WorkerProcess, code: int) -> float:
        """Return the seconds until the next start: more and more for workers that end at once."""
        now = time.monotonic()
        is_failing = code != 0 and now - worker.started < _STEADY
        self._failures = self._failures + 1 if is_failing else 0
        pause = min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE) if is_failing else 0.0
        self._start_after = now + pause
        return pause


def _report(level: int, text: str, *parts: object) -> None:
    """Log something, unless stderr is not read: the parent must never wait for that."""
    with suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(sys.stderr.fileno(), select.POLLOUT)
        if not poll.poll(0):
            return
    log.log(level, text, *parts)


def _send(worker: _WorkerProcess, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(worker.pid, number)


def _has_input(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _describe_end(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def _has_terminal() -> bool:
    """Whether the process belongs to a terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _warn_of_threads() -> None:
    """Warn of threads: they do not exist in the workers, but the locks that they hold do."""
    import threading

    others = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    if others:
        _report(
            logging.WARNING,
            "threads are running (%s): workers do not have them, and may wait for their locks for "
            "ever; start them in the lifespan",
            ", ".join(others),
        )


def run_in_workers(
    server: "ServerCore",
    place: "ListenAddress",
    options: "HttpSettings",
    *,
    count: int,
) -> None:
    """Serve over HTTP in several processes, which are forked from this one.

    Raises:
        ValueError: a setting is invalid.
        TransportError: the address cannot be listened on, or the certificate cannot be used.
        SystemExit: no worker has become ready.
    """
    http_server()
    server.was_run = True
    with provide_store(options) as store:
        # Built here and not in the workers: a wrong setting is reported before anything starts.
        app = build_app(server, options)
        place.load_tls()

        def work(worker: "WorkerEnd") -> int:
            with log_in_background(), store.removed_by_orphans():
                run_http(server, app, place, worker=worker)
            return 0

        code = supervise(work, place, grace=app.options["grace"], count=count)
    if code:
        raise SystemExit(code)


def supervise(work: "Work", place: "ListenAddress", *, grace: float, count: int) -> int:
    """Run workers on the sockets of a place until a signal arrives; return the exit code.

    Raises:
        TransportError: the address cannot be listened on.
    """
    from accord.http.server.sockets import close_all

    sockets = place.open_sockets()
    try:
        say = partial(announce, workers=count)
        return WorkerProcesses(work, sockets, count=count, grace=grace, announce=say).run()
    finally:
        close_all(sockets)


class _TemporaryStore:
    """A store in a private folder; None for the folder if the user has named a store."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._parent = os.getpid()

    def remove(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def removed_by_orphans(self) -> Iterator[None]:
        """Remove the folder at the end of a block in a worker, if its parent was killed."""
        try:
            yield
        finally:
            if os.getppid() != self._parent:
                self.remove()


@contextmanager
def provide_store(options: Any) -> Iterator[_TemporaryStore]:
    """Set a store in a private folder, with keys of its own, unless the options name one.

    The folder is removed at the end: nothing of it outlives the workers.
    """
    if options.get("store") is not None:
        yield _TemporaryStore(None)
        return
    folder = tempfile.mkdtemp(prefix="accord-")  # for this user alone
    store = _TemporaryStore(folder)
    try:
        options["store"] = f"sqlite:///{quote(folder)}/store.db"
        if options.get("store_keys") is None and find_spec("cryptography") is not None:
            # Only the workers have them: what a killed parent leaves behind cannot be read.
            options["store_keys"] = [secrets.token_hex(32)]
        yield store
    finally:
        store.remove()
