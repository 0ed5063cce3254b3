"""The table of hosts: every row is proven, and a row with a fault gets a clear message."""

import re
from pathlib import Path

import pytest

from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.table import TABLE, expand, find_host, load_hosts
from support.tables import cases

HOSTS = load_hosts()
ROW = """
[hosts.mine]
name = "Mine"
checked = "2026-11"
source = "its manual"
format = "json"
key = ["servers"]
user = ["{home}/.mine.json"]
stdio = "command"
"""
SYSTEMS = ("linux", "macos", "windows")


def load(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_hosts(path)


@cases("host", HOSTS.values(), ids=list(HOSTS))
def test_each_row_says_when_and_where_it_was_looked_up(host):
    assert re.fullmatch(r"20\d\d-\d\d", host.checked)
    assert len(host.source) > 5
    assert "http" not in host.source
    assert host.reload.endswith(".")
    sentences = [*host.notes, host.approval or "x."]
    assert all(each.endswith(".") and "  " not in each for each in sentences)


@cases("host", HOSTS.values(), ids=list(HOSTS))
@cases("system", SYSTEMS)
def test_each_pattern_expands_to_an_absolute_path(host, system):
    home = "C:/Users/ada" if system == "windows" else "/home/ada"
    names = re.findall(r"\{env:(\w+)\}", TABLE.read_text())
    environ = dict.fromkeys(names, "/moved")
    machine = Machine(system=system, environ=environ, home=Path(home), project=Path("/code"))
    patterns = [*host.user.get(system, ()), *host.further.get(system, ())]
    for pattern in patterns:
        assert "\\" not in pattern
        filled = expand(pattern.replace("*", "any"), machine)
        assert [str(path).startswith(("/", "C:/")) for path in filled] == [True], pattern
        assert not re.search(r"[{}]", str(filled[0]))


def test_most_hosts_are_for_all_systems_and_few_have_no_file():
    without = [host.id for host in HOSTS.values() if not host.user]
    assert without == ["warp", "raycast"]
    some = {host.id for host in HOSTS.values() if host.user and len(host.user) < 3}
    assert some == {"visual-studio", "boltai", "enconvo"}


def test_hosts_are_found_by_id_name_and_alias():
    for given in ("vscode", "VS Code", "VSCode", "code", "visual studio code"):
        assert find_host(HOSTS, given).id == "vscode"
    with pytest.raises(HostsError, match="'curser'; did you mean cursor"):
        find_host(HOSTS, "curser")
    with pytest.raises(HostsError, match="known are claude-desktop, "):
        find_host(HOSTS, "zzzzzz")


def test_a_table_of_the_user_adds_rows_and_replaces_rows(tmp_path):
    hosts = load(tmp_path, ROW + ROW.replace("mine", "zed").replace('"Mine"', '"My Zed"'))
    assert hosts["mine"].user["macos"] == ("{home}/.mine.json",)
    assert hosts["mine"].stdio == HOSTS["claude-desktop"].stdio
    assert hosts["zed"].name == "My Zed"
    assert list(hosts) == [*HOSTS, "mine"]
    assert load_hosts()["zed"].name == "Zed"


def test_a_table_of_the_user_may_have_shapes_of_its_own(tmp_path):
    shape = '[shapes.mine]\nmembers = { run = "program", words = "args" }\n'
    hosts = load(tmp_path, shape + ROW.replace('"command"', '"mine"'))
    assert hosts["mine"].stdio.members == {"run": "program", "words": "args"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('checked = "2026-11"\n', "", "missing required field `checked`"),
        ('"2026-11"', '"soon"', "checked: 'soon' is not a year and a month"),
        ('source = "its manual"\n', "", "missing required field `source`"),
        ('"its manual"', '" "', "source: say where the facts are from"),
        ('name = "Mine"', 'name = ""', "name: must not be empty"),
        ('"json"', '"xml"', "format: Invalid enum value 'xml'"),
        ('name = "Mine"', 'name = "Mine"\nnmae = 1', "unknown field `nmae`"),
        ('name = "Mine"', "name = 3", "name: Expected `str`, got `int`"),
        ('key = ["servers"]\n', "", "key: a host with files needs"),
        ('stdio = "command"\n', "", "stdio, http, sse: one of them is needed"),
        ('"command"', '"comand"', "stdio: there is no shape 'comand'"),
        ('"command"', '{ members = { x = "prog" } }', "stdio: x: 'prog' is not one of args"),
        ('"command"', '{ members = { x = "args" } }', "must be program or command"),
        (
            '"command"',
            '{ member = { x = "args" } }',
            "stdio: Object contains unknown field `member`",
        ),
        ("{home}/", "{hom}/", "user.linux: {hom} is not known in '{hom}/.mine.json'"),
        ("{home}/", "{env:a b}/", "{env:a b} is not known"),
        ("{home}/", "", "'.mine.json' must begin with {home}"),
        ('["{home}/.mine.json"]', '{ bsd = ["{home}/x"] }', "user: Invalid enum value 'bsd'"),
        ('stdio = "c', 'name_pattern = "["\nstdio = "c', "name_pattern: is not a regular"),
        ('stdio = "c', 'link = "mine"\nstdio = "c', "link: 'mine' is not one of cursor"),
        ('stdio = "c', 'aliases = ["vscode"]\nstdio = "c', "'vscode' has the name 'vscode' too"),
        ('stdio = "c', 'project = [{ path = "../x" }]\nstdio = "c', "must be below the folder"),
        ('stdio = "c', 'placeholders = { env = "$X" }\nstdio = "c', "must have NAME in it"),
        ('stdio = "c', 'placeholders = { special = "(" }\nstdio = "c', "special: is not a reg"),
        ("[hosts.mine]", "[hosts.Mine]", "host 'Mine': an id has small letters"),
        ("[hosts.mine]", "[host.mine]", "'host' is not known; a row is a table [hosts.ID]"),
        ("[hosts.mine]", "[hosts]\nmine = 3\n[shapes.x]", "host 'mine': a row must be a table"),
        ("[hosts.mine]", "hosts = 3\n[shapes.x]", "hosts and shapes must be tables"),
        ('name = "Mine"', "name = ", "is not valid TOML: Invalid value (at line 3"),
    ],
)
def test_a_row_with_a_fault_is_named_with_its_member(tmp_path, old, new, message):
    assert old in ROW
    with pytest.raises(HostsError, match=re.escape(message)) as refusal:
        load(tmp_path, ROW.replace(old, new, 1))
    assert str(refusal.value).startswith(str(tmp_path / "mine.toml"))


def test_a_table_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(HostsError, match=r"none\.toml: cannot be read: No such file"):
        load_hosts(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(HostsError, match="is not valid TOML"):
        load_hosts(tmp_path / "bytes.toml")
