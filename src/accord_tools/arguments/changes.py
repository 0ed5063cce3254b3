"""Changes of valid arguments: other valid ones, ones that one dialect alone refuses, deep ones.

Every change is validated, so that a keyword unknown here costs a change and never makes a wrong
one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from accord.json_schema.reader import find_by_pointer, properties_of, required_names
from accord.json_schema.validation import UNDECIDED, compile_schema
from accord.types import JsonObject
from accord_tools.arguments.samples import sample

_2020: Final = "2020-12"
_DRAFT_7: Final = "draft-07"
# Keywords that readers of the other dialects do not know, or read in another way.
_OWN_KEYWORDS: Final = {
    _2020: (
        *("prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
        *("unevaluatedItems", "minContains", "maxContains"),
    ),
    _DRAFT_7: ("dependencies", "additionalItems"),
}
_ODD: Final[Any] = {"accord-check": []}


def fits(schema: object, value: object) -> bool:
    """Return whether a schema allows a value; false if that cannot be decided."""
    return _find_fault(schema, value) is None


def refuses(schema: object, value: object) -> bool:
    """Return whether a schema refuses a value; false if that cannot be decided."""
    return not (_find_fault(schema, value) or UNDECIDED).startswith(UNDECIDED)


def _find_fault(schema: object, value: object) -> str | None:
    try:
        return compile_schema(schema)(value)
    except ValueError:
        # The monitor reports an invalid schema.
        return UNDECIDED


def other_value(schema: object, value: object) -> Any:
    """Return an object that fits a schema and differs in one member; None if none is known."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return None
    for name, rule in _member_schemas(schema):
        for changed in _other_values(rule, value.get(name, sample(rule))):
            made = value | {name: changed}
            if made != value and fits(schema, made):
                return made
    return None


def _other_values(rule: JsonObject, value: object) -> list[Any]:
    choices = rule.get("enum")
    if isinstance(choices, list):
        return choices
    titled = rule.get("oneOf")
    if isinstance(titled, list):
        return [each.get("const") for each in titled if isinstance(each, dict)]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1]
    return [f"{value}a", "accord-check"] if isinstance(value, str) else []


def _member_schemas(schema: Mapping[str, object]) -> list[tuple[str, JsonObject]]:
    members = properties_of(schema).items()
    return [(name, rule) for name, rule in members if isinstance(rule, dict)]


# -- dialects


def dialect_of(schema: object) -> str | None:
    """Return the dialect of a schema; None if it has no keywords of its own here."""
    declared = schema.get("$schema", _2020) if isinstance(schema, dict) else None
    return next((each for each in _OWN_KEYWORDS if each in str(declared)), None)


def refused_by_dialect(schema: JsonObject, valid: JsonObject) -> Iterator[JsonObject]:
    """Yield arguments that a schema refuses by keywords of its dialect alone."""
    without = _without_own_keywords(schema)
    for arguments in _candidates(schema, valid, schema):
        if refuses(schema, arguments) and not refuses(without, arguments):
            yield arguments


def plain_mistake(schema: JsonObject, valid: JsonObject) -> JsonObject | None:
    """Return arguments that a schema refuses in every dialect; None if none are known."""
    for name in required_names(schema):
        return {key: value for key, value in valid.items() if key != name}
    without = _without_own_keywords(schema)
    wrong = (valid | {name: odd} for name in properties_of(schema) for odd in (_ODD, 7))
    return next((each for each in wrong if refuses(without, each)), None)


def _without_own_keywords(schema: Any) -> Any:
    """Return a schema without the keywords of one dialect alone."""
    if isinstance(schema, list):
        return [_without_own_keywords(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name for keywords in _OWN_KEYWORDS.values() for name in keywords}
    if "prefixItems" in schema or isinstance(schema.get("items"), list):
        own |= {"items"}
    if "$ref" in schema:
        # Before 2019-09 the keywords beside a reference were ignored.
        own |= {*schema} - {"$ref", "$defs", "definitions", "$schema"}
    return {name: _without_own_keywords(value) for name, value in schema.items() if name not in own}


def _candidates(schema: JsonObject, value: Any, root: JsonObject) -> Iterator[Any]:
    """Yield changes of a value that keywords of one dialect may refuse."""
    if isinstance(value, dict):
        yield value | {"accord-check": 1}
        for key in ("dependentRequired", "dependencies"):
            dependencies = schema.get(key)
            for trigger, needed in dependencies.items() if isinstance(dependencies, dict) else ():
                names = needed if isinstance(needed, list) else ()
                kept = {name: each for name, each in value.items() if name not in names}
                rule = properties_of(schema).get(trigger)
                yield kept | {trigger: value.get(trigger, sample(rule, root=root))}
        for name, rule in _member_schemas(schema):
            for changed in _candidates(rule, value.get(name, sample(rule, root=root)), root):
                yield value | {name: changed}
    elif isinstance(value, list):
        for place in range(max(len(value), 1)):
            for odd in (_ODD, 7, "accord-check"):
                yield [*value[:place], odd, *value[place + 1 :]]
        yield [*value, *value, *value]
    elif isinstance(value, str):
        yield from ("", value * 200)
    elif isinstance(value, int | float):
        yield from (value + 10**6, value - 10**6)


# -- depth


def nested_arguments(schema: JsonObject, valid: JsonObject, depth: int) -> JsonObject | None:
    """Return arguments that use a schema within itself; None if it has no such use."""
    for name, rule in _member_schemas(schema):
        reference = rule.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            continue
        found = find_by_pointer(schema, reference[1:])
        place = _place_within(found, reference) if isinstance(found, dict) else None
        plain = sample(found, root=schema)
        if place is None or not isinstance(plain, dict):
            continue
        value: Any = plain
        member, is_list = place
        for _ in range(depth):
            value = plain | {member: [value] if is_list else value}
        return valid | {name: value}
    return None


def _place_within(schema: JsonObject, reference: str) -> tuple[str, bool] | None:
    """Return the member of a schema that refers to it, and whether it is a list of them."""
    for name, rule in _member_schemas(schema):
        items = rule.get("items")
        if isinstance(items, dict) and items.get("$ref") == reference:
            return name, True
        choices = [rule, *(rule.get("anyOf") or ())]
        if any(isinstance(each, dict) and each.get("$ref") == reference for each in choices):
            return name, False
    return None
