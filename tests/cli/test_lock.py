"""`accord lock` and `accord verify`, as users run them."""

import json

import pytest

SERVER = '''
from accord import Server

server = Server("small")


@server.tool
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@server.prompt
def hello() -> str:
    """Say hello."""
    return "hello"
'''


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SERVER)
    return path


def test_a_locked_server_is_verified(accord, small):
    done = accord("lock", small, cwd=small.parent)
    assert (done.returncode, done.stdout) == (0, "")
    locked = json.loads((small.parent / "accord.lock").read_text())
    assert [each["name"] for each in locked["tools"]] == ["add"]
    assert locked["tools"][0]["inputSchema"]["required"] == ["a"]
    done = accord("verify", small, cwd=small.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "nothing changed since accord.lock\n"


def test_a_change_fails_and_shows_the_old_and_the_new_value(accord, small):
    lock = small.parent / "my.lock"
    accord("lock", small, "--output", lock)
    changed = SERVER.replace("Add two numbers", "Adds some numbers").replace(
        "b: int = 0", "b: str = ''"
    )
    small.write_text(changed.replace("def hello", "def welcome"))
    done = accord("verify", small, "--lock", lock)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "tool add: description changed",
        '  - "Add two numbers."',
        '  + "Adds some numbers."',
        "tool add: inputSchema.properties.b.default changed",
        "  - 0",
        '  + ""',
        "tool add: inputSchema.properties.b.type changed",
        '  - "integer"',
        '  + "string"',
        "prompt hello: removed",
        "prompt welcome: added",
        f"5 changes since {lock}; if they are wanted:",
        f"  accord lock {small} --output {lock}",
    ]
    done = accord("verify", small, "--lock", lock, "--format", "json")
    found = json.loads(done.stdout)
    assert found[0] == {
        "subject": "tool add",
        "what": "description changed",
        "before": '"Add two numbers."',
        "after": '"Adds some numbers."',
    }


def test_verify_speaks_the_revision_of_the_lock(accord, small):
    accord("lock", small, "--revision", "2024-11-05", cwd=small.parent)
    assert json.loads((small.parent / "accord.lock").read_text())["revision"] == "2024-11-05"
    assert accord("verify", small, cwd=small.parent).returncode == 0


def test_a_lock_is_the_same_each_time(accord, small):
    first = accord("lock", small, "--output", "-")
    assert first.stdout == accord("lock", small, "--output", "-").stdout
    assert first.stdout.endswith("}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lock",), "lock needs a TARGET: a URL, a Python file, a module, or -- and a command"),
        (("verify",), "verify needs a TARGET: a URL, a Python file, a module, or -- and a command"),
        (("verify", "small.py"), "accord.lock does not exist; accord lock writes it"),
        (("lock", "small.py", "--output", "/dev/full"), "/dev/full: No space left on device"),
        (("lock", "small.py", "--output", "none/x"), "none/x: there is no folder none"),
        (("lock", "none.py"), "there is no file none.py"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_2(accord, small, words, said):
    done = accord(*words, cwd=small.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
