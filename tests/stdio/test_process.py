"""The wire to a launched server: lines in both directions, its environment, its end."""

import asyncio
import io
import json
import os
import sys

import pytest

from accord.errors import ConnectFailed
from accord.stdio import child as child_module
from accord.stdio.client import INHERITED, Process, environment
from accord.stdio.pipes import HIGH_WATER, PolledPipes, ThreadedPipes
from support.leftovers import Leftovers
from support.waiting import LONG, until

ECHO = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
"""


@pytest.fixture(params=[PolledPipes, ThreadedPipes], ids=["polled", "threaded"])
def pipes(request, monkeypatch):
    """Run a test with either kind of pipes."""

    def attach(*args):
        return request.param(asyncio.get_running_loop(), *args)

    monkeypatch.setattr(child_module, "attach", attach)


@pytest.fixture(params=[True, False], ids=["pidfd", "thread"])
def watching(request, monkeypatch):
    """Run a test with either way to notice the exit of a child."""
    if not request.param:
        monkeypatch.delattr(os, "pidfd_open", raising=False)


class Peer:
    """A program behind a wire, and the lines it wrote."""

    def __init__(self, program, *args, **launch):
        self.lines = []
        self.ends = []
        self.news = asyncio.Event()
        self.wire = Process([sys.executable, "-c", program, *args], **launch)

    async def __aenter__(self):
        await self.wire.open(self._receive, self._lost)
        return self

    async def __aexit__(self, *_):
        await self.wire.close()

    def _receive(self, line):
        self.lines.append(line)
        self.news.set()

    def _lost(self, why):
        self.ends.append(why)
        self.news.set()

    async def until(self, happened):
        while not happened():
            self.news.clear()
            await self.news.wait()


def run(main):
    async def bounded():
        async with asyncio.timeout(3 * LONG):
            return await main()

    return asyncio.run(bounded())


def test_lines_go_there_and_come_back(pipes, watching):
    async def main():
        async with Peer(ECHO, exit_grace=20) as peer:
            for n in range(100):
                peer.wire.write(b"%d" % n)
            await peer.until(lambda: len(peer.lines) == 100)
            assert peer.lines == [b"%d" % n for n in range(100)]
        assert peer.ends == []
        assert peer.wire.child.exit_code == 0

    run(main)


def test_long_lines_pass_whole(pipes):
    async def main():
        async with Peer(ECHO) as peer:
            long = b"x" * 5_000_000
            peer.wire.write(long)
            peer.wire.write(b"short")
            await peer.until(lambda: len(peer.lines) == 2)
            assert peer.lines == [long, b"short"]

    run(main)


def test_a_line_beyond_the_limit_is_skipped_and_the_next_one_counts(caplog):
    async def main():
        async with Peer(ECHO, line_limit=1000) as peer:
            peer.wire.write(b"x" * 100_000)
            peer.wire.write(b"short")
            await peer.until(lambda: peer.lines)
            assert peer.lines == [b"short"]

    run(main)
    assert "1000 bytes" in caplog.text


def test_a_last_line_without_an_end_counts():
    async def main():
        async with Peer("print('bye', end='')") as peer:
            await peer.until(lambda: peer.ends)
            assert peer.lines == [b"bye"]

    run(main)


def test_the_end_of_the_process_is_reported_once_after_its_last_lines(pipes, watching):
    program = "import sys; print('a' * 200000); print('b'); sys.exit(7)"

    async def main():
        async with Peer(program) as peer:
            await peer.until(lambda: peer.ends)
            assert [line[:1] for line in peer.lines] == [b"a", b"b"]
            assert peer.ends == ["the server ended with exit code 7"]
            assert peer.wire.child.exit_code == 7

    run(main)


def test_the_end_is_noticed_although_a_child_holds_the_pipes(watching):
    program = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
"""

    async def main():
        async with Peer(program, exit_grace=0.1, terminate_grace=0.5) as peer:
            await peer.until(lambda: peer.ends)
            assert peer.ends == ["the server ended with exit code 0"]

    run(main)


def test_a_process_that_reads_nothing_makes_writers_wait():
    program = "import time; time.sleep(60)"

    async def main():
        async with Peer(program, exit_grace=0.1) as peer:
            while not peer.wire.is_congested:
                peer.wire.write(b"x" * 100_000)
                await asyncio.sleep(0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await peer.wire.writable()
            waiting = asyncio.ensure_future(peer.wire.writable())
            await asyncio.sleep(0)
            await peer.wire.close()
            await waiting

    run(main)


def test_writers_go_on_when_the_process_has_caught_up(pipes):
    program = "import sys, time; time.sleep(0.3)\nfor line in sys.stdin: pass"

    async def main():
        async with Peer(program) as peer:
            for _ in range(30):
                peer.wire.write(b"x" * 100_000)
            assert peer.wire.is_congested
            await peer.wire.writable()
            assert not peer.wire.is_congested
            assert HIGH_WATER < 3_000_000

    run(main)


def test_a_process_that_closes_its_input_has_ended(pipes):
    program = "import os, time; os.close(0); print('closed', flush=True); time.sleep(60)"

    async def main():
        async with Peer(program, exit_grace=0.1, terminate_grace=0.5) as peer:
            await peer.until(lambda: peer.lines)
            peer.wire.write(b"hello?")
            await peer.until(lambda: peer.ends)

    run(main)


# -- stderr

CHATTY = """
import sys
for n in range(30000):
    sys.stderr.write(f"line {n} " + "z" * 90 + "\\n")
print("done", flush=True)
sys.stdin.read()
"""


def test_a_chatty_process_is_never_blocked_and_its_first_and_last_lines_are_kept(pipes):
    async def main():
        async with Peer(CHATTY) as peer:
            await peer.until(lambda: peer.lines)
        kept = peer.wire.child.stderr.lines
        assert [line.split(" z")[0] for line in (kept[0], *kept[19:22], kept[-1])] == [
            *("line 0", "line 19", "(29960 more lines)", "line 29980", "line 29999")
        ]

    run(main)


def test_lines_on_stderr_reach_a_function():
    heard = []
    program = "import os; os.write(2, b'caf\\xc3\\xa9\\n\\xff odd\\nlast')"

    async def main():
        async with Peer(program, stderr=heard.append) as peer:
            await peer.until(lambda: peer.ends)

    run(main)
    assert heard == ["café", "\ufffd odd", "last"]


def test_a_function_that_fails_on_stderr_breaks_nothing():
    async def main():
        async with Peer(CHATTY, stderr=lambda line: 1 / 0) as peer:
            await peer.until(lambda: peer.lines)

    run(main)


def test_stderr_is_forwarded_if_launch_says_so(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())

    async def main():
        async with Peer("import sys; print('hello', file=sys.stderr)", stderr="forward") as peer:
            await peer.until(lambda: peer.ends)

    run(main)
    assert sys.stderr.getvalue() == "hello\n"


@pytest.mark.parametrize("stderr", ["keep", "forward"])
def test_no_real_stderr_is_needed(stderr, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)

    async def main():
        async with Peer(CHATTY, stderr=stderr) as peer:
            await peer.until(lambda: peer.lines)

    run(main)


def test_a_line_without_end_on_stderr_costs_no_memory():
    program = """
import sys
print("x" * 5_000_000, end="", file=sys.stderr, flush=True)
print("done", flush=True)
sys.stdin.read()
"""

    async def main():
        async with Peer(program) as peer:
            await peer.until(lambda: peer.lines)
        assert list(peer.wire.child.stderr.lines) == ["[a very long line]"]

    run(main)


# -- environment

SHOW = "import json, os; print(json.dumps([dict(os.environ), os.getcwd()]))"


def environment_of(**launch):
    async def main():
        async with Peer(SHOW, **launch) as peer:
            await peer.until(lambda: peer.lines)
            return json.loads(peer.lines[0])

    return run(main)


def test_only_harmless_variables_are_inherited(monkeypatch):
    monkeypatch.setenv("API_TOKEN", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("SHELL", "() { :; }; echo")
    variables, _ = environment_of()
    assert "API_TOKEN" not in variables
    assert "SHELL" not in variables
    assert variables["LANG"] == "C.UTF-8"
    assert variables["PATH"] == os.environ["PATH"]
    assert set(variables) <= INHERITED | {"LC_CTYPE"}


def test_given_variables_come_on_top(monkeypatch):
    monkeypatch.setenv("LANG", "C.UTF-8")
    variables, _ = environment_of(env={"API_TOKEN": "given", "LANG": "de_DE.UTF-8"})
    assert variables["API_TOKEN"] == "given"
    assert variables["LANG"] == "de_DE.UTF-8"
    assert environment({"A": "b"})["A"] == "b"


def test_a_process_runs_in_the_folder_given(tmp_path):
    assert environment_of(cwd=tmp_path)[1] == str(tmp_path)


# -- ending


def test_the_process_has_a_session_of_its_own():
    async def main():
        async with Peer("import os; print(os.getsid(0), os.getpgid(0), os.getpid())") as peer:
            await peer.until(lambda: peer.lines)
            assert len(set(peer.lines[0].split())) == 1

    run(main)


@pytest.mark.parametrize("from_thread", [False, True], ids=["on the loop", "in a thread"])
def test_abort_kills_at_once_from_anywhere(from_thread, pipes, watching):
    program = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""

    async def main():
        before = len(os.listdir("/proc/self/fd"))
        peer = Peer(program)
        await peer.wire.open(peer._receive, peer._lost)
        await peer.until(lambda: peer.lines)
        if from_thread:
            await asyncio.to_thread(peer.wire.abort)
        else:
            peer.wire.abort()
        assert peer.wire.child.exit_code == -9
        peer.wire.abort()
        await peer.wire.close()
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before)
        assert peer.ends == []

    run(main)


def test_closing_what_was_never_opened_does_nothing():
    async def main():
        wire = Process(["never-run"])
        await wire.close()
        wire.abort()
        wire.write(b"lost")
        await wire.writable()
        assert (wire.child.exit_code, wire.child.pid, wire.is_congested) == (None, None, False)

    run(main)


@pytest.mark.parametrize(
    ("program", "why"),
    [("no-such-program", "was not found"), (__file__, "may not be executed")],
    ids=["missing", "no program"],
)
def test_a_program_that_cannot_be_started_leaves_nothing(program, why):
    async def main():
        left = Leftovers()
        wire = Process([program])
        with pytest.raises(ConnectFailed, match=why):
            await wire.open(print, print)
        await wire.close()
        assert not left

    run(main)


def test_a_process_that_cannot_be_spoken_to_is_not_left(monkeypatch):
    def attach(*_):
        raise OSError("too many open files")

    monkeypatch.setattr(child_module, "attach", attach)

    async def main():
        left = Leftovers()
        wire = Process([sys.executable, "-c", ECHO])
        with pytest.raises(OSError, match="too many open files"):
            await wire.open(print, print)
        assert wire.child.exit_code is not None
        assert not left

    run(main)


def test_a_process_that_stays_is_asked_to_go_before_it_is_killed():
    program = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
time.sleep(60)
"""

    async def main():
        async with Peer(program, exit_grace=0.05, terminate_grace=LONG) as peer:
            await peer.until(lambda: peer.lines)
        assert peer.wire.child.exit_code == 7

    run(main)


def test_output_during_the_end_does_not_hold_it_up():
    program = """
import sys
sys.stdin.read()
for _ in range(200):
    sys.stdout.write("x" * 9999 + "\\n")
"""

    async def main():
        async with Peer(program, exit_grace=20) as peer:
            pass
        assert peer.wire.child.exit_code == 0

    run(main)
