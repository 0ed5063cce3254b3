"""Mounting: the tools, resources and prompts of one server in another, live."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Context, Server
from accord.client import Client
from accord.errors import InvalidParams, RegistrationError, RequestError
from accord.testing import Recording, connected
from compose import servers
from support.tables import cases
from support.waiting import in_loop, until

ERAS = ["2025-06-18", "2026-07-28"]


def make_child(name: str = "crm", **settings: Any) -> Server[Any]:
    child: Server[Any] = Server(name, **settings)

    @child.tool(tags={"read"})
    async def find(ctx: Context, name: str) -> str:
        """Find a customer."""
        return f"{ctx.params.name} {name}"

    @child.resource("data://config")
    async def config(ctx: Context) -> str:
        return f"config {ctx.params.uri}"

    @child.resource("data://customers/{id}")
    async def customer(id: str) -> str:
        return f"customer {id}"

    @child.prompt
    async def greet(name: str) -> str:
        """Greet."""
        return f"Greet {name}"

    return child


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


def texts(result: Any) -> list[str]:
    return [each.text for each in result.contents]


# -- what is mounted


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_entries_are_offered_under_the_prefix(transport: Any, revision: Any) -> None:
    hub = Server("hub")
    hub.mount(make_child(), prefix="crm")
    async with connected(hub, transport=transport, revision=revision) as client:
        assert await names(client) == ["crm_find"]
        assert (await client.call_tool("crm_find", {"name": "Ann"})).text == "find Ann"
        listed = await client.list_resources()
        assert [each.uri for each in listed.resources] == ["data://crm/config"]
        found = await client.read_resource("data://crm/config")
        assert texts(found) == ["config data://config"]
        assert found.contents[0].uri == "data://crm/config"
        templates = await client.list_resource_templates()
        assert [each.uri_template for each in templates.resource_templates] == [
            "data://crm/customers/{id}"
        ]
        found = await client.read_resource("data://crm/customers/7")
        assert texts(found) == ["customer 7"]
        assert found.contents[0].uri == "data://crm/customers/7"
        prompt = await client.get_prompt("crm_greet", {"name": "Ann"})
        assert prompt.messages[0].content.text == "Greet Ann"
        with pytest.raises(RequestError, match="unknown tool 'find'"):
            await client.call_tool("find", {"name": "Ann"})
        with pytest.raises(RequestError):
            await client.read_resource("data://config")


@in_loop
async def test_a_server_is_mounted_in_its_own_name_without_a_prefix() -> None:
    hub = Server("hub")
    hub.tool(name="own")(lambda: "own")
    hub.mount(make_child())
    async with connected(hub) as client:
        assert await names(client) == ["own", "find"]
        assert texts(await client.read_resource("data://config")) == ["config data://config"]


@in_loop
async def test_a_mounted_tool_is_called_over_stdio() -> None:
    async with connected(servers.hub, transport="stdio") as client:
        assert (await client.call_tool("crm_find", {"name": "Ann"})).text == "found Ann"


@in_loop
async def test_three_servers_within_each_other_and_one_under_two_prefixes() -> None:
    leaf, middle, hub = make_child("leaf"), Server("middle"), Server("hub")
    middle.mount(leaf, prefix="c")
    middle.mount(leaf, prefix="d")
    hub.mount(middle, prefix="b")
    hub.mount(middle, prefix="a")
    async with connected(hub) as client:
        assert sorted(await names(client)) == ["a_c_find", "a_d_find", "b_c_find", "b_d_find"]
        assert (await client.call_tool("b_d_find", {"name": "x"})).text == "find x"
        found = await client.read_resource("data://a/c/customers/1")
        assert texts(found) == ["customer 1"]
        assert found.contents[0].uri == "data://a/c/customers/1"


@in_loop
async def test_calls_within_the_process_reach_mounted_tools() -> None:
    hub, child = Server("hub"), make_child()
    hub.mount(child, prefix="crm")

    @hub.tool
    async def ask() -> str:
        """Call a tool of the mounted server through this one, and there."""
        first = await hub.call_tool("crm_find", {"name": "a"})
        second = await child.call_tool("find", {"name": "b"})
        return f"{first.text}, {second.text}"

    assert (await hub.call_tool("crm_find", {"name": "Ann"})).text == "find Ann"
    async with connected(hub) as client:
        assert (await client.call_tool("ask")).text == "find a, find b"
    assert {tool.name for tool in await hub.list_tools()} == {"ask", "crm_find"}


# -- live


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_changes_of_the_child_change_the_lists_here(transport: Any, revision: Any) -> None:
    hub, middle, child = Server("hub"), Server("middle"), make_child()
    middle.mount(child)
    hub.mount(middle, prefix="x")
    heard: list[str] = []
    async with connected(
        hub,
        transport=transport,
        revision=revision,
        on_tools_changed=lambda: heard.append("tools"),
        on_prompts_changed=lambda: heard.append("prompts"),
        on_resources_changed=lambda: heard.append("resources"),
    ) as client:
        assert await names(client) == ["x_find"]

        async def after(count: int) -> list[str]:
            await until(lambda: len(heard) >= count)
            return sorted(await names(client))

        child.add_tool(lambda: "new", name="new", description="New.")
        assert await after(1) == ["x_find", "x_new"]
        child.tool_entries.disable("find")
        assert await after(2) == ["x_new"]
        with pytest.raises(RequestError, match="unknown tool 'x_find'"):
            await client.call_tool("x_find", {"name": "a"})
        child.tool_entries.enable("find")
        assert await after(3) == ["x_find", "x_new"]
        child.hide("find")
        assert await after(4) == ["x_new"]
        with pytest.raises(RequestError, match="unknown tool 'x_find'"):
            await client.call_tool("x_find", {"name": "a"})
        child.show("find")
        assert await after(5) == ["x_find", "x_new"]
        child.tool_entries.remove("new")
        assert await after(6) == ["x_find"]
        assert heard == ["tools"] * 6
        child.prompt_entries.remove("greet")
        child.add_resource("data://new", lambda: "new")
        await until(lambda: len(heard) == 8)
        assert set(heard[6:]) == {"prompts", "resources"}


@pytest.mark.parametrize("transport", ["memory", "http"])
@pytest.mark.parametrize("revision", ERAS)
@in_loop
async def test_updates_reach_subscribers_with_the_outer_uri(transport: Any, revision: Any) -> None:
    hub, middle, child = Server("hub"), Server("middle"), make_child()
    middle.mount(child, prefix="b")
    hub.mount(middle.rename({"data://b/config": "data://settings"}), prefix="a")
    heard: list[str] = []
    async with connected(
        hub, transport=transport, revision=revision, on_resource_updated=heard.append
    ) as client:
        await client.subscribe("data://a/settings")
        await client.subscribe("data://a/b/customers/1")
        child.resource_updated("data://customers/2")
        child.resource_updated("data://config")
        child.resource_updated("data://customers/1")
        await until(lambda: len(heard) == 2)
        assert sorted(heard) == ["data://a/b/customers/1", "data://a/settings"]


@in_loop
async def test_a_resource_that_the_child_hides_cannot_be_subscribed_to() -> None:
    hub, child = Server("hub"), make_child()
    hub.mount(child, prefix="a")
    child.hide("data://config")
    async with connected(hub, revision="2025-06-18") as client:
        with pytest.raises(RequestError):
            await client.subscribe("data://a/config")
    recording = Recording()
    async with (
        connected(hub, revision="2026-07-28", recording=recording) as client,
        client.listen(uris=["data://a/config"], tools=True),
    ):
        (said,) = recording.messages("server", "notifications/subscriptions/acknowledged")
        assert said["params"]["notifications"] == {"toolsListChanged": True}


@in_loop
async def test_threads_add_tools_to_the_child_while_clients_list() -> None:
    hub, child = Server("hub"), Server("child")
    child.add_tool(lambda: "x", name="first", description="One of many.")
    hub.mount(child, prefix="x")
    count, workers = 240, 4

    def add(worker: int) -> None:
        for number in range(count):
            child.add_tool(lambda: "x", name=f"t{worker}_{number}", description="One of many.")

    threads = [threading.Thread(target=add, args=[worker]) for worker in range(workers)]
    async with connected(hub, revision="2025-06-18") as client:
        for thread in threads:
            thread.start()
        seen = 0
        while any(thread.is_alive() for thread in threads):
            listed = await names(client)
            assert len(listed) >= seen
            seen = len(listed)
            await asyncio.sleep(0.01)
        listed = await names(client)
        assert len(set(listed)) == len(listed) == count * workers + 1
        assert (await client.call_tool("x_t3_239")).text == "x"


@in_loop
async def test_readers_and_writers_in_threads_leave_the_newest_list() -> None:
    """An older reading of a source must not replace a newer one."""
    hub, child = Server("hub"), Server("child")
    hub.mount(child)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            hub.tool_entries.snapshot()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    try:
        for number in range(300):
            child.add_tool(lambda: "x", name=f"t{number}", description="One of many.")
            assert f"t{number}" in hub.tool_entries
            child.tool_entries.remove(f"t{number}")
            assert f"t{number}" not in hub.tool_entries
    finally:
        stop.set()
        for thread in readers:
            thread.join()


# -- lifespans


def with_lifespan(name: str, events: list[str], **settings: Any) -> Server[Any]:
    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[dict[str, str]]:
        events.append(f"{name} begins")
        yield {"of": name}
        events.append(f"{name} ends")

    server: Server[Any] = Server(name, lifespan=lifespan, **settings)

    @server.tool(name=f"{name}_state")
    async def state(ctx: Context) -> str:
        """Say whose state it is."""
        return str(ctx.state["of"])

    @server.tool(name=f"{name}_thread")
    def in_thread(ctx: Context) -> str:
        """Say it from a thread."""
        return str(ctx.state["of"])

    return server


@in_loop
async def test_the_lifespan_of_a_child_runs_once_for_all_that_mount_it() -> None:
    events: list[str] = []
    child, hub, other = (with_lifespan(name, events) for name in ("child", "hub", "other"))
    hub.mount(child, prefix="a")
    hub.mount(child, prefix="b")
    other.mount(child)
    async with connected(hub) as client, connected(other) as second, connected(hub) as third:
        assert events.count("child begins") == 1
        assert (await client.call_tool("a_child_state")).text == "child"
        assert (await third.call_tool("b_child_thread")).text == "child"
        assert (await second.call_tool("child_state")).text == "child"
        assert (await client.call_tool("hub_state")).text == "hub"
    assert events.index("child begins") < events.index("hub begins")
    assert events.count("child ends") == 1
    assert events[-1] == "child ends"


@in_loop
async def test_a_child_that_cannot_start_is_named() -> None:
    @asynccontextmanager
    async def fail(server: Server[Any]) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    events: list[str] = []
    hub, child = Server("hub"), Server("broken", lifespan=fail)
    hub.mount(with_lifespan("fine", events))
    hub.mount(child, prefix="x")
    with pytest.raises(OSError, match="no database") as caught:
        async with connected(hub):
            pass
    assert any("Server('broken')" in note for note in caught.value.__notes__)
    assert events == ["fine begins", "fine ends"]


@in_loop
async def test_servers_are_mounted_and_unmounted_while_the_hub_runs() -> None:
    events: list[str] = []
    heard: list[int] = []
    hub, child = Server("hub"), with_lifespan("child", events)
    hub.tool(name="own")(lambda: "own")
    async with connected(
        hub, revision="2025-06-18", on_tools_changed=lambda: heard.append(1)
    ) as client:
        mount = hub.mount(child)
        assert (await client.call_tool("child_state")).text == "child"
        await until(lambda: heard)
        mount.unmount()
        await until(lambda: len(heard) == 2)
        assert await names(client) == ["own"]
        with pytest.raises(RequestError, match="unknown tool"):
            await client.call_tool("child_state")
        child.add_tool(lambda: "x", name="later", description="Not here.")
        again = hub.mount(child, prefix="again")
        assert (await client.call_tool("again_child_state")).text == "child"
        again.unmount()
    assert events == ["child begins", "child ends"]


@in_loop
async def test_a_remounted_server_has_the_state_of_its_new_lifespan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.server.sources.mounting._UNMOUNT_GRACE", 0.0)
    states = iter(("first", "second"))
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[str]:
        yield next(states)
        events.append("ended")

    child = Server("child", lifespan=lifespan)

    @child.tool
    async def state(ctx: Context) -> str:
        """Say the state."""
        return str(ctx.state)

    hub = Server("hub")
    hub.tool(name="own")(lambda: "own")
    async with connected(hub, revision="2025-06-18") as client:
        mount = hub.mount(child)
        assert (await client.call_tool("state")).text == "first"
        mount.unmount()
        await until(lambda: events)
        hub.mount(child)
        assert (await client.call_tool("state")).text == "second"


@in_loop
async def test_a_child_that_fails_when_it_is_mounted_later_does_not_stop_the_hub(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def fail(server: Server[Any]) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    hub, child = Server("hub"), Server("broken", lifespan=fail)
    hub.tool(name="own")(lambda: "own")
    child.tool(name="lost")(lambda: "x")
    async with connected(hub) as client:
        hub.mount(child)
        await until(lambda: "no database" in caplog.text)
        assert (await client.call_tool("own")).text == "own"
        with pytest.raises(RequestError):
            await client.call_tool("lost")


# -- collisions and loops


def test_a_taken_name_is_refused_with_both_places() -> None:
    hub = Server("hub")

    @hub.tool
    async def find() -> str:
        """Find."""
        return "x"

    with pytest.raises(RegistrationError) as caught:
        hub.mount(make_child())
    said = str(caught.value)
    assert "tool 'find' is registered twice" in said
    assert "test_mount.py:" in said
    assert "part of server 'crm'" in said
    assert "mount one with a prefix" in said
    assert [entry.key for entry in hub.tool_entries] == ["find"]
    hub.mount(make_child(), prefix="crm")


@in_loop
async def test_a_collision_that_arises_later_is_logged_and_the_first_one_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub, one, two = Server("hub"), Server("one"), Server("two")
    hub.mount(one)
    mount = hub.mount(two)
    hub.add_tool(lambda: "hub", name="a", description="Own.")
    one.add_tool(lambda: "one", name="a", description="One.")
    one.add_tool(lambda: "one", name="b", description="One.")
    two.add_tool(lambda: "two", name="a", description="Two.")
    two.add_tool(lambda: "two", name="b", description="Two.")
    caplog.set_level(logging.WARNING)
    async with connected(hub) as client:
        assert await names(client) == ["a", "b"]
        assert (await client.call_tool("a")).text == "hub"
        assert (await client.call_tool("b")).text == "one"
        assert caplog.text.count("tool 'b' is registered twice") == 1
        one.tool_entries.remove("b")
        assert (await client.call_tool("b")).text == "two"
        hub.tool_entries.remove("a")
        first = (await client.call_tool("a")).text
        assert first in ("one", "two")
        one.add_tool(lambda: "one", name="b", description="One.")
        assert (await client.call_tool("b")).text == "two"
        mount.unmount()
        assert (await client.call_tool("b")).text == "one"
        assert (await client.call_tool("a")).text == "one"


@in_loop
async def test_a_replaced_mounted_tool_comes_back_when_its_replacement_goes() -> None:
    hub, child = Server("hub"), make_child()
    hub.mount(child)
    hub.add_tool(lambda: "own", name="find", description="Own.", replace=True)
    async with connected(hub) as client:
        assert (await client.call_tool("find")).text == "own"
        hub.tool_entries.remove("find")
        assert (await client.call_tool("find", {"name": "a"})).text == "find a"
        with pytest.raises(RegistrationError, match="mount a view of it without the entry"):
            hub.tool_entries.remove("find")


def test_loops_are_refused() -> None:
    a, b, c = Server("a"), Server("b"), Server("c")
    a.mount(b)
    b.mount(c.prefix("x"))
    for inner, outer in ((a, a), (a, b), (a, c), (b, c), (a.only("x").prefix("y"), c)):
        with pytest.raises(RegistrationError, match="that would be a loop"):
            outer.mount(inner)


@cases("source", ["https://example.com/mcp", ["python", "x.py"], None, object()])
def test_other_values_than_sources_are_refused(source: Any) -> None:
    with pytest.raises(TypeError, match=r"mount\(\) takes a Server or another source"):
        Server("hub").mount(source)


@cases("prefix", ["", "a b", "a/b", "ä", "a\n"])
def test_a_hostile_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="the prefix is"):
        Server("hub").mount(make_child(), prefix=prefix)
    with pytest.raises(ValueError, match="the separator is"):
        Server("hub").mount(make_child(), prefix="a", separator=prefix or " ")


@in_loop
async def test_hostile_names_pass_unchanged() -> None:
    hostile = ["a b", "naïve\u202e", "x" * 300, "{x}", "a*?[b]"]
    hub, child = Server("hub"), Server("child")
    for name in hostile:
        child.add_tool(lambda: "x", name=name, description="Odd.")
    hub.mount(child, prefix="p")
    for name in hostile:
        assert (await hub.call_tool(f"p_{name}")).text == "x"
    with pytest.raises(InvalidParams):
        await hub.call_tool("p_a*")
