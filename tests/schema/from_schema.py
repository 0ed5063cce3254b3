"""Instances of an official definition: the members it names, and now and then a stranger."""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from accord.types import RevisionId
from schema.official import definitions

STRANGER = "x-stranger"
KEYS = ("k", "l")

TEXTS = st.text("abc é\n", max_size=6)
FORMATS = {
    "uri": st.sampled_from(["file:///a", "https://example.com/b?c=d", "urn:x:y"]),
    "uri-template": st.sampled_from(["file:///{path}", "note://{name}{?page}"]),
    "byte": st.sampled_from(["", "AAAA", "aGk="]),
}
ANY_JSON = st.sampled_from([None, True, 0, -1.5, "x", [], [1, "a"], {}, {"k": {"l": None}}])


@cache
def instances(revision: RevisionId, definition: str) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _from(definitions(revision)[definition], revision))


def _from(node: dict[str, Any], revision: RevisionId) -> st.SearchStrategy[Any]:
    if "$ref" in node:
        return instances(revision, node["$ref"].rpartition("/")[2])
    if "const" in node:
        return st.just(node["const"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    if "anyOf" in node:
        return st.one_of([_from(part, revision) for part in node["anyOf"]])
    if "allOf" in node:
        parts = [_from(part, revision) for part in node["allOf"]]
        return st.tuples(*parts).map(lambda objects: {k: v for o in objects for k, v in o.items()})
    return _of_type(node, revision)


def _of_type(node: dict[str, Any], revision: RevisionId) -> st.SearchStrategy[Any]:
    kinds = node.get("type")
    if isinstance(kinds, list):
        return st.one_of([_of_type(node | {"type": kind}, revision) for kind in kinds])
    low, high = node.get("minimum", -(2**53)), node.get("maximum", 2**53)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        None: ANY_JSON,
        "null": st.none(),
        "boolean": st.booleans(),
        "string": FORMATS.get(node.get("format", ""), TEXTS),
        "integer": st.integers(low, high),
        "number": st.integers(low, high) | st.floats(low, high),
    }
    if kinds in simple:
        return simple[kinds]
    if kinds == "array":
        return st.lists(_from(node["items"], revision), max_size=min(node.get("maxItems", 2), 2))
    return _object(node, revision)


def _object(node: dict[str, Any], revision: RevisionId) -> st.SearchStrategy[Any]:
    members = {key: _from(value, revision) for key, value in node.get("properties", {}).items()}
    others = node.get("additionalProperties", {})
    if not members:
        values = ANY_JSON if others in ({}, True) else _from(others, revision)
        return st.dictionaries(st.sampled_from(KEYS), values, max_size=2)
    required = {key: members.pop(key) for key in node.get("required", ())}
    return st.fixed_dictionaries(required, optional=members | {STRANGER: ANY_JSON})
