import pytest

from accord.types import (
    CallToolResult,
    CreateMessageResult,
    ElicitParams,
    ImageContent,
    TextContent,
    ToolUseContent,
)

PICTURE = ImageContent("AA==", "image/png")


def test_the_text_of_a_tool_result_is_that_of_its_text_blocks():
    assert CallToolResult([TextContent("a"), PICTURE, TextContent("b")]).text == "a\nb"
    assert CallToolResult([]).text == ""


def test_the_text_of_what_a_model_said_is_found_in_one_block_or_several():
    assert CreateMessageResult("assistant", TextContent("hi"), "m").text == "hi"
    several = CreateMessageResult("assistant", [TextContent("a"), PICTURE, TextContent("b")], "m")
    assert several.text == "a\nb"


def test_the_tool_uses_of_what_a_model_said_keep_their_order():
    first, second = ToolUseContent("u1", "a", {}), ToolUseContent("u2", "b", {"x": 1})
    several = CreateMessageResult("assistant", [first, TextContent("a"), second], "m")
    assert several.tool_uses == [first, second]
    assert CreateMessageResult("assistant", first, "m").tool_uses == [first]
    assert CreateMessageResult("assistant", TextContent("hi"), "m").tool_uses == []


@pytest.mark.requirement("elicitation.form.prefill-defaults")
def test_a_form_has_the_defaults_of_its_fields():
    fields = {"a": {"type": "string", "default": "x"}, "b": {"type": "string"}, "c": True}
    form = ElicitParams("?", requested_schema={"type": "object", "properties": fields})
    assert form.defaults == {"a": "x"}
    assert ElicitParams("?", url="https://a.example").defaults == {}
    assert ElicitParams("?", requested_schema={"properties": []}).defaults == {}
