"""`server.run("http", workers=N)`: several processes on the same sockets, and their parent."""

import json
import os
import pty
import re
import signal
import socket
import stat
import threading

import pytest

from accord import Server
from accord.errors import ConfigurationError
from accord.sharing.serving import worker_processes
from accord.sharing.serving.worker_processes import count_workers, usable_cores
from support.http_talk import call, initialize
from support.listened import Wire, head
from support.tables import cases
from support.waiting import LONG, in_loop, until_sync
from support.worker_processes import CallingLoop, is_gone, run_script

pytestmark = pytest.mark.integration

LOGS = "import logging; logging.basicConfig(level=logging.INFO, format='%(message)s')\n"
# The first two workers end soon after they are ready; those after them stay.
DIES_SOON = """\
@asynccontextmanager
async def lifespan(server):
    marks = Path(os.environ["BEGUN"])
    with marks.open("a+") as file:
        file.seek(0)
        if len(file.read()) < 2:
            file.write("x")
            asyncio.get_running_loop().call_later(0.2, os._exit, 3)
    yield
"""
FAILS = """\
@asynccontextmanager
async def lifespan(server):
    raise ConnectionError("there is no database")
    yield
"""
# What the next workers do.
FAILS_LATER = """\
@asynccontextmanager
async def lifespan(server):
    if Path(os.environ["BEGUN"]).exists():
        raise ConnectionError("the database is gone")
    yield
"""
WAITS = """\
from accord.sharing.serving import worker_processes
worker_processes._SLOW_START = 0.2

@asynccontextmanager
async def lifespan(server):
    while not Path(os.environ["BEGUN"]).exists():
        await asyncio.sleep(0.01)
    yield
"""
OWN_TERMINAL = """\
import fcntl, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
"""


# -- serving


def test_connections_are_spread_over_workers_which_are_announced_once(tmp_path):
    with run_script(tmp_path) as server:
        workers = server.wait_for_workers(2)
        wires = [server.connect() for _ in range(12)]
        # One after the other: each goes to the worker that has fewer connections.
        served = [wire.call("pid") for wire in wires]
        assert all(served.count(pid) >= 4 for pid in workers), served
        assert [wire.call("pid") for wire in wires] == served
        for wire in wires:
            wire.close()
        said = r"desk is served at http://127.0.0.1:\d+/mcp, by 2 workers; Ctrl-C ends\n"
        assert re.fullmatch(said, server.wait_for("is served"))
        assert server.stop() == 0
        assert server.said.count("is served at") == 1


def test_each_worker_serves_a_session_that_another_one_has_opened(tmp_path):
    with run_script(tmp_path) as server:
        workers = server.wait_for_workers(2)
        wires = [server.connect() for _ in range(4)]
        _, headers = wires[0].post(json.dumps(initialize()).encode())
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        seen = set()
        for number, wire in enumerate(wires):
            answer, _ = wire.post(json.dumps(call(number, "pid")).encode(), **session)
            seen.add(answer["result"]["structuredContent"]["result"])
            wire.close()
        assert seen == workers
        assert server.stop() == 0


def test_the_file_of_a_unix_socket_stays_until_the_last_worker_has_ended(tmp_path):
    path = tmp_path / "desk.sock"
    run = f"listen='unix:{path}', workers=2, grace=0.2"
    with run_script(tmp_path, run=run, before=LOGS) as server:
        server.wait_for("worker 2")
        before = until_sync(lambda: len(server.workers()) == 2 and server.workers())
        server.process.send_signal(signal.SIGHUP)
        until_sync(lambda: len(server.workers()) == 2 and not server.workers() & before)
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(LONG)
            made.connect(str(path))
            with Wire(made) as wire:
                wire.send(head(method="GET", path="/readyz"))
                assert wire.answer().status == 200
        assert server.stop() == 0
    assert not path.exists()


# -- workers that end


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    with run_script(tmp_path) as server:
        before = server.wait_for_workers(2)
        killed = min(before)
        os.kill(killed, signal.SIGKILL)
        said = server.wait_for("ended with signal SIGKILL")
        assert f"(process {killed})" in said
        assert "another one is started" in said
        after = server.wait_for_workers(2, without={killed})
        assert len(after & before) == 1
        assert server.stop() == 0


def test_workers_that_end_again_and_again_are_started_more_and_more_slowly(tmp_path):
    settings = ", lifespan=lifespan"
    with run_script(tmp_path, before=DIES_SOON, settings=settings) as server:
        assert "exit code 3" in server.wait_for("is started in 0.5 s")
        assert "exit code 3" in server.wait_for("is started in 1 s")
        server.wait_for_workers(2)
        assert server.stop() == 0


def test_a_server_that_does_not_start_gives_exit_code_1_and_is_tried_once(tmp_path):
    with run_script(tmp_path, before=FAILS, settings=", lifespan=lifespan") as server:
        assert server.wait() == 1
        assert server.said.count("ConnectionError: there is no database") == 1
        assert "no worker has become ready: worker 1 (process" in server.said
        assert "ended with exit code 1" in server.said
        assert not os.listdir(server.temporary)


def test_a_system_that_starts_no_process_gives_exit_code_1_and_says_why(tmp_path):
    before = (
        "import errno\ndef refuse(): raise OSError(errno.EAGAIN, 'no more')\nos.fork = refuse\n"
    )
    with run_script(tmp_path, before=before) as server:
        assert server.wait() == 1
        assert "a worker cannot be started: no more" in server.said


def test_a_worker_that_does_not_become_ready_is_reported(tmp_path):
    settings = ", lifespan=lifespan"
    with run_script(tmp_path, before=WAITS, settings=settings) as server:
        server.wait_for("worker 1 (process")
        assert "is not ready after 0.2 s" in server.said
        server.begun.touch()
        server.wait_for_workers(2)
        assert server.stop() == 0


def test_threads_that_workers_will_not_have_are_reported(tmp_path):
    before = (
        "import threading\n"
        "threading.Thread(target=time.sleep, args=[3600], name='mine', daemon=True).start()\n"
    )
    with run_script(tmp_path, before=before) as server:
        assert "start them in the lifespan" in server.wait_for("threads are running (mine)")
        server.wait_for_workers(2)
        assert server.stop() == 0


# -- signals


def test_a_worker_that_hangs_is_killed(tmp_path):
    before = (
        "from accord.sharing.serving import worker_processes\nworker_processes._END_SLACK = 0.5\n"
    )
    with run_script(tmp_path, before=before, run="port=0, workers=2, grace=0.1") as server:
        workers = server.wait_for_workers(2)
        os.kill(min(workers), signal.SIGSTOP)
        assert server.stop() == 0
        assert f"(process {min(workers)}) does not end, and is killed" in server.said
        assert all(map(is_gone, workers))


def test_sighup_replaces_all_workers_without_a_failed_call(tmp_path):
    with run_script(tmp_path) as server:
        before = server.wait_for_workers(2)
        loops = [CallingLoop(server.port, kind) for kind in ("alone", "session", "sessions")]
        for loop in loops:
            loop.start()
        until_sync(lambda: all(loop.answers for loop in loops))
        server.process.send_signal(signal.SIGHUP)
        after = server.wait_for_workers(2, without=before)
        for loop in loops:
            loop.finish()
        assert not any(loop.failures for loop in loops), [loop.failures[:1] for loop in loops]
        answered = {pid for loop in loops for pid in loop.answers}
        assert answered & before
        assert answered & after
        assert server.stop() == 0


def test_workers_whose_successors_do_not_start_go_on(tmp_path):
    settings = ", lifespan=lifespan"
    with run_script(tmp_path, before=FAILS_LATER, settings=settings) as server:
        before = server.wait_for_workers(2)
        server.begun.touch()
        server.process.send_signal(signal.SIGHUP)
        assert "exit code 1; the workers that were to be replaced go on" in server.wait_for(
            "did not become ready"
        )
        assert server.wait_for_workers(2) == before
        server.begun.unlink()
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_workers(2, without=before)
        assert server.stop() == 0


def test_sigterm_ends_all_and_removes_the_private_store(tmp_path):
    with run_script(tmp_path) as server:
        workers = server.wait_for_workers(2)
        (folder,) = [each for each in server.temporary.iterdir() if (each / "store.db").exists()]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert server.stop() == 0
        assert all(map(is_gone, workers))
        assert not os.listdir(server.temporary)


def test_calls_are_answered_when_all_processes_get_the_same_signal(tmp_path):
    # As a terminal sends it at Ctrl-C, and a service manager when it stops a service.
    with run_script(tmp_path, run="port=0, workers=2, grace=30", process_group=0) as server:
        server.wait_for_workers(2)
        answers = []
        wire = server.connect()
        calling = threading.Thread(target=lambda: answers.append(wire.call("slow", seconds=1)))
        calling.start()
        until_sync(server.begun.exists)
        os.killpg(server.process.pid, signal.SIGINT)
        calling.join(LONG)
        assert server.wait() == 0
        assert answers
        wire.close()


def test_a_second_signal_ends_all_at_once(tmp_path):
    with run_script(tmp_path, run="port=0, workers=2, grace=600", before=LOGS) as server:
        workers = server.wait_for_workers(2)
        failures = []

        def call_and_fail(wire):
            try:
                wire.call("slow", seconds=900)
            except OSError as error:
                failures.append(error)

        wire = server.connect()
        calling = threading.Thread(target=call_and_fail, args=[wire])
        calling.start()
        until_sync(server.begun.exists)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for("the workers end; calls get 600 s to finish")
        assert server.stop() == 0
        assert all(map(is_gone, workers))
        calling.join(LONG)
        assert failures
        wire.close()


def test_a_terminal_that_is_closed_ends_all(tmp_path):
    main_end, terminal = pty.openpty()
    with run_script(tmp_path, before=OWN_TERMINAL, stdin=terminal) as server:
        os.close(terminal)
        workers = server.wait_for_workers(2)
        os.close(main_end)
        assert server.wait() == 0
        assert all(map(is_gone, workers))


def test_workers_end_when_their_parent_is_killed(tmp_path):
    with run_script(tmp_path) as server:
        workers = server.wait_for_workers(2)
        server.process.kill()
        until_sync(lambda: all(map(is_gone, workers)))
        assert not [each for each in server.temporary.iterdir() if (each / "store.db").exists()]


# -- settings


@cases("workers", [0, -1, True, "two", 1.5, None])
def test_values_that_are_not_a_number_of_workers_are_refused(workers):
    with pytest.raises(ValueError, match="expected 1 or more, or 'auto'"):
        Server("desk").run("http", port=0, workers=workers)


@in_loop
async def test_a_loop_that_is_running_is_not_forked():
    with pytest.raises(ValueError, match=r"use server.run\(\)"):
        await Server("desk").serve("http", port=0, workers=2)


def test_a_system_that_cannot_fork_is_refused_with_advice(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(ConfigurationError, match="behind a proxy"):
        Server("desk").run("http", port=0, workers=2)
    assert count_workers("auto") == 1


def test_workers_need_the_main_thread():
    caught = []

    def run():
        try:
            count_workers(2)
        except ConfigurationError as error:
            caught.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in caught[0]


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000\n", 8), ("150000 100000\n", 2), ("5000 100000\n", 1), ("nonsense\n", 8)],
)
def test_auto_respects_the_limit_of_a_container(monkeypatch, tmp_path, text, cores):
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(worker_processes, "_CPU_QUOTA", str(quota))
    assert usable_cores() == cores
    assert count_workers("auto") == cores
