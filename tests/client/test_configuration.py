"""Reading the configuration of a host: shapes, variables, folders, faults, and secrets."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from accord import Server, connect
from accord.client import ServerSpec, read_configuration, read_entry
from accord.errors import AccordError, ConfigurationError
from support.tables import cases

SECRET = "sk-3f9a77c0d1e2"


@pytest.fixture
def write(tmp_path):
    def file(content, name="mcp.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    return file


def fault(source, **options):
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(source, **options)
    return str(caught.value)


# -- shapes


@pytest.mark.parametrize(
    "wrap",
    [
        lambda servers: {"mcpServers": servers},
        lambda servers: {"servers": servers, "inputs": []},
        lambda servers: {"context_servers": servers, "theme": {"mode": "dark"}},
        lambda servers: {"mcp": {"servers": servers}},
        lambda servers: {"mcp": servers},
        lambda servers: {"mcpServers": servers, "mcp": {"allowed": ["crm"]}},
        lambda servers: servers,
    ],
    ids=["mcpServers", "servers", "zed", "settings", "opencode", "gemini", "plain"],
)
def test_the_servers_are_found_below_the_member_of_each_host(wrap, write):
    servers = {"crm": {"command": "npx", "args": ["crm"]}, "web": {"url": "https://a.example/mcp"}}
    for source in (wrap(servers), write(wrap(servers))):
        entries = read_configuration(source)
        assert [(each.name, each.target) for each in entries.values()] == [
            ("crm", ["npx", "crm"]),
            ("web", "https://a.example/mcp"),
        ]


def test_members_of_two_hosts_in_one_file_are_joined(write):
    crm, web = {"command": "crm"}, {"url": "https://a.example/"}
    joined = read_configuration({"mcpServers": {"crm": crm}, "servers": {"crm": crm, "web": web}})
    assert list(joined) == ["crm", "web"]
    text = fault(write({"mcpServers": {"crm": crm}, "servers": {"crm": web}}))
    assert "has two servers 'crm'" in text


def test_a_server_may_be_named_like_a_member():
    entries = read_configuration({"servers": {"command": "a"}, "mcp": {"url": "http://b"}})
    assert list(entries) == ["servers", "mcp"]


@cases(
    ("entry", "target", "options"),
    [
        ({"type": "stdio", "command": "a", "args": ["b c"]}, ["a", "b c"], {}),
        ({"type": "local", "command": ["a", "b"]}, ["a", "b"], {}),
        ({"command": {"path": "a", "args": ["b"], "env": {"K": "v"}}}, ["a", "b"], {"env"}),
        ({"command": "a", "environment": {"K": "v", "N": 5, "O": None}}, ["a"], {"env"}),
        ({"type": "http", "url": "http://b"}, "http://b", {}),
        ({"type": "streamable-http", "url": "http://b"}, "http://b", {}),
        ({"type": "streamableHttp", "serverUrl": "http://b"}, "http://b", {}),
        ({"httpUrl": "http://b", "headers": {"X": "1"}}, "http://b", {"headers"}),
        ({"type": "sse", "url": "http://b"}, "http://b", {"transport"}),
        (
            {"transport": "sse", "url": "http://b", "auth": "oauth"},
            "http://b",
            {"transport", "auth"},
        ),
    ],
)
def test_an_entry_is_read_as_hosts_write_it(entry, target, options):
    read = read_entry("crm", entry)
    assert (read.name, read.target, set(read.options)) == ("crm", target, set(options))


def test_values_of_variables_are_texts():
    read = read_entry("crm", {"command": "a", "env": {"PORT": 80, "OLD": None, "K": "v"}})
    assert read.options["env"] == {"PORT": "80", "K": "v"}


def test_disabled_servers_are_left_out():
    entries = read_configuration(
        {
            "a": {"command": "x", "disabled": True},
            "b": {"command": "x", "enabled": False},
            "c": {"command": "x", "disabled": False},
        }
    )
    assert list(entries) == ["c"]


def test_comments_trailing_commas_and_a_byte_order_mark_are_read(write):
    text = """\ufeff// servers
    {"mcpServers": { /* all, of
       them */ "crm": {"command": "a", "args": ["http://x", "/*no*/", "a,]", ], }, // one
    },}
    """
    assert read_configuration(write(text))["crm"].target == ["a", "http://x", "/*no*/", "a,]"]


def test_targets_are_taken_as_they_are_in_a_dictionary():
    server = Server("desk")
    given = {"a": ["python", "${X}"], "b": "http://b", "c": Path("desk.py"), "d": server}
    entries = read_configuration({"mcpServers": given})
    assert {name: each.target for name, each in entries.items()} == given
    again = read_configuration({"e": entries["d"]})["e"]
    assert (again.name, again.target) == ("e", server)


def test_an_entry_connects():
    server = Server("desk")
    entry = read_entry("desk", server)

    async def main():
        async with connect(entry.target, **entry.options) as client:
            return client.server_info.name

    assert asyncio.run(main()) == "desk"


# -- variables


@cases(
    ("text", "expanded"),
    [
        ("${KEY}", "value"),
        ("a ${KEY} ${env:KEY}", "a value value"),
        ("${UNSET:-fallback}", "fallback"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${UNSET:-}", ""),
        ("${UNSET:-http://x:80/}", "http://x:80/"),
        ("${KEY:-fallback}", "value"),
        ("${EMPTY}", ""),
        ("${input:token}", "typed"),
        ("$KEY ${#KEY} ${KEY%x} $${", "$KEY ${#KEY} ${KEY%x} $${"),
        ("${DOLLAR}", "${KEY}"),
    ],
)
def test_variables_are_filled_in(text, expanded):
    variables = {"KEY": "value", "EMPTY": "", "DOLLAR": "${KEY}", "input:token": "typed"}
    read = read_entry(
        "crm", {"command": "a", "args": [text], "env": {"E": text}}, variables=variables
    )
    assert read.target == ["a", expanded]
    assert read.options["env"] == {"E": expanded}


def test_variables_come_from_the_environment_and_stand_in_every_member(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCORD_PLACE", "here")
    read = read_entry(
        "crm", {"url": "https://${ACCORD_PLACE}.example", "headers": {"X": "${ACCORD_PLACE}"}}
    )
    assert (read.target, read.options["headers"]) == ("https://here.example", {"X": "here"})
    read = read_entry(
        "crm",
        {"command": "${ACCORD_PLACE}", "cwd": "${workspaceFolder}${/}${ACCORD_PLACE}"},
        folder=tmp_path,
    )
    assert (read.target, read.options["cwd"]) == (["here"], str(tmp_path / "here"))
    assert read_entry("crm", {"command": "a", "args": ["${userHome}"]}).target[1] == str(
        Path.home()
    )


def test_an_unknown_variable_is_named_with_its_file_entry_and_member(write):
    file = write({"mcpServers": {"crm": {"command": "a", "env": {"KEY": "${ACCORD_UNSET}"}}}})
    text = fault(file)
    assert text.startswith(f"{file}: server 'crm': env.KEY needs the variable ACCORD_UNSET")
    assert "${ACCORD_UNSET:-default}" in text
    assert "args[1]" in fault({"crm": {"command": "a", "args": ["", "${ACCORD_UNSET}"]}})
    assert 'variables={"input:key": ...}' in fault({"crm": {"url": "http://${input:key}"}})
    assert "${file:...}" in fault({"crm": {"command": "a", "args": ["${file:/etc/key}"]}})


def test_an_env_file_is_read(write):
    write("# keys\nexport A=1\nB = 'two words'\n\nC=\"x=y\"\nD\n", name=".env")
    file = write({"crm": {"command": "a", "envFile": "${workspaceFolder}/.env", "env": {"A": "2"}}})
    assert read_configuration(file)["crm"].options["env"] == {
        "A": "2",
        "B": "two words",
        "C": "x=y",
    }
    assert "envFile" in fault({"crm": {"command": "a", "envFile": "missing.env"}})


# -- folders


def test_relative_paths_are_relative_to_the_folder_of_the_file(write, tmp_path):
    config = {"mcpServers": {"a": {"command": "./run", "args": ["x.py"]}, "b": {"command": "uv"}}}
    config["mcpServers"]["c"] = {"command": "bin/run", "cwd": "sub"}
    config["mcpServers"]["d"] = {"command": "/bin/run", "cwd": "/srv"}
    for name in ("mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"):
        read = read_configuration(write(config, name=name))
        found = {each.name: (each.target[0], each.options["cwd"]) for each in read.values()}
        assert {name: (os.path.normpath(one), two) for name, (one, two) in found.items()} == {
            "a": (str(tmp_path / "run"), str(tmp_path)),
            "b": ("uv", str(tmp_path)),
            "c": (str(tmp_path / "sub/bin/run"), str(tmp_path / "sub")),
            "d": ("/bin/run", "/srv"),
        }
        assert read["a"].target[1:] == ["x.py"]


def test_in_a_dictionary_paths_are_relative_to_the_current_folder_or_the_one_given(tmp_path):
    config = {
        "a": {"command": "./run"},
        "b": {"command": "uv", "cwd": "sub"},
        "c": {"command": "x"},
    }
    read = read_configuration(config)
    assert os.path.normpath(read["a"].target[0]) == os.path.abspath("run")
    assert read["b"].options["cwd"] == os.path.abspath("sub")
    assert read["c"].options == {}
    read = read_configuration(config, folder=tmp_path)
    assert read["b"].options["cwd"] == str(tmp_path / "sub")
    assert read["c"].options["cwd"] == str(tmp_path)


def test_home_is_written_as_a_tilde():
    read = read_entry("crm", {"command": "~/bin/run", "cwd": "~/x"})
    assert (read.target, read.options["cwd"]) == (
        [str(Path.home() / "bin/run")],
        str(Path.home() / "x"),
    )


# -- faults


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, "server 'crm' has neither command nor url"),
        ({"comand": "a"}, "has neither command nor url; did you mean command by comand?"),
        ({"mcpServers": {}}, "is not an entry but has mcpServers, a whole configuration"),
        ({"command": "a", "url": "http://b"}, "has both command and url: keep one"),
        ({"command": 5}, "command is a number, expected a text"),
        ({"command": ""}, "command: expected the name or the path of a program"),
        ({"command": []}, "command: expected the name"),
        ({"command": "a", "args": "b c"}, "args: expected a list of texts"),
        ({"command": "a", "args": ["b", 5]}, "args[1] is a number, expected a text"),
        ({"command": "a", "env": ["K=v"]}, "env is a list, expected an object of texts"),
        ({"command": "a", "env": {"K": True}}, "env.K is a boolean, expected a text"),
        ({"command": "a", "cwd": 1}, "cwd is a number, expected a text"),
        (
            {"command": "a", "type": "sse"},
            "type is 'sse', expected one of local, stdio in an entry",
        ),
        ({"url": "http://b", "type": "stdio"}, "expected one of http, remote, sse, stream"),
        ({"url": "ws://b"}, "url: expected a URL that begins with http:// or https://"),
        ({"url": "http://b", "headers": {"X": ["a"]}}, "headers.X is a list, expected a text"),
    ],
)
def test_a_wrong_member_is_named_with_what_is_expected(entry, expected, write):
    file = write({"mcpServers": {"crm": entry}})
    text = fault(file)
    assert text.startswith(f"{file}: server 'crm'")
    assert expected in text


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "is not JSON: Expecting"),
        ('{"mcpServers": {\n"a": }}', "line 2 column"),
        ("[]", "is a list, expected an object"),
        ("{}", "names no servers: expected a member mcpServers or servers"),
        ('{"name": "x", "scripts": {"a": "b"}}', "names no servers"),
        ('{"mcpServers": []}', "mcpServers is a list, expected an object, servers by name"),
        ('{"mcpServers": {"a": {"url": "http://a"}, "a": {"command": "b"}}}', "two servers 'a'"),
        ('{"mcpServers": {"a": "http://a"}}', "server 'a' is a text, expected an object with"),
        ('{"mcpServers": {"": {"command": "a"}}}', "the name '' is not a text"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_the_reason(content, expected, write):
    file = write(content)
    text = fault(file)
    assert text.startswith(str(file))
    assert expected in text


def test_files_that_cannot_be_read_and_other_sources_are_refused(tmp_path):
    assert "No such file" in fault(tmp_path / "none.json")
    (tmp_path / "x.json").write_bytes(b"\xff\xfe{")
    assert "is not UTF-8 text" in fault(tmp_path / "x.json")
    assert "one server, not a configuration: connect() takes it" in fault("http://a.example")
    assert "one server" in fault("desk.py")
    with pytest.raises(TypeError, match="not a list"):
        read_configuration(["python", "server.py"])


def test_an_empty_list_of_servers_is_a_configuration(write):
    assert read_configuration(write({"mcpServers": {}})) == {}
    assert read_configuration({}) == {}


def test_the_error_is_one_of_accord_and_a_value_error():
    assert issubclass(ConfigurationError, AccordError)
    assert issubclass(ConfigurationError, ValueError)


# -- secrets


def test_values_appear_neither_in_errors_nor_in_reprs(monkeypatch):
    monkeypatch.setenv("ACCORD_SECRET", SECRET)
    entries = {
        "crm": {"command": "a", "args": ["--key", "${ACCORD_SECRET}"], "env": {"KEY": SECRET}},
        "web": {"url": "https://u:p@a.example/?k=${ACCORD_SECRET}", "headers": {"X-Key": SECRET}},
    }
    read = read_configuration(entries)
    assert SECRET in read["crm"].target
    assert repr(read["crm"]) == "<ServerSpec crm: command a; env KEY>"
    assert repr(read["web"]) == "<ServerSpec web: https://a.example; headers X-Key>"
    for wrong in ({"env": {"KEY": SECRET, "B": 1.5, "C": [SECRET]}}, {"args": SECRET}):
        assert SECRET not in fault({"crm": {**entries["crm"], **wrong}})


def test_texts_that_quote_a_secret_are_masked_even_if_they_are_cut():
    entry = read_entry(
        "crm",
        {"command": "a", "args": ["${KEY}"], "env": {"T": "token-xyz", "P": "/usr/lib", "S": "on"}},
        variables={"KEY": SECRET},
    )
    assert entry.mask(f"a {SECRET}: {SECRET}!") == "a masked-0: masked-0!"
    assert entry.mask(f"a {SECRET[:12]}: not found") == "a masked-0: not found"
    assert entry.mask(f"a {SECRET[:6]}... was not found") == "a masked-0... was not found"
    assert entry.mask("token-xyz is wrong in /usr/lib on x") == "masked-0 is wrong in /usr/lib on x"
    assert ServerSpec(name="a", server="b").mask("as it is") == "as it is"
