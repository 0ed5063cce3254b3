"""`accord run --reload`: a new process on the same port after each change."""

import json
import os
import signal
import subprocess

import pytest

from cli.conftest import ACCORD, PLAIN
from cli.test_run_http import CALL, post
from support.waiting import LONG, until_sync

SERVER = """\
import os
from accord import Server
from helper import VALUE

server = Server("desk")

@server.tool
def add(a: int, b: int) -> str:
    "Add."
    return f"{{VALUE}} {{os.getpid()}} {text}"
"""


def write(path, text):
    """Replace a file in one step, as most editors do."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


class Reloading:
    """The command with its server, and what it prints."""

    def __init__(self, folder):
        self.folder = folder
        write(folder / "helper.py", "VALUE = 1\n")
        write(folder / "desk.py", SERVER.format(text="one"))
        command = [*ACCORD, "run", "desk.py", "--http", "--port", "0", "--reload", "--no-sessions"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=PLAIN,
            text=True,
            cwd=folder,
        )
        self.url = self.wait_for(" is served at ").split(" is served at ")[1].split(";")[0]

    def wait_for(self, text):
        """Return the next line that contains a text."""
        for line in self.process.stderr:
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}")

    def ask(self):
        """Call the tool; return what it says, and the process that answered."""
        status, answer = post(self.url, CALL)
        assert status == 200, answer
        value, pid, text = json.loads(answer)["result"]["content"][0]["text"].split()
        return value, text, int(pid)


@pytest.fixture
def reloading(tmp_path):
    made = Reloading(tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_change_is_served_on_the_same_port_and_ctrl_c_ends_both(reloading):
    value, text, first = reloading.ask()
    assert (value, text) == ("1", "one")
    # Of equal size and in the same second as the last version.
    write(reloading.folder / "helper.py", "VALUE = 2\n")
    assert "helper.py changed; the server restarts" in reloading.wait_for("changed")
    # No waiting for the new server: the request waits for it.
    value, text, second = reloading.ask()
    assert (value, text) == ("2", "one")
    assert second != first
    assert is_gone(first)
    reloading.process.send_signal(signal.SIGINT)
    assert reloading.process.wait(LONG) == 0
    assert is_gone(second)


def test_after_an_error_it_waits_for_the_repair(reloading):
    desk = reloading.folder / "desk.py"
    write(desk, SERVER.format(text="two") + "def broken(:\n")
    said = reloading.wait_for("the last version goes on")
    assert said.startswith("accord: desk.py:11: ")
    assert "def broken(:; the last version goes on until the next change" in said
    assert reloading.ask()[1] == "one"
    write(desk, SERVER.format(text="two") + "1 / 0\n")
    assert "ZeroDivisionError" in reloading.wait_for("desk.py:11")
    assert "exit code 2; requests wait until a file changes" in reloading.wait_for("exit code")
    write(desk, SERVER.format(text="three"))
    assert reloading.ask()[1] == "three"


def test_the_server_ends_when_its_parent_is_killed(reloading):
    child = reloading.ask()[2]
    reloading.process.kill()
    until_sync(lambda: is_gone(child))
