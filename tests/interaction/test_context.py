"""The context of handlers: request, client, lifespan and middleware."""

from typing import Any

import pytest

from accord import Context
from accord.types import Implementation
from interaction.servers import working
from support.links import EACH_ONCE, HANDSHAKE, IN_PROCESS, text

pytestmark = EACH_ONCE


async def test_a_handler_knows_its_request_and_its_client(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(
        working.make, client_info=Implementation("desk", "1"), roots=["/"], on_sample=lambda _: None
    ) as client:
        facts = await client.call_tool("facts", result_type=dict)
    capabilities = {each for each in facts.pop("capabilities") if "tasks" not in each}
    assert capabilities - {"extensions"} == {
        "roots",
        "sampling",
        *(["roots.listChanged"] if accord_link.revision in HANDSHAKE else []),
    }
    assert facts == {
        "method": "tools/call",
        "revision": accord_link.revision,
        "client": "desk",
        "has id": True,
        "started": True,
        "cancelled": False,
    }


async def test_the_context_is_found_from_helpers_tasks_and_threads(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        assert await client.call_tool("reach", result_type=list[str]) == ["tools/call"] * 3
        in_thread = await client.call_tool("reach_in_thread", result_type=list[str])
        assert in_thread == ["tools/call"] * 2
        assert text(await client.call_tool("reach_inline")) == "tools/call"
        (here,) = (await client.read_resource("context://here")).contents
        assert here.text == "resources/read"
        prompt = await client.get_prompt("prompt_here")
        assert prompt.messages[0].content.text == "prompts/get"


@IN_PROCESS
async def test_outside_of_requests_there_is_no_context(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        for tool in ("reach", "reach_in_thread", "reach_inline"):
            await client.call_tool(tool)
        with pytest.raises(LookupError, match="no request is handled here"):
            Context.current()


@IN_PROCESS
async def test_the_lifespan_surrounds_the_serving(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        assert await client.call_tool("events", result_type=list[str]) == ["lifespan began"]
    assert working.seen == ["lifespan began", "lifespan ended"]


async def test_middleware_is_called_around_every_request(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(
        working.make_with_middleware, client_info=Implementation("desk", "1")
    ) as client:
        await client.ping()
        result = await client.call_tool("caller")
        assert text(result) == "desk"
        assert result.meta["org.example/through"] == "inner"
        await client.list_tools()
        (here,) = (await client.read_resource("context://here")).contents
        assert here.text == "resources/read"
        seen = await client.call_tool("events", result_type=list[str])
    opened = ["initialize", "ping"]
    if accord_link.revision not in HANDSHAKE:
        opened = ["server/discover", "server/discover"]
    assert seen == [
        "lifespan began",
        *(f"outer {each}" for each in opened),
        "outer tools/call",
        "outer tools/list",
        "outer resources/read",
        "outer tools/call",
    ]


async def test_state_that_was_not_set_for_a_request_is_not_found(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        assert text(await client.call_tool("caller")) == "no Caller was kept for this request"


@IN_PROCESS
async def test_middleware_may_answer_by_itself_or_refuse(connect_to: Any) -> None:
    from accord import Server
    from accord.errors import InvalidRequest

    async def guard(ctx: Context[Any], proceed: Any) -> Any:
        if ctx.method == "prompts/get":
            raise InvalidRequest("not today")
        return await proceed()

    server = Server("guarded", middleware=[guard])

    @server.prompt
    def hello() -> str:
        """Say hello."""
        return "hello"

    async with connect_to(server) as client:
        assert [each.name async for each in client.prompts()] == ["hello"]
        with pytest.raises(InvalidRequest, match="not today"):
            await client.get_prompt("hello")
