from typing import Any

import pytest

from accord.json_schema.dialects import DIALECTS, find_schema_fault
from accord.json_schema.validation import compile_schema
from support.tables import cases


@pytest.mark.requirement("schema.dialect.default-2020-12", "schema.dialect.documented")
@cases(
    "schema",
    [
        {},
        *({"$schema": dialect} for dialect in DIALECTS),
        {"$schema": f"{DIALECTS[2]}#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}},
        {"$id": "https://example.com/a", "$ref": "/b", "$defs": {"b": {"$id": "/b"}}},
        {"properties": {"children": {"items": {"$ref": "#"}}}},
        {"$dynamicRef": "#node", "$defs": {"n": {"$dynamicAnchor": "node"}}},
        {"properties": {"schema": {"$ref": f"{DIALECTS[0]}"}}},
        {"properties": {"$ref": {"type": "string"}}, "prefixItems": [True]},
        # Values and unknown keywords are data.
        {"const": {"$ref": "other.json"}, "x-note": {"$ref": "other.json"}},
    ],
    ids=str,
)
def test_schemas_of_known_dialects_with_inner_references_have_no_fault(schema: Any) -> None:
    assert find_schema_fault(schema) is None
    compile_schema(schema)


@pytest.mark.requirement("schema.dialect.unsupported-reported")
@pytest.mark.parametrize("dialect", ["https://example.com/dialect", "draft-03", 3])
def test_another_dialect_is_a_fault(dialect: Any) -> None:
    fault = find_schema_fault({"$schema": dialect})
    assert fault is not None
    assert fault.startswith(f"the dialect {dialect!r} is not supported; use one of https://")


@pytest.mark.requirement("schema.ref.unresolved-rejected")
@cases("reference", ["https://example.com/a.json", "a.json", "#/$defs/none"])
@cases(
    "place",
    [
        lambda ref: ref,
        lambda ref: {"properties": {"a": ref}},
        lambda ref: {"items": [ref]},
        lambda ref: {"anyOf": [{}, {"not": ref}]},
    ],
)
def test_a_reference_that_leads_out_of_the_schema_is_a_fault(reference: str, place: Any) -> None:
    fault = find_schema_fault(place({"$ref": reference}))
    assert fault is not None
    assert fault.startswith(f"refers to {reference!r}, which is not part of it")
