"""Samples: a plain value that fits a schema, and short durations."""

from typing import Any

from accord.json_schema.validation import compile_schema
from accord_tools.arguments.samples import sample, short_durations
from support.tables import cases

NAME = {"$defs": {"name": {"type": "string", "minLength": 6}}}


@cases(
    "schema",
    [
        {"const": 5},
        {"default": 7},
        {"examples": ["a"]},
        {"enum": ["x", "y"]},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["null", "integer"], "minimum": 3},
        {"type": "integer", "maximum": -2},
        {"type": "integer", "exclusiveMinimum": 4, "multipleOf": 3},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "number", "exclusiveMaximum": 0},
        {"type": "string", "format": "date"},
        {"type": "string", "maxLength": 2},
        {"type": "string", "pattern": r"^\d{5}$"},
        {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}$", "minLength": 8},
        {"type": "number", "minimum": 0.5, "exclusiveMaximum": 1},
        {"type": "number", "minimum": 10, "maximum": 11, "multipleOf": 5.5},
        {"type": "integer", "minimum": 1.5},
        {"type": "integer", "maximum": 7, "minimum": 5, "multipleOf": 3},
        {"type": "array", "minItems": 2, "items": {"type": "integer"}},
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "integer"}},
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"enum": ["a", "b", "c"]}},
        {"minItems": 2, "uniqueItems": True, "items": {"type": "string", "maxLength": 3}},
        {"minItems": 2, "uniqueItems": True, "items": {"type": "string", "pattern": "^[a-z]+$"}},
        {"type": "array", "contains": {"const": 5}, "minContains": 2},
        {"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^x[a-z]$"}},
        {"properties": {"a": {}}, "required": ["a"], "dependentRequired": {"a": ["b"]}},
        {"required": ["a"], "dependentRequired": {"a": ["b"], "b": ["a"]}},
        {"type": "integer", "multipleOf": 5, "maximum": 3},
        {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        {"properties": {"a": {"type": "integer"}, "b": True}, "required": ["a"]},
        {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 2},
        {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        {"allOf": [{"$ref": "#/$defs/name"}, {"maxLength": 8}], **NAME},
        {"$ref": "#/$defs/name", **NAME},
        {},
    ],
    ids=str,
)
def test_a_sample_fits_its_schema(schema: dict[str, Any]):
    assert compile_schema(schema)(sample(schema)) is None


def test_a_pattern_that_is_not_read_leaves_a_plain_text():
    assert sample({"type": "string", "pattern": "(?=a)a", "minLength": 6}) == "textxx"


def test_null_is_not_chosen_if_there_is_another_type():
    assert sample({"anyOf": [{"type": "null"}, {"type": "integer"}]}) == 1
    assert sample({"oneOf": [{"type": "null"}]}) is None


def test_a_reference_that_leads_outside_or_in_a_circle_ends():
    assert sample({"$ref": "https://example.com/"}) == "text"
    assert sample({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})


def test_true_allows_any_value_and_false_none():
    assert sample(True) == "text"
    assert sample(False) is None


@cases(
    ("name", "rule", "duration"),
    [
        ("seconds", {"type": "number"}, 0.2),
        ("delayMs", {"type": "integer"}, 200),
        ("delay_ms", {"type": "integer", "maximum": 50}, 1),
        ("duration", {"type": "integer"}, 1),
        ("seconds", {"type": "number", "minimum": 5, "default": 60}, 5),
    ],
)
def test_durations_are_short_within_their_limits(name, rule, duration):
    assert short_durations({"properties": {name: rule}}) == {name: duration}


def test_durations_can_be_longer():
    properties = {"seconds": {"type": "number", "maximum": 2}, "delayMs": {"type": "integer"}}
    longer = short_durations({"properties": properties}, times=8)
    assert longer == {"seconds": 1.6, "delayMs": 1600}


def test_other_parameters_get_no_duration():
    properties = {"name": {"type": "number"}, "seconds": {"type": "string"}, "delay": True}
    assert short_durations({"properties": properties}) == {}
    assert short_durations(True) == {}
