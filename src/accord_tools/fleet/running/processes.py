"""Processes below this one: found through the system's table, and ended by id, group and tree.

Servers are launched in sessions of their own, and may detach themselves, so that neither a group
nor a handle reaches all of them. On Linux a process can adopt what its descendants leave behind;
elsewhere only what is still connected to its parent is found.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

TERMINATE: Final = signal.SIGTERM
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37
_IS_LINUX: Final = sys.platform == "linux"
_ZOMBIES: Final = ("Z", "X")
# A process that outlives SIGKILL by this much is stuck in the kernel.
_KILL_SECONDS: Final = 5.0
_PAUSE: Final = 0.02
_NAME_LENGTH: Final = 80
_PS_SECONDS: Final = 5.0


class RunningProcess(NamedTuple):
    """A process of the system's table; `started` tells it from a later one with the same id.

    `ticks` is the CPU time of it and of its children that have ended; 0 where that is unknown.
    """

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: str
    ticks: int = 0

    @property
    def is_zombie(self) -> bool:
        """Whether it has ended, and only its exit code is left."""
        return self.state in _ZOMBIES

    @property
    def words(self) -> str:
        """Its command line, such as "sleep 60"; a long one is cut."""
        words = ""
        with contextlib.suppress(OSError):
            raw = Path(f"/proc/{self.pid}/cmdline").read_bytes()
            words = raw.replace(b"\0", b" ").decode("utf-8", "replace").strip()
        if len(words) > _NAME_LENGTH:
            words = f"{words[: _NAME_LENGTH - 3]}..."
        return words or "a process"


# -- the table


def list_processes() -> list[RunningProcess]:
    """Return all processes that the system shows to this one; empty where that is unknown."""
    if _IS_LINUX:
        found = map(_read_stat, filter(str.isdigit, os.listdir("/proc")))
        return [each for each in found if each is not None]
    if sys.platform == "win32":
        return []
    return list(_ask_ps())


def _read_stat(pid: str) -> RunningProcess | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            stat = file.read(1024).decode("utf-8", "replace")
        # The name in parentheses may contain anything, so the fields count from its end.
        state, parent, group, session, *rest = stat.rpartition(")")[2].split()
        ticks = sum(map(int, rest[7:11]))
        return RunningProcess(
            int(pid), int(parent), int(group), int(session), state, rest[15], ticks
        )
    except (OSError, ValueError, IndexError):
        return None  # it has ended meanwhile


def _ask_ps() -> Iterator[RunningProcess]:
    command = ["ps", "-axo", "pid=,ppid=,pgid=,stat="]
    try:
        asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
        listed = asked.communicate(timeout=_PS_SECONDS)[0]
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in listed.decode("ascii", "replace").splitlines():
        with contextlib.suppress(ValueError):
            pid, parent, group, state = line.split()
            if int(pid) != asked.pid:
                # Sessions and times of start are not shown in the same way everywhere.
                yield RunningProcess(int(pid), int(parent), int(group), int(group), state[:1], "")


def find_descendants(of: int | None = None) -> list[RunningProcess]:
    """Return everything below a process that still runs, nearest first; by default below us."""
    children: dict[int, list[RunningProcess]] = {}
    for each in list_processes():
        children.setdefault(each.parent, []).append(each)
    found: list[RunningProcess] = []
    queue = [os.getpid() if of is None else of]
    while queue:
        for each in children.pop(queue.pop(0), ()):
            queue.append(each.pid)
            found.append(each)
    return [each for each in found if not each.is_zombie]


def find_children() -> list[RunningProcess]:
    """Return our own children, also those that have ended."""
    own = os.getpid()
    return [each for each in list_processes() if each.parent == own]


def descendants_cpu() -> float | None:
    """Return the CPU seconds of all that this process launched; None where that is unknown."""
    if sys.platform != "linux":
        return None
    ended = os.times()
    ticks = sum(each.ticks for each in find_descendants())
    return ended.children_user + ended.children_system + ticks / os.sysconf("SC_CLK_TCK")


# -- adopting


def adopt_orphans(*, is_on: bool = True) -> bool:
    """Let orphans among our descendants become our children; return whether that was so before.

    Does nothing on systems other than Linux.
    """
    if not _IS_LINUX:
        return False
    before = ctypes.c_int(0)
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)
    return bool(before.value)


def find_orphans(ours: Collection[int]) -> list[RunningProcess]:
    """Return the children that we adopted, also those that have ended.

    They belong to another session: every launched server leads one of its own.

    Args:
        ours: children that we started, or that were there before.
    """
    if not _IS_LINUX:
        return []
    session = os.getsid(0)
    return [each for each in find_children() if each.pid not in ours and each.session != session]


# -- ending


def end_processes(
    find: Callable[[], Collection[RunningProcess]], *, grace: float = 1.0
) -> list[RunningProcess]:
    """End processes: ask them first, then kill them, until none is found.

    Args:
        find: returns those that still run; asked again, because they may start others.
        grace: seconds that they may take to end when asked; 0 kills at once.

    Returns:
        Those that were found at first.
    """
    first = list(find())
    if first and grace:
        _signal_until_gone(find, TERMINATE, grace)
    _signal_until_gone(find, KILL, _KILL_SECONDS)
    return first


def _signal_until_gone(
    find: Callable[[], Collection[RunningProcess]], number: int, seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    asked: set[tuple[int, str]] = set()
    while left := find():
        for each in left:
            # To ask once is enough; killing is repeated for what was forked meanwhile.
            if number == KILL or (each.pid, each.started) not in asked:
                send_signal(each, number)
                asked.add((each.pid, each.started))
        if time.monotonic() > deadline:
            return
        time.sleep(_PAUSE)


def send_signal(process: RunningProcess, number: int) -> None:
    """Send a signal to a process, and to its group if that belongs to its own session."""
    if process.pid in (0, 1, os.getpid()):
        return
    with contextlib.suppress(OSError):
        if _IS_LINUX:
            now = _read_stat(str(process.pid))
            if now is None or now.started != process.started:
                return  # another process has the id now
        if number == KILL and _has_own_group(process):
            os.killpg(process.group, number)
        os.kill(process.pid, number)


def _has_own_group(process: RunningProcess) -> bool:
    own = (0, 1, os.getpgrp())
    return _IS_LINUX and process.group not in own and process.session != os.getsid(0)


def reap(processes: Iterable[RunningProcess]) -> None:
    """Take the exit codes of adopted children that have ended, so that they disappear."""
    for each in processes:
        with contextlib.suppress(OSError):
            os.waitpid(each.pid, os.WNOHANG)
