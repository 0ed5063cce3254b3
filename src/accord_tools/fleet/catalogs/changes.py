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
from collections.abc import Iterator, Mapping
from typing import Any, Final

from accord.types import JsonObject
from accord_tools.contract.lock_file import LISTS, Change, find_changes
from accord_tools.fleet.catalogs.entries import CatalogEntry, entries_of, tool_schema
from accord_tools.fleet.catalogs.schema_changes import (
    ABSENT,
    MemberDifference,
    Side,
    compare_schemas,
)
from accord_tools.fleet.catalogs.summary import VOLATILE
from accord_tools.fleet.results import CatalogChange, ChangeKind

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
    for name in sorted({*old, *new}):
        place = f"argument {name}"
        if name not in new:
            yield MemberDifference("breaking", f"{place} removed", old[name])
        elif name not in old:
            is_required = new[name].get("required") is True
            what = f"{place} added, and required" if is_required else f"{place} added"
            kind: ChangeKind = "breaking" if is_required else "compatible"
            yield MemberDifference(kind, what, ABSENT, new[name])
        else:
            yield from _one_argument(old[name], new[name], place)


def _one_argument(old: JsonObject, new: JsonObject, place: str) -> Iterator[MemberDifference]:
    was, now = (each.get("required") is True for each in (old, new))
    if now and not was:
        yield MemberDifference("breaking", f"{place} is required now")
    elif was and not now:
        yield MemberDifference("compatible", f"{place} is no longer required")
    for key in sorted({*old, *new} - {"required", "name"}):
        one, other = old.get(key, ABSENT), new.get(key, ABSENT)
        if one != other:
            verb = "added" if one is ABSENT else "removed" if other is ABSENT else "changed"
            yield MemberDifference("text", f"{place}: {key} {verb}", one, other)


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
