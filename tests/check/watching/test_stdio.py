"""Between a host and its server over stdio: nothing changes, and everything is seen."""

import contextlib
import fcntl
import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
import threading
from functools import partial
from pathlib import Path

import pytest

from accord.protocol.catalogue import RULE_SET
from accord.trace import read
from accord_tools.check.trace_check import replay
from accord_tools.watch import watcher as watching
from accord_tools.watch.stdio_relay import watch_command
from check.watching.between import (
    ECHO,
    INITIALIZE,
    LIST,
    OPENED,
    PYTHON,
    READY,
    SCRIPTED,
    Host,
    launched,
    line,
    watched,
)
from support.waiting import LONG, until_sync

BYTES = {
    "random bytes": random.Random(0).randbytes(300_000),
    "no final newline": b'{"jsonrpc": "2.0", "method": "x"}',
    "a line of 10 MB": b'"' + b"x" * 10_000_000 + b'"\n',
    "CRLF": b'{"jsonrpc": "2.0",\r\n "method": "x"}\r\n\r\n',
    "invalid UTF-8": b'{"a": "\xff\xfe\xc3"}\n\xf0\x9f\n',
    "nothing but line breaks": b"\n" * 10_000,
    "nothing": b"",
}
FULL = Path("/dev/full")
TOOLS = {"jsonrpc": "2.0", "id": 2, "result": {"tools": [{"name": "t", "inputSchema": {}}]}}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_pass_both_ways_as_they_are(name):
    with watched(ECHO) as (host, _):
        host.say_later(BYTES[name])
        assert host.hear_all() == BYTES[name]
    assert host.code == 0


def test_a_message_passes_before_the_line_has_an_end():
    with watched(ECHO) as (host, _):
        for part in (b'{"jsonrpc"', b': "2.0"', b"}"):
            host.say(part)
            assert host.hear(len(part)) == part


def test_pipes_that_do_not_block_are_waited_for():
    data = b"x" * 500_000
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    for file in (in_read, out_write):
        os.set_blocking(file, False)
    process = subprocess.Popen(
        [sys.executable, "-m", "accord.cli.main", "watch", "--", *ECHO],
        stdin=in_read,
        stdout=out_write,
        stderr=subprocess.DEVNULL,
    )
    os.close(in_read)
    os.close(out_write)
    host = Host(in_write, out_read)
    host.say_later(data)
    assert host.hear_all() == data
    assert process.wait(LONG) == 0
    host.close()


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_that_of_the_server(code):
    with watched([*PYTHON, f"raise SystemExit({code})"]) as (host, _):
        assert host.hear_all() == b""
    assert host.code == code


def test_the_server_sees_that_its_host_closed_the_input():
    with watched([*PYTHON, "import sys; sys.stdin.read(); print('bye')"]) as (host, _):
        host.close_input()
        assert host.hear_all() == b"bye\n"


def test_a_server_whose_host_stops_reading_gets_a_broken_pipe():
    script = (
        "import sys, time\n"
        "try:\n"
        "    while True: print('x' * 1000, flush=True)\n"
        "except BrokenPipeError:\n"
        "    import os; os._exit(9)"
    )
    with watched([*PYTHON, script]) as (host, _):
        host.hear(10)
        host.close_output()
    assert host.code == 9


def test_a_server_may_close_its_output_and_keep_running():
    with watched([*PYTHON, "import os, sys; os.close(1); sys.stdin.read()"]) as (host, _):
        assert host.hear_all() == b""  # the end, while the server still waits


def test_a_host_that_writes_to_a_closed_server_gets_a_broken_pipe():
    script = "import os, time; os.close(0); print('deaf', flush=True); time.sleep(1)"
    with watched([*PYTHON, script]) as (host, _):
        assert host.hear(5) == b"deaf\n"

        def refused():
            try:
                host.say(b"hello\n")
            except BrokenPipeError:
                return True
            return False

        until_sync(refused)


def test_a_host_that_pauses_delays_and_loses_nothing():
    script = "import sys\nfor n in range(5000): print(f'line {n:06}')"
    with watched([*PYTHON, script]) as (host, _):
        first = host.hear(10)
        assert (first + host.hear_all()).count(b"\n") == 5000


def test_a_relay_that_ended_touches_no_descriptor_of_its_caller(tmp_path):
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    watcher, before = watching.Watcher("it"), set(threading.enumerate())
    with contextlib.closing(watcher), open(tmp_path / "later", "wb") as later:
        # The server has ended; a thread of the relay still waits for the host.
        command = [*PYTHON, "raise SystemExit(3)"]
        assert watch_command(command, watcher, stdin=in_read, stdout=out_write) == 3
        waiting = {each for each in threading.enumerate() if each.name == "accord-watch"} - before
        for number in (in_read, out_write):
            os.dup2(later.fileno(), number)  # closed, and taken by another file
        os.close(in_write)
        for each in waiting:
            each.join(LONG)
        for number in (in_read, out_write):
            assert os.path.sameopenfile(number, later.fileno())
            os.close(number)
    os.close(out_read)


def test_an_unknown_command_is_reported():
    process = launched("--", "accord-no-such-command")
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (2, b"")
    assert (
        b"accord-no-such-command: could not be started: 'accord-no-such-command' was not found"
        in err
    )


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"])
def test_signals_reach_the_server_which_handles_them(name):
    script = (
        "import signal, sys, time\n"
        f"signal.signal(signal.{name}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    with launched("--", *PYTHON, script) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, name))
        assert process.wait(LONG) == 5


@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="signals do not tell their sender")
def test_an_interrupt_at_the_terminal_reaches_the_server_once():
    script = (
        "import os, signal, sys\n"
        "caught = []\n"
        "signal.signal(signal.SIGINT, lambda *_: (caught.append(1), os.write(1, b'caught\\n')))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(len(caught)))\n"
        "os.write(1, b'ready\\n')\n"
        "while True: signal.pause()"
    )
    terminal, side = pty.openpty()
    take_over = partial(fcntl.ioctl, side, termios.TIOCSCTTY, 0)
    with launched("--", *PYTHON, script, start_new_session=True, preexec_fn=take_over) as process:
        os.close(side)
        assert process.stdout.readline() == b"ready\n"
        os.write(terminal, b"\x03")
        assert process.stdout.readline() == b"caught\n"
        process.terminate()
        assert process.wait(LONG) == 1
    os.close(terminal)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_server_ended_by_a_signal_is_reported_with_that_signal(name):
    script = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    with launched("--", *PYTHON, script) as process:
        process.communicate(timeout=LONG)
    assert process.returncode == -getattr(signal, name)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a server learns it by its input")
def test_a_server_that_does_not_end_is_killed_with_the_watcher():
    script = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.write(1, b'%d\\n' % os.getpid())\n"
        "time.sleep(600)"
    )
    with launched("--", *PYTHON, script) as process:
        server = int(process.stdout.readline())
        process.kill()
        until_sync(lambda: not is_running(server))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_the_exit_of_a_crashed_server_is_reported_as_a_shell_does():
    script = "import os, signal; os.kill(os.getpid(), signal.SIGABRT)"
    with launched("--", *PYTHON, script) as process:
        process.communicate(timeout=LONG)
    assert process.returncode == 128 + signal.SIGABRT


def test_stderr_of_the_server_passes():
    script = r"import os; os.write(2, b'one\r\n\xff two')"
    process = launched("--log", os.devnull, "--", *PYTHON, script)
    _, err = process.communicate(timeout=LONG)
    assert err == b"one\r\n\xff two"


def test_variables_reach_the_server():
    script = "import os; print(os.environ['WORD'])"
    process = launched("--env", "WORD=hello", "--", *PYTHON, script)
    assert process.communicate(timeout=LONG)[0] == b"hello\n"


# -- judging


def bad_conversation():
    """A server that names a tool without the type of its schema, and never answers."""
    stray = {"jsonrpc": "2.0", "id": 99, "result": {}}
    said = [line(INITIALIZE), line(READY) + line(LIST), line({**LIST, "id": 3})]
    answers = [json.dumps(OPENED), json.dumps(TOOLS), json.dumps(stray)]
    return said, answers


def test_violations_are_reported_on_stderr_while_the_server_runs():
    said, answers = bad_conversation()
    with launched("--", *SCRIPTED, *answers) as process:
        process.stdin.write(b"".join(said[:2]))  # with one line more the server would end
        process.stdin.flush()
        first = process.stderr.readline()
        assert first.startswith(b"accord watch: FAIL ")
        assert process.poll() is None
        out, err = process.communicate(timeout=LONG)
    assert len(out.splitlines()) == 3
    assert b", score " in err
    assert f" by rules {RULE_SET}\n".encode() in err


def test_violations_can_be_reported_in_a_file(tmp_path):
    said, answers = bad_conversation()
    log = tmp_path / "watch.log"
    process = launched("--log", log, "--", *SCRIPTED, *answers)
    _, err = process.communicate(b"".join(said), timeout=LONG)
    assert (process.returncode, err) == (0, b"")
    assert log.read_text().startswith("FAIL ")


def test_a_log_that_cannot_be_written_ends_nothing():
    said, answers = bad_conversation()
    process = launched("--log", "/dev/full", "--", *SCRIPTED, *answers)
    out, _ = process.communicate(b"".join(said), timeout=LONG)
    assert (process.returncode, len(out.splitlines())) == (0, 3)


def test_a_host_that_reads_no_stderr_stops_nothing():
    script = (
        'import sys\nfor n in range(3000): print(\'{"jsonrpc": "1.0", "id": %d}\' % n, flush=True)'
    )
    with launched("--", *PYTHON, script) as process:
        assert process.stdout.read().count(b"\n") == 3000
        assert process.wait(LONG) == 0


def verdicts(report):
    return {each.id: each.verdict for each in report.results}


def test_the_recording_gives_the_same_verdicts(tmp_path):
    said, answers = bad_conversation()
    path = tmp_path / "session.jsonl"
    with watched([*SCRIPTED, *answers], recording=path) as (host, watcher):
        for part in said:
            host.say(part)
        host.say(b"\xff no json\n")
        host.hear_all()
    (live,) = watcher.reports()
    again = replay(read(path), target="it")
    assert verdicts(again) == verdicts(live)
    assert "fail" in verdicts(live).values()
    assert [each.violation.why for each in again.violations] == [
        each.violation.why for each in live.violations
    ]


def test_the_recording_can_be_read_while_the_conversation_goes_on(tmp_path):
    path = tmp_path / "session.jsonl"
    with watched(ECHO, recording=path) as (host, _):
        host.say(line(INITIALIZE))
        until_sync(lambda: path.read_bytes().count(b"\n") == 2)


def test_secrets_are_masked_in_the_recording(tmp_path):
    path = tmp_path / "session.jsonl"
    secrets = {"api_key": "hush-1", "text": "use sk-0123456789abcdefghij please", "n": 1}
    call = {**LIST, "method": "tools/call", "params": {"name": "t", "arguments": secrets}}
    with watched(ECHO, recording=path) as (host, _):
        host.say(line(call) + b"not json: ghp_0123456789abcdefghijABCDEFGHIJ\n")
        host.close_input()
        assert b"hush-1" in host.hear_all()
    text = path.read_text()
    assert "hush-1" not in text
    assert "sk-0123456789" not in text
    assert "ghp_" not in text
    assert text.count('"masked-1"') == 2  # the same secret, said by both


def test_a_full_disk_ends_the_recording_and_nothing_else():
    with watched(ECHO, recording=FULL) as (host, watcher):
        host.say_later(line(LIST) * 500)
        assert host.hear_all() == line(LIST) * 500
    assert watcher.trouble == "the recording ended early: No space left on device"
    assert watcher.reports()


def test_a_host_that_launches_a_server_often_and_twice_at_once_keeps_every_session(tmp_path):
    path = tmp_path / "s.jsonl"
    words = ("--record", path, "--", *SCRIPTED, json.dumps(OPENED))

    def begin():
        process = launched(*words)
        process.stdin.write(line(INITIALIZE))
        process.stdin.flush()
        assert process.stdout.readline() == line(OPENED)
        return process

    def end(process):
        return process.communicate(line(READY), timeout=LONG)[1].decode()

    pair = [begin(), begin()]  # both are under way
    told = [end(process) for process in pair]
    told.append(end(begin()))
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["s-2.jsonl", "s-3.jsonl", "s.jsonl"]
    for name in names:
        assert len(list(read(tmp_path / name))) == 3
        assert not replay(read(tmp_path / name), target="it").has_failed
    assert f"recorded in {tmp_path / 's-3.jsonl'}" in told[-1]
    assert sum("recorded in" in each for each in told) == 2


def test_the_report_of_a_watch_is_for_its_owner_alone(tmp_path):
    words = ("--output", tmp_path / "report.json", "--", *SCRIPTED, json.dumps(OPENED))
    process = launched(*words)
    process.communicate(line(INITIALIZE) + line(READY), timeout=LONG)
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "report.json").read_text())["rules"] == RULE_SET


def test_a_recording_that_cannot_be_created_is_reported_at_once(tmp_path):
    process = launched("--record", tmp_path / "none" / "x.jsonl", "--", *ECHO)
    out, err = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (2, b"")
    assert b"none/x.jsonl: No such file or directory" in err


def test_a_flood_is_dropped_and_counted_and_passes_all_the_same(monkeypatch):
    monkeypatch.setattr(watching, "HELD_MOST", 100_000)
    flood = line(LIST) * 50_000
    with watched(ECHO) as (host, watcher):
        host.say(line(INITIALIZE))
        host.hear(len(line(INITIALIZE)))
        host.say_later(flood)
        assert host.hear_all() == flood
    assert watcher.dropped > 0
    assert watcher.reports()


def test_a_line_without_end_is_dropped_and_passes(monkeypatch):
    from accord_tools.watch import stdio_relay

    monkeypatch.setattr(stdio_relay, "LINE_LIMIT", 1_000)
    with watched(ECHO) as (host, watcher):
        host.say_later(b"x" * 100_000)
        assert host.hear_all() == b"x" * 100_000
    assert watcher.dropped == 2


def test_a_fault_of_the_judge_stops_nothing(monkeypatch):
    from accord.protocol.monitor import Monitor

    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Monitor, "observe", fail)
    with watched(ECHO) as (host, watcher):
        host.say_later(line(LIST) * 3)
        assert host.hear_all() == line(LIST) * 3
    assert watcher.trouble == "internal error, please report it: RuntimeError: a bug"


def test_one_changed_line_in_the_configuration_of_a_host_is_enough():
    from accord.client import blocking

    command = [sys.executable, "-m", "accord.cli.main", "run", "examples/ten_lines.py"]
    watch = [sys.executable, "-m", "accord.cli.main", "watch", "--"]
    said = []
    with blocking.connect([*watch, *command], stderr=said.append) as client:
        assert [each.name for each in client.tools()]
    until_sync(lambda: any(", score " in each for each in said))
    assert not any("FAIL" in each for each in said)
