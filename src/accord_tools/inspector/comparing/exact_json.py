"""JSON with numbers as they were written, for comparisons and for finding places."""

import json
from decimal import Decimal, InvalidOperation
from typing import Final

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
