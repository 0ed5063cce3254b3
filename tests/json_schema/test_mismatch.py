"""Values that do not fit a schema are explained in words."""

from typing import Any

import pytest

from accord.json_schema.mismatch import explain, path_text
from support.tables import cases


@cases(
    ("schema", "value", "path", "reason"),
    [
        ({"const": "a"}, "b", "", 'expected "a", got a string ("b")'),
        ({"enum": [1]}, True, "", "expected 1, got a boolean (true)"),
        ({"type": "number"}, 1, None, None),
        ({"type": "integer"}, 2.0, None, None),
        ({"type": ["integer", "null"]}, "a", "", 'expected an integer or null, got a string ("a")'),
        (True, "anything", None, None),
        ({"allOf": [{"minimum": 3}]}, 2, "", "expected at least 3, got an integer (2)"),
        ({"additionalProperties": False}, {"a": 1}, "a", "is not known"),
        ({"format": "email"}, "not checked", None, None),
        ({"format": "uuid"}, "x", "", 'expected a UUID, got a string ("x")'),
        ({"pattern": "(?<a"}, "x", None, None),
        ({"multipleOf": 0.1}, 0.3, None, None),
        ({"multipleOf": 0}, 1, "", "expected a multiple of 0, got an integer (1)"),
        ({"contentEncoding": "quoted-printable"}, "=", None, None),
        ({"maxProperties": 0}, {"a": 1}, "", "expected at most 0 members, got an object"),
        ({"enum": list("abcdefghijkl")}, 1, "", None),
        (
            {"oneOf": [{"type": "object", "required": ["k"]}, {"type": "null"}]},
            {},
            "k",
            "is missing",
        ),
        (
            {"anyOf": [{"const": 1}, {"const": 2}]},
            3,
            "",
            "expected 1 or 2, got an integer (3)",
        ),
        (
            {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
            ["a", "b"],
            "[1]",
            'expected an integer, got a string ("b")',
        ),
        (
            {
                "anyOf": [
                    {"type": "object", "properties": {"t": {"const": "a"}, "n": {"type": "null"}}},
                    {
                        "type": "object",
                        "properties": {"t": {"const": "b"}, "m": {"items": {"type": "null"}}},
                    },
                ]
            },
            {"t": "b", "m": [1]},
            "m[0]",
            "expected null, got an integer (1)",
        ),
        ({"anyOf": [{}]}, 1, None, None),
        ({"type": "integer"}, 10**60, None, None),
        (
            {"type": "string"},
            10**60,
            "",
            f"expected a string, got an integer (1{'0' * 35}...)",
        ),
    ],
    ids=str,
)
def test_the_first_mismatch_is_explained(
    schema: Any, value: Any, path: str | None, reason: str | None
):
    found = explain(schema, value)
    if path is None:
        assert found is None
    else:
        assert path_text(found.path) == path
        assert reason is None or found.reason == reason


def test_long_choices_are_cut():
    found = explain({"enum": list("abcdefghijkl")}, 1)
    assert found.reason.startswith('expected one of "a", "b"')
    assert '"j", ..., got' in found.reason


TAGGED = {
    "anyOf": [
        {"type": "object", "properties": {"x": True, "t": {"const": "a"}}, "required": ["t"]},
        {"type": "object", "properties": {"t": {"enum": ["b", "c"]}}, "required": ["t"]},
    ]
}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({}, "t", "is missing"),
        ({"t": "d"}, "t", 'expected one of "a", "b", "c", got a string ("d")'),
    ],
)
def test_the_tag_of_a_union_decides_which_member_is_explained(value, path, reason):
    found = explain(TAGGED, value)
    assert (path_text(found.path), found.reason) == (path, reason)


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"minimum": 1}, {"maximum": 3}]},
        {"anyOf": [{"properties": {"a": True}}, {"properties": {"a": {"const": 1}}}]},
    ],
)
def test_values_that_fit_every_part_have_no_mismatch(schema):
    assert explain(schema, 2) is None


def test_objects_and_arrays_that_fit_have_no_mismatch():
    schema = {"required": ["a"], "properties": {"a": {"items": {"type": "string"}}}}
    assert explain(schema, {"a": ["x", "y"], "b": 1}) is None


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"format": "date", "type": "string"}, 5, "expected a date like 2024-12-31, got an int"),
        ({"contentEncoding": "base64", "type": "string"}, 5, "expected base64 text, got an int"),
        ({"contentEncoding": "base64"}, "=", "expected base64 text, got a string"),
    ],
)
def test_formats_are_described_by_an_example(schema, value, reason):
    assert explain(schema, value).reason.startswith(reason)


def test_base64_text_fits():
    assert explain({"contentEncoding": "base64"}, "AAAA") is None
