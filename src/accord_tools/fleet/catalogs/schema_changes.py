"""Differences between two JSON Schemas, by their meaning for clients.

A schema of arguments may allow more and never less; a schema of results may promise more and never
less. Texts in schemas are for people and models.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from accord.json_schema.reader import declared_types, properties_of, required_names, resolve
from accord.types import JsonObject
from accord_tools.fleet.results import ChangeKind

ABSENT: Final = object()
"""The value of a member that is not there."""

Side: TypeAlias = Literal["input", "output", "either"]
"""What a schema describes; for `either`, every difference that is not a text is breaking."""

_TEXTS: Final = frozenset(
    {"title", "description", "$comment", "examples", "example", "deprecated", "$schema", "$id"}
)
# They change nothing that is valid.
_HINTS: Final = frozenset({"default", "readOnly", "writeOnly", "contentMediaType", "$anchor"})
_LEAST: Final = frozenset(
    {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"}
)
_MOST: Final = frozenset(
    {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"}
)
# A change of these may allow some values and forbid others.
_LIMITS: Final = frozenset({"pattern", "format", "multipleOf", "uniqueItems", "contentEncoding"})
_SCHEMAS: Final = frozenset(
    {"items", "contains", "propertyNames", "additionalItems", "unevaluatedItems"}
)
_OPEN: Final = frozenset({"additionalProperties", "unevaluatedProperties"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_CONDITIONS: Final = frozenset(
    {"not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"}
)
# Deeper parts are compared as a whole.
_MOST_DEPTH: Final = 100


class MemberDifference(NamedTuple):
    """One difference: what it means, which member, and the values before and after."""

    kind: ChangeKind
    what: str
    before: object = ABSENT
    after: object = ABSENT


def compare_schemas(
    before: JsonObject, after: JsonObject, place: str, side: Side
) -> Iterator[MemberDifference]:
    """Yield the differences between two schemas.

    Args:
        before: the older schema.
        after: the newer one.
        place: its name, such as "inputSchema".
        side: what it describes: arguments or results.
    """
    return _Comparison(before, after).compare(before, after, place, side)


def _kind_of(side: Side, *, is_wider: bool) -> ChangeKind:
    """Return what it means that a schema allows more values, or fewer."""
    if side == "either":
        return "breaking"
    return "compatible" if is_wider == (side == "input") else "breaking"


class _Comparison:
    """Compares two schemas, each with its definitions."""

    def __init__(self, before: JsonObject, after: JsonObject) -> None:
        self._roots = before, after
        self._followed: set[tuple[str, str]] = set()

    def compare(
        self, before: object, after: object, place: str, side: Side, depth: int = 0
    ) -> Iterator[MemberDifference]:
        if before == after:
            return
        if not isinstance(before, dict) or not isinstance(after, dict):
            yield from self._compare_values(before, after, place, side, depth)
            return
        if depth > _MOST_DEPTH:
            yield MemberDifference("breaking", f"{place} changed", before, after)
            return
        if before.get("$ref") != after.get("$ref"):
            references = str(before.get("$ref")), str(after.get("$ref"))
            if references in self._followed:
                return
            self._followed.add(references)
            before, after = resolve(before, self._roots[0]), resolve(after, self._roots[1])
        before, after = _align(before, after), _align(after, before)
        yield from self._compare_members(before, after, place, side)
        for key in sorted({*before, *after}):
            old, new = before.get(key, ABSENT), after.get(key, ABSENT)
            if key not in ("properties", "required") and old != new:
                inner = f"{place}.{key}" if place else key
                yield from self._compare_keyword(key, old, new, inner, side, depth + 1)

    def _compare_values(
        self, before: object, after: object, place: str, side: Side, depth: int
    ) -> Iterator[MemberDifference]:
        """Compare schemas of which at least one is true, false, absent or not a schema."""
        plain = [{} if each in (True, ABSENT) else each for each in (before, after)]
        if all(isinstance(each, dict) for each in plain):
            yield from self.compare(plain[0], plain[1], place, side, depth + 1)
        else:
            kind: ChangeKind = "breaking"
            if before is False or after is False:
                kind = _kind_of(side, is_wider=before is False)
            yield _difference(kind, place, before, after)

    # -- objects

    def _compare_members(
        self, before: JsonObject, after: JsonObject, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        old, new = properties_of(before), properties_of(after)
        needed, needs = set(required_names(before)), set(required_names(after))
        for name in sorted({*old, *new}):
            inner = f"{place}.properties.{name}"
            if name not in new:
                yield MemberDifference("breaking", f"{inner} removed", old[name])
            elif name not in old:
                is_demanded = side != "output" and name in needs
                what = f"{inner} added, and required" if name in needs else f"{inner} added"
                kind: ChangeKind = "breaking" if is_demanded else "compatible"
                yield MemberDifference(kind, what, ABSENT, new[name])
            else:
                yield from self.compare(old[name], new[name], inner, side, inner.count("."))
        changed = (needed ^ needs) - (set(old) ^ set(new))
        for name in sorted(changed):
            is_wider = name in needed
            what = "no longer required" if is_wider else "required now"
            member = f"{place}.properties.{name}"
            yield MemberDifference(_kind_of(side, is_wider=is_wider), f"{member} is {what}")

    # -- keywords

    def _compare_keyword(
        self, key: str, old: object, new: object, place: str, side: Side, depth: int
    ) -> Iterator[MemberDifference]:
        if key in _TEXTS:
            yield _difference("text", place, old, new)
        elif key in _CONDITIONS:
            yield from self._compare_conditions(old, new, place, depth)
        elif key in _SCHEMAS:
            yield from self.compare(old, new, place, side, depth)
        elif key in _OPEN:
            yield from self._compare_openness(old, new, place, side, depth)
        elif key in _DEFINITIONS or key == "patternProperties":
            yield from self._compare_named(key, old, new, place, side)
        elif key in ("anyOf", "oneOf", "allOf"):
            yield from self._compare_alternatives(key, old, new, place, side)
        elif key == "prefixItems":
            yield from self._compare_positions(old, new, place, side, depth)
        elif key == "$ref":
            # It leads outside, or what it leads to would have been compared.
            yield _difference("breaking", place, old, new)
        else:
            kind = _compare_plain(key, old, new, side)
            if kind is not None:
                yield _difference(kind, place, old, new)

    def _compare_conditions(
        self, old: object, new: object, place: str, depth: int
    ) -> Iterator[MemberDifference]:
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self.compare(old, new, place, "either", depth)
        else:
            yield _difference("breaking", place, old, new)

    def _compare_openness(
        self, old: object, new: object, place: str, side: Side, depth: int
    ) -> Iterator[MemberDifference]:
        """Compare what further members are allowed; clients ignore further ones of results."""
        if side == "output" and old is False:
            yield _difference("compatible", place, old, new)
        else:
            yield from self._compare_values(old, new, place, side, depth)

    def _compare_named(
        self, key: str, old: object, new: object, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        for name in sorted({*before, *after}):
            inner = f"{place}.{name}"
            if name in before and name in after:
                yield from self.compare(before[name], after[name], inner, side, inner.count("."))
                continue
            # A definition has a meaning only where it is referred to.
            kind: ChangeKind = "compatible"
            if key == "patternProperties":
                kind = _kind_of(side, is_wider=name in before)
            yield _difference(kind, inner, before.get(name, ABSENT), after.get(name, ABSENT))

    def _compare_alternatives(
        self, key: str, old: object, new: object, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        before = old if isinstance(old, list) else []
        after = new if isinstance(new, list) else []
        gone = _without(before, after)
        come = _without(after, before)
        if len(gone) == len(come):
            for one, other in zip(gone, come, strict=True):
                inner = f"{place}[{before.index(one)}]"
                yield from self.compare(one, other, inner, side, inner.count("."))
            return
        if gone and come and before and after:
            yield _difference("breaking", place, old, new)
            return
        # A member more of `anyOf` allows more, unless it is the first; one of `allOf` less.
        is_wider = bool(come) and bool(before) if key != "allOf" else bool(gone)
        if not after and key != "allOf":
            is_wider = True
        yield _difference(_kind_of(side, is_wider=is_wider), place, old, new)

    def _compare_positions(
        self, old: object, new: object, place: str, side: Side, depth: int
    ) -> Iterator[MemberDifference]:
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            for number, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from self.compare(one, other, f"{place}[{number}]", side, depth + 1)
        else:
            yield _difference("breaking", place, old, new)


def _align(schema: JsonObject, other: JsonObject) -> JsonObject:
    """Return a schema with the keywords of another one, where both can say the same."""
    if "const" in schema and "enum" in other and "enum" not in schema:
        rest = {key: value for key, value in schema.items() if key != "const"}
        schema = {**rest, "enum": [schema["const"]]}
    for key in ("anyOf", "oneOf"):
        if key in other and key not in schema:
            beside = _TEXTS | _HINTS | _DEFINITIONS | set(other)
            core = {name: value for name, value in schema.items() if name not in beside}
            if core:
                rest = {name: value for name, value in schema.items() if name not in core}
                schema = {**rest, key: [core]}
    return schema


def _difference(kind: ChangeKind, place: str, old: object, new: object) -> MemberDifference:
    verb = "added" if old is ABSENT else "removed" if new is ABSENT else "changed"
    return MemberDifference(kind, f"{place} {verb}", old, new)


def _without(listed: list[Any], others: list[Any]) -> list[Any]:
    return [each for each in listed if each not in others]


def _compare_plain(key: str, old: object, new: object, side: Side) -> ChangeKind | None:
    """Return what a change of a keyword without subschemas means; None if it means nothing."""
    compare = _PLAIN.get(key)
    if compare is not None:
        is_wider = compare(old, new)
        if is_wider is _SAME:
            return None
        return "breaking" if is_wider is None else _kind_of(side, is_wider=bool(is_wider))
    if key in _HINTS:
        return "compatible"
    # Validators ignore a keyword that they do not know.
    return "text" if isinstance(new, str) or isinstance(old, str) else "compatible"


_SAME: Final = object()
# Each returns whether more values are allowed than before; None if some are and others are not.
_Order: TypeAlias = Callable[[object, object], object]


def _order_of_sets(old: set[str], new: set[str]) -> object:
    if old == new:
        return _SAME
    return True if old < new else False if new < old else None


def _order_types(old: object, new: object) -> object:
    if old is ABSENT or new is ABSENT:
        return new is ABSENT
    sets = [set(declared_types({"type": each})) for each in (old, new)]
    for each in sets:
        if "number" in each:
            each.add("integer")
    return _order_of_sets(*sets)


def _order_values(old: object, new: object) -> object:
    if old is ABSENT or new is ABSENT:
        return new is ABSENT
    if not isinstance(old, list) or not isinstance(new, list):
        return None
    return _order_of_sets(*({json.dumps(e, sort_keys=True) for e in each} for each in (old, new)))


def _order_limits(old: object, new: object) -> object:
    return new is ABSENT if old is ABSENT or new is ABSENT else None


def _order_bounds(*, is_least: bool) -> _Order:
    def order(old: object, new: object) -> object:
        if old is ABSENT or new is ABSENT:
            return new is ABSENT
        if not isinstance(old, int | float) or not isinstance(new, int | float):
            return None
        return _SAME if old == new else (new < old) == is_least

    return order


_PLAIN: Final[Mapping[str, _Order]] = {
    "type": _order_types,
    "enum": _order_values,
    "const": _order_limits,
    **dict.fromkeys(_LIMITS, _order_limits),
    **dict.fromkeys(_LEAST, _order_bounds(is_least=True)),
    **dict.fromkeys(_MOST, _order_bounds(is_least=False)),
}
