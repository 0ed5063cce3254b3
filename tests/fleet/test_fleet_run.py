"""`accord fleet` as a user runs it: real servers, good and bad, real files, real signals."""

import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from accord import Context, Server
from accord.types import ToolAnnotations
from accord_tools.fleet.history import open_history
from support.command_line import Run, command_line
from support.http_server import bounded
from support.waiting import LONG, until_sync

SCRIPT = Path(__file__).with_name("fleet_server.py")
REVISION = "2025-06-18"
SECRET = "planted-7f3a9c51-value"
HEAD = f"""\
[fleet]
name = "test fleet"
[defaults]
revisions = ["{REVISION}"]
only = ["ping", "tools.list"]
contract = false
patience = 2
time = 60
"""
FORMS = ("html", "json", "xml", "sarif", "md", "svg", "txt")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Fleet:
    """A folder with a fleet file; each server has a script of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "accord-fleet.toml"
        self.file.write_text(HEAD)
        self.env = {
            "XDG_CONFIG_HOME": str(folder / "config"),
            "ACCORD_FLEET_TRUST": str(folder / "trust.json"),
        }

    def add(self, name: str, kind: str, *, members: str = "", expected: str = "") -> Path:
        script = self.folder / f"{name}.py"
        shutil.copy(SCRIPT, script)
        with self.file.open("a") as file:
            file.write(
                f"\n[mcpServers.{name}]\ncommand = {json.dumps(sys.executable)}\n"
                f"args = [{json.dumps(script.name)}, {json.dumps(kind)}]\n{members}\n"
                f"[server.{name}]\n{expected}\n"
            )
        return script

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "accord.cli.main", "fleet", *words]

    def run(self, *words: str, yes: bool = True, **env: str) -> Run:
        args = ["fleet", *words, *(["--yes"] if yes else [])]
        return command_line().run(args, cwd=self.folder, env={**self.env, **env})

    def result(self, *words: str, **env: str) -> dict:
        """Run, and return the JSON report."""
        done = self.run("--format", "json", *words, **env)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    def processes(self) -> list[str]:
        """Return the processes that run in the folder."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(each / "cwd") == str(self.folder):
                    found.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def states(report: dict) -> dict[str, str]:
    return {each["name"]: each["state"] for each in report["run"]["results"]}


def by_name(report: dict) -> dict[str, dict]:
    return {each["name"]: each for each in report["run"]["results"]}


# -- one run over good and bad servers


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fleet, dict]:
    """A fleet with servers of many kinds, run once with every form of report."""
    fleet = Fleet(tmp_path_factory.mktemp("mixed"))
    fleet.add("good", "raw", expected='tags = ["a"]\nowner = "team"')
    fleet.add("failing", "failing")
    fleet.add("silent", "silent", expected="time = 4")
    fleet.add("crash", "crash-at-start")
    fleet.add("daemon", "leaves-daemon")
    fleet.add("hostile", "hostile")
    fleet.add("needs", "needs-variable", expected='needs = ["FLEET_TEST_KEY"]')
    fleet.add("echo", "echo", members='env = { FLEET_PLANTED = "${env:PLANTED_TOKEN}" }')
    words = [word for form in FORMS for word in ("--output", f"out.{form}")]
    done = fleet.run(*words, "--output", "site/", PLANTED_TOKEN=SECRET)
    assert done.returncode == 1, done.stderr
    report = json.loads((fleet.folder / "out.json").read_text())
    return fleet, {"report": report, "stdout": done.stdout, "stderr": done.stderr}


def test_a_bad_server_is_a_row_and_not_the_end(mixed):
    _, found = mixed
    seen = states(found["report"])
    # Whichever comes first: the end of its start, or that of its time.
    assert seen.pop("silent") in ("unreachable", "timed-out")
    assert seen == {
        "good": "ok",
        "failing": "failed",
        "crash": "unreachable",
        "daemon": "ok",
        "hostile": "ok",
        "needs": "skipped",
        "echo": "ok",
    }
    results = by_name(found["report"])
    assert "cannot open database" in results["crash"]["reasons"][0]
    assert results["needs"]["reasons"] == ["needs the variable FLEET_TEST_KEY, which is not set"]
    assert "ping" in results["failing"]["reasons"][0]
    assert results["good"]["score"] == 100
    assert (results["good"]["tags"], results["good"]["owner"]) == (["a"], "team")
    assert found["report"]["summary"]["as_expected"] == 4


def test_a_process_that_a_server_leaves_running_is_named_and_ended(mixed):
    fleet, found = mixed
    result = by_name(found["report"])["daemon"]
    assert any("sleep" in each for each in result["left_processes"])
    assert "process.left-behind" in {each["id"] for each in result["findings"]}
    assert fleet.processes() == []


def test_lines_tell_of_each_server_when_it_is_done(mixed):
    _, found = mixed
    lines = [line for line in found["stderr"].splitlines() if re.match(r"\[\d/8\] ", line)]
    assert len(lines) == 8
    assert any("good: ok, 0 failed" in line for line in lines)


def test_hostile_texts_stay_texts_in_every_output(mixed):
    fleet, found = mixed

    class Tags(HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert not any(name.startswith("on") for name, _ in attrs)
            assert tag != "img"

    pages = [fleet.folder / "out.html", *(fleet.folder / "site").rglob("*.html")]
    assert len(pages) == 10
    for page in pages:
        text = page.read_text()
        Tags().feed(text)
        assert text.count("<script") <= 1
        assert "\x1b" not in text
    for name in ("out.xml", "out.svg"):
        tree = ET.parse(fleet.folder / name)
        assert not {"script", "img"} & {each.tag.rpartition("}")[2] for each in tree.iter()}
    for text in (found["stdout"], found["stderr"], (fleet.folder / "out.md").read_text()):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert not re.search(r"(?<!\\)<(script|img)", (fleet.folder / "out.md").read_text())


def test_a_secret_is_in_no_output_and_not_in_the_history(mixed):
    fleet, found = mixed
    assert by_name(found["report"])["echo"]["state"] == "ok"
    for text in (found["stdout"], found["stderr"]):
        assert SECRET not in text
    files = [each for each in fleet.folder.rglob("*") if each.is_file()]
    assert len(files) > 25
    for each in files:
        assert SECRET.encode() not in each.read_bytes(), each
    with open_history(fleet.folder / "accord-fleet.sqlite") as history:
        kept = history.documents("echo", 1)
        run = history.load_run(1)
    assert kept.catalog is not None
    assert SECRET.encode() not in kept.report
    assert SECRET not in json.dumps(kept.catalog)
    assert SECRET not in repr(run)


def test_headers_and_tokens_of_a_remote_server_are_in_no_output(fleet):
    token, key = "token-5b1e77d0-planted", "key-91c2aa04-planted"
    server = Server("echo", instructions="repeats what it gets")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def get_headers(ctx: Context) -> dict[str, str]:
        """Return the headers of the request."""
        return dict(ctx.request.headers)

    (fleet.folder / "key.txt").write_text(f"{key}\n")
    (fleet.folder / "cases.toml").write_text(
        '[[case]]\nname = "is wrong"\ncall = "get_headers"\nexpect = { text = "nothing" }\n'
    )
    with bounded(server.asgi()) as port:
        with fleet.file.open("a") as file:
            file.write(
                f"""
[mcpServers.remote]
url = "http://127.0.0.1:{port}/mcp"
headers = {{ Authorization = "Bearer ${{env:REMOTE_TOKEN}}", X-Key = "${{file:key.txt}}" }}
[server.remote]
only = ["ping"]
cases = ["cases.toml"]
expect = {{ tests = 1 }}
"""
            )
        words = [word for form in ("html", "json", "xml") for word in ("--output", f"out.{form}")]
        done = fleet.run(*words, "--verbose", REMOTE_TOKEN=token)
    (result,) = json.loads((fleet.folder / "out.json").read_text())["run"]["results"]
    assert result["state"] == "ok", done.stdout
    assert result["transport"] == "http"
    (failure,) = result["tests"]["failures"]
    assert "masked-0" in failure["summary"]
    assert "accept" in failure["summary"]
    assert "safety.plain-http" not in {each["id"] for each in result["findings"]}
    for text in (done.stdout, done.stderr):
        assert token not in text
        assert key not in text
    with open_history(fleet.folder / "accord-fleet.sqlite") as history:
        kept = history.documents("remote", 1)
    assert kept.report
    for data in (kept.report, *(each.read_bytes() for each in fleet.folder.glob("[ao]*.*"))):
        assert token.encode() not in data
        assert key.encode() not in data


def test_the_site_has_a_page_and_a_badge_of_each_server(mixed):
    fleet, _ = mixed
    for name in ("good", "crash", "hostile"):
        assert (fleet.folder / "site" / "servers" / f"{name}.html").is_file()
        assert (fleet.folder / "site" / "badges" / f"{name}.svg").is_file()
    assert "unreachable" in (fleet.folder / "site" / "badges" / "crash.svg").read_text()
    page = (fleet.folder / "site" / "servers" / "failing.html").read_text()
    again = "accord fleet run accord-fleet.toml --server failing --no-history --only ping."
    assert again in page


# -- reuse, locks, comparison


def test_an_unchanged_server_is_reused_and_one_byte_makes_it_run_again(fleet):
    fleet.add("one", "raw")
    two = fleet.add("two", "raw")
    first = by_name(fleet.result())
    assert [each["reused_from"] for each in first.values()] == ["", ""]
    shown = fleet.run("--output", "second.json").stdout
    second = by_name(json.loads((fleet.folder / "second.json").read_text()))
    assert all(each["reused_from"] for each in second.values())
    assert {each["name"]: each["score"] for each in second.values()} == {"one": 100, "two": 100}
    assert shown.count("of today") == 2
    two.write_text(two.read_text() + "\n")
    third = by_name(fleet.result())
    assert third["one"]["reused_from"]
    assert not third["two"]["reused_from"]
    fourth = by_name(fleet.result("--refresh", "one"))
    assert not fourth["one"]["reused_from"]
    assert fourth["two"]["reused_from"]
    assert not any(each["reused_from"] for each in by_name(fleet.result("--no-cache")).values())


def test_a_server_that_offers_something_else_at_each_start_is_never_reused(fleet):
    fleet.add("changing", "changing")
    fleet.result()
    done = fleet.run("--format", "json", "--fail-on", "drift")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    (result,) = report["run"]["results"]
    assert not result["reused_from"]
    assert result["changed_since"] == "last run"
    assert "safety.changed" in {each["id"] for each in result["findings"]}
    (difference,) = report["comparison"]["differences"]
    assert difference["kind"] == "surface-changed"
    # A changed text is drift, and not a regression.
    assert fleet.run("--fail-on", "regression").returncode == 0


def test_a_lock_is_written_and_compared_with(fleet):
    script = fleet.add("desk", "raw", expected='lock = "desk.lock"')
    done = fleet.run("--skip", "check")
    assert done.returncode == 1
    assert "desk.lock does not exist: --update-locks writes it" in done.stdout
    done = fleet.run("--update-locks")
    assert done.returncode == 0
    assert "desk.lock is written" in done.stderr
    script.write_text(script.read_text().replace("Returns the number", "Steals the number"))
    done = fleet.run()
    assert done.returncode == 1
    assert "differs from the lock file in 1 place: tool get_number" in done.stdout


def test_a_regression_fails_the_run_only_if_asked_for(fleet):
    script = fleet.add("desk", "raw", expected="expect = { failures = 9 }")
    fleet.run("--output", "before.json")
    script.write_text(script.read_text().replace('"raw": RawServer', '"raw": Failing'))
    done = fleet.run("--against", "before.json", "--fail-on", "regression")
    assert done.returncode == 1
    assert "ping" in done.stdout
    # The number of failures is expected, and against the last run nothing got worse.
    assert fleet.run("--fail-on", "failure", "--fail-on", "regression").returncode == 0
    assert fleet.run("--against", "1", "--fail-on", "regression").returncode == 1


def test_the_example_is_a_fleet_that_is_as_expected(fleet):
    file = Path(__file__).parents[2] / "examples" / "accord-fleet.toml"
    shutil.copy(file, fleet.file)
    for name in ("ten_lines.py", "everything.py", "tickets.py", "everything.accord.toml"):
        shutil.copy(file.parent / name, fleet.folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = ("--server", "ten-lines", "--revision", REVISION, "--skip", "test", "--only", "ping")
    done = fleet.run(*words, PATH=path)
    assert done.returncode == 0, done.stdout
    assert "1 of 1 as expected" in done.stdout


# -- consent


def test_programs_that_are_not_confirmed_are_not_launched(fleet):
    fleet.add("desk", "raw")
    (fleet.folder / "desk.py").write_text("open('launched', 'w')\n")
    done = fleet.run(yes=False)
    assert done.returncode == 2
    assert "launches and contacts what you have not confirmed" in done.stderr
    assert "accord fleet trust" in done.stderr
    assert not (fleet.folder / "launched").exists()


def test_a_confirmed_file_runs_until_what_it_launches_changes(fleet):
    fleet.add("desk", "raw")
    assert fleet.run("trust").returncode == 0
    assert fleet.run(yes=False).returncode == 0
    fleet.file.write_text(fleet.file.read_text().replace('"raw"', '"failing"'))
    done = fleet.run(yes=False)
    assert done.returncode == 2
    assert "which changed since you trusted it" in done.stderr


# -- mistakes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.toml"], "gone.toml"),
        (["--server", "desc"], "has no server 'desc'; did you mean desk?"),
        (["--tag", "none"], "no server of accord-fleet.toml has the tag none"),
        (["--fail-on", "sometimes"], "unknown value of --fail-on 'sometimes'"),
        (["--output", "none/out.html"], "there is no folder none"),
        (["--output", "out.docx"], "its ending stands for no form"),
        (["--against", "77"], "77"),
        (["--against", "gone.json"], "gone.json"),
        (["--shard", "3/2"], "expected NUMBER/COUNT"),
        (["--skip", "start"], "unknown stage to skip 'start'"),
    ],
)
def test_a_mistake_on_the_command_line_is_an_error_that_says_what_is_wrong(fleet, words, said):
    fleet.add("desk", "raw")
    done = fleet.run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


def test_without_a_file_the_error_says_how_to_make_one(fleet):
    fleet.file.unlink()
    done = fleet.run()
    assert done.returncode == 2
    assert "accord fleet init writes one" in done.stderr


def test_a_server_without_its_variable_is_skipped_unless_all_are_required(fleet):
    fleet.add("desk", "raw")
    fleet.add("keyed", "needs-variable", expected='needs = ["FLEET_TEST_KEY"]')
    assert fleet.run("--require-all").returncode == 2


# -- ends


def start(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    """Start a run of a server that hangs, and wait until the server runs."""
    script = fleet.add("hanging", "silent")
    script.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)\n"
    )
    process = subprocess.Popen(
        fleet.command("--yes", *words),
        cwd=fleet.folder,
        env={**os.environ, **fleet.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until_sync(lambda: any("hanging.py" in each for each in fleet.processes()))
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_an_interrupted_run_writes_what_is_there_and_leaves_nothing(fleet, number):
    process = start(fleet, "--output", "out.json")
    process.send_signal(number)
    _, said = process.communicate(timeout=LONG)
    assert process.returncode == 2, said
    report = json.loads((fleet.folder / "out.json").read_text())
    assert states(report) == {}
    assert any("interrupted" in each for each in report["run"]["notes"])
    until_sync(lambda: fleet.processes() == [])


def test_killing_the_run_leaves_no_process_and_a_whole_history(fleet):
    fleet.add("desk", "raw")
    assert fleet.run().returncode == 0
    process = start(fleet)
    process.kill()
    process.communicate(timeout=LONG)
    until_sync(lambda: fleet.processes() == [])
    with sqlite3.connect(fleet.folder / "accord-fleet.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with open_history(fleet.folder / "accord-fleet.sqlite") as history:
        assert [each.id for each in history.runs()] == [1]


# -- on a terminal


def test_a_terminal_gets_a_question_and_a_live_table(fleet):
    fleet.add("desk", "raw")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        fleet.command("accord-fleet.toml"),
        cwd=fleet.folder,
        env={**os.environ, **fleet.env, "TERM": "xterm-256color", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(ours, 4096):
                seen.extend(chunk)
        except OSError:
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until_sync(lambda: b"[y/N]" in seen)
    os.write(ours, b"y\n")
    assert process.wait(LONG) == 0
    reader.join(LONG)
    os.close(ours)
    shown = seen.decode()
    assert "desk.py raw" in shown
    assert "of 1 servers" in shown
    assert "\x1b[" in shown
    assert (fleet.folder / "trust.json").is_file()  # the answer is kept


def test_a_tool_of_which_no_call_succeeds_is_a_finding(fleet: Fleet) -> None:
    fleet.add("desk", "never-succeeds", expected="contract = true")
    result = by_name(fleet.result())["desk"]
    found = [each for each in result["findings"] if each["id"] == "calls.never-succeeded"]
    assert [(each["subject"], each["severity"]) for each in found] == [("tool get_order", "warn")]
    calls = {each["name"]: each for each in result["tool_calls"]}
    assert calls["get_number"]["succeeded"]
    assert calls["get_order"]["refused"]
    assert not calls["get_order"]["succeeded"]
    # Reused, and accepted.
    with fleet.file.open("a") as file:
        file.write(
            '[[server.desk.accept]]\nid = "calls.never-succeeded"\nreason = "no orders here"\n'
            "until = 2999-12-31\n"
        )
    again = by_name(fleet.result())["desk"]
    assert again["reused_from"]
    assert again["tool_calls"] == result["tool_calls"]
    assert [e["accepted"] for e in again["findings"] if e["id"] == "calls.never-succeeded"] == [
        "no orders here (until 2999-12-31)"
    ]


@pytest.mark.thorough
def test_contract_tests_that_cannot_be_made_fail_the_run_until_they_can(fleet: Fleet) -> None:
    (fleet.folder / "without" / "hypothesis.py").parent.mkdir()
    (fleet.folder / "without" / "hypothesis.py").write_text("raise ImportError('not here')\n")
    fleet.add("one", "raw", expected="contract = true")
    path = os.pathsep.join([str(fleet.folder / "without"), os.environ.get("PYTHONPATH", "")])
    done = fleet.run(PYTHONPATH=path)
    assert done.returncode == 1
    assert "the stage test failed: no contract tests: " in done.stdout
    assert "pip install" in done.stdout
    again = by_name(fleet.result())["one"]
    assert (again["state"], again["reused_from"]) == ("ok", "")


@pytest.mark.thorough
def test_a_server_whose_tests_had_no_time_timed_out_and_is_not_reused(fleet: Fleet) -> None:
    fleet.add("many", "slow-calls", expected="contract = true\ntime = 12")
    done = fleet.run("--fail-on", "failure", "--fail-on", "regression")
    assert done.returncode == 1
    assert "timed out" in done.stdout
    assert "no time for " in done.stdout
    assert "a larger time lets them run" in done.stdout
    again = by_name(fleet.result())["many"]
    assert (again["state"], again["reused_from"]) == ("timed-out", "")
    assert again["tests"]["no_time"]
    assert "did not end" in again["not_cached"]
