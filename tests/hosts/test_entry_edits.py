"""Edits of entries: questions of the host, odd containers, changes that others made since."""

import json

import pytest

from accord_tools.hosts.definition import HostsError

ASKING = ("--env", "API_KEY=${input:api-key}", "--no-check", "--yes")


@pytest.fixture
def vscode(home):
    path = home / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True)
    return path


def test_a_value_that_the_host_asks_for_is_listed_among_its_questions(accord, vscode):
    vscode.write_text('{\n\t"servers": {},\n\t"inputs": []\n}\n')
    before = vscode.read_text()
    assert accord("add", "desk.py", "--host", "vscode", *ASKING)[0] == 0
    found = json.loads(vscode.read_text())
    assert found["servers"]["desk"]["env"] == {"API_KEY": "${input:api-key}"}
    (question,) = found["inputs"]
    assert (question["id"], question["password"]) == ("api-key", True)
    accord("remove", "desk", "--yes")
    assert vscode.read_text() == before


def test_a_question_that_is_there_already_stays_as_it_is(accord, vscode):
    question = {"type": "promptString", "id": "api-key", "description": "mine"}
    vscode.write_text(json.dumps({"inputs": [question]}))
    accord("add", "desk.py", "--host", "vscode", *ASKING)
    assert json.loads(vscode.read_text())["inputs"] == [question]


def test_a_host_that_asks_nothing_gets_a_variable_in_its_place(accord, home):
    code, out, _ = accord("add", "desk.py", "--host", "cursor", *ASKING)
    assert code == 0
    assert "Cursor asks for nothing: set the variable API_KEY" in out
    assert "${env:API_KEY}" in (home / ".cursor" / "mcp.json").read_text()


@pytest.mark.parametrize(
    ("host", "path", "text"),
    [
        ("cursor", ".cursor/mcp.json", '{"mcpServers": []}'),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("codex", ".codex/config.toml", "mcp_servers = 3\n"),
        ("goose", ".config/goose/config.yaml", "extensions: [a]\n"),
        ("continue", ".continue/config.yaml", "mcpServers: {a: 1}\n"),
    ],
)
def test_a_file_with_something_else_in_place_of_servers_is_left_alone(
    accord, home, host, path, text
):
    file = home / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    code, _, err = accord("add", "desk.py", "--host", host, "--no-check", "--yes")
    assert code == 2
    assert str(file) in err
    assert file.read_text() == text


def test_an_undo_keeps_what_others_wrote_since(accord, home):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n')
    accord("add", "desk.py", "--no-check", "--yes")
    path.write_text(path.read_text().replace('"x"', '"y"') + "// more\n")
    assert accord("hosts", "undo", "--yes")[0] == 0
    assert path.read_text() == (
        '{\n  "mcpServers": {\n    "a": {"command": "y"}\n  }\n}\n// more\n'
    )


def test_an_undo_of_an_entry_that_changed_since_is_refused_with_the_backup(accord, home):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {}}\n')
    accord("add", "desk.py", "--no-check", "--yes")
    changed = path.read_text().replace('"run"', '"run", "--log-level", "debug"')
    path.write_text(changed)
    code, _, err = accord("hosts", "undo", "--yes")
    assert code == 2
    assert "backups" in err
    assert path.read_text() == changed


def test_other_settings_must_not_change_with_an_entry(tmp_path):
    from accord_tools.hosts.definition import ConfigFile
    from accord_tools.hosts.operations.edits import verify_rest
    from accord_tools.hosts.table import load_hosts

    file = ConfigFile(
        host=load_hosts()["cursor"],
        scope="user",
        path=tmp_path / "mcp.json",
        key=("mcpServers",),
        format="json",
    )
    before = b'{"mcpServers": {"a": {}, "b": {}}, "c": 1}'
    verify_rest(file, before, b'{"mcpServers": {"b": {}}, "c": 1}', ["a"])
    for after in (b'{"mcpServers": {}, "c": 1}', b'{"mcpServers": {"b": {}}, "c": 2}'):
        with pytest.raises(HostsError, match="other settings than a would change"):
            verify_rest(file, before, after, ["a"])


def test_a_repeated_removal_says_that_there_is_no_such_server(accord, home):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"other": {"command": "x"}}}')
    accord("add", "desk.py", "--no-check", "--yes")
    accord("remove", "desk", "--yes")
    code, _, err = accord("remove", "desk", "--yes")
    assert code == 2
    assert "no host has a server 'desk'; there are other" in err
