"""Where the members of JSON are; comments and trailing commas are allowed."""

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.document import MOST_LEVELS, UnreadableDocument, find_place

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
# Up to the next comment; a quote that never ends stops it, too.
_BEFORE_COMMENT: Final = re.compile(
    rf'(?:[^"/]++|{_STRING}|/(?![/*]))*+(//[^\r\n]*+|/\*.*?\*/)', re.DOTALL
)
_BEFORE_LAST_COMMA: Final = re.compile(
    rf'(?:[^",]++|{_STRING}|,(?![ \t\r\n]*[\]}}]))*+(,)', re.DOTALL
)
_BEFORE_BRACKET: Final = re.compile(rf'(?:[^"{{}}\[\]]++|{_STRING})*+([{{}}\[\]])', re.DOTALL)
_WHOLE_STRING: Final = re.compile(_STRING, re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SCALAR: Final = re.compile(r"[^,\]} \t\r\n]*")
_NOT_BREAK: Final = re.compile(r"[^\r\n]")


class BracketMember(NamedTuple):
    """A member of an object or an item of a list.

    Attributes:
        key: its name, or its index; a dotted key of TOML has all its parts.
        start: where its key begins, or its value if it has none.
        value: where its value begins.
        end: where its value ends.
        comma: where the comma after it is, if it has one.
    """

    key: str | int | KeyPath
    start: int
    value: int
    end: int
    comma: int | None


class BracketContainer(NamedTuple):
    """An object or a list between its brackets."""

    start: int
    end: int
    members: list[BracketMember]


class JsonScan(NamedTuple):
    """What the text says.

    Attributes:
        data: its value; None for a text without any.
        plain: the text with blanks in place of comments.
        comments: where these are, in order.
        is_empty: whether it has no value at all.
    """

    data: Any
    plain: str
    comments: list[tuple[int, int]]
    is_empty: bool


def scan_json(text: str, explain: Callable[[str], None]) -> JsonScan:
    """Read a text, fast if it is valid.

    Args:
        text: of the file.
        explain: finds out what is wrong with a text, slowly, and raises it.

    Raises:
        UnreadableDocument: the text is not JSON, or an object has a key twice.
    """
    plain, comments = blank_comments(text)
    if not plain.strip(" \t\r\n"):
        return JsonScan(None, plain, comments, is_empty=True)
    try:
        _check_depth(plain)
        data = json.loads(
            _blank_last_commas(plain),
            object_pairs_hook=_read_object,
            parse_constant=_refuse,
            parse_int=_read_integer,
        )
    except (ValueError, RecursionError) as error:
        explain(text)
        place = find_place(text, getattr(error, "pos", 0))
        raise UnreadableDocument(f"the text is not JSON: {error}", place) from None
    return JsonScan(data, plain, comments, is_empty=False)


def blank_comments(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with blanks in place of comments, and where they are."""
    comments: list[tuple[int, int]] = []
    parts: list[str] = []
    at = 0
    while (found := _BEFORE_COMMENT.match(text, at)) is not None:
        start, end = found.span(1)
        comments.append((start, end))
        parts += [text[at:start], _NOT_BREAK.sub(" ", found[1])]
        at = end
    return "".join([*parts, text[at:]]), comments


def _blank_last_commas(plain: str) -> str:
    parts: list[str] = []
    at = 0
    while (found := _BEFORE_LAST_COMMA.match(plain, at)) is not None:
        comma = found.start(1)
        before = plain[at:comma]
        if before.rstrip(" \t\r\n")[-1:] in ("", "{", "[", ","):
            raise ValueError("a comma without a value before it")
        parts += [before, " "]
        at = comma + 1
    return "".join([*parts, plain[at:]])


def _check_depth(plain: str) -> None:
    depth = at = 0
    while (found := _BEFORE_BRACKET.match(plain, at)) is not None:
        depth += 1 if found[1] in "{[" else -1
        if depth > MOST_LEVELS:
            raise ValueError("it is nested too deeply")
        at = found.end()


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise ValueError("a key appears twice")
    return read


def _read_integer(digits: str) -> int | float:
    # Python refuses to convert thousands of digits; a host may not.
    return int(digits) if len(digits) < 1000 else float(digits)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")


# -- valid text


def skip_space(plain: str, at: int) -> int:
    """Return where the next sign is."""
    found = _SPACE.match(plain, at)
    assert found is not None  # it matches everything
    return found.end()


def skip_value(plain: str, start: int) -> int:
    """Return where the value ends that begins at a place."""
    sign = plain[start]
    if sign == '"':
        found = _WHOLE_STRING.match(plain, start)
        assert found is not None  # the text is valid
        return found.end()
    if sign not in "{[":
        found = _SCALAR.match(plain, start)
        assert found is not None  # it matches everything
        return found.end()
    depth, at = 0, start
    while True:
        found = _BEFORE_BRACKET.match(plain, at)
        assert found is not None  # the text is valid
        at = found.end()
        depth += 1 if found[1] in "{[" else -1
        if depth == 0:
            return at


def read_container(plain: str, start: int) -> BracketContainer:
    """Return the members of the object or list that begins at a place.

    Args:
        plain: valid JSON, with blanks in place of comments.
        start: where its bracket is.
    """
    is_object = plain[start] == "{"
    members: list[BracketMember] = []
    at = skip_space(plain, start + 1)
    while plain[at] not in "]}":
        key: str | int = len(members)
        begin = value = at
        if is_object:
            end = skip_value(plain, at)
            key = json.loads(plain[at:end])
            value = skip_space(plain, skip_space(plain, end) + 1)
        end = skip_value(plain, value)
        at = skip_space(plain, end)
        comma = at if plain[at] == "," else None
        members.append(BracketMember(key, begin, value, end, comma))
        if comma is not None:
            at = skip_space(plain, at + 1)
    return BracketContainer(start, at + 1, members)
