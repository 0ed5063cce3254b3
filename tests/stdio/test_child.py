"""Launching a process, feeding and reading it as bytes, and ending it with its whole group."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest

from accord.errors import ConnectFailed
from accord.stdio import child as child_module
from accord.stdio.child import Child, StderrLines, describe_exit, group_is_alive, spawn
from accord.stdio.pipes import PolledPipes, ThreadedPipes
from support.leftovers import Leftovers
from support.waiting import LONG, in_loop, run, until

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.exit(3)"
SILENT = "import time; time.sleep(60)"


@pytest.fixture(params=[PolledPipes, ThreadedPipes], ids=["polled", "threaded"])
def pipes(request, monkeypatch):
    """Run a test with either kind of pipes."""

    def attach(*args):
        return request.param(asyncio.get_running_loop(), *args)

    monkeypatch.setattr(child_module, "attach", attach)


def python(program, **options):
    return Child([sys.executable, "-S", "-c", program], **options)


@in_loop
async def test_bytes_go_through_and_the_end_is_reported_with_the_exit_code(pipes):
    chunks, reasons = [], []
    child = python(ECHO, on_output=chunks.append, on_end=reasons.append)
    child.start()
    child.write(b"no line end, \xff and ")
    child.write(b"x" * 300_000)
    await child.writable(0)
    child.end_input()
    assert await child.wait(LONG) == 3
    assert b"".join(chunks) == b"no line end, \xff and " + b"x" * 300_000
    assert reasons == ["ended with exit code 3"]
    assert not child.has_open_input
    await child.stop()


@in_loop
async def test_waiting_ends_without_a_code_while_the_process_runs():
    child = python(SILENT)
    child.start()
    assert await child.wait(0.05) is None
    child.signal(signal.SIGTERM)
    assert await child.wait(LONG) == -signal.SIGTERM
    assert child.state == "was ended by SIGTERM"
    await child.stop()


def test_a_child_without_input_and_output_reads_nothing_and_is_terminated_at_once():
    left = Leftovers()

    async def main():
        program = "import sys; print(repr(sys.stdin.read()), file=sys.stderr); " + SILENT
        child = python(program, has_input=False)
        child.start()
        await until(lambda: child.stderr.lines)
        assert list(child.stderr.lines) == ["''"]
        await child.stop()
        assert child.exit_code == -signal.SIGTERM

    run(main())
    assert not left


def test_a_signal_to_the_leader_alone_spares_its_children():
    program = (
        "import subprocess, sys, time;"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {SILENT!r}]);"
        "print(child.pid, flush=True); time.sleep(60)"
    )
    chunks = []

    async def main():
        child = python(program, on_output=chunks.append)
        child.start()
        await until(lambda: chunks)
        child.signal(signal.SIGTERM)
        assert await child.wait(LONG) == -signal.SIGTERM
        assert group_is_alive(child.pid)
        await child.stop()
        assert not group_is_alive(child.pid)

    run(main())


@in_loop
async def test_a_closed_input_is_reported_once_no_exit_follows(pipes):
    reasons = []
    program = f"import os; os.close(0); print('closed', flush=True); {SILENT}"
    chunks = []
    child = python(program, on_output=chunks.append, on_end=reasons.append, exit_expected=0.05)
    child.start()
    await until(lambda: chunks)
    child.write(b"x")
    await until(lambda: reasons)
    assert reasons == ["closed its input"]
    assert not child.has_open_input
    await child.stop()
    assert reasons == ["closed its input"]


def test_nothing_is_reported_after_our_own_stop():
    reasons = []

    async def main():
        child = python(ECHO, on_end=reasons.append)
        child.start()
        await child.stop(exit_grace=LONG)
        assert child.exit_code == 3
        assert await child.wait() == 3

    run(main())
    assert reasons == []


@in_loop
async def test_a_paused_output_is_read_again_when_it_is_resumed():
    chunks = []
    child = python("print(input(), flush=True); input()", on_output=chunks.append)
    child.start()
    child.pause_output()
    child.write(b"hello\n")
    await asyncio.sleep(0.2)  # clock: time in which a wrong read would happen
    assert chunks == []
    child.resume_output()
    await until(lambda: chunks)
    assert chunks == [b"hello\n"]
    await child.stop()


def test_spawn_needs_no_event_loop_and_can_stay_in_our_group():
    program = "import os; print(os.getpgrp(), os.environ['ONE'])"
    command = [sys.executable, "-S", "-c", program]
    env = {"PATH": os.environ["PATH"], "ONE": "1"}
    for own_group in (True, False):
        process = spawn(command, env=env, stdin=subprocess.DEVNULL, own_group=own_group)
        out, _ = process.communicate(timeout=LONG)
        group, one = out.split()
        assert one == b"1"
        assert int(group) == (process.pid if own_group else os.getpgrp())


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ([], "the command is empty"),
        (["no-such-program", "x"], "no-such-program x: could not be started: .* was not found"),
        ([__file__], "may not be executed"),
        (["null\0byte"], "embedded null byte"),
    ],
)
def test_a_command_that_cannot_be_started_is_refused_with_the_reason(command, why):
    with pytest.raises(ConnectFailed, match=why) as caught:
        spawn(command)
    assert caught.value.phase == "starting"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (-9, "was ended by SIGKILL"),
        (-200, "was ended by signal 200"),
    ],
)
def test_an_exit_code_is_described_in_words(code, words):
    assert describe_exit(code) == words


def test_the_summary_of_stderr_is_one_line_and_keeps_its_end():
    tail = StderrLines()
    tail.feed(b"first\n\n  second\nlast")
    tail.end()
    assert tail.summarize(100) == "first | second | last"
    assert tail.summarize(10) == "... | last"


def test_a_survivor_that_holds_the_pipes_delays_the_end_only_briefly():
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SILENT!r}])"
    reasons = []

    async def main():
        child = python(program, on_output=lambda chunk: None, on_end=reasons.append)
        child.start()
        begun = time.monotonic()
        assert await child.wait(LONG) == 0
        assert time.monotonic() - begun < 30
        assert reasons == ["ended with exit code 0"]
        await child.stop()

    run(main())


@in_loop
async def test_a_child_that_was_stopped_takes_no_more_orders():
    child = python(ECHO, on_output=lambda chunk: None)
    child.start()
    await child.stop(exit_grace=LONG)
    assert child.exit_code == 3
    child.write(b"late")
    await child.writable(0)
    child.end_input()
    child.pause_output()
    child.resume_output()
    child.signal(signal.SIGTERM)
    assert not child.has_open_input
    assert child.state == "ended with exit code 3"


def test_an_output_that_has_ended_may_be_paused_and_resumed(pipes):
    chunks, reasons = [], []

    async def main():
        child = python("print('bye')", on_output=chunks.append, on_end=reasons.append)
        child.start()
        assert await child.wait(LONG) == 0
        child.pause_output()
        child.resume_output()
        assert b"".join(chunks) == b"bye\n"
        await child.stop()

    run(main())
    assert reasons == ["ended with exit code 0"]


def test_a_child_without_input_reads_nothing_of_what_is_written_to_it(pipes):
    chunks = []

    async def main():
        program = "import sys; print(repr(sys.stdin.read()))"
        child = python(program, has_input=False, on_output=chunks.append)
        child.start()
        assert not child.has_open_input
        child.write(b"lost")
        assert child.pipes.unsent == 0
        await child.writable(0)
        child.end_input()
        assert await child.wait(LONG) == 0
        await child.stop()

    run(main())
    assert b"".join(chunks) == b"''\n"


@in_loop
async def test_bytes_for_a_full_pipe_wait_until_the_child_reads(pipes):
    """The first write fills the pipe to its last byte, so that the next one finds no room."""
    program = (
        "import signal, sys;"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]);"
        "print('ready', flush=True); signal.sigwait([signal.SIGUSR1]);"
        "print(len(sys.stdin.buffer.read()))"
    )
    chunks = []
    reading, writing = os.pipe()
    room = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    os.close(reading)
    os.close(writing)
    child = python(program, on_output=chunks.append)
    child.start()
    await until(lambda: chunks)
    child.write(b"x" * room)
    await asyncio.sleep(0)
    child.write(b"y" * 10)
    await asyncio.sleep(0)
    child.signal(signal.SIGUSR1)
    await child.writable(0)
    child.end_input()
    assert await child.wait(LONG) == 0
    assert b"".join(chunks).split() == [b"ready", b"%d" % (room + 10)]
    await child.stop()


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """A loop that cannot watch file descriptors, as the default one of Windows."""

    def add_reader(self, fd, callback, *args):
        raise NotImplementedError


def test_a_loop_that_cannot_watch_pipes_has_threads_that_do(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)  # Windows lacks it, too
    chunks, reasons = [], []

    async def main():
        child = python(ECHO, on_output=chunks.append, on_end=reasons.append)
        child.start()
        child.write(b"x" * 300_000)
        await child.writable(0)
        child.end_input()
        assert await child.wait(LONG) == 3
        await child.stop()

    with asyncio.Runner(loop_factory=LoopWithoutReaders) as runner:
        runner.run(main())
    assert b"".join(chunks) == b"x" * 300_000
    assert reasons == ["ended with exit code 3"]
