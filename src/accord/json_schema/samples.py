"""A plain value that fits a JSON Schema: the smallest that its usual keywords ask for.

This neither validates nor looks for surprising values. A schema with unusual keywords may get a
value that does not fit.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from accord.json_schema.reader import (
    alternatives,
    declared_types,
    likely_types,
    merge_all_of,
    number_at,
    properties_of,
    required_names,
    resolve,
)
from accord.types import JsonObject

_DEEPEST: Final = 12
_MOST_ITEMS: Final = 50
_LONGEST_TEXT: Final = 10_000
# By a word in the name of a parameter: short, and long enough to be cancelled.
_DURATIONS: Final = {"seconds": 0.2, "duration": 0.2, "delay": 0.2, "milliseconds": 200, "ms": 200}
_FORMATS: Final = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1S",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
    "uri": "https://example.com/",
    "uri-reference": "/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "json-pointer": "",
    "regex": ".",
}


def sample(schema: object, *, root: Mapping[str, object] | None = None, depth: int = 0) -> Any:
    """Return a value that fits a schema, as far as its usual keywords tell.

    Args:
        schema: the schema, true or false.
        root: the whole schema, where references lead; by default the schema itself.
        depth: how many schemas it stands in.
    """
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return "text" if schema is True or schema is None else None
    root = schema if root is None else root
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        listed = schema.get(key)
        if isinstance(listed, list) and listed:
            return listed[0]
    if "$ref" in schema:
        # What is left of a reference that leads outside is any value.
        found = {key: value for key, value in resolve(schema, root).items() if key != "$ref"}
        return sample(found, root=root, depth=depth + 1)
    options = alternatives(schema, root)
    if options:
        not_null = [each for each in options if declared_types(each) != ["null"]]
        return sample((not_null or options)[0], root=root, depth=depth + 1)
    if isinstance(schema.get("allOf"), list):
        return sample(merge_all_of(schema, root), root=root, depth=depth + 1)
    return _sample_of_type(_main_type(schema), schema, root, depth)


def short_durations(schema: object) -> JsonObject:
    """Return arguments for those parameters that say how long a tool shall take."""
    arguments: JsonObject = {}
    for name, rule in properties_of(schema).items() if isinstance(schema, dict) else ():
        words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", str(name)).lower())
        wanted = next((_DURATIONS[word] for word in words[::-1] if word in _DURATIONS), None)
        if wanted is None or not isinstance(rule, dict):
            continue
        type_ = _main_type(rule)
        if type_ not in ("integer", "number"):
            continue
        limits = {key: value for key, value in rule.items() if key not in ("default", "examples")}
        least, most = number_at(rule, "minimum"), number_at(rule, "maximum")
        is_within = (least or 0) <= wanted and (most is None or wanted <= most)
        fits = is_within and (type_ == "number" or isinstance(wanted, int))
        arguments[name] = wanted if fits else sample(limits)
    return arguments


def _main_type(schema: Mapping[str, object]) -> str:
    """Return the one type to make a value of: not null, if there is another."""
    types = likely_types(schema)
    return next((each for each in types if each != "null"), types[0] if types else "string")


def _sample_of_type(
    type_: str, schema: Mapping[str, object], root: Mapping[str, object], depth: int
) -> object:
    if type_ == "object":
        return _object(schema, root, depth)
    if type_ == "array":
        return _array(schema, root, depth)
    if type_ in ("integer", "number"):
        return _number(schema, type_)
    if type_ == "boolean":
        return False
    return None if type_ == "null" else _text(schema)


def _object(schema: Mapping[str, object], root: Mapping[str, object], depth: int) -> JsonObject:
    properties = properties_of(schema)
    made: JsonObject = {
        name: sample(properties.get(name, True), root=root, depth=depth + 1)
        for name in required_names(schema)
    }
    least = number_at(schema, "minProperties") or 0
    for name in properties:
        if len(made) < least and name not in made:
            made[name] = sample(properties[name], root=root, depth=depth + 1)
    return made


def _array(schema: Mapping[str, object], root: Mapping[str, object], depth: int) -> list[object]:
    fixed = schema.get("prefixItems")
    made: list[object] = []
    if isinstance(fixed, list):
        made += [sample(each, root=root, depth=depth + 1) for each in fixed]
    least = number_at(schema, "minItems") or 0
    while len(made) < min(least, _MOST_ITEMS):
        made.append(sample(schema.get("items", True), root=root, depth=depth + 1))
    return made


def _number(schema: Mapping[str, object], type_: str) -> float:
    step, least, most = (number_at(schema, key) for key in ("multipleOf", "minimum", "maximum"))
    above, below = number_at(schema, "exclusiveMinimum"), number_at(schema, "exclusiveMaximum")
    if above is not None:
        least = above + 1 if type_ == "integer" or below is None else (above + below) / 2
    value: float = 1
    if least is not None and value < least:
        value = least
    if most is not None and value > most:
        value = most
    if below is not None and value >= below:
        value = below - 1
    if step is not None and step > 0:
        value = -(-value // step) * step
    return int(value) if type_ == "integer" else value


def _text(schema: Mapping[str, object]) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[str(schema["format"])]
    text = "text"
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        text = text + "x" * min(least - len(text), _LONGEST_TEXT)
    return text[:most] if isinstance(most, int) and most >= 0 else text
