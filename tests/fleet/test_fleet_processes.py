"""No process is left behind, whatever ends first: servers, workers, or the run itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from accord_tools.fleet.running.processes import (
    KILL,
    RunningProcess,
    adopt_orphans,
    end_processes,
    find_children,
    find_descendants,
    find_orphans,
    list_processes,
    reap,
    send_signal,
)
from fleet.jobs import MARK, marked_processes, words_of
from support.processes import Child
from support.waiting import LONG, until_sync

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")

FAMILY = "trap '' TERM; (trap '' TERM; sleep 300) & setsid sleep 300 & wait"
DAEMON = "setsid sh -c 'setsid sleep 300 & setsid sleep 300 &' &"


def below(pid: int) -> list[RunningProcess]:
    return find_descendants(pid)


def start(script: str) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    return subprocess.Popen(["sh", "-c", script], stdin=quiet, stdout=quiet, start_new_session=True)


def test_a_tree_is_found_and_ended_although_it_ignores_the_request() -> None:
    with start(FAMILY) as parent:
        # Both shells and setsid have become what they run.
        until_sync(lambda: [each.words for each in below(parent.pid)].count("sleep 300") == 2)
        found = [each for each in list_processes() if each.pid == parent.pid] + below(parent.pid)

        def alive() -> list[RunningProcess]:
            now = {(each.pid, each.started): each for each in list_processes()}
            known = [now[key] for each in found if (key := (each.pid, each.started)) in now]
            return [each for each in known if not each.is_zombie]

        end_processes(alive, grace=0.05)
        assert alive() == []


def test_orphans_come_to_the_process_that_adopts_them() -> None:
    before = adopt_orphans()
    known = {each.pid for each in find_children()}
    try:
        with start(DAEMON) as parent:
            parent.wait(LONG)

        def orphans() -> list[RunningProcess]:
            return [each for each in find_orphans(known) if not each.is_zombie]

        until_sync(lambda: sum("sleep 300" in words_of(each.pid) for each in orphans()) == 2)
        end_processes(orphans, grace=1.0)
        assert orphans() == []
        reap(find_orphans(known))
        assert find_orphans(known) == []
    finally:
        adopt_orphans(is_on=before)


def test_a_later_process_with_the_same_id_gets_no_signal() -> None:
    with start("sleep 300") as child:
        now = next(each for each in list_processes() if each.pid == child.pid)
        send_signal(now._replace(started="1"), KILL)
        assert child.poll() is None
        send_signal(now, KILL)
        assert child.wait(LONG) == -signal.SIGKILL


def test_this_process_and_the_first_one_never_get_a_signal() -> None:
    for pid in (0, 1, os.getpid()):
        send_signal(RunningProcess(pid, 0, 0, 0, "S", ""), KILL)


# -- whole runs


@contextmanager
def running_pool(*kinds: str) -> Iterator[tuple[Child, str]]:
    """A process that runs workers, once each of its servers has started all that it starts."""
    mark = uuid4().hex
    script = Path(__file__).with_name("pool_process.py")
    with Child(
        sys.executable, script, TESTS, *kinds, env={**os.environ, MARK: mark}, stdin=None
    ) as pool:
        try:
            until_sync(lambda: count_words(mark, "sleep 300") >= 2 * len(kinds))
            yield pool, mark
        finally:
            for pid in marked_processes(mark):
                os.kill(pid, signal.SIGKILL)


def count_words(mark: str, words: str) -> int:
    return sum(words in words_of(pid) for pid in marked_processes(mark))


def has_ended(mark: str) -> bool:
    return not list(marked_processes(mark))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_is_left_when_a_signal_ends_the_run(number: signal.Signals) -> None:
    with running_pool("stubborn") as (pool, mark):
        os.kill(pool.process.pid, number)
        code = pool.wait()
        until_sync(lambda: has_ended(mark))
        said = b"\n".join(pool.output)
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert (code, pool.stderr) == (0, "")
        assert b"stubborn interrupted was interrupted in the stage start" in said
        assert b"\ninterrupted" in said


def test_a_killed_worker_is_a_row_and_leaves_no_process() -> None:
    with running_pool("stubborn") as (pool, mark):
        for pid in list(marked_processes(mark)):
            if "accord_tools.fleet.worker" in words_of(pid):
                os.kill(pid, signal.SIGKILL)
        assert pool.wait() == 0
        said = b"\n".join(pool.output)
        until_sync(lambda: has_ended(mark))
    assert b"stubborn crashed the worker was ended by SIGKILL in the stage start" in said
    assert said.endswith(b"done")
