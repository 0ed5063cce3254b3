import resource
import sys

import pytest

from accord.errors import MissingExtra
from accord.json_schema import validation
from accord.json_schema.validation import compile_for_lists, compile_schema
from support.tables import cases

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
}


@cases(
    ("instance", "wrong"),
    [
        ({"x": 1}, None),
        ({"x": 1, "more": True}, None),
        ({}, 'at the top: "x" is a required property'),
        ({"x": "1"}, 'at /x: "1" is not of type "integer"'),
        ({"x": 1, "tags": ["a", 2]}, 'at /tags/1: 2 is not of type "string"'),
        (5, 'at the top: 5 is not of type "object"'),
    ],
    ids=str,
)
def test_an_error_names_its_place(instance, wrong):
    assert compile_schema(POINT)(instance) == wrong


def test_a_schema_without_a_dialect_is_read_as_2020_12():
    validate = compile_schema({"prefixItems": [{"type": "string"}]})
    assert validate([5]) is not None


def test_the_dialect_named_by_the_schema_is_used():
    validate = compile_schema(
        {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "string"}]}
    )
    assert validate([5]) is None


@cases(
    ("schema", "why"),
    [
        ({"type": "strin"}, "not valid"),
        ({"properties": 5}, "not of type"),
        ({"pattern": "("}, "regex"),
        (5, "not of types"),
        (None, "not of types"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"$ref": "https://example.com/schema"}, "refers to https://example.com/schema"),
        ({"$ref": "other.json"}, "other.json"),
        ({"$schema": "https://example.com/dialect"}, "Unknown meta-schema"),
        ({"$id": "http://[::", "type": "object"}, "Invalid URI"),
    ],
    ids=str,
)
def test_a_schema_that_cannot_be_used_says_why_every_time(schema, why):
    for _ in range(2):
        with pytest.raises(ValueError) as caught:
            compile_schema(schema)
        assert why in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_error_that_is_kept_does_not_grow():
    depths = []
    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            compile_schema({"type": "nothing"})
        depths.append(len(caught.traceback))
    assert len(set(depths[1:])) == 1


def test_a_schema_is_compiled_once_however_its_members_are_ordered():
    first = compile_schema({"type": "string", "maxLength": 3})
    assert compile_schema({"maxLength": 3, "type": "string"}) is first


def test_an_instance_that_nests_too_deep_is_not_valid():
    instance: list = []
    for _ in range(600):
        instance = [instance]
    wrong = compile_schema({"type": "object"})(instance)
    assert wrong == "cannot be validated: recursion limit reached"


def test_without_a_validator_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    validation._compile.cache_clear()
    with pytest.raises(MissingExtra, match="the extra 'schema'"):
        compile_schema({"type": "string"})


def test_a_schema_that_is_refused_for_its_cost_says_why_every_time():
    for _ in range(2):
        with pytest.raises(ValueError, match="it is refused: the reference '#' leads back to"):
            compile_schema({"allOf": [{"$ref": "#"}]})


def test_an_instance_that_takes_too_long_is_not_decided():
    schema = {"items": {"enum": [{"a": n} for n in range(1_000)]}}
    wrong = compile_schema(schema)([{"a": -1}] * 100_000)
    assert (
        wrong == "cannot be validated: the schema and the size of the value make it take too long"
    )


def test_of_many_errors_only_the_first_is_made():
    validate = compile_schema({"items": {"type": "string"}})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert validate([0] * 500_000) == 'at /0: 0 is not of type "string"'
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1_024


def test_a_pattern_that_backtracks_without_end_is_given_up():
    assert compile_schema({"pattern": r"(?:(x+)+\1)+y"})("x" * 60) is not None


def test_all_errors_are_listed():
    found = compile_for_lists(POINT)({"x": "1", "tags": ["a", 2]})
    assert {tuple(each.instance_path) for each in found} == {("x",), ("tags", 1)}
    assert compile_for_lists(POINT)({"x": 1}) == []


def test_a_list_of_errors_that_takes_long_is_not_made():
    assert compile_for_lists({"items": {"type": "string"}})([0] * 30_000) is None
    assert compile_for_lists({"type": "string"})("\ud800") is None


def test_a_schema_that_cannot_be_used_lists_no_errors():
    with pytest.raises(ValueError, match="not valid"):
        compile_for_lists({"type": "strin"})
