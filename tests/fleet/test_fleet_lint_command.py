"""`accord fleet lint`, as users run it."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from accord.cli.main import main

ROOT = Path(__file__).parents[2]
TODAY = datetime.now(UTC).date()
FUTURE, PAST = TODAY + timedelta(days=9), TODAY - timedelta(days=2)
GOOD = {
    "name": "get_weather",
    "title": "Weather",
    "description": "Return the weather of a city for the next days.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    "annotations": {"readOnlyHint": True},
}
HINTS = (
    "has neither readOnlyHint nor destructiveHint; without them hosts assume that it destroys, and"
    " ask before each call"
)
BARE = {"name": "get_{}", "inputSchema": {"type": "object"}, "description": "Return what is {}."}
FLEET = """
[mcpServers.desk]
command = "/does/not/exist"

[server.desk]
lock = "desk.lock"
"""


@pytest.fixture
def lint(tmp_path, capsys, monkeypatch):
    """Write a fleet with lock files, lint it; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words, fleet=FLEET, **locks):
        Path("accord-fleet.toml").write_text(fleet)
        for name, content in locks.items():
            if isinstance(content, list):
                content = json.dumps({"server": name, "revision": "2025-06-18", "tools": content})
            Path(f"{name}.lock").write_text(content)
        code = main(["fleet", "lint", *words])
        return code, *capsys.readouterr()

    return run


def bare(name):
    return {**BARE, "name": f"get_{name}", "description": f"Return what is known of {name}."}


def test_a_good_server_has_nothing_to_report(lint):
    assert lint(desk=[GOOD]) == (0, "1 server: 0 warnings, 0 hints, 0 accepted\n", "")
    assert lint("--strict", desk=[GOOD])[0] == 0


def test_findings_are_grouped_by_server_and_rule(lint):
    code, out, err = lint(desk=[bare("one"), bare("two"), {**GOOD, "description": ""}])
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "desk (desk.lock)",
        "  ! warning  surface.annotations-missing: tool get_one, tool get_two",
        f"      {HINTS}",
        "  ! warning  surface.description-missing: tool get_weather",
        "      has no description; say what it does, and when to use it",
        "",
        "1 server: 3 warnings, 0 hints, 0 accepted",
    ]


def test_strict_fails_on_warnings_alone(lint):
    assert lint("--strict", desk=[{**GOOD, "description": ""}])[0] == 1
    assert lint("--strict", desk=[{**GOOD, "description": "Look outside."}])[0] == 0


ACCEPT = """
[[server.desk.accept]]
id = "{id}"
reason = "the vendor knows"
until = {until}
"""


def test_an_accepted_warning_does_not_fail_until_its_last_day(lint):
    undescribed = [{**GOOD, "description": ""}]
    accepted = FLEET + ACCEPT.format(id="surface.description-missing", until=FUTURE)
    code, out, _ = lint("--strict", fleet=accepted, desk=undescribed)
    assert code == 0
    assert "    accepted  surface.description-missing: tool get_weather" in out
    assert f"the vendor knows (until {FUTURE})" in out
    assert out.endswith("1 server: 0 warnings, 0 hints, 1 accepted\n")
    ended = FLEET + ACCEPT.format(id="surface.description-missing", until=PAST)
    assert lint("--strict", fleet=ended, desk=undescribed)[0] == 1


TWO = """
[mcpServers.desk]
command = "/does/not/exist"

[mcpServers.mail]
url = "http://mail.example/mcp"

[server.desk]
lock = "desk.lock"

[server.mail]
lock = "mail.lock"
readiness = ["openai"]
"""


def test_servers_are_compared_with_each_other(lint):
    code, out, _ = lint(fleet=TWO, desk=[GOOD], mail=[GOOD])
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["servers together", "  ! warning  safety.collision: tool get_weather"]
    assert "  ! warning  safety.plain-http" in lines
    assert "  ! warning  directory.openai-https" in lines
    assert any(line.endswith("read 2026-08-19") for line in lines)
    accepted = TWO + ACCEPT.format(id="safety.collision", until=FUTURE)
    _, out, _ = lint(fleet=accepted, desk=[GOOD], mail=[GOOD])
    assert "    accepted  safety.collision: tool get_weather" in out


def test_quiet_shows_warnings_only(lint):
    tools = [{**GOOD, "description": ""}, {**GOOD, "name": "other", "description": "Look outside."}]
    code, out, _ = lint("--quiet", desk=tools)
    assert code == 0
    assert "hint" not in out
    assert out.endswith("1 server: 1 warning\n")


def test_json_has_every_finding_and_the_counts(lint):
    code, out, _ = lint("--format", "json", fleet=TWO, desk=[GOOD], mail=[GOOD])
    found = json.loads(out)
    assert code == 0
    assert (found["file"], found["servers"], found["not_read"]) == (
        "accord-fleet.toml",
        ["desk", "mail"],
        [],
    )
    assert found["summary"]["warnings"] == sum(
        each["severity"] == "warn" for each in found["findings"]
    )
    assert {"id", "severity", "text", "subject", "server", "source"} <= set(found["findings"][0])


def test_a_server_without_a_lock_is_named_and_the_others_are_linted(lint):
    code, out, err = lint(fleet=TWO, desk=[GOOD])
    assert code == 0
    assert out == "1 server: 0 warnings, 0 hints, 0 accepted\n"
    assert re.search(r"mail: not looked at: .*mail.lock does not exist; accord lock writes", err)
    code, _, err = lint(fleet=TWO.replace('lock = "mail.lock"', ""), desk=[GOOD])
    assert (code, err) == (0, "mail: not looked at, because it has no lock file\n")


@pytest.mark.parametrize("content", ["{", "[]", "[" * 200_000, '{"server": 1}'])
def test_without_any_lock_that_can_be_read_the_exit_code_is_2(lint, content):
    code, out, err = lint(desk=content)
    assert (code, out) == (2, "")
    assert "desk: not looked at" in err
    assert "accord-fleet.toml: no lock file could be read" in err


def test_a_missing_fleet_file_is_a_mistake_that_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["fleet", "lint"]) == 2
    assert "accord fleet init writes one" in capsys.readouterr().err


def test_texts_of_a_server_cannot_control_the_terminal(lint):
    evil = "\x1b[2J\x9b1m\u202e\nforged: 0 warnings"
    tools = [{**GOOD, "name": evil, "description": evil, "inputSchema": {"$ref": evil}}]
    _, out, _ = lint(desk=tools)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out)
    assert "\nforged" not in out


def test_the_hook_lints_when_fleet_or_lock_files_change():
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (hook,) = [each for each in hooks if each["id"] == "accord-fleet-lint"]
    assert hook["entry"].startswith("accord fleet lint --strict")
    pattern = re.compile(hook["files"])
    for name in ("accord-fleet.toml", "locks/tickets.lock.json", "accord.lock", "my-fleet.yaml"):
        assert pattern.search(name), name
    assert not pattern.search("src/server.py")
