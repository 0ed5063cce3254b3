"""Clients of both eras on one server at once: in memory, on one HTTP app, on one pipe."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from accord import Context, Server
from accord.testing import Recording, connected
from accord.types import CreateMessageResult, TextContent
from interaction.servers import asking, content, working
from support.links import HANDSHAKE, REVISIONS, text
from support.waiting import in_loop, until

BOTH = ("2025-11-25", "2026-07-28")


@asynccontextmanager
async def clients_of(
    server: Server[Any], transport: str, revisions: tuple[str, ...] = BOTH, **options: Any
) -> AsyncIterator[dict[str, Any]]:
    """Connect a client of each revision to one server, with a monitor on each wire."""
    target: Any = server.asgi(grace=0) if transport == "http" else server
    async with AsyncExitStack() as stack:
        made = {}
        for revision in revisions:
            given = {name: value(revision) for name, value in options.items()}
            connection = connected(
                target, transport=transport, revision=revision, allow=(), **given
            )  # type: ignore[arg-type]
            made[revision] = await stack.enter_async_context(connection)
        yield made


EITHER = pytest.mark.parametrize("transport", ["memory", "http"])


@EITHER
@pytest.mark.requirement("versioning.dual-era.meta-selects-modern")
@in_loop
async def test_each_client_is_known_by_its_own_revision_and_capabilities(transport: str) -> None:
    server = working.make()
    options = {"roots": lambda revision: ["/"] if revision in HANDSHAKE else None}
    revisions = REVISIONS if transport == "memory" else REVISIONS[1:]
    async with clients_of(server, transport, revisions, **options) as clients:
        calls = [each.call_tool("facts", result_type=dict) for each in clients.values()]
        facts = await asyncio.gather(*calls)
    assert [each["revision"] for each in facts] == list(revisions)
    for fact in facts:
        has_roots = fact["revision"] in HANDSHAKE
        assert ("roots" in fact["capabilities"]) is has_roots


@EITHER
@in_loop
async def test_one_handler_asks_each_client_in_the_way_of_its_revision(transport: str) -> None:
    def user_of(revision: str) -> Any:
        return lambda params: {"city": f"Oslo {revision}"}

    def model_of(revision: str) -> Any:
        return lambda params: CreateMessageResult("assistant", TextContent(revision), "m")

    server = asking.make()
    async with clients_of(
        server,
        transport,
        on_elicit=user_of,
        on_sample=model_of,
        roots=lambda revision: [f"/{revision}"],
    ) as clients:
        calls = [
            client.call_tool("all_at_once", result_type=list[str])
            for _ in range(3)
            for client in clients.values()
        ]
        found = await asyncio.gather(*calls)
    assert found == [[f"Oslo {each}", each, f"file:///{each}"] for _ in range(3) for each in BOTH]


@EITHER
@pytest.mark.requirement("subscriptions.updated-only-for-watched", "resources.updated.sent")
@in_loop
async def test_one_change_reaches_clients_of_both_eras(transport: str) -> None:
    heard: dict[str, list[str]] = {each: [] for each in BOTH}
    server = content.make()
    async with clients_of(
        server,
        transport,
        on_resource_updated=lambda revision: heard[revision].append,
        on_tools_changed=lambda revision: lambda: heard[revision].append("tools"),
    ) as clients:
        for client in clients.values():
            await client.subscribe("note://today")
        await asyncio.to_thread(server.resource_updated, "note://today")
        server.resource_updated("note://index")
        server.list_changed("tools")
        await until(lambda: all(len(each) == 2 for each in heard.values()))
        older, newer = clients.values()
        await newer.unsubscribe("note://today")
        server.resource_updated("note://today")
        await until(lambda: len(heard["2025-11-25"]) == 3)
        await asyncio.gather(older.ping(), newer.ping())
    assert sorted(heard["2026-07-28"]) == ["note://today", "tools"]
    assert sorted(heard["2025-11-25"]) == ["note://today", "note://today", "tools"]


@EITHER
@pytest.mark.requirement("logging.own-stream-only", "logging.level-respected")
@in_loop
async def test_the_log_level_of_a_client_is_its_own(transport: str) -> None:
    heard: dict[str, list[str]] = {each: [] for each in BOTH}
    server = working.make()
    async with clients_of(
        server,
        transport,
        on_log=lambda revision: lambda message: heard[revision].append(message.level),
    ) as clients:
        older, newer = clients.values()
        await older.set_log_level("alert")
        await newer.set_log_level("emergency")
        await asyncio.gather(older.call_tool("speak"), newer.call_tool("speak"))
        await asyncio.gather(older.ping(), newer.ping())
    assert heard == {"2025-11-25": ["alert", "emergency"], "2026-07-28": ["emergency"]}


@EITHER
@pytest.mark.requirement("prompts.list.not-per-connection", "resources.list.not-per-connection")
@in_loop
async def test_lists_are_the_same_whatever_other_clients_do(transport: str) -> None:
    server = content.make()
    async with clients_of(server, transport) as clients:
        older, newer = clients.values()
        before = [each.name async for each in newer.prompts()]
        places = [each.uri async for each in newer.resources()]
        await older.subscribe("note://today")
        await older.get_prompt("greet", {"name": "Ann"})
        await newer.get_prompt("greet", {"name": "Ann"})
        await newer.read_resource("note://today")
        for client in (older, newer):
            assert [each.name async for each in client.prompts()] == before
            assert [each.uri async for each in client.resources()] == places


@EITHER
@pytest.mark.requirement("cancellation.receiver.stops", "http.cancel.disconnect-is-cancel")
@in_loop
async def test_cancelling_in_one_era_does_not_touch_calls_of_the_other(transport: str) -> None:
    server = working.make()
    async with clients_of(server, transport) as clients:
        older, newer = clients.values()
        kept = asyncio.ensure_future(older.call_tool("wait", {"name": "kept"}))
        dropped = asyncio.ensure_future(newer.call_tool("wait", {"name": "dropped"}))
        await until(lambda: {"waiting kept", "waiting dropped"} <= {*working.seen})
        dropped.cancel()
        await until(lambda: "left dropped" in working.seen)
        assert not kept.done()
        await newer.call_tool("open_gate", {"name": "kept"})
        assert text(await kept) == "kept"


@in_loop
async def test_a_client_that_finds_the_era_by_itself_may_meet_any_server() -> None:
    for spoken, expected in [
        (["2026-07-28"], "2026-07-28"),
        (["2024-11-05", "2025-06-18"], "2025-06-18"),
        (["2025-11-25", "2026-07-28"], "2026-07-28"),
    ]:
        server: Server[None] = Server("spoken", revisions=spoken)

        @server.tool
        async def which(ctx: Context) -> str:
            """Say which revision is spoken."""
            return ctx.revision

        for transport in ("memory", "http"):
            target: Any = server.asgi(grace=0) if transport == "http" else server
            recording = Recording()
            async with connected(
                target,
                transport=transport,  # type: ignore[arg-type]
                recording=recording,
                revisions=list(REVISIONS),
                allow=(),
            ) as client:
                assert client.revision == expected
                assert text(await client.call_tool("which")) == expected
