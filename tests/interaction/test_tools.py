"""Tools: how they are described, called, answered, and how they fail."""

import base64
import json
from typing import Any

import pytest

from accord.errors import InvalidParams, RemoteProtocolError, RequestError, ToolError
from accord.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from interaction.servers import tools
from support.links import EACH_ONCE, HANDSHAKE, IN_MEMORY, text

pytestmark = EACH_ONCE

TYPED: dict[str, Any] = {
    "when": "2025-06-18",
    "person": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "much": "1.50",
    "colour": "red",
    "mode": "quick",
    "at": {"x": 1},
    "seat": {"row": 3, "letter": "A"},
    "options": {"deep": True},
    "names": ["a", "b"],
}


async def described(client: Any) -> dict[str, Any]:
    return {tool.name: tool async for tool in client.tools()}


# -- how they are described


@pytest.mark.requirement(
    "tools.list.method",
    "tools.list.array",
    "tools.item.name",
    "tools.item.description",
    "tools.item.input-schema",
    "tools.capability.declared",
    "practice.schema.structure",
    "practice.schema.types",
)
async def test_a_signature_becomes_a_schema(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        listed = await described(client)
    add = listed["add"]
    assert add.description == "Add two numbers."
    assert add.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "the first"},
            "b": {"type": "integer", "description": "the second", "default": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
    }
    assert listed["nothing"].input_schema["type"] == "object"


@pytest.mark.requirement("practice.schema.constraints")
async def test_types_and_constraints_are_in_the_schema(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        properties = (await described(client))["typed"].input_schema["properties"]
    assert properties["when"] == {"type": "string", "format": "date", "description": "a day"}
    assert properties["colour"]["enum"] == ["red", "green"]
    assert sorted(properties["mode"]["enum"]) == ["quick", "slow"]
    assert properties["seat"]["required"] == ["row", "letter"]
    limit = properties["limit"]
    assert (limit["minimum"], limit["maximum"], limit["description"]) == (1, 10, "at most")
    assert "$ref" not in json.dumps(properties)


@pytest.mark.requirement(
    "tools.item.title",
    "tools.item.annotations",
    "tools.item.output-schema",
    "meta.field.more-types",
    "meta.title.display-name",
)
async def test_descriptions_have_the_fields_of_the_revision(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(tools.make) as client:
        await described(client)
    (listed,) = accord_link.connections[0].recording.messages("server")[1:]
    items = {each["name"]: each for each in listed["result"]["tools"]}
    item, revision = items["described"], accord_link.revision
    assert item["description"] == "Says what it is."
    assert ("annotations" in item) == (revision >= "2025-03-26")
    assert ("title" in item) == (revision >= "2025-06-18")
    assert ("_meta" in item) == (revision >= "2025-06-18")
    assert ("outputSchema" in items["point"]) == (revision >= "2025-06-18")
    assert ("icons" in item) == (revision >= "2025-11-25")


async def test_the_server_introduces_itself(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        assert (client.server_info.name, client.server_info.version) == ("tools", "1.2")
        assert client.instructions == "Use them well."
        knows_titles = accord_link.revision >= "2025-06-18"
        assert client.server_info.title == ("All tools" if knows_titles else None)


async def test_methods_and_lambdas_are_tools_too(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        assert text(await client.call_tool("greet", {"name": "Ann"})) == "Dear Ann"
        assert text(await client.call_tool("small")) == "small"


# -- what comes


@pytest.mark.requirement("tools.call.method", "tools.call.content-array", "tools.call.content-type")
async def test_arguments_are_decoded_into_their_types(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool("typed", TYPED)
    assert text(result) == (
        "date UUID Decimal Colour Point Seat quick {'deep': True} ['a', 'b'] 5 None"
    )


async def test_objects_and_lists_may_be_sent_as_json_strings(connect_to: Any) -> None:
    given = {
        **TYPED,
        "at": '{"x": 1}',
        "seat": json.dumps(TYPED["seat"]),
        "options": "{}",
        "names": '["a"]',
        "note": '{"stays": "text"}',
    }
    async with connect_to(tools.make) as client:
        result = await client.call_tool("typed", given)
    assert text(result).endswith("""quick {} ['a'] 5 {"stays": "text"}""")


async def test_defaults_fill_omitted_arguments(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        assert text(await client.call_tool("add", {"a": 41})) == "42"
        assert text(await client.call_tool("nothing")) == "nothing taken"


@IN_MEMORY
@pytest.mark.requirement(
    "tools.server.validates-inputs",
    "practice.server.validates-inputs",
    "practice.tools.validation-failure-as-result",
    "practice.tools.missing-arguments-as-result",
    "practice.tools.error-as-result",
    "tools.call.is-error-flag",
)
@pytest.mark.parametrize(
    ("tool", "arguments", "reported"),
    [
        ("add", {"a": "many"}, ["a", "an integer", "a string", "many"]),
        ("add", {}, ["a", "missing"]),
        ("typed", {**TYPED, "when": "soon"}, ["when", "date", "soon"]),
        ("typed", {**TYPED, "colour": "blue"}, ["colour", "red", "blue"]),
        ("typed", {**TYPED, "limit": 11}, ["limit", "10", "11"]),
        ("typed", {**TYPED, "at": {"x": "one"}}, ["at.x", "an integer", "one"]),
        ("typed", {**TYPED, "names": ["a", 2]}, ["names", "1", "a string", "2"]),
    ],
)
async def test_arguments_that_do_not_fit_are_reported_with_path_expectation_and_value(
    connect_to: Any, tool: str, arguments: Any, reported: list[str]
) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    message = text(result)
    assert [each for each in reported if each not in message] == []
    assert "Traceback" not in message


# -- what goes


@pytest.mark.requirement("practice.content.text-item")
async def test_text_is_sent_unchanged(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool("text")
    assert result.content == [TextContent("plain")]
    assert result.is_error is False


async def test_pictures_and_bytes_are_sent_as_base64(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        (picture,) = (await client.call_tool("image")).content
        (block,) = (await client.call_tool("binary")).content
    assert isinstance(picture, ImageContent)
    assert picture.mime_type == "image/png"
    assert base64.b64decode(picture.data) == tools.PIXEL
    assert isinstance(block, EmbeddedResource)
    assert base64.b64decode(block.resource.blob or "") == b"\0\1\2"


async def test_content_that_a_revision_does_not_know_becomes_text(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(tools.make) as client:
        (sound,) = (await client.call_tool("sound")).content
        mixed = (await client.call_tool("mixed")).content
    revision = accord_link.revision
    assert isinstance(sound, AudioContent if revision >= "2025-03-26" else TextContent)
    assert [type(each) for each in mixed[:3]] == [TextContent, ImageContent, EmbeddedResource]
    assert isinstance(mixed[3], ResourceLink if revision >= "2025-06-18" else TextContent)
    assert "note://two" in str(mixed[3])


@IN_MEMORY
@pytest.mark.requirement(
    "tools.call.structured-content",
    "tools.call.structured-conforms",
    "tools.structured-content.object",
    "tools.structured-content.also-text",
    "tools.structured-content.required-with-schema",
    "tools.output-schema.object",
    "practice.tools.json-as-text",
)
@pytest.mark.parametrize(
    ("tool", "arguments", "expected", "structured"),
    [
        ("add", {"a": 1}, 2, {"result": 2}),
        ("point", {"x": 1}, {"x": 1, "y": 2}, {"x": 1, "y": 2}),
        (
            "points",
            {},
            [{"x": 1, "y": 0}, {"x": 2, "y": 0}],
            {"result": [{"x": 1, "y": 0}, {"x": 2, "y": 0}]},
        ),
        ("pair", {}, {"left": "l", "right": 2}, {"left": "l", "right": 2}),
        ("table", {}, {"one": 1}, {"one": 1}),
    ],
)
async def test_typed_results_are_json_in_text_and_structured_where_that_exists(
    accord_link: Any, connect_to: Any, tool: str, arguments: Any, expected: Any, structured: Any
) -> None:
    async with connect_to(tools.make) as client:
        await described(client)
        result = await client.call_tool(tool, arguments)
    assert json.loads(text(result)) == expected
    if accord_link.revision >= "2025-06-18":
        assert result.structured_content == structured
    else:
        assert "structuredContent" not in str(accord_link.connections[0].recording.messages()[-1])


async def test_none_is_a_result_without_content(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool("nobody")
    assert (result.content, result.is_error) == ([], False)


async def test_a_result_that_breaks_its_own_schema_is_not_sent(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        await described(client)
        result = await client.call_tool("liar")
    assert result.is_error
    assert "no number" not in text(result)


async def test_a_ready_result_passes_through_narrowed(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool("whole")
    assert result.meta["org.example/trace"] == "t1"
    assert result.content[0].annotations.priority == 0.5


@pytest.mark.requirement("tools.structured-content.client-validates")
async def test_results_are_decoded_into_the_type_the_caller_wants(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        await described(client)
        assert await client.call_tool("add", {"a": 2}, result_type=int) == 3
        point = await client.call_tool("point", {"x": 5}, result_type=tools.Point)
        assert point == tools.Point(5, 2)
        points = await client.call_tool("points", result_type=list[tools.Point])
        assert points == [tools.Point(1), tools.Point(2)]
        assert await client.call_tool("text", result_type=str) == "plain"
        with pytest.raises(RemoteProtocolError, match="does not fit int"):
            await client.call_tool("text", result_type=int)
        with pytest.raises(ToolError, match="window"):
            await client.call_tool("refuse", result_type=str)


# -- what fails


@pytest.mark.requirement("practice.tools.execution-error-as-result")
@pytest.mark.parametrize("tool", ["refuse", "refuse_async"])
async def test_the_text_of_a_tool_error_reaches_the_caller(connect_to: Any, tool: str) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool(tool)
    assert result.is_error
    assert text(result) == "the door is locked; try the window"


@pytest.mark.requirement("practice.server.survives-errors")
@pytest.mark.parametrize("tool", ["crash", "crash_async", "crash_inline"])
async def test_any_other_exception_is_reported_by_reference(connect_to: Any, tool: str) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool(tool)
        await client.ping()
    assert result.is_error
    assert text(result).startswith(f"tool {tool} failed (reference ")
    assert "sesame" not in text(result)


@IN_MEMORY
async def test_the_reference_is_in_the_log_with_the_exception(connect_to: Any, caplog: Any) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool("crash")
    reference = text(result).partition("reference ")[2].rstrip(")")
    (record,) = [each for each in caplog.records if reference in each.getMessage()]
    assert "sesame" in str(record.exc_info[1])


@IN_MEMORY
async def test_debug_shows_the_text_of_exceptions(connect_to: Any) -> None:
    server = tools.make()
    server._core.debug = True
    async with connect_to(server) as client:
        result = await client.call_tool("crash")
    assert text(result) == "tool crash failed: ValueError: the password is sesame"


@pytest.mark.requirement("tools.errors.unknown-tool-32602")
@pytest.mark.requirement("errors.code.invalid-params", "errors.invalid-params.data-details")
async def test_an_unknown_tool_is_an_invalid_parameter(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        with pytest.raises(InvalidParams) as caught:
            await client.call_tool("nowhere")
    assert caught.value.code == -32602
    assert caught.value.data == {"name": "nowhere"}


async def test_a_tool_may_answer_with_a_protocol_error(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        with pytest.raises(InvalidParams, match="moon") as caught:
            await client.call_tool("refuse_request")
        assert caught.value.data == {"phase": "new"}
        with pytest.raises(RequestError, match="teapot") as caught:
            await client.call_tool("own_code")
        assert caught.value.code == 418


@pytest.mark.requirement(
    "errors.reserved-range.only-defined-codes", "errors.application-codes.outside-reserved"
)
@IN_MEMORY
async def test_a_code_that_the_specification_reserves_does_not_leave(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(tools.make) as client:
        with pytest.raises(RequestError, match="kettle") as caught:
            await client.call_tool("reserved_code")
    assert caught.value.code == (-32050 if accord_link.revision in HANDSHAKE else -32603)


# -- how long it takes


@pytest.mark.parametrize(("tool", "seconds"), [("slow", "0.05"), ("slow_in_thread", "0.5")])
async def test_a_tool_that_takes_too_long_is_stopped(
    connect_to: Any, tool: str, seconds: str
) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool(tool)
        assert result.is_error
        assert text(result) == f"tool {tool} did not finish within {seconds} s (timeout)"
        assert await client.call_tool("events", result_type=list[str]) == [f"{tool} stopped"]
        assert text(await client.call_tool("quick_enough")) == "in time"


async def test_a_timeout_within_a_tool_is_a_failure_like_others(connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        result = await client.call_tool("own_timeout")
    assert "reference" in text(result)
