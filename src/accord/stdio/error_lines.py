"""What a program wrote to standard error: its first and last lines, and the line with the cause.

Programs say why they end in many ways. Often the cause is not the last line, which may be a stack
frame, a usage text or the version of Node.js, and not among the last lines at all.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

# What ends up there in any case, and what belongs to a stack trace.
_NOISE: Final = re.compile(
    r"npm (?:notice|warn)\b|Installed \d+ packages? in |\[notice\] |Node\.js v\d|Traceback \(most"
    r"|The above exception was|During handling of the above|\(Use `node --|[\s^~|]*$"
    r"|\s*at (?:async )?\S.*[:)]|\s*(?:throw|raise)\b|\s*File \"|node:internal/"
    r"|\S+\.[cm]?[jt]s:\d+$"
    r"|.*\b(?-i:WARNING|Warning|WARN|INFO|DEBUG)\b",
    re.IGNORECASE,
)
_FRAME: Final = re.compile(r"\s*File \".*\", line \d+|\S+\.[cm]?[jt]s:\d+$")
_CAUSE: Final = re.compile(
    r"(?:error|exception)\b|\bmissing\b|\brequired?\b|\b(?:not|must be|is un)\s?(?:set|provided)\b",
    re.IGNORECASE,
)
_VARIABLE: Final = re.compile(r"(?<![\w/.-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w/.-]\w)")
_ABOUT_VARIABLE: Final = re.compile(
    r"environ|\benv\b|\bvariables?\b|\bset\b|\bmissing\b|\brequired?\b|\bprovided?\b",
    re.IGNORECASE,
)
_KEY_ERROR: Final = re.compile(r"KeyError: ['\"]([A-Z][A-Z0-9_]*)['\"]")


class FirstAndLastLines:
    """Keeps the first and the last lines of an output that may be long.

    Args:
        most: how many lines, half of them the first.
    """

    def __init__(self, most: int) -> None:
        self._most_first = most // 2
        self._first: list[str] = []
        self._last: deque[str] = deque(maxlen=most - self._most_first)
        self._dropped = 0

    def add(self, line: str) -> None:
        """Take a line; one in the middle is dropped."""
        if len(self._first) < self._most_first:
            self._first.append(line)
            return
        self._dropped += len(self._last) == self._last.maxlen
        self._last.append(line)

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if self._dropped:
            yield f"({self._dropped} more lines)"
        yield from self._last


def telling_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines that may say something: not those of stack traces and package managers."""
    found: list[str] = []
    is_code = False
    for line in lines:
        # The line after a frame quotes the program.
        if not is_code and not _NOISE.match(line):
            found.append(line.strip())
        is_code = _FRAME.match(line) is not None
    return found


def find_cause(lines: Sequence[str]) -> str:
    """Return the line that says why a program ended: the first about an error, else the last."""
    telling = telling_lines(lines)
    for place, line in enumerate(telling):
        if _CAUSE.search(line):
            # A heading, such as "Error starting the server:".
            is_heading = line.endswith(":") and place + 1 < len(telling)
            return f"{line} {telling[place + 1]}" if is_heading else line
    kept = telling or [line.strip() for line in lines if line.strip()]
    return kept[-1] if kept else ""


def find_missing_variable(lines: Sequence[str]) -> str:
    """Return the name of the variable that a program says it misses; empty if it names none."""
    for line in [find_cause(lines), *telling_lines(lines)]:
        if named := _KEY_ERROR.search(line):
            return named[1]
        found = _VARIABLE.search(line)
        if found is not None and _ABOUT_VARIABLE.search(line):
            return found[0]
    return ""
