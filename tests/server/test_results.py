"""Returned values become content and structured content, or are refused."""

import base64
import datetime as dt
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn, TypedDict

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta, json

from accord.errors import AccordError, RegistrationError
from accord.server.media import Audio, Image
from accord.server.schema.results import ResultError, ReturnType, inspect
from accord.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from support.labels import label
from support.tables import cases
from support.type_corpus import NAMED_TUPLES, ROWS, Row, Size

if TYPE_CHECKING:
    from somewhere import Hidden

PNG = b"\x89PNG\r\n\x1a\n"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Report:
    name: str
    points: list[Point]


class Weather(TypedDict):
    degrees: float


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


# The corpus

TYPED = {
    name: row
    for name, row in (ROWS | NAMED_TUPLES).items()
    if ReturnType(row.annotation).output_schema is not None
}


@cases("row", TYPED.values(), ids=TYPED)
def test_a_typed_value_is_sent_as_text_and_as_structured_content(row: Row):
    returns = ReturnType(row.annotation)
    schema = returns.output_schema
    result = returns.convert(row.value)
    assert schema["type"] == "object"
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(result.structured_content)
    wire = json.decode(json.encode(result))
    assert validator.is_valid(wire["structuredContent"])
    is_wrapped = list(schema.get("properties", ())) == ["result"]
    value = wire["structuredContent"]["result"] if is_wrapped else wire["structuredContent"]
    (text,) = texts(result)
    assert text == value or json.decode(text) == value


@cases("row", TYPED.values(), ids=TYPED)
def test_output_schemas_have_no_titles_or_references(row: Row):
    text = json.encode(ReturnType(row.annotation).output_schema).decode()
    assert '"title"' not in text
    assert '"$ref"' not in text or '"$defs"' in text


def test_most_of_the_corpus_has_an_output_schema():
    assert len(TYPED) > 110


# Schemas


@cases(
    "annotation",
    [
        str,
        bytes,
        None,
        Any,
        object,
        NoReturn,
        str | None,
        bytes | None,
        Image,
        Audio,
        Image | None,
        TextContent,
        ContentBlock,
        list[ContentBlock],
        list[TextContent | str],
        list[str | Image],
        tuple[Image, str],
        list[Image] | str,
        list[list[TextContent]],
        list,
        list[Any],
        CallToolResult,
        CallToolResult | str,
        Annotated[str, "text"],
        Awaitable[str],
    ],
    ids=label,
)
def test_content_has_no_schema(annotation: Any):
    assert ReturnType(annotation).output_schema is None


@cases(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (dt.date, {"type": "string", "format": "date"}),
        (Annotated[int, Meta(ge=1)], {"type": "integer", "minimum": 1}),
        (Coroutine[Any, Any, bool], {"type": "boolean"}),
    ],
    ids=label,
)
def test_a_value_that_is_not_an_object_is_wrapped(annotation: Any, schema: Any):
    assert ReturnType(annotation).output_schema == {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
    }


@cases("annotation", [Point, Report, Weather, Size, dict, dict[str, int]], ids=label)
def test_objects_have_their_own_schema(annotation: Any):
    schema = ReturnType(annotation).output_schema
    assert schema["type"] == "object"
    assert "result" not in schema.get("properties", {})


def test_a_named_tuple_is_an_object_as_a_result():
    result = ReturnType(Size).convert(Size(1, 2))
    assert result.structured_content == {"width": 1, "height": 2}
    assert texts(result) == ['{"width":1,"height":2}']


# Content


def test_a_string_is_text_as_it_is():
    assert ReturnType(str).convert('a "b"') == CallToolResult([TextContent('a "b"')])


def test_a_choice_of_strings_is_text_as_it_is():
    result = ReturnType(Literal["a", "b"]).convert("a")
    assert (texts(result), result.structured_content) == (["a"], {"result": "a"})


def test_none_becomes_empty_content():
    assert ReturnType(None).convert(None) == CallToolResult([])
    assert ReturnType(Any).convert(None) == CallToolResult([])


@pytest.mark.parametrize("value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
def test_bytes_are_an_embedded_blob(value: Any):
    (block,) = ReturnType(bytes).convert(value).content
    assert block == EmbeddedResource(
        ResourceContents("urn:accord:bytes", mime_type="application/octet-stream", blob="AP8=")
    )


@cases(
    ("value", "text"),
    [(5, "5"), (1.5, "1.5"), (True, "true"), ({"a": [1]}, '{"a":[1]}'), ([1, "a"], '[1,"a"]')],
    ids=label,
)
def test_untyped_values_are_json_in_text(value: Any, text: str):
    result = ReturnType(Any).convert(value)
    assert texts(result) == [text]
    assert result.structured_content is msgspec.UNSET


@cases(
    ("value", "text"),
    [(5, "5"), (True, "true"), (False, "false"), (2.0, "2.0"), (2**70, str(2**70))],
)
def test_numbers_and_booleans_are_json_in_text(value: Any, text: str):
    result = ReturnType(type(value)).convert(value)
    assert (texts(result), result.structured_content) == ([text], {"result": value})
    assert json.decode(text) == value


def test_an_integer_is_a_number():
    assert ReturnType(float).convert(3).structured_content == {"result": 3}


def test_content_blocks_are_kept():
    link = ResourceLink("file:///a", "a")
    embedded = EmbeddedResource(ResourceContents("file:///a", text="x"))
    for block in (TextContent("a"), ImageContent("AA==", "image/png"), link, embedded):
        assert ReturnType(type(block)).convert(block).content == [block]
        assert ReturnType(Any).convert(block).content == [block]


def test_lists_may_mix_blocks_images_strings_and_values():
    link = ResourceLink("file:///a", "a")
    for value in (["see", link, Image(PNG), b"x", 5], ("see", link, Image(PNG), b"x", 5)):
        content = ReturnType(list[Any]).convert(value).content
        assert [type(block) for block in content] == [
            TextContent,
            ResourceLink,
            ImageContent,
            EmbeddedResource,
            TextContent,
        ]


def test_an_untyped_list_without_content_is_one_text():
    assert texts(ReturnType(list).convert(["a", "b"])) == ['["a","b"]']


def test_a_finished_result_passes_through():
    result = CallToolResult([TextContent("a")], meta={"k": 1})
    assert ReturnType(CallToolResult).convert(result) is result
    assert ReturnType(Any).convert(result) is result


def test_a_finished_result_keeps_the_promise_of_its_schema():
    returns = ReturnType(Point)
    fine = CallToolResult([], structured_content={"x": 1})
    assert returns.convert(fine) is fine
    failed = CallToolResult([TextContent("no")], is_error=True)
    assert returns.convert(failed) is failed
    with pytest.raises(ResultError, match="lacks the structured content"):
        returns.convert(CallToolResult([]))
    with pytest.raises(ResultError, match='at "x": expected an integer, got a string'):
        returns.convert(CallToolResult([], structured_content={"x": "1"}))
    with pytest.raises(ResultError, match="expected an object, got null"):
        returns.convert(CallToolResult([], structured_content=None))


# Images and sounds


@cases(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        (b"<svg/>", "image/svg+xml"),
        (b"?", "image/png"),
    ],
    ids=label,
)
def test_the_type_of_an_image_is_found_by_its_first_bytes(data: bytes, mime_type: str):
    (block,) = ReturnType(Image).convert(Image(data)).content
    assert block == ImageContent(base64.b64encode(data).decode(), mime_type)


def test_the_type_of_a_sound_is_found_by_its_first_bytes():
    (block,) = ReturnType(Audio).convert(Audio(b"ID3\x03")).content
    assert block == AudioContent("SUQzAw==", "audio/mpeg")
    assert Audio(b"?").mime_type == "audio/wav"


def test_a_mime_type_given_wins():
    assert Image(PNG, mime_type="image/avif").mime_type == "image/avif"


def test_an_image_may_be_a_file(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"x")
    image = Image(path=path)
    assert (image.data, image.mime_type) == (b"x", "image/jpeg")
    with pytest.raises(FileNotFoundError):
        Image(path=tmp_path / "missing.png")
    assert Image(path=path, mime_type="image/avif").mime_type == "image/avif"


def test_an_image_is_data_or_a_file():
    with pytest.raises(TypeError, match="Image takes either data or path"):
        Image()
    with pytest.raises(TypeError, match="Audio takes either data or path"):
        Audio(b"", path="a.wav")


# What breaks its schema


@cases(
    ("annotation", "value", "text"),
    [
        (int, "5", 'the result: expected an integer, got a string ("5")'),
        (int, True, "the result: expected an integer, got a boolean (true)"),
        (int, None, "the result: expected an integer, got null"),
        (float, float("nan"), "the result: expected a number that JSON can carry, got nan"),
        (bool, 1, "the result: expected a boolean, got an integer (1)"),
        (list[int], [1, "a"], 'the result at "[1]": expected an integer, got a string ("a")'),
        (Point, {"y": 1}, 'the result at "x" is missing'),
        (Point, Point("a"), 'the result at "x": expected an integer, got a string ("a")'),
        (
            Report,
            Report("a", [Point(1), Point(None)]),
            'the result at "points[1].x": expected an integer, got null',
        ),
        (
            Weather,
            {"degrees": "hot"},
            'the result at "degrees": expected a number, got a string ("hot")',
        ),
        (Weather, {}, 'the result at "degrees" is missing'),
        (Size, Size("a", 1), 'the result at "width": expected an integer, got a string ("a")'),
        (dict[str, int], {"a": None}, 'the result at "a": expected an integer, got null'),
        (
            Point,
            Image(PNG),
            "the result cannot be written as JSON: Image cannot be written as JSON",
        ),
        (int, object(), "the result cannot be written as JSON: object cannot be written as JSON"),
        (Annotated[int, Meta(ge=1)], 0, "the result: expected at least 1, got an integer (0)"),
        (Point, TextContent("a"), 'the result at "x" is missing'),
    ],
    ids=label,
)
def test_a_value_that_breaks_its_schema_is_refused(annotation: Any, value: Any, text: str):
    with pytest.raises(ResultError) as caught:
        ReturnType(annotation).convert(value)
    assert str(caught.value) == text


def test_a_value_that_json_cannot_express_is_refused_without_a_schema_too():
    with pytest.raises(ResultError, match="cannot be written as JSON"):
        ReturnType(Any).convert(object())
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ResultError, match="cannot be written as JSON"):
        ReturnType(Any).convert(loop)


def test_result_errors_are_errors_of_accord():
    assert issubclass(ResultError, AccordError)


def test_a_struct_may_leave_out_its_defaults():
    class Sparse(msgspec.Struct, omit_defaults=True):
        a: int = 0
        b: int = 0

    assert ReturnType(Sparse).convert(Sparse(b=1)).structured_content == {"b": 1}


# Functions


def test_the_return_annotation_is_read():
    def plain() -> int: ...
    async def asynchronous() -> "Report": ...
    def bare(): ...

    assert inspect(plain).output_schema["properties"]["result"] == {"type": "integer"}
    assert list(inspect(asynchronous).output_schema["properties"]) == ["name", "points"]
    assert inspect(bare).output_schema is None
    assert inspect(len).output_schema is None
    assert inspect(dict.update).output_schema is None


def test_local_classes_may_be_returned():
    class Local(NamedTuple):
        point: "Inner"

    class Inner(msgspec.Struct):
        x: int

    def f() -> "Local": ...

    assert inspect(f).convert(Local(Inner(1))).structured_content == {"point": {"x": 1}}


def test_a_return_type_without_a_json_form_is_refused():
    def unknown() -> "Hidden": ...
    def odd() -> complex: ...

    with pytest.raises(
        RegistrationError, match='"unknown": the return value: the annotation "Hidden"'
    ):
        inspect(unknown)
    with pytest.raises(RegistrationError, match='function "odd": the return value: complex has no'):
        inspect(odd)


def test_resource_contents_are_embedded():
    contents = ResourceContents("note://a", text="hello")
    result = ReturnType(ResourceContents).convert(contents)
    assert result.content == [EmbeddedResource(contents)]
    assert ReturnType(ResourceContents).output_schema is None


# -- descriptions of fields


@dataclass
class Leg:
    km: Annotated[int, "how far", Meta(ge=0)]


class Trip(TypedDict):
    legs: Annotated[list[Leg], "in order"]


def test_the_output_schema_has_the_descriptions_of_fields() -> None:
    schema = ReturnType(Trip).output_schema
    assert schema is not None
    legs = schema["properties"]["legs"]
    assert legs["description"] == "in order"
    assert legs["items"]["properties"]["km"] == {
        "description": "how far",
        "type": "integer",
        "minimum": 0,
    }


def test_limits_beside_descriptions_hold() -> None:
    convert = ReturnType(Trip).convert
    assert convert({"legs": [Leg(3)]}).structured == {"legs": [{"km": 3}]}
    with pytest.raises(ResultError, match="km"):
        convert({"legs": [Leg(-3)]})
