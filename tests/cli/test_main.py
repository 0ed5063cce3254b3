import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import pytest

from accord.cli.main import _describe_fault, main
from accord.cli.options import one_of
from support.waiting import until_sync


def test_the_version_is_that_of_the_package(accord):
    done = accord("--version")
    assert (done.returncode, done.stdout) == (0, f"accord {version('accord')}\n")


def test_the_package_can_be_run_with_python_m():
    done = subprocess.run(
        [sys.executable, "-m", "accord", "--version"], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"accord {version('accord')}\n", "")


def test_help_shows_commands_and_examples(accord):
    done = accord("--help")
    assert done.returncode == 0
    for expected in ("requirements", "check", "examples:", "accord check trace session.jsonl"):
        assert expected in done.stdout


def test_every_command_has_help_with_examples(accord):
    for command in (("requirements",), ("check", "trace")):
        done = accord(*command, "--help")
        assert done.returncode == 0
        assert "examples:" in done.stdout


def test_bad_usage_is_one_line_on_stderr_and_exit_code_2(accord):
    for args in ((), ("nope",), ("check",), ("requirements", "--nope"), ("check", "trace")):
        done = accord(*args)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("accord: ")
        assert done.stderr.count("\n") == 1


def test_the_command_line_starts_without_the_catalogue_and_without_rich():
    code = (
        "import sys; before = set(sys.modules); import accord.cli.main;"
        "unwanted = {'accord.protocol', 'accord_tools.check', 'rich', 'asyncio', 'tomllib'};"
        "print(sorted(unwanted & (set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_closed_pipe_is_not_an_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "requirements"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_stderr_is_not_an_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "nope"],
        stderr=write_end,
        timeout=120,
        check=False,
    )
    os.close(write_end)
    assert done.returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_not_an_error(closed):
    done = _shell(f"requirements --area ping {closed}")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_is_exit_code_2():
    done = _shell("requirements > /dev/full")
    assert (done.returncode, done.stderr) == (2, b"accord: No space left on device\n")


def test_closed_standard_input_cannot_be_judged():
    done = _shell("check trace - <&-")
    assert (done.returncode, done.stderr) == (2, b"accord: -: standard input is closed\n")


def _shell(line):
    return subprocess.run(
        ["sh", "-c", f'"$0" -m accord.cli.main {line}', sys.executable],
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_an_internal_error_is_exit_code_2():
    with pytest.raises(ValueError) as caught:
        int("x")
    described = _describe_fault(caught.value)
    assert described.startswith("ValueError: invalid literal for int() with base 10: 'x' at ")
    assert f"{__file__}:" in described


def test_an_interrupt_prints_nothing():
    process = subprocess.Popen(
        [sys.executable, "-m", "accord.cli.main", "check", "trace", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # More than a pipe holds: when all of it is written, the command is reading.
    process.stdin.write(b'{"from":"client","message":{}}\n' * 20_000)
    process.stdin.flush()
    # Python may drop it, as in a finalizer: then it is repeated.
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
            break
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_an_ascii_terminal_gets_escapes_instead_of_an_error():
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "requirements", "é"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert b"\\xe9" in done.stderr


def test_main_returns_the_exit_code(capsys):
    assert main(["requirements", "--area", "ping"]) == 0
    assert "ping.request.either-party" in capsys.readouterr().out
    assert main(["requirements", "--area", "pong"]) == 2
    assert "accord: unknown area 'pong'" in capsys.readouterr().err


def test_a_value_is_found_in_any_case_and_with_any_separator():
    for spelling in ("MUST NOT", "must not", "must-not", "Must_Not"):
        assert one_of(spelling, ("MUST", "MUST NOT"), "level") == "MUST NOT"


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such signals")
@pytest.mark.parametrize("number", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("ctrl_c", ["heeded", "ignored"])
def test_a_signal_ends_a_command_and_the_server_it_launched(tmp_path, ctrl_c, number):
    """Shells make background jobs ignore Ctrl-C."""
    pid_file = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()}.'); time.sleep(60)"
    launched = [sys.executable, "-c", code, str(pid_file)]
    ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"] if ctrl_c == "ignored" else []
    process = subprocess.Popen(
        [*ignoring, sys.executable, "-m", "accord.cli.main", "list", "--", *launched],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until_sync(lambda: pid_file.exists() and pid_file.read_text().endswith("."))
        process.send_signal(getattr(signal, number))
        out, err = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, err) == (130, b"", b"")
    until_sync(lambda: is_gone(int(pid_file.read_text()[:-1])))


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such signals")
def test_a_command_that_ignores_a_closed_terminal_goes_on_as_under_nohup(tmp_path):
    pid_file = tmp_path / "pid"
    code = "import sys; open(sys.argv[1], 'w').write('.'); sys.stdin.readline()"
    ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]
    launched = [sys.executable, "-c", code, str(pid_file)]
    process = subprocess.Popen(
        [*ignoring, sys.executable, "-m", "accord.cli.main", "list", "--", *launched],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    until_sync(pid_file.exists)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2  # the server ended without an answer
    assert err.startswith(b"accord: ")


# Makes stdin the controlling terminal of a new session, as a terminal window does.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such terminals")
def test_a_closed_terminal_ends_a_command_and_the_server_it_launched(tmp_path):
    pid_file = tmp_path / "pid"
    code = "import os, sys, time; open(sys.argv[1], 'w').write(f'{os.getpid()}.'); time.sleep(60)"
    launched = [sys.executable, "-c", code, str(pid_file)]
    command = [sys.executable, "-m", "accord.cli.main", "list", "--", *launched]
    main_end, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_TERMINAL, *command],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        until_sync(lambda: pid_file.exists() and pid_file.read_text().endswith("."))
        os.close(main_end)  # the kernel sends SIGHUP, and writing to the terminal fails from now on
        assert process.wait(timeout=60) == 130
        until_sync(lambda: is_gone(int(pid_file.read_text()[:-1])))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def is_gone(pid):
    """Return whether a process has ended; its parent may not have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
