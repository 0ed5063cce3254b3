"""References and combinations within a JSON Schema."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["merged", "resolved"]

# A chain of references longer than this is a circle.
_LONGEST: Final = 12


def resolved(rule: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Follow the references of a schema within the whole; others are not fetched."""
    for _ in range(_LONGEST):
        reference = rule.get("$ref") if isinstance(rule, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        place: Any = root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            place = place.get(key) if isinstance(place, dict) else None
        rest = {key: value for key, value in rule.items() if key != "$ref"}
        rule = {**place, **rest} if isinstance(place, dict) else rest
    return rule if isinstance(rule, dict) else {}


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join schemas that all have to hold, as far as that is simple."""
    made: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            known = made.get(key)
            if key == "properties" and isinstance(known, dict) and isinstance(value, dict):
                made[key] = {**known, **value}
            elif key == "required" and isinstance(known, list) and isinstance(value, list):
                made[key] = [*known, *value]
            else:
                made[key] = value
    return made
