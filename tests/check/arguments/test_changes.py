"""Changes of valid arguments: what they keep, and what refuses them."""

import pytest

from accord_tools.arguments.samples import (
    fits,
    nested_arguments,
    other_value,
    plain_mistake,
    refused_by_dialect,
    refuses,
)

TREE = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/T"}},
    "$defs": {
        "T": {
            "type": "object",
            "properties": {
                "n": {"const": 1},
                "next": {"type": "array", "items": {"$ref": "#/$defs/T"}},
            },
            "required": ["n"],
        }
    },
}


def test_an_invalid_schema_neither_allows_nor_refuses():
    assert not fits({"type": "no type"}, 1)
    assert not refuses({"type": "no type"}, 1)


@pytest.mark.parametrize(
    ("rule", "value", "other"),
    [
        ({"enum": ["a", "b"]}, "a", "b"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "a", "b"),
        ({"type": "boolean"}, True, False),
        ({"type": "integer", "maximum": 1}, 1, 0),
        ({"type": "string"}, "x", "xa"),
        ({"const": 1}, 1, None),
    ],
)
def test_another_value_differs_in_one_member_and_fits(rule, value, other):
    schema = {"type": "object", "properties": {"m": rule}}
    expected = None if other is None else {"m": other, "kept": 1}
    assert other_value(schema, {"m": value, "kept": 1}) == expected


def test_arguments_are_refused_by_keywords_of_one_dialect_alone():
    schema = {
        "type": "object",
        "properties": {"l": {"type": "array", "prefixItems": [{"type": "null"}]}},
    }
    made = list(refused_by_dialect(schema, {"l": [None]}))
    assert made
    assert all(refuses(schema, each) for each in made)
    without = {"type": "object", "properties": {"l": {"type": "array"}}}
    assert all(fits(without, each) for each in made)


def test_a_plain_mistake_is_refused_in_every_dialect():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert refuses(schema, plain_mistake(schema, {"n": 1}))
    assert plain_mistake({**schema, "required": ["n"]}, {"n": 1}) == {}
    assert plain_mistake({"type": "object"}, {}) is None


def test_nested_arguments_fit_as_deep_as_asked():
    made = nested_arguments(TREE, {}, 3)
    assert made == {"tree": {"n": 1, "next": [{"n": 1, "next": [{"n": 1, "next": [{"n": 1}]}]}]}}
    assert fits(TREE, made)
    assert nested_arguments({"type": "object"}, {}, 3) is None
