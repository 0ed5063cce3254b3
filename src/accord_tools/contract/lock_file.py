"""Lock files: what a server offers, written to a file, and how a server differs from it."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec

from accord.cli.terminal import escape_unprintable
from accord.errors import AccordError
from accord.protocol.catalogue import RULE_SET
from accord.secrets.filter import HIDDEN
from accord.testing.catalog import METHODS
from accord.types import JsonObject
from accord_tools.contract.data_files import read_data_file

LISTS: Final = {
    "tools": ("tool", "name"),
    "resources": ("resource", "uri"),
    "resourceTemplates": ("resource template", "uriTemplate"),
    "prompts": ("prompt", "name"),
}
"""The lists of a catalog: what an entry is called, and which member names it."""
_ABSENT: Final = object()
# A value of this length is read at a glance; of longer ones only the parts that differ are shown.
_SHORT: Final = 300
_BEFORE: Final = 60
_MOST_LINES: Final = 24


class LockError(AccordError):
    """A lock file that cannot be read; the message names it."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference: of which entry, which member, and the JSON before and after."""

    subject: str
    what: str
    before: str | None = None
    after: str | None = None

    def text(self) -> str:
        """Return the difference as lines of text."""
        lines = difference(self.before, self.after)
        return "\n".join([f"{self.subject}: {self.what}", *(f"  {each}" for each in lines)])


def format_lock(catalog: JsonObject, revision: str) -> str:
    """Return the text of a lock file; the same catalog gives the same text.

    Rules decide nothing of it, but its readers may ask what the server was judged by then.
    """
    locked = {"revision": revision, "rules": RULE_SET, **catalog}
    return json.dumps(locked, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read_lock(path: Path) -> JsonObject:
    """Read a lock file.

    Raises:
        LockError: it does not exist, or is not a lock file.
    """
    try:
        # Before 0.4 there was another mask.
        locked = json.loads(read_data_file(path).replace(b"(secret)", HIDDEN.encode()))
    except FileNotFoundError:
        raise LockError(f"{path} does not exist; accord lock writes it") from None
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise LockError(f"{path} is nested too deeply") from None
    except ValueError as error:
        raise LockError(
            f"{path} is not JSON: {error}; remove it, and accord lock writes it anew"
        ) from None
    if not isinstance(locked, dict) or not isinstance(locked.get("server"), str):
        raise LockError(f"{path} is not a lock file; remove it, and accord lock writes one")
    return locked


def find_changes(before: JsonObject, after: JsonObject) -> list[Change]:
    """Return the differences between a locked catalog and another one."""
    found = [
        Change(subject=f"the {key}", what=what, before=_dump(old), after=_dump(new))
        for key in ("server", "instructions")
        for what, old, new in _members(before.get(key, _ABSENT), after.get(key, _ABSENT), "")
    ]
    failed = [each.get("failed") or {} for each in (before, after)]
    for key, (kind, name) in LISTS.items():
        method = METHODS[key]
        old, new = (each.get(method, _ABSENT) for each in failed)
        if old != new:
            what = "answers" if new is _ABSENT else "fails"
            found.append(
                Change(subject=method, what=f"{what} now", before=_dump(old), after=_dump(new))
            )
        if new is _ABSENT:
            # The entries of a list that fails are not removed, only invisible.
            found += _entries(kind, _by_name(before.get(key), name), _by_name(after.get(key), name))
    return found


def _by_name(listed: object, name: str) -> JsonObject:
    entries = listed if isinstance(listed, list) else []
    return {str(each.get(name)): each for each in entries if isinstance(each, dict)}


def _entries(kind: str, before: JsonObject, after: JsonObject) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        subject = f"{kind} {name}"
        if name not in after:
            yield Change(subject=subject, what="removed")
        elif name not in before:
            yield Change(subject=subject, what="added")
        else:
            for what, old, new in _members(before[name], after[name], ""):
                yield Change(subject=subject, what=what, before=_dump(old), after=_dump(new))


def _members(before: object, after: object, place: str) -> Iterator[tuple[str, object, object]]:
    """Yield the members that differ, as deep as both sides are objects."""
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            inner = f"{place}.{key}" if place else key
            yield from _members(before.get(key, _ABSENT), after.get(key, _ABSENT), inner)
    elif before is _ABSENT:
        yield f"{place} added".lstrip(), before, after
    elif after is _ABSENT:
        yield f"{place} removed".lstrip(), before, after
    elif json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
        yield f"{place} changed".lstrip(), before, after


def _dump(value: object) -> str | None:
    return None if value is _ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)


# -- two JSON values side by side


def difference(before: str | None, after: str | None) -> list[str]:
    """Return lines that begin with - and +, for values as JSON; None is an absent value.

    Invisible characters are escaped, because descriptions are tampered with by them.
    """
    if before is None or after is None or (len(before) <= _SHORT and len(after) <= _SHORT):
        sides = [("-", before), ("+", after)]
        return [f"{sign} {_escape(_cut(text, 0))}" for sign, text in sides if text is not None]
    lines = [
        f"{sign} {_escape(text)}" for sign, text in _differing_lines(_lines(before), _lines(after))
    ]
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"... and {more} lines more"]


def _lines(text: str) -> list[str]:
    value: object = json.loads(text)
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2).split("\n")


def _differing_lines(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that differ, cut to the part that differs."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind != "equal":
            pairs = zip_longest(before[start:end], after[other_start:other_end])
            for old, new in pairs:
                place = _common_prefix(old or "", new or "")
                for sign, line in (("-", old), ("+", new)):
                    if line is not None:
                        yield sign, _cut(line, place)


def _common_prefix(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(text: str, place: int) -> str:
    """Return a text around a place in it."""
    if len(text) <= _SHORT:
        return text
    begin = max(0, place - _BEFORE)
    end = begin + _SHORT
    rest = f"... ({len(text)} characters)" if end < len(text) else ""
    return f"{'...' if begin else ''}{text[begin:end]}{rest}"


def _escape(text: str) -> str:
    return "\t".join(map(escape_unprintable, text.split("\t")))
