"""Keywords of message types: the tag may be given, and a wrong one names the right one."""

from typing import Any

import msgspec
import pytest

from accord import types as t
from accord.types import (
    CallToolResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    Tool,
    ToolAnnotations,
)
from accord.types._base import Struct, constructor
from support.tables import cases

STRUCTS = [
    value for value in vars(t).values() if isinstance(value, type) and issubclass(value, Struct)
]
TAGGED = [struct for struct in STRUCTS if struct.__struct_config__.tag_field is not None]
RENAMED = [
    (struct, field)
    for struct in STRUCTS
    for field in msgspec.structs.fields(struct)
    if field.name != field.encode_name and "/" not in field.encode_name
]


def test_the_type_of_a_block_may_be_given() -> None:
    assert TextContent(type="text", text="x") == TextContent("x", type="text") == TextContent("x")
    assert PromptReference("plan", type="ref/prompt") == PromptReference("plan")


def test_a_wrong_type_is_refused_with_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"TextContent has type='text', not 'image'"):
        TextContent(type="image", text="x")  # type: ignore[arg-type]
    wrong: Any = {"type": "ref/prompt"}
    with pytest.raises(TypeError, match="type='ref/resource', not 'ref/prompt'"):
        ResourceTemplateReference("a://{b}", **wrong)


def test_a_keyword_beside_the_type_is_explained_too() -> None:
    wrong: Any = {"mimeType": "text/plain"}
    with pytest.raises(TypeError, match=r"TextContent\(\) has no keyword 'mimeType'; it has"):
        TextContent("x", type="text", **wrong)


def test_a_keyword_given_under_both_names_is_refused() -> None:
    wrong: Any = {"readOnlyHint": True, "read_only_hint": False}
    with pytest.raises(TypeError, match="no keyword 'readOnlyHint'; did you mean 'read_only_hint'"):
        ToolAnnotations(**wrong)


@cases("struct", TAGGED, ids=lambda struct: struct.__name__)
def test_every_tag_can_be_read_as_an_attribute(struct: Any) -> None:
    config = struct.__struct_config__
    assert getattr(struct, config.tag_field) == config.tag
    assert config.tag_field not in struct.__struct_fields__


def test_the_type_of_a_block_cannot_be_changed() -> None:
    block: Any = TextContent("x")
    with pytest.raises(AttributeError):
        block.type = "image"


def test_a_block_is_matched_by_its_fields() -> None:
    match msgspec.convert({"type": "text", "text": "x"}, t.ContentBlock):
        case TextContent(text):
            assert text == "x"
        case other:
            pytest.fail(f"no match: {other}")


@cases(("struct", "field"), RENAMED, ids=lambda each: getattr(each, "__name__", None) or each.name)
def test_a_name_of_the_wire_is_taken_for_the_keyword(struct: Any, field: Any) -> None:
    needed = {
        each.name: "x" for each in msgspec.structs.fields(struct) if each.required and each != field
    }
    assert struct(**needed, **{field.encode_name: "y"}) == struct(**needed, **{field.name: "y"})


def test_a_keyword_like_no_other_is_answered_with_those_that_exist() -> None:
    wrong: Any = {"zzz": True}
    with pytest.raises(TypeError, match=r"ToolAnnotations\(\) has no keyword 'zzz'; it has dest"):
        ToolAnnotations(title="x", **wrong)


def test_a_missing_argument_names_the_type() -> None:
    make: Any = Tool
    with pytest.raises(TypeError, match=r"Tool\(\): missing required argument 'input_schema'"):
        make("add")


@cases(
    ("name", "meant"),
    [
        ("structuredContent", "structured_content"),
        ("isError", "is_error"),
        ("model_dump", r"to_dict\(\)"),
        ("model_dump_json", r"to_json\(\)"),
    ],
)
def test_an_attribute_of_other_libraries_suggests_ours(name: str, meant: str) -> None:
    result = CallToolResult([TextContent("x")])
    with pytest.raises(AttributeError, match=rf"'{name}'; did you mean {meant}\?"):
        getattr(result, name)
    assert not hasattr(result, name)


def test_a_quick_constructor_makes_the_same() -> None:
    made = constructor(CallToolResult)([TextContent("x")], {"result": "x"})
    assert made == CallToolResult([TextContent("x")], structured_content={"result": "x"})
    assert type(made) is CallToolResult
