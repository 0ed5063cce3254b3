"""Bad servers behind a proxy: they harm their own entries and calls alone."""

import asyncio
import sys
from typing import Any

import pytest

from accord import Server, connect
from accord.compose import proxy
from accord.errors import ConnectFailed
from accord.testing import connected
from accord.types import CreateMessageResult, TextContent
from compose.proxied import EVERYTHING, child_environment, children, hub_of
from support.links import text
from support.raw import RawServer
from support.running import in_virtual_time, on_a_loop
from support.waiting import run, until

SCHEMA = {"type": "object"}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": SCHEMA, **more}


DONE = {"content": [{"type": "text", "text": "done"}], "isError": False}


class Fleet:
    """A target of `proxy`: each connection is answered by another raw server."""

    def __init__(self, answers: dict[str, Any] | None = None, **options: Any) -> None:
        self.answers = {
            "tools/list": {"tools": [tool("far")]},
            "tools/call": DONE,
            **(answers or {}),
        }
        self.options = options
        self.servers: list[RawServer] = []
        self.failures = 0

    async def connect_memory(self) -> Any:
        if self.failures:
            self.failures -= 1
            raise ConnectFailed("it is being repaired", phase="starting")
        self.servers.append(RawServer(self.answers, **self.options))
        return await self.servers[-1].connect_memory()

    def heard(self, method: str) -> list[Any]:
        return [
            each for server in self.servers for each in server.heard if each.get("method") == method
        ]

    def put(self, **message: Any) -> None:
        for server in self.servers:
            if not server.is_closed:
                server.put(**message)


def hub_with_own_tool(target: Any, **options: Any) -> Server[Any]:
    hub = hub_of(target, **options)

    @hub.tool
    async def near() -> str:
        """Answer here."""
        return "near"

    return hub


async def names_of(client: Any) -> list[str]:
    return sorted([each.name async for each in client.tools(fresh=True)])


async def is_well(client: Any) -> bool:
    return text(await client.call_tool("near")) == "near"


# -- starting


@on_a_loop
async def test_a_server_that_does_not_start_is_named_and_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub = hub_with_own_tool(["/no/such/command"], name="crm")
    async with connected(hub) as client:
        assert await names_of(client) == ["near"]
        assert await is_well(client)
    assert "proxy('crm') is not available yet" in caplog.text


@on_a_loop
async def test_a_required_server_that_does_not_start_ends_the_start() -> None:
    hub = hub_of(["/no/such/command"], name="crm", required=True)
    with pytest.raises(Exception, match="crm"):
        await connect(hub)


@in_virtual_time
async def test_entries_of_a_server_that_starts_late_appear() -> None:
    fleet = Fleet()
    fleet.failures = 3
    changes: list[str] = []
    hub = hub_of(fleet)
    async with connected(hub, on_tools_changed=lambda: changes.append("tools")) as client:
        assert await names_of(client) == []
        await asyncio.sleep(60)
        assert changes == ["tools"]
        assert await names_of(client) == ["far"]
        assert text(await client.call_tool("far")) == "done"


@in_virtual_time
async def test_a_server_that_never_answers_initialize_delays_the_start_by_its_limit() -> None:
    fleet = Fleet({"initialize": lambda server, message: None})
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with connected(hub_with_own_tool(fleet, start_timeout=3)) as client:
        assert loop.time() - began <= 3.1
        assert await is_well(client)


@in_virtual_time
async def test_a_list_that_fails_at_first_is_read_again() -> None:
    count = 0

    def answer(server: RawServer, message: Any) -> None:
        nonlocal count
        count += 1
        if count == 1:
            return  # it hangs
        if count == 2:
            server.put(id=message["id"], error={"code": -32603, "message": "not yet"})
        else:
            server.put(id=message["id"], result={"tools": [tool("far")]})

    fleet = Fleet({"tools/list": answer})
    async with connected(hub_with_own_tool(fleet)) as client:
        assert await names_of(client) == ["near"]
        await asyncio.sleep(100)
        assert await names_of(client) == ["far", "near"]


# -- dying


def test_a_server_that_dies_in_a_call_fails_that_call_alone() -> None:
    async def main() -> None:
        command = [sys.executable, str(EVERYTHING), "2025-11-25"]
        hub = hub_with_own_tool(command, name="crm", env=child_environment())
        async with connected(hub) as client:
            names = await names_of(client)
            died = await client.call_tool("die")
            assert died.is_error
            assert text(died) == "crm: it is not available"
            assert await is_well(client)
            assert await names_of(client) == names
            assert text(await client.call_tool("add", {"a": 1, "b": 1})) == '{"sum":2}'
            assert children()
        await until(lambda: not children() - before)

    before = children()
    run(main())


@in_virtual_time
async def test_a_server_that_dies_while_idle_is_connected_again() -> None:
    fleet = Fleet()
    async with connected(hub_of(fleet)) as client:
        assert text(await client.call_tool("far")) == "done"
        before = len(fleet.servers)
        for server in fleet.servers:
            server._lost("it crashed")
        await asyncio.sleep(2)
        assert await names_of(client) == ["far"]
        assert text(await client.call_tool("far")) == "done"
        assert before < len(fleet.servers) <= before + 2


@in_virtual_time
async def test_a_server_that_never_answers_a_call_is_given_up() -> None:
    fleet = Fleet({"tools/call": lambda server, message: None})
    async with connected(hub_with_own_tool(fleet, name="crm", timeout=20), timeout=60) as client:
        call = asyncio.ensure_future(client.call_tool("far"))
        await asyncio.sleep(1)
        assert await is_well(client)
        assert text(await call) == "crm: no answer in time"
    assert fleet.heard("notifications/cancelled")


@in_virtual_time
async def test_a_server_that_never_sets_a_log_level_answers_calls_all_the_same() -> None:
    fleet = Fleet(capabilities={"tools": {}, "logging": {}})
    hub = hub_of(fleet)
    async with connected(hub, timeout=20, on_log=print, revision="2025-11-25") as client:
        assert text(await client.call_tool("far")) == "done"
        assert text(await client.call_tool("far")) == "done"
    assert len(fleet.heard("logging/setLevel")) == 1


# -- floods


@in_virtual_time
async def test_a_flood_of_list_changes_is_read_a_few_times() -> None:
    fleet = Fleet(capabilities={"tools": {"listChanged": True}})
    async with connected(hub_with_own_tool(fleet)) as client:
        await client.call_tool("far")
        before = len(fleet.heard("tools/list"))
        for _ in range(100):
            for _ in range(20):
                fleet.put(method="notifications/tools/list_changed")
            await asyncio.sleep(0.05)
            assert await is_well(client)
        assert len(fleet.heard("tools/list")) - before < 15


@in_virtual_time
async def test_a_flood_of_logs_and_progress_reaches_its_own_client_alone() -> None:
    def flood(server: RawServer, message: Any) -> None:
        token = message["params"]["_meta"]["progressToken"]
        for number in range(500):
            log = {"level": "error", "data": number}
            server.put(method="notifications/message", params=log)
            progress = {"progressToken": token, "progress": number}
            server.put(method="notifications/progress", params=progress)
            server.put(method="notifications/progress", params={**progress, "progressToken": "?"})
        server.put(id=message["id"], result=DONE)

    fleet = Fleet(
        {"tools/call": flood, "logging/setLevel": {}}, capabilities={"tools": {}, "logging": {}}
    )
    hub = hub_of(fleet)
    one: list[Any] = []
    two: list[Any] = []
    steps: list[Any] = []
    async with (
        connected(hub, on_log=one.append, allow=("*",)) as first,
        connected(hub, on_log=two.append) as second,
    ):
        await first.call_tool("far", on_progress=lambda each: steps.append(each.progress))
        await second.ping()
        await first.ping()
    assert steps == sorted(set(steps))
    assert (len(one), len(two)) == (500, 0)


@in_virtual_time
async def test_pages_without_end_are_read_up_to_the_limit() -> None:
    def page(server: RawServer, message: Any) -> None:
        number = int((message["params"].get("cursor") or "c0")[1:])
        tools = [tool(f"tool_{number}_{each}") for each in range(10)]
        result = {"tools": tools, "nextCursor": f"c{number + 1}"}
        server.put(id=message["id"], result=result)

    async with connected(
        hub_with_own_tool(Fleet({"tools/list": page}), most_entries=100)
    ) as client:
        assert len(await names_of(client)) == 101
        assert await is_well(client)


@in_virtual_time
async def test_empty_pages_without_end_are_given_up() -> None:
    fleet = Fleet(
        {
            "tools/list": lambda server, message: server.put(
                id=message["id"], result={"tools": [], "nextCursor": f"c{message['id']}"}
            )
        }
    )
    async with connected(hub_with_own_tool(fleet)) as client:
        assert await names_of(client) == ["near"]
    assert len(fleet.heard("tools/list")) < 500


@on_a_loop
async def test_more_tools_than_the_limit_are_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [tool(f"t{number}") for number in range(20_000)]
    fleet = Fleet({"tools/list": {"tools": tools}})
    async with connect(hub_with_own_tool(fleet, most_entries=1000)) as client:
        assert len(await names_of(client)) == 1001
        assert await is_well(client)
    assert "only 1000 of its tools are taken over (most_entries)" in caplog.text


@in_virtual_time
async def test_a_list_beyond_the_limits_of_a_message_harms_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = [tool(f"t{number}") for number in range(70_000)]
    async with connect(hub_with_own_tool(Fleet({"tools/list": {"tools": tools}}))) as client:
        assert await names_of(client) == ["near"]
        assert await is_well(client)
    assert "the answer holds more than" in caplog.text


# -- what they say


@in_virtual_time
async def test_a_server_that_changes_its_tools_is_followed() -> None:
    fleet = Fleet(capabilities={"tools": {"listChanged": True}})
    changes: list[int] = []
    async with connected(hub_of(fleet), on_tools_changed=lambda: changes.append(1)) as client:
        await client.call_tool("far")
        fleet.answers["tools/list"] = {"tools": [tool("far", title="Far"), tool("more")]}
        fleet.put(method="notifications/tools/list_changed")
        await asyncio.sleep(1)
        assert await names_of(client) == ["far", "more"]
        fleet.put(method="notifications/tools/list_changed")  # without a change
        await asyncio.sleep(1)
    assert changes == [1]


@in_virtual_time
async def test_entries_with_hostile_names_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(
        {
            "tools/list": {
                "tools": [
                    tool("a\x1b[31mred"),
                    tool("line\nbreak"),
                    tool(""),
                    tool("x" * 100_000),
                    tool("near"),
                    tool("twice", description="1"),
                    tool("twice", description="2"),
                    tool("good"),
                ]
            },
            "resources/list": {
                "resources": [
                    {"uri": "not a uri", "name": "a"},
                    {"uri": "note://\x00", "name": "b"},
                    {"uri": "note://good", "name": "c"},
                ]
            },
            "resources/templates/list": {
                "resourceTemplates": [
                    {"uriTemplate": "note://{unclosed", "name": "a"},
                    {"uriTemplate": "note://{good}", "name": "b"},
                ]
            },
            "prompts/list": {"prompts": [{"name": "\x7f"}, {"name": "good"}]},
        },
        capabilities={"tools": {}, "resources": {}, "prompts": {}},
        allow=("*",),
    )
    async with connected(hub_with_own_tool(fleet, name="crm"), allow=("*",)) as client:
        assert await names_of(client) == ["good", "near", "twice"]
        assert await is_well(client)
        resources = [each.uri async for each in client.resources()]
        templates = [each.uri_template async for each in client.resource_templates()]
        prompts = [each.name async for each in client.prompts()]
    assert (resources, templates, prompts) == (["note://good"], ["note://{good}"], ["good"])
    assert "proxy('crm')" in caplog.text
    assert "\x1b" not in caplog.text
    assert max(map(len, caplog.messages)) < 2000


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_a_tool_with_an_invalid_schema_harms_no_other(revision: Any) -> None:
    schemas = [{}, {"type": "string"}, {"type": "object", "properties": 3}, [], None, "x"]

    @in_virtual_time
    async def scenario() -> None:
        for schema in schemas:
            bad = {"name": "bad", "inputSchema": schema}
            fleet = Fleet({"tools/list": {"tools": [bad, tool("far")]}}, allow=("*",))
            hub = hub_with_own_tool(fleet)
            async with connected(hub, revision=revision, allow=("*",)) as client:
                assert "near" in await names_of(client), schema
                assert await is_well(client)

    scenario()


@in_virtual_time
async def test_answers_that_break_the_protocol_fail_their_call_alone() -> None:
    answers: list[Any] = [
        {"content": "no list"},
        {"content": [{"type": "text"}]},
        [],
        None,
        {"content": [{"type": "image", "data": 3, "mimeType": "x"}]},
    ]

    def answer(server: RawServer, message: Any) -> None:
        server.put(id=message["id"], result=answers[0])

    fleet = Fleet({"tools/call": answer}, allow=("*",))
    async with connected(hub_with_own_tool(fleet, name="crm")) as client:
        while answers:
            result = await client.call_tool("far")
            assert result.is_error
            assert text(result).startswith("crm: ")
            assert await is_well(client)
            answers.pop(0)


@in_virtual_time
async def test_unexpected_answers_and_lines_that_are_not_json_are_ignored() -> None:
    def answer(server: RawServer, message: Any) -> None:
        server.put(id=99_999, result=DONE)
        server.put(id="x", result=DONE)
        server.put(id=None, error={"code": -32700, "message": "what?"})
        server._receive(b"Loading modules...")
        server._receive(b"\xff\xfe{]")
        server.put(method="notifications/none", params={"x": 1})
        server.put(id=message["id"], result=DONE)
        server.put(id=message["id"], result=DONE)

    fleet = Fleet({"tools/call": answer}, allow=("*",))
    async with connected(hub_with_own_tool(fleet)) as client:
        assert text(await client.call_tool("far")) == "done"
        assert await is_well(client)


# -- what they ask

SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "?"}}],
    "maxTokens": 5,
}


@in_virtual_time
async def test_a_question_that_the_client_did_not_declare_is_refused() -> None:
    answers: list[Any] = []

    def ask(server: RawServer, message: Any) -> None:
        async def main() -> None:
            answers.append(await server.ask("q1", "sampling/createMessage", SAMPLE))
            answers.append(await server.ask("q2", "roots/list"))
            answers.append(await server.ask("q3", "anything/else"))
            server.put(id=message["id"], result=DONE)

        tasks.append(asyncio.ensure_future(main()))

    tasks: list[Any] = []
    fleet = Fleet({"tools/call": ask}, allow=("*",))
    async with connected(hub_of(fleet)) as client:
        assert text(await client.call_tool("far")) == "done"
    assert all("error" in each for each in answers)
    assert len(answers) == 3


@in_virtual_time
async def test_a_question_outside_of_a_call_reaches_the_client_of_the_session() -> None:
    fleet = Fleet()
    asked: list[Any] = []

    async def sample(params: Any) -> CreateMessageResult:
        asked.append(params)
        return CreateMessageResult("assistant", TextContent("yes"), "m")

    hub = hub_of(fleet)
    async with connected(hub, on_sample=sample, revision="2025-06-18", allow=("*",)) as client:
        await client.call_tool("far")
        answer = await fleet.servers[-1].ask("q", "sampling/createMessage", SAMPLE)
        assert answer["result"]["content"]["text"] == "yes"
    late = fleet.servers[-1]
    assert late.is_closed
    assert len(asked) == 1


@in_virtual_time
async def test_a_question_outside_of_a_call_is_refused_for_clients_without_a_session() -> None:
    fleet = Fleet({"tools/call": DONE}, allow=("*",))

    async def sample(params: Any) -> str:
        raise AssertionError

    async with connected(hub_of(fleet), on_sample=sample, revision="2026-07-28") as client:
        await client.call_tool("far")
        answer = await fleet.servers[-1].ask("q", "sampling/createMessage", SAMPLE)
        assert "no request of a client is under way" in answer["error"]["message"]
        fleet.put(method="notifications/message", params={"level": "error", "data": "late"})
        await client.ping()


# -- names


@in_virtual_time
async def test_a_name_that_two_servers_have_is_that_of_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub: Server[Any] = Server("hub")
    other = {**DONE, "content": [{"type": "text", "text": "second"}]}
    hub.mount(proxy(Fleet(), name="one"))
    hub.mount(proxy(Fleet({"tools/call": other}), name="two"))
    async with connected(hub) as client:
        assert await names_of(client) == ["far"]
        found = text(await client.call_tool("far"))
    assert found in ("done", "second")
    assert "is left out" in caplog.text
    both: Server[Any] = Server("hub")
    both.mount(proxy(Fleet(), name="one"), prefix="one")
    both.mount(proxy(Fleet({"tools/call": other}), name="two"), prefix="two")
    async with connected(both) as client:
        assert await names_of(client) == ["one_far", "two_far"]
        assert text(await client.call_tool("two_far")) == "second"
