"""Messages as dictionaries and as JSON text."""

import json

import msgspec

from accord.types import (
    CallToolParams,
    CallToolResult,
    ElicitParams,
    ElicitRequest,
    ImageContent,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
)


def test_a_dictionary_has_the_names_of_the_wire_and_what_is_set_alone() -> None:
    tool = Tool(
        "add", {"type": "object"}, annotations=ToolAnnotations(read_only_hint=True), meta={"a": 1}
    )
    assert ListToolsResult([tool], next_cursor="2").to_dict() == {
        "tools": [
            {
                "name": "add",
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": True},
                "_meta": {"a": 1},
            }
        ],
        "nextCursor": "2",
    }


def test_tags_are_part_of_a_dictionary() -> None:
    result = CallToolResult([TextContent("x"), ImageContent("AA==", "image/png")])
    assert result.to_dict() == {
        "content": [
            {"type": "text", "text": "x"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ],
        "isError": False,
    }
    assert ElicitRequest(ElicitParams("?")).to_dict()["method"] == "elicitation/create"


def test_raw_members_are_read() -> None:
    params = CallToolParams("add", msgspec.Raw(b'{"a": [1, null]}'))
    assert params.to_dict() == {"name": "add", "arguments": {"a": [1, None]}}


def test_the_text_is_json_of_the_same() -> None:
    result = CallToolResult([TextContent("ä")], structured_content=None)
    assert json.loads(result.to_json()) == result.to_dict()
    assert result.to_dict()["structuredContent"] is None
