import os
import pty
import select
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from cli.servers import GOOD
from support.command_line import PLAIN, command_line
from support.http_server import bounded

__all__ = ["ACCORD", "PLAIN", "read_terminal"]

TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "80"}
ACCORD = [sys.executable, "-m", "accord.cli.main"]


@pytest.fixture
def accord():
    """Run a command in its own process; return its output and exit code."""

    def run(*args, data=None, cwd=None, **env):
        return command_line().run(args, data=data, cwd=cwd, env=env)

    return run


@pytest.fixture
def good(tmp_path):
    """A file with a server, which commands launch."""
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    return path


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """The URL of the same server in this process, for tests in which no launch matters."""
    path = tmp_path_factory.mktemp("desk") / "desk.py"
    path.write_text(GOOD)
    spec = spec_from_file_location("cli_desk", path)
    module = sys.modules["cli_desk"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    with bounded(module.server.asgi()) as port:
        yield f"http://127.0.0.1:{port}/mcp"
    del sys.modules["cli_desk"]


@pytest.fixture
def converse():
    """Run a command on a terminal, typing an answer to each prompt; return code and output.

    With `is_piped` stdout is not the terminal, and the output is what was written there.
    """

    def run(*args, typed=(), cwd=None, is_piped=False):
        main_end, terminal = pty.openpty()
        piped, stdout = os.pipe() if is_piped else (None, terminal)
        wait = command_line().start(args, (terminal, stdout, terminal), cwd=cwd, env=TERMINAL)
        for end in {terminal, stdout}:
            os.close(end)
        shown, seen, left = b"", 0, list(typed)
        while chunk := read_terminal(main_end):
            shown += chunk
            while left and (at := shown.find(left[0][0].encode(), seen)) >= 0:
                prompt, answer = left.pop(0)
                seen = at + len(prompt.encode())
                os.write(main_end, answer)
        os.close(main_end)
        assert not left, shown
        if is_piped:
            with os.fdopen(piped, "rb") as file:
                shown = file.read()
        return wait(), shown.decode()

    return run


@pytest.fixture
def on_terminal():
    """Run a command on a terminal of 80 columns; return its exit code and output."""

    def run(*args, **env):
        main_end, terminal = pty.openpty()
        with open(os.devnull, "rb") as nothing:
            wait = command_line().start(
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
