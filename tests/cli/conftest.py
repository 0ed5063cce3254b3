import os
import pty
import select
import subprocess
import sys

import pytest

ACCORD = [sys.executable, "-m", "accord.cli.main"]
PLAIN = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}


@pytest.fixture
def accord():
    """Run the command line as a process of its own; returns what it printed and its exit code."""

    def run(*args, data=None, cwd=None, **env):
        return subprocess.run(
            [*ACCORD, *map(str, args)],
            input=data,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            cwd=cwd,
            env={**PLAIN, "PYTHONUTF8": "1", **env},
            check=False,
        )

    return run


@pytest.fixture
def on_terminal():
    """Run the command line on a terminal of 80 columns; returns what the terminal got."""

    def run(*args, **env):
        main_end, terminal = pty.openpty()
        process = subprocess.Popen(
            [*ACCORD, *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env={**PLAIN, "TERM": "xterm-256color", "COLUMNS": "80", **env},
        )
        os.close(terminal)
        got = b""
        while chunk := read_terminal(main_end):
            got += chunk
        os.close(main_end)
        return process.wait(timeout=120), got.decode().replace("\r\n", "\n")

    return run


def read_terminal(terminal):
    """Return what came next on a terminal; nothing once its other end is closed."""
    ready, _, _ = select.select([terminal], [], [], 120)
    assert ready, "the command neither says anything nor ends"
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
