"""Fresh results are not fetched again (caching.client.*); what reaches the server is counted."""

import asyncio

import pytest

from accord import connect
from accord.client.cache import ResultCache
from accord.errors import ConnectionClosed, InvalidParams
from accord.testing import run_in_virtual_time
from accord.types import ListToolsResult, PageParams, ReadResourceParams, ReadResourceResult, Tool
from client.stateless_server import Failure, StatelessServer, ask, form
from support.running import in_virtual_time
from support.tables import cases

URI = "note://1"


def modern(target, **options):
    return connect(target, revision="2026-07-28", **options)


def page(member, ttl=1_000, scope="private", **more):
    result = {"resultType": "complete", member: [], "cacheScope": scope, **more}
    return result if ttl is None else {**result, "ttlMs": ttl}


def tools(ttl=1_000, names=("a",), **more):
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return {**page("tools", ttl, **more), "tools": listed}


def contents(value="milk", ttl=1_000, **more):
    read = {"contents": [{"uri": URI, "text": value}]}
    return {"resultType": "complete", "ttlMs": ttl, "cacheScope": "private", **read, **more}


async def pass_time(seconds):
    await asyncio.sleep(seconds)


# -- fresh or stale


@pytest.mark.requirement("caching.client.positive-is-fresh")
@pytest.mark.requirement("caching.client.refetch-when-stale")
@pytest.mark.requirement("caching.client.not-a-poll-interval")
@in_virtual_time
async def test_a_result_is_fetched_again_only_when_it_is_stale_and_asked_for():
    target = StatelessServer(tools_list=lambda message: tools(ttl=1_000))
    async with modern(target) as client:
        first = await client.list_tools()
        await pass_time(0.9)
        assert await client.list_tools() == first
        assert target.methods() == ["tools/list"]
        await pass_time(0.2)
        assert len(target.methods()) == 1  # nothing polls
        await client.list_tools()
        assert len(target.methods()) == 2
        await client.list_tools()
        assert len(target.methods()) == 2


@pytest.mark.requirement("caching.client.zero-is-stale")
@pytest.mark.requirement("caching.client.absent-is-zero")
@pytest.mark.requirement("caching.client.negative-is-zero")
@pytest.mark.parametrize("ttl", [0, None, -5])
@in_virtual_time
async def test_without_a_positive_lifetime_a_result_is_stale_at_once(ttl):
    target = StatelessServer(tools_list=lambda message: tools(ttl=ttl))
    async with modern(target) as client:
        await client.list_tools()
        await client.list_tools()
        assert len(target.methods()) == 2


@in_virtual_time
async def test_every_list_and_every_read_is_kept():
    target = StatelessServer(
        tools_list=lambda message: tools(),
        prompts_list=lambda message: page("prompts"),
        resources_list=lambda message: page("resources"),
        resources_templates_list=lambda message: page("resourceTemplates"),
        resources_read=lambda message: contents(),
    )
    async with modern(target) as client:
        for _ in range(2):
            await client.list_tools()
            await client.list_prompts()
            await client.list_resources()
            await client.list_resource_templates()
            await client.read_resource(URI)
        assert len(target.methods()) == len(set(target.methods())) == 5


@pytest.mark.requirement("caching.client.key")
@pytest.mark.requirement("caching.client.page-refetch-by-cursor")
@in_virtual_time
async def test_pages_and_resources_are_kept_each_for_itself():
    def list_tools(message):
        cursor = message["params"].get("cursor")
        if cursor is None:
            return tools(ttl=10_000, names=["a"], nextCursor="2")
        return tools(ttl=1_000, names=["b"])

    def read(message):
        return contents(message["params"]["uri"])

    target = StatelessServer(tools_list=list_tools, resources_read=read)
    async with modern(target) as client:
        for _ in range(2):
            assert [tool.name async for tool in client.tools()] == ["a", "b"]
            for uri in ("note://1", "note://2"):
                assert (await client.read_resource(uri)).contents[0].text == uri
        assert len(target.methods()) == 4
        await pass_time(5)
        assert [tool.name async for tool in client.tools()] == ["a", "b"]
        (again,) = target.received("tools/list")[2:]
        assert again["params"]["cursor"] == "2"


@in_virtual_time
async def test_a_caller_that_changes_a_result_does_not_change_what_others_get():
    target = StatelessServer(tools_list=lambda message: tools())
    async with modern(target) as client:
        for _ in range(3):
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["a"]
            listed.tools.clear()


@in_virtual_time
async def test_the_cache_can_be_switched_off_for_a_client_and_for_a_call():
    for options in ({"cache": False}, {}):
        versions = iter(range(10))
        target = StatelessServer(
            tools_list=lambda message, versions=versions: tools(names=[f"t{next(versions)}"])
        )
        async with modern(target, **options) as client:
            await client.list_tools()
            await client.list_tools(fresh=True)
            assert len(target.methods()) == 2
            # What was fetched anew is kept in place of what was there.
            (tool,) = (await client.list_tools()).tools
            assert tool.name == ("t1" if not options else "t2")


@pytest.mark.requirement("caching.client.snapshot-from-start")
@in_virtual_time
async def test_a_consistent_list_is_fetched_from_the_start():
    def list_tools(message):
        return tools(nextCursor="2") if "cursor" not in message["params"] else tools()

    target = StatelessServer(tools_list=list_tools)
    async with modern(target) as client:
        for _ in range(2):
            assert len([tool async for tool in client.tools(fresh=True)]) == 2
        assert len(target.methods()) == 4


@in_virtual_time
async def test_calls_with_their_own_meta_or_headers_share_no_result():
    target = StatelessServer(tools_list=lambda message: tools())
    async with modern(target) as client:
        await client.list_tools()
        await client.list_tools(meta={"com.example/tenant": "b"})
        await client.list_tools(headers={"X-Tenant": "c"})
        assert len(target.methods()) == 3
        await client.list_tools()
        assert len(target.methods()) == 3


@pytest.mark.requirement("caching.client.private-not-shared")
@in_virtual_time
async def test_private_results_are_not_kept_where_each_request_may_be_of_another_user():
    for scope, requests in (("private", 2), ("public", 1)):
        target = StatelessServer(tools_list=lambda message, scope=scope: tools(scope=scope))
        async with modern(target, headers=dict) as client:
            await client.list_tools()
            await client.list_tools()
            assert len(target.methods()) == requests


@in_virtual_time
async def test_clients_share_no_results():
    target = StatelessServer(tools_list=lambda message: tools(scope="public"))
    async with modern(target) as client:
        await client.list_tools()
    async with modern(target) as other:
        await other.list_tools()
    assert len(target.methods()) == 2


@in_virtual_time
async def test_a_closed_client_returns_nothing_from_its_cache():
    target = StatelessServer(tools_list=lambda message: tools())
    async with modern(target) as client:
        await client.list_tools()
    with pytest.raises(ConnectionClosed):
        await client.list_tools()


# -- what is not kept


@pytest.mark.requirement("caching.client.no-mrtr-results")
@pytest.mark.parametrize("questions", [{"a": form("?")}, {}])
def test_results_that_took_rounds_are_not_kept(questions):
    def read(message):
        is_repeat = "requestState" in message["params"]
        return contents() if is_repeat else ask("s", **questions)

    async def main():
        target = StatelessServer(resources_read=read)
        async with modern(target, on_elicit=lambda params: False) as client:
            await client.read_resource(URI)
            await client.read_resource(URI)
            assert len(target.methods()) == 4

    asyncio.run(main())


@pytest.mark.requirement("caching.client.bad-cursor-discards-pages")
def test_a_cursor_that_fails_drops_all_pages():
    is_valid = True

    def list_tools(message):
        if "cursor" not in message["params"]:
            return tools(ttl=10_000, nextCursor="2")
        if is_valid:
            return tools(ttl=1_000)
        raise Failure(-32602, "unknown cursor")

    async def main():
        nonlocal is_valid
        target = StatelessServer(tools_list=list_tools)
        async with modern(target) as client:
            assert len([tool async for tool in client.tools()]) == 2
            await pass_time(5)
            is_valid = False
            with pytest.raises(InvalidParams):
                await client.list_tools("2")
            is_valid = True
            assert len([tool async for tool in client.tools()]) == 2
            assert len(target.methods()) == 5

    run_in_virtual_time(main())


# -- bounds


def cache_of(time, **limits):
    return ResultCache(lambda: time[0], **limits)


async def read(cache, uri, size=10, ttl=60_000):
    """Read through a cache; return whether the server was asked."""
    asked = []

    async def ask_server(name, params, how):
        asked.append(params)
        text = [{"uri": uri, "text": "x" * size}]
        return ReadResourceResult(text, ttl_ms=ttl, cache_scope="private")

    await cache.fetch(ask_server, "resources/read", ReadResourceParams(uri), {})
    return bool(asked)


def test_the_least_recently_used_results_go_first():
    async def main():
        cache = cache_of([0.0], entries=2)
        assert await read(cache, "a")
        assert await read(cache, "b")
        assert not await read(cache, "a")
        assert await read(cache, "c")
        assert not await read(cache, "a")
        assert await read(cache, "b")

    asyncio.run(main())


def test_the_bytes_of_all_results_are_bounded():
    async def main():
        cache = cache_of([0.0], size=4_000)
        for uri in "abcdefgh":
            assert await read(cache, uri, size=700)
        assert not await read(cache, "h")
        assert await read(cache, "a", size=700)
        # One that would push out most of the others is not kept.
        assert await read(cache, "large", size=3_000)
        assert await read(cache, "large", size=3_000)

    asyncio.run(main())


def test_a_lifetime_in_a_wrong_unit_ends_after_a_day():
    async def main():
        time = [0.0]
        cache = cache_of(time)
        await read(cache, "a", ttl=10**30)
        time[0] = 86_399.0
        assert not await read(cache, "a", ttl=10**30)
        time[0] = 86_401.0
        assert await read(cache, "a", ttl=10**30)

    asyncio.run(main())


# -- change notices that reach the cache


@pytest.mark.requirement("caching.client.notification-invalidates")
@cases(
    ("notice", "dropped"),
    [
        ("notifications/tools/list_changed", {"tools/list"}),
        ("notifications/prompts/list_changed", {"prompts/list"}),
        (
            "notifications/resources/list_changed",
            {"resources/list", "resources/templates/list"},
        ),
        ("notifications/resources/updated", {"a"}),
    ],
)
def test_a_notice_drops_what_it_is_about(notice, dropped):
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")

    async def main():
        cache = cache_of([0.0])
        asked = set()

        async def ask_server(name, params, how):
            asked.add(getattr(params, "uri", name))
            return ListToolsResult([], ttl_ms=60_000)

        async def fetch_all():
            asked.clear()
            for name in lists:
                await cache.fetch(ask_server, name, PageParams(), {})
            for uri in ("a", "b"):
                await cache.fetch(ask_server, "resources/read", ReadResourceParams(uri), {})
            return set(asked)

        await fetch_all()
        assert await fetch_all() == set()
        cache.note_change(notice, ReadResourceParams("a"))
        assert await fetch_all() == dropped
        cache.clear()
        assert len(await fetch_all()) == 6

    asyncio.run(main())


def test_a_result_that_a_notice_overtakes_is_not_kept():
    async def main():
        cache = cache_of([0.0])
        versions = iter("ab")

        async def ask_server(name, params, how):
            version = next(versions)
            if version == "a":
                cache.note_change("notifications/tools/list_changed", None)
            return ListToolsResult([Tool(version, {})], ttl_ms=60_000)

        for version in "ab":
            listed = await cache.fetch(ask_server, "tools/list", PageParams(), {})
            assert listed.tools[0].name == version

    asyncio.run(main())
