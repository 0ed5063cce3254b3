"""Requests to a server from its own process, without a client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

from accord import Context, Depends, Principal, Server, connect
from accord.errors import InvalidParams, ResourceNotFound
from accord.server import Proceed
from accord.types import CallToolResult
from support.waiting import in_loop

runs: list[str] = []


@asynccontextmanager
async def lifespan(server: Any) -> AsyncIterator[dict[str, int]]:
    runs.append("begin")
    yield {"made": len(runs)}
    runs.append("end")


def make(**settings: Any) -> Server[Any]:
    runs.clear()
    server: Server[Any] = Server("desk", lifespan=lifespan, page_size=1, **settings)

    async def database(ctx: Context) -> str:
        return f"db {ctx.state['made']}"

    @server.tool
    async def add(a: int, b: int = 0) -> int:
        """Add."""
        return a + b

    @server.tool
    def query(ctx: Context, db: Annotated[str, Depends(database)]) -> str:
        """Ask the database."""
        ctx.info("asked")
        ctx.progress(1, 1)
        return f"{db} for {ctx.principal.subject if ctx.principal else 'anyone'}"

    @server.tool
    async def twice(ctx: Context) -> str:
        """Call another tool of the server."""
        return (await server.call_tool("query", meta={"from": "twice"})).text

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the user."""
        return await ctx.elicit("how?", str)

    @server.tool(scopes=["admin"])
    async def secret() -> str:
        """Only for some."""
        return "s"

    @server.resource("note://today")
    async def today() -> str:
        return "sun"

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        return name

    @server.prompt
    async def greet(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    return server


@in_loop
async def test_a_server_is_called_without_a_client() -> None:
    server = make()
    result = await server.call_tool("add", {"a": 2, "b": 3})
    assert isinstance(result, CallToolResult)
    assert (result.text, result.structured_content, result.is_error) == ("5", {"result": 5}, False)
    assert (await server.call_tool("add", {"a": "x"})).is_error
    assert (await server.call_tool("query")).text == "db 5 for anyone"
    assert (await server.read_resource("note://a")).contents[0].text == "a"
    prompt = await server.get_prompt("greet", {"name": "ada"})
    assert prompt.messages[0].content.text == "hello ada"  # type: ignore[union-attr]
    with pytest.raises(InvalidParams, match="unknown tool 'nothing'"):
        await server.call_tool("nothing")
    with pytest.raises(ResourceNotFound):
        await server.read_resource("other://a")


@in_loop
async def test_lists_hold_every_page_of_what_the_caller_may_use() -> None:
    server = make()
    names = [tool.name for tool in await server.list_tools()]
    assert names == ["add", "query", "twice", "ask"]
    admin = Principal("ada", scopes=frozenset({"admin"}))
    assert "secret" in [tool.name for tool in await server.list_tools(principal=admin)]
    assert (await server.call_tool("secret", principal=admin)).text == "s"
    assert [each.uri for each in await server.list_resources()] == ["note://today"]
    templates = await server.list_resource_templates()
    assert [each.uri_template for each in templates] == ["note://{name}"]
    assert [each.name for each in await server.list_prompts()] == ["greet"]


@in_loop
async def test_the_lifespan_that_runs_is_used() -> None:
    server = make()
    async with server.run_lifespan():
        first = (await server.call_tool("query")).text
        assert (await server.call_tool("query")).text == first
    assert runs == ["begin", "end"]


@in_loop
async def test_a_handler_that_calls_its_server_keeps_the_caller_and_the_state() -> None:
    server = make()
    async with connect(server.acting_as(Principal("ada"))) as client:
        assert await client.call_tool("twice", result_type=str) == "db 1 for ada"
    assert runs == ["begin", "end"]


@in_loop
async def test_middleware_sees_calls_from_the_process_too() -> None:
    server, seen = make(), []

    @server.middleware
    async def note(ctx: Context, proceed: Proceed) -> Any:
        seen.append((ctx.method, ctx.meta))
        return await proceed()

    await server.call_tool("add", {"a": 1}, meta={"k": "v"})
    await server.list_prompts()
    assert seen == [("tools/call", {"k": "v"}), ("prompts/list", {})]


@in_loop
async def test_there_is_no_user_to_ask() -> None:
    result = await make().call_tool("ask")
    assert result.is_error
    assert "elicitation" in result.text


@in_loop
async def test_a_server_of_the_newest_revision_alone_is_called_too() -> None:
    server = make(revisions=["2026-07-28"])
    assert (await server.call_tool("add", {"a": 2})).text == "2"
    assert len(await server.list_tools()) == 4


@in_loop
async def test_lifespans_with_equal_states_end_apart() -> None:
    server = make()
    first, second = server.run_lifespan(), server.run_lifespan()
    one = await first.__aenter__()
    other = await second.__aenter__()
    other.clear()
    other.update(one)
    await first.__aexit__(None, None, None)
    one["changed"] = 1
    assert (await server.call_tool("query")).text == "db 1 for anyone"
    await second.__aexit__(None, None, None)
    assert runs == ["begin", "begin", "end", "end"]
