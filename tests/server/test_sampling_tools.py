"""Sampling with tools: what a handler may ask, and what leaves."""

from typing import Any

import pytest

from accord import Context, Server
from accord.types import (
    CreateMessageResult,
    SamplingMessage,
    TextContent,
    Tool,
    ToolResultContent,
    ToolUseContent,
)
from support.links import over, text
from support.raw import RawClient
from support.waiting import in_loop, until

pytestmark = over("memory", revisions=("2025-11-25",))

USE = ToolUseContent("u1", "weather", {"city": "Oslo"}, meta={"trace": "1"})


async def weather(city: str) -> str:
    """Say how warm it is."""
    return f"4 C in {city}"


async def forecast(ctx: Context) -> str:
    """Let the model ask for the weather, then answer."""
    asked: list[Any] = ["Weather in Oslo?"]
    answer = await ctx.sample(asked, tools=["weather"], tool_choice="required")
    results = []
    for use in answer.tool_uses:
        said = await weather(**use.input)
        results.append(ToolResultContent(use.id, [TextContent(said)]))
    asked += [answer, SamplingMessage("user", results)]
    return (await ctx.sample(asked, tools=[weather])).text


def serving(*tools: Any, **settings: Any) -> Server:
    server = Server("desk", **settings)
    for tool in tools:
        server.add_tool(tool)
    return server


@over("memory", "http:2025-11-25", "http-stream:2025-11-25", revisions=("2025-11-25",))
@pytest.mark.requirement(
    "sampling.tools.capability",
    "sampling.tool-use.server-answers-all",
    "sampling.tool-choice.values",
    "sampling.meta-preserved",
    "sampling.context.avoid",
    "sampling.message.role-and-content",
)
async def test_a_model_uses_tools_of_the_server(connect_to: Any) -> None:
    asked = []

    def model(params: Any) -> CreateMessageResult:
        asked.append(params)
        if len(asked) == 1:
            return CreateMessageResult("assistant", [TextContent("let me look"), USE], "m")
        (result,) = params.messages[-1].content
        return CreateMessageResult("assistant", result.content[0], "m")

    server = serving(weather, forecast)
    async with connect_to(server, on_sample=model, sampling_tools=True) as client:
        assert text(await client.call_tool("forecast")) == "4 C in Oslo"
    first, second = asked
    assert [tool.name for tool in first.tools] == ["weather"]
    assert first.tools[0].input_schema["required"] == ["city"]
    assert first.tool_choice.mode == "required"
    assert second.tool_choice is None
    assert first.include_context is None
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    assert second.messages[1].content == [TextContent("let me look"), USE]


@over("memory", revisions=("2025-06-18", "2025-11-25"))
@pytest.mark.requirement("sampling.tools.not-without-capability")
@pytest.mark.parametrize("options", [{"tools": []}, {"tool_choice": "none"}], ids=str)
async def test_tools_are_not_offered_to_a_client_without_them(
    accord_link: Any, connect_to: Any, options: Any
) -> None:
    async def ask(ctx: Context) -> str:
        """Ask with tools."""
        return (await ctx.sample("hello", **options)).text

    async with connect_to(serving(ask), on_sample=lambda params: None) as client:
        result = await client.call_tool("ask")
    assert result.is_error
    expected = {
        "2025-06-18": "revision 2025-06-18 has no tools in sampling",
        "2025-11-25": "the client did not declare sampling.tools",
    }
    assert text(result) == expected[accord_link.revision]


@over("memory", revisions=("2025-06-18", "2025-11-25"), allow=("sampling.context.avoid",))
@pytest.mark.requirement("sampling.context.needs-capability")
@pytest.mark.parametrize("declared", [False, True])
async def test_context_is_asked_for_where_the_client_declared_it(
    accord_link: Any, connect_to: Any, declared: bool
) -> None:
    async def ask(ctx: Context) -> str:
        """Ask with context."""
        return (await ctx.sample("hello", include_context="thisServer")).text

    def model(params: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent(params.include_context), "m")

    async with connect_to(serving(ask), on_sample=model, sampling_context=declared) as client:
        result = await client.call_tool("ask")
    if accord_link.revision == "2025-06-18" or declared:
        assert text(result) == "thisServer"
    else:
        assert text(result) == "the client did not declare sampling.context"


@pytest.mark.requirement(
    "sampling.tool-use.balanced",
    "sampling.tool-results.alone",
    "sampling.tool-result.id-matches",
)
@pytest.mark.parametrize(
    ("question", "options", "reported"),
    [
        (
            [SamplingMessage("assistant", [USE])],
            {},
            'ValueError: the client would refuse these messages: messages[0] uses tool "u1"',
        ),
        (
            [
                SamplingMessage("assistant", [USE]),
                SamplingMessage("user", [ToolResultContent("u1", []), TextContent("x")]),
            ],
            {},
            "messages[1] has tool results and other content",
        ),
        (
            [SamplingMessage("user", [ToolResultContent("u2", [])])],
            {},
            'messages[0] has a result of tool use "u2", which no message before it has',
        ),
        ("hello", {"tools": ["wether"]}, "ValueError: 'wether' is not a registered tool"),
        ("hello", {"tools": [print]}, "is not a registered tool; give a Tool that describes it"),
        ("hello", {"tools": [3]}, "TypeError: a tool for the model is a Tool, or the name"),
        ("hello", {"tool_choice": "must"}, "ValueError: tool_choice is 'must', expected"),
        ("hello", {"temprature": 1}, "sample() has no keyword 'temprature'; did you mean"),
    ],
)
async def test_a_question_that_the_client_would_refuse_does_not_leave(
    connect_to: Any, question: Any, options: Any, reported: str
) -> None:
    async def ask(ctx: Context) -> str:
        """Ask wrongly."""
        return (await ctx.sample(question, **options)).text

    asked: list[Any] = []
    server = serving(ask, debug=True)
    async with connect_to(server, on_sample=asked.append, sampling_tools=True) as client:
        result = await client.call_tool("ask")
    assert reported in text(result)
    assert asked == []


async def test_a_registered_method_is_found_by_itself(connect_to: Any) -> None:
    class Station:
        def degrees(self) -> int:
            """Say how warm it is."""
            return 4

        async def ask(self, ctx: Context) -> str:
            """Ask with a method."""
            return (await ctx.sample("hello", tools=[self.degrees])).text

    def model(params: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent(params.tools[0].name), "m")

    station = Station()
    server = serving(station.degrees, station.ask)
    async with connect_to(server, on_sample=model, sampling_tools=True) as client:
        assert text(await client.call_tool("ask")) == "degrees"


@in_loop
async def test_a_tool_may_be_described_without_being_registered() -> None:
    async def ask(ctx: Context) -> str:
        """Ask with a tool that only the handler knows."""
        tool = Tool(name="look", input_schema={"type": "object"})
        return (await ctx.sample("hello", tools=[tool])).model

    async with RawClient(serving(ask)) as raw:
        await raw.open("2025-11-25", sampling={"tools": {}})
        raw.request(1, "tools/call", {"name": "ask", "arguments": {}})
        question = await until(lambda: next((m for m in raw.received if "method" in m), None))
        assert question["params"]["tools"] == [{"name": "look", "inputSchema": {"type": "object"}}]
        assert "toolChoice" not in question["params"]
        content = [{"type": "tool_use", "id": "u1", "name": "look", "input": {}}]
        answer = {"role": "assistant", "content": content, "model": "m"}
        raw.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert (await raw.answer_to(1))["result"]["content"][0]["text"] == "m"
