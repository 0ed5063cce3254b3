"""Conditions on versions, as manifests write them: `>=3.8,<4.0`, `>=16.0.0 <21`, `^1.2.3`."""

import re
from typing import Final

_CONDITION: Final = re.compile(r"(>=|<=|==|!=|~=|>|<|=|\^|~)?\s*v?(\d+(?:\.(?:\d+|[x*]))*|\*|x)\S*")


def satisfies(version: str, conditions: str) -> bool | None:
    """Return whether a version meets conditions; None if they cannot be read.

    >>> satisfies("3.11.2", ">=3.8,<4.0")
    True
    """
    numbers = _numbers(version)
    if not numbers:
        return None
    results = [_meets_all(numbers, each) for each in conditions.split("||")]
    if None in results:
        return None
    return any(results)


def _numbers(text: str) -> list[int]:
    found = re.match(r"\D*(\d+(?:\.\d+)*)", text)
    return [int(each) for each in found[1].split(".")] if found else []


def _meets_all(version: list[int], conditions: str) -> bool | None:
    parts = re.sub(r"([<>=~^!])\s+", r"\1", conditions.replace(",", " ")).split()
    results = []
    for part in parts:
        found = _CONDITION.fullmatch(part)
        if found is None:
            return None
        results.append(_meets(version, found[1] or "==", found[2]))
    return all(results)


def _meets(version: list[int], sign: str, text: str) -> bool:
    wanted = [int(each) for each in re.split(r"\.", text) if each.isdigit()]
    if not wanted:
        return True  # any version
    if sign in ("==", "=", "!="):
        is_same = version[: len(wanted)] == wanted
        return is_same != (sign == "!=")
    width = max(len(version), len(wanted))
    own, other = _pad(version, width), _pad(wanted, width)
    compared = {">=": own >= other, ">": own > other, "<=": own <= other, "<": own < other}
    if sign in compared:
        return compared[sign]
    fixed = max(len(wanted) - 1, 1) if sign == "~=" else min(len(wanted), 2)
    if sign == "^":  # up to the first number that is not 0
        fixed = next((at for at, each in enumerate(wanted, 1) if each), len(wanted))
    return own >= other and version[:fixed] == wanted[:fixed]


def _pad(numbers: list[int], width: int) -> list[int]:
    return numbers + [0] * (width - len(numbers))
