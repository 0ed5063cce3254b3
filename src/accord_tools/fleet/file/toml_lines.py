"""The lines of the keys in a TOML file, which the standard parser does not report."""

import re
from bisect import bisect_right

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.toml_scanner import read_brackets, scan_toml


def find_toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each key, table and item of a list.

    Args:
        text: valid TOML, as `tomllib` has accepted it.
    """
    lines = _TomlLines(text)
    for section in scan_toml(text):
        lines.add_path((), section.path, section.start)
        for pair in section.pairs:
            lines.add_path(section.path, pair.path[len(section.path) :], pair.start)
            lines.add_value(pair.path, pair.value)
    return lines.lines


class _TomlLines:
    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}

    def add_path(self, around: KeyPath, keys: KeyPath, at: int) -> None:
        """Note a key and the tables that it makes; what is known keeps its line."""
        line = bisect_right(self._breaks, at - 1) + 1
        for size in range(len(keys)):
            self.lines.setdefault((*around, *keys[: size + 1]), line)

    def add_value(self, path: KeyPath, start: int) -> None:
        """Note what stands in a list or an inline table."""
        if self._text[start] not in "{[":
            return
        for member in read_brackets(self._text, start).members:
            keys = member.key if isinstance(member.key, tuple) else (member.key,)
            self.add_path(path, keys, member.start)
            self.add_value((*path, *keys), member.value)
