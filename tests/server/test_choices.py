"""Choices are listed in the order in which they were written, at any depth."""

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
from typing_extensions import TypeAliasType

from accord.server.schema.conversion import schema_of
from support.tables import cases

Pace = TypeAliasType("Pace", Literal["slow", "fast"])


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Rank(enum.IntEnum):
    HIGH = 3
    LOW = 1


class Plain(msgspec.Struct):
    pace: Literal["slow", "fast"]
    size: Size = Size.SMALL
    more: "Plain | None" = None


class Dictionary(TypedDict):
    pace: Literal["slow", "fast"]
    size: Size


@dataclass
class Data:
    pace: list[Literal["slow", "fast"]]
    size: Size | None
    rank: Annotated[Rank, "one of two"]


class Tuple(NamedTuple):
    pace: Literal["slow", "fast"]
    size: Size


def choices_in(node: Any) -> list[list[Any]]:
    """Return every list of choices in a schema."""
    if isinstance(node, list):
        return [found for each in node for found in choices_in(each)]
    if not isinstance(node, dict):
        return []
    own = [node["enum"]] if "enum" in node else []
    return own + [found for each in node.values() for found in choices_in(each)]


@cases("output", [False, True], ids=["read", "written"])
@cases("type_", [Plain, Dictionary, Data, Tuple], ids=lambda type_: type_.__name__)
def test_choices_in_fields_keep_the_authors_order(type_, output):
    found = choices_in(schema_of(dict[str, type_], output=output))
    assert ["slow", "fast"] in found
    assert ["small", "large"] in found
    assert ["fast", "slow"] not in found
    assert ["large", "small"] not in found


def test_choices_behind_an_alias_keep_the_authors_order():
    class Walk(msgspec.Struct):
        pace: Pace

    assert schema_of(Walk, output=True)["properties"]["pace"]["enum"] == ["slow", "fast"]


def test_choices_of_numbers_keep_the_authors_order():
    assert schema_of(Data)["properties"]["rank"]["enum"] == [3, 1]


def test_true_and_one_are_different_choices():
    assert schema_of(Literal["b", 1, True, "a"])["enum"] == ["b", 1, True, "a"]
