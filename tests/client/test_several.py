"""Several servers in one client: connecting, failures, prefixed names, and what dies later."""

import asyncio
import inspect
import json
import logging
import sys
from functools import partial

import pytest

import accord
import accord.client
from accord import Server
from accord.client import Client, ClientGroup, blocking, connect_all, read_configuration
from accord.client.blocking_group import BlockingClientGroup
from accord.errors import (
    ConfigurationError,
    ConnectFailed,
    ConnectionClosed,
    ServerNotFound,
    ToolError,
)
from accord.types import CreateMessageResult, TextContent
from support.http_server import bounded
from support.leftovers import Leftovers
from support.running import to_the_end

HANDSHAKE = {"revisions": ["2025-06-18", "2025-11-25"]}
SECRET = "sk-3f9a77c0d1e2"
OTHER = "tok-99aa88bb77"


def desk(name, *tools, **resources):
    """Return a server whose tools return its name, with resources by the scheme of their URIs."""
    server = Server(name)
    for tool in tools:
        server.tool(name=tool, description="Return the name of the server.")(lambda: name)
    for scheme in resources:
        server.resource(f"{scheme}://{resources[scheme]}", name=scheme)(
            (lambda key: f"{name} {key}") if "{key}" in resources[scheme] else (lambda: name)
        )
    return server


async def names(entries):
    return [entry.name async for entry in entries]


# -- connecting


def test_a_file_of_servers_of_three_revisions_and_two_transports(run, wayward, tmp_path):
    def entry(**config):
        command, *args = wayward(**config)
        return {"command": command, "args": args, "env": {"ACCORD_DESK": "crm"}}

    async def main(url):
        file = tmp_path / "mcp.json"
        servers = {
            "old": entry(version="2024-11-05"),
            "newer": entry(version="2025-06-18"),
            "web": {"type": "http", "url": url},
        }
        file.write_text(json.dumps({"mcpServers": servers}))
        async with connect_all(file) as clients:
            assert [(name, client.revision) for name, client in clients.items()] == [
                ("old", "2024-11-05"),
                ("newer", "2025-06-18"),
                ("web", "2026-07-28"),
            ]
            assert clients.failures == {}
            echoed = await clients.call_tool("newer.echo", {"a": 1})
            assert echoed.structured_content == {"a": 1}
            assert await clients.call_tool("web.find", result_type=str) == "web"
            env = await clients.call_tool("newer.environment", result_type=dict)
            assert env["ACCORD_DESK"] == "crm"
            # They run in the folder of the file.
            assert (await clients.call_tool("old.folder")).text == str(tmp_path)
            assert {name.partition(".")[0] for name in await names(clients.tools())} == {*servers}

    with bounded(desk("web", "find").asgi()) as port:
        run(main(f"http://127.0.0.1:{port}/mcp"))


def test_servers_that_do_not_start_are_errors_in_their_place(run, wayward, caplog):
    async def main():
        source = {
            "crm": wayward(),
            "missing": {"command": "accord-no-such-program"},
            "ends": wayward(exit=3, stderr=["no licence"]),
            "unset": {"command": "x", "env": {"KEY": "${ACCORD_UNSET}"}},
        }
        async with connect_all(source) as clients:
            assert list(clients) == ["crm"]
            assert len(clients) == 1
            assert "crm" in clients
            assert "ends" not in clients
            assert clients.get("ends") is None
            assert set(clients.failures) == {"missing", "ends", "unset"}
            assert isinstance(clients.failures["unset"], ConfigurationError)
            await clients["crm"].ping()
            assert len(await names(clients.tools())) == 5
            with pytest.raises(ConnectFailed, match=r"server 'missing' is not connected: .* found"):
                clients["missing"]
            with pytest.raises(ConnectFailed, match=r"server 'unset' .* ACCORD_UNSET") as caught:
                clients["unset"]
            assert caught.value.__cause__ is clients.failures["unset"]
            with pytest.raises(ConnectFailed, match=r"'ends' .* no licence") as caught:
                await clients.call_tool("ends.find")
            assert (caught.value.exit_code, caught.value.stderr) == (3, "no licence")
            assert "failed: unset" in repr(clients)

    run(main())
    logged = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert sum("is not connected" in each for each in logged) == 3


@to_the_end
async def test_a_slow_server_costs_its_own_connect_timeout_alone(wayward):
    graces = {"exit_grace": 0.1, "terminate_grace": 0.1, **HANDSHAKE}
    slow = {"slow": {"connect_timeout": 0.5}}
    async with connect_all(
        {"slow": wayward(silent=True), "crm": wayward()},
        options_for=lambda name: slow.get(name, {}),
        **graces,
    ) as clients:
        assert list(clients) == ["crm"]
        assert "within 0.5 s" in str(clients.failures["slow"])
        await clients["crm"].ping()


READS_ALONE = """
import os, sys
with open(sys.argv[1], "w") as file:
    file.write(str(os.getpid()))
sys.stdin.read()
"""


@to_the_end
async def test_nothing_is_left_when_connecting_is_cancelled(wayward, tmp_path, is_running):
    files = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    source = {
        "crm": wayward(pid_file=str(files[0])),
        "ends_at_once": [sys.executable, "-c", READS_ALONE, str(files[1])],
        "ends_late": wayward(pid_file=str(files[2]), silent=True, stubborn=True),
    }
    options = {"exit_grace": 0.2, "terminate_grace": 0.2, **HANDSHAKE}
    task = asyncio.ensure_future(connect_all(source, **options).__aenter__())
    while not all(file.exists() and file.read_text() for file in files):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(is_running(int(file.read_text())) for file in files)


@to_the_end
async def test_closing_ends_every_server_and_may_be_repeated():
    clients = await connect_all({"a": desk("a", "x"), "b": desk("b", "x")})
    held = [clients["a"], clients["b"]]
    await clients.close()
    await clients.close()
    assert all(client.is_closed for client in held)
    with pytest.raises(ConnectionClosed):
        await clients.call_tool("a.x")
    with pytest.raises(ConnectionClosed, match="the clients are closed"):
        await clients.reconnect("a")


@to_the_end
async def test_entries_that_were_read_before_are_a_source(wayward):
    command, *args = wayward()
    entry = {"command": command, "args": args, "env": {"KEY": "${input:key}"}}
    entries = read_configuration({"crm": entry}, variables={"input:key": SECRET})
    async with connect_all(entries) as clients:
        env = await clients.call_tool("crm.environment", result_type=dict)
        assert env["KEY"] == SECRET


@to_the_end
async def test_a_connection_may_be_made_twice_from_one_call():
    connecting = connect_all({"a": desk("a", "x")})
    for _ in range(2):
        async with connecting as clients:
            assert await clients.call_tool("a.x", result_type=str) == "a"


# -- options


@to_the_end
async def test_options_hold_for_every_server_and_entries_come_first(wayward):
    command, *args = wayward()
    entry = {"command": command, "args": args, "env": {"A": "entry", "B": "entry"}}
    async with connect_all(
        {"one": entry, "two": wayward()},
        env={"A": "all", "C": "all"},
        options_for=lambda name: {"env": {"B": name}},
        revision="2025-03-26",
    ) as clients:
        assert [client.revision for client in clients.values()] == ["2025-03-26"] * 2
        found = [
            (await client.call_tool("environment")).structured_content
            for client in clients.values()
        ]
        assert [{key: each.get(key) for key in "ABC"} for each in found] == [
            {"A": "entry", "B": "one", "C": "all"},
            {"A": "all", "B": "two", "C": "all"},
        ]


def test_callbacks_know_their_server_by_options_for(run, wayward):
    asked = []

    def answer(name, params):
        asked.append(name)
        return CreateMessageResult("assistant", TextContent(name), model="m")

    async def main():
        params = {"messages": [], "maxTokens": 1}
        async with connect_all(
            {"one": wayward(), "two": wayward()},
            options_for=lambda name: {"on_sample": partial(answer, name)},
            **HANDSHAKE,
        ) as clients:
            for name in ("two", "one"):
                arguments = {"method": "sampling/createMessage", "params": params}
                result = await clients.call_tool(f"{name}.ask", arguments)
                assert result.structured_content["result"]["content"]["text"] == name

    run(main())
    assert asked == ["two", "one"]


@to_the_end
async def test_cwd_is_where_relative_paths_begin(wayward, tmp_path):
    (tmp_path / "sub").mkdir()
    command, *args = wayward()
    one = {"command": command, "args": args}
    source = {"a": one, "b": {**one, "cwd": "sub"}, "c": wayward()}
    async with connect_all(source, cwd=tmp_path) as clients:
        assert (await clients.call_tool("a.folder")).text == str(tmp_path)
        assert (await clients.call_tool("c.folder")).text == str(tmp_path)
        assert (await clients.call_tool("b.folder")).text == str(tmp_path / "sub")


@pytest.mark.parametrize("make", [connect_all, blocking.connect_all], ids=["asyncio", "blocking"])
def test_mistakes_in_the_call_are_raised_at_once(make):
    with pytest.raises(TypeError, match="has no keyword 'timeot'; did you mean 'timeout'"):
        make({"a": desk("a")}, timeot=5)
    with pytest.raises(TypeError, match="has no keyword 'timeot'"):
        make({"a": desk("a")}, options_for=lambda name: {"timeot": 5})
    with pytest.raises(TypeError, match="a token, which every server would see"):
        make({"a": "http://a"}, auth=SECRET)
    with pytest.raises(TypeError, match="separator is ''"):
        make({"a": desk("a")}, separator="")
    with pytest.raises(ConfigurationError, match="No such file"):
        make("accord-no-such-file.json")


def test_a_plain_with_and_early_use_are_refused_with_the_code_to_write():
    expected = pytest.raises(TypeError, match=r"async with connect_all\(...\) as clients")
    with expected, connect_all({}):
        pass
    with pytest.raises(AttributeError, match=r"clients = await connect_all\(...\)"):
        connect_all({}).tools()


def test_secrets_stay_out_of_errors_and_logs(run, wayward, caplog):
    async def main():
        command, *args = wayward(exit=1, stderr=[f"the key {SECRET} is not valid"])
        source = {
            "crm": {"command": command, "args": args, "env": {"KEY": SECRET}},
            "web": wayward(exit=1, stderr=[f"the token {OTHER} is not valid"]),
            "erp": {
                "command": "accord-no-such-program",
                "args": ["--key", SECRET],
                "env": {"K": SECRET},
            },
        }
        own = {"web": {"env": {"TOKEN": OTHER}}}
        async with connect_all(source, options_for=own.get) as clients:
            with pytest.raises(ConnectFailed) as caught:
                clients["crm"]
            assert "the key masked-0 is not valid" in str(caught.value)
            assert "the token masked-0 is not valid" in str(clients.failures["web"])
            error = clients.failures["erp"]
            return [
                str(caught.value),
                caught.value.stderr,
                str(error),
                error.command,
                repr(clients),
            ]

    texts = run(main())
    assert SECRET not in repr(texts)
    assert SECRET not in caplog.text
    assert OTHER not in caplog.text


# -- names


@to_the_end
async def test_lists_have_prefixed_names_and_lead_back():
    servers = {"crm": desk("crm", "find", note="one"), "erp": desk("erp", "find", "pay.out")}
    async with connect_all(servers) as clients:
        assert await names(clients.tools()) == ["crm.find", "erp.find", "erp.pay.out"]
        assert await names(clients.resources()) == ["crm.note"]
        assert await names(clients.resource_templates()) == []
        assert await names(clients.prompts()) == []
        assert clients.split("erp.pay.out") == ("erp", "pay.out")
        assert clients.join("erp", "pay.out") == "erp.pay.out"
        assert await clients.call_tool("erp.pay.out", result_type=str) == "erp"
        (tool,) = [each async for each in clients["crm"].tools()]
        assert tool.name == "find"


@pytest.mark.parametrize("separator", ["_", "__", "/"])
@to_the_end
async def test_another_separator_may_be_chosen(separator):
    async with connect_all({"crm": desk("crm", "find")}, separator=separator) as clients:
        (name,) = await names(clients.tools())
        assert name == f"crm{separator}find"
        assert await clients.call_tool(name, result_type=str) == "crm"


def test_the_longest_name_of_a_server_counts_and_what_it_hides_is_logged(run, caplog):
    async def main():
        servers = {
            "crm": desk("crm", "find", "eu.find", "europe"),
            "crm.eu": desk("crm.eu", "find"),
            "crm.us": {"command": "accord-no-such-program"},
        }
        async with connect_all(servers) as clients:
            assert await names(clients.tools()) == ["crm.find", "crm.europe", "crm.eu.find"]
            assert await clients.call_tool("crm.eu.find", result_type=str) == "crm.eu"
            assert await clients["crm"].call_tool("eu.find", result_type=str) == "crm"
            with pytest.raises(ConnectFailed, match=r"server 'crm\.us' is not connected"):
                await clients.call_tool("crm.us.find")

    run(main())
    assert "'eu.find' of server 'crm' is left out: 'crm.eu.find' is a name of" in caplog.text


@to_the_end
async def test_names_of_no_server_are_refused_with_those_that_exist():
    async with connect_all({"crm": desk("crm", "find"), "erp": desk("erp", "x")}) as clients:
        for wrong in ("find", "cr.find", "crm", "CRM.find"):
            with pytest.raises(ServerNotFound, match="the servers are crm, erp") as caught:
                await clients.call_tool(wrong)
            assert caught.value.known == ("crm", "erp")
        with pytest.raises(KeyError, match="there is no server 'x'"):
            clients["x"]


@to_the_end
async def test_prompts_are_filled_in_by_their_prefixed_name(wayward):
    async with connect_all({"crm": wayward(), "erp": wayward()}) as clients:
        assert (await names(clients.prompts()))[:4] == [
            *("crm.prompt0", "crm.prompt1", "crm.prompt2", "erp.prompt0")
        ]
        (message,) = (await clients.get_prompt("erp.prompt1", {"a": "b"})).messages
        asked = json.loads(message.content.text)
        assert (asked["name"], asked["arguments"]) == ("prompt1", {"a": "b"})


@to_the_end
async def test_a_resource_is_read_from_the_server_that_has_it():
    servers = {
        "crm": desk("crm", note="one", both="x", people="{key}"),
        "erp": desk("erp", bill="one", both="x"),
        "plain": desk("plain", "tool"),
    }
    async with connect_all(servers) as clients:
        for uri, expected in (
            ("note://one", "crm"),
            ("bill://one", "erp"),
            ("people://ann", "crm ann"),
        ):
            assert (await clients.read_resource(uri)).contents[0].text == expected
        with pytest.raises(ServerNotFound, match="servers crm, erp have the resource") as error:
            await clients.read_resource("both://x")
        assert error.value.known == ("crm", "erp")
        with pytest.raises(ServerNotFound, match="no server has the resource 'none://x'"):
            await clients.read_resource("none://x")
        assert (await clients["erp"].read_resource("both://x")).contents[0].text == "erp"


@to_the_end
async def test_a_resource_that_is_listed_later_is_found():
    crm = desk("crm", note="one")
    async with connect_all({"crm": crm, "erp": desk("erp", bill="one")}) as clients:
        await clients.read_resource("note://one")
        crm.resource("note://two", name="two")(lambda: "later")
        assert (await clients.read_resource("note://two")).contents[0].text == "later"


@to_the_end
async def test_errors_of_tools_are_those_of_one_client():
    crm = Server("crm")

    @crm.tool
    def fail() -> str:
        """Fail."""
        raise ToolError("no such customer")

    async with connect_all({"crm": crm}) as clients:
        assert (await clients.call_tool("crm.fail")).is_error
        with pytest.raises(ToolError, match="no such customer"):
            await clients.call_tool("crm.fail", result_type=str)


# -- what happens later


def test_a_server_that_dies_fails_its_own_calls_and_comes_back(run, wayward, caplog):
    async def main():
        async with connect_all({"crm": wayward(), "erp": wayward()}) as clients:
            with pytest.raises(ConnectionClosed):
                await clients.call_tool("crm.leave", {"code": 4})
            with pytest.raises(ConnectionClosed):
                await clients.call_tool("crm.echo")
            await clients.call_tool("erp.echo")
            assert {name[:3] for name in await names(clients.tools())} == {"erp"}
            assert isinstance(clients.failures["crm"], ConnectionClosed)
            one, two = await asyncio.gather(clients.reconnect("crm"), clients.reconnect("crm"))
            assert one is two is clients["crm"]
            assert clients.failures == {}
            await clients.call_tool("crm.echo")
            assert {name[:3] for name in await names(clients.tools())} == {"crm", "erp"}

    run(main())
    assert "the tools of server 'crm' cannot be read" in caplog.text


@to_the_end
async def test_reconnecting_fails_with_the_name_and_may_succeed_later(tmp_path):
    script = tmp_path / "crm.py"
    async with connect_all({"crm": [sys.executable, str(script)]}) as clients:
        with pytest.raises(ConnectFailed, match="server 'crm' is not connected"):
            await clients.reconnect("crm")
        with pytest.raises(ServerNotFound):
            await clients.reconnect("x")
        script.write_text(
            "from accord import Server\nserver = Server('crm')\nserver.run('stdio')\n"
        )
        client = await clients.reconnect("crm")
        assert (client.server_info.name, dict(clients)) == ("crm", {"crm": client})
        assert clients.failures == {}


@to_the_end
async def test_closing_ends_an_attempt_to_reconnect(wayward):
    options = {"exit_grace": 0.1, "terminate_grace": 0.1, "connect_timeout": 0.3, **HANDSHAKE}
    clients = await connect_all(
        {"slow": wayward(silent=True)},
        **options,
    )
    attempt = asyncio.ensure_future(clients.reconnect("slow"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await clients.close()
    with pytest.raises((ConnectionClosed, ConnectFailed)):
        await attempt


@to_the_end
async def test_a_list_that_is_wrong_leaves_the_others_readable(wayward):
    source = {"crm": wayward(tools=[{"name": 5}]), "erp": desk("erp", "find")}
    async with connect_all(source) as clients:
        assert await names(clients.tools()) == ["erp.find"]
        assert "crm" in clients.failures
        assert "crm" in clients
        await clients.call_tool("crm.echo")


def test_servers_without_a_kind_of_list_are_not_asked(run, wayward, caplog):
    async def main():
        source = {"crm": wayward(capabilities={}), "erp": wayward(capabilities={"resources": {}})}
        async with connect_all(source, **HANDSHAKE) as clients:
            assert await names(clients.tools()) == []
            assert await names(clients.prompts()) == []
            assert len(await names(clients.resources())) == 3
            assert clients.failures == {}

    run(main())
    assert caplog.text == ""


# -- without asyncio


def test_the_blocking_clients_share_a_thread_and_leave_nothing(wayward):
    left = Leftovers()
    source = {"crm": wayward(), "erp": wayward(), "bad": ["accord-no-such-program"]}
    with blocking.connect_all(source) as clients:
        assert len(left.threads()) == 1
        assert list(clients) == ["crm", "erp"]
        assert len(list(clients.tools())) == 10
        assert len(list(clients.prompts())) == 6
        assert len(list(clients.resources())) == 6
        assert len(list(clients.resource_templates())) == 6
        assert clients.call_tool("crm.echo", {"a": 1}, result_type=dict) == {"a": 1}
        assert clients.get_prompt("crm.prompt0").messages
        assert (clients.split("crm.echo"), clients.join("crm", "echo")) == (
            ("crm", "echo"),
            "crm.echo",
        )
        with pytest.raises(ServerNotFound):
            clients.read_resource("note://1")
        with pytest.raises(ConnectFailed, match="server 'bad'"):
            clients["bad"]
        assert list(clients.failures) == ["bad"]
        crm = clients["crm"]
        assert crm is clients["crm"]
        crm.close()
        with pytest.raises(ConnectionClosed):
            crm.ping()
        clients["erp"].ping()
        again = clients.reconnect("crm")
        again.ping()
        assert clients["crm"] is again
        assert "blocking ClientGroup of crm, erp; failed: bad" in repr(clients)
    assert again.is_closed
    with pytest.raises(ConnectionClosed):
        clients.call_tool("erp.echo")
    with pytest.raises(ConnectionClosed):
        clients["erp"].ping()
    assert not left.threads()


def test_the_blocking_group_has_the_same_methods_and_texts():
    def public(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    attributes = {"failures", "separator"}
    assert public(BlockingClientGroup) == public(ClientGroup) | attributes
    for name in ("call_tool", "get_prompt", "read_resource"):
        one, other = getattr(BlockingClientGroup, name), getattr(ClientGroup, name)
        assert inspect.signature(one) == inspect.signature(other)
        assert one.__doc__ == other.__doc__
    assert isinstance(Client, type)
    assert accord.connect_all is accord.client.connect_all is connect_all
