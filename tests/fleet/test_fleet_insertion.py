"""New servers in a fleet file: nothing else changes, whatever the file and the values are."""

import json
import stat
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.client.configuration import parse_json
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.reader import read_fleet
from accord_tools.fleet.sources.insertion import UneditableFile, add_servers, insert_servers
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.value_texts import (
    format_comment,
    format_pair,
    format_table,
    without_nulls,
)
from accord_tools.hosts.sources.entry_forms import FoundServer

NEW = FoundServer(
    name="new one",
    entry={"command": "x", "args": ["a b", '"q"']},
    source="somewhere",
    settings={"tags": ["t"]},
    remarks=("look\nat it",),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "accord-fleet.toml"


def test_a_new_file_is_made(path):
    add_servers(path, [NEW])
    (server,) = read_fleet(path).servers
    assert (server.name, server.entry, server.tags) == ("new one", NEW.entry, ("t",))
    assert "# from somewhere\n# look\n# at it\n" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "before",
    [
        "# only a comment",
        '[mcpServers.a]\ncommand = "x"\n\n# the end\n',
        '[mcpServers.a]\r\ncommand = "x" # c\r\n',
        '\ufeff[mcpServers]\na = { command = "x" }\n[server]\na.time = 3',
        '[servers.a]\ncommand = "x"\n',
        '[mcpServers.a]\ncommand = """\n[not]\n"""\n[server.a]\nowner = "[x]"\n',
    ],
)
def test_the_text_of_a_toml_file_stays(before, path):
    path.write_bytes(before.encode())
    path.chmod(0o640)
    add_servers(path, [NEW])
    after = path.read_bytes()
    assert after.startswith(before.encode())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in read_fleet(path).servers][-1:] == ["new one"]
    if "\r\n" in before:
        assert after.count(b"\n") == after.count(b"\r\n")
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("before", ["mcpServers = { a = { command = 'x' } }\n"])
def test_a_file_that_cannot_be_extended_stays_and_the_text_is_offered(before, path):
    path.write_text(before)
    with pytest.raises(UneditableFile, match="in a way that accord cannot extend") as raised:
        add_servers(path, [NEW])
    assert path.read_text() == before
    assert '[mcpServers."new one"]' in raised.value.snippet


def test_yaml_stays_and_the_text_is_offered(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("mcpServers:\n  a: {command: x}\n")
    with pytest.raises(UneditableFile, match="does not change YAML") as raised:
        add_servers(path, [NEW])
    assert json.loads(raised.value.snippet)["mcpServers"] == {"new one": NEW.entry}


def test_a_name_that_is_taken_is_refused(path):
    add_servers(path, [NEW])
    before = path.read_bytes()
    with pytest.raises(FleetError, match="has a server 'new one' already; choose another name"):
        add_servers(path, [NEW])
    assert path.read_bytes() == before


def test_a_broken_file_stays(path):
    path.write_text("[mcpServers.a\n")
    with pytest.raises(FleetError, match=":1: "):
        add_servers(path, [NEW])
    assert path.read_text() == "[mcpServers.a\n"


def test_a_linked_file_stays_a_link(path, tmp_path):
    target = tmp_path / "real.toml"
    target.write_text('[mcpServers.a]\ncommand = "x"\n')
    path.symlink_to(target)
    add_servers(path, [NEW])
    assert path.is_symlink()
    assert "new one" in target.read_text()


# -- JSON

ENTRY = json.dumps(NEW.entry)


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("{}", ["{", "}"]),
        ("{\n}\n", ["{\n", "}\n"]),
        ('{"mcpServers": {}}', ['{"mcpServers": {', "}}"]),
        ('{"mcpServers": {"a": {"command": "x"}}}', ['{"mcpServers": {"a": {"command": "x"}']),
        (
            '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"} // about a\n\t}\n}\n',
            [
                '{\n\t"mcpServers": {\n\t\t"a": {"command": "x"}',
                ' // about a\n\t\t"new one": {\n\t\t',
            ],
        ),
        (
            '{\n  "servers": {\n    "a": {"command": "x"}, /* one\n two */ // three\n  },\n}\n',
            ['"a": {"command": "x"}, /* one\n two */ // three\n    "new one": {', "\n  },"],
        ),
        (
            '{\r\n  "mcpServers": {\r\n    "a": {"command": "x"}\r\n  }\r\n}\r\n',
            ['"a": {"command": "x"},\r\n    "new one": {\r\n', "\r\n  }"],
        ),
        (
            '// top\n{"theme": "dark, }", "mcpServers": { // none yet\n}}',
            ["// top\n", "// none yet"],
        ),
    ],
)
def test_the_text_of_a_json_file_stays(before, kept, tmp_path):
    path = tmp_path / "fleet.json"
    path.write_bytes(before.encode())
    add_servers(path, [NEW])
    after = path.read_bytes().decode()
    for each in kept:
        assert each in after
    left = after
    for character in before:
        if not character.isspace():
            assert character in left
            left = left[left.index(character) + 1 :]
    data = parse_json(after)
    member = "servers" if '"servers"' in before else "mcpServers"
    assert data[member]["new one"] == NEW.entry
    assert data["server"] == {"new one": {"tags": ["t"]}}
    rest = parse_json(before)
    assert all(data[key] == value for key, value in rest.items() if key != member)
    if "\r\n" in before:
        assert after.count("\n") == after.count("\r\n")


def test_a_json_file_whose_servers_are_not_an_object_is_left_alone(tmp_path):
    path = tmp_path / "fleet.json"
    path.write_text('{"mcpServers": "x"}')
    with pytest.raises(UneditableFile):
        add_servers(path, [NEW])
    assert path.read_text() == '{"mcpServers": "x"}'


def test_a_new_json_file_is_made(tmp_path):
    add_servers(tmp_path / "fleet.json", [NEW])
    assert parse_json((tmp_path / "fleet.json").read_text())["mcpServers"]["new one"] == NEW.entry


# -- any value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("json")


CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=5)
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=4), TEXTS)
def test_any_table_is_read_back_as_it_was_written(name, members, comment):
    text = f"{format_comment(comment)}\n{format_table(['a', name], members)}\n"
    assert tomllib.loads(text) == {"a": {name: members}}


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2), max_size=3),
    st.sampled_from([None, 1, 2, "\t"]),
    st.sampled_from([",", "", " // x\n", ", /* y\n */"]),
)
def test_a_server_is_inserted_into_any_json(folder, servers, indent, end):
    path = folder / "fleet.json"
    text = json.dumps({"mcpServers": servers, "server": {}}, indent=indent)
    text = f"{text[:-1]}{end}}}"
    path.write_text(text)
    servers.pop(NEW.name, None)
    if NEW.name in parse_json(text)["mcpServers"]:
        return
    data = parse_json(insert_servers(path, text.encode(), [NEW]).decode())
    assert data["mcpServers"] == {**servers, NEW.name: NEW.entry}


def test_long_lists_have_one_item_in_each_line():
    text = format_pair("args", ["x" * 60, "y" * 60])
    assert text.splitlines() == ["args = [", f'  "{"x" * 60}",', f'  "{"y" * 60}",', "]"]


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(HostsError, match="U\\+D800 is half of a pair"):
        format_pair("a", "\ud800")


def test_values_without_a_form_in_toml_are_left_out_or_refused():
    assert without_nulls({"a": None, "b": [1, None], "c": {"d": None}}) == {"b": [1], "c": {}}
    with pytest.raises(HostsError, match="TOML has no value for NoneType"):
        format_pair("a", None)
