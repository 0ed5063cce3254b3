"""`accord doctor` for servers that are launched, and for entries of hosts."""

import json
import logging
import sys
from pathlib import Path

import pytest

from accord.cli.main import main
from accord.client.server_spec import ServerSpec
from accord_tools.doctor.launch import LaunchDiagnosis
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.sources.configuration_file import read_file_entry
from support.tables import cases
from support.waiting import LONG, run

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TEN_LINES = (sys.executable, "-m", "accord.cli.main", "run", str(EXAMPLES / "ten_lines.py"))


def examine(command, seconds=LONG, **entry):
    """Take the steps; return them by name, the worst of several with one name."""
    diagnosis = LaunchDiagnosis(ServerSpec(name="x", command=command, **entry), seconds=seconds)
    run(diagnosis.run())
    order = ("ok", "skipped", "warning", "failed")
    steps = sorted(diagnosis.steps, key=lambda step: order.index(step.verdict))
    return {step.name: step for step in steps}


def script(tmp_path, text):
    file = tmp_path / "server.py"
    file.write_text(text)
    return (sys.executable, str(file))


SERVER = """
from accord import Server
server = Server("desk")

@server.tool
def get_hour() -> int:
    "The hour."
    return 12

"""


def test_every_step_of_a_good_server_is_ok(tmp_path):
    steps = examine(script(tmp_path, SERVER + 'server.run("stdio")'))
    assert {name: step.verdict for name, step in steps.items()} == dict.fromkeys(
        ("command", "start", "exit", "initialize", "list", "call"), "ok"
    )
    assert steps["initialize"].came == "desk 0.0.0, revision 2026-07-28"
    assert steps["call"].asked == "tools/call of get_hour"


def test_a_tool_that_may_change_something_is_not_called():
    steps = examine(TEN_LINES)
    assert steps["call"].verdict == "skipped"
    assert steps["list"].verdict == "ok"


def test_a_program_that_is_missing_ends_the_diagnosis():
    steps = examine(("no-such-program-of-accord",))
    assert [*steps] == ["command"]
    assert (steps["command"].verdict, steps["command"].came) == ("failed", "not found")


def test_a_program_that_only_this_shell_finds_is_a_warning(tmp_path, monkeypatch):
    program = tmp_path / "own-python"
    program.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    steps = examine(("own-python", "-c", "raise SystemExit(3)"))
    assert steps["command"].verdict == "warning"
    assert str(program) in steps["command"].change
    assert "exit code 3" in steps["start"].came


def test_a_script_that_is_missing_is_named():
    step = examine((sys.executable, "/no/such/server.py"))["command"]
    assert (step.verdict, step.came) == ("failed", "there is no such file")
    assert "/no/such/server.py" in step.asked


def test_a_relative_script_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "raise SystemExit(1)")
    step = examine((sys.executable, "server.py"))["command"]
    assert step.verdict == "warning"
    assert str(tmp_path / "server.py") in step.change


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("import no_such_module_of_accord", "install the missing module"),
        ("import os; os.environ['NO_SUCH_KEY']", "set the variable that it misses, NO_SUCH_KEY:"),
        ("import os; os.environ['no such key']", "set the variable that it misses:"),
        ("raise OSError('Address already in use')", "end the other copy"),
        ("raise ValueError('broken')", "mend what it says on standard error"),
    ],
)
def test_a_server_that_ends_at_its_start_is_reported_with_its_stderr(tmp_path, text, advice):
    step = examine(script(tmp_path, text))["start"]
    assert step.verdict == "failed"
    assert "exit code 1" in step.came
    assert "stderr: " in step.came
    assert advice in step.change


def test_a_command_that_never_answers_fails_in_time():
    step = examine((sys.executable, "-c", "import time; time.sleep(60)"), 0.5)["start"]
    assert "an answer to initialize did not arrive" in step.came
    assert "serves MCP over stdio" in step.change


def test_output_that_is_not_a_message_is_a_failure(tmp_path):
    steps = examine(script(tmp_path, 'print("hello")\n' + SERVER + 'server.run("stdio")'))
    assert steps["stdout"].verdict == "failed"
    assert "'hello'" in steps["stdout"].came
    assert steps["initialize"].verdict == "ok"


def test_a_relative_program_is_a_warning_with_its_full_path(tmp_path, monkeypatch):
    program = tmp_path / "serve"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    steps = examine(("./serve",))
    assert steps["command"].verdict == "warning"
    assert "relative to the current folder" in steps["command"].came
    assert f"write {program}:" in steps["command"].change
    assert "exit code 3" in steps["start"].came


ANSWERING = """
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        ANSWERS["initialize"]["result"]["protocolVersion"] = message["params"]["protocolVersion"]
    if "id" in message:
        answer = ANSWERS.get(message["method"], {"error": {"code": -32601, "message": "unknown"}})
        if not answer:
            sys.exit(3)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
HOUR = {
    "name": "get_hour",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def answering(tmp_path, *, before="", after="", **answers):
    """Return the command of a server with one tool, which gives these answers by method."""
    usual = {
        "initialize": {
            "result": {
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "answering", "version": "1"},
            }
        },
        "tools/list": {"result": {"tools": [HOUR]}},
        "tools/call": {"result": {"content": [{"type": "text", "text": "12"}]}},
    }
    given = f"import json, os, sys, time\nANSWERS = json.loads({json.dumps(usual | answers)!r})\n"
    return script(tmp_path, f"{given}{before}\n{ANSWERING}{after}")


@cases(
    ("answers", "name", "verdict", "expected"),
    [
        ({}, "call", "ok", "a result"),
        (
            {"tools/list": {"error": {"code": -32603, "message": "no database"}}},
            *("list", "failed", "no database"),
        ),
        ({"tools/list": None}, "list", "failed", "exit code 3"),
        (
            {"tools/call": {"error": {"code": -32603, "message": "no clock"}}},
            *("call", "failed", "no clock"),
        ),
        (
            {
                "tools/call": {
                    "result": {"content": [{"type": "text", "text": "too late"}], "isError": True}
                }
            },
            *("call", "warning", "the tool says that it failed: too late"),
        ),
    ],
    ids=["good", "list refused", "list ends it", "call refused", "tool failed"],
)
def test_a_list_or_call_that_fails_is_a_step_of_its_own(tmp_path, answers, name, verdict, expected):
    steps = examine(answering(tmp_path, **answers))
    assert steps["initialize"].verdict == "ok"
    assert (steps[name].verdict, expected in steps[name].came) == (verdict, True), steps[name]
    failures = {each.name for each in steps.values() if each.verdict == "failed"}
    assert failures == ({name} if verdict == "failed" else set())


def test_a_list_that_is_refused_is_named_with_what_to_change(tmp_path):
    refused = {"error": {"code": -32603, "message": "no database"}}
    command = answering(tmp_path, **{"tools/list": refused})
    diagnosis = LaunchDiagnosis(ServerSpec(name="x", command=command), seconds=LONG)
    run(diagnosis.run())
    (step,) = [each for each in diagnosis.steps if each.name == "list"]
    assert (step.verdict, step.asked) == ("failed", "tools/list")
    assert step.change == "answer it, or do not declare its capability"


def test_lines_on_stderr_of_a_good_server_are_shown(tmp_path):
    step = examine(answering(tmp_path, before="print('listening', file=sys.stderr)"))["stderr"]
    assert step.verdict == "ok"
    assert step.came.startswith("stderr: ")
    assert "listening" in step.came


def test_a_server_that_stays_and_allows_no_second_start_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("accord_tools.doctor.launch._LEAVING", 0.1)
    lock = str(tmp_path / "lock")
    before = f"os.open({lock!r}, os.O_CREAT | os.O_EXCL)"
    steps = examine(answering(tmp_path, before=before, after="time.sleep(60)"))
    assert steps["start"].verdict == "ok"
    assert steps["exit"].verdict == "warning"
    assert steps["exit"].came == "it still ran after 0.1 s"
    assert "end when standard input ends" in steps["exit"].change
    assert steps["initialize"].verdict == "failed"
    assert "FileExistsError" in steps["initialize"].came
    assert "list" not in steps


def test_variables_with_values_are_ok():
    steps = examine((sys.executable, "-S", "-c", "pass"), env={"LEVEL": "debug", "REGION": "eu"})
    assert (steps["environment"].verdict, steps["environment"].came) == ("ok", "LEVEL, REGION")
    assert steps["environment"].change == ""


def test_variables_are_named_without_their_values(tmp_path):
    command = script(tmp_path, SERVER + 'server.run("stdio")')
    steps = examine(command, env={"API_KEY": "<your key>", "PASSWORD": "wonderland"})
    assert steps["environment"].verdict == "warning"
    assert steps["environment"].change == "fill in API_KEY"
    assert "wonderland" not in str(steps)


# -- entries of hosts


def config(tmp_path, document):
    file = tmp_path / "mcp.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"mcpServers": {"a": {"command": "node", "args": ["x.js"], "env": {"K": "v"}}}},
            ServerSpec(name="a", command=("node", "x.js"), env={"K": "v"}),
        ),
        (
            {"servers": {"a": {"type": "stdio", "command": "x", "cwd": "/srv"}}},
            ServerSpec(name="a", command=("x",), cwd="/srv"),
        ),
        ({"mcp": {"a": {"command": ["x", "y"]}}}, ServerSpec(name="a", command=("x", "y"))),
        (
            {"mcp": {"servers": {"a": {"command": "x"}}}},
            ServerSpec(name="a", command=("x",)),
        ),
        (
            {
                "context_servers": {
                    "a": {"command": {"path": "x", "args": ["y"], "env": {"K": "v"}}}
                }
            },
            ServerSpec(name="a", command=("x", "y"), env={"K": "v"}),
        ),
        (
            {"mcpServers": {"a": {"url": "http://h/mcp", "headers": {"X": "1"}}}},
            ServerSpec(name="a", transport="http", url="http://h/mcp", headers={"X": "1"}),
        ),
    ],
)
def test_the_entries_of_hosts_are_read(tmp_path, document, expected):
    assert read_file_entry(config(tmp_path, document), "a") == expected
    assert read_file_entry(config(tmp_path, document), "") == expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "mcp.json:1:2: the text ends"),
        ({}, "names no servers"),
        ([], "is not an object with servers"),
        ({"mcpServers": {"files": {}}}, "has neither a command nor a url"),
        ({"mcpServers": {"files": {"command": "x", "args": [1]}}}, "args is not a list of texts"),
        ({"mcpServers": {"files": {"command": "x", "env": [1]}}}, "env is not an object"),
        ({"mcpServers": {"filer": {"command": "x"}}}, "did you mean filer"),
        ({"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}, "it has a, b"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused_with_the_cause(tmp_path, document, message):
    with pytest.raises(HostsError, match=message):
        read_file_entry(config(tmp_path, document), "files")


def test_several_entries_need_a_name(tmp_path):
    file = config(tmp_path, {"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}})
    with pytest.raises(HostsError, match=r"say which, as in .*#a: a, b"):
        read_file_entry(file, "")
    with pytest.raises(HostsError, match="there is no file"):
        read_file_entry(tmp_path / "missing.json", "")


def test_the_command_examines_an_entry_and_exits_with_2(tmp_path, capsys):
    file = config(tmp_path, {"mcpServers": {"a": {"command": "no-such-program-of-accord"}}})
    assert main(["doctor", "--config", str(file), "a", "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["target"], said["verdict"]) == ("no-such-program-of-accord", "failed")


def test_the_command_examines_what_stands_after_the_dashes(capsys):
    assert main(["doctor", "--", "no-such-program-of-accord"]) == 2
    assert "failed   command" in capsys.readouterr().out


def test_a_config_and_a_command_together_are_refused(tmp_path, capsys):
    file = config(tmp_path, {"mcpServers": {"a": {"command": "x"}}})
    assert main(["doctor", "--config", str(file), "--", "x"]) == 2
    assert "TARGET is the name of a server in it" in capsys.readouterr().err


def test_a_diagnosis_leaves_the_logging_of_its_process_as_it_was(capsys):
    logger = logging.getLogger("accord.client")
    before = logger.level
    main(["doctor", "--", sys.executable, "-c", "pass"])
    assert logger.level == before
