import builtins

import pytest

from accord_tools.inspector.forms import errors
from accord_tools.inspector.forms.errors import MOST_ERRORS, find_errors, parse_text
from support.tables import cases

PETS = {
    "oneOf": [
        {"$ref": "#/$defs/Cat"},
        {"$ref": "#/$defs/Dog"},
    ],
    "$defs": {
        "Cat": {
            "type": "object",
            "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
            "required": ["kind", "lives"],
        },
        "Dog": {
            "type": "object",
            "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}},
            "required": ["kind", "name"],
        },
    },
}


def listed(schema, text):
    return {each.pointer: each.message for each in find_errors(schema, parse_text(text))}


def test_all_errors_are_found_with_their_places():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "maximum": 10},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "l/1": {"type": "array", "items": {"type": "string"}, "minItems": 2},
        },
        "required": ["y", "z"],
        "additionalProperties": False,
    }
    assert listed(schema, '{"a": 1e400, "b": 3, "__proto__": 1, "l/1": [1]}') == {
        "/y": "is missing",
        "/z": "is missing",
        "/a": "expected at most 10, got an integer (100000000000000000000000000000000000...)",
        "/b": "expected a string or null, got an integer (3)",
        "/l~11": "expected at least 2 items, got 1",
        "/l~11/0": "expected a string, got an integer (1)",
        "/__proto__": "is not in the schema, which allows no other members",
    }
    assert listed(schema, '{"y": 1, "z": 1}').keys() == {"/y", "/z"}


@cases(
    ("schema", "text", "message"),
    [
        ({"type": ["integer", "null"]}, '"x"', 'expected an integer or null, got a string ("x")'),
        ({"enum": [1, 2]}, "3", "expected one of 1, 2, got an integer (3)"),
        ({"enum": [*range(20)]}, '"a"', "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..., got"),
        ({"const": {"a": 1}}, "3", 'expected {"a":1}, got an integer (3)'),
        ({"minimum": 3}, "1", "expected at least 3, got an integer (1)"),
        ({"exclusiveMinimum": 3}, "3", "expected more than 3, got"),
        ({"exclusiveMaximum": 3}, "3", "expected less than 3, got"),
        ({"multipleOf": 3}, "4", "expected a multiple of 3, got"),
        ({"minLength": 1}, '""', "expected at least 1 character, got 0"),
        ({"maxLength": 2}, '"abc"', "expected at most 2 characters, got 3"),
        ({"pattern": "^a"}, '"b"', "expected text that matches ^a, got"),
        ({"uniqueItems": True}, "[1, 1]", "has the same item more than once"),
        ({"contains": {"type": "string"}}, "[1]", "lacks an item"),
        ({"not": {}}, "1", "fits a schema that it must not fit"),
        (False, "1", "no value fits here"),
        ({"propertyNames": {"pattern": "^a"}}, '{"b": 1}', "the name of a member does not fit"),
        ({"minProperties": 1}, "{}", "expected at least 1 member, got 0"),
        ({"prefixItems": [True], "unevaluatedItems": False}, "[1, 2]", "has more items"),
        ({"oneOf": [{}, {}]}, "1", "fits several of the options, but must fit exactly one"),
        ({"anyOf": [{"enum": ["a"]}, {"const": 1}]}, "2", 'expected "a" or 1, got an integer (2)'),
        (
            {"anyOf": [{"minLength": 3}, {"pattern": "^x"}]},
            '"a"',
            "fits none of the 2 options; the closest one: expected at least 3 characters, got 1",
        ),
    ],
    ids=str,
)
def test_an_error_is_a_sentence(schema, text, message):
    (found,) = find_errors(schema, parse_text(text))
    assert (found.pointer, found.message[: len(message)]) == ("", message)


@cases(
    ("text", "found"),
    [
        ('{"kind": "cat", "lives": 9}', {}),
        ('{"kind": "cat", "lives": "9"}', {"/lives"}),
        ('{"kind": "dog"}', {"/name"}),
        ('{"kind": "cow"}', {"/kind"}),
        ("{}", {""}),
        ("5", {""}),
    ],
)
def test_the_errors_of_a_union_are_those_of_the_option_that_was_meant(text, found):
    assert listed(PETS, text).keys() == set(found)


def test_the_closest_option_is_named_with_its_place():
    assert "the closest one at /kind: is missing" in listed(PETS, "{}")[""]


def test_a_fault_without_a_sentence_of_its_own_is_in_the_words_of_the_validator():
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "string",
        "contentEncoding": "base64",
    }
    (found,) = find_errors(schema, "?")
    assert "base64" in found.message


def test_errors_are_bounded_and_the_others_counted():
    schema = {"items": {"type": "string"}}
    found = find_errors(schema, list(range(MOST_ERRORS + 7)))
    assert len(found) == MOST_ERRORS + 1
    assert found[-1].message == "there are 7 more errors"


def test_a_value_with_too_many_errors_to_list_gets_the_first():
    (found,) = find_errors({"items": {"type": "string"}}, list(range(30_000)))
    assert found.message.startswith("at /0: ")
    assert found.message.endswith("(there may be more errors)")
    assert find_errors({"items": {"type": "integer"}}, list(range(30_000))) == []


def test_a_long_message_is_cut():
    (found,) = find_errors({"pattern": "a" * 1_000}, "b")
    assert len(found.message) < 400


@cases("schema", [{"type": "strin"}, {"$ref": "https://example.com/x"}, {"$ref": "#"}, 5], ids=str)
def test_a_schema_that_cannot_be_used_is_one_error(schema):
    (found,) = find_errors(schema, {})
    assert "the schema cannot be used" in found.message


@pytest.fixture
def without_validator(monkeypatch):
    from accord.json_schema import validation

    real = builtins.__import__

    def refuse(name, *args, **facts):
        if name == "jsonschema_rs":
            raise ImportError(name)
        return real(name, *args, **facts)

    validation._compile.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    yield
    validation._compile.cache_clear()


@pytest.mark.usefixtures("without_validator")
@cases(
    ("schema", "value", "found"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, ["/a"]),
        ({"type": "integer"}, 1, []),
        (True, 1, []),
        (False, 1, [""]),
        ({"multipleOf": 0.5}, 10**400, [""]),
    ],
)
def test_one_error_is_found_without_the_validator(schema, value, found):
    assert [each.pointer for each in errors.find_errors(schema, value)] == found
