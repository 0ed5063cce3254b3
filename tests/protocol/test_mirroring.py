"""Headers that repeat parts of a request (http.headers.*, http.param-headers.*)."""

import pytest

from accord.protocol.mirroring import (
    MirroredArgument,
    decode_header,
    encode_header,
    find_annotations,
    find_mismatch,
    mirror_arguments,
    mirrored_arguments,
    name_to_mirror,
)
from support.tables import cases

REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def schema_of(**properties):
    return {"type": "object", "properties": properties}


@cases(
    ("value", "header"),
    [
        ("eu-1", "eu-1"),
        ("two words", "two words"),
        ("", ""),
        (42, "42"),
        (42.0, "42"),
        (True, "true"),
        (False, "false"),
        ("två", "=?base64?dHbDpQ==?="),
        (" x", "=?base64?IHg=?="),
        ("x ", "=?base64?eCA=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("a\tb", "=?base64?YQli?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("=?BASE64?x?=", "=?BASE64?x?="),
    ],
)
def test_values_are_encoded_where_a_header_cannot_carry_them(value, header):
    # http.param-headers.value.string-forms, .base64-when-unsafe, .sentinel-escaped
    assert encode_header(value) == header
    if isinstance(value, str):
        assert decode_header(header) == value


@cases(
    ("header", "value"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("  padded  ", "padded"),
        ("=?base64?SGVsbG8?=", None),
        ("=?base64?SGVs!!!bG8=?=", None),
        ("=?base64?/w==?=", None),
        ("=?base64?=", "=?base64?="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("å", None),
        ("a\x07", None),
    ],
)
def test_headers_are_decoded_by_their_exact_markers(header, value):
    # http.headers.decode-before-compare, http.param-headers.value.markers-exact
    assert decode_header(header) == value


def test_mirrored_arguments_are_found_by_their_path_of_properties():
    # http.param-headers.exact-path
    nested = schema_of(
        place=schema_of(zone={"type": ["integer", "null"], "x-mcp-header": "Zone"}),
        plain={"type": "string", "default": {"x-mcp-header": "not a schema"}},
    )
    (found,) = mirrored_arguments(nested)
    assert found == MirroredArgument("Mcp-Param-Zone", ("place", "zone"))
    assert mirror_arguments((found,), {"place": {"zone": 7}, "zone": 8}) == {"Mcp-Param-Zone": "7"}
    assert mirror_arguments((found,), {"place": {"zone": None}}) == {}
    assert mirror_arguments((found,), {"place": 5}) == {}
    assert mirrored_arguments(True) == ()


@cases(
    ("schema", "why"),
    [
        (schema_of(a={"type": "string", "x-mcp-header": ""}), "is not an HTTP token"),
        (schema_of(a={"type": "string", "x-mcp-header": 5}), "is not an HTTP token"),
        (schema_of(a={"type": "string", "x-mcp-header": "two words"}), "is not an HTTP token"),
        (schema_of(a={"type": "number", "x-mcp-header": "A"}), "expected string, integer"),
        (schema_of(a={"x-mcp-header": "A"}), "expected string, integer"),
        (
            schema_of(
                a={"type": "string", "x-mcp-header": "A"},
                b={"type": "string", "x-mcp-header": "a"},
            ),
            "is used twice",
        ),
        (
            schema_of(a={"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
            "not reached through properties",
        ),
        (
            {"anyOf": [schema_of(a={"type": "string", "x-mcp-header": "A"})]},
            "not reached through properties",
        ),
    ],
)
def test_annotations_that_break_a_rule_are_refused_with_their_place(schema, why):
    # tools.x-mcp-header.not-empty, .token-syntax, .primitive-only, .unique, .statically-reachable
    with pytest.raises(ValueError, match=why) as caught:
        mirrored_arguments(schema)
    assert "inputSchema" in str(caught.value)


def test_schemas_that_nest_without_end_are_not_followed_for_ever():
    schema: dict = {}
    schema["not"] = schema
    assert find_annotations(schema) == []


@cases(
    ("arguments", "headers", "mismatch"),
    [
        ({"region": "eu"}, {"mcp-param-region": "eu"}, None),
        ({"region": "två"}, {"mcp-param-region": "=?base64?dHbDpQ==?="}, None),
        ({}, {"mcp-param-region": "eu"}, None),
        ({"region": None}, {}, None),
        ({"region": "eu"}, {}, "Mcp-Param-Region is missing"),
        ({"region": "eu"}, {"mcp-param-region": "EU"}, "differs from the argument region"),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8?="}, "is malformed"),
        ({"region": 42}, {"mcp-param-region": "42.0"}, None),
        ({"region": 42}, {"mcp-param-region": "forty"}, "differs"),
        ({"region": True}, {"mcp-param-region": "1"}, "differs"),
        ({"region": True}, {"mcp-param-region": "true"}, None),
    ],
)
def test_headers_are_compared_with_the_arguments(arguments, headers, mismatch):
    # http.param-headers.match-validated, .missing-with-value-rejected,
    # .server-not-expected-without-value, http.headers.integers-compared-numerically
    found = find_mismatch(mirrored_arguments(REGION), arguments, headers)
    assert found is None if mismatch is None else mismatch in (found or "")


@cases(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add"}, "add"),
        ("resources/read", {"uri": "note://a"}, "note://a"),
        ("tasks/get", {"taskId": "t"}, "t"),
        ("tools/list", {"name": "add"}, None),
        ("tools/call", {}, None),
        ("tools/call", None, None),
    ],
)
def test_the_name_of_a_request_is_a_member_of_its_params(method, params, name):
    # http.headers.mcp-name
    assert name_to_mirror(method, params) == name
