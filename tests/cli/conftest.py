import os
import pty
import select
import subprocess
import sys

import pytest

from support.command_line import PLAIN, CommandLine

__all__ = ["ACCORD", "PLAIN", "read_terminal"]

TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "80"}
ACCORD = [sys.executable, "-m", "accord.cli.main"]


@pytest.fixture(scope="session")
def command_line():
    """The command line, ready to be forked."""
    made = CommandLine()
    yield made
    made.close()


@pytest.fixture
def accord(command_line):
    """Run a command in its own process; return its output and exit code."""

    def run(*args, data=None, cwd=None, **env):
        return command_line.run(args, data=data, cwd=cwd, env=env)

    return run


@pytest.fixture
def on_terminal(command_line):
    """Run a command on a terminal of 80 columns; return its exit code and output."""

    def run(*args, **env):
        main_end, terminal = pty.openpty()
        with open(os.devnull, "rb") as nothing:
            wait = command_line.start(
                args, (nothing.fileno(), terminal, terminal), env={**TERMINAL, **env}
            )
        os.close(terminal)
        printed = read_all(main_end)
        return wait(), printed

    return run


@pytest.fixture
def launched_on_terminal():
    """The same with a new interpreter, for decisions that are made when it starts."""

    def run(*args, **env):
        main_end, terminal = pty.openpty()
        process = subprocess.Popen(
            [*ACCORD, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env={**PLAIN, **TERMINAL, **env},
        )
        os.close(terminal)
        printed = read_all(main_end)
        return process.wait(timeout=120), printed

    return run


def read_all(terminal):
    """Return everything that is written to a terminal until its other end is closed."""
    got = b""
    while chunk := read_terminal(terminal):
        got += chunk
    os.close(terminal)
    return got.decode().replace("\r\n", "\n")


def read_terminal(terminal):
    """Return the next output of a terminal; empty when its other end is closed."""
    ready, _, _ = select.select([terminal], [], [], 120)
    assert ready, "the command neither says anything nor ends"
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
