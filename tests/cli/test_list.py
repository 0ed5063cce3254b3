import json
import sys

import pytest

from accord.types import REVISION_IDS


def test_a_pipe_gets_one_line_per_entry_with_tabs(accord, good):
    done = accord("list", good)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert all(len(row) == 3 for row in rows)
    assert ["tool", "add(a: integer, b: integer = 2)", "Add two numbers."] in rows
    assert ["resource", "pixel://one", "pixel (image/png): A pixel."] in rows
    assert ["resource template", "note://{name}", "note (text/markdown): A note."] in rows
    assert ["prompt", "greet(name, style?)", "Greet a person."] in rows


def test_the_types_of_arguments_are_named(accord, desk):
    (row,) = [line for line in accord("list", desk).stdout.splitlines() if "kinds" in line]
    assert row.split("\t")[1] == (
        "kinds(number: number, flag: boolean, colour: blue|red, words: list of string, "
        'point: object, level: 1|2 = 1, maybe: integer|null = null, either: integer|string = "")'
    )


def test_json_has_every_member_that_the_server_sent(accord, desk):
    done = accord("list", desk, "--format", "json", "--revision", "2025-06-18")
    shown = json.loads(done.stdout)
    assert shown["server"] == {"name": "desk", "version": "1.2.0", "title": "The desk"}
    assert (shown["revision"], shown["instructions"]) == ("2025-06-18", "Be kind.")
    assert shown["tools"][0]["inputSchema"]["properties"]["a"] == {"type": "integer"}
    assert [each["uri"] for each in shown["resources"]] == ["pixel://one"]
    assert [each["uriTemplate"] for each in shown["resourceTemplates"]] == ["note://{name}"]
    assert [each["name"] for each in shown["prompts"]] == ["greet"]


def test_a_terminal_gets_columns_and_colours(on_terminal, desk):
    code, shown = on_terminal("list", desk)
    assert code == 0
    lines = shown.splitlines()
    assert lines[0].startswith("\x1b[1mThe desk\x1b[0m 1.2.0, revision ")
    assert lines[1] == "Be kind."
    assert "\x1b[1mtools\x1b[0m" in lines
    assert "  \x1b[36madd(a: integer, b: integer = 2)\x1b[0m       Add two numbers." in lines
    assert "\x1b[1mresource templates\x1b[0m" in lines


def test_the_text_of_a_server_cannot_control_the_terminal(on_terminal, desk):
    _, shown = on_terminal("list", desk, NO_COLOR="1")
    assert "\x1b" not in shown
    assert r"Do mischief \x1b[2J." in shown


def test_an_empty_server_is_not_an_error(accord, on_terminal, tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("from accord import Server\nserver = Server('empty')\n")
    done = accord("list", path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no tools, resources or prompts\n"
    assert "no tools, resources or prompts" in on_terminal("list", path)[1]


def test_a_command_after_two_dashes_is_launched(accord, good):
    done = accord("list", "--format", "json", "--", sys.executable, good)
    assert done.returncode == 0
    assert json.loads(done.stdout)["server"]["name"] == "desk"


def test_a_server_that_prints_to_stdout_is_warned_about_and_listed(accord, good):
    done = accord("list", "--", sys.executable, good)
    assert done.returncode == 0
    assert "add(" in done.stdout
    assert "accord: skipped a message of the server" in done.stderr
    assert "a server must print other output to stderr" in done.stderr


SEEING = """\
import os
from accord import Server
server = Server("seeing", instructions=f"{os.environ.get('GIVEN')} {os.environ.get('OURS')}")

@server.resource("file://here")
def here() -> str:
    return os.getcwd()
"""


def test_the_server_gets_the_variables_of_the_shell_and_options_and_its_folder(accord, tmp_path):
    path = tmp_path / "seeing.py"
    path.write_text(SEEING)
    other = tmp_path / "other"
    other.mkdir()
    done = accord(
        *("list", "seeing.py", "--format", "json", "--env", "GIVEN=a=b", "--cwd", "other"),
        cwd=tmp_path,
        OURS="ours",
    )
    assert json.loads(done.stdout)["instructions"] == "a=b ours"
    done = accord("call", "seeing.py", "file://here", "--cwd", other, cwd=tmp_path)
    assert done.stdout == f"{other}\n"


FAILURES = {
    "it exits at start": (
        "import sys\nprint('no licence', file=sys.stderr)\nsys.exit(3)\n",
        ["ended with exit code 3 before it answered initialize", "no licence"],
    ),
    "it prints and exits": ("print('hello')\n", ["ended with exit code 0", "it said: hello"]),
    "it raises": ("1 / 0\n", ["ended with exit code 1", "ZeroDivisionError: division by zero"]),
    "it never answers": ("import sys\nsys.stdin.read()\n", ["no answer to initialize within 1 s"]),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_server_that_does_not_start_is_quoted(accord, tmp_path, name):
    text, expected = FAILURES[name]
    path = tmp_path / "failing.py"
    path.write_text(text)
    # The others end by themselves, however slow the machine.
    seconds = 1 if name == "it never answers" else 60
    done = accord("list", "--timeout", seconds, "--", sys.executable, path)
    assert (done.returncode, done.stdout) == (2, "")
    for part in expected:
        assert part in done.stderr


def test_a_lifespan_that_fails_is_quoted(accord, tmp_path):
    path = tmp_path / "failing.py"
    path.write_text(
        "from contextlib import asynccontextmanager\nfrom accord import Server\n"
        "@asynccontextmanager\nasync def life(server):\n"
        "    raise OSError('no database')\n    yield\n"
        "server = Server('failing', lifespan=life)\n"
    )
    done = accord("list", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "OSError: no database" in done.stderr


def test_a_list_that_the_server_refuses_is_exit_code_1(accord, tmp_path):
    path = tmp_path / "refusing.py"
    path.write_text(
        "from accord import Server\nfrom accord.errors import InternalError\n"
        "async def refuse(ctx, proceed):\n"
        "    if ctx.method == 'tools/list':\n        raise InternalError('out of tools')\n"
        "    return await proceed()\n"
        "server = Server('refusing', middleware=[refuse])\n"
        "@server.tool\ndef a() -> None: ...\n"
    )
    done = accord("list", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "accord: tools/list failed: out of tools (-32603)" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "list needs a TARGET: a URL, a Python file, a module, or -- and a command"),
        (["sh", "server.sh"], "sh is a command; write it after --: -- sh server.sh"),
        (["good.py", "--", "x"], "either good.py or the command after --, not both"),
        (["good.py", "more"], "list takes one TARGET; unexpected more"),
        (["--", "no-such-command"], "no-such-command: could not be started: 'no-such-command' was"),
        (["good.py", "--cwd", "nowhere"], "--cwd: there is no folder nowhere"),
        (["good.py", "--env", "X"], "argument --env: 'X' is not a variable, expected K=V"),
        (["good.py", "--timeout", "x"], "argument --timeout: 'x' is not a number of seconds"),
        (
            ["good.py", "--revision", "1"],
            f"unknown revision '1'; known: {', '.join(REVISION_IDS)}\n",
        ),
        (["good.py", "--format", "xml"], "unknown format 'xml'; known: text, json"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(accord, good, args, said):
    done = accord("list", *args, cwd=good.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {said}")
    assert done.stderr.count("\n") == 1
