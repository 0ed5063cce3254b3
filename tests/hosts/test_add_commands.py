"""The commands `add`, `remove` and `hosts`, as a user types them."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from hosts.host_texts import SERVER

KEY = "sk-proj-hidden0123456789abcdefghij"
CURSOR = """\
{
  // our tickets
  "mcpServers": {
    "tickets": { "url": "https://tickets.example.com/mcp" },
  }
}
"""


@pytest.fixture
def cursor(home):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(CURSOR)
    return path


def test_a_server_is_launched_as_the_host_does_shown_and_written(accord, cursor, home):
    code, out, err = accord("add", "desk.py", "--yes")
    assert code == 0
    # Further remarks are about the folder that the tests run in.
    assert err.startswith(f"the entry uses the source of accord in {_source()}\n")
    assert '+    "desk": {' in out
    assert "Cursor: desk  desk 0.0.0" in out
    assert "1 tool" in out
    assert f"added desk to {cursor}" in out
    text = cursor.read_text()
    assert text.startswith(CURSOR[: CURSOR.index("  }\n}")])
    assert str(home / "desk" / "desk.py") in text


def _source():
    import accord as package

    return str(Path(package.__file__).parent)


def test_removing_gives_the_bytes_of_before_back(accord, cursor):
    accord("add", "desk.py", "--no-check", "--yes")
    assert cursor.read_text() != CURSOR
    code, out, _ = accord("remove", "desk", "--yes")
    assert code == 0
    assert f"removed desk from {cursor}" in out
    assert cursor.read_text() == CURSOR


def test_a_server_that_does_not_start_is_not_written(accord, cursor, home):
    (home / "desk" / "desk.py").write_text(SERVER + "import nothing_like_this\n")
    code, out, err = accord("add", "desk.py", "--yes")
    assert code == 1
    assert "nothing_like_this" in out
    assert "nothing was written" in err
    assert cursor.read_text() == CURSOR


def test_without_a_terminal_a_change_needs_yes(accord, cursor):
    code, _, err = accord("add", "desk.py", "--no-check")
    assert code == 2
    assert "--yes answers the question" in err
    assert cursor.read_text() == CURSOR


def test_a_dry_run_shows_the_change_and_writes_nothing(accord, cursor, home):
    code, out, _ = accord("add", "desk.py", "--dry-run")
    assert code == 0
    assert '+    "desk": {' in out
    assert cursor.read_text() == CURSOR
    assert not (home / ".config").exists()


def test_adding_again_changes_nothing(accord, cursor):
    accord("add", "desk.py", "--no-check", "--yes")
    before = cursor.read_bytes()
    code, out, _ = accord("add", "desk.py", "--no-check", "--yes")
    assert code == 0
    assert "nothing to change" in out
    assert cursor.read_bytes() == before


def test_members_that_only_the_host_knows_stay_in_a_changed_entry(accord, home):
    path = home / ".kiro" / "settings" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": {"desk": {"command": "x", "autoApprove": ["add"]}}}')
    accord("add", "desk.py", "--no-check", "--yes")
    entry = json.loads(path.read_text())["mcpServers"]["desk"]
    assert entry["autoApprove"] == ["add"]
    assert entry["command"] != "x"


def test_a_broken_file_is_left_alone_with_its_place_and_a_text_to_paste(accord, cursor):
    cursor.write_text('{"mcpServers": {"a": 1 "b": 2}}')
    code, _, err = accord("add", "desk.py", "--yes")
    assert code == 2
    assert f"{cursor}:1:23: " in err
    assert '"desk": {' in err
    assert cursor.read_text() == '{"mcpServers": {"a": 1 "b": 2}}'


@pytest.mark.parametrize("flag", ["--yes", "--dry-run"])
def test_a_file_that_the_host_refuses_is_left_alone(accord, home, flag):
    """Gemini CLI reads comments, and no commas before a closing bracket."""
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    text = '{"mcpServers": {"a": {"command": "x"},},}'
    path.write_text(text)
    code, out, err = accord("add", "desk.py", "--host", "gemini-cli", "--no-check", flag)
    assert code == 2
    assert "does not take commas before a closing bracket; remove them first" in err
    assert '"desk": {' in err
    assert (out, path.read_text()) == ("", text)


def test_one_broken_file_does_not_stop_other_hosts(accord, cursor, home):
    cursor.write_text("{")
    (home / ".codex").mkdir()
    code, _, err = accord("add", "desk.py", "--no-check", "--yes")
    assert code == 2
    assert "Cursor: " in err
    assert "[mcp_servers.desk]" in (home / ".codex" / "config.toml").read_text()


def test_no_file_is_written_if_a_named_host_fails(accord, cursor, home):
    cursor.write_text("{")
    words = ("add", "desk.py", "--host", "cursor", "--host", "codex", "--no-check", "--yes")
    assert accord(*words)[0] == 2
    assert not (home / ".codex").exists()


def test_a_linked_file_stays_a_link(accord, cursor, home):
    kept = home / "dotfiles.json"
    cursor.rename(kept)
    cursor.symlink_to(kept)
    accord("add", "desk.py", "--no-check", "--yes")
    assert cursor.is_symlink()
    assert '"desk"' in kept.read_text()


def link_project_file(home, target):
    link = home / "desk" / ".cursor" / "mcp.json"
    link.parent.mkdir()
    target.write_text('{"mcpServers": {}}')
    link.symlink_to(target)
    return ("--host", "cursor", "--scope", "project", "--no-check")


def test_a_project_file_that_leads_out_of_the_project_is_named_in_the_question(
    accord, home, monkeypatch
):
    victim = home / "victim.json"
    words = link_project_file(home, victim)
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "n")
    code, out, _ = accord("add", "desk.py", *words)
    place = f"a link to {victim}, outside of the project"
    assert (code, asked) == (1, [f"write this file ({place})? [y/N] "])
    assert f"  {place}\n" in out
    _, out, _ = accord("add", "desk.py", *words, "--dry-run", "--format", "json")
    assert json.loads(out)["changes"][0]["link"] == place
    assert victim.read_text() == '{"mcpServers": {}}'


def test_a_link_within_the_project_is_shown(accord, home):
    words = link_project_file(home, home / "desk" / "kept.json")
    _, out, _ = accord("add", "desk.py", *words, "--dry-run")
    assert f"a link to {home / 'desk' / 'kept.json'}\n" in out


def test_a_home_folder_that_is_a_link_is_not_shown_as_one(accord, cursor, home, monkeypatch):
    (home.parent / "other").symlink_to(home)
    monkeypatch.setenv("HOME", str(home.parent / "other"))
    _, out, _ = accord("add", "desk.py", "--dry-run")
    assert "a link to" not in out


def test_an_unknown_host_is_answered_with_suggestions(accord, home):
    code, _, err = accord("add", "desk.py", "--host", "curser")
    assert code == 2
    assert "cursor" in err


def test_without_a_host_the_message_names_those_that_are_known(accord, home):
    code, _, err = accord("add", "desk.py", "--yes")
    assert code == 2
    assert "--host: " in err
    assert "claude-desktop, " in err


def test_a_file_in_an_unusual_place_is_written_in_the_form_of_its_host(accord, home):
    place = home / "desk" / "odd.json"
    accord("add", "desk.py", "--host", "vscode", "--file", str(place), "--no-check", "--yes")
    assert json.loads(place.read_text())["servers"]["desk"]["type"] == "stdio"
    code, _, err = accord("add", "desk.py", "--file", str(place))
    assert (code, "--file needs one --host" in err) == (2, True)


def test_a_project_file_is_written_in_this_folder(accord, home):
    words = ("add", "desk.py", "--host", "cursor", "--scope", "project", "--no-check", "--yes")
    assert accord(*words)[0] == 0
    assert (home / "desk" / ".cursor" / "mcp.json").exists()
    assert not (home / ".cursor").exists()


def test_a_host_of_a_users_own_table_is_written(accord, home):
    table = home / "hosts.toml"
    table.write_text(
        '[hosts.mine]\nname = "Mine"\nchecked = "2026-11"\nsource = "me"\nformat = "json"\n'
        'key = ["mcpServers"]\nuser = ["{home}/mine.json"]\n'
        'stdio = { members = { command = "program", args = "args" } }\n'
    )
    words = ("add", "desk.py", "--hosts", str(table), "--host", "mine", "--no-check", "--yes")
    assert accord(*words)[0] == 0
    assert json.loads((home / "mine.json").read_text())["mcpServers"]["desk"]


def test_an_entry_is_printed_for_a_host_and_nothing_is_written(accord, home):
    code, out, err = accord("add", "desk.py", "--print", "goose")
    assert code == 0
    assert out.startswith("extensions:\n  desk:\n")
    assert str(home / ".config" / "goose" / "config.yaml") in err
    assert not (home / ".config").exists()


def test_without_a_host_an_entry_is_printed_as_most_hosts_read_it(accord, home):
    code, out, err = accord("add", "desk.py", "--print")
    assert code == 0
    entry = json.loads(out)["mcpServers"]["desk"]
    assert entry["args"][-2:] == ["run", str(Path("desk.py").absolute())]
    assert "--print HOST" in err
    assert not (home / ".cursor").exists()


def test_a_link_offers_the_server(accord, home):
    code, out, _ = accord("add", "desk.py", "--link", "cursor")
    assert code == 0
    assert out.startswith("cursor://anysphere.cursor-deeplink/mcp/install?name=desk&config=")
    assert accord("add", "desk.py", "--link", "zed")[0] == 2


def test_a_name_before_the_target_names_the_entry(accord, cursor):
    accord("add", "counter=desk.py", "--no-check", "--yes")
    assert '"counter": {' in cursor.read_text()


def test_a_package_is_launched_after_consent_and_added(accord, cursor, home, monkeypatch):
    runner, mark = home / "bin" / "npx", home / "launched"
    runner.parent.mkdir()
    serve = f"{sys.executable} -P -m accord run {home / 'desk' / 'desk.py'}"
    runner.write_text(f"#!/bin/sh\necho $@ >> {mark}\nexec {serve}\n")
    runner.chmod(0o755)
    monkeypatch.setenv("PATH", str(runner.parent), prepend=os.pathsep)
    monkeypatch.setenv("NOTES_KEY", KEY)
    words = ("add", "@scope/server-notes@1.2", "--env", "NOTES_KEY")
    code, _, err = accord(*words)
    assert code == 2
    assert "notes launches npx -y @scope/server-notes@1.2, with NOTES_KEY" in err
    assert not mark.exists()
    code, out, _ = accord(*words, "--yes")
    assert (code, mark.read_text()) == (0, "-y @scope/server-notes@1.2\n")
    assert f"added notes to {cursor}" in out
    assert f'"command": "{runner}"' in cursor.read_text()
    assert '"NOTES_KEY": "${env:NOTES_KEY}"' in cursor.read_text()


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("server-notes", "did you mean a package: npm:server-notes or pypi:server-notes?"),
        ("scope/server-notes", "did you mean a package: @scope/server-notes?"),
        ("notes.py", ""),
        ("ls", ""),
    ],
)
def test_a_target_that_is_not_found_may_be_a_package(accord, cursor, target, hint):
    code, _, err = accord("add", target)
    assert code == 2
    assert hint in err
    assert bool(hint) == ("package:" in err)


def test_a_command_is_written_with_the_full_path_of_its_program(accord, cursor, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    program = Path(sys.executable).name
    accord("add", "--name", "version", "--no-check", "--yes", "--", program, "--version")
    assert f'"command": "{sys.executable}"' in cursor.read_text()


def test_a_project_entry_has_paths_that_others_have_too(accord, home):
    python = home / "desk" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    words = ("add", "--name", "desk", "--host", "vscode", "--scope", "project", "--no-check")
    accord(*words, "--yes", "--", str(python), str(home / "desk" / "desk.py"))
    entry = json.loads((home / "desk" / ".vscode" / "mcp.json").read_text())["servers"]["desk"]
    assert (entry["command"], entry["args"]) == (".venv/bin/python", ["desk.py"])


def test_a_file_that_several_hosts_read_is_changed_once(accord, home):
    words = ("--host", "claude-code", "--host", "copilot-cli", "--scope", "project")
    code, out, err = accord("add", "desk.py", *words, "--no-check", "--yes")
    assert code == 0
    assert out.count("added desk") == 1
    assert "reads" in err
    code, out, _ = accord("hosts", "check", "--no-launch")
    assert out.count("desk") == 1
    code, out, _ = accord("remove", "desk", "--yes")
    assert (code, out.count("removed desk")) == (0, 1)
    assert not (home / "desk" / ".mcp.json").exists()


@pytest.mark.parametrize("text", [None, "{}", '{\n    "theme": "dark"  // mine\n}\n', CURSOR])
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
@pytest.mark.parametrize("is_together", [True, False])
def test_the_order_of_removals_does_not_matter(accord, cursor, text, order, is_together):
    cursor.unlink() if text is None else cursor.write_text(text)
    for name in ("one", "two"):
        accord("add", f"{name}=desk.py", "--host", "cursor", "--no-check", "--yes")
    for names in [order] if is_together else [(each,) for each in order]:
        assert accord("remove", *names, "--yes")[0] == 0
    assert (cursor.read_text() if cursor.exists() else None) == text


def test_a_comment_that_was_written_since_is_not_lost_by_a_removal(accord, cursor):
    cursor.write_text("{}")
    accord("add", "desk.py", "--no-check", "--yes")
    cursor.write_text("// new\n" + cursor.read_text())
    accord("remove", "desk", "--yes")
    assert cursor.read_text().startswith("// new\n{")
    assert "desk" not in cursor.read_text()


# -- secrets


def test_a_variable_without_a_value_is_filled_in_by_the_host(accord, cursor, monkeypatch):
    monkeypatch.setenv("API_KEY", KEY)
    code, out, err = accord("add", "desk.py", "--env", "API_KEY", "--no-check", "--yes")
    assert code == 0
    assert '"API_KEY": "${env:API_KEY}"' in cursor.read_text()
    assert KEY not in out + err


def test_a_secret_is_kept_in_a_file_of_its_own_and_reaches_the_server(accord, cursor, home):
    server = SERVER + f'\nimport os\n\nassert os.environ["API_KEY"] == "{KEY}"\n'
    (home / "desk" / "desk.py").write_text(server)
    code, out, err = accord("add", "desk.py", "--env", f"API_KEY={KEY}", "--yes")
    assert (code, KEY in out + err) == (0, False)
    assert KEY not in cursor.read_text()
    kept = home / ".config" / "accord" / "secrets" / "desk.env"
    assert KEY in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert accord("hosts", "check", "desk")[0] == 0
    journal = home / ".config" / "accord" / "hosts" / "journal.jsonl"
    assert KEY not in journal.read_text()
    accord("remove", "desk", "--yes")
    assert not kept.exists()
    accord("hosts", "undo", "--yes")
    assert KEY in kept.read_text()


def test_a_secret_stays_while_another_host_needs_it(accord, cursor, home):
    (home / ".codex").mkdir()
    accord("add", "desk.py", "--env", f"API_KEY={KEY}", "--no-check", "--yes")
    kept = home / ".config" / "accord" / "secrets" / "desk.env"
    accord("remove", "desk", "--host", "cursor", "--yes")
    assert kept.exists()
    accord("remove", "desk", "--yes")
    assert not kept.exists()


def test_a_literal_secret_is_written_only_if_asked_for(accord, cursor):
    words = ("add", "desk.py", "--env", f"API_KEY={KEY}", "--literal-secrets")
    code, out, _ = accord(*words, "--no-check", "--yes")
    assert code == 0
    assert KEY in cursor.read_text()
    assert KEY not in out


def test_a_project_file_never_gets_a_secret(accord, home):
    words = ("add", "desk.py", "--host", "cursor", "--scope", "project", "--no-check", "--yes")
    code, _, err = accord(*words, "--env", f"API_KEY={KEY}")
    assert code == 2
    assert "--env API_KEY" in err
    assert KEY not in err
    assert not (home / "desk" / ".cursor").exists()


def test_secrets_of_other_entries_are_not_in_the_diff(accord, cursor):
    other = '{"mcpServers": {\n  "a": {"command": "x", "env": {"TOKEN": "KEY"}}\n}}\n'
    other = other.replace("KEY", KEY)
    cursor.write_text(other)
    code, out, _ = accord("add", "desk.py", "--no-check", "--yes")
    assert code == 0
    assert '"TOKEN": "masked-0"' in out
    assert KEY not in out
    assert KEY in cursor.read_text()


def test_a_header_with_a_variable_is_written_in_the_hosts_form(accord, cursor, home):
    (home / ".codex").mkdir()
    words = ("add", "https://example.com/mcp", "--header", "Authorization: Bearer ${TOKEN}")
    assert accord(*words, "--no-check", "--yes")[0] == 0
    assert '"Authorization": "Bearer ${env:TOKEN}"' in cursor.read_text()
    assert 'bearer_token_env_var = "TOKEN"' in (home / ".codex" / "config.toml").read_text()


def test_a_secret_header_is_refused_with_the_remedy(accord, cursor):
    words = ("add", "https://example.com/mcp", "--header", f"Authorization: Bearer {KEY}")
    code, _, err = accord(*words, "--no-check", "--yes")
    assert code == 2
    assert "--header 'Authorization: Bearer ${" in err
    assert KEY not in err


def test_a_secret_in_a_url_is_refused_with_the_remedy(accord, cursor):
    url = f"https://example.com/mcp?key={KEY}"
    code, out, err = accord("add", url, "--no-check", "--yes")
    assert code == 2
    assert "Write ${EXAMPLE_KEY} in its place (in single quotes) and set EXAMPLE_KEY" in err
    assert KEY not in out + err
    url = "https://example.com/mcp?key=${EXAMPLE_KEY}"
    assert accord("add", url, "--no-check", "--yes")[0] == 0
    assert "?key=${env:EXAMPLE_KEY}" in cursor.read_text()


# -- hosts


def test_hosts_are_listed_with_their_files_and_servers(accord, cursor, home):
    (home / ".codex").mkdir()
    code, out, _ = accord("hosts")
    assert code == 0
    assert (
        f"Cursor (cursor)\n  {cursor}\n    tickets  http   https://tickets.example.com/mcp" in out
    )
    assert "config.toml  not there yet" in out
    code, out, _ = accord("hosts", "cursor", "--format", "json")
    server = json.loads(out)["hosts"][0]["files"][0]["servers"][0]
    assert (server["name"], server["line"], server["transport"]) == ("tickets", 4, "http")


def test_a_list_shows_no_secrets(accord, cursor):
    cursor.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "a": {"command": "x", "args": ["--token", KEY], "env": {"TOKEN": KEY}},
                    "b": {"url": f"https://example.com/mcp?key={KEY}"},
                }
            }
        )
    )
    for words in (("hosts",), ("hosts", "--format", "json"), ("hosts", "check", "--no-launch")):
        _, out, err = accord(*words)
        assert KEY not in out + err


def test_a_file_that_cannot_be_read_is_listed_with_its_place(accord, cursor):
    cursor.write_text("{")
    code, out, _ = accord("hosts")
    assert code == 1
    assert f"{cursor}:1:" in out


def test_servers_of_a_project_are_not_launched_without_a_question(accord, home):
    place = home / "desk" / ".cursor" / "mcp.json"
    place.parent.mkdir()
    mark = home / "launched"
    command = {"command": sys.executable, "args": ["-c", f"open({str(mark)!r}, 'w')"]}
    place.write_text(json.dumps({"mcpServers": {"odd": command}}))
    _, out, err = accord("hosts", "check")
    assert "--yes" in err
    assert "not launched" in out
    assert not mark.exists()
    accord("hosts", "check", "--yes")
    assert mark.exists()


def test_servers_of_the_user_are_launched_in_the_home_folder_too(accord, cursor, home, monkeypatch):
    mark = home / "launched"
    command = {"command": sys.executable, "args": ["-c", f"open({str(mark)!r}, 'w')"]}
    cursor.write_text(json.dumps({"mcpServers": {"own": command}}))
    monkeypatch.chdir(home)
    _, out, err = accord("hosts", "check")
    assert mark.exists()
    assert "project" not in out + err


def test_a_repair_is_shown_and_written(accord, cursor, home):
    cursor.write_text(
        json.dumps({"servers": {"desk": {"command": sys.executable, "args": ["x"]}}}, indent=2)
    )
    code, out, _ = accord("hosts", "repair", "--dry-run")
    assert code == 0
    assert '+  "mcpServers": {' in out
    before = cursor.read_text()
    assert '"servers"' in before
    assert accord("hosts", "repair", "--yes")[0] == 0
    assert list(json.loads(cursor.read_text())) == ["mcpServers"]
    assert "nothing to mend" in accord("hosts", "repair")[1]
    accord("hosts", "undo", "--yes")
    assert cursor.read_text() == before


def test_servers_are_copied_in_the_form_of_the_other_host(accord, cursor, home):
    accord("add", "desk.py", "--host", "cursor", "--no-check", "--yes")
    assert accord("hosts", "sync", "cursor", "codex", "claude-desktop", "--yes")[0] == 0
    text = (home / ".codex" / "config.toml").read_text()
    assert '[mcp_servers.tickets]\nurl = "https://tickets.example.com/mcp"' in text
    assert "[mcp_servers.desk]" in text
    desktop = home / ".config" / "Claude" / "claude_desktop_config.json"
    assert json.loads(desktop.read_text())["mcpServers"]["tickets"]["args"][-2:] == [
        "proxy",
        "https://tickets.example.com/mcp",
    ]
    back = ("hosts", "sync", "claude-desktop", "windsurf", "--server", "tickets", "--yes")
    assert accord(*back)[0] == 0
    windsurf = json.loads((home / ".codeium" / "windsurf" / "mcp_config.json").read_text())
    assert windsurf["mcpServers"]["tickets"]["serverUrl"] == "https://tickets.example.com/mcp"


def test_a_copy_leaves_a_different_server_of_the_name_alone(accord, cursor, home):
    place = home / ".kiro" / "settings" / "mcp.json"
    place.parent.mkdir(parents=True)
    place.write_text('{"mcpServers": {"tickets": {"command": "mine"}}}')
    before = place.read_bytes()
    code, _, err = accord("hosts", "sync", "cursor", "kiro", "--yes")
    assert code == 0
    assert "--replace" in err
    assert place.read_bytes() == before
    accord("hosts", "sync", "cursor", "kiro", "--replace", "--yes")
    assert json.loads(place.read_text())["mcpServers"]["tickets"]["url"]


def test_a_copy_to_a_broken_file_is_refused_with_its_place(accord, cursor, home):
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("a = \n")
    code, _, err = accord("hosts", "sync", "cursor", "codex", "kiro", "--yes")
    assert code == 2
    assert "config.toml:1:" in err
    assert not (home / ".kiro").exists()


def test_changes_are_listed_and_undone_by_number(accord, cursor):
    accord("add", "one=desk.py", "--no-check", "--yes")
    accord("add", "two=desk.py", "--no-check", "--yes")
    _, out, _ = accord("hosts", "undo", "--list")
    assert [line.split()[3] for line in out.splitlines()] == ["add", "add"]
    accord("hosts", "undo", "1", "--yes")
    assert '"two": {' in cursor.read_text()
    assert '"one": {' not in cursor.read_text()
    accord("hosts", "undo", "2", "--yes")
    assert cursor.read_text() == CURSOR
    assert accord("hosts", "undo", "x")[0] == 2


def test_removing_a_name_that_no_host_has_suggests_those_that_exist(accord, cursor):
    code, _, err = accord("remove", "ticket", "--yes")
    assert code == 2
    assert "did you mean tickets?" in err


def test_a_bundle_is_unpacked_only_when_it_is_added(accord, cursor, home):
    words = ("bundle", "desk.py", "--output", "desk.mcpb", "--author", "Ann")
    code, _, err = accord(*words, "--with-dependencies")
    assert code == 0, err
    assert accord("add", "desk.mcpb", "--yes")[0] == 0
    bundles = home / ".config" / "accord" / "bundles"
    assert str(bundles) in cursor.read_text()
    assert len(list(bundles.iterdir())) == 1
    shutil.rmtree(bundles)
    assert accord("add", "other=desk.mcpb", "--dry-run")[0] == 0
    assert not list(bundles.iterdir())
    cursor.write_text("{")
    (home / ".codex").mkdir()
    assert accord("add", "desk.mcpb", "--no-check", "--yes")[0] == 2
    assert str(bundles) in (home / ".codex" / "config.toml").read_text()
    assert len(list(bundles.iterdir())) == 1


def test_json_has_the_change_and_the_check(accord, cursor):
    code, out, _ = accord("add", "desk.py", "--yes", "--format", "json")
    said = json.loads(out)
    assert code == 0
    assert said["written"] == [str(cursor)]
    assert said["changes"][0]["host"] == "cursor"
    assert said["checks"][0]["launch"]["counts"] == {"tools": 1}


def test_a_missing_home_folder_is_not_created_by_looking(accord, home):
    shutil.rmtree(home / "desk" / "x", ignore_errors=True)
    accord("hosts", "--all")
    assert sorted(each.name for each in home.iterdir()) == ["desk"]
