"""Faults of entries: what a check calls each, and the bytes after its repair."""

import json
from pathlib import Path

import pytest

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.checking.entries import inspect_entry
from accord_tools.hosts.checking.files import check_file
from accord_tools.hosts.checking.findings import CODES
from accord_tools.hosts.checking.shape import find_shape_faults
from accord_tools.hosts.entries.shaping import to_host
from accord_tools.hosts.repairing import Repair, StaleRepair, combine_repairs, find_repairs
from accord_tools.hosts.table import load_hosts
from support.checked_hosts import config_at, inspect, machine_at

HOSTS = load_hosts()
COMMAND = {"command": "/bin/sh"}

# Host, entry before, code, entry after (None if accord does not mend it).
FAULTS = [
    # names of members
    ("antigravity", {"uri": "https://a.b/mcp"}, "member-name", {"serverUrl": "https://a.b/mcp"}),
    ("cursor", {"serverUrl": "https://a.b/mcp"}, "member-name", {"url": "https://a.b/mcp"}),
    ("cursor", {"httpUrl": "https://a.b/mcp"}, "member-name", {"url": "https://a.b/mcp"}),
    ("cursor", {"cmd": "/bin/sh"}, "member-name", COMMAND),
    (
        "cursor",
        {**COMMAND, "environment": {"A": "b"}},
        "member-name",
        {**COMMAND, "env": {"A": "b"}},
    ),
    ("cursor", {"comand": "/bin/sh"}, "entry-empty", COMMAND),
    ("windsurf", {**COMMAND, "disabeld": True}, "member-unknown", None),
    ("claude-code", {**COMMAND, "cwd": "/"}, "member-ignored", None),
    (
        "qwen-code",
        {"type": "http", "url": "https://a.b/mcp"},
        "member-name",
        {"type": "http", "httpUrl": "https://a.b/mcp"},
    ),
    # types
    (
        "claude-code",
        {"url": "https://a.b/mcp"},
        "type-missing",
        {"url": "https://a.b/mcp", "type": "http"},
    ),
    (
        "claude-code",
        {"url": "https://a.b/sse"},
        "type-missing",
        {"url": "https://a.b/sse", "type": "sse"},
    ),
    (
        "cline",
        {"type": "http", "url": "https://a.b/mcp"},
        "type-wrong",
        {"type": "streamableHttp", "url": "https://a.b/mcp"},
    ),
    (
        "vscode",
        {"type": "streamable-http", "url": "https://a.b/mcp"},
        "type-wrong",
        {"type": "http", "url": "https://a.b/mcp"},
    ),
    ("vscode", {"type": "http", **COMMAND}, "type-wrong", {"type": "stdio", **COMMAND}),
    # commands
    (
        "cursor",
        {"command": "sh -c 'exit 3'"},
        "command-blanks",
        {"command": "sh", "args": ["-c", "exit 3"]},
    ),
    (
        "cursor",
        {"command": "sh -x", "args": ["a"]},
        "command-blanks",
        {"command": "sh", "args": ["-x", "a"]},
    ),
    (
        "cursor",
        {"command": ["/bin/sh", "-x"]},
        "command-list",
        {**COMMAND, "args": ["-x"]},
    ),
    (
        "opencode",
        {"type": "local", "command": "sh -x"},
        "command-text",
        {"type": "local", "command": ["sh", "-x"]},
    ),
    (
        "opencode",
        {"type": "local", "command": "/bin/sh", "args": ["-x"]},
        "command-text",
        {"type": "local", "command": ["/bin/sh", "-x"]},
    ),
    ("cursor", {**COMMAND, "args": "-c 'a b'"}, "args-text", {**COMMAND, "args": ["-c", "a b"]}),
    ("cursor", {**COMMAND, "args": ["-n", 3]}, "args-text", {**COMMAND, "args": ["-n", "3"]}),
    ("cursor", {**COMMAND, "args": {"a": 1}}, "args-text", None),
    ("cursor", {"command": 5}, "entry-empty", None),
    # variables, headers and URLs
    ("cursor", {**COMMAND, "env": {"N": 3}}, "env-text", {**COMMAND, "env": {"N": "3"}}),
    ("cursor", {**COMMAND, "env": {"N": True}}, "env-text", None),
    ("cursor", {**COMMAND, "env": ["A=b=c"]}, "env-object", {**COMMAND, "env": {"A": "b=c"}}),
    ("cursor", {**COMMAND, "env": "A=b"}, "env-object", None),
    ("cursor", {"url": "https://a.b", "headers": []}, "headers-object", None),
    ("cursor", {"url": "https://a.b", "headers": {"X": "a\nb"}}, "header-wrong", None),
    ("cursor", {"url": "https://a.b", "headers": {"X Y": "a"}}, "header-wrong", None),
    ("cursor", {"url": "a.b/mcp"}, "url-wrong", None),
    ("cursor", {"url": "http://[::1/mcp"}, "url-wrong", None),
    ("cursor", {"url": "http://a.b:99999/mcp"}, "url-wrong", None),
    (
        "cursor",
        {**COMMAND, "env": {"A": "${A_KEY}"}},
        "placeholder-unknown",
        {**COMMAND, "env": {"A": "${env:A_KEY}"}},
    ),
    (
        "claude-code",
        {**COMMAND, "env": {"A": "{env:A_KEY}"}},
        "placeholder-unknown",
        {**COMMAND, "env": {"A": "${A_KEY}"}},
    ),
    ("zed", {**COMMAND, "env": {"A": "${env:A_KEY}"}}, "placeholder-unknown", None),
    ("cursor", {**COMMAND, "env": {"API_KEY": "sk-1234567890abcdefgh"}}, "secret-literal", None),
    # what has to be decided by a person
    ("cursor", {}, "entry-empty", None),
    ("cursor", [], "entry-not-object", None),
    ("cursor", {**COMMAND, "url": "https://a.b/mcp"}, "entry-both", None),
    ("claude-desktop", {"url": "https://a.b/mcp"}, "transport-missing", None),
    ("windsurf", {**COMMAND, "disabled": True}, "entry-disabled", None),
]


@pytest.mark.parametrize(("host", "before", "code", "after"), FAULTS)
def test_a_fault_has_a_code_and_a_certain_repair(tmp_path, host, before, code, after):
    row = HOSTS[host]
    machine = machine_at(tmp_path, PATH="/usr/bin:/bin")
    finding = inspect(tmp_path, before, row, machine=machine)[code]
    assert finding.message
    assert (finding.repair is not None) == (after is not None)
    if after is None:
        return
    file = config_at(tmp_path, {"other": COMMAND, "desk": before}, row)
    data = file.path.read_bytes()
    changed = finding.repair.compute(data)
    key = ".".join(row.key)
    assert json.loads(changed) == {key: {"other": COMMAND, "desk": after}}
    assert finding.repair.compute(changed) == changed
    # Everything around the entry is as before.
    start = data.index(b'"desk"')
    assert changed[:start] == data[:start]


def test_entries_that_accord_writes_have_no_faults():
    faults = []
    for row in HOSTS.values():
        for transport in ("stdio", "http", "sse"):
            if getattr(row, transport) is None:
                continue
            given = {"url": "https://a.b/mcp", "headers": {"X": "y"}}
            if transport == "stdio":
                given = {"command": ("/bin/sh", "a b"), "env": {"A": "b"}, "cwd": "/tmp"}
            entry = ServerSpec(name="desk", transport=transport, timeout=5.0, **given)
            written = to_host(entry, row, scope="user").value
            faults += [(row.id, transport, each) for each in find_shape_faults(written, row)]
    assert faults == []


def test_names_that_a_host_refuses_are_found(tmp_path):
    machine = machine_at(tmp_path)
    from accord_tools.hosts.checking.entries import EntryCheck

    def codes(name):
        file = config_at(tmp_path, {}, HOSTS["claude-code"])
        found = EntryCheck(file, name, ("mcpServers", name), COMMAND, machine).find_faults()
        return [each.code for each in found]

    assert codes("my server") == ["name-refused"]
    assert codes("computer-use") == ["name-reserved"]
    assert codes("mine") == []


def test_a_secret_in_a_file_of_a_project_is_an_error(tmp_path):
    entry = {**COMMAND, "env": {"API_KEY": "sk-1234567890abcdefgh"}}
    finding = inspect(tmp_path, entry, HOSTS["cursor"], scope="project")["secret-literal"]
    assert finding.severity == "error"
    assert "sk-12345" not in finding.message + finding.change


MIXED = """{
  // servers of this team
  "servers": {
    "a": { "command": "sh -x" }, // the first
    "b": { "serverUrl": "https://a.b/mcp" },
\t"c": { "command": "/bin/sh", "env": { "N": 3 } },
    "d": { "command": "/bin/sh" },
    "e": { "command": "/bin/sh" }
  },
  "other": true
}
"""
MENDED = """{
  // servers of this team
  "mcpServers": {
    "a": { "command": "sh", "args": ["-x"] }, // the first
    "b": { "url": "https://a.b/mcp" },
\t"c": { "command": "/bin/sh", "env": { "N": "3" } },
    "d": { "command": "/bin/sh" }
  },
  "other": true
}
"""


def test_several_faults_of_a_file_are_mended_one_after_the_other(tmp_path):
    file = config_at(tmp_path, MIXED, HOSTS["cursor"])
    machine = machine_at(tmp_path)
    repairs = find_repairs(file, machine)
    assert {each.code for each in repairs} == {
        *("file-key", "entry-twice", "command-blanks", "member-name", "env-text")
    }
    compute = combine_repairs(repairs)
    changed = compute(MIXED.encode())
    assert changed.decode() == MENDED
    assert compute(changed) == changed
    assert find_repairs(file, machine, data=changed) == []
    assert file.path.read_text() == MIXED


CODEX = """# settings
model = "x"

[mcpServers.old]
command = "/bin/sh"

[mcp_servers.a]  # the first
command = "sh -x"
startup_timeout_sec = 3

[mcp_servers.a.env]
N = 3

[mcp_servers.b]
serverUrl = "https://a.b/mcp"

[tools]
x = 1
"""
CODEX_MENDED = """# settings
model = "x"

[mcp_servers.a]  # the first
command = "sh"
startup_timeout_sec = 3
args = ["-x"]

[mcp_servers.a.env]
N = "3"

[mcp_servers.b]
url = "https://a.b/mcp"

[mcp_servers.old]
command = "/bin/sh"

[tools]
x = 1
"""


def test_tables_of_toml_are_mended_in_their_place(tmp_path):
    file = config_at(tmp_path, CODEX, HOSTS["codex"])
    machine = machine_at(tmp_path)
    compute = combine_repairs(find_repairs(file, machine))
    changed = compute(CODEX.encode())
    assert changed.decode() == CODEX_MENDED
    assert compute(changed) == changed
    assert find_repairs(file, machine, data=changed) == []


GOOSE = """\
# my settings
extensions:
  developer: {type: builtin, enabled: true}
  a:  # the first
    enabled: true
    type: stdio
    name: a
    command: /bin/sh
    args: x
    envs: {N: 3}
  b:
    type: sse
    name: b
    url: https://a.b/mcp
model: x
"""
GOOSE_MENDED = """\
# my settings
extensions:
  developer: {type: builtin, enabled: true}
  a:  # the first
    enabled: true
    type: stdio
    name: a
    args:
      - x
    envs: {N: "3"}
    cmd: /bin/sh
  b:
    type: sse
    name: b
    url: https://a.b/mcp
model: x
"""


def test_mappings_of_yaml_are_mended_in_their_place(tmp_path):
    file = config_at(tmp_path, GOOSE, HOSTS["goose"])
    machine = machine_at(tmp_path)
    compute = combine_repairs(find_repairs(file, machine))
    changed = compute(GOOSE.encode())
    assert changed.decode() == GOOSE_MENDED
    assert compute(changed) == changed
    found = inspect_entry(file, check_file(file, machine).entries["b"], machine).findings
    assert [each.code for each in found] == ["transport-missing"]


def test_only_chosen_entries_are_repaired(tmp_path):
    text = MIXED.replace("servers", "mcpServers")
    file = config_at(tmp_path, text, HOSTS["cursor"])
    repairs = find_repairs(file, machine_at(tmp_path), names=["b"])
    assert [each.entry for each in repairs] == ["b"]


def test_a_repair_of_an_entry_that_changed_meanwhile_is_refused(tmp_path):
    file = config_at(tmp_path, {"a": {"command": "sh -x"}}, HOSTS["cursor"])
    (repair,) = find_repairs(file, machine_at(tmp_path))
    text = file.path.read_text().replace("sh -x", "bash -x")
    with pytest.raises(StaleRepair, match=r"command has changed since the check"):
        repair.compute(text.encode())
    skipped = []
    compute = combine_repairs([repair], lambda each, error: skipped.append(each))
    assert compute(text.encode()) == text.encode()
    assert skipped == [repair]


def test_a_repair_that_the_text_does_not_allow_is_left_out(tmp_path):
    file = config_at(tmp_path, "{ broken", HOSTS["cursor"])
    assert find_repairs(file, machine_at(tmp_path)) == []


def test_marks_and_line_ends_of_a_file_stay(tmp_path):
    text = '\ufeff{"mcpServers": {\r\n  "a": {"command": "sh -x", "args": []}\r\n}}'
    file = config_at(tmp_path, "", HOSTS["cursor"])
    (repair,) = find_repairs(file, machine_at(tmp_path), data=text.encode())
    expected = text.replace('"sh -x", "args": []', '"sh", "args": ["-x"]')
    assert repair.compute(text.encode()) == expected.encode()


def test_every_code_is_found_by_a_check():
    """A code that no module uses would stand in the documentation in vain."""
    folder = Path(__file__).parents[2] / "src/accord_tools/hosts"
    texts = [each.read_text() for each in folder.rglob("*.py") if each.name != "findings.py"]
    unused = [code for code in CODES if not any(f'"{code}"' in text for text in texts)]
    assert unused == []
    assert all(row.sentence.endswith(".") for row in CODES.values())


def test_repairs_name_what_they_do(tmp_path):
    file = config_at(tmp_path, MIXED, HOSTS["cursor"])
    for each in find_repairs(file, machine_at(tmp_path)):
        assert isinstance(each, Repair)
        assert each.title
        assert each.code in CODES
