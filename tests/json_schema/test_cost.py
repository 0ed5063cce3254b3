"""The cost of validation is estimated before: endless schemas are refused, usual ones pass."""

import pytest

from accord.json_schema.cost import Cost, SchemaRefused
from support.tables import cases

TOO_LONG = "the schema and the size of the value make it take too long"


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


def chain(length, link, last=None):
    """Return definitions each of which is made from the next."""
    found = {f"a{n}": link(ref(f"a{n + 1}")) for n in range(length)}
    return {**ref("a0"), "$defs": {**found, f"a{length}": last or {}}}


def nested(depth, around=lambda inner: {"x": inner}):
    value = {}
    for _ in range(depth):
        value = around(value)
    return value


# -- refused whatever the instance

LOOPS = {
    "a reference": {"$ref": "#"},
    "allOf": {"allOf": [{"$ref": "#"}]},
    "not": {"not": {"$ref": "#"}},
    "if": {"if": {"$ref": "#"}},
    "then": {"if": {}, "then": {"$ref": "#"}},
    "dependentSchemas": {"dependentSchemas": {"a": {"$ref": "#"}}},
    "dependencies": {"dependencies": {"b": ["a"], "a": {"$ref": "#"}}},
    "two definitions": {**ref("a"), "$defs": {"a": ref("b"), "b": {"anyOf": [ref("a")]}}},
    "below a property": {"properties": {"x": ref("a")}, "$defs": {"a": ref("a")}},
    "an anchor": {"$anchor": "top", "oneOf": [{"$ref": "#top"}]},
    "an older anchor": {"id": "#top", "oneOf": [{"$ref": "#top"}]},
    "a dynamic reference": {"$dynamicAnchor": "top", "allOf": [{"$dynamicRef": "#top"}]},
    "a recursive reference": {"$recursiveAnchor": True, "allOf": [{"$recursiveRef": "#"}]},
    "an id": {"$id": "https://a.example/b", "allOf": [{"$ref": "b"}]},
    "an embedded id": {
        "$ref": "inner",
        "$id": "https://a.example/",
        "$defs": {"a": {"$id": "inner", "allOf": [{"$ref": "#"}]}},
    },
    "an escaped pointer": {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"$ref": "#"}}},
    "a pointer into a list": {"allOf": [{"allOf": [{"$ref": "#/allOf/0"}]}]},
}


@cases("what", LOOPS)
def test_a_loop_that_takes_nothing_of_the_value_is_refused(what):
    with pytest.raises(SchemaRefused, match="leads back to itself and takes no part of the value"):
        Cost(LOOPS[what])


@cases(
    "link",
    [
        lambda following: {"allOf": [following, following]},
        lambda following: {"anyOf": [following], "oneOf": [following]},
        lambda following: {"if": following, "then": following, "else": following},
        lambda following: {"dependentSchemas": {"a": following, "b": following}},
        lambda following: {"allOf": [following], "unevaluatedProperties": False},
        lambda following: {"allOf": [following], "unevaluatedItems": {"type": "string"}},
    ],
    ids=["allOf", "anyOf and oneOf", "if", "dependentSchemas", "properties", "items"],
)
def test_definitions_that_double_are_refused(link):
    with pytest.raises(SchemaRefused, match="expand to more than 1000000 subschemas"):
        Cost(chain(40, link))


def test_a_long_chain_of_references_is_refused():
    with pytest.raises(SchemaRefused, match="more than 64 subschemas apply to one value"):
        Cost(chain(100, lambda following: {"allOf": [following]}))


def test_too_many_definitions_are_refused():
    with pytest.raises(SchemaRefused, match="refers to more than 1000 definitions"):
        Cost(chain(3_000, lambda following: {"properties": {"x": following}}))


def test_too_many_subschemas_are_refused():
    with pytest.raises(SchemaRefused, match="more than 20000 subschemas"):
        Cost({"properties": {str(n): {"type": "string"} for n in range(25_000)}})


@cases(
    "schema",
    [
        {"pattern": "(a{1,1000}){1,1000}b{2}"},
        {"pattern": "a{99999999999999999999}"},
        {"allOf": [{"pattern": "[ab]{1000}" + "x" * n} for n in range(1_000)]},
        {"patternProperties": {"(a{1000}){1001}": {}}},
    ],
    ids=["nested", "not a number", "many", "for names"],
)
def test_patterns_that_take_long_to_compile_are_refused(schema):
    with pytest.raises(SchemaRefused, match="patterns of more than 1000000 atoms"):
        Cost(schema)


# -- depends on the instance

TWICE = chain(
    40, lambda each: {"allOf": [{"properties": {"x": each}}, {"properties": {"x": each}}]}
)
TWICE_FOR_EVER = {"allOf": [{"properties": {"x": {"$ref": "#"}}} for _ in range(2)]}
TWICE_IN_ARRAYS = {"allOf": [{"items": {"$ref": "#"}}, {"contains": {"$ref": "#"}}]}
BY_PATTERN = {
    "patternProperties": {"^x": {"$ref": "#"}},
    "unevaluatedProperties": {"$ref": "#"},
}


@cases(
    ("schema", "around"),
    [
        (TWICE, lambda inner: {"x": inner}),
        (TWICE_FOR_EVER, lambda inner: {"x": inner}),
        (TWICE_IN_ARRAYS, lambda inner: [inner]),
        (TWICE_IN_ARRAYS, lambda inner: (inner,)),
        (BY_PATTERN, lambda inner: {"x": inner}),
    ],
    ids=["definitions", "recursion", "arrays", "tuples", "patterns"],
)
def test_a_schema_that_doubles_with_each_level_is_refused_for_deep_instances(schema, around):
    cost = Cost(schema)
    assert cost.excess(nested(10, around)) is None
    assert cost.excess(nested(40, around)) == TOO_LONG


def test_many_values_under_a_costly_schema_are_refused():
    cost = Cost({"items": {"allOf": [{"type": "integer"}] * 1_000}})
    assert cost.excess([0] * 1_000) is None
    assert cost.excess([0] * 100_000) == TOO_LONG


def test_values_are_counted_where_their_size_alone_would_be_too_much():
    cost = Cost({"items": {"allOf": [{"type": "string"}] * 1_000}})
    assert cost.excess(["x" * 100_000]) is None
    assert cost._per_value == (1_001, 1_001)


def test_a_pattern_on_long_texts_is_refused():
    cost = Cost({"items": {"pattern": "[01]*1[01]{5000}x"}})
    assert cost.excess(["01" * 10_000]) is None
    assert cost.excess(["01" * 1_000_000]) == TOO_LONG
    # Elsewhere the text may be as long as it likes.
    assert cost.excess({"text": "01" * 1_000_000}) is None


def test_a_pattern_for_long_names_is_refused():
    cost = Cost({"patternProperties": {"[01]*1[01]{5000}x": {}}})
    assert cost.excess({"01" * 1_000_000: 1}) == TOO_LONG


def test_a_schema_for_names_counts_for_each_name():
    cost = Cost({"propertyNames": {"enum": [[n] for n in range(10_000)]}})
    assert cost.excess({str(n): 0 for n in range(100)}) is None
    assert cost.excess({str(n): 0 for n in range(10_000)}) == TOO_LONG


@pytest.mark.parametrize(
    "schema",
    [{"pattern": "^(?=x)y"}, {"format": "regex"}, {"const": [0] * 30_000}],
    ids=["lookahead", "format", "const"],
)
def test_keywords_that_take_long_count_for_more(schema):
    cost = Cost({"items": schema})
    assert cost.excess(["x"] * 50) is None
    assert cost.excess(["x"] * 20_000) == TOO_LONG


def test_an_instance_that_takes_too_long_to_estimate_is_refused():
    cost = Cost(TWICE_IN_ARRAYS)
    assert cost.excess([1] * 1_100_000) == TOO_LONG


def test_a_meta_schema_counts_for_the_whole_value():
    cost = Cost(
        {"properties": {"schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}
    )
    assert cost.excess({"schema": {"type": "object"}, "other": [0] * 1_000_000}) is None
    assert cost.excess({"schema": {"enum": [0] * 1_000_000}}) == TOO_LONG


def test_each_position_counts_its_own_subschemas():
    older = {"items": [{"type": "string"}, {"$ref": "#"}], "additionalItems": {"$ref": "#"}}
    newer = {"prefixItems": [{"type": "string"}, {"$ref": "#"}], "items": {"$ref": "#"}}
    for schema in (older, newer):
        cost = Cost(schema)
        assert cost.excess(["x", ["x", []], ["y"]]) is None
        assert cost.excess(nested(60, lambda inner: ["x", inner])) == TOO_LONG


@cases("value", [10**30, {1: 2}, object(), {"x": {1, 2}}], ids=["integer", "key", "object", "set"])
def test_values_that_are_not_json_are_walked_through(value):
    assert Cost({"additionalProperties": {"type": "string"}}).excess(value) is None


# -- honest schemas

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "left": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
                "right": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            },
        }
    },
}
ANY_JSON = {
    "anyOf": [
        {"type": ["string", "number", "boolean", "null"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "additionalProperties": {"$ref": "#"}},
    ]
}
EXPRESSION = {
    "anyOf": [
        {"type": "number"},
        *[
            {
                "properties": {
                    "op": {"const": op},
                    "left": {"$ref": "#"},
                    "right": {"$ref": "#"},
                }
            }
            for op in ("add", "multiply")
        ],
    ]
}
EXTENSIBLE = {
    "$id": "https://a.example/strict",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "properties": {"children": {"items": {"$dynamicRef": "#node"}}},
        }
    },
}


@pytest.mark.parametrize("schema", [TREE, ANY_JSON], ids=["a tree", "any JSON"])
def test_recursive_schemas_that_meet_each_value_a_few_times_are_bounded(schema):
    visits, _ = Cost(schema)._per_value
    assert visits <= 10


@cases(
    ("schema", "around"),
    [
        (TREE, lambda inner: {"left": inner, "right": None, "tags": ["a"]}),
        (ANY_JSON, lambda inner: [inner, {"a": 1}]),
        (EXPRESSION, lambda inner: {"op": "add", "left": inner, "right": 1}),
        (EXTENSIBLE, lambda inner: {"children": [inner]}),
    ],
    ids=["a tree", "any JSON", "a union", "an extensible tree"],
)
def test_usual_recursive_schemas_pass(schema, around):
    assert Cost(schema).excess(nested(12, around)) is None


def test_a_large_result_under_a_plain_schema_is_not_walked_through():
    schema = {
        "type": "object",
        "properties": {
            "rows": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {f"c{n}": {"type": "integer"} for n in range(15)},
                },
            }
        },
    }
    cost = Cost(schema)
    assert cost._per_value == (1, 1)
    assert cost.excess({"rows": [{f"c{n}": n for n in range(15)}] * 20_000}) is None


@cases(
    "schema",
    [
        True,
        None,
        5,
        {"properties": 5, "allOf": 5, "items": True, "dependentSchemas": []},
        {"properties": {"$ref": {"type": "string"}, "x": True}, "patternProperties": 5},
        {"$ref": "#/$defs/none"},
        {"$ref": "#/allOf/7", "allOf": []},
        {"$ref": "#/type/x", "type": "object"},
        {"$ref": "#none"},
        {"$ref": "https://other.example/"},
        {"$id": "http://[::", "$ref": "http://[x/"},
        {"$dynamicRef": "#none", "$anchor": 5, "$id": 5},
        {"pattern": ")(?:a|b){2}{3}\\", "enum": 5},
        {"pattern": "{2}"},
    ],
    ids=str,
)
def test_mistakes_in_a_schema_are_left_to_the_validator(schema):
    assert Cost(schema).excess({"x": [1]}) is None
