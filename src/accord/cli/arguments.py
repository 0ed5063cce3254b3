"""Arguments typed on a command line, read by the input schema of the tool."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, Final

from accord.cli.options import UsageError, did_you_mean
from accord.json_schema.reader import resolve
from accord.types import JsonObject

_INTEGER: Final = re.compile(r"[+-]?\d+")
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
}
_STRUCTURES: Final[dict[str, type]] = {"object": dict, "array": list}
_CHOICES_SHOWN: Final = 8


class _Misfit(ValueError):
    """The text does not fit the type; the message says what was expected."""


# -- descriptions of schemas


def type_name(schema: Any, root: JsonObject | None = None) -> str:
    """Return the type that a schema asks for, in words for users.

    >>> type_name({"type": "array", "items": {"type": "integer"}}), type_name({"enum": ["a", "b"]})
    ('list of integer', 'a|b')
    """
    schema = resolve(schema, root or {})
    if "enum" in schema or "const" in schema:
        return _join_choices(schema.get("enum") or [schema.get("const")])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            names = dict.fromkeys(type_name(each, root) for each in schema[key])
            return "|".join(names)
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    if kind == "array" and schema.get("items"):
        return f"list of {type_name(schema['items'], root)}"
    if kind == "string" and schema.get("format"):
        return str(schema["format"])
    return str(kind)


def _join_choices(values: Sequence[Any]) -> str:
    shown = [each if isinstance(each, str) else json.dumps(each) for each in values]
    more = ["..."] if len(shown) > _CHOICES_SHOWN else []
    return "|".join(shown[:_CHOICES_SHOWN] + more)


def describe(schema: JsonObject) -> list[str]:
    """Describe the arguments of a tool, one text each.

    >>> describe({"properties": {"a": {"type": "integer"}, "b": {"default": 2}}})
    ['a?: integer', 'b: any = 2']
    """
    required = schema.get("required", ())
    texts = []
    for name, each in _properties(schema).items():
        mark = "" if name in required or "default" in _object(each) else "?"
        default = f" = {json.dumps(each['default'])}" if "default" in _object(each) else ""
        texts.append(f"{name}{mark}: {type_name(each, schema)}{default}")
    return texts


def _object(schema: Any) -> JsonObject:
    return schema if isinstance(schema, dict) else {}


def _properties(schema: JsonObject) -> JsonObject:
    return _object(schema.get("properties"))


# -- reading


def split_pairs(words: Iterable[str]) -> list[tuple[str, str, bool]]:
    """Split `key=value` and `key:=json`; the third member is True for JSON."""
    pairs = []
    for word in words:
        key, equals, value = word.partition("=")
        is_json = key.endswith(":")
        key = key.removesuffix(":").strip()
        if not equals or not key:
            raise UsageError(f"{word!r} is not an argument; expected key=value or key:=JSON")
        pairs.append((key, value, is_json))
    return pairs


def read_tool_arguments(
    name: str, schema: JsonObject, words: Iterable[str], given: str | None
) -> JsonObject:
    """Read the arguments of a tool.

    Args:
        name: the tool, for messages.
        schema: its input schema, which decides how texts are read.
        words: `key=value` and `key:=json`; a key given twice makes a list.
        given: a JSON object with arguments; "-" reads it from stdin.
    """
    arguments = {} if given is None else _json_object(given)
    texts: dict[str, list[str]] = {}
    for key, value, is_json in split_pairs(words):
        if is_json:
            arguments[key] = _json(f"{key}:=", value)
        else:
            texts.setdefault(key, []).append(value)
    properties = _properties(schema)
    _refuse_unknown(name, schema, [*arguments, *texts])
    for key, values in texts.items():
        wanted = properties.get(key, schema.get("additionalProperties", {}))
        try:
            arguments[key] = _read_all(values, wanted, schema)
        except _Misfit as error:
            raise UsageError(f"argument {key} of {name}: {error}") from None
    _refuse_missing(name, schema, arguments)
    return arguments


def _json_object(text: str) -> JsonObject:
    value = _json("--json", sys.stdin.read() if text == "-" and sys.stdin else text)
    if not isinstance(value, dict):
        raise UsageError("--json takes an object of arguments, such as '{\"a\": 1}'")
    return value


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where} takes JSON; {text[:60]!r} is not JSON: {error}") from None


def _refuse_unknown(name: str, schema: JsonObject, keys: Iterable[str]) -> None:
    properties = _properties(schema)
    for key in keys:
        if key not in properties and schema.get("additionalProperties", False) is False:
            takes = f"; it takes {', '.join(describe(schema)) or 'none'}"
            raise UsageError(
                f"{name} has no argument {key}{did_you_mean(key, properties) or takes}"
            )


def _refuse_missing(name: str, schema: JsonObject, arguments: Mapping[str, Any]) -> None:
    missing = [key for key in schema.get("required", ()) if key not in arguments]
    if missing:
        properties = _properties(schema)
        typed = [f"{key} ({type_name(properties.get(key), schema)})" for key in missing]
        example = " ".join(f"{key}=..." for key in missing)
        raise UsageError(f"{name} needs {', '.join(typed)}; add {example}")


# -- one value


def read_value(text: str, schema: JsonObject) -> Any:
    """Read one value by its schema.

    Raises:
        ValueError: the text does not fit the schema; the message says what was expected.
    """
    return _read(text, schema, schema)


def _read_all(texts: Sequence[str], schema: Any, root: JsonObject) -> Any:
    if len(texts) == 1:
        return _read(texts[0], schema, root)
    items = next((each for each in _options(schema, root) if each.get("type") == "array"), None)
    if items is None:
        raise _Misfit(f"given {len(texts)} times, expected one {type_name(schema, root)}")
    return [_read(text, items.get("items", {}), root) for text in texts]


def _options(schema: Any, root: JsonObject) -> list[JsonObject]:
    schema = resolve(schema, root)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return [option for each in schema[key] for option in _options(each, root)]
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in schema["type"]]
    return [schema]


# If several types fit a text, the strictest wins: "1" is read as a number, not as a string.
_STRICTEST: Final = ("null", "boolean", "integer", "number", "object", "array", None, "string")


def _read(text: str, schema: Any, root: JsonObject) -> Any:
    options = _options(schema, root)
    if len(options) > 1:
        options.sort(key=lambda each: _STRICTEST.index(_kind(each)))
    for option in options:
        try:
            return _read_as(text, option, root)
        except _Misfit:
            continue
    raise _Misfit(f"expected {type_name(schema, root)}, got {text[:60]!r}{_advice(options)}")


def _kind(schema: JsonObject) -> str | None:
    kind = schema.get("type")
    return kind if kind in _STRICTEST else None


def _advice(options: Sequence[JsonObject]) -> str:
    if any(each.get("type") == "boolean" for each in options):
        return "; write true or false, yes or no, y or n"
    structured = any(each.get("type") in ("object", "array") for each in options)
    return "; write key:=JSON for nested values" if structured else ""


def _read_as(text: str, schema: JsonObject, root: JsonObject) -> Any:
    if "enum" in schema or "const" in schema:
        for value in schema.get("enum") or [schema.get("const")]:
            if text == (value if isinstance(value, str) else json.dumps(value)):
                return value
        raise _Misfit
    kind = _kind(schema)
    if kind == "string":
        return text
    if kind == "array" and not text.lstrip().startswith("["):
        parts = text.split(",") if text else []
        return [_read(part.strip(), schema.get("items", {}), root) for part in parts]
    if kind is None:
        return _maybe_json(text)
    return _read_kind(text, kind)


def _read_kind(text: str, kind: str) -> Any:
    if kind == "null" and text in ("null", ""):
        return None
    if kind == "boolean" and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if kind in ("integer", "number") and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number":
        # JSON has neither infinities nor NaN.
        with suppress(ValueError):
            if isfinite(number := float(text)):
                return number
    if kind in _STRUCTURES and isinstance(value := _maybe_json(text), _STRUCTURES[kind]):
        return value
    raise _Misfit


def _maybe_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
