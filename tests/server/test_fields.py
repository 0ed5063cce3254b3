"""Generic classes as parameters, with type arguments at any depth."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, Required, TypedDict, TypeVar

import attrs
import msgspec
import pytest
from annotated_types import Ge
from msgspec import Meta, json
from msgspec.structs import astuple

from accord.server.schema.signature import ArgumentsError, Signature, inspect
from support.tables import cases

T = TypeVar("T")
Key = TypeVar("Key")


@dataclass
class Metre:
    metres: int


@dataclass
class Foot:
    feet: int


@dataclass
class Box(Generic[T]):
    value: T
    count: Annotated[int, Ge(0), "how many"] = 1


@dataclass
class Boxes(Box[list[T]], Generic[T]):
    first: T | None = None


@dataclass
class Crate(Box[int]):
    label: str = ""


@dataclass
class Tree(Generic[Key, T]):
    key: Key
    leaf: T | None = None
    below: "list[Tree[Key, T]]" = field(default_factory=list)


class Row(NamedTuple, Generic[T]):
    cell: T
    width: int = 1


class Options(TypedDict, Generic[T], total=False):
    wanted: Required[T]
    depth: Annotated[int, Ge(0)]


class Page(msgspec.Struct, Generic[T]):
    items: list[T]
    size: Annotated[int, Ge(1)] = 1


@attrs.define
class Slot(Generic[T]):
    content: T
    number: Annotated[int, Ge(1)] = 1


def taking(annotation: Any) -> Signature:
    def function(value): ...

    function.__annotations__["value"] = annotation
    return inspect(function)


@cases(
    ("annotation", "given", "read"),
    [
        (Box[int], {"value": 2}, Box(2)),
        (Box[Metre | Foot], {"value": {"feet": 2}}, Box(Foot(2))),
        (Box[Annotated[int, Meta(extra_json_schema={"x-hint": 1})]], {"value": 2}, Box(2)),
        (list[Box[Box[str]]], [{"value": {"value": "a"}}], [Box(Box("a"))]),
        (Boxes[int], {"value": [2], "first": 2}, Boxes([2], first=2)),
        (Row[str], {"cell": "a"}, Row("a")),
        (Row[str], ["a", 2], Row("a", 2)),
        (Options[int], {"wanted": 2}, {"wanted": 2}),
        (Page[Metre], {"items": [{"metres": 2}]}, Page([Metre(2)])),
        (Slot[int], {"content": 2}, Slot(2)),
        (Tree[str, int], {"key": "a", "below": [{"key": "b"}]}, Tree("a", None, [Tree("b")])),
    ],
    ids=[
        "dataclass",
        "union",
        "metadata without hash",
        "nested",
        "subclass",
        "named tuple",
        "named tuple as array",
        "typed dict",
        "struct",
        "attrs",
        "recursive",
    ],
)
def test_a_generic_class_is_decoded_with_its_type_arguments(annotation, given, read):
    (value,) = astuple(taking(annotation).bind(json.encode({"value": given})))
    assert value == read
    assert type(value) is type(read)


@cases(
    ("annotation", "given", "reported"),
    [
        (Box[int], {"value": "a"}, '"value.value": expected an integer, got a string ("a")'),
        (Box[int], {"value": 1, "count": -1}, '"value.count": expected at least 0'),
        (Boxes[int], {"value": ["a"]}, '"value.value[0]": expected an integer'),
        (Boxes[int], {"value": [], "first": "a"}, '"value.first": expected an integer or null'),
        (Crate, {"value": "a"}, '"value.value": expected an integer'),
        (Row[str], {"cell": 1}, '"value.cell": expected a string'),
        (Options[int], {"wanted": 1, "depth": -1}, '"value.depth": expected at least 0'),
        (Page[Metre], {"items": [], "size": 0}, '"value.size": expected at least 1'),
        (Slot[int], {"content": 1, "number": 0}, '"value.number": expected at least 1'),
        (
            Tree[str, int],
            {"key": "a", "below": [{"key": "b", "leaf": "c"}]},
            '"value.below[0].leaf": expected an integer or null',
        ),
    ],
    ids=[
        "variable",
        "limit",
        "variable of the class it is made from",
        "own variable of the same name",
        "variable given by a subclass",
        "named tuple",
        "typed dict",
        "struct",
        "attrs",
        "recursive",
    ],
)
def test_a_value_that_breaks_a_generic_class_is_refused_with_its_path(annotation, given, reported):
    with pytest.raises(ArgumentsError) as caught:
        taking(annotation).bind(json.encode({"value": given}))
    assert reported in str(caught.value)


def test_a_generic_class_is_described_with_its_docstring():
    assert taking(Box[Literal["z", "a"]]).input_schema["properties"]["value"] == {
        "type": "object",
        "properties": {
            "value": {"type": "string", "enum": ["z", "a"]},
            "count": {"type": "integer", "minimum": 0, "description": "how many", "default": 1},
        },
        "required": ["value"],
    }


def test_a_generic_dataclass_keeps_its_defaults_when_it_is_returned():
    (box,) = astuple(taking(Box[int]).bind(b'{"value": {"value": 2}}'))
    assert json.encode(box) == b'{"value":2,"count":1}'
