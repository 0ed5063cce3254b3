"""Whole servers made of others: `proxy_server` and `configuration_server`, in process."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Client, Server, connect
from accord.compose import ProxySource, configuration_server, openapi, proxy, proxy_server
from accord.errors import ConfigurationError, ConnectFailed, RegistrationError
from support.tables import cases
from support.waiting import in_loop, until

HERE = Path(__file__).parent
LAUNCHED = {"command": sys.executable, "args": ["-m", "accord", "run", "servers.py:crm"]}


def make(**settings: Any) -> Server[Any]:
    server: Server[Any] = Server(
        "crm", version="3.1", instructions="Ask for a name.", revisions=["2025-03-26"], **settings
    )

    @server.tool
    async def find(name: str) -> str:
        """Find a customer."""
        return f"found {name}"

    return server


async def names_of(client: Client) -> list[str]:
    return [tool.name async for tool in client.tools()]


# -- one other server


@in_loop
async def test_a_proxy_server_introduces_itself_as_the_other_one() -> None:
    server = proxy_server(make())
    async with connect(server, revision="2025-11-25") as client:
        assert (client.server_info.name, client.server_info.version) == ("crm", "3.1")
        assert client.instructions == "Ask for a name."
        assert await names_of(client) == ["find"]
        assert (await client.call_tool("find", {"name": "Ann"})).text == "found Ann"
    (mount,) = server._core.mounts
    assert isinstance(mount.source, ProxySource)
    assert mount.source.revision == "2025-03-26"


@in_loop
async def test_a_proxy_server_may_have_a_name_of_its_own() -> None:
    async with connect(proxy_server(make(), name="customers")) as client:
        assert client.server_info.name == "customers"


@in_loop
async def test_a_proxy_server_does_not_start_without_the_other_one() -> None:
    with pytest.raises(ConnectFailed, match="'a-missing-program' was not found"):
        async with connect(proxy_server(["a-missing-program"])):
            pass
    async with connect(proxy_server(["a-missing-program"], required=False)) as client:
        assert await names_of(client) == []


def test_a_proxy_server_refuses_unknown_options() -> None:
    with pytest.raises(TypeError, match="no keyword 'timout'; did you mean 'timeout'"):
        proxy_server(make(), timout=1)  # type: ignore[call-arg]


# -- the servers of a configuration


@in_loop
async def test_names_of_several_servers_have_prefixes(caplog: Any) -> None:
    servers = {
        "crm": LAUNCHED,
        "old": {"command": "a-missing-program"},
        "off": {"command": "a-missing-program", "disabled": True},
        "wrong": {"args": ["x"]},
    }
    server = configuration_server(
        {"mcpServers": {**servers, "crm": {**LAUNCHED, "cwd": str(HERE)}}}, separator="."
    )
    assert server.info.name == "servers"
    assert "server 'wrong' has neither command nor url" in caplog.text
    async with connect(server) as client:
        assert await names_of(client) == ["crm.find"]
        assert (await client.call_tool("crm.find", {"name": "Ann"})).text == "found Ann"
    assert "'a-missing-program' was not found" in caplog.text
    assert "off" not in caplog.text


def test_a_configuration_has_options_for_all_and_its_entries_have_their_own(
    tmp_path: Path,
) -> None:
    file = tmp_path / "desk.json"
    file.write_text(
        '{"servers": {"a": {"url": "http://x/mcp", "headers": {"X-Key": "1"}},'
        ' "b": {"url": "http://y/mcp"}}}'
    )
    server = configuration_server(
        file, timeout=5, headers={"X-Key": "2"}, settings={"ask_timeout": 7}
    )
    assert (server.info.name, server._core.ask_timeout) == ("desk", 7)
    first, second = [mount.source.base._settings for mount in server._core.mounts]
    assert (first["timeout"], first["headers"]) == (5, {"X-Key": "1"})
    assert (second["timeout"], second["headers"]) == (5, {"X-Key": "2"})


@in_loop
async def test_a_prefix_has_characters_that_names_of_tools_may_have() -> None:
    servers: Any = {"a b": make(), "a?b": make(), "!": make()}
    async with connect(configuration_server(servers)) as client:
        assert {*await names_of(client)} == {"a-b_find", "a-b-2_find", "server_find"}
    async with connect(configuration_server({"a b": make()})) as client:
        assert await names_of(client) == ["find"]


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({"mcpServers": {"a": {"args": []}}}, "server 'a' has neither command nor url"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "no server that is enabled"),
        ("nowhere.json", "nowhere.json cannot be read"),
    ],
)
def test_a_configuration_without_servers_is_refused(configuration: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        configuration_server(configuration)


# -- servers that come later


@in_loop
async def test_a_server_that_starts_late_is_offered_to_clients_that_are_there(
    tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level(logging.CRITICAL)
    file, changed = tmp_path / "late.py", []
    hub: Server[None] = Server("hub")
    hub.mount(proxy([sys.executable, str(file)], name="late", revision="2025-11-25"), prefix="x")
    outer: Server[None] = Server("outer")
    outer.mount(hub)
    async with connect(
        outer, revision="2025-06-18", on_tools_changed=lambda: changed.append(1)
    ) as client:
        assert client.capabilities.tools is not None
        assert await names_of(client) == []
        file.write_text(
            "from accord import Server\nserver = Server('late')\n"
            "@server.tool\nasync def find() -> str:\n    'Find.'\n    return 'found'\n"
            "server.run()\n"
        )
        await until(lambda: changed)
        assert await names_of(client) == ["x_find"]
        assert (await client.call_tool("x_find")).text == "found"


def test_a_target_that_is_mounted_without_proxy_is_refused_with_advice() -> None:
    server: Server[None] = Server("hub")
    for given in ("http://x/mcp", ["some-server"], {"command": "some-server"}):
        with pytest.raises(TypeError, match=r"is mounted as proxy\(\.\.\.\), from accord.compose"):
            server.mount(given)  # type: ignore[arg-type]


@cases(
    ("given", "said"),
    [
        (Server, "not the class Server: mount an object of it"),
        (make, r"not a function: a function is added by add_tool\(\.\.\.\)"),
        (HERE, r"a folder as folder\(\.\.\.\)"),
        (None, "not a NoneType"),
    ],
)
def test_an_object_that_is_not_a_source_is_refused_with_advice(given: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Server("hub").mount(given)


@in_loop
async def test_a_view_with_a_misspelt_name_keeps_the_server_from_starting() -> None:
    hub: Server[None] = Server("hub")
    hub.mount(make().only("fnd"))
    with pytest.raises(ConnectFailed, match=r"did not start: .* did you mean 'find'"):
        async with connect(hub):
            pass


@pytest.mark.parametrize(
    ("document", "options", "said"),
    [
        ({}, {"baseurl": "https://x"}, "no keyword 'baseurl'; did you mean 'base_url'"),
        ([{}], {}, "or the document as a dictionary, not a list"),
        ('{"openapi": "3.1.0"}', {}, "or the document as a dictionary, not its text"),
    ],
)
def test_openapi_says_how_it_is_called(document: Any, options: Any, said: str) -> None:
    with pytest.raises((TypeError, RegistrationError), match=said):
        openapi(document, **options)
