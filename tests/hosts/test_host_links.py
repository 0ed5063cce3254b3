"""Links and commands that let a host install a server itself."""

import base64
import json
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.entries.links import install_command, install_link
from accord_tools.hosts.entries.shaping import from_host
from accord_tools.hosts.table import LINKS, load_hosts
from support.tables import cases

HOSTS = load_hosts()
COMMAND = ServerSpec(
    name="ünder & score",
    command=("/opt/uvx", "server", "--text", 'a "quoted" + 100% ✓'),
    env={"KEY": "${env:KEY}"},
)
URL = ServerSpec(
    name="remote",
    transport="http",
    url="https://x.example/mcp?a=1&b=2#c",
    headers={"Authorization": "Bearer ${env:TOKEN}"},
)
LITERAL = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"


def decode_query(link):
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}


@pytest.mark.parametrize("entry", [COMMAND, URL], ids=["command", "url"])
def test_a_link_of_cursor_has_the_name_and_the_entry(entry):
    link = install_link(entry, HOSTS["cursor"])
    assert link.startswith("cursor://anysphere.cursor-deeplink/mcp/install?name=")
    found = decode_query(link)
    value = json.loads(base64.b64decode(found["config"], validate=True))
    assert "name" not in value
    assert from_host(found["name"], value, HOSTS["cursor"]) == entry


def test_a_link_of_lm_studio_has_the_name_and_the_entry():
    entry = ServerSpec(name="a b", command=("/opt/uvx", "server?"))
    link = install_link(entry, HOSTS["lm-studio"])
    assert link.startswith("lmstudio://add_mcp?name=a%20b&config=")
    found = decode_query(link)
    value = json.loads(base64.b64decode(found["config"], validate=True))
    assert from_host(found["name"], value, HOSTS["lm-studio"]) == entry


@cases("entry", [COMMAND, URL], ids=["command", "url"])
@cases(
    ("id", "start"),
    [
        ("vscode", "vscode:mcp/install?"),
        ("vscode-insiders", "vscode-insiders:mcp/install?"),
        ("visual-studio", "https://vs-open.link/mcp-install?"),
    ],
)
def test_a_link_of_vscode_and_visual_studio_is_one_object(id, start, entry):
    link = install_link(entry, HOSTS[id])
    assert link.startswith(start)
    rest = link[len(start) :]
    assert not set(rest) & set('&=#?+ "')
    value = json.loads(unquote(rest))
    name, inputs = value.pop("name"), value.pop("inputs", [])
    if id == "visual-studio":
        asked = {"KEY": "${input:KEY}"} if entry is COMMAND else {}
        assert from_host(name, value, HOSTS[id]).env == asked
        assert [each["password"] for each in inputs] == [True]
    else:
        assert from_host(name, value, HOSTS[id]) == entry
        assert inputs == []


def test_a_link_of_raycast_is_one_object_with_the_name():
    entry = ServerSpec(name="a&b", command=("/opt/uvx", "server"))
    link = install_link(entry, HOSTS["raycast"])
    value = json.loads(unquote(link.removeprefix("raycast://mcp/install?")))
    assert value["name"] == "a&b"
    assert from_host("a&b", value, HOSTS["raycast"]) == entry


def test_a_link_of_goose_has_each_word_and_asks_for_variables():
    entry = ServerSpec(
        name="search", command=("/opt/uvx", "a b", "--x=1&y"), env={"KEY": "${env:KEY}"}
    )
    found = parse_qs(urlsplit(install_link(entry, HOSTS["goose"])).query)
    assert found == {
        "cmd": ["uvx"],
        "arg": ["a b", "--x=1&y"],
        "env": ["KEY=KEY"],
        "id": ["search"],
        "name": ["search"],
        "description": ["search"],
    }
    url = ServerSpec(name="search", transport="http", url="https://x.example/?a=1")
    found = parse_qs(urlsplit(install_link(url, HOSTS["goose"])).query)
    assert (found["url"], found["type"]) == (["https://x.example/?a=1"], ["streamable_http"])


@cases(
    ("members", "message"),
    [
        ({"command": ("/opt/python", "x.py")}, "takes the programs jbang"),
        ({"command": ("C:\\bin\\uvx.exe",), "env": {"A": "1"}}, "can ask for A, but cannot set"),
        ({"command": ("uvx", "${env:A}")}, "cannot have variables in the command"),
        ({"command": ()}, "has no command"),
        ({"transport": "http", "url": "https://x", "headers": {"A": "1"}}, "cannot have headers"),
        ({"transport": "sse", "url": "https://x"}, "no longer takes"),
        ({"name": "Big Name", "command": ("uvx",)}, "does not take the name"),
    ],
)
def test_an_entry_that_a_link_of_goose_cannot_express_is_refused(members, message):
    with pytest.raises(HostsError, match=message):
        install_link(ServerSpec(**({"name": "search"} | members)), HOSTS["goose"])


@cases(
    "members",
    [
        {"command": ("uvx", "server"), "env": {"API_KEY": LITERAL}},
        {"command": ("uvx", "server", "--token", LITERAL)},
        {"transport": "http", "url": "https://x", "headers": {"Authorization": LITERAL}},
        {"transport": "http", "url": f"https://x.example/?api_key={LITERAL}"},
    ],
)
@cases("id", [id for id, host in HOSTS.items() if host.link or host.command])
def test_a_secret_is_never_in_a_link_or_a_command(id, members):
    entry = ServerSpec(name="search", **members)
    write = install_link if HOSTS[id].link else install_command
    with pytest.raises(HostsError, match="looks like a secret") as refusal:
        write(entry, HOSTS[id])
    assert LITERAL not in str(refusal.value)


def test_every_kind_of_link_is_used_by_a_host():
    assert {host.link for host in HOSTS.values() if host.link} == LINKS


def test_a_host_without_links_says_so():
    with pytest.raises(HostsError, match="Zed has no links"):
        install_link(COMMAND, HOSTS["zed"])
    with pytest.raises(HostsError, match="Zed has no command that adds"):
        install_command(COMMAND, HOSTS["zed"])


def test_the_command_of_claude_code_has_the_entry_as_one_word():
    entry = ServerSpec(name="search", command=("/opt/uvx", "a b"), env={"KEY": "${env:KEY}"})
    *words, value = install_command(entry, HOSTS["claude-code"])
    assert words == ["claude", "mcp", "add-json", "--scope", "user", "search"]
    assert from_host("search", json.loads(value), HOSTS["claude-code"]) == entry
