"""Differences between two JSON values, each at its place; numbers are compared as written."""

import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Final, Literal

import msgspec

# Longer texts of values are cut where they are shown.
_SHOWN: Final = 500


class NumberText:
    """A number as its text, so that no digit is lost; equal by value, as `1` to `1.0`."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumberText):
            return False
        if self.text == other.text:
            return True
        try:
            return Decimal(self.text) == Decimal(other.text)
        except InvalidOperation:  # an exponent beyond all bounds
            return False

    __hash__ = None  # type: ignore[assignment]  # equal numbers may have different texts


def parse_exactly(text: str) -> object:
    """Return the value of a JSON text; its numbers are `NumberText`.

    Raises:
        ValueError: the text is not JSON, or nested too deeply.
    """
    try:
        return json.loads(
            text, parse_int=NumberText, parse_float=NumberText, parse_constant=_refuse
        )
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def print_exactly(value: object) -> str:
    """Return the JSON text of a value; numbers as they were written."""
    if isinstance(value, NumberText):
        return value.text
    if isinstance(value, dict):
        members = (f"{_quote(name)}: {print_exactly(each)}" for name, each in value.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(print_exactly, value)) + "]"
    return _quote(value)


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def shorten(value: object) -> str:
    """Return the JSON text of a value, cut if it is long."""
    try:
        text = print_exactly(value)
    except RecursionError:
        return "(nested deeply)"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def point_to(pointer: str, part: str | int) -> str:
    """Return the JSON pointer of a member or an element.

    >>> point_to("/a", "b/c")
    '/a/b~1c'
    """
    return f"{pointer}/{str(part).replace('~', '~0').replace('/', '~1')}"


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
