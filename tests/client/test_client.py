"""Every operation of a connected client, against a server in plain JSON."""

import json
from dataclasses import dataclass

import msgspec
import pytest
from pydantic import BaseModel

from accord.client import connect
from accord.errors import (
    InvalidParams,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    ResourceNotFound,
    ToolError,
)
from accord.types import PromptReference, ResourceTemplateReference, TextContent
from support.running import to_the_end

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


async def history(client):
    result = await client.call_tool("history")
    return result.structured_content["messages"]


@to_the_end
async def test_the_opening_names_the_server(wayward):
    async with connect(wayward()) as client:
        assert client.server_info.name == "wayward"
        assert client.instructions == "be patient"
        assert client.capabilities.tools.list_changed
        assert client.revision == "2025-11-25"
        assert "wayward 1" in repr(client)


@pytest.mark.parametrize("revision", HANDSHAKE)
@to_the_end
async def test_every_operation_works_in_every_revision_with_a_handshake(revision, wayward):
    async with connect(wayward(), revision=revision) as client:
        assert client.revision == revision
        await client.ping()
        assert [tool.name async for tool in client.tools()] == [f"tool{n}" for n in range(5)]
        assert len([each async for each in client.resources()]) == 3
        assert len([each async for each in client.resource_templates()]) == 3
        assert len([each async for each in client.prompts()]) == 3
        assert (await client.read_resource("note://1")).contents[0].text == "milk"
        await client.subscribe("note://1")
        await client.unsubscribe("note://1")
        assert (await client.get_prompt("prompt1", {"a": "b"})).messages
        ref = ResourceTemplateReference("note://{name}/1")
        assert (await client.complete(ref, "name", "mi")).values
        await client.set_log_level("warning")
        assert (await client.call_tool("echo", {"a": 1})).content == [TextContent('{"a": 1}')]


@to_the_end
async def test_the_first_page_is_fetched_with_an_empty_object_and_the_next_by_the_cursor(wayward):
    async with connect(wayward()) as client:
        first = await client.list_tools()
        assert first.next_cursor == "2"
        await client.list_tools(first.next_cursor)
        lists = [m["params"] for m in await history(client) if m["method"] == "tools/list"]
        assert lists == [{}, {"cursor": "2"}]


@pytest.mark.parametrize("kind", ["same", "counting"])
@to_the_end
async def test_a_list_without_end_is_given_up(kind, wayward, monkeypatch):
    monkeypatch.setattr("accord.client.results.MOST_PAGES", 20)
    async with connect(wayward(endless=kind)) as client:
        with pytest.raises(RemoteProtocolError, match="end"):
            async for _ in client.tools():
                pass


@to_the_end
async def test_arguments_travel_as_an_object_even_when_empty(wayward):
    async with connect(wayward()) as client:
        await client.call_tool("echo")
        await client.call_tool("echo", {})
        calls = [
            m["params"]["arguments"] for m in await history(client) if "tools/call" in m["method"]
        ]
        assert calls == [{}, {}, {}]


@to_the_end
async def test_arguments_other_than_a_mapping_are_refused_before_anything_is_sent(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(TypeError, match="mapping"):
            await client.call_tool("echo", "a=1")


@to_the_end
async def test_a_misspelt_keyword_of_a_call_is_refused_before_anything_is_sent(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(TypeError, match="no keyword 'timout'; did you mean 'timeout'"):
            await client.call_tool("echo", timout=1)
        with pytest.raises(TypeError, match="no keyword 'headrs'"):
            await client.ping(headrs={}, headers={})


@to_the_end
async def test_invalid_prompt_arguments_and_log_levels_are_refused_before_anything_is_sent(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(TypeError, match="argument 'n' of a prompt is 3, expected text"):
            await client.get_prompt("greet", {"n": 3})
        with pytest.raises(ValueError, match="no log level 'loud'; expected one of debug"):
            await client.set_log_level("loud")


@to_the_end
async def test_meta_travels_beside_the_progress_token(wayward):
    async with connect(wayward()) as client:
        await client.call_tool("echo", meta={"trace": "t1"})
        [call] = [m for m in await history(client) if m["method"] == "tools/call"][:1]
        assert call["params"]["_meta"]["trace"] == "t1"
        assert isinstance(call["params"]["_meta"]["progressToken"], int)


@to_the_end
async def test_completion_carries_its_context(wayward):
    async with connect(wayward()) as client:
        completion = await client.complete(
            PromptReference("plan"), "city", "Ha", context={"country": "de"}
        )
        assert json.loads(completion.values[0]) == {
            "ref": {"type": "ref/prompt", "name": "plan"},
            "argument": {"name": "city", "value": "Ha"},
            "context": {"arguments": {"country": "de"}},
        }


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("note://{name}", {"type": "ref/resource", "uri": "note://{name}"}),
        (
            ResourceTemplateReference("note://today"),
            {"type": "ref/resource", "uri": "note://today"},
        ),
        ("plan", {"type": "ref/prompt", "name": "plan"}),
        (PromptReference("plan"), {"type": "ref/prompt", "name": "plan"}),
    ],
)
def test_a_text_names_the_template_or_the_prompt_to_complete(given, sent, wayward, run):
    async def main():
        async with connect(wayward()) as client:
            completion = await client.complete(given, "name", "to")
            assert json.loads(completion.values[0])["ref"] == sent

    run(main())


@to_the_end
async def test_a_reference_that_cannot_be_completed_is_refused_before_anything_is_sent(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(TypeError, match=r"PromptReference\(name\)"):
            await client.complete({"type": "ref/prompt", "name": "plan"}, "name", "to")


@pytest.mark.parametrize(
    ("capabilities", "operation", "named"),
    [
        ({}, lambda client: client.list_tools(), "tools/list needs the capability tools"),
        ({}, lambda client: client.call_tool("echo"), "tools/call needs the capability tools"),
        ({}, lambda client: client.read_resource("a:b"), "capability resources"),
        ({"resources": {}}, lambda client: client.subscribe("a:b"), "resources.subscribe"),
        ({}, lambda client: client.get_prompt("p"), "capability prompts"),
        ({}, lambda client: client.set_log_level("info"), "capability logging"),
        (
            {},
            lambda client: client.complete(PromptReference("p"), "a", ""),
            "capability completions",
        ),
        ({}, lambda client: client.roots_changed(), "roots"),
    ],
)
@to_the_end
async def test_an_undeclared_capability_raises_before_anything_is_sent(
    capabilities, operation, named, wayward
):
    async with connect(wayward(capabilities=capabilities)) as client:
        with pytest.raises(LocalProtocolError, match=named):
            await operation(client)


@to_the_end
async def test_errors_of_the_server_have_a_class_by_their_code(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(ResourceNotFound) as missing:
            await client.read_resource("note://none")
        assert missing.value.data == {"uri": "note://none"}
        with pytest.raises(InvalidParams, match="no such tool"):
            await client.call_tool("fail", {"code": -32602, "message": "no such tool"})
        with pytest.raises(RequestError) as other:
            await client.call_tool("fail", {"code": 7, "message": "odd"})
        assert (type(other.value), other.value.code) == (RequestError, 7)


@to_the_end
async def test_an_invalid_result_is_an_error_of_the_protocol(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(RemoteProtocolError, match="tools/call"):
            await client.call_tool("give", {"result": {"content": "text"}})


# -- results


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Pair:
    x: int
    y: int


class Model(BaseModel):
    x: int


class Odd:
    pass


def said(*texts, **more):
    return {"content": [{"type": "text", "text": each} for each in texts], "isError": False, **more}


@pytest.mark.parametrize(
    ("result", "wanted", "got"),
    [
        (said("", structuredContent={"x": 1}), Point, Point(1)),
        (said("", structuredContent={"x": 1, "y": 2}), Pair, Pair(1, 2)),
        (said("", structuredContent={"result": 3}), int, 3),
        (said("", structuredContent={"result": [1, 2]}), list[int], [1, 2]),
        (said("", structuredContent={"result": 3}), dict[str, int], {"result": 3}),
        (said('{"x": 4}'), Point, Point(4)),
        (said("5"), int, 5),
        (said("5"), str, "5"),
        (said("two", "lines"), str, "two\nlines"),
        (said("1", "2"), list[int], [1, 2]),
        (said('{"x": 1}', '{"x": 2}'), list[Point], [Point(1), Point(2)]),
        (said("", structuredContent={"x": 1}), Model, Model(x=1)),
        (said("", structuredContent={"result": [{"x": 1}]}), list[Model], [Model(x=1)]),
        (said("", structuredContent={"a": {"x": 1}}), dict[str, Model | None], {"a": Model(x=1)}),
    ],
    ids=repr,
)
@to_the_end
async def test_results_are_decoded_into_the_type_asked_for(result, wanted, got, wayward):
    async with connect(wayward()) as client:
        value = await client.call_tool("give", {"result": result}, result_type=wanted)
        assert value == got


@pytest.mark.parametrize(
    "result", [said("many words"), said(), said("", structuredContent={"x": "one"})], ids=repr
)
@to_the_end
async def test_a_result_that_does_not_fit_the_type_says_so(result, wayward):
    async with connect(wayward()) as client:
        with pytest.raises(RemoteProtocolError, match="result of give does not fit Point: "):
            await client.call_tool("give", {"result": result}, result_type=Point)


@pytest.mark.parametrize("wanted", [list[Model], list[Odd]], ids=repr)
@to_the_end
async def test_a_result_that_does_not_fit_within_the_type_says_so(wanted, wayward):
    async with connect(wayward()) as client:
        result = said("", structuredContent={"result": [{"x": "one"}]})
        told = r"the result of give does not fit list\[.*\]: .*(int|Odd)"
        with pytest.raises(RemoteProtocolError, match=told):
            await client.call_tool("give", {"result": result}, result_type=wanted)


@to_the_end
async def test_a_failed_tool_raises_only_where_a_type_was_asked_for(wayward):
    failed = {"content": [{"type": "text", "text": "no seats left"}], "isError": True}
    async with connect(wayward()) as client:
        assert (await client.call_tool("give", {"result": failed})).is_error
        with pytest.raises(ToolError, match="no seats left"):
            await client.call_tool("give", {"result": failed}, result_type=int)


SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
GIVE = {"name": "give", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA}


@to_the_end
async def test_structured_results_are_held_against_the_output_schema_once_it_is_known(wayward):
    wrong = {"result": said("", structuredContent={"x": "one"})}
    async with connect(wayward(tools=[GIVE])) as client:
        await client.call_tool("give", wrong)
        await client.list_tools()
        with pytest.raises(RemoteProtocolError, match=r"structured-conforms.*give.*/x"):
            await client.call_tool("give", wrong)
        with pytest.raises(RemoteProtocolError, match="without structured content"):
            await client.call_tool("give", {"result": said("")})
        fine = await client.call_tool("give", {"result": said("", structuredContent={"x": 1})})
        assert fine.structured_content == {"x": 1}
        failed = {"result": {"content": [], "isError": True}}
        assert (await client.call_tool("give", failed)).is_error


@to_the_end
async def test_a_schema_outside_its_revision_is_not_enforced(wayward):
    async with connect(wayward(tools=[GIVE]), revision="2025-03-26") as client:
        await client.list_tools()
        await client.call_tool("give", {"result": said("plain")})


@to_the_end
async def test_a_changed_tool_list_makes_known_schemas_unknown(wayward):
    wrong = {"result": said("", structuredContent={"x": "one"})}
    changed = {"method": "notifications/tools/list_changed"}
    async with connect(wayward(tools=[GIVE])) as client:
        await client.list_tools()
        await client.call_tool("tell", {"notices": [changed]})
        assert (await client.call_tool("give", wrong)).structured_content == {"x": "one"}
