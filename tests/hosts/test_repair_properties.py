"""Checks and repairs of entries with any contents: they never fail, and they come to an end."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.hosts.checking.entries import EntryCheck
from accord_tools.hosts.checking.files import check_bytes
from accord_tools.hosts.definition import ConfigFile, Machine
from accord_tools.hosts.documents.document import open_document
from accord_tools.hosts.repairing import combine_repairs, find_repairs
from accord_tools.hosts.table import load_hosts

HOSTS = [each for each in load_hosts().values() if each.format.startswith("json") and each.key]
NAMES = [
    *("command", "cmd", "args", "env", "environment", "envs", "url", "serverUrl", "uri"),
    *("httpUrl", "headers", "http_headers", "type", "transport", "cwd", "disabled", "enabled"),
    *("timeout", "tools", "name", "comand"),
]
TEXTS = st.sampled_from(
    [
        *(
            "",
            " ",
            "sh",
            "sh -x",
            "sh 'x",
            "~/x",
            "~",
            "/bin/sh",
            "./x.py",
            "/no/x.py",
            "-m",
            "a:b",
        ),
        *("https://a.b/mcp", "https://a.b/sse", "${A_B}", "${env:A_B}", "{env:A}", "${input:x}"),
        *("stdio", "http", "sse", "streamable-http", "local", "remote", "A=b", "\x00", "\ud800"),
        "sk-1234567890abcdefgh",
    ]
)
LEAVES = st.one_of(TEXTS, st.integers(-1, 3), st.booleans(), st.none(), st.floats(0, 1))
VALUES = st.one_of(LEAVES, st.lists(LEAVES, max_size=3), st.dictionaries(TEXTS, LEAVES, max_size=3))
ENTRIES = st.one_of(VALUES, st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
HOME = Path(tempfile.gettempdir()) / "accord-no-such-home"
MACHINE = Machine(system="linux", environ={"PATH": "/bin"}, home=HOME, project=HOME)


def config_of(host):
    return ConfigFile(
        host=host, scope="user", path=HOME / "mcp.json", key=host.key, format=host.format
    )


@settings(max_examples=120)
@given(host=st.sampled_from(HOSTS), entry=ENTRIES)
def test_any_entry_can_be_checked(host, entry):
    file = config_of(host)
    for finding in EntryCheck(file, "desk", (*file.key, "desk"), entry, MACHINE).find_faults():
        assert finding.message
        assert "sk-1234" not in finding.message + finding.change


@settings(max_examples=50)
@given(
    host=st.sampled_from(HOSTS),
    entries=st.dictionaries(st.sampled_from("abcA"), ENTRIES, max_size=3),
    key=st.sampled_from(["servers", "mcpServers", ""]),
)
def test_repairs_come_to_an_end_and_leave_valid_text(host, entries, key):
    file = config_of(host)
    document = entries
    for each in reversed((key,) if key else host.key):
        document = {each: document}
    text = json.dumps({"before": 1, **document, "after": [2]}, indent=2)
    repairs = find_repairs(file, MACHINE, data=text.encode())
    compute = combine_repairs(repairs)
    changed = compute(text.encode())
    data = open_document(changed.decode(), host.format).data
    assert (data["before"], data["after"]) == (1, [2])
    assert find_repairs(file, MACHINE, data=changed) == []
    left = {each.code for each in check_bytes(file, changed, MACHINE).findings if each.repair}
    assert left == set()
