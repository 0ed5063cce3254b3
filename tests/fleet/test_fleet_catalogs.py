"""Digests of catalogs, and what their changes mean for clients."""

import json
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.contract.lock_file import difference
from accord_tools.fleet.catalogs.changes import find_catalog_changes
from accord_tools.fleet.catalogs.entries import summarize_catalog
from support.tables import cases

STRING = {"type": "string"}


def tool(name="add", **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def catalog(*tools, **members):
    return {"server": "desk", "tools": list(tools), **members}


def with_input(schema, **more):
    return catalog(tool(inputSchema=schema, **more))


def with_output(schema):
    return catalog(tool(outputSchema=schema))


def members(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


def value(**keywords):
    """The schema of arguments with one member, `a`."""
    return members(a=keywords)


def may_be_a_task(support):
    return catalog(tool(execution={"taskSupport": support}))


def hints(**annotations):
    return catalog(tool(annotations=annotations))


def prompt(*arguments, **more):
    return catalog(prompts=[{"name": "hello", "arguments": list(arguments), **more}])


def resource(**more):
    return catalog(resources=[{"uri": "a://b", "name": "b", **more}])


# -- digests


def test_the_order_of_entries_and_of_required_members_does_not_matter():
    one = catalog(tool("a", inputSchema=members(["x", "y"], x=STRING, y=STRING)), tool("b"))
    other = catalog(tool("b"), tool("a", inputSchema=members(["y", "x"], y=STRING, x=STRING)))
    assert summarize_catalog(one) == summarize_catalog(other)
    assert find_catalog_changes(one, other) == ()


def test_the_order_within_alternatives_and_of_arguments_does_not_matter():
    def nested(*names):
        return with_input(value(anyOf=[members(names, x=STRING, y=STRING), {"type": "null"}]))

    one, other = nested("x", "y"), nested("y", "x")
    assert summarize_catalog(one) == summarize_catalog(other)
    assert find_catalog_changes(one, other) == ()
    one, other = prompt({"name": "a"}, {"name": "b"}), prompt({"name": "b"}, {"name": "a"})
    assert summarize_catalog(one) == summarize_catalog(other)
    assert find_catalog_changes(one, other) == ()


def test_versions_sizes_and_times_do_not_matter():
    one = resource(size=1, annotations={"lastModified": "2026-01-01"}, _meta={"version": "1"})
    other = resource(size=2, annotations={"lastModified": "2026-02-01"}, _meta={"version": "2"})
    assert summarize_catalog(one).digest == summarize_catalog(other).digest
    assert [each.what for each in find_catalog_changes(one, other)] == ["_meta.version changed"]


def test_a_lock_file_has_the_digest_of_its_catalog():
    found = catalog(tool(description="Add."), instructions="Be kind.")
    locked = json.loads(json.dumps({"revision": "2025-06-18", **found}))
    assert summarize_catalog(found) == summarize_catalog(locked)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Add"},
        {"description": "Adds."},
        {"inputSchema": {"type": "object", "required": ["a"]}},
        {"outputSchema": {"type": "object"}},
        {"annotations": {"readOnlyHint": True}},
        {"execution": {"taskSupport": "required"}},
    ],
)
def test_every_pinned_member_changes_the_digest_of_its_entry_alone(change):
    before = summarize_catalog(catalog(tool(), tool("other")))
    after = summarize_catalog(catalog({**tool(), **change}, tool("other")))
    assert before.digest != after.digest
    assert before.entries["tool add"] != after.entries["tool add"]
    assert before.entries["tool other"] == after.entries["tool other"]


def test_instructions_and_failing_lists_change_the_digest():
    digests = {
        summarize_catalog(each).digest
        for each in (
            catalog(),
            catalog(instructions="Be kind."),
            catalog(failed={"prompts/list": -32603}),
        )
    }
    assert len(digests) == 3


def test_a_name_that_is_offered_twice_hides_no_change():
    before = catalog(tool(description="one"), tool(description="two"))
    after = catalog(tool(description="ONE"), tool(description="two"))
    assert summarize_catalog(before).digest != summarize_catalog(after).digest
    (change,) = find_catalog_changes(before, after)
    assert (change.subject, change.what) == ("tool add", "description changed")
    (change,) = find_catalog_changes(before, catalog(tool(description="one")))
    assert (change.subject, change.what) == ("tool add (2)", "removed")


def test_entries_are_counted_and_tokens_estimated():
    found = summarize_catalog(
        catalog(
            tool(description="x" * 4_000),
            resources=[{"uri": "a://b", "name": "b"}],
            resourceTemplates=[{"uriTemplate": "a://{b}", "name": "b"}],
            prompts=[{"name": "p"}, {"name": "q"}],
        )
    )
    assert (found.tools, found.resources, found.templates, found.prompts) == (1, 1, 1, 2)
    assert 1_000 < found.tokens < 1_050
    assert summarize_catalog({"server": "x"}).tokens == 0


def test_half_a_surrogate_pair_can_be_hashed():
    found = json.loads('{"server": "x", "tools": [{"name": "a", "description": "\\ud800"}]}')
    assert len(summarize_catalog(found).digest) == 64


# -- changes

IN, OUT = "inputSchema.properties.a", "outputSchema.properties.a"
TOOL = catalog(tool())
FAILED = {"server": "desk", "failed": {"tools/list": -32603}}
NONE, FREE, NEEDED = members(), members(a=STRING), members(["a"], a=STRING)
X, X_NEEDED = {"name": "x"}, {"name": "x", "required": True}
# By what they mean: before, after, and what is said.
CHANGES = {
    "breaking": [
        (TOOL, catalog(), "removed"),
        (resource(), catalog(), "removed"),
        (TOOL, FAILED, "fails now"),
        (with_input(FREE), with_input(NONE), f"{IN} removed"),
        (with_input(NONE), with_input(NEEDED), f"{IN} added, and required"),
        (with_input(FREE), with_input(NEEDED), f"{IN} is required now"),
        (with_output(FREE), with_output(NONE), f"{OUT} removed"),
        (with_output(NEEDED), with_output(FREE), f"{OUT} is no longer required"),
        (with_output(NONE), TOOL, "outputSchema removed"),
        (hints(readOnlyHint=True), hints(readOnlyHint=False), "annotations.readOnlyHint changed"),
        (hints(readOnlyHint=True), hints(), "annotations.readOnlyHint removed"),
        (
            hints(destructiveHint=False),
            hints(destructiveHint=True),
            "annotations.destructiveHint changed",
        ),
        (hints(openWorldHint=False), hints(), "annotations.openWorldHint removed"),
        (hints(readOnlyHint=True), TOOL, "annotations removed"),
        (may_be_a_task("optional"), may_be_a_task("required"), "execution.taskSupport changed"),
        (prompt(), prompt(X_NEEDED), "argument x added, and required"),
        (prompt(X), prompt(), "argument x removed"),
        (prompt(X), prompt(X_NEEDED), "argument x is required now"),
        (resource(mimeType="text/plain"), resource(mimeType="text/html"), "mimeType changed"),
    ],
    "compatible": [
        (catalog(), TOOL, "added"),
        (FAILED, catalog(), "answers now"),
        (with_input(NONE), with_input(FREE), f"{IN} added"),
        (with_input(NEEDED), with_input(FREE), f"{IN} is no longer required"),
        (with_output(NONE), with_output(NEEDED), f"{OUT} added, and required"),
        (with_output(FREE), with_output(NEEDED), f"{OUT} is required now"),
        (TOOL, with_output(NONE), "outputSchema added"),
        (hints(), hints(readOnlyHint=True), "annotations.readOnlyHint added"),
        (hints(), hints(readOnlyHint=False), "annotations.readOnlyHint added"),
        (
            hints(idempotentHint=False),
            hints(idempotentHint=True),
            "annotations.idempotentHint changed",
        ),
        (TOOL, may_be_a_task("optional"), "execution added"),
        (prompt(), prompt(X), "argument x added"),
        (prompt(X_NEEDED), prompt({**X, "required": False}), "argument x is no longer required"),
        (resource(), resource(mimeType="text/html"), "mimeType added"),
    ],
    "text": [
        (TOOL, catalog(tool(title="Add")), "title added"),
        (catalog(tool(description="a")), catalog(tool(description="b")), "description changed"),
        (catalog(), catalog(instructions="Hi."), "added"),
        (catalog(instructions="Hi."), catalog(), "removed"),
        (
            with_input(value(description="x")),
            with_input(value(description="y")),
            f"{IN}.description changed",
        ),
        (with_input(value(examples=[1])), with_input(value()), f"{IN}.examples removed"),
        (hints(title="a"), hints(title="b"), "annotations.title changed"),
        (TOOL, hints(title="a"), "annotations added"),
        (prompt(X), prompt({**X, "description": "y"}), "argument x: description added"),
        (resource(), resource(title="B"), "title added"),
    ],
}


@cases(
    ("kind", "before", "after", "what"),
    [(kind, *row) for kind, rows in CHANGES.items() for row in rows],
)
def test_a_change_has_its_meaning(before, after, kind, what):
    found = find_catalog_changes(before, after)
    assert [(each.kind, each.what) for each in found] == [(kind, what)]


# Keywords of one value, from which values are allowed to fewer of them.
NARROWER = [
    ({}, {"type": "string"}),
    ({"type": "number"}, {"type": "integer"}),
    ({"type": ["string", "null"]}, {"type": "string"}),
    ({"enum": ["a", "b"]}, {"enum": ["b"]}),
    ({"enum": ["a", "b"]}, {"const": "a"}),
    ({"type": "string"}, {"type": "string", "enum": ["a"]}),
    ({"minimum": 1}, {"minimum": 2}),
    ({"maxLength": 9}, {"maxLength": 8}),
    ({}, {"pattern": "^a"}),
    ({}, {"format": "date"}),
    ({"items": {}}, {"items": {"type": "string"}}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "string"}]}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}),
    ({"allOf": [{"type": "string"}]}, {"allOf": [{"type": "string"}, {"minLength": 1}]}),
    ({"patternProperties": {}}, {"patternProperties": {"^x": {"type": "string"}}}),
    ({"additionalProperties": {"type": "number"}}, {"additionalProperties": {"type": "integer"}}),
]


@pytest.mark.parametrize(("wide", "narrow"), NARROWER)
def test_arguments_may_allow_more_and_results_less(wide, narrow):
    def kinds(schemas, before, after):
        found = find_catalog_changes(schemas(value(**before)), schemas(value(**after)))
        return {each.kind for each in found}

    assert kinds(with_input, wide, narrow) == {"breaking"}
    assert kinds(with_input, narrow, wide) == {"compatible"}
    assert kinds(with_output, wide, narrow) == {"compatible"}
    assert kinds(with_output, narrow, wide) == {"breaking"}


def test_further_members_of_results_are_ignored_by_clients():
    closed, open = value(additionalProperties=False), value()
    assert [e.kind for e in find_catalog_changes(with_output(closed), with_output(open))] == [
        "compatible"
    ]
    assert [e.kind for e in find_catalog_changes(with_input(open), with_input(closed))] == [
        "breaking"
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "string"}, {"type": "integer"}),
        ({"enum": ["a"]}, {"enum": ["b"]}),
        ({"pattern": "a"}, {"pattern": "b"}),
        ({"not": {"type": "string"}}, {"not": {"type": "null"}}),
        ({"$ref": "https://a.example/x"}, {"$ref": "https://a.example/y"}),
        ({"prefixItems": [{}]}, {"prefixItems": [{}, {}]}),
    ],
)
def test_other_values_are_breaking_on_both_sides(before, after):
    for schemas in (with_input, with_output):
        found = find_catalog_changes(schemas(value(**before)), schemas(value(**after)))
        assert {each.kind for each in found} == {"breaking"}


def test_parts_of_schemas_are_compared_where_they_are():
    def changes(before, after):
        found = find_catalog_changes(with_input(value(**before)), with_input(value(**after)))
        return [(each.kind, each.what.removeprefix("inputSchema.properties.a.")) for each in found]

    pair = {"prefixItems": [{"type": "string"}, {}]}, {"prefixItems": [{}, {}]}
    assert changes(*pair) == [("compatible", "prefixItems[0].type removed")]
    pair = {"not": {"title": "x"}}, {"not": {"title": "y"}}
    assert changes(*pair) == [("text", "not.title changed")]
    assert changes({}, {"if": {"type": "null"}}) == [("breaking", "if added")]
    pair = {"anyOf": [STRING]}, {"anyOf": [{"type": "null"}, {"type": "integer"}]}
    assert changes(*pair) == [("breaking", "anyOf changed")]
    pair = {"anyOf": [STRING, {"type": "null"}]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert changes(*pair) == [("breaking", "anyOf[0].type changed")]
    assert changes({"default": 1}, {"default": 2}) == [("compatible", "default changed")]
    assert changes({"x-unit": "m"}, {"x-unit": "km"}) == [("text", "x-unit changed")]
    assert changes({"items": False}, {"items": True}) == [("compatible", "items changed")]


def test_reordered_alternatives_types_and_values_are_not_changes():
    before = {"anyOf": [{"type": "string"}, {"type": "null"}], "enum": ["a", "b"]}
    after = {"anyOf": [{"type": "null"}, {"type": "string"}], "enum": ["b", "a"]}
    assert find_catalog_changes(with_input(value(**before)), with_input(value(**after))) == ()
    before, after = {"type": ["string", "null"]}, {"type": ["null", "string"]}
    assert find_catalog_changes(with_input(value(**before)), with_input(value(**after))) == ()


def test_a_definition_that_gets_another_name_changes_nothing_for_clients():
    def schema(name, **definition):
        return {**members(a={"$ref": f"#/$defs/{name}"}), "$defs": {name: definition}}

    found = find_catalog_changes(
        with_input(schema("A", type="string")), with_input(schema("B", type="string"))
    )
    assert {each.kind for each in found} == {"compatible"}
    found = find_catalog_changes(
        with_input(schema("A", type="string")), with_input(schema("B", type="integer"))
    )
    assert ("breaking", "inputSchema.properties.a.type changed") in [
        (each.kind, each.what) for each in found
    ]
    found = find_catalog_changes(
        with_input(schema("A", type="string")), with_input(schema("A", type="integer"))
    )
    assert [(each.kind, each.what) for each in found] == [
        ("breaking", "inputSchema.$defs.A.type changed")
    ]


def test_schemas_that_refer_to_themselves_are_compared():
    def tree(name):
        node = {"type": "object", "properties": {"next": {"$ref": f"#/$defs/{name}"}}}
        return {"$ref": f"#/$defs/{name}", "$defs": {name: node}}

    found = find_catalog_changes(with_input(tree("A")), with_input(tree("B")))
    assert {each.kind for each in found} == {"compatible"}


def test_a_property_called_description_is_not_a_text():
    found = find_catalog_changes(
        with_input(members(description={"type": "string"})),
        with_input(members(description={"type": "integer"})),
    )
    assert [each.kind for each in found] == ["breaking"]


def test_values_before_and_after_are_json():
    before, after = value(type="string"), value(type="integer")
    (change,) = find_catalog_changes(with_input(before), with_input(after))
    assert (change.before, change.after) == ('"string"', '"integer"')


def test_breaking_changes_are_first_and_the_rest_is_counted():
    before = catalog(*(tool(f"t{number}", description="a") for number in range(3_000)))
    after = catalog(*(tool(f"t{number}", description="b") for number in range(1, 3_000)))
    found = find_catalog_changes(before, after, most=10)
    assert len(found) == 11
    assert (found[0].kind, found[0].subject) == ("breaking", "tool t0")
    assert {each.kind for each in found[1:]} == {"text"}
    assert (found[-1].subject, found[-1].what) == ("2990 more changes", "not listed: 2990 text")


def test_long_values_are_cut_around_the_difference():
    text = "x" * 50_000
    (change,) = find_catalog_changes(
        catalog(tool(description=f"{text} a {text}")), catalog(tool(description=f"{text} b {text}"))
    )
    assert max(len(change.before), len(change.after)) < 10_000
    assert " a " in json.loads(change.before)
    assert " b " in json.loads(change.after)
    assert difference(change.before, change.after)
    (change,) = find_catalog_changes(
        with_input(members()), with_input(members(a={"type": "string", "description": text}))
    )
    assert change.before is None
    assert len(change.after) < 10_000


def test_deep_schemas_are_compared():
    def deep(leaf):
        schema = leaf
        for _ in range(240):
            schema = {"type": "array", "items": schema}
        return with_input(members(a=schema))

    (change,) = find_catalog_changes(deep({"type": "string"}), deep({"type": "integer"}))
    assert change.kind == "breaking"
    assert summarize_catalog(deep({})).digest


KEYWORDS = """
type properties required enum anyOf allOf $ref $defs items minimum const not additionalProperties
prefixItems a title
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(JSON, JSON)
def test_any_two_entries_can_be_compared(one, other):
    before = catalog(tool(inputSchema=one, annotations=other, outputSchema=other))
    after = catalog(tool(inputSchema=other, annotations=one, outputSchema=one))
    assert find_catalog_changes(before, deepcopy(before)) == ()
    assert summarize_catalog(before) == summarize_catalog(deepcopy(before))
    for change in find_catalog_changes(before, after):
        assert change.what
        for text in (change.before, change.after):
            assert text is None or json.loads(text) is not ...
