"""Differences between two JSON values, each at its place."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, Literal

import msgspec

from accord_tools.inspector.comparing.exact_json import parse_exactly, point_to, shorten

DIFFERENCES_MOST: Final = 1_000
"""The most differences that are listed."""


class Difference(msgspec.Struct, frozen=True):
    """A place where two values differ.

    Attributes:
        pointer: JSON pointer of the place; of an added value in the right one, else in the left.
        change: what happened from left to right.
        left: JSON text of the value on the left; empty for an added one.
        right: JSON text of the value on the right; empty for a removed one.
    """

    pointer: str
    change: Literal["added", "removed", "changed"]
    left: str = ""
    right: str = ""


def find_differences(left: str, right: str, *, most: int = DIFFERENCES_MOST) -> list[Difference]:
    """Compare two JSON texts; white space, the order of members and `1.0` for `1` do not matter.

    A text that is not JSON is compared as a whole.
    """
    if left == right:
        return []
    try:
        values = parse_exactly(left), parse_exactly(right)
    except ValueError:
        return [Difference("", "changed", shorten(left), shorten(right))]
    return list(islice(_compare(*values), most))


def _compare(left: object, right: object) -> Iterator[Difference]:
    # A stack, not recursion: a server may nest as deeply as it likes.
    waiting: list[Iterator[tuple[str, object, object]]] = [iter([("", left, right)])]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            continue
        pointer, one, other = found
        if one is _ABSENT:
            yield Difference(pointer, "added", "", shorten(other))
        elif other is _ABSENT:
            yield Difference(pointer, "removed", shorten(one), "")
        elif isinstance(one, dict) and isinstance(other, dict):
            waiting.append(_members(pointer, one, other))
        elif isinstance(one, list) and isinstance(other, list):
            waiting.append(_elements(pointer, one, other))
        elif not _is_equal(one, other):
            yield Difference(pointer, "changed", shorten(one), shorten(other))


class _Absent:
    """Stands for a value that one side does not have."""


_ABSENT: Final = _Absent()


def _members(
    pointer: str, one: dict[str, object], other: dict[str, object]
) -> Iterator[tuple[str, object, object]]:
    for name in dict.fromkeys([*one, *other]):
        yield point_to(pointer, name), one.get(name, _ABSENT), other.get(name, _ABSENT)


def _elements(
    pointer: str, one: list[object], other: list[object]
) -> Iterator[tuple[str, object, object]]:
    """Pair the elements of two lists; those that only moved because of others are not compared."""
    shorter = min(len(one), len(other))
    start = 0
    while start < shorter and _is_equal(one[start], other[start]):
        start += 1
    end = 0
    while end < shorter - start and _is_equal(one[-1 - end], other[-1 - end]):
        end += 1
    for at in range(start, max(len(one), len(other)) - end):
        yield (
            point_to(pointer, at),
            one[at] if at < len(one) - end else _ABSENT,
            other[at] if at < len(other) - end else _ABSENT,
        )


def _is_equal(one: object, other: object) -> bool:
    try:
        # In Python True equals 1; here a number is never a boolean.
        return one == other
    except RecursionError:
        return False
