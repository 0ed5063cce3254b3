"""Members that no revision defines, found in a message and put back into another."""

import json
from typing import Any

import msgspec

from accord.protocol import shape
from accord.protocol.unknown import UnknownMembers, find_unknown
from accord.types import (
    CallToolResult,
    EmbeddedResource,
    ListToolsResult,
    ResourceContents,
    TextContent,
)
from support.tables import cases

SCHEMA = {"type": "object"}


def passed_on(message: Any, kind: Any, *, change: Any = None) -> Any:
    """Decode a message, and encode it again with its unknown members."""
    raw = json.dumps(message).encode()
    typed = msgspec.json.decode(raw, type=kind)
    unknown = find_unknown(raw, typed)
    if change is not None:
        change(typed)
    return json.loads(msgspec.json.encode(typed) if unknown is None else unknown.encode(typed))


def test_a_message_without_unknown_members_has_none() -> None:
    raw = b'{"content":[{"text":"a","type":"text"}],"isError":false}'
    typed = msgspec.json.decode(raw, type=CallToolResult)
    assert find_unknown(msgspec.json.encode(typed), typed) is None
    assert find_unknown(b" " + raw, typed) is None  # white space is not a member
    assert find_unknown(b'{"any": 1}', {"any": 1}) is None  # nor has it a type with members


def test_unknown_members_are_kept_at_every_depth() -> None:
    message = {
        "content": [
            {"type": "text", "text": "a", "x": 1},
            {"type": "text", "text": "b"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "c", "y": [1]}, "z": None},
        ],
        "isError": False,
        "structuredContent": {"any": {"thing": 1}},
        "extra": {"deep": {"er": True}},
    }
    assert passed_on(message, CallToolResult) == message


def test_unknown_members_of_the_items_of_a_list_are_kept() -> None:
    tool = {"name": "a", "inputSchema": {"type": "object", "x-own": 1}, "weight": 2}
    message = {"tools": [{"name": "b", "inputSchema": {}}, tool], "page": 1}
    assert passed_on(message, ListToolsResult) == message


def test_a_part_that_became_another_one_is_left_alone() -> None:
    message = {"content": [{"type": "text", "text": "a", "x": 1}], "isError": False}

    def change(typed: CallToolResult) -> None:
        typed.content[0] = EmbeddedResource(ResourceContents("a:b", text="c"))

    (block,) = passed_on(message, CallToolResult, change=change)["content"]
    assert "x" not in block


def test_parts_that_are_gone_are_left_alone() -> None:
    message = {
        "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "x": 1}],
        "isError": False,
    }

    def shorten(typed: CallToolResult) -> None:
        del typed.content[1]

    assert passed_on(message, CallToolResult, change=shorten)["content"] == message["content"][:1]
    block = {"type": "resource", "resource": {"uri": "a:b", "text": "c", "y": 1}}
    raw = json.dumps(block).encode()
    unknown = find_unknown(raw, msgspec.json.decode(raw, type=EmbeddedResource))
    assert unknown is not None
    assert json.loads(unknown.encode(TextContent("a")))["text"] == "a"


def test_members_of_another_revision_are_known_and_dropped() -> None:
    message = {"tools": [{"name": "a", "title": "A", "inputSchema": SCHEMA, "weight": 2}]}
    raw = json.dumps(message).encode()
    typed = msgspec.json.decode(raw, type=ListToolsResult)
    unknown = find_unknown(raw, typed)
    assert unknown is not None
    (tool,) = json.loads(unknown.encode(shape.narrow(typed, "2024-11-05")))["tools"]
    assert tool == {"name": "a", "inputSchema": SCHEMA, "weight": 2}


def test_members_are_copied_so_that_the_rest_of_the_message_is_not_kept() -> None:
    raw = b'{"content":[],"isError":false,"x":12345}'
    found = find_unknown(raw, msgspec.json.decode(raw, type=CallToolResult))
    assert isinstance(found, UnknownMembers)
    assert bytes(found.members["x"]) == b"12345"


@cases("value", ["1", '"\\u00e9"', "null", "[{}]", "1.0", '{"a":1,"a":2}'])
def test_values_are_passed_on_as_they_are_written(value: str) -> None:
    raw = b'{"content":[],"isError":false,"x":' + value.encode() + b"}"
    typed = msgspec.json.decode(raw, type=CallToolResult)
    unknown = find_unknown(raw, typed)
    assert unknown is not None
    assert unknown.encode(typed).endswith(b'"x":' + value.encode() + b"}")
