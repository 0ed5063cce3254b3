"""Where the members of JSON are; comments and trailing commas are allowed."""

import json
import re
from collections.abc import Callable
from json import JSONDecodeError
from typing import Any, Final, NamedTuple

from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.document import MOST_LEVELS, find_place
from accord_tools.hosts.documents.json_faults import explain_fault, fault_at

_STRING: Final = r'"(?:[^"\\]++|\\.)*+"'
# Up to the next comment; a quote that never ends stops it, too.
_BEFORE_COMMENT: Final = re.compile(
    rf'(?:[^"/]++|{_STRING}|/(?![/*]))*+(//[^\r\n]*+|/\*.*?\*/)', re.DOTALL
)
_BEFORE_LAST_COMMA: Final = re.compile(
    rf'(?:[^",]++|{_STRING}|,(?![ \t\r\n]*[\]}}]))*+(,)', re.DOTALL
)
_BEFORE_BRACKET: Final = re.compile(rf'(?:[^"{{}}\[\]]++|{_STRING})*+([{{}}\[\]])', re.DOTALL)
_BEFORE_CONSTANT: Final = re.compile(
    rf'(?:[^"NI-]++|{_STRING}|-(?!I))*+(NaN|-?Infinity)', re.DOTALL
)
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


def scan_json(text: str) -> JsonScan:
    """Read a text.

    Raises:
        UnreadableDocument: the text is not JSON, or an object has a key twice.
    """
    plain, comments = blank_comments(text)
    if not plain.strip(" \t\r\n"):
        if text.lstrip(" \t\r\n").startswith("/*") and not comments:
            raise explain_fault(text, text, JSONDecodeError("", text, text.index("/*")))
        return JsonScan(None, plain, comments, is_empty=True)
    has_twins = False

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_twins
        read = dict(pairs)
        has_twins |= len(read) != len(pairs)
        return read

    try:
        _check_depth(plain)
        data = json.loads(
            _blank_last_commas(plain),
            object_pairs_hook=read_object,
            parse_constant=lambda name: _refuse(plain, name),
            parse_int=_read_integer,
        )
    except JSONDecodeError as error:
        raise explain_fault(text, plain, error) from None
    if has_twins:
        _refuse_twins(text, plain)
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
            raise JSONDecodeError("Expecting value", plain, comma)
        parts += [before, " "]
        at = comma + 1
    return "".join([*parts, plain[at:]])


def _check_depth(plain: str) -> None:
    depth = at = 0
    while (found := _BEFORE_BRACKET.match(plain, at)) is not None:
        depth += 1 if found[1] in "{[" else -1
        if depth > MOST_LEVELS:
            message = f"values are nested more than {MOST_LEVELS} levels deep"
            raise JSONDecodeError(message, plain, found.start(1))
        at = found.end()


def _read_integer(digits: str) -> int | float:
    # Python refuses to convert thousands of digits; a host may not.
    return int(digits) if len(digits) < 1000 else float(digits)


def _refuse(plain: str, name: str) -> None:
    found = _BEFORE_CONSTANT.match(plain)
    assert found is not None  # the parser has found it
    raise JSONDecodeError(f"{name} is not a value of JSON", plain, found.start(1))


def _refuse_twins(text: str, plain: str) -> None:
    """Raise an error for the first key that an object has twice."""
    waiting = [skip_space(plain, 0)]
    while waiting:
        seen: dict[object, int] = {}
        inner = []
        for each in read_container(plain, waiting.pop()).members:
            first = seen.setdefault(each.key, each.start)
            if first != each.start:
                line = find_place(text, first).line
                raise fault_at(
                    text,
                    each.start,
                    f"the key {str(each.key)[:80]!r} appears twice in this object, first in line "
                    f"{line}; keep one of them",
                )
            if plain[each.value] in "{[":
                inner.append(each.value)
        waiting += reversed(inner)


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

    def read_key(at: int) -> tuple[str, int]:
        end = skip_value(plain, at)
        return json.loads(plain[at:end]), skip_space(plain, skip_space(plain, end) + 1)

    return read_members(plain, start, skip_space, read_key, skip_value)


def read_members(
    text: str,
    start: int,
    skip: Callable[[str, int], int],
    read_key: Callable[[int], tuple[str | KeyPath, int]],
    skip_value: Callable[[str, int], int],
) -> BracketContainer:
    """Return what stands between brackets, in JSON and TOML.

    Args:
        text: of the file.
        start: where the opening bracket is.
        skip: returns where the next sign is that is neither a blank nor a comment.
        read_key: returns the key that begins at a place, and where its value begins.
        skip_value: returns where the value ends that begins at a place.
    """
    members: list[BracketMember] = []
    at = skip(text, start + 1)
    while text[at] not in "]}":
        key: str | int | KeyPath = len(members)
        begin = value = at
        if text[start] == "{":
            key, value = read_key(at)
        end = skip_value(text, value)
        at = skip(text, end)
        comma = at if text[at] == "," else None
        members.append(BracketMember(key, begin, value, end, comma))
        if comma is not None:
            at = skip(text, at + 1)
    return BracketContainer(start, at + 1, members)
