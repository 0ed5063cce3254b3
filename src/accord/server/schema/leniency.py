"""Arguments that hosts send as text: numbers, booleans, objects and arrays in strings.

Models write `"5"` where a number is wanted. Text is read as another value only where the schema
admits no text, so no argument changes its meaning.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from accord.json_schema.reader import admits, alternatives, merge_all_of, resolve, type_of
from accord.types import JsonObject

_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}
# Deeper than any arguments that a message may hold would need.
_DEEPEST: Final = 32


def read_texts(value: object, schema: JsonObject, root: JsonObject, depth: int = 0) -> object:
    """Return a value with the texts in it read as what the schema admits in their place.

    Args:
        value: plain JSON.
        schema: what it should fit.
        root: the schema that references are resolved in.
        depth: how deep in the arguments it is.
    """
    if depth > _DEEPEST:
        return value
    schema = merge_all_of(resolve(schema, root), root)
    if isinstance(value, str) and not admits(schema, ("string",), root):
        value = _read_text(value, schema, root)
    if not isinstance(value, dict | list):
        return value
    # Of several alternatives, the one for values of this type; between two there is no telling.
    fitting = [each for each in alternatives(schema, root) if admits(each, (type_of(value),), root)]
    if len(fitting) == 1:
        schema = fitting[0]
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [read_texts(each, items, root, depth + 1) for each in value]
    members, rest = schema.get("properties"), schema.get("additionalProperties")
    known = members if isinstance(members, dict) else {}
    other = rest if isinstance(rest, dict) else {}
    return {
        name: read_texts(each, known.get(name, other), root, depth + 1)
        for name, each in value.items()
    }


def _read_text(text: str, schema: JsonObject, root: JsonObject) -> object:
    stripped = text.strip()
    if stripped.lower() in _WORDS and admits(schema, ("boolean",), root):
        return _WORDS[stripped.lower()]
    parsed = parse_json(stripped)
    if parsed is UNSET or isinstance(parsed, str | bool):
        return text
    types: tuple[str, ...] = ("null",)
    if isinstance(parsed, int | float):
        types = ("number", "integer")
    elif parsed is not None:
        types = ("object", "array")  # a named tuple is listed as an object, and may be an array
    return parsed if admits(schema, types, root) else text


def parse_json(text: str) -> object:
    """Return the value of a string of JSON; UNSET if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNSET


def floats_to_integers(value: object) -> object:
    """Turn floats such as 2.0 into integers: in JSON both are the same number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [floats_to_integers(each) for each in value]
    if isinstance(value, dict):
        return {key: floats_to_integers(each) for key, each in value.items()}
    return value
