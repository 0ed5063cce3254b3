"""Changes of a catalog, by what they mean for clients: breaking, compatible, or only texts.

| change | meaning |
|---|---|
| entry removed; list fails now | breaking |
| entry added; list answers now | compatible |
| argument removed, new and required, or required now | breaking |
| argument new and optional, or no longer required | compatible |
| arguments: fewer values allowed (type, enum, bounds, pattern) | breaking; more: compatible |
| results: more values possible, member removed or no longer required | breaking; less: compatible |
| hint that promises less (no longer read-only, now destructive) | breaking; more: compatible |
| title, description, instructions, other annotations | text |

A hint that promises less is breaking, because hosts run read-only tools without a question.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from accord.json_schema.reader import declared_types, properties_of, required_names, resolve
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.contract.lock_file import LISTS, Change, LockError, find_changes, read_lock
from accord_tools.fleet.catalogs.entries import VOLATILE, CatalogEntry, entries_of, tool_schema
from accord_tools.fleet.results import CatalogChange, ChangeKind

# -- schemas
# A schema of arguments may allow more and never less; a schema of results may promise more and
# never less. Texts in schemas are for people and models.


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


def _kind_of_move(side: Side, *, is_wider: bool) -> ChangeKind:
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
        self, before: object, after: object, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        if before == after:
            return
        if not isinstance(before, dict) or not isinstance(after, dict):
            yield from self._compare_values(before, after, place, side)
            return
        if place.count(".") + place.count("[") > _MOST_DEPTH:
            yield MemberDifference("breaking", f"{place} changed", before, after)
            return
        if before.get("$ref") != after.get("$ref"):
            references = str(before.get("$ref")), str(after.get("$ref"))
            if references in self._followed:
                return
            self._followed.add(references)
            before, after = resolve(before, self._roots[0]), resolve(after, self._roots[1])
        before, after = _align(before, after), _align(after, before)
        yield from _compare_members(
            (properties_of(before), properties_of(after)),
            (set(required_names(before)), set(required_names(after))),
            f"{place}.properties.",
            side,
            lambda old, new, inner: self.compare(old, new, inner, side),
        )
        for key in sorted({*before, *after}):
            old, new = before.get(key, ABSENT), after.get(key, ABSENT)
            if key not in ("properties", "required") and old != new:
                inner = f"{place}.{key}" if place else key
                yield from self._compare_keyword(key, old, new, inner, side)

    def _compare_values(
        self, before: object, after: object, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        """Compare schemas of which at least one is true, false, absent or not a schema."""
        plain = [{} if each in (True, ABSENT) else each for each in (before, after)]
        if all(isinstance(each, dict) for each in plain):
            yield from self.compare(plain[0], plain[1], place, side)
        else:
            kind: ChangeKind = "breaking"
            if before is False or after is False:
                kind = _kind_of_move(side, is_wider=before is False)
            yield _difference(kind, place, before, after)

    # -- keywords

    def _compare_keyword(
        self, key: str, old: object, new: object, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        if key in _TEXTS:
            yield _difference("text", place, old, new)
        elif key in _CONDITIONS and isinstance(old, dict) and isinstance(new, dict):
            yield from self.compare(old, new, place, "either")
        elif key in _OPEN and side == "output" and old is False:
            # Clients ignore further members of results.
            yield _difference("compatible", place, old, new)
        elif key in _SCHEMAS or key in _OPEN:
            yield from self.compare(old, new, place, side)
        elif key in _DEFINITIONS or key == "patternProperties":
            yield from self._compare_named(key, old, new, place, side)
        elif key in ("anyOf", "oneOf", "allOf"):
            yield from self._compare_alternatives(key, old, new, place, side)
        elif isinstance(old, list) and isinstance(new, list) and _are_paired(key, old, new):
            for number, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from self.compare(one, other, f"{place}[{number}]", side)
        elif key in ("$ref", "prefixItems") or key in _CONDITIONS:
            # A reference leads outside, or what it leads to would have been compared.
            yield _difference("breaking", place, old, new)
        else:
            kind = _compare_plain(key, old, new, side)
            if kind is not None:
                yield _difference(kind, place, old, new)

    def _compare_named(
        self, key: str, old: object, new: object, place: str, side: Side
    ) -> Iterator[MemberDifference]:
        before = old if isinstance(old, dict) else {}
        after = new if isinstance(new, dict) else {}
        for name in sorted({*before, *after}):
            inner = f"{place}.{name}"
            if name in before and name in after:
                yield from self.compare(before[name], after[name], inner, side)
                continue
            # A definition has a meaning only where it is referred to.
            kind: ChangeKind = "compatible"
            if key == "patternProperties":
                kind = _kind_of_move(side, is_wider=name in before)
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
                yield from self.compare(one, other, inner, side)
            return
        if gone and come and before and after:
            yield _difference("breaking", place, old, new)
            return
        # A member more of `anyOf` allows more, unless it is the first; one of `allOf` less.
        is_wider = bool(come) and bool(before) if key != "allOf" else bool(gone)
        if not after and key != "allOf":
            is_wider = True
        yield _difference(_kind_of_move(side, is_wider=is_wider), place, old, new)


def _are_paired(key: str, old: list[Any], new: list[Any]) -> bool:
    return key == "prefixItems" and len(old) == len(new)


def _compare_members(
    members: tuple[JsonObject, JsonObject],
    required: tuple[set[str], set[str]],
    place: str,
    side: Side,
    compare: Callable[[Any, Any, str], Iterator[MemberDifference]],
) -> Iterator[MemberDifference]:
    """Yield the differences between the members of two objects, such as arguments.

    Args:
        members: before and after, by name.
        required: likewise, the names of those that have to be there.
        place: what the names follow.
        side: what the objects are.
        compare: what differs between two members, the last argument being their place.
    """
    (old, new), (needed, needs) = members, required
    for name in sorted({*old, *new, *needed, *needs}):
        inner = f"{place}{name}"
        if name in old and name not in new:
            yield MemberDifference("breaking", f"{inner} removed", old[name])
        elif name in new and name not in old:
            is_demanded = side != "output" and name in needs
            what = f"{inner} added, and required" if name in needs else f"{inner} added"
            kind: ChangeKind = "breaking" if is_demanded else "compatible"
            yield MemberDifference(kind, what, ABSENT, new[name])
        else:
            if name in old:
                yield from compare(old[name], new[name], inner)
            if (name in needed) != (name in needs):
                is_wider = name in needed
                what = "no longer required" if is_wider else "required now"
                yield MemberDifference(_kind_of_move(side, is_wider=is_wider), f"{inner} is {what}")


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
        return "breaking" if is_wider is None else _kind_of_move(side, is_wider=bool(is_wider))
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


# -- entries


MOST_CHANGES: Final = 200
"""The most changes that are listed; the others are counted."""
# Longer values are cut to the part that differs.
_LONGEST: Final = 8_000
_BEFORE: Final = 200

_KINDS: Final[tuple[ChangeKind, ...]] = ("breaking", "compatible", "text")
_SIDES: Final[Mapping[str, Side]] = {"inputSchema": "input", "outputSchema": "output"}
# Compared by their meaning; sizes and times change with contents.
_APART: Final = frozenset({*_SIDES, "arguments", "size"})
# What a missing hint means.
_DEFAULTS: Final = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
# The value with which a client may assume more.
_SAFE: Final = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
# The more a client has to be capable of, the later.
_TASKS: Final = ("optional", "forbidden", "required")


def find_catalog_changes(
    before: JsonObject, after: JsonObject, *, most: int = MOST_CHANGES
) -> tuple[CatalogChange, ...]:
    """Return how a catalog differs from an earlier one, breaking changes first.

    The order of entries, of required members and of alternatives does not matter, nor do versions,
    sizes of resources and the times when they changed.

    Args:
        before: the earlier catalog, or a lock file.
        after: the later one.
        most: the most changes to list. If there are more, the last one of the result counts them.
    """
    old, new = _entries(before), _entries(after)
    found = [*_plain_changes(_strip(before, old), _strip(after, new))]
    for subject in old.keys() & new.keys():
        one, other = old[subject], new[subject]
        if one.value != other.value:
            found += [(subject, each) for each in _entry_changes(one, other)]
    found.sort(key=lambda each: (_KINDS.index(each[1].kind), each[0], each[1].what))
    shown = [_as_change(subject, each) for subject, each in found[:most]]
    if len(found) > most:
        shown.append(_count_rest([each for _, each in found[most:]]))
    return tuple(shown)


def _entries(catalog: JsonObject) -> dict[str, CatalogEntry]:
    """Return the entries by subject; a second one of the same name gets a number."""
    found: dict[str, CatalogEntry] = {}
    seen: Counter[str] = Counter()
    for entry in entries_of(catalog):
        seen[entry.subject] += 1
        if (count := seen[entry.subject]) > 1:
            entry = entry._replace(
                name=f"{entry.name} ({count})", subject=f"{entry.subject} ({count})"
            )
        found[entry.subject] = entry
    return found


def _strip(catalog: JsonObject, entries: Mapping[str, CatalogEntry]) -> JsonObject:
    """Return a catalog without the members that are compared by their meaning."""
    lists: dict[str, list[JsonObject]] = {key: [] for key in LISTS}
    for entry in entries.values():
        rest: dict[str, Any] = {
            key: value for key, value in entry.value.items() if key not in _APART
        }
        if isinstance(rest.get("annotations"), dict):
            annotations = rest["annotations"].items()
            rest["annotations"] = {key: each for key, each in annotations if key not in VOLATILE}
        lists[entry.list].append({**rest, LISTS[entry.list][1]: entry.name})
    return {**catalog, **lists}


# -- members other than schemas


def _plain_changes(before: JsonObject, after: JsonObject) -> Iterator[tuple[str, MemberDifference]]:
    for change in find_changes(before, after):
        old, new = (
            ABSENT if each is None else json.loads(each) for each in (change.before, change.after)
        )
        yield change.subject, MemberDifference(_kind_of(change, old, new), change.what, old, new)


def _kind_of(change: Change, old: object, new: object) -> ChangeKind:
    if change.subject in ("the server", "the instructions"):
        return "text"
    if change.what in ("removed", "fails now"):
        return "breaking"
    if change.what in ("added", "answers now"):
        return "compatible"
    member = change.what.rpartition(" ")[0]
    hint = member.removeprefix("annotations.")
    if hint != member and hint in _DEFAULTS:
        return _kind_of_hint(hint, old, new)
    if member == "annotations":
        return _kind_of_annotations(old, new)
    if member in ("execution", "execution.taskSupport"):
        return _kind_of_task_support(old, new)
    if member == "mimeType":
        return "compatible" if old is ABSENT else "breaking"
    return "text"


def _kind_of_hint(hint: str, old: object, new: object) -> ChangeKind:
    values = [_DEFAULTS[hint] if each is ABSENT else each for each in (old, new)]
    is_less = values[0] == _SAFE[hint] and values[1] != _SAFE[hint]
    return "breaking" if is_less else "compatible"


def _kind_of_annotations(old: object, new: object) -> ChangeKind:
    """Return what it means that all annotations were added or removed."""
    sides: list[JsonObject] = [each if isinstance(each, dict) else {} for each in (old, new)]
    kinds = [
        _kind_of_hint(hint, *(side.get(hint, ABSENT) for side in sides))
        for hint in _DEFAULTS
        if any(hint in side for side in sides)
    ]
    return min(kinds, key=_KINDS.index, default="text")


def _kind_of_task_support(old: object, new: object) -> ChangeKind:
    ranks = []
    for each in (old, new):
        named = each.get("taskSupport") if isinstance(each, dict) else each
        ranks.append(_TASKS.index(named) if named in _TASKS else _TASKS.index("forbidden"))
    return "breaking" if ranks[1] > ranks[0] else "compatible"


# -- schemas and arguments


def _entry_changes(before: CatalogEntry, after: CatalogEntry) -> Iterator[MemberDifference]:
    if before.list == "prompts":
        yield from _argument_changes(before.value, after.value)
    for member, side in _SIDES.items() if before.list == "tools" else ():
        old, new = (each.value.get(member) for each in (before, after))
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from compare_schemas(old, new, member, side)
        elif isinstance(old, dict):
            yield MemberDifference("breaking", f"{member} removed", old)
        else:
            kind: ChangeKind = "breaking" if side == "input" else "compatible"
            yield MemberDifference(kind, f"{member} added", ABSENT, tool_schema(after, member))


def _argument_changes(before: JsonObject, after: JsonObject) -> Iterator[MemberDifference]:
    old, new = _arguments(before), _arguments(after)
    needed, needs = (
        {name for name, each in found.items() if each.get("required") is True}
        for found in (old, new)
    )
    return _compare_members((old, new), (needed, needs), "argument ", "input", _compare_argument)


def _compare_argument(
    before: JsonObject, after: JsonObject, place: str
) -> Iterator[MemberDifference]:
    for key in sorted({*before, *after} - {"required", "name"}):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old != new:
            yield _difference("text", f"{place}: {key}", old, new)


def _arguments(prompt: JsonObject) -> dict[str, JsonObject]:
    listed = prompt.get("arguments")
    entries = listed if isinstance(listed, list) else []
    return {str(each.get("name")): each for each in entries if isinstance(each, dict)}


# -- for people


def _as_change(subject: str, each: MemberDifference) -> CatalogChange:
    before, after = _cut_alike(each.before, each.after)
    return CatalogChange(
        kind=each.kind, subject=subject, what=each.what, before=before, after=after
    )


def _cut_alike(before: object, after: object) -> tuple[str | None, str | None]:
    """Return two values as JSON; of long ones the part around the first difference, as a text."""
    texts = [
        each
        if isinstance(each, str) or each is ABSENT
        else json.dumps(each, ensure_ascii=False, sort_keys=True)
        for each in (before, after)
    ]
    if all(each is ABSENT or len(str(each)) <= _LONGEST for each in texts):
        return _dump(before), _dump(after)
    pair = [str(each) if each is not ABSENT else "" for each in texts]
    same = next(
        (at for at, (a, b) in enumerate(zip(*pair, strict=False)) if a != b),
        min(map(len, pair)),
    )
    begin = max(0, same - _BEFORE)
    cut = [
        ABSENT if whole is ABSENT else _around(text, begin)
        for whole, text in zip(texts, pair, strict=True)
    ]
    return _dump(cut[0]), _dump(cut[1])


def _around(text: str, begin: int) -> str:
    rest = "..." if begin + _LONGEST < len(text) else ""
    return f"{'...' if begin else ''}{text[begin : begin + _LONGEST]}{rest}"


def _dump(value: object) -> str | None:
    return None if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _count_rest(rest: list[MemberDifference]) -> CatalogChange:
    counts = Counter(each.kind for each in rest)
    parts = ", ".join(f"{counts[kind]} {kind}" for kind in _KINDS if counts[kind])
    return CatalogChange(
        kind=rest[0].kind,  # the worst: they are sorted
        subject=f"{len(rest)} more changes",
        what=f"not listed: {parts}",
    )


# -- locks


def locked_revision(lock: Path) -> RevisionId | None:
    """Return the revision under which a lock was written; None if that is not known.

    Under another revision the same server may offer something else.
    """
    try:
        named = read_lock(lock).get("revision")
    except LockError:
        return None
    return named if named in REVISIONS else None


def explain_lock(error: LockError) -> str:
    """Return why a lock cannot be read, with the command that writes those of a fleet."""
    return str(error).replace("accord lock writes", "accord fleet --update-locks writes")


def compare_with_lock(
    lock: Path, catalog: JsonObject, mask: Callable[[JsonObject], JsonObject]
) -> tuple[CatalogChange, ...]:
    """Return how a catalog differs from the locked one, both without secrets.

    Args:
        lock: the file.
        catalog: what the server offers.
        mask: returns a catalog without secrets; a run that writes locks knows no other.

    Raises:
        LockError: the lock cannot be read.
    """
    return find_catalog_changes(mask(read_lock(lock)), mask(catalog))
