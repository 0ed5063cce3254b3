"""Paths into a result, such as `content[0].text` or `structuredContent.items[*].id`."""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final, TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]
"""Names of members and numbers of items; a star is any member or item."""

_PART: Final = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")
_ANY: Final = "*"


def parse_path(text: str) -> Path:
    """Return the parts of a path.

    >>> parse_path("content[0].text")
    ('content', 0, 'text')

    Raises:
        ValueError: it is not a path.
    """
    parts: list[str | int] = []
    end = 0
    while found := _PART.match(text, end):
        name, number = found.groups()
        parts.append(int(number) if number and number != _ANY else name or number)
        end = found.end()
    if end != len(text) or not parts:
        raise ValueError(f"{text!r} is not a path; write one such as content[0].text")
    return tuple(parts)


def wire_form(result: object) -> Any:
    """Return a result as the server sent it, without its `_meta`."""
    found = msgspec.to_builtins(result)
    if isinstance(found, dict):
        found.pop("_meta", None)
    return found


def values_at(value: object, path: Path) -> list[object]:
    """Return the values at a path; empty if there is nothing."""
    return [holder[key] for holder, key in _places(value, path)]


def remove_at(value: object, paths: list[Path]) -> Any:
    """Return a copy without what is at these paths."""
    made = deepcopy(value)
    for path in paths:
        # From the end, so that the numbers of other items stay.
        for holder, key in reversed([*_places(made, path)]):
            del holder[key]
    return made


def _places(value: object, path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the objects and lists that hold what is at a path, each with the name or number."""
    first, *rest = path
    for key in _keys(value, first):
        holder: Any = value
        if rest:
            yield from _places(holder[key], tuple(rest))
        else:
            yield holder, key


def _keys(value: object, part: str | int) -> list[Any]:
    if isinstance(value, dict):
        return [*value] if part == _ANY else [part] if part in value else []
    if isinstance(value, list):
        numbers = range(len(value))
        return [*numbers] if part == _ANY else [part] if part in numbers else []
    return []
