"""What plain JSON values are, and how a sentence names them."""

from collections.abc import Sequence
from typing import Any, Final

from accord.protocol.rules._rule import Breach, Outcome
from accord.types._base import RequestId

# A list of thousands of items with one mistake each is told by its first few.
_TOLD: Final = 5


def is_integer(value: Any) -> bool:
    """Whether a value is an integer; 1.0 is one, true is not."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a number; true is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_id(value: Any) -> RequestId | None:
    """Return a request id or progress token as such; None where the value cannot be one."""
    if isinstance(value, str):
        return value
    return int(value) if is_integer(value) else None


def describe(value: Any) -> str:
    """Name a value by its JSON type, as a sentence does."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"the string {value[:40]!r}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "an array"
        case _:
            return "an object"


def first_few(found: Sequence[str | Breach]) -> Outcome:
    """Return what was found amiss, at most a handful; True where nothing was."""
    return found[:_TOLD] or True
