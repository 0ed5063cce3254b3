"""Where the tables and keys of TOML are, which the standard parser does not report."""

import re
import tomllib
from functools import partial
from typing import Any, Final, NamedTuple

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.document import (
    MOST_LEVELS,
    TextPlace,
    UnreadableDocument,
    find_place,
)
from accord_tools.hosts.documents.json_scanner import BracketContainer, read_members

# The longest quotes first. A backslash hides the next character in double quotes only.
_STRING: Final = (
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}+'
    r"|'''(?:[^']++|'(?!''))*+'{3,5}+"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
)
_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_SPACE: Final = re.compile(r"[ \t]*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_WHOLE_STRING: Final = re.compile(_STRING, re.DOTALL)
_SCALAR: Final = re.compile(r"[^,\]}\r\n#]*")
_BEFORE_BRACKET: Final = re.compile(
    rf"(?:[^\"'\[\]{{}}#]++|{_STRING}|#[^\n]*+)*+([\[\]{{}}])", re.DOTALL
)
_COMMENT: Final = re.compile(rf"(?:{_STRING})|(#[^\r\n]*+)", re.DOTALL)
_LONG_KEY: Final = re.compile(
    r"^[ \t]*\[{0,2}"
    rf"(?:[ \t]*(?:[A-Za-z0-9_-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*\.){{{MOST_LEVELS}}}",
    re.MULTILINE,
)
_WHERE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
# What the standard parser says, and what a person understands.
_SAID: Final = {
    "Expected '=' after a key in a key/value pair": "an = is expected here, after a key",
    "Invalid value": "a value is expected here; a text needs double quotes",
    "Expected newline or end of document after a statement": (
        "something stands here behind the value; each key needs a line of its own"
    ),
    "Invalid statement": "a key or a [table] is expected here",
    "Invalid initial character for a key part": "a key is expected here",
    "Unterminated string": "a string never ends",
    "Unclosed array": "a list is not closed; a comma or ] is missing",
    "Unclosed inline table": "a table is not closed; a comma or } is missing",
    "Cannot overwrite a value": "a key appears twice; keep one of them",
    "Unescaped '\\' in a string": r"a backslash in double quotes is written \\",
    "Expected ']' at the end of a table declaration": "] is missing at the end of the [table]",
    "Expected ']]' at the end of an array declaration": "]] is missing at the end of the [[table]]",
}


class TomlPair(NamedTuple):
    """A key with its value; `start` is where the key begins."""

    path: KeyPath
    start: int
    value: int
    end: int


class TomlSection(NamedTuple):
    """What stands below a header; the first section of a text has none.

    Attributes:
        path: of the table; a table of a list of tables has its index as the last key.
        start: where the header begins.
        end: where the header ends.
        pairs: that belong to it.
    """

    path: KeyPath
    start: int
    end: int
    pairs: list[TomlPair]


def read_toml(text: str) -> dict[str, Any]:
    """Return the value of a text.

    Raises:
        UnreadableDocument: it is not TOML.
    """
    _check_depth(text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UnreadableDocument("values are nested too deeply", TextPlace(1, 1)) from None
    except ValueError as error:
        message = str(error)
        found = _WHERE.search(message)
        place = find_place(text, len(text))
        if found is not None:
            message = message[: found.start()]
            if found[1]:
                place = TextPlace(int(found[1]), int(found[2]))
        raise UnreadableDocument(_explain(message), place) from None


def _explain(message: str) -> str:
    if message in _SAID:
        return _SAID[message]
    if found := re.match(r"Cannot declare (\(.*\)) twice", message):
        name = ".".join(re.findall(r"'([^']*)'", found[1]))
        return f"the table {name} appears twice; keep one of them"
    if found := re.match(r"Illegal character (.*)", message):
        shown = "a line end" if "n" in found[1] else f"the character {found[1]}"
        return f"{shown} stands here, where it must not"
    return message[:1].lower() + message[1:]


def _check_depth(text: str) -> None:
    depth = at = 0
    while (found := _BEFORE_BRACKET.match(text, at)) is not None:
        depth += 1 if found[1] in "{[" else -1
        at = found.end()
        if depth > MOST_LEVELS:
            message = f"values are nested more than {MOST_LEVELS} levels deep"
            raise UnreadableDocument(message, find_place(text, at - 1))
    if (found := _LONG_KEY.search(text)) is not None:
        message = f"the key has more than {MOST_LEVELS} parts"
        raise UnreadableDocument(message, find_place(text, found.start()))


def scan_toml(text: str) -> list[TomlSection]:
    """Return the sections of a text; the first one is that before any header.

    Args:
        text: valid TOML, as `read_toml` has accepted it.
    """
    sections = [TomlSection((), 0, 0, [])]
    counts: dict[KeyPath, int] = {}
    at = _skip(_BLANK, text, 0)
    while at < len(text):
        if text[at] == "[":
            start, is_list = at, text.startswith("[[", at)
            keys, at = _read_keys(text, at + 1 + is_list)
            at += 1 + is_list
            sections.append(TomlSection(_header_path(keys, counts, is_list), start, at, []))
        else:
            pair = read_pair(text, at, sections[-1].path)
            sections[-1].pairs.append(pair)
            at = pair.end
        at = _skip(_BLANK, text, at)
    return sections


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    assert found is not None  # the text is valid
    return found.end()


def _header_path(keys: list[str], counts: dict[KeyPath, int], is_list: bool) -> KeyPath:  # noqa: FBT001
    path: KeyPath = ()
    for place, key in enumerate(keys):
        path = (*path, key)
        if is_list and place == len(keys) - 1:
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _read_keys(text: str, at: int) -> tuple[list[str], int]:
    """Read a key, dotted or not, with the spaces around it."""
    keys: list[str] = []
    while True:
        at = _skip(_SPACE, text, at)
        quote = text[at]
        end = _skip(_WHOLE_STRING if quote in "\"'" else _BARE, text, at)
        written = text[at:end]
        if quote == '"':
            written = tomllib.loads(f"key = {written}")["key"] if "\\" in written else written[1:-1]
        elif quote == "'":
            written = written[1:-1]
        keys.append(written)
        at = _skip(_SPACE, text, end)
        if text[at] != ".":
            return keys, at
        at += 1


def read_pair(text: str, start: int, table: KeyPath) -> TomlPair:
    """Read a key and skip its value."""
    keys, at = _read_keys(text, start)
    value = _skip(_SPACE, text, at + 1)
    return TomlPair((*table, *keys), start, value, skip_toml_value(text, value))


def skip_toml_value(text: str, start: int) -> int:
    """Return where the value ends that begins at a place."""
    sign = text[start]
    if sign in "\"'":
        return _skip(_WHOLE_STRING, text, start)
    if sign not in "{[":
        end = _skip(_SCALAR, text, start)
        return start + len(text[start:end].rstrip(" \t"))
    depth, at = 0, start
    while True:
        found = _BEFORE_BRACKET.match(text, at)
        assert found is not None  # the text is valid
        at = found.end()
        depth += 1 if found[1] in "{[" else -1
        if depth == 0:
            return at


def read_brackets(text: str, start: int) -> BracketContainer:
    """Return the members of the list or inline table that begins at a place."""

    def read_key(at: int) -> tuple[str | KeyPath, int]:
        keys, end = _read_keys(text, at)
        return tuple(keys) if len(keys) > 1 else keys[0], _skip(_SPACE, text, end + 1)

    return read_members(text, start, partial(_skip, _BLANK), read_key, skip_toml_value)


def find_toml_comments(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return where the comments within a list are."""
    return [found.span(1) for found in _COMMENT.finditer(text, start, end) if found[1] is not None]
