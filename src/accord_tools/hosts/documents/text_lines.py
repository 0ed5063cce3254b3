"""Lines, line ends and indentation of a text, whichever line ends it has."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from accord_tools.hosts.documents.document import Edit, TextPlace

MOST_LEVELS: Final = 200
"""How deep values may be nested; deeper ones are refused, before anything recurses too deep."""

_BREAK: Final = re.compile(r"\r\n|\n|\r")
_INDENT: Final = re.compile(r"[ \t]*")


def find_place(text: str, at: int) -> TextPlace:
    """Return line and column of a place in a text."""
    starts = _line_starts(text)
    line = bisect_right(starts, at)
    return TextPlace(line, at - starts[line - 1] + 1)


@lru_cache(maxsize=4)
def _line_starts(text: str) -> list[int]:
    """Return where each line begins; thousands of places are looked up in one text."""
    return [0, *(found.end() for found in _BREAK.finditer(text))]


def line_start(text: str, at: int) -> int:
    """Return where the line of a place begins."""
    start = text.rfind("\n", 0, at) + 1
    return max(start, text.rfind("\r", start, at) + 1)


def line_end(text: str, at: int) -> int:
    """Return where the line of a place ends, before its line end."""
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.start()


def next_line(text: str, at: int) -> int:
    """Return where the line after that of a place begins."""
    found = _BREAK.search(text, at)
    return len(text) if found is None else found.end()


def break_before(text: str, start: int) -> int:
    """Return where the line end before a line begins; the line itself begins at `start`."""
    if start == 0:
        return 0
    return start - 2 if text[start - 2 : start] == "\r\n" else start - 1


def line_break(text: str, at: int) -> str:
    """Return the line end that is usual at a place: that of its line, or of the one before."""
    found = _BREAK.search(text, at)
    if found is not None:
        return found[0]
    start = line_start(text, at)
    return text[break_before(text, start) : start] or "\n"


def indentation(text: str, at: int) -> str:
    """Return the blanks that the line of a place begins with."""
    found = _INDENT.match(text, line_start(text, at))
    assert found is not None  # it matches everything
    return found[0]


def begins_line(text: str, at: int) -> bool:
    """Return whether only blanks stand before a place in its line."""
    return not text[line_start(text, at) : at].strip(" \t")


def is_one_line(text: str, start: int, end: int) -> bool:
    """Return whether a span has no line end."""
    return _BREAK.search(text, start, end) is None


def has_blank_line(text: str, start: int) -> bool:
    """Return whether the line that begins at a place has only blanks, and is not the end."""
    end = line_end(text, start)
    return end < len(text) and not text[start:end].strip(" \t")


def remove_lines(text: str, start: int, stop: int, least: int = 0) -> Edit:
    """Return the edit that removes lines, and the blank lines that would be too many then.

    Args:
        text: of the file.
        start: where the first of the lines begins.
        stop: where the last one ends, before its line end.
        least: before which nothing is removed.
    """
    after = next_line(text, stop)
    rest = text[after:].strip()
    if not text[:start].strip():
        while rest and has_blank_line(text, after):
            after = next_line(text, after)
        return Edit(start, after, "")
    begin = break_before(text, start)
    if not rest or has_blank_line(text, after):
        while begin and not text[(above := line_start(text, begin)) : begin].strip(" \t"):
            if (begin_above := break_before(text, above)) < least:
                break
            begin = begin_above
    return Edit(begin, stop, "")


def join_edits(text: str, edits: Iterable[Edit]) -> Edit:
    """Return one edit that does what several do; the text between them is repeated as it is.

    Args:
        text: that all of them are for.
        edits: that do not overlap.
    """
    # Those at one place stay in their order.
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    if not ordered:
        return Edit(0, 0, "")
    parts: list[str] = []
    at = ordered[0].start
    for edit in ordered:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return Edit(ordered[0].start, at, "".join(parts))
