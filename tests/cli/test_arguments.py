import pytest

from accord.cli.arguments import describe, read_tool_arguments, read_value, type_name
from accord.cli.options import UsageError
from support.tables import cases

ROOT = {"$defs": {"Point": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}}}


INTEGERS = {"type": "array", "items": {"type": "integer"}}


@cases(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "-7", -7),
        ({"type": "number"}, "7", 7),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "False", False),
        ({"type": "boolean"}, "on", True),
        ({"type": "string"}, "7", "7"),
        ({"type": "string"}, "", ""),
        ({"type": "array"}, "", []),
        ({"type": "array", "items": {"type": "integer"}}, "1, 2", [1, 2]),
        ({"type": "array"}, '["a,b", 2]', ["a,b", 2]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "null"}, "null", None),
        ({"enum": ["a", 2, None]}, "2", 2),
        ({"enum": ["a", 2, None]}, "null", None),
        ({"const": "x"}, "x", "x"),
        ({}, "7", 7),
        ({}, "seven", "seven"),
        (True, "seven", "seven"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", None),
        ({"oneOf": [{"type": "boolean"}, {"type": "string"}]}, "maybe", "maybe"),
        ({"type": ["integer", "null"]}, "7", 7),
    ],
)
def test_a_text_is_read_by_the_type_in_the_schema(schema, text, value):
    read = read_value(text, schema)
    assert read == value
    assert type(read) is type(value)


@cases(
    ("schema", "text", "said"),
    [
        ({"type": "integer"}, "1.5", "expected integer, got '1.5'"),
        ({"type": "number"}, "nan", "expected number, got 'nan'"),
        ({"type": "number"}, "many", "expected number, got 'many'"),
        ({"type": "boolean"}, "maybe", "expected boolean, got 'maybe'"),
        ({"type": "null"}, "x", "expected null, got 'x'"),
        ({"enum": ["red", "blue"]}, "green", "expected red|blue, got 'green'"),
        ({"type": "object"}, "x", "expected object, got 'x'; write key:=JSON for nested values"),
        ({"type": "array"}, "[", "expected array, got '['; write key:=JSON for nested values"),
        (INTEGERS, "1,x", "expected list of integer, got '1,x'"),
    ],
)
def test_a_text_that_does_not_fit_its_schema_is_refused(schema, text, said):
    with pytest.raises(ValueError) as caught:
        read_value(text, schema)
    assert str(caught.value).startswith(said)


@cases(
    ("schema", "name"),
    [
        ({"type": "string", "format": "date"}, "date"),
        ({"type": ["integer", "null"]}, "integer|null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer|null"),
        ({"$ref": "#/$defs/Point"}, "object"),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "#/$defs/Missing"}, "any"),
        ({"$ref": "https://example.com"}, "any"),
        ({"enum": list("abcdefghij")}, "a|b|c|d|e|f|g|h|..."),
        (True, "any"),
        (None, "any"),
    ],
)
def test_a_type_has_a_readable_name(schema, name):
    assert type_name(schema, ROOT) == name


def test_a_key_given_twice_makes_a_list():
    schema = {"properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    assert read_tool_arguments("t", schema, ["n=1", "n=2"], None) == {"n": [1, 2]}


def test_additional_properties_are_read_as_json_or_text():
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert read_tool_arguments("t", schema, ["n=1"], None) == {"n": 1}


def test_a_value_may_contain_an_equals_sign():
    schema = {"properties": {"q": {"type": "string"}}}
    assert read_tool_arguments("t", schema, ["q=a=b:=c"], None) == {"q": "a=b:=c"}


def test_an_argument_without_a_key_is_refused():
    with pytest.raises(UsageError, match="'=1' is not an argument"):
        read_tool_arguments("t", {}, ["=1"], None)


def test_arguments_are_described_in_order():
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "string", "default": "x"}, "c": {}},
        "required": ["a"],
    }
    assert describe(schema) == ["a: integer", 'b: string = "x"', "c?: any"]
    assert describe({}) == []
