"""Schemas that all have to hold, joined into one that a form can show."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from accord.types import JsonObject

# Of these, the first one counts: they describe, or a form does not show them.
_FIRST: Final = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$schema",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "deprecated",
        "description",
        "else",
        "examples",
        "format",
        "if",
        "not",
        "pattern",
        "propertyNames",
        "readOnly",
        "then",
        "title",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
        "writeOnly",
    }
)
_NO_MERGE: Final = object()


def merge_plain(schemas: Iterable[JsonObject]) -> JsonObject | None:
    """Join schemas; None where they contradict, or cannot be said in one plain schema."""
    merged: JsonObject = {}
    for schema in schemas:
        for key, value in schema.items():
            known = merged.get(key, _NO_MERGE)
            if known is _NO_MERGE:
                merged[key] = value
            elif key not in _FIRST and known != value:
                join = _JOINS.get(key)
                merged[key] = _NO_MERGE if join is None else join(known, value)
                if merged[key] is _NO_MERGE:
                    return None
    return merged


def _join_properties(one: Any, other: Any) -> object:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return _NO_MERGE
    shared = {
        name: {"allOf": [each, other[name]]}
        for name, each in one.items()
        if name in other and other[name] != each
    }
    return {**one, **other, **shared}


def _join_required(one: Any, other: Any) -> object:
    if not isinstance(one, list) or not isinstance(other, list):
        return _NO_MERGE
    return [*one, *(each for each in other if each not in one)]


def _join_lists(one: Any, other: Any) -> object:
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else _NO_MERGE


def _join_types(one: Any, other: Any) -> object:
    first = one if isinstance(one, list) else [one]
    second = other if isinstance(other, list) else [other]
    both = [each for each in first if each in second]
    if "integer" in first + second and "number" in first + second and "integer" not in both:
        both.append("integer")
    return both or _NO_MERGE


def _join_choices(one: Any, other: Any) -> object:
    if not isinstance(one, list) or not isinstance(other, list):
        return _NO_MERGE
    return [each for each in one if each in other] or _NO_MERGE


def _join_rest(one: Any, other: Any) -> object:
    """Join what other members may be: false wins, true says nothing."""
    if one is False or other is False:
        return False
    if one is True or other is True:
        return other if one is True else one
    return _NO_MERGE


def _tighten(choose: Callable[[float, float], float]) -> Callable[[Any, Any], object]:
    def join(one: Any, other: Any) -> object:
        if isinstance(one, int | float) and isinstance(other, int | float):
            return choose(one, other)
        return _NO_MERGE

    return join


_SMALLEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LARGEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_JOINS: Final[dict[str, Callable[[Any, Any], object]]] = {
    "properties": _join_properties,
    "patternProperties": _join_properties,
    "required": _join_required,
    "allOf": _join_lists,
    "type": _join_types,
    "enum": _join_choices,
    "additionalProperties": _join_rest,
    **dict.fromkeys(_SMALLEST, _tighten(max)),
    **dict.fromkeys(_LARGEST, _tighten(min)),
}
