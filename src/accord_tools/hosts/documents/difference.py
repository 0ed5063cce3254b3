"""The difference between two texts, for people."""

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final, TypeAlias

_CONTEXT: Final = 3
# A line that is longer is cut: a file may have one line alone.
_LONGEST: Final = 500
_AROUND: Final = 60
# Longer changes are shown as lines that go and lines that come, without looking for equal ones.
_MOST_COMPARED: Final = 2000
_Step: TypeAlias = tuple[str, int, int, int, int]
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_NO_END: Final = "\\ no line end at the end of the file"


def show_difference(
    path: str, before: str | None, after: str | None, mask: Callable[[str], str]
) -> str:
    """Return what changed, line by line, as `diff -u` shows it.

    Args:
        path: of the file.
        before: its text; None if it does not exist.
        after: its text after the change; None if it is to be deleted.
        mask: returns a line without the secrets in it.
    """
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    head = [
        "--- " + ("/dev/null" if before is None else _show(path)),
        "+++ " + ("/dev/null" if after is None else _show(path)),
    ]
    body = [sign + _show(line) if sign else line for sign, line in _hunks(old, new, mask)]
    return "\n".join([*head, *body]) + "\n"


def _lines(text: str | None) -> list[str]:
    """Return the lines with their ends: one that changes its end has changed."""
    return _LINE.findall(text or "")


def _show(line: str) -> str:
    """Return a line without characters that would change how a terminal shows it."""
    line = line.removesuffix("\n").removesuffix("\r")
    return "".join(
        sign if sign.isprintable() or sign == "\t" else ascii(sign)[1:-1] for sign in line
    )


def _hunks(old: list[str], new: list[str], mask: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    # Edits change one span: what is equal around it need not be compared.
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    most = min(len(old), len(new)) - start
    while end < most and old[-1 - end] == new[-1 - end]:
        end += 1
    for group in _groups(old, new, start, end):
        old_range = _range(group[0][1], group[-1][2])
        new_range = _range(group[0][3], group[-1][4])
        yield "", f"@@ -{old_range} +{new_range} @@"
        for kind, a, b, c, d in group:
            gone, come = map(mask, old[a:b]), map(mask, new[c:d])
            if kind == "equal":
                yield from _mark(" ", [_shorten(line, line) for line in gone])
                continue
            pairs = list(zip_longest(gone, come, fillvalue=""))
            yield from _mark("-", [_shorten(*each) for each in pairs[: b - a]])
            yield from _mark("+", [_shorten(new, old) for old, new in pairs[: d - c]])


def _shorten(line: str, other: str) -> str:
    """Return a line, or the part of a long one in which it differs from the other line."""
    text = line.rstrip("\r\n")
    if len(text) <= _LONGEST:
        return line
    pairs = enumerate(zip(text, other, strict=False))
    same = next((at for at, (one, two) in pairs if one != two), min(len(text), len(other)))
    start = max(0, min(same - _AROUND, len(text) - _LONGEST))
    left = len(text) - start - _LONGEST
    before = f"({start} characters) ... " if start else ""
    after = f" ... ({left} characters)" if left else ""
    return f"{before}{text[start : start + _LONGEST]}{after}{line[len(text) :]}"


def _groups(old: list[str], new: list[str], start: int, end: int) -> Iterator[list[_Step]]:
    """Yield steps with context: `start` equal lines are before the change, `end` after it."""
    before, after = min(start, _CONTEXT), min(end, _CONTEXT)
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    steps = [("replace", 0, len(one), 0, len(other))]
    if len(one) + len(other) <= _MOST_COMPARED:
        steps = list(SequenceMatcher(None, one, other, autojunk=False).get_opcodes())
    moved: list[_Step] = [("equal", start - before, start, start - before, start)]
    moved += [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in steps]
    *_, old_end, _, new_end = moved[-1]
    moved.append(("equal", old_end, old_end + after, new_end, new_end + after))
    group: list[_Step] = []
    for kind, a, b, c, d in moved:
        if kind == "equal" and b - a > 2 * _CONTEXT:
            yield [*group, (kind, a, a + _CONTEXT, c, c + _CONTEXT)]
            group = [(kind, b - _CONTEXT, b, d - _CONTEXT, d)]
        else:
            group.append((kind, a, b, c, d))
    yield group


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"


def _mark(sign: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        yield sign, line
        if not line.endswith(("\n", "\r")):
            yield "", _NO_END
