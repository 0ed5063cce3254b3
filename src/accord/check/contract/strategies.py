"""What a generator is told about a JSON Schema: which values to draw, the simple ones first.

Not every keyword is followed; whoever draws holds each value against the schema. References are
followed within the schema alone, and only a few levels deep where it refers to itself.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

from accord.errors import MissingExtra
from accord.json_schema.reader import merged, resolved
from accord.json_schema.samples import sample

try:
    from hypothesis import strategies as draw
    from hypothesis.strategies import SearchStrategy
except ImportError:
    raise MissingExtra("test", needed_for="generating arguments") from None

__all__ = ["SAFE_INTEGER", "strategy_of"]

# Beyond this, JSON numbers are not the same for everybody.
SAFE_INTEGER: Final = 2**53 - 1
_DEEPEST: Final = 6
_LONGEST: Final = 200
_MORE_ITEMS: Final = 5
_KINDS: Final = ("null", "boolean", "integer", "number", "string", "array", "object")


def strategy_of(schema: Any) -> SearchStrategy[Any]:
    """Return what draws values that fit a schema, as far as its usual keywords tell."""
    return _Builder(schema if isinstance(schema, dict) else {}).build(schema, 0)


class _Builder:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._kinds: dict[str, Callable[[Mapping[str, Any], int], SearchStrategy[Any]]] = {
            "null": lambda _rule, _depth: draw.none(),
            "boolean": lambda _rule, _depth: draw.booleans(),
            "integer": lambda rule, _depth: self._integer(rule),
            "number": lambda rule, _depth: self._number(rule),
            "string": lambda rule, _depth: self._text(rule),
            "array": self._array,
            "object": self._object,
        }

    def build(self, rule: Any, depth: int) -> SearchStrategy[Any]:
        if rule is False:
            return draw.nothing()
        if not isinstance(rule, dict):
            return self._anything()
        if depth > _DEEPEST:
            return draw.just(sample(rule, root=self._root))
        rule = resolved(rule, self._root)
        if "const" in rule:
            return draw.just(rule["const"])
        if isinstance(rule.get("enum"), list) and rule["enum"]:
            return draw.sampled_from(rule["enum"])
        for key in ("anyOf", "oneOf"):
            choices = rule.get(key)
            if isinstance(choices, list) and choices:
                rest = {name: value for name, value in rule.items() if name != key}
                parts = [merged([rest, resolved(each, self._root)]) for each in choices]
                return draw.one_of([self.build(each, depth + 1) for each in parts])
        if isinstance(rule.get("allOf"), list):
            rest = {name: value for name, value in rule.items() if name != "allOf"}
            parts = [rest, *(resolved(each, self._root) for each in rule["allOf"])]
            return self.build(merged(parts), depth + 1)
        kinds = _kinds_of(rule)
        if not kinds:
            return self._anything()
        return draw.one_of([self._kinds[each](rule, depth) for each in kinds])

    def _anything(self) -> SearchStrategy[Any]:
        plain = draw.none() | draw.booleans() | draw.integers(-1000, 1000) | draw.text(max_size=10)
        return (
            plain
            | draw.lists(plain, max_size=3)
            | draw.dictionaries(draw.text(max_size=5), plain, max_size=3)
        )

    def _object(self, rule: Mapping[str, Any], depth: int) -> SearchStrategy[Any]:
        properties = rule.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        listed = rule.get("required")
        names = (
            [each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
        )
        required = {name: self.build(properties.get(name, True), depth + 1) for name in names}
        optional = {
            name: self.build(each, depth + 1)
            for name, each in properties.items()
            if name not in required
        }
        known = draw.fixed_dictionaries(required, optional=optional)
        more = rule.get("additionalProperties")
        if not isinstance(more, dict):
            return known
        least = _natural(rule, "minProperties", 0)
        most = min(_natural(rule, "maxProperties", least + _MORE_ITEMS), least + _MORE_ITEMS)
        others = draw.dictionaries(
            draw.text(max_size=10), self.build(more, depth + 1), min_size=least, max_size=most
        )
        return draw.builds(lambda one, other: {**other, **one}, known, others)

    def _array(self, rule: Mapping[str, Any], depth: int) -> SearchStrategy[Any]:
        fixed = rule.get("prefixItems")
        first = [self.build(each, depth + 1) for each in fixed] if isinstance(fixed, list) else []
        least = max(_natural(rule, "minItems", 0) - len(first), 0)
        most = min(_natural(rule, "maxItems", 1_000) - len(first), least + _MORE_ITEMS)
        item = self.build(rule.get("items", True), depth + 1)
        if rule.get("items") is False or most <= 0:
            rest: SearchStrategy[list[Any]] = draw.just([])
        elif rule.get("uniqueItems") is True:
            rest = draw.lists(item, min_size=least, max_size=most, unique_by=_key)
        else:
            rest = draw.lists(item, min_size=least, max_size=most)
        return draw.builds(lambda one, other: [*one, *other], draw.tuples(*first), rest)

    def _integer(self, rule: Mapping[str, Any]) -> SearchStrategy[Any]:
        step = _number(rule, "multipleOf")
        least, most = _range(rule)
        if step is not None and step == int(step) and step > 0:
            low, high = -(-least // step), most // step
            if low > high:
                return draw.nothing()
            return draw.integers(int(low), int(high)).map(lambda each: each * int(step))
        low, high = -int(-least // 1), int(most // 1)
        if _number(rule, "exclusiveMinimum") == low:
            low += 1
        if _number(rule, "exclusiveMaximum") == high:
            high -= 1
        return draw.nothing() if low > high else draw.integers(low, high)

    def _number(self, rule: Mapping[str, Any]) -> SearchStrategy[Any]:
        step = _number(rule, "multipleOf")
        if step is not None and step > 0:
            least, most = _range(rule)
            low, high = int(-(-least // step)), int(most // step)
            counts = draw.integers(min(low, high), max(low, high))
            return counts.map(lambda each: each * step)
        least, most = _range(rule)
        if least > most:
            return draw.nothing()
        excludes_least = _number(rule, "exclusiveMinimum") == least
        excludes_most = _number(rule, "exclusiveMaximum") == most
        if least == most and (excludes_least or excludes_most):
            return draw.nothing()
        floats = draw.floats(
            float(least),
            float(most),
            allow_nan=False,
            exclude_min=excludes_least,
            exclude_max=excludes_most,
        )
        return floats | self._integer(rule)

    def _text(self, rule: Mapping[str, Any]) -> SearchStrategy[Any]:
        pattern = rule.get("pattern")
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except re.error:
                return draw.just(sample(rule, root=self._root))
            # Python's $ lets a line break follow, which JSON Schema's does not.
            pattern = re.sub(r"(?<!\\)\$$", r"\\Z", pattern)
            return draw.from_regex(pattern, alphabet=draw.characters(codec="utf-8"))
        formed = self._formed(rule.get("format"), rule)
        if formed is not None:
            return formed
        least = _natural(rule, "minLength", 0)
        most = min(_natural(rule, "maxLength", least + _LONGEST), least + _LONGEST)
        return draw.nothing() if least > most else draw.text(min_size=least, max_size=most)

    def _formed(self, form: Any, rule: Mapping[str, Any]) -> SearchStrategy[Any] | None:
        if form == "date":
            return draw.dates().map(lambda each: each.isoformat())
        if form == "date-time":
            moments = draw.datetimes(timezones=draw.just(UTC))
            return moments.map(lambda each: each.isoformat().replace("+00:00", "Z"))
        if form == "uuid":
            return draw.uuids().map(str)
        if form in ("ipv4", "ipv6"):
            return draw.ip_addresses(v=4 if form == "ipv4" else 6).map(str)
        return draw.just(sample(rule, root=self._root)) if isinstance(form, str) else None


def _kinds_of(rule: Mapping[str, Any]) -> list[str]:
    kind = rule.get("type")
    if isinstance(kind, list):
        return [each for each in kind if each in _KINDS]
    if kind in _KINDS:
        return [str(kind)]
    if "properties" in rule or "required" in rule:
        return ["object"]
    return ["array"] if "items" in rule or "prefixItems" in rule else []


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _number(rule: Mapping[str, Any], key: str) -> Any:
    value = rule.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _natural(rule: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = _number(rule, key)
    return otherwise if value is None or value < 0 else int(value)


def _range(rule: Mapping[str, Any]) -> tuple[Any, Any]:
    lows = [_number(rule, key) for key in ("minimum", "exclusiveMinimum")]
    highs = [_number(rule, key) for key in ("maximum", "exclusiveMaximum")]
    low = max((each for each in lows if each is not None), default=None)
    high = min((each for each in highs if each is not None), default=None)
    if low is None:
        low = -SAFE_INTEGER if high is None else min(-SAFE_INTEGER, high)
    if high is None:
        high = max(SAFE_INTEGER, low)
    return low, high
