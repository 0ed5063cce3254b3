"""Files of hosts: readable, in the right place, with servers under the right key."""

import json
import os

import pytest
from msgspec.structs import replace

from accord_tools.hosts.checking.files import check_file, check_together
from accord_tools.hosts.definition import ConfigFile, Machine
from accord_tools.hosts.repairing import find_host_repairs
from accord_tools.hosts.table import config_files, load_hosts
from support.checked_hosts import DESKTOP, config_at, machine_at

HOSTS = load_hosts()
ENTRY = {"command": "/bin/sh"}


def findings(folder, text, host=DESKTOP, **options):
    report = check_file(config_at(folder, text, host, **options), machine_at(folder))
    return {each.code: each for each in report.findings}


def test_a_good_file_has_entries_and_no_findings(tmp_path):
    file = config_at(tmp_path, {"a": ENTRY, "b": {"url": "https://a.b"}})
    report = check_file(file, machine_at(tmp_path))
    assert report.findings == ()
    assert report.worst is None
    assert [*report.entries] == ["a", "b"]
    assert report.entries["a"].place == (3, 5)
    assert report.entries["a"].keys == ("mcpServers", "a")


@pytest.mark.parametrize("text", ["", "{}", '{"other": 1}', '{"mcpServers": {}}'])
def test_a_file_without_servers_has_no_findings(tmp_path, text):
    assert findings(tmp_path, text) == {}


def test_a_file_that_does_not_exist_has_no_findings(tmp_path):
    file = config_at(tmp_path, "")
    file.path.unlink()
    assert check_file(file, machine_at(tmp_path)).findings == ()


def test_a_fault_of_syntax_has_its_place(tmp_path):
    finding = findings(tmp_path, '{\n  "mcpServers": {"a": }\n}')["file-syntax"]
    assert finding.place.line == 2
    assert "mcp.json:2:" in finding.message


def test_files_that_cannot_be_read_are_named(tmp_path):
    file = config_at(tmp_path, "")
    machine = machine_at(tmp_path)
    file.path.write_bytes(b"\xff\xfe{\x00")
    assert [each.code for each in check_file(file, machine).findings] == ["file-unreadable"]
    file.path.unlink()
    os.mkfifo(file.path)
    (finding,) = check_file(file, machine).findings
    assert finding.code == "file-unreadable"
    assert "is a named pipe, not a file" in finding.message
    file.path.unlink()
    file.path.symlink_to(file.path)
    assert [each.code for each in check_file(file, machine).findings] == ["file-unreadable"]


COMMENTED = '{"mcpServers": {} // "a"\n}'
COMMAS = '{"mcpServers": {"a": {"url": "https://a.b"},}, /* x */}'


def test_comments_are_an_error_where_the_host_skips_such_a_file(tmp_path):
    assert findings(tmp_path, COMMENTED)["file-comments"].severity == "warning"
    strict = replace(DESKTOP, refuses_comments=True)
    assert findings(tmp_path, COMMENTED, strict)["file-comments"].severity == "error"
    lenient = replace(DESKTOP, format="jsonc")
    assert findings(tmp_path, COMMAS, lenient) == {}
    half = replace(DESKTOP, format="json-comments")
    assert findings(tmp_path, COMMENTED, half) == {}
    assert findings(tmp_path, COMMAS, half)["file-comments"].severity == "error"


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("cursor", "servers"),
        ("cursor", "mcp_servers"),
        ("vscode", "mcpServers"),
        ("zed", "mcpServers"),
        ("opencode", "mcpServers"),
        ("amp", "mcpServers"),
    ],
)
def test_servers_under_the_key_of_another_host_are_moved(tmp_path, host, key):
    row = HOSTS[host]
    text = json.dumps({"first": 1, key: {"a": ENTRY}, "last": 2}, indent=4)
    finding = findings(tmp_path, text, row)["file-key"]
    changed = finding.repair.compute(text.encode())
    own = row.key[0]
    assert changed.decode() == text.replace(f'"{key}"', f'"{own}"')
    assert finding.repair.compute(changed) == changed


def test_servers_under_two_keys_come_together(tmp_path):
    text = (
        '{"mcp": {"servers": {"b": {"url": "https://a.b"}}}, "mcpServers": {"a": {"command": "x"}}}'
    )
    finding = findings(tmp_path, text)["file-key"]
    changed = json.loads(finding.repair.compute(text.encode()))
    assert changed["mcpServers"] == {"a": {"command": "x"}, "b": {"url": "https://a.b"}}
    clash = text.replace('"b"', '"a"')
    assert findings(tmp_path, clash)["file-key"].repair is None


def test_a_file_that_hosts_share_may_have_the_key_of_another(tmp_path):
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"servers": {"a": ENTRY}}))
    file = ConfigFile(
        host=HOSTS["claude-code"], scope="project", path=path, key=("mcpServers",), format="json"
    )
    (finding,) = check_file(file, machine_at(tmp_path)).findings
    assert (finding.code, finding.severity, finding.repair) == ("file-key", "warning", None)


def test_servers_of_a_project_within_the_file_of_the_user_are_checked_by_themselves(tmp_path):
    machine = machine_at(tmp_path)
    local = {str(machine.project): {"mcpServers": {"b": ENTRY}}}
    text = json.dumps({"mcpServers": {"a": ENTRY}, "projects": local})
    (machine.home / ".claude.json").write_text(text)
    reports = [check_file(each, machine) for each in config_files(HOSTS["claude-code"], machine)]
    assert [[*each.entries] for each in reports] == [["a"], ["b"]]
    assert [each.findings for each in reports] == [(), ()]


def test_a_byte_order_mark_is_an_error_where_the_host_refuses_it(tmp_path):
    text = '\ufeff{"mcpServers": {}}'
    assert findings(tmp_path, text) == {}
    assert [*findings(tmp_path, text, replace(DESKTOP, refuses_mark=True))] == ["file-mark"]


def test_settings_of_other_kinds_are_not_taken_for_servers(tmp_path):
    text = '{"extensions": {"a": {"enabled": true}}, "servers": ["x"], "mcp": {"timeout": 3}}'
    assert findings(tmp_path, text) == {}


@pytest.mark.parametrize("text", ['{"mcpServers": []}', '{"mcpServers": "x"}', "[]"])
def test_a_container_of_another_kind_is_found(tmp_path, text):
    assert [*findings(tmp_path, text)] == ["file-container"]


def test_entries_that_differ_too_little_are_found(tmp_path):
    entries = {"Desk": ENTRY, "desk": {"command": "/bin/ls"}, "twin": {"command": "/bin/sh"}}
    file = config_at(tmp_path, entries)
    found = check_file(file, machine_at(tmp_path)).findings
    assert [(each.code, each.entry) for each in found] == [
        ("name-case", "desk"),
        ("entry-twice", "twin"),
    ]
    changed = json.loads(found[1].repair.compute(file.path.read_bytes()))
    assert [*changed["mcpServers"]] == ["Desk", "desk"]


def test_entries_in_the_file_of_an_earlier_version_are_copied(tmp_path):
    folder = tmp_path / "AppData"
    new = folder / "Local/Packages/Claude_abc/LocalCache/Roaming/Claude/claude_desktop_config.json"
    old = folder / "Roaming/Claude/claude_desktop_config.json"
    for path, names in ((new, ["a"]), (old, ["a", "b"])):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"mcpServers": dict.fromkeys(names, ENTRY)}, indent=2))
    environ = {"APPDATA": f"{folder}/Roaming", "LOCALAPPDATA": f"{folder}/Local"}
    machine = Machine(system="windows", environ=environ, home=tmp_path, project=tmp_path)
    host = HOSTS["claude-desktop"]
    files = config_files(host, machine)
    (finding,) = check_together([check_file(each, machine) for each in files], machine)
    assert (finding.code, finding.severity) == ("file-not-read", "warning")
    (repair,) = [each for each in find_host_repairs(host, machine) if each.code == finding.code]
    assert repair.file.path == new
    changed = repair.compute(new.read_bytes())
    assert [*json.loads(changed)["mcpServers"]] == ["a", "b"]
    assert repair.compute(changed) == changed


def test_an_entry_of_the_project_hides_that_of_the_user(tmp_path):
    machine = machine_at(tmp_path)
    for folder in (machine.home, machine.project):
        (folder / ".cursor").mkdir()
        (folder / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"a": ENTRY}}))
    files = config_files(HOSTS["cursor"], machine)
    (finding,) = check_together([check_file(each, machine) for each in files], machine)
    assert (finding.code, finding.entry, finding.severity) == ("entry-shadowed", "a", "note")
