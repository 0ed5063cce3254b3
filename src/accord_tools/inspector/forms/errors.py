"""Values that a person types: read exactly, and all places where they do not fit their schema.

Each place is a JSON Pointer with a sentence.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NoReturn

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.mismatch import Path, describe_value, explain
from accord.json_schema.reader import type_of

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


MOST_ERRORS: Final = 50
"""How many errors are listed for one value."""

# Options within options are looked into as far as this.
_DEEPEST_OPTIONS: Final = 8
_LONGEST_MESSAGE: Final = 300
_SHOWN_CHOICES: Final = 10
_NOUNS: Final = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


class FormError(msgspec.Struct, frozen=True):
    """One part of a value that does not fit; the pointer of the whole value is empty."""

    pointer: str
    message: str


def find_errors(schema: object, value: object) -> list[FormError]:
    """Return why a value does not fit a schema, place by place; empty if it fits.

    Without the extra `schema` one error at most is found. A schema that cannot be used, and a value
    that takes too long, is one error of the whole value.

    Args:
        schema: the JSON Schema.
        value: plain values, or what `parse_text` returns.
    """
    from accord.json_schema.validation import compile_for_lists, compile_schema

    plain = as_plain(value)
    try:
        found = compile_for_lists(schema)(plain)
        if found is None:
            first = compile_schema(schema)(plain)
            return [] if first is None else [_error((), f"{first} (there may be more errors)")]
    except MissingExtra:
        return _explain_first(schema, plain)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return [_error((), f"the schema cannot be used to validate this value: {error}")]
    # The validator reports the same fault for each way that leads to it.
    each = dict.fromkeys(_translate_all(found, 0))
    listed = list(islice(each, MOST_ERRORS))
    if len(each) > MOST_ERRORS:
        listed.append(_error((), f"there are {len(each) - MOST_ERRORS} more errors"))
    return listed


def _error(path: Iterable[str | int], message: str) -> FormError:
    shown = message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "..."
    return FormError(pointer(path), shown)


def _explain_first(schema: object, value: object) -> list[FormError]:
    if not isinstance(schema, dict):
        return [] if schema is not False else [_error((), "no value fits here")]
    try:
        found = explain(schema, value)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        message = "this value was not validated; install accord[schema] to validate every schema"
        return [_error((), message)]
    return [] if found is None else [_error(found.path, found.reason)]


def _translate_all(errors: Iterable[Any], depth: int) -> Iterator[FormError]:
    for error in errors:
        yield from _translate(error, depth)


def _translate(error: Any, depth: int) -> Iterator[FormError]:
    path = tuple(error.instance_path)
    kind = error.kind
    match kind.name:
        case "required":
            yield _error((*path, kind.property), "is missing")
        case "additionalProperties" | "unevaluatedProperties":
            for name in kind.unexpected:
                yield _error((*path, name), "is not in the schema, which allows no other members")
        case "propertyNames":
            yield _error(path, f"the name of a member does not fit: {_say(kind.error)}")
        case "anyOf" | "oneOf":
            yield from _translate_options(error, path, depth)
        case _:
            yield _error(path, _say(error))


def _say(error: Any) -> str:
    """Return one error as a sentence without its place."""
    say = _SENTENCES.get(error.kind.name)
    if say is None:
        return str(error.message).split("\n", 1)[0]
    return say(error.kind, error.instance)


def _expect(expected: str, value: object) -> str:
    return f"expected {expected}, got {describe_value(value)}"


def _list(values: Sequence[object]) -> str:
    shown = [msgspec.json.encode(each).decode() for each in values[:_SHOWN_CHOICES]]
    more = ", ..." if len(values) > _SHOWN_CHOICES else ""
    return ", ".join(shown) + more


def _types(kind: Any) -> list[str]:
    # Number includes integer; null reads best at the end.
    return sorted(kind.types, key=lambda each: (each == "null", each))


def _size(sign: str, noun: str) -> "Callable[[Any, Any], str]":
    def say(kind: Any, value: Any) -> str:
        plural = noun if kind.limit == 1 else f"{noun}s"
        return f"expected {sign} {kind.limit} {plural}, got {len(value)}"

    return say


_SENTENCES: Final[dict[str, Callable[[Any, Any], str]]] = {
    "type": lambda kind, value: _expect(
        " or ".join(_NOUNS.get(each, each) for each in _types(kind)), value
    ),
    "enum": lambda kind, value: _expect(f"one of {_list(kind.options)}", value),
    "const": lambda kind, value: _expect(_list([kind.expected_value]), value),
    "minimum": lambda kind, value: _expect(f"at least {kind.limit}", value),
    "maximum": lambda kind, value: _expect(f"at most {kind.limit}", value),
    "exclusiveMinimum": lambda kind, value: _expect(f"more than {kind.limit}", value),
    "exclusiveMaximum": lambda kind, value: _expect(f"less than {kind.limit}", value),
    "multipleOf": lambda kind, value: _expect(f"a multiple of {kind.multiple_of}", value),
    "pattern": lambda kind, value: _expect(f"text that matches {kind.pattern}", value),
    "format": lambda kind, value: _expect(f"text in the format {kind.format}", value),
    "minLength": _size("at least", "character"),
    "maxLength": _size("at most", "character"),
    "minItems": _size("at least", "item"),
    "maxItems": _size("at most", "item"),
    "minProperties": _size("at least", "member"),
    "maxProperties": _size("at most", "member"),
    "uniqueItems": lambda _, __: "has the same item more than once",
    "falseSchema": lambda _, __: "no value fits here: leave it out",
    "not": lambda _, __: "fits a schema that it must not fit",
    "contains": lambda _, __: "lacks an item that fits what the schema asks for",
    "additionalItems": lambda _, __: "has more items than the schema allows",
    "unevaluatedItems": lambda _, __: "has more items than the schema allows",
}


# -- anyOf and oneOf: the errors of the option that was meant, if that is clear


def _translate_options(error: Any, path: Path, depth: int) -> Iterator[FormError]:
    options: list[list[Any]] = error.kind.context
    if not all(options):
        yield _error(path, "fits several of the options, but must fit exactly one")
        return
    expected = [_expectation(each, path) for each in options]
    if all(expected):
        together = " or ".join(dict.fromkeys(map(str, expected)))
        yield _error(path, _expect(together, error.instance))
        return
    meant = _find_meant(options, path)
    if meant is not None and depth < _DEEPEST_OPTIONS:
        yield from _translate_all(meant, depth + 1)
        return
    tags = [_tag_errors(each, path) for each in options]
    shared = set(tags[0]).intersection(*tags[1:])
    for tag in sorted(shared, key=str):
        errors = [each[tag] for each in tags]
        together = ", ".join(dict.fromkeys(str(_expectation([one], tag)) for one in errors))
        yield _error(tag, _expect(f"one of {together}", errors[0].instance))
    if shared:
        return
    closest = min(options, key=len)
    reason = next(_translate(closest[0], _DEEPEST_OPTIONS), None)
    place = f" at {reason.pointer}" if reason is not None and reason.pointer else ""
    hint = f"; the closest one{place}: {reason.message}" if reason is not None else ""
    yield _error(path, f"fits none of the {len(options)} options{hint}")


def _expectation(errors: list[Any], path: Path) -> str | None:
    """Return what an option that is only about the type or choice of this value expects."""
    if len(errors) != 1 or tuple(errors[0].instance_path) != path:
        return None
    kind = errors[0].kind
    if kind.name == "type":
        return " or ".join(_NOUNS.get(each, each) for each in _types(kind))
    if kind.name == "const":
        return _list([kind.expected_value])
    return _list(kind.options) if kind.name == "enum" else None


def _find_meant(options: list[list[Any]], path: Path) -> list[Any] | None:
    """Return the errors of the one option whose type and tag fit; None if it is not clear."""
    left = [each for each in options if not any(_is_other_type(one, path) for one in each)]
    tagged = [each for each in left if not any(_is_other_tag(one, path) for one in each)]
    left = tagged or left
    if len(left) > 1:
        fewest = min(map(len, left))
        left = [each for each in left if len(each) == fewest]
    return left[0] if len(left) == 1 else None


def _is_other_type(error: Any, path: Path) -> bool:
    return error.kind.name == "type" and tuple(error.instance_path) == path


def _tag_errors(errors: list[Any], path: Path) -> dict[Path, Any]:
    return {tuple(each.instance_path): each for each in errors if _is_other_tag(each, path)}


def _is_other_tag(error: Any, path: Path) -> bool:
    """Tell whether a member has the text that marks another option."""
    is_member = len(error.instance_path) == len(path) + 1
    is_choice = error.kind.name in ("const", "enum")
    return is_member and is_choice and type_of(error.instance) in ("string", "integer", "boolean")
