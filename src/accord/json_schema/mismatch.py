"""Explains in words that a model can act on why a value does not fit a schema.

It reads the JSON Schema alone, so that the text is the same whichever library has the type. It runs
only after decoding failed.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

import msgspec

from accord.json_schema.reader import declared_types, resolve, type_of
from accord.types import JsonObject

Path = tuple[str | int, ...]

_NOUNS: Final = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_FORMATS: Final[dict[str, tuple[type, str]]] = {
    "date": (date, "a date like 2024-12-31"),
    "date-time": (datetime, "a date and time like 2024-12-31T23:59:59Z"),
    "time": (time, "a time like 23:59:59"),
    "duration": (timedelta, "a duration like P1DT2H"),
    "uuid": (UUID, "a UUID"),
    "decimal": (Decimal, "a decimal number"),
}
_SHOWN_CHOICES: Final = 10
_SHOWN_CHARACTERS: Final = 40


class Mismatch(ValueError):
    """A value does not fit its type; `path` leads to the part that does not."""

    def __init__(self, reason: str, *, path: Path = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def explain(schema: JsonObject, value: object, root: JsonObject | None = None) -> Mismatch | None:
    """Find the first part of plain data that does not fit a schema; None if all of it fits.

    Args:
        schema: what the data should fit.
        value: the data.
        root: the whole schema, where references lead; by default the schema itself.
    """
    return _Explainer(schema if root is None else root).look(schema, value, ())


def path_text(path: Path) -> str:
    """Write a path as in `filter.tags[2]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def describe_value(value: object) -> str:
    """Say in a few words what a value is."""
    kind = type_of(value)
    if kind in ("null", "array", "object"):
        return _NOUNS[kind]
    shown = msgspec.json.encode(value).decode()
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[: _SHOWN_CHARACTERS - 4] + ('..."' if kind == "string" else "...")
    return f"{_NOUNS[kind]} ({shown})"


class _Explainer:
    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def look(self, schema: object, value: object, path: Path) -> Mismatch | None:
        schema = resolve(schema, self._root)
        if "anyOf" in schema or "oneOf" in schema:
            found = self._look_at_options(schema, value, path)
            if found is not None:
                return found
        for part in schema.get("allOf", ()):
            if (found := self.look(part, value, path)) is not None:
                return found
        if not _fits_type(schema, value) or not _fits_choice(schema, value):
            return _mismatch(self.describe_schema(schema), value, path)
        for kind, limits in _LIMITS.items():
            if isinstance(value, kind) and not isinstance(value, bool):
                for name, holds, words in limits:
                    if name in schema and not holds(value, schema[name]):
                        return _mismatch(words(schema[name]), value, path)
        return self._look_inside(schema, value, path)

    def _look_at_options(self, schema: JsonObject, value: object, path: Path) -> Mismatch | None:
        options = [resolve(each, self._root) for each in schema.get("anyOf") or schema["oneOf"]]
        found = [self.look(option, value, path) for option in options]
        if None in found:
            return None
        tag = _find_tag(options)
        if tag is not None and isinstance(value, dict):
            return self._look_at_tag(tag, options, value, path)
        alike = [
            (_shared_keys(option, value), len(mismatch.path), mismatch)
            for option, mismatch in zip(options, found, strict=True)
            if mismatch is not None and (_fits_type(option, value) and "type" in option)
        ]
        _, depth, closest = max(alike, key=itemgetter(0, 1), default=(0, 0, None))
        # Only one option is of this type, or one has more of the given members or fits deeper.
        if closest is not None and (len(alike) == 1 or depth > len(path)):
            return closest
        return _mismatch(self.describe_schema(schema), value, path)

    def _look_at_tag(
        self, tag: str, options: list[JsonObject], value: JsonObject, path: Path
    ) -> Mismatch | None:
        if tag not in value:
            return Mismatch("is missing", path=(*path, tag))
        by_option = [(option, _choices(option, tag)) for option in options]
        for option, choices in by_option:
            if _fits_choice({"enum": choices}, value[tag]):
                return self.look(option, value, path)
        every = {"enum": [choice for _, choices in by_option for choice in choices]}
        return _mismatch(self.describe_schema(every), value[tag], (*path, tag))

    def _look_inside(self, schema: JsonObject, value: object, path: Path) -> Mismatch | None:
        if isinstance(value, dict):
            for name in schema.get("required", ()):
                if name not in value:
                    return Mismatch("is missing", path=(*path, name))
            properties = schema.get("properties", {})
            rest = schema.get("additionalProperties")
            for name, each in value.items():
                if name not in properties and rest is False:
                    return Mismatch("is not known", path=(*path, name))
                inner = properties.get(name, rest)
                if (found := self.look(inner, each, (*path, name))) is not None:
                    return found
        elif isinstance(value, list):
            for index, (inner, each) in enumerate(_item_schemas(schema, value)):
                if (found := self.look(inner, each, (*path, index))) is not None:
                    return found
        return None

    def describe_schema(self, schema: object) -> str:
        """Say in a few words what a schema expects."""
        schema = resolve(schema, self._root)
        if "const" in schema:
            return msgspec.json.encode(schema["const"]).decode()
        if "enum" in schema:
            values = [msgspec.json.encode(each).decode() for each in schema["enum"]]
            more = ", ..." if len(values) > _SHOWN_CHOICES else ""
            prefix = "one of " if len(values) > 1 else ""
            return prefix + ", ".join(values[:_SHOWN_CHOICES]) + more
        options = schema.get("anyOf", schema.get("oneOf"))
        if options:
            return " or ".join(dict.fromkeys(self.describe_schema(each) for each in options))
        if (format_ := schema.get("format")) in _FORMATS:
            return _FORMATS[format_][1]
        if schema.get("contentEncoding") == "base64":
            return "base64 text"
        types = declared_types(schema) or ["something else"]
        return " or ".join(_NOUNS.get(each, each) for each in types)


def _find_tag(options: list[JsonObject]) -> str | None:
    """Find the member whose value alone decides which object of a union is meant."""
    objects = [option for option in options if option.get("type") != "null"]
    if len(objects) < 2:
        return None
    for name in objects[0].get("properties", {}):
        choices = [_choices(option, name) for option in objects]
        together = [msgspec.json.encode(each) for every in choices for each in every]
        if all(choices) and len(set(together)) == len(together):
            return str(name)
    return None


def _shared_keys(option: JsonObject, value: object) -> int:
    return len(option.get("properties", {}).keys() & value.keys()) if isinstance(value, dict) else 0


def _choices(option: JsonObject, name: str) -> list[object]:
    """Return the values that an option allows for a member; an empty list if any is allowed."""
    schema = option.get("properties", {}).get(name)
    if not isinstance(schema, dict):
        return []
    choices: list[object] = [schema["const"]] if "const" in schema else schema.get("enum", [])
    return choices


def _mismatch(expected: str, value: object, path: Path) -> Mismatch:
    return Mismatch(f"expected {expected}, got {describe_value(value)}", path=path)


def _item_schemas(schema: JsonObject, values: list[object]) -> Iterator[tuple[object, object]]:
    first = schema.get("prefixItems", [])
    for index, value in enumerate(values):
        yield first[index] if index < len(first) else schema.get("items"), value


def _fits_type(schema: JsonObject, value: object) -> bool:
    types = declared_types(schema)
    if not types:
        return True
    if isinstance(value, float) and value.is_integer() and "integer" in types:
        return True
    found = type_of(value)
    return found in types or (found == "integer" and "number" in types)


def _fits_choice(schema: JsonObject, value: object) -> bool:
    if "const" in schema:
        return _same(schema["const"], value)
    return "enum" not in schema or any(_same(each, value) for each in schema["enum"])


def _same(one: object, other: object) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _fits_format(value: str, name: str) -> bool:
    return _converts(value, _FORMATS.get(name, (str, ""))[0])


def _is_base64(value: str, encoding: str) -> bool:
    return encoding != "base64" or _converts(value, bytes)


def _converts(value: str, type_: type) -> bool:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError:
        return False
    return True


def _is_multiple(value: float, of: float) -> bool:
    ratio = value / of if of else 0.5
    return abs(ratio - round(ratio)) < 1e-9


def _matches(value: str, pattern: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # another dialect of patterns
        return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_Limit = tuple[str, Callable[[Any, Any], bool], Callable[[Any], str]]


def _size_limits(keyword: str, noun: str) -> list[_Limit]:
    return [
        (
            f"min{keyword}",
            lambda value, limit: len(value) >= limit,
            lambda limit: f"at least {_count(limit, noun)}",
        ),
        (
            f"max{keyword}",
            lambda value, limit: len(value) <= limit,
            lambda limit: f"at most {_count(limit, noun)}",
        ),
    ]


_LIMITS: Final[dict[type | tuple[type, ...], list[_Limit]]] = {
    (int, float): [
        ("minimum", lambda value, limit: value >= limit, lambda limit: f"at least {limit}"),
        ("maximum", lambda value, limit: value <= limit, lambda limit: f"at most {limit}"),
        ("exclusiveMinimum", lambda value, limit: value > limit, lambda x: f"more than {x}"),
        ("exclusiveMaximum", lambda value, limit: value < limit, lambda x: f"less than {x}"),
        ("multipleOf", _is_multiple, lambda of: f"a multiple of {of}"),
    ],
    str: [
        *_size_limits("Length", "character"),
        ("pattern", _matches, lambda pattern: f"text matching {pattern}"),
        ("format", _fits_format, lambda name: _FORMATS[name][1]),
        ("contentEncoding", _is_base64, lambda _: "base64 text"),
    ],
    list: _size_limits("Items", "item"),
    dict: _size_limits("Properties", "member"),
}
