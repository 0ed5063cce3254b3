"""Functions around the requests of a client."""

import asyncio
from typing import Any

import pytest

from accord import Server, connect
from accord.client import ClientProceed, ClientRequest, blocking
from accord.errors import InvalidParams
from accord.types import CallToolParams, CallToolResult, PageParams, ReadResourceParams, TextContent
from client.stateless_server import StatelessServer, ask, form, text
from support.running import to_the_end

MODERN = "2026-07-28"


@pytest.fixture
def desk():
    server = Server("desk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.prompt
    def plan(city: str) -> str:
        """Plan a trip."""
        return f"Plan a trip to {city}."

    return server


async def pass_on(request: ClientRequest, proceed: ClientProceed) -> Any:
    return await proceed()


def test_middleware_sees_every_request_and_its_result(desk, run):
    seen: list[tuple[str, Any]] = []

    async def note(request: ClientRequest, proceed: ClientProceed) -> Any:
        result = await proceed()
        seen.append((request.method, type(result).__name__))
        return result

    async def main():
        async with connect(desk, middleware=[note]) as client:
            await client.list_tools()
            assert [tool.name async for tool in client.tools(fresh=True)] == ["add"]
            assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
            await client.get_prompt("plan", {"city": "Oslo"})
            await client.ping()

    run(main())
    assert seen == [
        ("tools/list", "ListToolsResult"),
        ("tools/list", "ListToolsResult"),
        ("tools/call", "CallToolResult"),
        ("prompts/get", "GetPromptResult"),
        ("server/discover", "DiscoverResult"),
    ]


def test_middleware_sees_typed_params_and_arguments(desk, run):
    seen: list[Any] = []

    async def note(request: ClientRequest, proceed: ClientProceed) -> Any:
        seen.append((type(request.params), request.arguments, request.meta))
        return await proceed()

    async def main():
        async with connect(desk) as client:
            client.add_middleware(note)
            await client.call_tool("add", {"a": 1, "b": 2}, meta={"trace": "t"})
            await client.get_prompt("plan", {"city": "Oslo"})
            await client.list_tools()

    run(main())
    assert [each[1:] for each in seen] == [
        ({"a": 1, "b": 2}, {"trace": "t"}),
        ({"city": "Oslo"}, {}),
        ({}, {}),
    ]
    assert seen[0][0] is CallToolParams
    assert seen[2][0] is PageParams
    assert "tools/call" in repr(ClientRequest("tools/call", CallToolParams("add"), {}))


def test_the_first_middleware_is_the_outermost(desk, run):
    order: list[str] = []

    def named(name: str) -> Any:
        async def layer(request: ClientRequest, proceed: ClientProceed) -> Any:
            order.append(name)
            return await proceed()

        return layer

    async def main():
        async with connect(desk, middleware=[named("a"), named("b")]) as client:
            client.add_middleware(named("c"))
            await client.ping()

    run(main())
    assert order == ["a", "b", "c"]


@to_the_end
async def test_middleware_changes_arguments_and_params(desk):
    async def double(request: ClientRequest, proceed: ClientProceed) -> Any:
        if request.method != "tools/call":
            return await proceed(arguments={"city": "Rome"})
        return await proceed(arguments={**request.arguments, "b": 40})

    async def rename(request: ClientRequest, proceed: ClientProceed) -> Any:
        if request.method != "tools/call":
            return await proceed()
        return await proceed(params=CallToolParams("add", request.params.arguments))

    async with connect(desk, middleware=[double, rename]) as client:
        assert (await client.call_tool("sum", {"a": 1, "b": 2})).data == 41
        prompt = await client.get_prompt("plan", {"city": "Oslo"})
        assert "Rome" in prompt.messages[0].content.text


@to_the_end
async def test_middleware_answers_by_itself(desk):
    async def answer(request: ClientRequest, proceed: ClientProceed) -> Any:
        return CallToolResult([TextContent("from the middleware")])

    async with connect(desk, middleware=[answer]) as client:
        assert (await client.call_tool("add")).text == "from the middleware"


def test_middleware_repeats_a_request(run):
    answers = iter([{"content": [], "isError": True}, text("done")])
    target = StatelessServer(tools_call=lambda message: next(answers))

    async def retry(request: ClientRequest, proceed: ClientProceed) -> Any:
        result = await proceed()
        return await proceed() if result.is_error else result

    async def main():
        async with connect(target, middleware=[retry]) as client:
            assert (await client.call_tool("add")).text == "done"

    run(main())
    assert target.methods() == ["tools/call", "tools/call"]


def test_middleware_is_around_all_rounds_of_a_request(run):
    def book(message):
        return text("done") if "inputResponses" in message["params"] else ask("s", a=form("?"))

    calls: list[str] = []
    target = StatelessServer(tools_call=book)

    async def twice(request: ClientRequest, proceed: ClientProceed) -> Any:
        calls.append(request.method)
        await proceed()
        return await proceed()

    async def main():
        async with connect(target, middleware=[twice], on_elicit=lambda asked: False) as client:
            assert (await client.call_tool("book")).text == "done"

    run(main())
    assert calls == ["tools/call"]
    # Each attempt begins without the answers of the one before.
    assert ["inputResponses" in each["params"] for each in target.sent[-4:]] == [
        False,
        True,
        False,
        True,
    ]


def test_headers_of_a_call_pass_middleware_once(run):
    calls: list[str] = []
    target = StatelessServer(tools_call=lambda message: text("done"))

    async def note(request: ClientRequest, proceed: ClientProceed) -> Any:
        calls.append(request.method)
        return await proceed()

    async def main():
        async with connect(target, middleware=[note]) as client:
            await client.call_tool("add", headers={"X-Tenant": "a"})

    run(main())
    assert calls == ["tools/call"]
    assert target.headers[-1] == {"X-Tenant": "a"}


def test_errors_of_the_server_pass_through_middleware(desk, run):
    caught: list[Exception] = []

    async def note(request: ClientRequest, proceed: ClientProceed) -> Any:
        try:
            return await proceed()
        except InvalidParams as error:
            caught.append(error)
            raise

    async def main():
        async with connect(desk, middleware=[note]) as client:
            with pytest.raises(InvalidParams):
                await client.get_prompt("missing")

    run(main())
    assert len(caught) == 1


def test_a_result_that_is_fresh_is_kept_unless_middleware_changed_its_request(run):
    page = {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "private"}

    async def tag(request: ClientRequest, proceed: ClientProceed) -> Any:
        request.meta["com.example/tenant"] = "a"
        return await proceed()

    async def count(layer: Any) -> int:
        target = StatelessServer(tools_list=lambda message: page)
        async with connect(target, middleware=[layer]) as client:
            await client.list_tools()
            await client.list_tools()
        return len(target.methods())

    assert run(count(pass_on)) == 1
    assert run(count(tag)) == 2


@to_the_end
async def test_a_resource_that_middleware_swaps_is_not_kept_under_the_first_uri():
    def read(message):
        found = {"uri": message["params"]["uri"], "text": "x"}
        return {"resultType": "complete", "contents": [found], "ttlMs": 60_000}

    async def swap(request: ClientRequest, proceed: ClientProceed) -> Any:
        return await proceed(params=ReadResourceParams("b://b"))

    target = StatelessServer(resources_read=read)
    async with connect(target, middleware=[swap]) as client:
        await client.read_resource("a://a")
        result = await client.read_resource("a://a")
        assert result.contents[0].uri == "b://b"
    assert len(target.methods()) == 2


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda request, proceed: None, "is not async: write `async def`"),
        (lambda request, proceed: asyncio.sleep(0), "returned None: return what `await proceed"),
        (
            lambda request, proceed: proceed(params=PageParams()),
            r"params are PageParams\(.*\), expected EmptyParams",
        ),
        (lambda request, proceed: proceed(arguments={}), "ping has no arguments"),
    ],
)
@to_the_end
async def test_a_mistake_in_middleware_is_explained(desk, layer, message):
    async with connect(desk, middleware=[layer], revision="2025-11-25") as client:
        with pytest.raises(TypeError, match=message):
            await client.ping()


@pytest.mark.parametrize("given", [pass_on, "pass_on", [5]], ids=["function", "text", "number"])
def test_middleware_other_than_functions_is_refused(desk, given):
    with pytest.raises(TypeError, match="middleware is a list of async functions"):
        connect(desk, middleware=given)


def test_the_blocking_client_has_middleware(desk):
    seen: list[str] = []

    async def note(request: ClientRequest, proceed: ClientProceed) -> Any:
        seen.append(request.method)
        return await proceed()

    with blocking.connect(desk, middleware=[note]) as client:
        client.add_middleware(note)
        assert client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
    assert seen == ["tools/call", "tools/call"]
