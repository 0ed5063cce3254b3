"""Mistakes of beginners, hostile files and accidents: nothing is harmed, and no secret appears."""

import json
import os
import sys

import pytest

from accord_tools.hosts.writing.change import FileChange, write_changes
from accord_tools.hosts.writing.journal import Journal


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n")
    return path


# -- several hosts with one file


def test_a_server_in_a_file_of_several_hosts_is_removed_once(accord, home):
    """VS Code, its Insiders and VSCodium read the same file of a project."""
    before = {"servers": {"other": {"type": "http", "url": "https://example.com/mcp"}}}
    path = write_json(home / "desk" / ".vscode" / "mcp.json", before)
    words = ("desk.py", "--host", "vscode", "--scope", "project", "--no-check", "--yes")
    assert accord("add", *words)[0] == 0
    code, out, err = accord("remove", "desk", "--yes")
    assert (code, err, out.count("removed desk from")) == (0, "", 1)
    assert json.loads(path.read_text()) == before


def test_a_server_in_a_file_that_two_hosts_link_to_is_removed_once(accord, home):
    shared = write_json(home / "shared.json", {"mcpServers": {"desk": {"command": "/bin/true"}}})
    for name in (".cursor", ".kiro/settings"):
        (home / name).mkdir(parents=True)
        (home / name / "mcp.json").symlink_to(shared)
    code, _, err = accord("remove", "desk", "--yes")
    assert (code, err) == (0, "")
    assert json.loads(shared.read_text()) == {"mcpServers": {}}


def test_a_removed_file_comes_back_with_its_folder_if_a_later_change_fails(tmp_path):
    journal = Journal(tmp_path / "journal")
    path, later = tmp_path / "made" / "mcp.json", tmp_path / "later.json"

    def change(file, compute):
        return FileChange(path=file, host="cursor", name="desk", action="add", compute=compute)

    def fail(_):
        raise ValueError("later")

    write_changes([change(path, lambda _: b"{}")], journal)
    with pytest.raises(ValueError, match="later"):
        write_changes([change(path, lambda _: None), change(later, fail)], journal)
    assert path.read_bytes() == b"{}"


# -- secrets that are written in unusual ways

HIDDEN = "Zq9x7hidden"
CURSOR_TEXT = """\
{"mcpServers": {
  "pair": {"url": "https://h.example/mcp?token=Zq9x7hiddenA&api_key=Zq9x7hiddenB#key=Zq9x7hiddenC"},
  "env": {"command": "/bin/true", "env": {"PGPASS": "Zq9x7hiddenD", "GITHUB_PAT": "Zq9x7hiddenE"}},
  "head": {"url": "https://h.example/mcp", "headers": {"Ocp-Subscription-Key": "Zq9x7hiddenF"}},
  "odd": {"command": "/bin/true", "env": {"A_TOKEN": "\\u005aZq9x7hiddenG\\u00e9"}}
}}
"""
CODEX_TEXT = '''\
[mcp_servers.odd]
command = "/bin/true"
env = { TOKEN = """
Zq9x7hiddenA
Zq9x7hiddenB \\
  Zq9x7hiddenC""" }
'''
GOOSE_TEXT = """\
extensions:
  odd:
    name: odd
    type: stdio
    cmd: /bin/true
    envs:
      API_TOKEN: |
        Zq9x7hiddenA
        Zq9x7hiddenB
      OTHER_SECRET: >-
        Zq9x7hiddenC
        Zq9x7hiddenD
      THIRD_SECRET: "Zq9x7hiddenE\\
        Zq9x7hiddenF"
"""
ODD_FILES = {
    "cursor": (".cursor/mcp.json", CURSOR_TEXT, ["pair", "env", "head", "odd"]),
    "codex": (".codex/config.toml", CODEX_TEXT, ["odd"]),
    "goose": (".config/goose/config.yaml", GOOSE_TEXT, ["odd"]),
}


@pytest.mark.parametrize("host", ODD_FILES)
@pytest.mark.parametrize("format", ["text", "json"])
def test_secrets_in_unusual_notations_are_not_shown(accord, home, host, format):
    name, text, servers = ODD_FILES[host]
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    said = accord("hosts", "--format", format)
    assert (HIDDEN in "".join(said[1:]), said[0]) == (False, 0)
    said = accord("remove", *servers, "--yes", "--format", format)
    assert (HIDDEN in "".join(said[1:]), said[0]) == (False, 0)
    said = accord("hosts", "undo", "--yes", "--format", format)
    assert (HIDDEN in "".join(said[1:]), path.read_text()) == (False, text)
    journal = home / ".config" / "accord" / "hosts" / "journal.jsonl"
    assert HIDDEN not in journal.read_text()


# -- secrets of URLs, and entries to paste


def test_a_token_for_a_url_reaches_a_host_without_urls_through_a_file(accord, home, monkeypatch):
    monkeypatch.setenv("TOKEN", HIDDEN)
    words = ("--header", "Authorization: Bearer ${TOKEN}", "--host", "claude-desktop")
    code, out, err = accord("add", "https://example.com/mcp", *words, "--no-check", "--yes")
    assert (code, HIDDEN in out + err) == (0, False)
    kept = home / ".config" / "accord" / "secrets" / "example.env"
    assert f'\nACCORD_BEARER="{HIDDEN}"\n' in kept.read_text()


def test_a_variable_in_a_url_is_written_in_the_hosts_form(accord, home):
    code, out, _ = accord("add", "https://h.example/mcp?key=${TOKEN}", "--print", "cursor")
    assert (code, "?key=${env:TOKEN}" in out) == (0, True)


def test_a_secret_in_a_url_is_refused_with_the_remedy(accord, home):
    code, _, err = accord("add", f"https://h.example/mcp?key={HIDDEN}", "--host", "cursor")
    assert (code, HIDDEN in err) == (2, False)
    assert "Write ${H_KEY} in its place" in err


@pytest.mark.parametrize("option", ["--print", "--link"])
def test_an_entry_to_paste_names_the_file_that_has_to_be_made(accord, home, option):
    code, out, err = accord("add", "desk.py", "--env", f"API_KEY={HIDDEN}", option, "cursor")
    assert (code, HIDDEN in out + err) == (0, False)
    assert "desk.env is not written by this: put API_KEY there" in err


# -- mistakes


def test_a_name_before_the_target_that_hosts_refuse_is_explained(accord, home):
    code, _, err = accord("add", "büro=desk.py", "--host", "cursor")
    assert (code, "the name 'büro' has 'ü'" in err, "such as buro" in err) == (2, True, True)


def test_a_copy_of_nothing_says_so(accord, home):
    (home / ".cursor").mkdir()
    code, _, err = accord("hosts", "sync", "zed", "cursor", "--yes")
    assert (code, "settings.json has no servers of Zed" in err) == (0, True)


def test_a_repair_of_a_name_that_no_host_has_is_refused(accord, home):
    write_json(home / ".cursor" / "mcp.json", {"mcpServers": {"desk": {"command": "/bin/true"}}})
    code, _, err = accord("hosts", "repair", "dask")
    assert (code, "did you mean desk?" in err) == (2, True)


@pytest.mark.parametrize("words", [("hosts",), ("hosts", "check", "--no-launch")])
def test_a_file_of_a_project_is_listed_once_unless_several_readers_are_installed(
    accord, home, words
):
    server = {"type": "stdio", "command": "/bin/true"}
    write_json(home / "desk" / ".vscode" / "mcp.json", {"servers": {"shared": server}})
    assert accord(*words)[1].count("shared") == 1
    (home / ".config" / "VSCodium").mkdir(parents=True)
    code, out, _ = accord(*words)
    assert (code, out.count("shared"), "VSCodium" in out) == (0, 1, True)


def test_an_error_of_syntax_names_its_place_once(accord, home):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": }')
    code, out, _ = accord("hosts", "check")
    assert (code, f"error: {path}:1:16: " in out) == (1, True)


# -- tables of a user, and large files


@pytest.mark.parametrize("path", ["{home}/a\\u0000b.json", "{home}/a\\u001b[31m.json"])
def test_a_path_with_control_characters_is_refused_in_a_table(accord, home, path):
    (home / "desk" / "more.toml").write_text(
        '[hosts.mine]\nname = "Mine"\nchecked = "2026-11"\nsource = "x"\nformat = "json"\n'
        f'key = ["servers"]\nuser = ["{path}"]\nstdio = {{ members = {{ command = "program" }} }}\n'
    )
    code, _, err = accord("add", "desk.py", "--hosts", "more.toml", "--host", "mine")
    assert (code, "has control characters" in err) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_table_that_is_a_named_pipe_is_refused(accord, home):
    os.mkfifo(home / "desk" / "more.toml")
    code, _, err = accord("hosts", "--hosts", "more.toml")
    assert (code, "is a named pipe, not a file" in err) == (2, True)


def test_entries_of_a_large_file_are_found_without_reading_it_again_for_each(monkeypatch):
    from accord_tools.hosts.documents import json_document

    servers = {f"s{number}": {"command": "x"} for number in range(50)}
    document = json_document.JsonDocument(json.dumps({"mcpServers": servers}))
    read = []
    scan = json_document.read_container
    monkeypatch.setattr(
        json_document, "read_container", lambda text, at: read.append(at) or scan(text, at)
    )
    assert all(document.find(("mcpServers", name)) for name in servers)
    assert len(read) == 2


def test_a_change_of_a_file_that_two_hosts_read_is_shown_once(accord, home):
    words = ("--host", "claude-code", "--host", "copilot-cli", "--scope", "project", "--no-check")
    code, out, err = accord("add", "desk.py", *words, "--dry-run")
    assert (code, out.count("@@"), "gets the same entry" in err) == (0, 2, True)


def test_one_file_is_not_written_in_the_forms_of_two_hosts(accord, home):
    path = write_json(home / "desk" / ".mcp.json", {})
    words = ("--host", "claude-code", "--host", "qoder-cli", "--scope", "project", "--no-check")
    code, _, err = accord("add", "desk.py", *words, "--yes")
    assert (code, path.read_text()) == (2, "{}\n")
    assert "Claude Code reads" in err
    assert "needs the entry in another form" in err


def test_a_copy_there_and_back_keeps_the_folder_of_a_server(accord, home):
    """VS Code sets the folder of a server, Kiro does not."""
    server = {"type": "stdio", "command": "/bin/true", "args": [], "cwd": "/usr"}
    path = home / ".config" / "Code" / "User" / "mcp.json"
    before = write_json(path, {"servers": {"desk": server}}).read_text()
    assert accord("hosts", "sync", "vscode", "kiro", "--yes")[0] == 0
    assert '"exec"' in (home / ".kiro" / "settings" / "mcp.json").read_text()
    path.write_text("{}")
    assert accord("hosts", "sync", "kiro", "vscode", "--yes")[0] == 0
    found = json.loads(path.read_text())["servers"]["desk"]
    found.pop("env", None)  # a checkout of accord needs its folder there
    assert found == json.loads(before)["servers"]["desk"]


def test_a_wrapper_that_was_written_by_hand_is_copied_as_it_is(accord, home):
    words = ["-m", "accord", "exec", "--env-file=/srv/desk.env", "--", "/bin/true"]
    server = {"command": sys.executable, "args": words}
    write_json(home / ".cursor" / "mcp.json", {"mcpServers": {"desk": server}})
    code, out, _ = accord("hosts", "sync", "cursor", "zed", "--dry-run")
    assert (code, "--env-file=/srv/desk.env" in out) == (0, True)


@pytest.mark.parametrize("secret", [HIDDEN, f"7{HIDDEN}", f"0{HIDDEN}", f"+7{HIDDEN}"])
def test_a_secret_that_lacks_its_quotes_is_not_in_the_error(accord, home, secret):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(f'{{"mcpServers": {{"a": {{"env": {{"TOKEN": {secret}}}}}}}}}')
    for words in (("hosts",), ("hosts", "check"), ("hosts", "repair")):
        _, out, err = accord(*words)
        assert (HIDDEN in out + err, f"{path}:1:40: " in out + err) == (False, True)


def test_a_repair_that_several_hosts_need_is_named_once(accord, home):
    server = {"type": "stdio", "command": "/bin/true"}
    write_json(home / "desk" / ".vscode" / "mcp.json", {"mcpServers": {"a": server}})
    code, out, _ = accord("hosts", "repair", "--dry-run")
    assert (code, out.count("from mcpServers to servers")) == (0, 1)


def test_a_repair_names_the_files_that_it_leaves_alone(accord, home):
    path = write_json(home / ".cursor" / "mcp.json", {})
    path.write_text("{")
    code, out, err = accord("hosts", "repair", "--yes")
    assert code == 2
    assert "left alone: " in err
    assert out.startswith("nothing else to mend")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("htp://example.com/mcp", "the URL of a server begins with http:// or https://"),
        ("package.json", "accord add -- npx -y PACKAGE"),
        ("pyproject.toml", "accord add -- uvx PACKAGE"),
    ],
)
def test_a_target_that_is_not_a_server_is_explained(accord, home, target, said):
    (home / "desk" / target.rpartition("/")[2]).write_text("{}")
    code, _, err = accord("add", target, "--host", "cursor", "--yes")
    assert code == 2
    assert said in err
