"""`cache`: which results are kept, for which caller, and until when."""

import asyncio
from decimal import Decimal
from typing import Annotated, Any

import pytest

from accord import Context, Header, Principal, Server, ToolError, connect
from accord.errors import RegistrationError, RequestError
from accord.middleware import cache
from accord.server import Proceed
from accord.testing import connected
from accord.types import PromptReference
from support.stateless import Modern, call
from support.tables import cases
from support.waiting import in_loop

READ_ONLY = {"readOnlyHint": True}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make(*layers: Any, **settings: Any) -> tuple[Server, list[Any]]:
    server, calls = Server("desk", middleware=layers, **settings), []

    @server.tool(annotations=READ_ONLY)
    async def look(x: Decimal = Decimal(0), y: str = "") -> dict[str, int]:
        """Count."""
        calls.append("look")
        return {"count": len(calls)}

    @server.tool
    async def write(x: int = 0) -> int:
        """Count."""
        calls.append("write")
        return len(calls)

    @server.tool(annotations=READ_ONLY)
    async def fail() -> int:
        """Fail."""
        calls.append("fail")
        raise ToolError("no")

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        calls.append(name)
        return str(len(calls))

    @server.prompt
    async def greet(name: str) -> str:
        """Greet."""
        calls.append(name)
        return str(len(calls))

    return server, calls


async def _counts(client: Any, *arguments: dict[str, Any], tool: str = "look") -> list[int]:
    results = [await client.call_tool(tool, each) for each in arguments]
    return [each.structured_content["count"] for each in results]


@in_loop
async def test_a_read_only_tool_is_called_once_until_the_time_is_over() -> None:
    clock = Clock()
    layer = cache(10, clock=clock)
    server, _ = make(layer)
    async with connected(server) as client:
        assert await _counts(client, {"y": "a"}, {"y": "a"}, {"y": "b"}) == [1, 1, 2]
        clock.now += 9.9
        assert await _counts(client, {"y": "a"}) == [1]
        clock.now += 0.1
        assert await _counts(client, {"y": "a"}) == [3]
        assert len(layer) == 2


@in_loop
async def test_equal_arguments_are_one_result_and_digits_are_compared_exactly() -> None:
    server, _ = make(cache(10))

    @server.middleware
    async def look_at_params(ctx: Context, proceed: Proceed) -> Any:
        str(ctx.params)
        return await proceed()

    long = "0.1234567890123456789012"
    async with connected(server) as client:
        assert await _counts(client, {"x": 1, "y": "a"}, {"y": "a", "x": 1}) == [1, 1]
        assert await _counts(client, {"x": Decimal(long + "1")}, {"x": Decimal(long + "2")}) == [
            *(2, 3)
        ]
        first, again = [
            await client.call_tool("look", {"y": "m"}, meta={"trace": str(n)}) for n in range(2)
        ]
        assert first.structured_content == again.structured_content


@in_loop
async def test_other_tools_and_errors_are_not_kept() -> None:
    server, calls = make(cache(10))
    async with connected(server) as client:
        for tool in ("write", "fail"):
            for _ in range(2):
                await client.call_tool(tool)
        with pytest.raises(RequestError, match="unknown tool"):
            await client.call_tool("none")
    assert calls == ["write", "write", "fail", "fail"]


@in_loop
async def test_named_tools_are_kept_in_place_of_the_read_only_ones() -> None:
    server, calls = make(cache(10, tools=["write"]))
    async with connected(server) as client:
        for tool in ("write", "write", "look", "look"):
            await client.call_tool(tool)
    assert calls == ["write", "look", "look"]


@in_loop
async def test_a_result_of_one_user_never_reaches_another() -> None:
    server, _ = make(cache(10))
    counts = []
    for principal in (
        Principal("ada"),
        Principal("bob"),
        Principal("ada", scopes=frozenset({"more"})),
        Principal("ada"),
    ):
        async with connect(server.acting_as(principal)) as client:
            counts += await _counts(client, {})
    assert counts == [1, 2, 3, 1]


@in_loop
async def test_callers_without_a_token_share_by_session_and_without_one_nothing_is_kept() -> None:
    server, _ = make(cache(10))
    counts = []
    for _ in range(2):
        async with connected(server, transport="http", revision="2025-06-18") as client:
            counts += await _counts(client, {}, {})
    async with connected(server, transport="http", revision="2026-07-28") as client:
        counts += await _counts(client, {}, {})
    assert counts == [1, 1, 2, 2, 3, 4]


@in_loop
async def test_one_cache_for_all_is_chosen_by_name() -> None:
    server, _ = make(cache(10, by="all"))
    counts = []
    for principal in (Principal("ada"), Principal("bob")):
        async with connect(server.acting_as(principal)) as client:
            counts += await _counts(client, {})
    assert counts == [1, 1]


@in_loop
async def test_access_is_checked_although_a_result_is_kept() -> None:
    server = Server("desk", middleware=[cache(10, by="all")])

    @server.tool(annotations=READ_ONLY, scopes=["read"])
    async def secret() -> str:
        """Return."""
        return "s3cret"

    async with connect(server.acting_as(Principal("ada", scopes=frozenset({"read"})))) as client:
        assert (await client.call_tool("secret")).text == "s3cret"
    async with connect(server.acting_as(Principal("eve"))) as client:
        with pytest.raises(RequestError, match="needs a token with the scopes: read"):
            await client.call_tool("secret")
    server.hide("secret")
    async with connect(server.acting_as(Principal("ada", scopes=frozenset({"read"})))) as client:
        with pytest.raises(RequestError, match="unknown tool"):
            await client.call_tool("secret")


@in_loop
async def test_middleware_that_changes_a_result_does_not_change_the_kept_one() -> None:
    async def spoil(ctx: Context, proceed: Proceed) -> Any:
        result = await proceed()
        if ctx.method == "tools/call":
            result.structured_content["count"] += 100
        return result

    server, _ = make(spoil, cache(10))
    async with connect(server) as client:
        assert await _counts(client, {}, {}, {}) == [101, 101, 101]


@in_loop
async def test_resources_are_kept_until_they_change() -> None:
    server, calls = make(cache(10))
    async with connected(server) as client:
        for uri in ("note://a", "note://a", "note://b"):
            await client.read_resource(uri)
        server.resource_updated("note://a")
        for uri in ("note://a", "note://b"):
            await client.read_resource(uri)
    assert calls == ["a", "b", "a"]


@in_loop
async def test_a_result_that_changes_while_it_is_made_is_not_kept() -> None:
    server, calls = make(cache(10))

    @server.resource("slow://x")
    async def slow() -> str:
        calls.append("slow")
        server.resource_updated("slow://x")
        return "old"

    async with connected(server) as client:
        await client.read_resource("slow://x")
        await client.read_resource("slow://x")
    assert calls == ["slow", "slow"]


@in_loop
async def test_lists_and_prompts_are_kept_if_asked_and_forgotten_when_they_change() -> None:
    listed = []

    async def count(ctx: Context, proceed: Proceed) -> Any:
        listed.append(ctx.method)
        return await proceed()

    server, calls = make(cache(10, methods=["tools/list", "prompts/get"]))
    server.add_middleware(count, "tools/list")
    async with connected(server, revision="2025-06-18") as client:
        first = await client.list_tools()
        assert [*(await client.list_tools()).tools] == [*first.tools]
        assert listed == ["tools/list"]

        @server.tool
        async def new() -> str:
            """New."""
            return ""

        assert len((await client.list_tools()).tools) == len(first.tools) + 1
        assert listed == ["tools/list"] * 2
        for name in ("ada", "ada", "bob"):
            await client.get_prompt("greet", {"name": name})
    assert calls == ["ada", "bob"]


@in_loop
async def test_questions_are_not_kept() -> None:
    server, calls = make(cache(10))

    @server.tool(annotations=READ_ONLY)
    async def ask(ctx: Context) -> str:
        """Ask."""
        answer = await ctx.elicit("name?", {"type": "object", "properties": {}})
        calls.append(answer)
        return "asked"

    asked = []

    async def on_elicit(*_: Any) -> Any:
        asked.append(1)
        return {}

    for revision in ("2025-11-25", "2026-07-28"):
        async with connected(server, revision=revision, on_elicit=on_elicit) as client:
            for _ in range(2):
                assert (await client.call_tool("ask")).text == "asked"
    assert len(asked) == 4


@in_loop
async def test_the_entries_used_longest_ago_are_dropped_and_clear_forgets_all() -> None:
    layer = cache(10, entries=2)
    server, _ = make(layer)
    async with connected(server) as client:
        assert await _counts(client, {"y": "a"}, {"y": "b"}, {"y": "a"}, {"y": "c"}) == [1, 2, 1, 3]
        assert len(layer) == 2
        assert await _counts(client, {"y": "a"}, {"y": "b"}) == [1, 4]
        layer.clear()
        assert await _counts(client, {"y": "b"}) == [5]
    assert repr(layer) == "<CacheMiddleware of 1 results, ttl 10 s>"


@in_loop
async def test_servers_that_share_a_cache_do_not_share_results() -> None:
    layer = cache(10, by="all")
    (one, _), (other, calls) = make(layer), make(layer)
    for server in (one, other):
        async with connected(server) as client:
            assert await _counts(client, {}) == [1]
    assert calls == ["look"]


@cases(
    ("settings", "message"),
    [
        ({"ttl": 0}, "ttl is 0, expected a number above 0"),
        ({"entries": 0}, "entries is 0, expected 1 or more"),
        ({"by": "tool"}, "by is 'tool', expected 'principal', 'session', 'all' or a function"),
        ({"methods": ["ping"]}, "results of ping cannot be kept; methods are completion/complete"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cache(**{"ttl": 1, **settings})


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(RegistrationError, match="no request 'tools/calls'"):
        cache(1, methods="tools/calls")


@in_loop
async def test_calls_at_the_same_time_all_get_a_result() -> None:
    server, _ = make(cache(10))
    async with connected(server) as client:
        results = await asyncio.gather(*(client.call_tool("look") for _ in range(10)))
    assert not any(result.is_error for result in results)


@in_loop
async def test_completions_are_kept_if_asked() -> None:
    server, calls = make(cache(10, methods=["completion/complete"]))

    @server.completion("greet", "name")
    def suggest(typed: str, filled_in: dict[str, str]) -> list[str]:
        calls.append(typed)
        return [f"{typed}da"]

    async with connected(server) as client:
        for value in ("a", "a", "b"):
            found = await client.complete(PromptReference("greet"), "name", value)
            assert found.values == [f"{value}da"]
    assert calls == ["a", "b"]


@in_loop
async def test_arguments_that_headers_repeat_are_compared_although_a_result_is_kept() -> None:
    server = Server("desk", middleware=[cache(10, by="all")])
    calls = []

    @server.tool(annotations=READ_ONLY)
    async def query(region: Annotated[str, Header("Region")]) -> str:
        """Query."""
        calls.append(region)
        return region

    app = server.asgi()
    client, request = Modern(app), call("query", region="north")
    statuses = [
        (await client.ask(request, mcp_param_region=header)).status
        for header in ("north", "north", "south")
    ]
    await app.stop()
    assert statuses == [200, 200, 400]
    assert calls == ["north"]


@in_loop
async def test_a_function_chooses_the_key_or_that_nothing_is_kept() -> None:
    def by(ctx: Context) -> str | None:
        return ctx.params.arguments.get("y") or None

    server, _ = make(cache(10, by=by))
    async with connected(server) as client:
        assert await _counts(client, {"y": "a"}, {"y": "a"}, {}, {}) == [1, 1, 2, 3]


@in_loop
async def test_lists_of_a_session_that_hides_entries_are_its_own() -> None:
    server, _ = make(cache(10, methods="tools/list", by="all"))

    @server.tool
    async def hide(ctx: Context) -> str:
        """Hide."""
        ctx.session.hide("write")
        return ""

    async with connected(server, revision="2025-06-18") as client:
        before = len((await client.list_tools()).tools)
        await client.call_tool("hide")
        assert len((await client.list_tools()).tools) == before - 1
    async with connected(server, revision="2025-06-18") as client:
        assert len((await client.list_tools()).tools) == before
