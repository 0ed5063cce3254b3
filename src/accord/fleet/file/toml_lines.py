"""The lines of the keys in a TOML file, which the standard parser does not report."""

import re
import tomllib
from bisect import bisect_right
from typing import Final

from accord.hosts.definition import KeyPath

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
# The longest quotes first. A backslash hides the next character in double quotes only.
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}\n#]*")


def find_toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each key, table and item of a list.

    Args:
        text: valid TOML, as `tomllib` has accepted it.
    """
    return _TomlScanner(text).scan()


class _TomlScanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self._at = 0
        self._lines: dict[KeyPath, int] = {}
        # The number of tables in each list of tables.
        self._counts: dict[KeyPath, int] = {}

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._lines

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found is not None  # the text is valid
        self._at = found.end()
        return found[0]

    def _note(self, path: KeyPath, at: int) -> None:
        self._lines.setdefault(path, bisect_right(self._breaks, at - 1) + 1)

    def _header(self) -> KeyPath:
        """Read `[table]` or `[[list of tables]]`; return the path of the table."""
        start = self._at
        is_list = self._text.startswith("[[", start)
        self._at += 2 if is_list else 1
        keys = self._keys()
        self._at += 2 if is_list else 1
        path: KeyPath = ()
        for place, key in enumerate(keys):
            path = (*path, key)
            self._note(path, start)
            if is_list and place == len(keys) - 1:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = (*path, self._counts[path] - 1)
        self._note(path, start)
        return path

    def _keys(self) -> list[str]:
        """Read a key, dotted or not, with the spaces around it."""
        keys = []
        while True:
            self._skip(_SPACE)
            quote = self._text[self._at]
            if quote in "\"'":
                written = self._skip(_STRING)
                keys.append(
                    tomllib.loads(f"key = {written}")["key"] if quote == '"' else written[1:-1]
                )
            else:
                keys.append(self._skip(_BARE))
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _pair(self, table: KeyPath) -> None:
        start = self._at
        path = table
        for key in self._keys():
            path = (*path, key)
            self._note(path, start)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        sign = self._text[self._at]
        if sign in "\"'":
            self._skip(_STRING)
        elif sign == "[":
            self._list(path)
        elif sign == "{":
            self._inline_table(path)
        else:
            self._skip(_SCALAR)

    def _list(self, path: KeyPath) -> None:
        self._at += 1
        for place in range(len(self._text)):
            self._skip(_BLANK)
            if self._text[self._at] == "]":
                break
            self._note((*path, place), self._at)
            self._value((*path, place))
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        self._skip(_BLANK)
        while self._text[self._at] != "}":
            self._pair(path)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
            self._skip(_BLANK)
        self._at += 1
