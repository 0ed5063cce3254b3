"""Mistakes of beginners, hostile files and accidents: nothing is harmed, and no secret appears."""

import json

import pytest

from accord.hosts.writing.change import FileChange, write_changes
from accord.hosts.writing.journal import Journal


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
