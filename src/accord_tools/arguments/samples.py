"""Plain values that fit a JSON Schema, and changes of them.

A sample is the smallest value that usual keywords ask for; it is not validated, and a schema with
unusual keywords may get one that does not fit. A change is another valid value, one that one
dialect alone refuses, or a deep one; each is validated, so that an unknown keyword costs a change
and never makes a wrong one.
"""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from accord.json_schema.reader import (
    alternatives,
    declared_types,
    find_by_pointer,
    likely_types,
    merge_all_of,
    number_at,
    properties_of,
    required_names,
    resolve,
)
from accord.json_schema.validation import UNDECIDED, compile_schema
from accord.types import JsonObject
from accord_tools.arguments.patterns import text_for_pattern

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


def sample(
    schema: object, *, root: Mapping[str, object] | None = None, depth: int = 0, turn: int = 0
) -> Any:
    """Return a value that fits a schema, as far as its usual keywords tell.

    Args:
        schema: the schema, true or false.
        root: the whole schema, where references lead; by default the schema itself.
        depth: how many schemas it stands in.
        turn: counts values that must differ, such as the items of a list without equal ones.
    """
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return "text" if schema is True or schema is None else None
    root = schema if root is None else root
    if "const" in schema:
        return schema["const"]
    if "default" in schema and turn == 0:
        return schema["default"]
    for key in ("examples", "enum"):
        listed = schema.get(key)
        if isinstance(listed, list) and listed:
            return listed[turn % len(listed)]
    if "$ref" in schema:
        # What is left of a reference that leads outside is any value.
        found = {key: value for key, value in resolve(schema, root).items() if key != "$ref"}
        return sample(found, root=root, depth=depth + 1, turn=turn)
    options = alternatives(schema, root)
    if options:
        not_null = [each for each in options if declared_types(each) != ["null"]]
        return sample((not_null or options)[0], root=root, depth=depth + 1, turn=turn)
    if isinstance(schema.get("allOf"), list):
        return sample(merge_all_of(schema, root), root=root, depth=depth + 1, turn=turn)
    return _sample_of_type(_main_type(schema), schema, root, depth, turn)


def plain_arguments(schema: object) -> JsonObject | None:
    """Return quick plain arguments for the input schema of a tool; None if none can be made."""
    made = sample(schema)
    return made | short_durations(schema) if isinstance(made, dict) else None


def short_durations(schema: object, *, times: int = 1) -> JsonObject:
    """Return arguments for those parameters that say how long a tool shall take.

    Args:
        schema: of all arguments.
        times: how much longer than short it shall be.
    """
    arguments: JsonObject = {}
    for name, rule in properties_of(schema).items() if isinstance(schema, dict) else ():
        words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", str(name)).lower())
        wanted = next((_DURATIONS[word] for word in words[::-1] if word in _DURATIONS), None)
        if wanted is None or not isinstance(rule, dict):
            continue
        wanted *= times
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
    type_: str, schema: Mapping[str, object], root: Mapping[str, object], depth: int, turn: int
) -> object:
    if type_ == "object":
        return _object(schema, root, depth, turn)
    if type_ == "array":
        return _array(schema, root, depth)
    if type_ in ("integer", "number"):
        return _number(schema, type_, turn)
    if type_ == "boolean":
        return turn % 2 == 1
    return None if type_ == "null" else _text(schema, turn)


def _object(
    schema: Mapping[str, object], root: Mapping[str, object], depth: int, turn: int
) -> JsonObject:
    properties = properties_of(schema)
    made: JsonObject = {}

    def add(name: str) -> None:
        if name not in made:
            rule = properties.get(name, schema.get("additionalProperties", True))
            made[name] = sample(rule, root=root, depth=depth + 1, turn=turn)
            for needed in required_with.get(name, ()):
                add(needed)

    asked = schema.get("dependentRequired")
    required_with = asked if isinstance(asked, dict) else {}
    for name in required_names(schema):
        add(name)
    least = min(number_at(schema, "minProperties") or 0, _MOST_ITEMS)
    others = [] if schema.get("additionalProperties") is False else range(_MOST_ITEMS)
    names = schema.get("propertyNames", {"pattern": "^member[0-9]$"})
    for name in chain(properties, (sample(names, root=root, turn=each) for each in others)):
        if len(made) >= least:
            break
        add(str(name))
    return made


def _array(schema: Mapping[str, object], root: Mapping[str, object], depth: int) -> list[object]:
    fixed = schema.get("prefixItems")
    made: list[object] = []
    if isinstance(fixed, list):
        made += [sample(each, root=root, depth=depth + 1) for each in fixed]
    if "contains" in schema:
        wanted = min(number_at(schema, "minContains") or 1, _MOST_ITEMS)
        while len(made) < wanted:
            made.append(sample(schema["contains"], root=root, depth=depth + 1, turn=len(made)))
    least = min(number_at(schema, "minItems") or 0, _MOST_ITEMS)
    is_unique = schema.get("uniqueItems") is True
    while len(made) < least:
        turn = len(made) if is_unique else 0
        made.append(sample(schema.get("items", True), root=root, depth=depth + 1, turn=turn))
    return made


def _number(schema: Mapping[str, object], type_: str, turn: int) -> float:
    step = number_at(schema, "multipleOf")
    step = step if step and step > 0 else None
    unit = step or (1 if type_ == "integer" else 0)
    limits = number_range(schema)
    least, most = limits.integers() if type_ == "integer" else limits.inner()
    value = max(least, min(1, most))
    if unit:
        value = math.ceil(value / unit) * unit
        if value > most:
            value = math.floor(most / unit) * unit
    further = value + turn * (unit or 1)
    value = further if further <= most else value - turn * (unit or 1)
    return int(value) if type_ == "integer" else value


class NumberRange(NamedTuple):
    """The limits that a schema sets for a number; infinite without one."""

    low: float
    high: float
    excludes_low: bool
    excludes_high: bool

    def integers(self) -> tuple[float, float]:
        """Return the least and the largest integer."""
        low = self.low if self.low == -math.inf else math.ceil(self.low)
        high = self.high if self.high == math.inf else math.floor(self.high)
        return (
            low + (self.excludes_low and low == self.low),
            high - (self.excludes_high and high == self.high),
        )

    def inner(self) -> tuple[float, float]:
        """Return a least and a largest number that are within the limits."""
        low, high = self.low, self.high
        if self.excludes_low:
            low = low + 1 if low + 1 < high else (low + high) / 2
        if self.excludes_high:
            high = high - 1 if high - 1 >= low else (high + low) / 2
        return low, high


def number_range(schema: Mapping[str, object]) -> NumberRange:
    """Return the limits of a number, from the keywords with and without the limit itself."""
    lows = (number_at(schema, "minimum"), number_at(schema, "exclusiveMinimum"))
    highs = (number_at(schema, "maximum"), number_at(schema, "exclusiveMaximum"))
    low = max((each for each in lows if each is not None), default=-math.inf)
    high = min((each for each in highs if each is not None), default=math.inf)
    return NumberRange(low, high, lows[1] == low, highs[1] == high)


def _text(schema: Mapping[str, object], turn: int) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[str(schema["format"])]
    least, most = schema.get("minLength"), schema.get("maxLength")
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        wanted = least if isinstance(least, int) else 0
        found = text_for_pattern(pattern, least=wanted, turn=turn)
        if found is not None:
            return found
    text = f"{turn + 1}text" if turn else "text"
    if isinstance(least, int) and len(text) < least:
        text = text + "x" * min(least - len(text), _LONGEST_TEXT)
    return text[:most] if isinstance(most, int) and most >= 0 else text


# -- changes

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
