"""Lines to launched servers with bad habits: none of them harms the checker."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from accord.errors import ConnectFailed
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout
from check.mutants.process import awkward
from support.check_targets import check_target
from support.running import on_a_loop
from support.waiting import until_sync

NEW = "2025-06-18"


@asynccontextmanager
async def launched(habit, **settings):
    async with asyncio.timeout(60), awkward(habit, **settings).connection(is_judged=False) as line:
        yield line


def is_dead(pid):
    """Whether a process has ended, collected or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].startswith("Z")
    except FileNotFoundError:
        return True


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_good_server_answers_and_ends_with_its_input():
    async def run():
        async with launched("none") as line:
            reply = await line.initialize(NEW)
            assert reply.result["protocolVersion"] == NEW
            assert await line.carrier.end_input()
            return line

    line = asyncio.run(run())
    assert (line.carrier.child.exit_code, line.carrier.left_by_itself) == (0, True)
    assert line.ended == "the server ended with exit code 0"


def test_a_server_that_exits_at_once_leaves_its_code_and_its_last_words():
    async def run():
        async with launched("exits") as line:
            with pytest.raises(ConnectionEnded, match="exit code 1"):
                await line.initialize(NEW)
            return line

    assert list(asyncio.run(run()).carrier.child.stderr.lines) == ["no configuration"]


def test_a_server_that_hangs_is_silence_and_is_ended_by_force():
    async def run():
        async with launched("hangs", leaving=1) as line:
            with pytest.raises(MessageTimeout, match="initialize"):
                await line.ask("initialize", {}, patience=0.3)
            return line.carrier

    carrier = asyncio.run(run())
    assert carrier.left_by_itself is False
    assert carrier.child.exit_code == -signal.SIGTERM
    assert not is_running(carrier.child.pid)


def test_a_server_that_ignores_signals_is_killed():
    async def run():
        async with launched("ignores signals", leaving=0.3) as line:
            await line.initialize(NEW)
            assert await line.carrier.exit_after(signal.SIGTERM) is None
            return line.carrier

    carrier = asyncio.run(run())
    assert carrier.child.exit_code == -signal.SIGKILL
    assert not is_running(carrier.child.pid)


def test_the_exit_code_is_known_however_short_the_time_to_leave(caplog):
    async def run():
        async with launched("ignores signals", leaving=0) as line:
            await line.initialize(NEW)
            return line.carrier

    assert asyncio.run(run()).child.exit_code == -signal.SIGKILL
    assert [each for each in caplog.records if each.name == "asyncio"] == []


@on_a_loop
async def test_a_server_that_stays_is_waited_for_in_vain_only_once():
    subject = awkward("stays", leaving=0.3)
    async with subject.connection(is_judged=False) as line:
        await line.initialize(NEW)
    assert subject.habits.stays
    # Waiting again for a server that stays would take a minute.
    async with asyncio.timeout(50), replace(subject, leaving=60).connection() as line:
        await line.initialize(NEW)
    assert line.carrier.child.exit_code == 0


@on_a_loop
async def test_the_times_of_a_check_suit_the_speed_of_the_server():
    subject = awkward("none", settling=0.1, leaving=2)
    assert (subject.adapt_times().settling, subject.adapt_times().leaving) == (0.1, 2)
    async with subject.connection(is_judged=False) as line:
        await line.initialize(NEW)
    assert subject.habits.startup_seconds > 0
    subject.habits.startup_seconds = 10
    assert (subject.adapt_times().settling, subject.adapt_times().leaving) == (1, 20)


def test_a_signal_ends_a_server_with_the_code_it_chooses():
    async def run(habit):
        async with launched(habit) as line:
            await line.initialize(NEW)
            return await line.carrier.exit_after(signal.SIGINT)

    assert asyncio.run(run("none")) == 0
    assert asyncio.run(run("default signals")) not in (0, None)


def test_a_server_that_floods_ends_the_line():
    async def run():
        async with launched("floods", leaving=1) as line:
            with pytest.raises(ConnectionEnded, match="floods"):
                await line.until(lambda message: False, "an end of it", patience=50)
            return line

    line = asyncio.run(run())
    assert len(line.received) <= 20_000
    assert not is_running(line.carrier.child.pid)


def test_garbage_is_kept_as_text_and_what_follows_is_heard():
    async def run():
        async with launched("garbage") as line:
            await line.initialize(NEW)
            return [record.raw for record in line.log.records if record.raw]

    odd = asyncio.run(run())
    assert len(odd) == 2
    assert "garbage" in odd[0]
    assert odd[1] == "{]"


def test_a_line_without_its_end_is_heard_when_the_server_ends():
    code = 'import sys; sys.stdout.write(\'{"jsonrpc":"2.0","method":"last"}\')'
    subject = check_target(name="one", command=[sys.executable, "-S", "-c", code])

    async def run():
        async with asyncio.timeout(60), subject.connection(is_judged=False) as line:
            return await line.until(lambda message: message.get("method") == "last", "it")

    assert asyncio.run(run())["jsonrpc"] == "2.0"


@on_a_loop
async def test_writing_to_a_server_that_has_ended_ends_the_line():
    async with launched("exits") as line:
        with pytest.raises(ConnectionEnded):
            await line.until(lambda message: False, "word")
        with pytest.raises(ConnectionEnded):
            await line.carrier.write(b"x" * 1_000_000)


@on_a_loop
async def test_a_server_that_stops_reading_and_then_ends_is_reported_with_its_code():
    code = (
        "import os, sys, time; os.close(0); print('done', file=sys.stderr, flush=True);"
        "time.sleep(0.3); sys.exit(3)"
    )
    subject = check_target(name="one", command=[sys.executable, "-S", "-c", code], leaving=30)
    async with asyncio.timeout(60), subject.connection(is_judged=False) as line:
        while not line.carrier.child.stderr.lines:
            await asyncio.sleep(0.01)
        with pytest.raises(ConnectionEnded, match="ended with exit code 3"):
            await line.carrier.write(b"x" * 1_000_000)


def test_a_command_that_is_not_there_cannot_be_reached():
    async def run():
        async with check_target(name="none", command=["/no/such/command"]).connection():
            pass

    with pytest.raises(ConnectFailed, match="/no/such/command"):
        asyncio.run(run())


def test_children_of_a_server_do_not_outlive_the_line():
    code = (
        "import subprocess, sys, json; child = subprocess.Popen(['sleep', '60']);"
        "print(json.dumps({'jsonrpc': '2.0', 'method': 'child', 'params': {'pid': child.pid}}),"
        " flush=True); sys.stdin.read()"
    )
    subject = check_target(name="parent", command=[sys.executable, "-S", "-c", code], leaving=1)

    async def run():
        async with asyncio.timeout(60), subject.connection(is_judged=False) as line:
            child = await line.until(lambda message: message.get("method") == "child", "a child")
            return child["params"]["pid"]

    pid = asyncio.run(run())
    until_sync(lambda: not is_running(pid) or is_dead(pid))
