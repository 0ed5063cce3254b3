"""JSON text examined without decoding it: its size, its nesting, and the envelope of a message."""

import re
from array import array
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from math import inf
from typing import Any, Final

from accord.protocol.jsonrpc import Kind
from accord.types._base import RequestId

# Every bracket as that of an array: what matters is how deep they nest.
_AS_ARRAYS: Final = bytes.maketrans(b"{}", b"[]")
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
# Long texts are read in parts, to save memory.
_AT_ONCE: Final = 64 * 1024
# A turn that takes away less than this part of the rest takes longer than to count the rest.
_WORTHWHILE: Final = 8
_BRACKETS: Final = b"[]{}"
_OPENING: Final = (b"[", b"{")
_SEPARATORS: Final = b",[{"
_EACH_SEPARATOR: Final = (b",", *_OPENING)
# To search for so many takes less than to go through 1 MB once.
_FEW: Final = 1_000
# Compiled at the first use, and kept by `re`: few messages need it.
_SPACE: Final = r"[ \t\r\n]*"
# A message has four members; what others add to it is no more than a few.
_MEMBERS_MOST: Final = 256
_ENVELOPE: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})

FRAGMENT: Final = 4096
"""How many bytes of either end are enough; longer ids are not found."""


def nests_deeper(data: bytes, depth: int) -> bool:
    """Return whether JSON text nests deeper than `depth`."""
    return _occur_more_often(data, _OPENING, depth) and count_levels(data, depth) > depth


def count_levels(data: bytes, most: float = inf) -> int:
    """Return how deep JSON text nests; beyond `most`, at least how deep.

    Without its strings a JSON text is brackets and filler. Each turn takes away the innermost
    pairs; where many levels are left, their brackets are steps up and down.
    """
    brackets = _outside_strings(data, _BRACKETS).translate(_AS_ARRAYS)
    turns, size = 0, len(brackets)
    while size:
        brackets = brackets.replace(b"[]", b"")
        gone, size = size - len(brackets), len(brackets)
        turns += gone > 0
        if gone <= size // _WORTHWHILE:
            break
    deepest = level = 0
    for start in range(0, len(brackets), _AT_ONCE):
        steps = array("b", brackets[start : start + _AT_ONCE].translate(_STEPS))
        levels = list(accumulate(steps, initial=level))
        highest, level = max(levels), levels[-1]
        deepest = max(deepest, highest)
        if turns + deepest > most:
            break
    return turns + deepest


def _occur_more_often(data: bytes, characters: tuple[bytes, ...], times: int) -> bool:
    """Count by searching: where a character is rare, as in long texts, that takes a tenth."""
    for character in characters:
        at = data.find(character)
        while at >= 0:
            if times == 0:
                return True
            times -= 1
            at = data.find(character, at + 1)
    return False


def balance(data: bytes) -> int:
    """Return how many brackets are left open; negative where more are closed than opened."""
    brackets = _outside_strings(data, _BRACKETS).translate(_AS_ARRAYS)
    return 2 * brackets.count(b"[") - len(brackets)


def holds_more_values(data: bytes, most: int) -> bool:
    """Return whether JSON text holds more than `most` values."""
    if len(data) <= most or not _occur_more_often(data, _EACH_SEPARATOR, min(most, _FEW)):
        return False
    # Where there are many of them, `bytes.count` takes longer.
    return len(data) - len(data.translate(None, _SEPARATORS)) > most and count_values(data) > most


def count_values(data: bytes) -> int:
    """Count the values in JSON text by its commas and opening brackets.

    Every value but the outermost follows a comma or an opening bracket.
    """
    return len(_outside_strings(data, _SEPARATORS))


def _outside_strings(data: bytes, wanted: bytes) -> bytes:
    """Return the wanted characters between the strings; one without an end reaches to the end."""
    if b"\\" in data:
        # Backslashes escape in pairs from the left; without these only quotes of strings are left.
        data = data.replace(rb"\\", b"").replace(b'\\"', b"")
    # Two quotes with nothing wanted between them change nothing about what is inside of a string.
    kept = data.translate(None, _all_but(wanted + b'"')).replace(b'""', b"")
    if b'"' not in kept:
        return kept
    found, is_inside = [], 0
    for start in range(0, len(kept), _AT_ONCE):
        parts = kept[start : start + _AT_ONCE].split(b'"')
        found.append(b"".join(parts[is_inside::2]))
        is_inside ^= (len(parts) - 1) & 1
    return b"".join(found)


@cache
def _all_but(wanted: bytes) -> bytes:
    return bytes(byte for byte in range(256) if byte not in wanted)


def repeated_member(data: bytes, known: bytes = b"") -> str | None:
    """Return a member of a message's envelope that occurs twice in it; None where none does.

    Names are compared as they are meant, whatever escapes they are written with.

    Args:
        data: the text of an object, known to be JSON.
        known: the text of one of its values that need not be read again.

    Raises:
        ValueError: there are too many members to look at them all.
    """
    read = _reader()
    # Byte by byte: structure and names of the envelope are ASCII.
    text, skipped = data.decode("latin-1"), known.decode("latin-1")
    if not skipped.startswith(("{", "[")):  # nothing else shows its own end
        skipped = ""
    seen = set()
    at = _after_space(text, 0)
    for _ in range(_MEMBERS_MOST):
        at = _after_space(text, at + 1)  # behind the bracket or a comma
        if text[at] == "}":
            return None
        name, at = read(text, at)
        if name in seen:
            return str(name)
        if name in _ENVELOPE:
            seen.add(name)
        at = _after_space(text, _after_space(text, at) + 1)
        if skipped and text.startswith(skipped, at):
            at += len(skipped)
        else:
            at = read(text, at)[1]
        at = _after_space(text, at)
        if text[at] == "}":
            return None
    raise ValueError(f"message has more than {_MEMBERS_MOST} members")


def _after_space(text: str, at: int) -> int:
    found = re.compile(_SPACE).match(text, at)
    assert found is not None  # no space is a match too
    return found.end()


@cache
def _reader() -> Callable[[str, int], tuple[Any, int]]:
    """Return what reads one JSON value from a place in a text, and says where it ends."""
    import json  # takes 2 ms, and few messages need it

    # As floats, because Python refuses to read integers of more than 4,300 digits.
    return json.JSONDecoder(parse_int=float).raw_decode


def may_be_message(head: bytes) -> bool:
    """Return whether text that begins like this can be a message."""
    return head.lstrip().startswith(b"{")


def read_envelope(head: bytes, tail: bytes = b"") -> tuple[RequestId | None, Kind | None]:
    """Return the id and the kind of a message, each None where it does not show.

    Args:
        head: how it begins.
        tail: how it ends; empty where the end has not come yet.
    """
    # Its patterns take most of a millisecond, and few servers meet such a message.
    from accord.protocol import envelope

    return envelope.read(head if may_be_message(head) else b"", tail)
