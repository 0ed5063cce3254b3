"""Values given on the command line: found among the known ones, or refused with their list."""

from collections.abc import Sequence
from typing import TypeVar

from accord.errors import AccordError

__all__ = ["UsageError", "header", "one_of", "seconds", "variable"]

Value = TypeVar("Value", bound=str)


class UsageError(AccordError):
    """The command line asks for something that does not exist."""


def one_of(value: str, known: Sequence[Value], what: str) -> Value:
    """Return the known value that was meant, in any case and with any separator."""
    plain = value.strip().lower().replace("_", "-").replace(" ", "-")
    for each in known:
        if each.lower().replace(" ", "-") == plain:
            return each
    raise UsageError(f"unknown {what} {value!r}; known: {', '.join(known)}")


def seconds(text: str) -> float:
    """Read a time in seconds, for argparse."""
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def header(text: str) -> tuple[str, str]:
    """Read a header, for argparse."""
    import argparse

    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is no header, expected 'Name: value'")
    return name.strip().lower(), value.strip()


def variable(text: str) -> tuple[str, str]:
    """Read a variable of the environment, for argparse."""
    import argparse

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no variable, expected K=V")
    return name, value
