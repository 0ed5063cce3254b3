"""The places of members in a JSON file, for messages and for edits that keep the rest."""

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in the type stubs
from typing import Final, NamedTuple

from accord.hosts.definition import KeyPath

_BLANK: Final = re.compile(r"\s*")
_SCALAR: Final = re.compile(r"[^,\]}\s]*")


class JsonSpan(NamedTuple):
    """Where a member or an item is: its key, and the value from `start` to `end`."""

    key: int
    start: int
    end: int
    line: int


class JsonPlaces(NamedTuple):
    """The places of all members and items; `repeated` has those that appear again."""

    spans: dict[KeyPath, JsonSpan]
    repeated: list[tuple[KeyPath, int]]


def find_json_places(text: str) -> JsonPlaces:
    """Return the place of each member and item.

    Args:
        text: valid JSON without comments and trailing commas, or with spaces in their place.
    """
    scanner = _JsonScanner(text)
    scanner.value((), scanner.skip(0))
    return JsonPlaces(scanner.spans, scanner.repeated)


class _JsonScanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._counted = (0, 1)  # a place, and its line
        self.spans: dict[KeyPath, JsonSpan] = {}
        self.repeated: list[tuple[KeyPath, int]] = []

    def skip(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        assert found is not None  # it matches everything
        return found.end()

    def value(self, path: KeyPath, start: int, key: int | None = None) -> int:
        """Scan the value at a place; return where it ends."""
        line = self._line(start if key is None else key)
        sign = self._text[start]
        if sign == "{":
            end = self._object(path, start)
        elif sign == "[":
            end = self._list(path, start)
        elif sign == '"':
            _, end = scanstring(self._text, start + 1)
        else:
            found = _SCALAR.match(self._text, start)
            assert found is not None  # it matches everything
            end = found.end()
        if path in self.spans:
            self.repeated.append((path, line))
        self.spans[path] = JsonSpan(start if key is None else key, start, end, line)
        return end

    def _line(self, at: int) -> int:
        place, line = self._counted
        line += self._text.count("\n", place, at)
        self._counted = (at, line)
        return line

    def _object(self, path: KeyPath, start: int) -> int:
        at = self.skip(start + 1)
        while self._text[at] != "}":
            name, colon = scanstring(self._text, at + 1)
            value = self.skip(self.skip(colon) + 1)
            at = self._next(self.value((*path, name), value, at))
        return at + 1

    def _list(self, path: KeyPath, start: int) -> int:
        at = self.skip(start + 1)
        place = 0
        while self._text[at] != "]":
            at = self._next(self.value((*path, place), at))
            place += 1
        return at + 1

    def _next(self, end: int) -> int:
        at = self.skip(end)
        return self.skip(at + 1) if self._text[at] == "," else at
