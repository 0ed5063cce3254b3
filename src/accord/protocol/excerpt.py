"""Excerpts of messages: a long one is shortened around the value that a violation is about.

The value is named by a JSON pointer (RFC 6901), such as `/result/tools/3/inputSchema`. What is left
of the message is its own text, not parsed and written again; only what is left out is replaced, by
`...` or by the number of items.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

# Enough to recognize a message in a report.
_WHOLE: Final = 400
# The longest excerpt around a value, and the longest value in it.
_LONGEST: Final = 600
_VALUE: Final = 240
# Siblings of the marked value are shown up to these lengths, as long as everything fits.
_SIBLINGS: Final = (60, 24, 0)
_NEAREST: Final = 4
# Strings are shown whole or not at all: a part of a secret could not be recognized and masked.
_LEFT_OUT: Final = {"{": "{...}", "[": "[...]", '"': '"..."'}

_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Numbers stay text, because Python refuses to read very long ones.
_scan: Final = json.JSONDecoder(
    strict=False, parse_int=str, parse_float=str, parse_constant=str
).raw_decode

Mark: TypeAlias = tuple[int, int]
"""Where a value begins and ends in a text."""


class Excerpt(NamedTuple):
    """A message or a part of it, and where the value in question is in this text."""

    text: str
    mark: Mark | None = None


class _Entry(NamedTuple):
    """One member of an object, or one element of an array, by the positions of its text."""

    name: str
    begin: int
    start: int
    end: int


def make_pointer(names: Sequence[str | int]) -> str:
    """Return the JSON pointer to a value.

    >>> make_pointer(["result", "tools", 3, "a/b"])
    '/result/tools/3/a~1b'
    """
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def split_pointer(pointer: str) -> list[str]:
    """Return the names in a JSON pointer."""
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]


def excerpt(text: str, pointer: str | None = None) -> Excerpt:
    """Return a message, shortened around a value if it is long.

    Args:
        text: the message as it travelled.
        pointer: the value; without it, or if the message has no such value, a long message is cut.
    """
    if pointer:
        try:
            return _excerpt_around(text, split_pointer(pointer))
        except (LookupError, ValueError, RecursionError):
            # Not such a value, or not JSON.
            pass
    return Excerpt(text if len(text) <= _WHOLE else f"{text[:_WHOLE]}...")


def _excerpt_around(text: str, names: list[str]) -> Excerpt:
    start = _skip_space(text, 0)
    if len(text) <= _WHOLE:
        return Excerpt(text, _find(text, start, names))
    found = Excerpt("")
    for longest in _SIBLINGS:
        found = _shorten(text, start, names, longest)
        if len(found.text) <= _LONGEST:
            return found
    return _crop(found)


def _crop(shown: Excerpt) -> Excerpt:
    """Return the value and what is nearest to it."""
    start, end = shown.mark or (0, 0)
    beside = (_LONGEST - (end - start)) // 2
    first, last = max(0, start - beside), end + beside
    head, tail = "..." if first else "", "..." if last < len(shown.text) else ""
    moved = len(head) - first
    return Excerpt(f"{head}{shown.text[first:last]}{tail}", (start + moved, end + moved))


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _entries(text: str, start: int) -> Iterator[_Entry]:
    """Yield the members of an object or the elements of an array; nothing for another value."""
    if text[start] not in "{[":
        return
    is_object, index = text[start] == "{", 0
    position = _skip_space(text, start + 1)
    while text[position] not in "}]":
        begin, name = position, str(index)
        if is_object:
            name, position = _scan(text, position)
            position = _skip_space(text, _skip_space(text, position) + 1)
        _, end = _scan(text, position)
        yield _Entry(name, begin, position, end)
        index += 1
        position = _skip_space(text, end)
        if text[position] == ",":
            position = _skip_space(text, position + 1)


def _place_of(entries: Sequence[_Entry], name: str) -> int:
    """Return the place of an entry; of equal names the last one counts, as it does for decoders."""
    places = [place for place, entry in enumerate(entries) if entry.name == name]
    return places[-1]


def _find(text: str, start: int, names: Sequence[str]) -> Mark:
    for name in names:
        entries = list(_entries(text, start))
        start = entries[_place_of(entries, name)].start
    return start, _scan(text, start)[1]


def _shorten(text: str, start: int, names: Sequence[str], longest: int) -> Excerpt:
    if not names:
        shown = _shorten_value(text, start, _scan(text, start)[1], _VALUE)
        return Excerpt(shown, (0, len(shown)))
    entries = list(_entries(text, start))
    place = _place_of(entries, names[0])
    inner = _shorten(text, entries[place].start, names[1:], longest)
    if text[start] == "[":
        before, after = _count(place), _count(len(entries) - place - 1)
    else:
        # The nearest siblings, and the first ones, such as the name of a tool.
        first = entries[: max(0, place - _NEAREST)]
        before = [*_siblings(text, first[:_NEAREST], longest)]
        before += ["..."] if len(first) > _NEAREST else []
        before += _siblings(text, entries[max(0, place - _NEAREST) : place], longest)
        rest = entries[place + 1 :]
        after = [*_siblings(text, rest[:_NEAREST], longest)]
        after += ["..."] if len(rest) > _NEAREST else []
    head = "".join(f"{each}," for each in before)
    head = f"{text[start]}{head}{text[entries[place].begin : entries[place].start]}"
    tail = "".join(f",{each}" for each in after) + ("]" if text[start] == "[" else "}")
    mark = inner.mark or (0, 0)
    return Excerpt(f"{head}{inner.text}{tail}", (mark[0] + len(head), mark[1] + len(head)))


def _count(items: int) -> list[str]:
    return [f"({items} more)"] if items else []


def _siblings(text: str, entries: Sequence[_Entry], longest: int) -> list[str]:
    shown = [_shorten_sibling(text, entry, longest) for entry in entries]
    # Without room for any of them, one sign stands for all.
    return ["..."] if shown and not any(shown) else [each or "..." for each in shown]


def _shorten_sibling(text: str, entry: _Entry, longest: int) -> str:
    if entry.end - entry.begin <= longest:
        return text[entry.begin : entry.end]
    head = text[entry.begin : entry.start]
    return f"{head}{_LEFT_OUT.get(text[entry.start], '...')}" if len(head) <= longest else ""


def _shorten_value(text: str, start: int, end: int, longest: int) -> str:
    """Return a value, or the beginning of a long one."""
    if end - start <= longest:
        return text[start:end]
    if text[start] not in "{[":
        closing = '"' if text[start] == '"' else ""
        return f"{text[start : start + longest]}...{closing}"
    shown, room = [], longest
    entries = list(_entries(text, start))
    for place, entry in enumerate(entries):
        part = _shorten_sibling(text, entry, _SIBLINGS[0])
        room -= len(part) + 1
        if not part or room < 0 or (text[start] == "[" and place == _NEAREST):
            shown += _count(len(entries) - place)
            break
        shown.append(part)
    return f"{text[start]}{','.join(shown)}{text[end - 1]}"
