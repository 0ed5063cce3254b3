"""JSON that a person typed: read strictly, with numbers that are sent as they were typed."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

import msgspec

MOST_LEVELS: Final = 200
"""How deep arrays and objects may nest."""
MOST_DUPLICATES: Final = 20
"""How many repeated names are reported."""

# Python refuses to read an integer that is longer.
_LONGEST_INTEGER: Final = 4_000
# Validators get a number no larger than this in place of one that is.
_LARGEST: Final = int("1" + "0" * 1_000)
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_CONSTANTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL)
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
# The messages of the standard library, in the words of this page.
_WORDS: Final = {
    "Expecting value": "expected a value",
    "Expecting ',' delimiter": "expected a comma or a closing bracket",
    "Expecting ':' delimiter": "expected a colon after the name",
    "Expecting property name enclosed in double quotes": "expected a name in double quotes",
    "Illegal trailing comma before end of object": "remove the comma before the closing bracket",
    "Illegal trailing comma before end of array": "remove the comma before the closing bracket",
    "Unterminated string starting at": "this text has no closing quote",
    "Invalid control character at": "write a line break as \\n and a tab as \\t within quotes",
    "Invalid \\escape": "a backslash must be written twice, or begin an escape such as \\n",
    "Invalid \\uXXXX escape": "four hexadecimal digits must follow \\u",
    "Extra data": "there is more text after the value",
}


class TextFault(ValueError):
    """A text is not JSON; `line` and `column` count from 1."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        self.message = message
        self.line = line
        self.column = column
        super().__init__(f"line {line}, column {column}: {message}")


class ParsedText(msgspec.Struct, frozen=True):
    """A text that is JSON.

    Attributes:
        value: plain values; a number that would be written differently is a `msgspec.Raw`.
        duplicates: names that one object has more than once; the last value counts.
    """

    value: Any
    duplicates: list[str]

    @property
    def plain(self) -> Any:
        """The value with all numbers as numbers, to be validated."""
        return as_plain(self.value)


def parse_text(text: str) -> Any:
    """Read JSON; what `msgspec.json.encode` makes of the result has all numbers as typed.

    Raises:
        TextFault: the text is not JSON, or nests too deep.
    """
    return read_text(text).value


def read_text(text: str) -> ParsedText:
    """Read JSON, and note what is allowed but seldom meant.

    Raises:
        TextFault: the text is not JSON, or nests too deep.
    """
    duplicates: dict[str, None] = {}

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen and len(duplicates) < MOST_DUPLICATES:
                    duplicates[name] = None
                seen.add(name)
        return made

    try:
        value = json.loads(
            text,
            object_pairs_hook=build,
            parse_float=_read_float,
            parse_int=_read_integer,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        words = _WORDS.get(error.msg, error.msg)
        raise TextFault(words, line=error.lineno, column=error.colno) from None
    except _ConstantFound:
        raise _fault_at(text, _find_constant(text), "NaN and Infinity are not JSON") from None
    except RecursionError:
        raise _fault_at(text, 0, f"nests deeper than {MOST_LEVELS} levels") from None
    _check_depth(text)
    if _HALF_CHARACTER.search(text) or "\\ud" in text or "\\uD" in text:
        value = _spell_half_characters(text, value)
    return ParsedText(value, list(duplicates))


def as_plain(value: Any) -> Any:
    """Return a value with each `msgspec.Raw` in it read; what is not JSON is null."""
    if isinstance(value, msgspec.Raw):
        return _read_raw(bytes(value).decode("utf-8", "replace"))
    if isinstance(value, dict):
        return {name: as_plain(each) for name, each in value.items()}
    return [as_plain(each) for each in value] if isinstance(value, list) else value


class _ConstantFound(Exception):
    pass


def _refuse_constant(_: str) -> NoReturn:
    raise _ConstantFound


def _find_constant(text: str) -> int:
    return next(
        (each.start() for each in _CONSTANTS.finditer(text) if each[0][0] != '"'), len(text)
    )


def _read_float(text: str) -> float | msgspec.Raw:
    value = float(text)
    # Infinity is encoded as null.
    is_same = msgspec.json.encode(value) == text.encode()
    return value if is_same else msgspec.Raw(text)


def _read_integer(text: str) -> int | msgspec.Raw:
    if len(text) > _LONGEST_INTEGER or text == "-0":
        return msgspec.Raw(text)
    return int(text)


def _read_raw(text: str) -> Any:
    """Return what stands for a number, or a text, that cannot be kept as it was typed."""
    try:
        value = json.loads(text, parse_int=_read_long_integer)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, str):
        return _HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return _shorten(text)
    return value


def _read_long_integer(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_INTEGER else _shorten(text)


def _shorten(text: str) -> int:
    """Return an integer of the same sign for a number that no float can hold."""
    return -_LARGEST if text.startswith("-") else _LARGEST


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return
    depth = 0
    for found in _BRACKETS.finditer(text):
        sign = found[0][0]
        depth += (sign in "[{") - (sign in "]}")
        if depth > MOST_LEVELS:
            raise _fault_at(text, found.start(), f"nests deeper than {MOST_LEVELS} levels")


def _spell_half_characters(text: str, value: Any) -> Any:
    """Keep texts with half a character as escapes: no UTF-8 can hold them."""
    if isinstance(value, str):
        return msgspec.Raw(json.dumps(value)) if _HALF_CHARACTER.search(value) else value
    if isinstance(value, list):
        return [_spell_half_characters(text, each) for each in value]
    if not isinstance(value, dict):
        return value
    if any(map(_HALF_CHARACTER.search, value)):
        raise _fault_at(text, 0, "a name of a member holds half a character (a lone \\ud800)")
    return {name: _spell_half_characters(text, each) for name, each in value.items()}


def _fault_at(text: str, position: int, message: str) -> TextFault:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return TextFault(message, line=line, column=column)


def write_text(value: object, *, indent: int = 0) -> str:
    """Return the JSON of plain values, which may hold `msgspec.Raw`."""
    encoded = msgspec.json.encode(value)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def pointer(path: Iterable[str | int]) -> str:
    """Write a path as JSON Pointer.

    >>> pointer(["a/b", 0])
    '/a~1b/0'
    """
    return "".join("/" + str(each).replace("~", "~0").replace("/", "~1") for each in path)
