import json
import subprocess
import sys
from pathlib import Path

import pytest

from accord.cli.call import _show_progress
from accord.types import REVISION_IDS, ProgressParams
from cli.conftest import ACCORD


def test_the_result_goes_to_stdout_and_the_rest_to_stderr(accord, good):
    done = accord("call", good, "work")
    assert (done.returncode, done.stdout) == (0, "done\n")
    notes = done.stderr.splitlines()
    for line in ("progress 1 of 2: half", "warning: careful", 'info (deep): {"a": 1}', "on stderr"):
        assert line in notes


def test_arguments_are_read_by_the_schema_of_the_tool(accord, desk):
    done = accord(
        *("call", desk, "kinds", "number=1.5", "flag=yes", "colour=blue", "words=a, b"),
        *('point:={"x": 1, "y": 2}', "level=2", "maybe=3", "either=x"),
    )
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout).values()) == [
        *("1.5", "True", "<Colour.BLUE: 'blue'>", "['a', 'b']", "Point(x=1, y=2)", "2", "3", "'x'")
    ]


def test_options_may_be_anywhere_on_the_command_line(accord, desk):
    for words in (
        ["--json", '{"a": 1}', desk, "add", "b=5"],
        [desk, "--json", '{"a": 1}', "add", "b=5"],
        [desk, "add", "--json", '{"a": 1}', "b=5"],
        [desk, "add", "b=5", "--json", '{"a": 1}'],
    ):
        assert accord("call", *words).stdout == "6\n"


def test_arguments_can_be_read_from_standard_input(accord, desk):
    assert accord("call", desk, "add", "--json", "-", data='{"a": 40}').stdout == "42\n"


def test_json_is_the_whole_result(accord, desk):
    done = accord("call", desk, "add", "a=1", "--format", "json", "--revision", "2025-11-25")
    assert json.loads(done.stdout) == {
        "content": [{"type": "text", "text": "3"}],
        "structuredContent": {"result": 3},
        "isError": False,
    }


def test_a_failing_tool_is_exit_code_1(accord, desk):
    done = accord("call", desk, "refuse")
    assert (done.returncode, done.stdout) == (1, "not today\n")


def test_a_command_after_two_dashes_is_launched(accord, good):
    done = accord("call", "add", "a=1", "b=1", "--", sys.executable, good)
    assert (done.returncode, done.stdout) == (0, "2\n")


def test_every_revision_can_be_chosen(accord, desk):
    for revision in REVISION_IDS:
        done = accord("call", desk, "add", "a=1", "--revision", revision)
        assert (done.returncode, done.stdout) == (0, "3\n")


def test_a_resource_is_read_by_its_uri_or_a_template(accord, desk):
    assert accord("call", desk, "note://today").stdout == "# today\n"
    assert accord("call", desk, "note://{name}", "name=a b").stdout == "# a b\n"


def test_bytes_are_written_to_a_file_unchanged(good):
    done = subprocess.run(
        [*ACCORD, "call", good, "pixel://one"], capture_output=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"\x89PNG\x00")


def test_bytes_are_only_described_on_a_terminal(on_terminal, desk):
    code, shown = on_terminal("call", desk, "pixel://one")
    assert code == 0
    assert "[pixel://one: image/png, 5 bytes]; redirect the output to keep it" in shown


def test_the_output_of_a_tool_cannot_control_the_terminal(accord, on_terminal, desk):
    assert r"a\x1b[2Jb" in on_terminal("call", desk, "escape")[1]
    assert accord("call", desk, "escape").stdout == "a\x1b[2Jb\n"


def test_an_error_of_the_server_is_exit_code_1(accord, desk):
    for revision, code in (("2025-11-25", -32002), ("2026-07-28", -32602)):
        done = accord("call", desk, "note://none", "--revision", revision)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"accord: resource 'note://none' not found ({code})" in done.stderr


def test_a_prompt_is_filled_in(accord, desk):
    done = accord("call", desk, "greet", "--prompt", "name=Ada", "style=cold")
    assert done.stdout == "user: Greet Ada.\nassistant: In a cold way:\n"


def test_content_other_than_text_is_described(accord, tmp_path):
    path = tmp_path / "blocks.py"
    path.write_text(
        "from accord import Server, types\nfrom accord.server import Audio, Image\n"
        "server = Server('blocks')\n"
        "@server.tool\ndef blocks() -> list:\n"
        "    return ['text', Image(b'12345'), Audio(b'1234567'),\n"
        "        types.ResourceLink('note://a', 'a', title='A note'),\n"
        "        types.EmbeddedResource(types.ResourceContents('note://b', text='inside')),\n"
        "        types.EmbeddedResource(types.ResourceContents('note://c', blob='AAAA'))]\n"
    )
    assert accord("call", path, "blocks").stdout.splitlines() == [
        "text",
        "[image/png, 5 bytes]",
        "[audio/wav, 7 bytes]",
        "[A note: note://a]",
        "inside",
        "[note://c: bytes, 3 bytes]",
    ]


def test_a_question_without_a_terminal_is_declined(accord, desk):
    done = accord("call", desk, "book")
    assert (done.returncode, done.stdout) == (1, "the user declined to answer\n")
    assert "the server asks: Which seat?" in done.stderr
    assert (
        "declined: there is no terminal to answer on; add --answer row=... (integer)" in done.stderr
    )


def test_a_question_is_answered_by_options_where_there_is_no_terminal(accord, desk):
    done = accord("call", desk, "book", "--answer", "row=7", "--answer", "side=aisle")
    assert (done.returncode, done.stdout) == (0, "row 7, aisle\n")
    # Fields with a default may be left out; values may be JSON.
    done = accord("call", desk, "book", "--answer", "row:=8")
    assert (done.returncode, done.stdout) == (0, "row 8, window\n")


def test_an_answer_that_does_not_fit_declines_and_says_why(accord, desk):
    done = accord("call", desk, "book", "--answer", "row=seven")
    assert (done.returncode, done.stdout) == (1, "the user declined to answer\n")
    assert "declined: --answer row: expected integer, got 'seven'" in done.stderr


def test_a_question_without_fields_is_answered_with_agree(accord, tmp_path):
    path = tmp_path / "agreeing.py"
    path.write_text(
        "from dataclasses import dataclass\nfrom accord import Context, Server\n"
        "server = Server('agreeing')\n@dataclass\nclass Nothing: ...\n"
        "@server.tool\nasync def go(ctx: Context) -> str:\n"
        "    await ctx.elicit('Go on?', Nothing)\n    return 'gone'\n"
    )
    done = accord("call", path, "go")
    assert done.returncode == 1
    assert "add --answer agree=yes" in done.stderr
    assert accord("call", path, "go", "--answer", "agree=yes").stdout == "gone\n"
    assert accord("call", path, "go", "--answer", "agree=no").returncode == 1


@pytest.fixture
def talk_on_terminal(converse, desk):
    """Call a tool on a terminal, typing an answer to each prompt; return its stdout."""

    def talk(answers, *words):
        return converse("call", desk, *(words or ["book"]), typed=answers, is_piped=True)

    return talk


def test_a_question_is_asked_on_the_terminal(talk_on_terminal):
    answers = [
        ("row (integer): ", b"seven\n"),
        ("expected integer, got 'seven'", b"7\n"),
        ("side (aisle|window) [window]: ", b"aisle\n"),
    ]
    assert talk_on_terminal(answers) == (0, "row 7, aisle\n")


def test_an_empty_answer_takes_the_default_and_is_refused_without_one(talk_on_terminal):
    answers = [
        ("row (integer): ", b"\n"),
        ("row (integer): ", b"3\n"),
        ("side (aisle|window) [window]: ", b"\n"),
    ]
    assert talk_on_terminal(answers) == (0, "row 3, window\n")


@pytest.mark.parametrize(("typed", "meant"), [("y", True), ("N", False), ("yes", True)])
def test_a_boolean_can_be_answered_with_y_or_n(talk_on_terminal, typed, meant):
    answers = [
        ("sure (boolean, y or n): ", b"perhaps\n"),
        ("expected boolean, got 'perhaps'; write true or false, yes or no, y or n", b""),
        ("sure (boolean, y or n): ", f"{typed}\n".encode()),
        ("mood (string) [calm]: ", b"\n"),
    ]
    assert talk_on_terminal(answers, "decide") == (0, f"{meant}, calm\n")


def test_only_fields_without_an_answer_option_are_asked_on_the_terminal(talk_on_terminal):
    answers = [("side (aisle|window) [window]: ", b"aisle\n")]
    assert talk_on_terminal(answers, "book", "--answer", "row=9") == (0, "row 9, aisle\n")


def test_the_end_of_input_declines(talk_on_terminal):
    answers = [("row (integer): ", b"\x04")]
    assert talk_on_terminal(answers) == (1, "the user declined to answer\n")


MISTAKES = [
    (["add"], "add needs a (integer); add a=..."),
    (["kinds"], "kinds needs number (number), flag (boolean), colour (blue|red), words (list of"),
    (["ad", "a=1"], "there is no tool ad; did you mean add?"),
    (["zzzzzz"], "there is no tool zzzzzz; there are add, kinds, work, refuse, book, decide"),
    (["greet", "name=x"], "there is no tool greet, but a prompt of that name: add --prompt"),
    (["add", "a=one"], "argument a of add: expected integer, got 'one'"),
    (["add", "a=1", "a=2"], "argument a of add: given 2 times, expected one integer"),
    (["add", "a=1", "bb=2"], "add has no argument bb; did you mean b?"),
    (["add", "a=1", "zzz=2"], "add has no argument zzz; it takes a: integer, b: integer = 2"),
    (["add", "1"], "'1' is not an argument; expected key=value or key:=JSON"),
    (["add", "a:=x"], "a:= takes JSON; 'x' is not JSON: "),
    (["add", "--json", "[1]"], "--json takes an object of arguments, such as '{\"a\": 1}'"),
    (["greet", "--prompt"], "greet needs name; add name=..."),
    (["gret", "--prompt"], "there is no prompt gret; did you mean greet?"),
    (["note://{name}"], "note://{name} needs name; add name=..."),
    (["note://x", "name=y"], "note://x takes no arguments; only a template has {variables}"),
    (["note://{", "name=y"], "note://{ is not a URI template: "),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_explained_in_one_line(accord, desk, words, said):
    done = accord("call", desk, *words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"accord: {said}")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "call needs a TARGET and the NAME of a tool, a resource or a prompt"),
        (["--", "sh"], "call needs a TARGET and the NAME of a tool, a resource or a prompt"),
        (["good.py"], "call needs the NAME of a tool; accord list good.py shows them"),
        (["http://x/mcp"], "call needs the NAME of a tool; accord list http://x/mcp shows them"),
        (["goof.py"], "there is no file goof.py; did you mean good.py?"),
        (["sh", "server.sh", "add"], "sh is a command; write it after --: -- sh server"),
        (["good.py", "add", "--wat"], "there is no option --wat"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(accord, good, args, said):
    done = accord("call", *args, cwd=good.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {said}")
    assert done.stderr.count("\n") == 1


def test_a_server_that_dies_in_a_call_is_quoted(accord, tmp_path):
    path = tmp_path / "dying.py"
    path.write_text(
        "import os, sys\nfrom accord import Server\nserver = Server('dying')\n"
        "@server.tool\ndef die() -> None:\n"
        "    print('last words', file=sys.stderr, flush=True)\n    os._exit(9)\n"
    )
    done = accord("call", path, "die")
    assert (done.returncode, done.stdout) == (2, "")
    assert "last words" in done.stderr
    assert "ended with exit code 9" in done.stderr


def test_a_call_that_takes_too_long_is_exit_code_2(accord):
    # It starts at once: the limit is for that as well.
    loose = Path(__file__).parent.parent / "check" / "contract" / "loose.py"
    command = (sys.executable, "-S", "-E", loose, "hangs")
    done = accord("call", "--timeout", "2", "count", "a=13", "--", *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "tools/call: no answer within 2 s" in done.stderr


@pytest.mark.parametrize(
    ("done", "total", "shown"),
    [
        (1_500_000, 3_000_000, "progress 1500000 of 3000000"),
        (0.5, None, "progress 0.5"),
        (2.0, 2.5, "progress 2 of 2.5"),
    ],
)
def test_progress_is_shown_in_plain_numbers(done, total, shown, capsys):
    _show_progress(ProgressParams("token", done, total))
    assert capsys.readouterr().err == f"{shown}\n"
