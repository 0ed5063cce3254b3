"""`accord test`, as users run it."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from accord import Server
from accord.types import ToolAnnotations
from support.http_server import serving

LOOSE = Path(__file__).parent.parent / "check" / "contract" / "loose.py"
EXAMPLE = Path(__file__).parents[2] / "examples" / "everything.accord.toml"
SERVER = '''
from accord import Server, types

server = Server("small")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def save(text: str) -> str:
    """Save a text."""
    open("saved.txt", "a").write(text)
    return "saved"
'''


def loose(habit):
    return "--", sys.executable, "-S", "-E", str(LOOSE), habit


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(SERVER)
    return path


def test_a_good_server_passes_with_exit_code_0(accord, small):
    done = accord("test", small, cwd=small.parent)
    assert done.returncode == 0
    assert done.stderr.startswith("will call, each at most 150 times (--calls): add\n")
    assert done.stdout.splitlines()[0] == str(small)
    assert "  ok   add answers valid arguments\n" in done.stdout
    assert "  skip save is not called (it might change data (no readOnlyHint)" in done.stdout
    assert "0 failed, 1 skipped; " in done.stdout
    left = {each.name for each in small.parent.iterdir()} - {"small.py", "__pycache__"}
    assert left == set()


def test_a_bad_server_fails_with_exit_code_1_and_the_command_that_repeats_it(accord):
    done = accord("test", "--quiet", *loose("misfit"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[1:3] == ["  FAIL count answers valid arguments", '       sent:     {"a": 40}']
    assert "       again:    accord call count --unchecked --json '{\"a\": 40}' -- " in done.stdout
    assert "ok " not in done.stdout


def test_memory_runs_a_file_in_this_process(accord, small):
    words = ("--transport", "memory", "--allow-writes", "--examples", "2")
    done = accord("test", small, *words, cwd=small.parent)
    assert done.returncode == 0
    assert done.stderr == "will call, each at most 150 times (--calls): add, save\n"
    assert "0 skipped" in done.stdout
    assert (small.parent / "saved.txt").exists()


def test_the_example_of_cases_passes_and_names_its_own_target(accord):
    done = accord("test", "--cases", EXAMPLE, "--only-cases")
    assert (done.returncode, done.stderr) == (0, "")
    assert "7 passed, 0 failed, 0 skipped; 8 requests" in done.stdout


def test_json_and_junit_have_the_same_results(accord, tmp_path):
    xml, plain = tmp_path / "out.xml", tmp_path / "out.json"
    words = ("--quiet", "--examples", "2", "--output", xml, "--output", plain)
    done = accord("test", *words, *loose("lax-prompt"))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("14 passed, 1 failed, 1 skipped; ")
    report = json.loads(plain.read_text())
    assert (report["passed"], report["failed"], report["skipped"]) == (14, 1, 1)
    (failed,) = (each for each in report["tests"] if each["verdict"] == "fail")
    assert failed["name"] == "prompt hello refuses a request without name"
    assert failed["expected"] == "a refusal: error -32602"
    root = ET.parse(xml).getroot()
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("17", "1", "1")
    (case,) = (each for each in root.iter("testcase") if each.find("failure") is not None)
    assert case.get("name") == failed["name"]
    assert "received:" in case.find("failure").text


def test_the_report_has_the_requested_format(accord):
    done = accord("test", "--format", "json", "--examples", "2", *loose("good"))
    report = json.loads(done.stdout)
    (valid,) = (each for each in report["tests"] if each["name"] == "count answers valid arguments")
    assert valid["requests"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "test needs a TARGET: a URL, a Python file, a module, or -- and a command"),
        (("--only-cases", *loose("good")), "--only-cases needs --cases FILE"),
        (
            ("--examples", "0", *loose("good")),
            "'0' is not a number of examples, expected 1 or more",
        ),
        (("--tool", "counts", *loose("good")), "unknown tool counts; the server has count"),
        (("--format", "poem", *loose("good")), "unknown format 'poem'; known: text, json, junit"),
        (("--cases", "none.toml", *loose("good")), "none.toml: No such file or directory"),
        (("--transport", "memory", *loose("good")), "a command is reached over stdio"),
        (("--transport", "http", *loose("good")), "only a URL is reached over http"),
        (("--transport", "stdio", "http://127.0.0.1:1/mcp"), "a URL is reached over http or sse"),
        (
            ("--quiet", "--examples", "1", "--output", "/dev/full", *loose("good")),
            "/dev/full: No space left on device",
        ),
        (("--output", "none/x", *loose("good")), "none/x: there is no folder none"),
        (("--", "accord-no-such-command"), "accord-no-such-command"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_2(accord, words, said):
    done = accord("test", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_reports_contain_no_secrets(accord, small):
    env = ("--env", "KEY=hush", "--revision", "2025-06-18", "--examples", "2")
    done = accord("test", "--quiet", *env, *loose("lax-prompt"))
    assert "hush" not in done.stdout
    done = accord("test", "--quiet", *env, *loose("additional"))
    assert " --env KEY=... --revision 2025-06-18 -- " in done.stdout
    assert "hush" not in done.stdout


def test_a_server_over_http_is_tested_with_its_headers(accord):
    server = Server("web")
    seen = set()

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int = 0) -> int:
        """Add two numbers."""
        return a + b

    app = server.asgi()

    async def listened(scope, receive, send):
        seen.update(scope.get("headers", ()))
        await app(scope, receive, send)

    with serving(listened) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        done = accord("test", url, "--header", "X-Key: hush", "--examples", "3", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert (b"x-key", b"hush") in seen
    assert "hush" not in done.stdout


def test_progress_is_shown_on_a_terminal(on_terminal, small):
    code, shown = on_terminal("test", small, "--examples", "2")
    assert code == 0
    assert "testing" in shown
    assert "add answers valid arguments" in shown


def test_without_the_generator_the_extra_is_named_and_cases_still_run():
    words = ["test", "--cases", str(EXAMPLE)]
    code = "import sys; sys.modules['hypothesis'] = None; from accord.cli.main import main; "
    done = {}
    for more in ([], ["--only-cases"]):
        done[len(more)] = subprocess.run(
            [sys.executable, "-c", f"{code}sys.exit(main({[*words, *more]!r}))"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done[0].returncode == 2
    said = (
        "accord: generating arguments needs the extra 'test': "
        "run pip install '.[test]' in a checkout of accord\n"
    )
    assert done[0].stderr == said
    assert (done[1].returncode, done[1].stderr) == (0, "")


def test_a_form_of_http_that_is_chosen_wrongly_is_an_error_that_names_the_right_one(accord):
    with serving(Server("desk").asgi(sse=True)) as port:
        done = accord("test", "--transport", "http", f"http://127.0.0.1:{port}/sse")
    assert (done.returncode, done.stdout) == (2, "")
    assert "speaks HTTP with SSE (the older form), not Streamable HTTP" in done.stderr


def test_the_server_of_the_readme_is_tested_and_checked_with_calls(accord, tmp_path):
    readme = (EXAMPLE.parents[1] / "README.md").read_text()
    (tmp_path / "desk.py").write_text(readme.split("```python\n", 1)[1].split("```", 1)[0])
    tested = accord("test", "desk.py", "--examples", "3", cwd=tmp_path)
    assert "ok   add succeeds for some arguments\n" in tested.stdout
    assert "0 failed, 0 skipped; " in tested.stdout
    plan = accord("check", "server", "desk.py", "--plan", cwd=tmp_path)
    assert plan.stdout == "will call, each at most 150 times (--calls): add\n"


@pytest.fixture
def documented(tmp_path):
    page = (EXAMPLE.parents[1] / "docs" / "testing.md").read_text()
    for name, language in (("desk.py", "python"), ("desk.accord.toml", "toml")):
        block = page.split(f"```{language}\n# {name}\n", 1)[1].split("```", 1)[0]
        (tmp_path / name).write_text(block)
    return tmp_path


def test_the_cases_of_the_documentation_pass(accord, documented):
    words = ("test", "--cases", "desk.accord.toml")
    done = accord(*words, "--only-cases", cwd=documented)
    assert (done.returncode, done.stderr) == (0, "")
    assert "add: 4 calls, 3 succeeded, 1 refused\n3 passed, 0 failed" in done.stdout
    chosen = accord(*words, "--case", "what it", cwd=documented)
    assert "add: 2 calls, 2 succeeded, 0 refused\n1 passed, 0 failed" in chosen.stdout
    unknown = accord(*words, "--case", "x", cwd=documented)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no name of a case contains 'x': 'adds two numbers', 'refuses words'" in unknown.stderr


def test_update_snapshots_writes_the_results_that_later_runs_are_compared_with(accord, documented):
    file = documented / "desk.accord.toml"
    text = file.read_text().replace('expect = { text = "3", within = 1.0 }', "snapshot = true")
    file.write_text(text)
    words = ("test", "--cases", "desk.accord.toml", "--only-cases")
    assert accord(*words, cwd=documented).returncode == 1
    assert accord(*words, "--update-snapshots", cwd=documented).returncode == 0
    kept = json.loads((documented / "desk.accord.snapshots.json").read_text())
    assert kept["adds two numbers"]["1"]["structuredContent"] == {"result": 3}
    assert accord(*words, cwd=documented).returncode == 0
    desk = documented / "desk.py"
    desk.write_text(desk.read_text().replace("a + b", "b + a + 1"))
    done = accord(*words, cwd=documented)
    assert '- "result": 3  + "result": 4' in done.stdout
