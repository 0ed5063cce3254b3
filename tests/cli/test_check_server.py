"""`accord check server`, as users run it."""

import json
import sys
from pathlib import Path

import pytest

NEW = "2025-06-18"
AWKWARD = Path(__file__).parent.parent / "check" / "awkward.py"
GOOD = '''
from accord import Server, types

server = Server("small")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def save(text: str) -> str:
    """Save a text."""
    open("saved.txt", "w").write(text)
    return "saved"


@server.tool
def delete_all() -> str:
    """Delete everything."""
    open("deleted.txt", "w").write("")
    return "gone"
'''


def awkward(habit):
    return "--", sys.executable, "-S", "-E", str(AWKWARD), habit


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(GOOD)
    return path


def test_a_good_server_passes_with_exit_code_0(accord, good):
    only = ("--only", "errors", "--only", "lifecycle.version.server-echoes")
    done = accord("check", "server", good, "--revision", NEW, *only)
    assert done.returncode == 0
    assert done.stderr.startswith("will call, each at most 150 times (--calls): add\n")
    assert f"{good}: revision {NEW}" in done.stdout
    assert "no violations" in done.stdout
    assert "\ncoverage: " in done.stdout
    assert "\nscore: 100 of 100 (" in done.stdout


def test_a_bad_server_fails_with_exit_code_1_and_says_what_and_how_to_repeat_it(accord):
    done = accord("check", "server", "--only", "stdio", "--revision", NEW, *awkward("banner"))
    assert done.returncode == 1
    assert done.stderr == "will call, each at most 150 times (--calls): get_time\n"
    assert "FAIL stdio.server.stdout-only-messages (MUST NOT, server)" in done.stdout
    assert "awkward server is ready" in done.stdout
    assert "--only stdio.server.stdout-only-messages" in done.stdout


def test_warnings_alone_do_not_fail(accord):
    only = ("--only", "practice.shutdown", "--revision", NEW)
    done = accord("check", "server", *only, *awkward("default signals"))
    assert done.returncode == 0
    assert "practice.shutdown.signals" in done.stdout


def foreign(*words):
    return "--", sys.executable, "-S", "-E", str(AWKWARD.with_name("foreign.py")), *words


def test_a_revision_that_the_server_does_not_speak_is_exit_code_2_and_names_those_it_speaks(accord):
    done = accord("check", "server", "--revision", NEW, *foreign("one revision"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"does not speak {NEW}; it speaks 2025-03-26" in done.stderr


def test_a_server_that_never_answers_is_exit_code_2_and_has_no_score(accord):
    done = accord("check", "server", "--timeout", "0.3", "--revision", NEW, *foreign("deaf"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "an answer to initialize did not arrive within" in done.stderr


def test_error_codes_without_a_keyword_warn_and_leave_the_exit_code_at_0(accord):
    only = ("--only", "errors", "--revision", NEW)
    done = accord("check", "server", *only, *foreign("other codes"))
    assert done.returncode == 0
    for line in (
        "WARN errors.code.method-not-found (FACT, server)",
        "WARN errors.code.resource-not-found (SHOULD, server)",
    ):
        assert line in done.stdout


def test_a_server_can_be_launched_one_at_a_time(accord):
    only = ("--only", "errors", "--revision", NEW, "--format", "json")
    done = accord("check", "server", "--one-at-a-time", *only, *foreign("plain"))
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["notes"] == []
    assert "--one-at-a-time" in report["results"][0]["repeat"]


def test_a_server_that_runs_once_is_named_in_a_note(accord, tmp_path):
    only = ("--only", "errors", "--revision", NEW)
    done = accord("check", "server", *only, *foreign("one port", str(tmp_path / "port")))
    assert done.returncode == 0
    assert "\nnote: a second copy of the server did not start" in done.stdout


def test_a_revision_that_does_not_exist_is_refused(accord):
    for check in (("server", "x.py"), ("client", "--", "x", "{url}")):
        done = accord("check", check[0], "--revision", "2026-07-29", *check[1:])
        assert done.returncode == 2
        assert "unknown revision '2026-07-29'; known: " in done.stderr


def test_a_report_that_cannot_be_written_is_refused_before_the_check(accord, tmp_path):
    at = tmp_path / "none" / "report.html"
    done = accord("check", "server", "--output", at, *awkward("hangs"))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{at}: there is no folder {at.parent}" in done.stderr


def test_every_revision_that_the_server_speaks_is_checked(accord):
    only = ("--only", "lifecycle.version.server-echoes", "--format", "json")
    shown = json.loads(accord("check", "server", *only, *awkward("none")).stdout)
    (result,) = shown["results"]
    assert (result["id"], result["verdict"]) == ("lifecycle.version.server-echoes", "pass")
    assert result["revisions"] == ["2024-11-05", "2025-03-26", NEW]


def test_the_json_report_has_target_revisions_and_verdicts(accord):
    only = ("--only", "stdio", "--revision", NEW, "--format", "json")
    done = accord("check", "server", *only, *awkward("banner"))
    shown = json.loads(done.stdout)
    assert done.returncode == 1
    assert shown["revision"] == NEW
    assert {"applicable", "exercised"} <= set(shown["coverage"])
    results = {each["id"]: each for each in shown["results"]}
    broken = results["stdio.server.stdout-only-messages"]
    assert broken["verdict"] == "fail"
    assert any("ready" in each.get("message", "") for each in broken["evidence"])
    assert results["stdio.shutdown.server-exits"]["verdict"] == "pass"


def test_tools_that_write_are_called_only_when_that_is_allowed(accord, good, tmp_path):
    check = ("check", "server", good, "--revision", NEW, "--only", "progress.rate-limited")
    assert accord(*check, cwd=tmp_path).returncode == 0
    assert not (tmp_path / "saved.txt").exists()
    accord(*check, "--allow-writes", cwd=tmp_path)
    assert (tmp_path / "saved.txt").exists()
    assert not (tmp_path / "deleted.txt").exists()


def test_a_chosen_tool_is_called_whatever_it_does_and_no_other(accord, good, tmp_path):
    check = ("check", "server", good, "--revision", NEW, "--only", "progress.rate-limited")
    accord(*check, "--tool", "delete_all", "--allow-writes", cwd=tmp_path)
    assert (tmp_path / "deleted.txt").exists()
    assert not (tmp_path / "saved.txt").exists()


# -- mistakes before the check


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ("--only", "no.such"),
            "there is no requirement 'no.such'; accord requirements lists them",
        ),
        (("--revision", "2023-01-01"), "2023-01-01"),
        (("--format", "pdf"), "pdf"),
        (("--transport", "carrier-pigeon"), "carrier-pigeon"),
        (("--header", "no colon"), "'no colon' is not a header, expected 'Name: value'"),
        (("--env", "=x"), "'=x' is not a variable, expected K=V"),
        (("--timeout", "soon"), "soon"),
    ],
    ids=["only", "revision", "format", "transport", "header", "env", "timeout"],
)
def test_an_invalid_option_is_reported_with_exit_code_2(accord, args, says):
    done = accord("check", "server", *args, *awkward("none"))
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_no_target_is_a_mistake_with_exit_code_2(accord):
    done = accord("check", "server")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_reported(accord, tmp_path):
    done = accord("check", "server", tmp_path / "absent.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "absent.py" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_command_is_reported(accord):
    done = accord("check", "server", "--", "/no/such/command")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/no/such/command" in done.stderr


def test_a_server_that_exits_is_reported_with_its_last_output(accord):
    done = accord("check", "server", *awkward("exits"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "exit code 1" in done.stderr
    assert "no configuration" in done.stderr


@pytest.mark.parametrize("how", [(), ("--revision", NEW), ("--transport", "http")], ids=str)
def test_a_file_that_cannot_be_imported_is_reported_in_one_line(accord, tmp_path, how):
    path = tmp_path / "broken.py"
    path.write_text("import no_such_module\n")
    done = accord("check", "server", path, *how)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("accord: ")
    assert "broken.py:1 `import no_such_module`" in done.stderr
    assert done.stderr.count("accord: ") == 1


def test_a_port_without_a_listener_cannot_be_reached(accord):
    done = accord("check", "server", "http://127.0.0.1:9/mcp", "--timeout", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "127.0.0.1:9/mcp: connection refused" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_url_is_not_reached_over_stdio(accord):
    done = accord("check", "server", "http://127.0.0.1:9/mcp", "--transport", "stdio")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a URL is reached over http or sse, not stdio" in done.stderr


def test_a_command_is_not_reached_over_http(accord):
    done = accord("check", "server", "--transport", "http", *awkward("none"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "a command is reached over stdio, not http" in done.stderr
