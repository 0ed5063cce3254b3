from typing import Any

import pytest

from accord.json_schema.reader import (
    admits,
    alternatives,
    declared_types,
    find_by_pointer,
    inline,
    likely_types,
    merge,
    merge_all_of,
    number_at,
    properties_of,
    required_names,
    resolve,
    type_of,
)
from support.tables import cases

ROOT: dict[str, Any] = {
    "$defs": {
        "name": {"type": "string", "maxLength": 5},
        "alias": {"$ref": "#/$defs/name"},
        "a/b": {"type": "null"},
        "100%": {"type": "boolean"},
        "circle": {"$ref": "#/$defs/circle"},
        "list": [{"type": "integer"}],
    }
}


@cases(
    ("schema", "resolved"),
    [
        ({"type": "integer"}, {"type": "integer"}),
        ({"$ref": "#/$defs/name"}, {"type": "string", "maxLength": 5}),
        ({"$ref": "#/$defs/alias"}, {"type": "string", "maxLength": 5}),
        ({"$ref": "#/$defs/name", "maxLength": 3}, {"type": "string", "maxLength": 3}),
        ({"$ref": "#/$defs/a~1b"}, {"type": "null"}),
        ({"$ref": "#/$defs/100%25"}, {"type": "boolean"}),
        ({"$ref": "#/$defs/list/0"}, {"type": "integer"}),
        ({"$ref": "#/$defs/list/1"}, {}),
        ({"$ref": "#/$defs/gone", "title": "x"}, {"title": "x"}),
        ({"$ref": "#/$defs/circle", "title": "x"}, {"title": "x"}),
        ({"$ref": "#anchor"}, {}),
        ({"$ref": "https://example.com/"}, {"$ref": "https://example.com/"}),
        (True, {}),
    ],
    ids=str,
)
def test_references_are_followed_within_the_root(schema, resolved):
    assert resolve(schema, ROOT) == resolved


def test_an_empty_pointer_is_the_whole_document():
    assert find_by_pointer(ROOT, "") is ROOT
    assert find_by_pointer(5, "/a") is None


def test_merging_adds_members_and_takes_the_last_of_other_keywords():
    one = {"properties": {"a": {}}, "required": ["a"], "title": "one"}
    other = {"properties": {"b": {}}, "required": ["b"], "title": "other"}
    assert merge([one, True, other]) == {
        "properties": {"a": {}, "b": {}},
        "required": ["a", "b"],
        "title": "other",
    }


def test_all_of_is_joined_with_the_rest():
    schema = {"title": "x", "allOf": [{"$ref": "#/$defs/name"}, {"minLength": 1}]}
    joined = {"title": "x", "type": "string", "maxLength": 5, "minLength": 1}
    assert merge_all_of(schema, ROOT) == joined
    assert merge_all_of({"type": "null"}, ROOT) == {"type": "null"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_alternatives_are_joined_with_the_rest(keyword):
    schema = {"title": "x", keyword: [{"$ref": "#/$defs/name"}, {"type": "null"}]}
    assert alternatives(schema, ROOT) == [
        {"title": "x", "type": "string", "maxLength": 5},
        {"title": "x", "type": "null"},
    ]
    assert alternatives({"type": "string"}, ROOT) == []


@cases(
    ("schema", "declared", "likely"),
    [
        ({"type": "string"}, ["string"], ["string"]),
        ({"type": ["string", "null", 5]}, ["string", "null"], ["string", "null"]),
        ({"type": "strin"}, ["strin"], []),
        ({"type": 5}, [], []),
        ({"required": ["a"]}, [], ["object"]),
        ({"properties": {}}, [], ["object"]),
        ({"items": {}}, [], ["array"]),
        ({"prefixItems": []}, [], ["array"]),
        ({}, [], []),
    ],
    ids=str,
)
def test_types_are_declared_or_suggested_by_keywords(schema, declared, likely):
    assert declared_types(schema) == declared
    assert likely_types(schema) == likely


def test_keywords_of_a_wrong_type_are_ignored():
    assert properties_of({"properties": []}) == {}
    assert required_names({"required": "a"}) == []
    assert required_names({"required": ["a", 5]}) == ["a"]
    assert number_at({"minimum": True}, "minimum") is None
    assert number_at({"minimum": 2.5}, "minimum") == 2.5


@cases(
    ("schema", "type_", "admitted"),
    [
        ({}, "string", True),
        ({"type": "string"}, "string", True),
        ({"type": ["string", "null"]}, "string", True),
        ({"type": "object"}, "string", False),
        ({"enum": [1, None, True, 1.5]}, "string", False),
        ({"enum": [[1], {}]}, "array", True),
        ({"anyOf": [{"type": "null"}, {"type": "array"}]}, "array", True),
        ({"$ref": "#/$defs/A"}, "object", True),
        ({"$ref": "#/$defs/A"}, "string", False),
    ],
    ids=str,
)
def test_a_schema_admits_types_of_values(schema: Any, type_: str, admitted: bool):
    assert admits(schema, [type_], {"$defs": {"A": {"type": "object"}}}) is admitted


@cases(
    ("value", "type_"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        ("", "string"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
    ],
)
def test_plain_data_has_a_json_type(value, type_):
    assert type_of(value) == type_


def test_a_reference_is_replaced_by_its_target():
    components = {"Leaf": {"type": "object", "title": "Leaf", "required": []}}
    schema = {"type": "array", "items": {"$ref": "#/$defs/Leaf", "description": "one"}}
    assert inline(schema, components) == {
        "type": "array",
        "items": {"type": "object", "description": "one"},
    }


def test_the_title_of_a_property_stays_unless_it_repeats_the_name():
    properties = {
        "row_number": {"type": "integer", "title": "Row Number"},
        "row": {"type": "integer", "title": "Row from the front"},
        "any": True,
    }
    assert inline({"properties": properties}, {}) == {
        "properties": {
            "row_number": {"type": "integer"},
            "row": {"title": "Row from the front", "type": "integer"},
            "any": True,
        }
    }


def test_data_in_a_schema_is_not_taken_for_a_schema():
    schema = {"default": {"$ref": "#/$defs/x"}, "enum": [{"title": "a"}]}
    assert inline(schema, {}) == schema


def test_a_choice_gets_the_type_of_its_values():
    assert inline({"enum": ["a"]}, {})["type"] == "string"
    assert inline({"enum": [1]}, {})["type"] == "integer"
    assert "type" not in inline({"enum": [1, "a"]}, {})


def test_the_outermost_schema_is_not_a_reference():
    components = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    schema = inline({"$ref": "#/$defs/Node"}, {"1.Node": components["Node"]} | components)
    assert schema["type"] == "object"
    assert "$defs" in schema


def test_two_recursive_types_of_one_name_stay_apart():
    components = {
        "1.Tree": {"type": "array", "items": {"$ref": "#/$defs/1.Tree"}},
        "2.Tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/2.Tree"}},
    }
    schema = inline({"anyOf": [{"$ref": "#/$defs/1.Tree"}, {"$ref": "#/$defs/2.Tree"}]}, components)
    assert schema["anyOf"] == [{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Tree2"}]
    assert set(schema["$defs"]) == {"Tree", "Tree2"}
