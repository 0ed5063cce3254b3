"""Servers that lack a list method, or fail to list: the other lists are shown and locked."""

import json
import sys

import pytest

SERVER = """\
import json, sys

broken = dict(each.split("=") for each in sys.argv[1:])
LISTS = {
    "tools/list": {"tools": [{"name": "get_day", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": [{"uri": "note://a", "name": "a"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": [{"name": "greet"}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, answer = asked["method"], {}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "partial", "version": "1"},
        }
    elif method in broken:
        code = int(broken[method])
        text = "Method not found" if code == -32601 else f"database is away since {id(asked)}"
        answer["error"] = {"code": code, "message": text}
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "Monday"}]}
    elif method == "resources/read":
        answer["result"] = {"contents": [{"uri": "note://a", "text": "x"}]}
    elif method == "prompts/get":
        answer["result"] = {"messages": []}
    else:
        answer["result"] = LISTS.get(method, {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
TEMPLATES = "resources/templates/list"
ALL = ("tools/list", "resources/list", TEMPLATES, "prompts/list")


@pytest.fixture
def partial(tmp_path):
    path = tmp_path / "partial.py"
    path.write_text(SERVER)

    def command(**broken):
        words = [f"{method}={code}" for method, code in broken.items()]
        return ["--", sys.executable, str(path), *words]

    return command


def test_list_shows_the_other_lists_and_reports_a_missing_method(accord, partial):
    done = accord("list", *partial(**{TEMPLATES: -32601}))
    assert done.returncode == 0
    assert [line.split("\t")[:2] for line in done.stdout.splitlines()] == [
        ["tool", "get_day()"],
        ["resource", "note://a"],
        ["prompt", "greet()"],
    ]
    assert done.stderr == f"accord: {TEMPLATES} failed: Method not found (-32601)\n"


def test_list_shows_the_other_lists_if_one_fails(accord, partial):
    done = accord("list", "--format", "json", *partial(**{"resources/list": -32000}))
    shown = json.loads(done.stdout)
    assert done.returncode == 0
    assert [len(shown[kind]) for kind in ("tools", "resources", "prompts")] == [1, 0, 1]
    assert list(shown["failed"]) == ["resources/list"]
    assert done.stderr.startswith("accord: resources/list failed: database is away")


def test_list_is_exit_code_1_if_every_list_fails(accord, partial):
    done = accord("list", *partial(**dict.fromkeys(ALL, -32601)))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == len(ALL)


def test_a_missing_method_is_locked_and_verified(accord, partial, tmp_path):
    command = partial(**{TEMPLATES: -32601})
    done = accord("lock", *command, cwd=tmp_path)
    assert done.returncode == 0
    assert f"accord: {TEMPLATES} failed with error -32601" in done.stderr
    locked = json.loads((tmp_path / "accord.lock").read_text())
    assert locked["failed"] == {TEMPLATES: -32601}
    assert [each["name"] for each in locked["tools"]] == ["get_day"]
    assert "resourceTemplates" not in locked
    assert accord("verify", *command, cwd=tmp_path).returncode == 0
    done = accord("verify", *partial(), cwd=tmp_path)
    assert done.returncode == 1
    assert f"{TEMPLATES}: answers now" in done.stdout


def test_a_list_that_fails_temporarily_is_locked_with_exit_code_1(accord, partial, tmp_path):
    command = partial(**{"resources/list": -32000})
    assert accord("lock", *command, cwd=tmp_path).returncode == 1
    assert accord("verify", *command, cwd=tmp_path).stdout == "nothing changed since accord.lock\n"


def test_a_list_that_no_longer_answers_is_one_change(accord, partial, tmp_path):
    assert accord("lock", *partial(), cwd=tmp_path).returncode == 0
    done = accord("verify", "--format", "json", *partial(**{"prompts/list": -32000}), cwd=tmp_path)
    (change,) = json.loads(done.stdout)
    assert (done.returncode, change["subject"], change["what"]) == (1, "prompts/list", "fails now")


def test_the_other_lists_are_tested_if_one_is_missing(accord, partial):
    done = accord("test", "--examples", "2", *partial(**{TEMPLATES: -32601}))
    assert done.returncode == 0, done.stdout
    assert "resource note://a can be read" in done.stdout
    assert f"{TEMPLATES} answers (the server has no such method: Method not found" in done.stdout


def test_a_failing_list_is_a_failing_test(accord, partial):
    done = accord("test", "--examples", "2", *partial(**{"prompts/list": -32000}))
    assert done.returncode == 1
    assert "resource note://a can be read" in done.stdout
    assert "prompts/list answers" in done.stdout
    assert "database is away" in done.stdout


def test_a_wrong_name_is_reported_even_if_prompts_cannot_be_listed(accord, partial):
    done = accord("call", "nosuch", *partial(**{"prompts/list": -32601}))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "accord: there is no tool nosuch; there are get_day\n"
