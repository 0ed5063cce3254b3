"""Two JSON values side by side for people: of long ones only the parts that differ."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final

# What can be read at a glance; longer values are shown in parts.
_SHORT: Final = 300
_BEFORE: Final = 60
_MOST_LINES: Final = 24


def difference(before: str | None, after: str | None) -> list[str]:
    """Return lines that begin with - and +, for values as JSON; None is a value that is not there.

    What looks like nothing, or like something else, is spelled out.
    """
    if before is None or after is None or (len(before) <= _SHORT and len(after) <= _SHORT):
        told = [("-", before), ("+", after)]
        return [f"{sign} {_spelled(_cut(text, 0))}" for sign, text in told if text is not None]
    lines = [f"{sign} {_spelled(text)}" for sign, text in _parts(_lines(before), _lines(after))]
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"... and {more} lines more"]


def _lines(text: str) -> list[str]:
    value: Any = json.loads(text)
    if isinstance(value, str):
        return value.split("\n")
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2).split("\n")


def _parts(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines that differ, each from shortly before where it does."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind != "equal":
            pairs = zip_longest(before[start:end], after[other_start:other_end])
            for old, new in pairs:
                place = _common(old or "", new or "")
                for sign, line in (("-", old), ("+", new)):
                    if line is not None:
                        yield sign, _cut(line, place)


def _common(one: str, other: str) -> int:
    """Return how many characters two texts have in common from the beginning."""
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


def _spelled(text: str) -> str:
    # Characters that nobody sees are how descriptions are tampered with.
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in text
    )
