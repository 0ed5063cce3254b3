"""Middleware: what it sees, changes and returns, and where it is registered."""

from decimal import Decimal
from typing import Any

import pytest

from accord import Context, Server, ToolError
from accord.client import Client
from accord.errors import RegistrationError, RequestError
from accord.server import Proceed
from accord.testing import connected
from accord.types import CallToolParams, CallToolResult, ListToolsResult, TextContent
from accord.types._base import REVISION_IDS
from support.tables import cases
from support.waiting import in_loop


def make() -> Server:
    server = Server("desk")

    @server.tool
    async def add(a: int, b: int = 0) -> int:
        """Add."""
        return a + b

    @server.tool
    async def exact(x: Decimal) -> str:
        """Return the digits."""
        return str(x)

    @server.resource("note://today")
    async def today() -> str:
        return "sun"

    @server.prompt
    async def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    return server


async def _sum(client: Client, a: int, **options: Any) -> int:
    return await client.call_tool("add", {"a": a}, result_type=int, **options)


@pytest.mark.parametrize("revision", REVISION_IDS)
@in_loop
async def test_middleware_sees_the_name_the_arguments_and_the_meta(revision: Any) -> None:
    server, seen = make(), []

    @server.middleware("tools/call")
    async def audit(ctx: Context, proceed: Proceed) -> Any:
        seen.append((ctx.params.name, ctx.params.arguments, ctx.meta.get("trace")))
        return await proceed()

    async with connected(server, revision=revision) as client:
        assert await _sum(client, 2, meta={"trace": "t1"}) == 2
        await client.read_resource("note://today")
    assert seen == [("add", {"a": 2}, "t1")]


@in_loop
async def test_middleware_without_a_method_is_called_around_every_request() -> None:
    server, seen = make(), []

    @server.middleware
    async def note(ctx: Context, proceed: Proceed) -> Any:
        seen.append(ctx.method)
        return await proceed()

    async with connected(server, revision="2025-06-18") as client:
        await client.list_tools()
        await client.get_prompt("greet", {"name": "ada"})
        await client.ping()
    assert seen == ["initialize", "tools/list", "prompts/get", "ping"]


@in_loop
async def test_middleware_passes_other_params_on() -> None:
    server = make()

    @server.middleware("tools/call")
    async def double(ctx: Context, proceed: Proceed) -> Any:
        return await proceed(params=CallToolParams("add", {"a": 2 * ctx.params.arguments["a"]}))  # type: ignore[arg-type]

    @server.middleware("tools/call")
    async def more(ctx: Context, proceed: Proceed) -> Any:
        assert ctx.meta["trace"] == "kept"
        return await proceed(params={"name": "add", "arguments": {**ctx.params.arguments, "b": 1}})

    async with connected(server) as client:
        assert await _sum(client, 5, meta={"trace": "kept"}) == 11


@in_loop
async def test_a_change_of_the_arguments_in_place_reaches_the_handler() -> None:
    server = make()

    @server.middleware("tools/call")
    async def fill(ctx: Context, proceed: Proceed) -> Any:
        ctx.params.arguments.setdefault("b", 100)
        return await proceed()

    async with connected(server) as client:
        assert await _sum(client, 5) == 105


@in_loop
async def test_arguments_that_middleware_only_reads_keep_their_digits() -> None:
    server = make()

    @server.middleware
    async def look(ctx: Context, proceed: Proceed) -> Any:
        str(ctx.params)
        return await proceed()

    async with connected(server) as client:
        digits = "0.12345678901234567890123"
        result = await client.call_tool("exact", {"x": Decimal(digits)}, result_type=str)
        assert result == digits


@in_loop
async def test_params_of_another_type_are_an_error_of_the_middleware(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make()

    @server.middleware("tools/call")
    async def confuse(ctx: Context, proceed: Proceed) -> Any:
        return await proceed(params=5)

    async with connected(server) as client:
        with pytest.raises(RequestError, match="internal error"):
            await client.call_tool("add", {"a": 1})
    assert "params of tools/call are a int, expected CallToolParams or a dictionary" in caplog.text


@pytest.mark.parametrize("revision", REVISION_IDS)
@in_loop
async def test_lists_are_typed_objects_that_middleware_may_filter(revision: Any) -> None:
    server = make()

    @server.middleware("tools/list")
    async def only_add(ctx: Context, proceed: Proceed) -> Any:
        result = await proceed()
        assert isinstance(result, ListToolsResult)
        result.tools = [tool for tool in result.tools if tool.name == "add"]
        return result

    async with connected(server, revision=revision) as client:
        for _ in range(2):
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]


@in_loop
async def test_pages_stay_encoded_for_middleware_that_passes_results() -> None:
    server, seen = make(), []

    async def count(ctx: Context, proceed: Proceed) -> Any:
        result = await proceed()
        seen.append(type(result))
        return result

    count.passes_results = True  # type: ignore[attr-defined]
    server.add_middleware(count, "tools/list")
    async with connected(server) as client:
        assert len((await client.list_tools()).tools) == 2
    assert seen == [bytes]


@in_loop
async def test_middleware_may_answer_without_the_handler() -> None:
    server = make()

    @server.middleware("tools/call")
    async def answer(ctx: Context, proceed: Proceed) -> CallToolResult:
        return CallToolResult([TextContent("from the cache")])

    async with connected(server) as client:
        assert (await client.call_tool("add", {"a": 1})).text == "from the cache"


@in_loop
async def test_a_tool_error_of_middleware_is_an_error_result() -> None:
    server = make()

    @server.middleware
    async def refuse(ctx: Context, proceed: Proceed) -> Any:
        if ctx.method in ("tools/call", "prompts/get"):
            raise ToolError("come back tomorrow")
        return await proceed()

    async with connected(server) as client:
        with pytest.raises(ToolError, match="come back tomorrow"):
            await _sum(client, 1)
        with pytest.raises(RequestError, match="come back tomorrow"):
            await client.get_prompt("greet", {"name": "ada"})


@in_loop
async def test_middleware_that_returns_nothing_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make()

    @server.middleware("tools/call")
    async def forgetful(ctx: Context, proceed: Proceed) -> None:
        await proceed()

    async with connected(server) as client:
        with pytest.raises(RequestError, match="internal error"):
            await client.call_tool("add", {"a": 1})
    assert "forgetful returned None for tools/call" in caplog.text
    assert "return await proceed()" in caplog.text


@in_loop
async def test_middleware_may_call_the_handler_again() -> None:
    server, tries = make(), []

    @server.tool
    async def flaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise ToolError("busy")
        return "done"

    @server.middleware("tools/call")
    async def again(ctx: Context, proceed: Proceed) -> Any:
        first = await proceed()
        return await proceed() if first.is_error else first

    async with connected(server) as client:
        assert (await client.call_tool("flaky")).text == "done"


@in_loop
async def test_a_handler_sees_params_and_meta_without_middleware() -> None:
    server = Server("desk")

    @server.tool
    async def look(ctx: Context, a: int = 0) -> list[Any]:
        """Return what the request holds."""
        return [ctx.params.name, ctx.params.arguments, ctx.params.meta == ctx.meta, ctx.meta["k"]]

    async with connected(server) as client:
        found = await client.call_tool("look", {"a": 1}, meta={"k": "v"}, result_type=list)
    assert found == ["look", {"a": 1}, True, "v"]


@cases(
    ("function", "methods", "message"),
    [
        (5, (), "expected an async function of ctx and proceed"),
        (lambda ctx, proceed: None, (), "is not async: write async def"),
        (lambda ctx: None, (), "cannot be called with ctx and proceed"),
        (test_middleware_may_call_the_handler_again, (), "cannot be called with ctx and proceed"),
    ],
)
def test_functions_that_cannot_be_middleware_are_refused(
    function: Any, methods: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("x").add_middleware(function, *methods)


def test_an_unknown_method_is_refused_with_the_closest_one() -> None:
    async def layer(ctx: Context, proceed: Proceed) -> Any:
        return await proceed()

    with pytest.raises(RegistrationError, match="no request 'tool/call'; did you mean 'tools/ca"):
        Server("x").add_middleware(layer, "tool/call")


# -- session state


@in_loop
async def test_session_state_is_kept_between_requests_and_apart_from_other_sessions() -> None:
    server = Server("desk")

    @server.tool
    async def count(ctx: Context) -> int:
        """Count."""
        state = ctx.session.state
        state["n"] = state.get("n", 0) + 1
        return state["n"]  # type: ignore[no-any-return]

    for transport in ("memory", "http"):
        async with (
            connected(server, transport=transport, revision="2025-06-18") as one,
            connected(server, transport=transport, revision="2025-06-18") as other,
        ):
            counts = [await one.call_tool("count", result_type=int) for _ in range(3)]
            assert counts == [1, 2, 3]
            assert await other.call_tool("count", result_type=int) == 1


@in_loop
async def test_without_a_session_state_is_refused_with_the_reason() -> None:
    server = Server("desk")

    @server.tool
    async def count(ctx: Context) -> int:
        """Count."""
        return len(ctx.session.state)

    for transport in ("memory", "http"):
        async with connected(server, transport=transport, revision="2026-07-28") as client:
            with pytest.raises(ToolError, match="the revision of the client has none"):
                await client.call_tool("count", result_type=int)
    async with connected(
        server.asgi(sessions=False), transport="http", revision="2025-11-25"
    ) as client:
        with pytest.raises(ToolError, match="the server keeps none"):
            await client.call_tool("count", result_type=int)
