"""A plain valid value for a JSON Schema: what an unsuspicious caller would send.

Not a validator and not a generator of surprises: the smallest value that the usual keywords ask
for. What cannot be satisfied this way is left to whoever knows the tool.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["hasty", "sample"]

_DEEPEST: Final = 12
# How long something takes, by what its parameter is called; short, and long enough to be cancelled.
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


def sample(schema: Any, *, root: Any = None, depth: int = 0) -> Any:
    """Return a value that fits the schema, as far as its usual keywords tell."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return "text" if schema is True or schema is None else None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        listed = schema.get(key)
        if isinstance(listed, list) and listed:
            return listed[0]
    if isinstance(schema.get("$ref"), str):
        return sample(_referred(schema["$ref"], root), root=root, depth=depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            rest = {name: value for name, value in schema.items() if name != key}
            return sample(_merged([rest, _plainest(schema[key])]), root=root, depth=depth + 1)
    if isinstance(schema.get("allOf"), list):
        rest = {name: value for name, value in schema.items() if name != "allOf"}
        parts = [_resolved(part, root) for part in schema["allOf"]]
        return sample(_merged([rest, *parts]), root=root, depth=depth + 1)
    return _of_kind(_kind(schema), schema, root, depth)


def hasty(schema: Any) -> dict[str, Any]:
    """Return arguments for those parameters that say how long a tool shall take."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    made: dict[str, Any] = {}
    for name, rule in properties.items() if isinstance(properties, dict) else ():
        words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", str(name)).lower())
        wanted = next((_DURATIONS[word] for word in words[::-1] if word in _DURATIONS), None)
        if wanted is None or not isinstance(rule, dict) or _kind(rule) not in ("integer", "number"):
            continue
        limits = {key: value for key, value in rule.items() if key not in ("default", "examples")}
        least = rule.get("minimum", 0)
        fits = _kind(rule) == "number" or isinstance(wanted, int)
        most = rule.get("maximum", wanted)
        is_allowed = _is_number(least) and _is_number(most) and least <= wanted <= most
        made[name] = wanted if fits and is_allowed else sample(limits)
    return made


def _plainest(choices: list[Any]) -> Any:
    """Prefer what is not null."""
    real = [each for each in choices if not isinstance(each, dict) or each.get("type") != "null"]
    return (real or choices)[0]


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema or "required" in schema:
        return "object"
    return "array" if "items" in schema else "string"


def _of_kind(kind: str, schema: Mapping[str, Any], root: Any, depth: int) -> Any:
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        return _array(schema, root, depth)
    if kind in ("integer", "number"):
        return _number(schema, kind)
    if kind == "boolean":
        return False
    return None if kind == "null" else _text(schema)


def _object(schema: Mapping[str, Any], root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required: Any = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if _is_list(required) else []
    made = {name: sample(properties.get(name, True), root=root, depth=depth + 1) for name in names}
    least = schema.get("minProperties", 0)
    for name in properties:
        if isinstance(least, int) and len(made) < least and name not in made:
            made[name] = sample(properties[name], root=root, depth=depth + 1)
    return made


def _array(schema: Mapping[str, Any], root: Any, depth: int) -> list[Any]:
    fixed: Any = schema.get("prefixItems")
    made = [sample(each, root=root, depth=depth + 1) for each in fixed] if _is_list(fixed) else []
    least = schema.get("minItems", 0)
    while isinstance(least, int) and len(made) < min(least, 50):
        made.append(sample(schema.get("items", True), root=root, depth=depth + 1))
    return made


def _number(schema: Mapping[str, Any], kind: str) -> float | int:
    step: Any = schema.get("multipleOf")
    least: Any = schema.get("minimum")
    most: Any = schema.get("maximum")
    above: Any = schema.get("exclusiveMinimum")
    below: Any = schema.get("exclusiveMaximum")
    if _is_number(above):
        least = above + 1 if kind == "integer" or not _is_number(below) else (above + below) / 2
    value: Any = 1
    if _is_number(least) and value < least:
        value = least
    if _is_number(most) and value > most:
        value = most
    if _is_number(below) and value >= below:
        value = below - 1
    if _is_number(step) and step > 0:
        value = -(-value // step) * step
    return int(value) if kind == "integer" else value


def _text(schema: Mapping[str, Any]) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    text = "text"
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int) and len(text) < least:
        text = text + "x" * min(least - len(text), 10_000)
    return text[:most] if isinstance(most, int) and most >= 0 else text


def _merged(parts: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part, dict):
            continue
        for key, value in part.items():
            if key == "properties" and isinstance(made.get(key), dict) and isinstance(value, dict):
                made[key] = {**made[key], **value}
            elif key == "required" and _is_list(made.get(key)) and _is_list(value):
                made[key] = [*made[key], *value]
            else:
                made[key] = value
    return made


def _resolved(part: Any, root: Any) -> Any:
    if isinstance(part, dict) and isinstance(part.get("$ref"), str):
        return _referred(part["$ref"], root)
    return part


def _referred(reference: str, root: Any) -> Any:
    """Follow a reference within the schema itself; others are not fetched."""
    place = root
    if not reference.startswith("#"):
        return True
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        place = place.get(name) if isinstance(place, dict) else None
    return True if place is None else place


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
