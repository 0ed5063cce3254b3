"""Connections to the server behind a proxy, one for each session; loops of proxies; their end."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from accord import Context, Principal, Server, connect
from accord.compose import proxy
from accord.errors import RequestError
from accord.testing import connected
from compose.proxied import (
    EVERYTHING,
    child_environment,
    children,
    hub_of,
    source_of,
    watch_memory,
)
from support.asgi import Asgi
from support.http_server import bounded
from support.links import text
from support.modern import accept, meta
from support.running import in_virtual_time
from support.tables import cases
from support.waiting import in_loop, run, until, until_sync


def stateful(revision: str = "2025-11-25") -> Server[Any]:
    """A server that keeps something for each of its connections."""
    server: Server[Any] = Server("shop", revisions=[revision])

    @server.tool
    async def put(ctx: Context, name: str) -> str:
        """Put something into the basket."""
        ctx.session.state.setdefault("basket", []).append(name)
        return "put"

    @server.tool
    async def basket(ctx: Context) -> str:
        """List the basket."""
        return ",".join(ctx.session.state.get("basket", []))

    @server.tool
    async def ask(ctx: Context, name: str) -> str:
        """Ask, log and report progress."""
        await ctx.info(name)
        await ctx.progress(1, message=name)
        return f"{name}: {await ctx.elicit(f'{name}?', str)}"

    return server


class User:
    """What one client is asked and hears."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []
        self.logs: list[Any] = []
        self.steps: list[Any] = []

    def options(self) -> dict[str, Any]:
        return {"on_elicit": self._answer, "on_log": lambda each: self.logs.append(each.data)}

    async def _answer(self, params: Any) -> dict[str, str]:
        self.asked.append(params.message)
        await asyncio.sleep(0.01)
        return {"value": self.name}


@cases("client", ["2025-06-18", "2026-07-28"])
@cases("server", ["2025-11-25", "2026-07-28"])
@in_loop
async def test_questions_logs_and_progress_reach_only_the_client_of_the_call(
    server: str, client: Any
) -> None:
    target = watch_memory(stateful(server))
    hub = hub_of(target)
    users = [User("ann"), User("ben"), User("cat")]
    async with AsyncExitStack() as stack:
        clients = []
        for user in users:
            connection = connected(hub, revision=client, **user.options())
            clients.append(await stack.enter_async_context(connection))
        calls = [
            each.call_tool(
                "ask",
                {"name": f"{user.name}{number}"},
                on_progress=lambda step, user=user: user.steps.append(step.message),
            )
            for number in range(3)
            for each, user in zip(clients, users, strict=True)
        ]
        found = [text(each) for each in await asyncio.gather(*calls)]
    assert found == [f"{user.name}{n}: {user.name}" for n in range(3) for user in users]
    for user in users:
        own = [f"{user.name}{number}" for number in range(3)]
        assert sorted(user.asked) == [f"{each}?" for each in own]
        assert set(user.logs) <= set(own)
        assert set(user.steps) == set(own)
    target.check()


@in_loop
async def test_each_session_has_a_connection_of_its_own() -> None:
    target = watch_memory(stateful())
    hub = hub_of(target)
    async with (
        connected(hub, revision="2025-06-18") as one,
        connected(hub, revision="2025-06-18") as two,
    ):
        await one.call_tool("put", {"name": "a"})
        await two.call_tool("put", {"name": "b"})
        assert text(await one.call_tool("basket")) == "a"
        assert text(await two.call_tool("basket")) == "b"
    assert len(target.recordings) == 2
    target.check()


@in_loop
async def test_shared_connections_are_one_and_ask_nothing() -> None:
    target = watch_memory(stateful())
    hub = hub_of(target, connections="shared")
    ann, ben = User("ann"), User("ben")
    async with (
        connected(hub, revision="2025-06-18", **ann.options()) as one,
        connected(hub, revision="2026-07-28", **ben.options()) as two,
    ):
        await one.call_tool("put", {"name": "a"})
        await two.call_tool("put", {"name": "b"})
        assert text(await one.call_tool("basket")) == "a,b"
        for client in (one, two):
            refused = await client.call_tool("ask", {"name": "x"})
            assert refused.is_error
            assert "did not declare elicitation" in text(refused)
    assert len(target.recordings) == 1
    assert not ann.asked
    target.check()


@in_loop
async def test_callers_without_sessions_share_no_connection_on_which_the_server_asks() -> None:
    target = watch_memory(stateful())
    hub = hub_of(target)
    users = [User("ann"), User("ben")]
    async with AsyncExitStack() as stack:
        clients = []
        for user in users:
            acting = hub.acting_as(Principal(user.name))
            connection = await connect(acting, revision="2026-07-28", **user.options())
            clients.append(await stack.enter_async_context(connection))
        for client, user in zip(clients, users, strict=True):
            await client.call_tool("put", {"name": user.name})
        for client, user in zip(clients, users, strict=True):
            assert text(await client.call_tool("basket")) == user.name
    target.check()


def by_header(scope: Any) -> str | None:
    found = dict(scope["headers"]).get(b"x-user")
    return None if found is None else found.decode()


async def call(
    app: Any, user: str | None, tool: str, *, capabilities: Any = None, **params: Any
) -> Any:
    """Call a tool by a request that stands on its own."""
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"_meta": meta(capabilities), "name": tool, **params},
    }
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": tool}
    answer = (await Asgi(app).post(body, x_user=user, **headers)).json
    return answer.get("result") or answer["error"]


@in_virtual_time
async def test_leased_connections_are_kept_apart_by_principal_and_ended_when_idle() -> None:
    target = watch_memory(stateful())
    hub = hub_of(target)
    app = hub.asgi(grace=0, principal=by_header)
    async with hub.run_lifespan():
        upstream = source_of(hub).upstream
        for user in ("ann", "ben", "ann"):
            await call(app, user, "put", arguments={"name": user})
        assert len(upstream._leases) == 2
        found = await call(app, "ann", "basket", arguments={})
        assert found["content"][0]["text"] == "ann,ann"
        first = await call(app, "ann", "ask", arguments={"name": "x"})
        stolen = {"requestState": first["requestState"], "inputResponses": accept(first, "yes")}
        refused = await call(app, "ben", "ask", arguments={"name": "x"}, **stolen)
        assert "another user" in refused["message"]
        done = await call(app, "ann", "ask", arguments={"name": "x"}, **stolen)
        assert done["content"][0]["text"] == "x: yes"
        await asyncio.sleep(200)
        assert not upstream._leases
    target.check()


async def put(app: Any, user: str | None, name: str) -> None:
    assert not (await call(app, user, "put", capabilities={}, arguments={"name": name}))["isError"]


async def basket(app: Any, user: str | None) -> str:
    found = await call(app, user, "basket", capabilities={}, arguments={})
    return str(found["content"][0]["text"])


@in_virtual_time
async def test_principals_whose_calls_ask_nothing_share_no_connection_either() -> None:
    target = watch_memory(stateful("2025-06-18"))
    hub = hub_of(target)
    app = hub.asgi(grace=0, principal=by_header)
    async with hub.run_lifespan():
        upstream = source_of(hub).upstream
        assert await basket(app, None) == ""
        await asyncio.gather(*(put(app, user, user) for user in ("ann", "ben") for _ in range(5)))
        await put(app, None, "unknown")
        assert await basket(app, "ann") == ",".join(["ann"] * 5)
        assert await basket(app, "ben") == ",".join(["ben"] * 5)
        assert await basket(app, "cat") == ""
        # Callers without an identity look alike.
        assert await basket(app, None) == "unknown"
        assert len(upstream._leases) == 3
        assert len(target.recordings) == 4
        await asyncio.sleep(200)
        assert not upstream._leases
        assert await basket(app, "ann") == ""
    target.check()


@in_virtual_time
async def test_more_principals_than_may_be_served_at_once_take_the_places_of_idle_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accord.compose.proxies.upstream._PRINCIPALS_MOST", 2)
    target = watch_memory(stateful())
    hub = hub_of(target)
    app = hub.asgi(grace=0, principal=by_header)
    async with hub.run_lifespan():
        for number in range(5):
            await put(app, f"user{number}", "a")
            await asyncio.sleep(1)
        assert len(source_of(hub).upstream._leases) == 2
        assert await basket(app, "user4") == "a"
        assert await basket(app, "user0") == ""
    target.check()


@in_virtual_time
async def test_a_session_begins_on_no_connection_that_was_used() -> None:
    target = watch_memory(stateful())
    hub = hub_of(target)
    async with hub.run_lifespan():
        await put(hub.asgi(grace=0), None, "unknown")
        async with connect(hub, revision="2025-06-18") as client:
            assert text(await client.call_tool("basket")) == ""
    target.check()


@in_virtual_time
async def test_a_leased_connection_is_ended_with_a_call_that_is_given_up() -> None:
    target = watch_memory(stateful())
    hub = hub_of(target, round_timeout=10)
    app = hub.asgi(grace=0)
    async with hub.run_lifespan():
        upstream = source_of(hub).upstream
        await call(app, "ann", "ask", arguments={"name": "x"})
        assert len(upstream._leases) == 1
        await asyncio.sleep(11)
        assert not upstream._leases
        await call(app, "ann", "ask", arguments={"name": "y"})
        (lease,) = upstream._leases
        assert lease.is_open
        await upstream.end()
        assert not lease.is_open
    target.check()


# -- loops


def server_with(name: str) -> Server[Any]:
    server: Server[Any] = Server(name)

    async def own() -> str:
        return name

    server.add_tool(own, name=name, description="Say the name.")
    return server


async def wait_for_log(caplog: pytest.LogCaptureFixture, words: str) -> None:
    await until(lambda: words in caplog.text)


def test_a_proxy_to_its_own_server_is_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    hub = server_with("one")

    async def main(url: str) -> None:
        async with connect(url) as client:
            hub.mount(proxy(url, name="self"), prefix="self")
            await wait_for_log(caplog, "that is a loop")
            assert [each.name async for each in client.tools(fresh=True)] == ["one"]
            assert text(await client.call_tool("one")) == "one"

    with bounded(hub.asgi(grace=0)) as port:
        run(main(f"http://127.0.0.1:{port}/mcp"))


def test_two_servers_that_offer_each_other_are_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    one, two = server_with("one"), server_with("two")

    async def main(first: str, second: str) -> None:
        one.mount(proxy(second, name="second"), prefix="b")
        async with connect(first) as client:
            await until_named(client, ["b_two", "one"])
            two.mount(proxy(first, name="first"), prefix="a")
            await wait_for_log(caplog, "that is a loop")
            assert text(await client.call_tool("one")) == "one"
            assert text(await client.call_tool("b_two")) == "two"

    with bounded(one.asgi(grace=0)) as port, bounded(two.asgi(grace=0)) as other:
        run(main(f"http://127.0.0.1:{port}/mcp", f"http://127.0.0.1:{other}/mcp"))


async def until_named(client: Any, names: list[str]) -> None:
    while sorted([each.name async for each in client.tools(fresh=True)]) != names:
        await asyncio.sleep(0.01)


LAUNCHES_ITSELF = """
import os, sys
from pathlib import Path
from accord import Server
from accord.compose import proxy

Path(sys.argv[1], str(os.getpid())).touch()
server = Server("again")

@server.tool
async def own() -> str:
    "Answer."
    return "own"

again = proxy([sys.executable, __file__, sys.argv[1]], env={"PYTHONPATH": os.environ["PYTHONPATH"]})
server.mount(again, prefix="again")
server.run()
"""


def test_a_server_that_launches_itself_is_launched_a_few_times(tmp_path: Path) -> None:
    file, pids = tmp_path / "again.py", tmp_path / "pids"
    file.write_text(LAUNCHES_ITSELF)
    pids.mkdir()

    async def main() -> None:
        command = [sys.executable, str(file), str(pids)]
        async with connect(command, env=child_environment()) as client:
            names = sorted([each.name async for each in client.tools()])
            assert text(await client.call_tool("own")) == "own"
        assert names in (["again_own", "own"], ["own"])

    run(main())
    started = [int(each.name) for each in pids.iterdir()]
    assert 1 <= len(started) <= 3
    until_sync(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


@in_virtual_time
async def test_a_chain_of_proxies_passes_calls_and_questions_on() -> None:
    user = User("ann")
    server = stateful()
    for number in range(5):
        server = hub_of(server, name=f"hop {number}")
    async with connected(server, revision="2025-11-25", **user.options()) as client:
        assert text(await client.call_tool("ask", {"name": "x"})) == "x: ann"
    async with connected(server, revision="2026-07-28", **user.options()) as client:
        assert text(await client.call_tool("ask", {"name": "y"})) == "y: ann"


@in_virtual_time
async def test_a_chain_that_is_too_long_is_refused() -> None:
    server = stateful()
    for number in range(18):
        server = hub_of(server, name=f"hop {number}")
    async with connected(server, revision="2025-11-25") as client:
        with pytest.raises(RequestError, match="the request has passed 16 proxies"):
            await client.call_tool("basket")


# -- the end


def test_nothing_is_left_after_the_end() -> None:
    async def main() -> None:
        command = [sys.executable, str(EVERYTHING), "2025-11-25"]
        before = asyncio.all_tasks()
        for revision in ("2025-06-18", "2026-07-28"):
            hub = hub_of(command, env=child_environment())
            options: Any = {"revision": revision, "roots": ["/"]}
            async with connected(hub, **options) as client:
                waiting = asyncio.ensure_future(client.call_tool("wait", {"name": "w"}))
                await client.call_tool("look")
                assert children()
            with pytest.raises(Exception, match="closed"):
                await waiting
            await until(lambda: not children() - ours)
        await until(lambda: asyncio.all_tasks() <= before)

    ours = children()
    run(main())


@in_loop
async def test_a_source_that_is_mounted_while_the_server_runs_is_started() -> None:
    hub = server_with("one")
    async with connected(hub) as client:
        mount = hub.mount(proxy(server_with("two"), name="late"), prefix="late")
        await until_named(client, ["late_two", "one"])
        assert text(await client.call_tool("late_two")) == "two"
        mount.unmount()
        await until_named(client, ["one"])


@in_loop
async def test_a_proxy_that_has_ended_hears_of_no_roots_any_more() -> None:
    other: Server[Any] = Server("other", revisions=["2025-06-18"])
    other.add_tool(lambda: "well", name="own", description="Answer.")
    hub = hub_of(other)
    for _ in range(2):
        async with connect(hub, revision="2025-06-18", roots=["/"]) as client:
            assert text(await client.call_tool("own")) == "well"
            assert len(hub._core.roots_callbacks) == 1
    assert hub._core.roots_callbacks == []
