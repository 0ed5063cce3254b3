"""Schemas of types: references inlined, recursion kept, other libraries by adapters."""

import datetime as dt
import ipaddress
import pathlib
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, TypedDict

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta

from accord.errors import RegistrationError
from accord.json_schema.mismatch import Mismatch
from accord.server.schema.conversion import (
    Collector,
    convert,
    dec_hook,
    schema_of,
    stand_in,
)
from accord.server.schema.msgspec_types import to_msgspec_type
from accord.server.schema.plain import encode, to_plain


@dataclass
class Leaf:
    """A leaf."""

    size: int


@dataclass
class Branch:
    left: Leaf
    right: Leaf | None = None


class Node(msgspec.Struct):
    """A node."""

    value: int
    next: Optional["Node"] = None


class Even(msgspec.Struct):
    odd: Optional["Odd"] = None


class Odd(msgspec.Struct):
    even: Even | None = None
    leaf: Leaf | None = None


class Confusing(TypedDict):
    title: int
    default: Leaf
    enum: str
    required: bool


def test_references_are_inlined():
    leaf = {"description": "A leaf.", "type": "object", "properties": {"size": {"type": "integer"}}}
    leaf["required"] = ["size"]
    assert schema_of(Branch) == {
        "type": "object",
        "properties": {
            "left": leaf,
            "right": {"anyOf": [leaf, {"type": "null"}], "default": None},
        },
        "required": ["left"],
    }


def test_metadata_at_the_place_of_use_wins():
    schema = schema_of(Annotated[Leaf, Meta(description="this leaf")])
    assert schema["description"] == "this leaf"


def test_recursion_keeps_its_reference_and_the_root_its_type():
    schema = schema_of(Node)
    assert schema["type"] == "object"
    assert schema["properties"]["next"]["anyOf"][0] == {"$ref": "#/$defs/Node"}
    assert list(schema["$defs"]) == ["Node"]
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"value": 1, "next": {"value": 2, "next": None}})
    assert not validator.is_valid({"value": 1, "next": {"value": "x"}})


def test_mutual_recursion_keeps_both_and_inlines_the_rest():
    schema = schema_of(list[Even])
    assert set(schema["$defs"]) == {"Even", "Odd"}
    assert schema["$defs"]["Odd"]["properties"]["leaf"]["anyOf"][0]["type"] == "object"
    assert jsonschema_rs.validator_for(schema).is_valid([{"odd": {"even": {}}}])


def test_properties_may_be_called_like_keywords():
    schema = schema_of(Confusing)
    assert set(schema["properties"]) == {"title", "default", "enum", "required"}
    assert schema["properties"]["default"]["type"] == "object"


def test_choices_name_their_type():
    assert schema_of(Literal["a", "b"])["type"] == "string"
    assert schema_of(Literal[1, 2])["type"] == "integer"
    assert "type" not in schema_of(Literal["a", 1])


def test_dates_tell_their_format_when_they_are_read():
    assert schema_of(dt.datetime) == {"type": "string", "format": "date-time"}
    assert schema_of(list[dt.time])["items"] == {"type": "string", "format": "time"}
    # A date without a zone is not what the format promises.
    assert schema_of(dt.datetime, output=True) == {"type": "string"}


@pytest.mark.parametrize(
    ("type_", "schema"),
    [
        (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
        (ipaddress.IPv6Network, {"type": "string"}),
        (pathlib.Path, {"type": "string", "format": "path"}),
    ],
    ids=["address", "network", "path"],
)
def test_types_written_as_text_have_a_format(type_: Any, schema: Any):
    assert schema_of(type_) == schema


def test_limits_of_a_union_go_to_the_members_that_can_have_them():
    schema = schema_of(Annotated[int | str | None, Meta(ge=1), Meta(min_length=2, description="d")])
    assert schema["description"] == "d"
    assert {"type": "integer", "minimum": 1} in schema["anyOf"]
    assert {"type": "string", "minLength": 2} in schema["anyOf"]
    assert {"type": "null"} in schema["anyOf"]


def test_limits_that_fit_nothing_are_refused():
    with pytest.raises(RegistrationError, match="numeric"):
        schema_of(Annotated[str, Meta(ge=1)])
    with pytest.raises(RegistrationError, match="numeric"):
        schema_of(Annotated[dict[str, int] | bool, Meta(multiple_of=2)])


# Adapters


class Celsius:
    """A type of another library."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees


class CelsiusAdapter:
    def schema(self, collector: Collector) -> dict[str, Any]:
        return {"type": "string", "pattern": "^-?[0-9.]+C$"}

    def decode(self, value: Any) -> Celsius:
        if not isinstance(value, str) or not value.endswith("C"):
            raise Mismatch("expected degrees such as 20C")
        return Celsius(float(value[:-1]))


def test_an_adapter_decodes_a_type_that_msgspec_does_not_know():
    type_ = stand_in(CelsiusAdapter(), "Celsius")
    assert schema_of(list[type_])["items"]["pattern"] == "^-?[0-9.]+C$"
    (value,) = convert(["20C"], to_msgspec_type(list[type_]))
    assert value.degrees == 20
    with pytest.raises(msgspec.ValidationError, match="expected degrees such as 20C"):
        convert(["x"], to_msgspec_type(list[type_]))


def test_decoding_an_unknown_type_fails():
    with pytest.raises(NotImplementedError, match="has no JSON form"):
        dec_hook(Celsius, 1)
    with pytest.raises(NotImplementedError, match="has no JSON form"):
        dec_hook(list[Celsius], 1)


def test_encoding_a_value_of_an_unknown_type_fails():
    with pytest.raises(TypeError, match="Celsius cannot be written as JSON"):
        encode(Celsius(1))
    with pytest.raises(TypeError, match="Celsius cannot be written as JSON"):
        to_plain([Celsius(1)])


def test_plain_data_is_what_the_json_would_decode_to():
    value = {1: [dt.date(2024, 1, 1), Leaf(1)]}
    assert to_plain(value) == msgspec.json.decode(encode(value))


def test_nothing_optional_is_loaded_for_plain_types():
    source = (
        "import sys\n"
        "from accord.server.schema import results, signature\n"
        "def f(a: int, b: list[str] | None = None) -> dict[str, int]: ...\n"
        "signature.inspect(f); results.inspect(f)\n"
        "print([name for name in ('pydantic', 'attrs', 'jsonschema_rs') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "[]\n"
