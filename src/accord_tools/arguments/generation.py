"""Generated arguments, and the smallest of those that fail; to be imported where it is used.

The generator does not follow every keyword of a schema; each value is validated before it is used.
References are followed within the schema alone, and only a few levels deep where it refers to
itself.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from random import Random
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.reader import (
    alternatives,
    likely_types,
    merge_all_of,
    number_at,
    properties_of,
    required_names,
    resolve,
)
from accord.types import JsonObject
from accord_tools.arguments.samples import NumberRange, number_range, sample

try:
    import hypothesis
    from hypothesis import strategies as draw
    from hypothesis.strategies import SearchStrategy
except ImportError:
    raise MissingExtra("test", needed_for="generating arguments") from None

# Tries to find a smaller input that fails: all, and failing ones that cost a wait or a start.
_TRIES: Final = 400
_COSTLY: Final = {"silence": 3, "end": 40}


FailureT = TypeVar("FailureT")


class NothingGenerated(Exception):
    """The generator cannot make arguments from a schema; the message says why."""


class Found(msgspec.Struct, Generic[FailureT], frozen=True):
    """A failure, of which kind it is, and the arguments that cause it."""

    kind: str
    failure: FailureT
    arguments: object = None


class _Broken(Exception):
    """Reports to the generator that an input failed."""


class Enough(BaseException):
    """Ends the search for a smaller input."""


def smallest_failure(
    schema: JsonObject,
    attempt: Callable[[JsonObject], Found[FailureT] | None],
    *,
    is_valid: Callable[[object], bool],
    examples: int,
    seed: int,
) -> Found[FailureT] | None:
    """Try generated arguments; return the smallest that fails in the way the first did.

    Args:
        schema: the schema of the arguments.
        attempt: tries arguments.
        is_valid: leaves out arguments that the generator got wrong.
        examples: how many to try.
        seed: the same seed gives the same arguments.

    Raises:
        NothingGenerated: no arguments could be made.
    """
    strategy = strategy_of(schema).filter(is_valid)
    search = _Search(attempt)
    settings = hypothesis.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        verbosity=hypothesis.Verbosity.quiet,
    )
    try:

        @hypothesis.seed(seed)
        @settings
        @hypothesis.given(strategy)
        def attempt_once(arguments: JsonObject) -> None:
            search.step(arguments)

        attempt_once()
    except (_Broken, Enough):
        pass
    except Exception as error:
        # A server that does not always answer the same still has failed once.
        if search.best is None:
            raise NothingGenerated(f"{type(error).__name__}: {error}".split("\n", 1)[0]) from None
    return search.best


def smallest_value(schema: JsonObject, is_valid: Callable[[object], bool]) -> object:
    """Return the simplest value that a schema allows.

    Raises:
        NothingGenerated: no value was found.
    """
    settings = hypothesis.settings(
        database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    try:
        return hypothesis.find(
            strategy_of(schema),
            is_valid,
            settings=settings,
            random=Random(0),  # noqa: S311  # the same values each time are the purpose
        )
    except Exception as error:
        raise NothingGenerated(f"{type(error).__name__}: {error}".split("\n", 1)[0]) from None


class _Search(Generic[FailureT]):
    def __init__(self, attempt: Callable[[JsonObject], Found[FailureT] | None]) -> None:
        self.best: Found[FailureT] | None = None
        self._attempt = attempt
        self._tries = 0
        self._failing = 0

    def step(self, arguments: JsonObject) -> None:
        if self.best is not None:
            self._tries += 1
            if self._tries > _TRIES or self._failing > _COSTLY.get(self.best.kind, _TRIES):
                raise Enough
        found = self._attempt(arguments)
        if found is None or (self.best is not None and found.kind != self.best.kind):
            return
        self._failing += 1
        found = msgspec.structs.replace(found, arguments=arguments)
        if self.best is None or _size(found) <= _size(self.best):
            self.best = found
        raise _Broken


def _size(found: Found[FailureT]) -> tuple[int, str]:
    text = json.dumps(found.arguments, sort_keys=True)
    return len(text), text


# -- strategies

_Strategy: TypeAlias = SearchStrategy[object]

# Larger integers are not exact in every JSON library.
SAFE_INTEGER: Final = 2**53 - 1
_DEEPEST: Final = 6
# What UTF-8 can write. A `codec` would be asked for each character, which takes a second.
_CHARACTERS: Final = draw.characters(exclude_categories=["Cs"])
_LONGEST: Final = 200
_MORE_ITEMS: Final = 5


def strategy_of(schema: object) -> _Strategy:
    """Return a strategy that draws values that fit a schema, as far as its usual keywords tell."""
    return _StrategyBuilder(schema if isinstance(schema, dict) else {}).build(schema, 0)


class _StrategyBuilder:
    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._types: dict[str, Callable[[Mapping[str, object], int], _Strategy]] = {
            "null": lambda _rule, _depth: draw.none(),
            "boolean": lambda _rule, _depth: draw.booleans(),
            "integer": lambda rule, _depth: self._integer(rule),
            "number": lambda rule, _depth: self._number(rule),
            "string": lambda rule, _depth: self._text(rule),
            "array": self._array,
            "object": self._object,
        }

    def build(self, rule: object, depth: int) -> _Strategy:
        made = self._build(rule, depth)
        rule = rule if isinstance(rule, dict) else {}
        examples = rule.get("examples")
        named = [*(examples if isinstance(examples, list) else [])]
        named += [rule["default"]] if "default" in rule else []
        # Last, so that a smaller input is preferred to them.
        return made | draw.sampled_from(named) if named else made

    def _build(self, rule: object, depth: int) -> _Strategy:
        if rule is False:
            return draw.nothing()
        if not isinstance(rule, dict):
            return self._any_value()
        if depth > _DEEPEST:
            return draw.just(sample(rule, root=self._root))
        rule = resolve(rule, self._root)
        if "const" in rule:
            return draw.just(rule["const"])
        if isinstance(rule.get("enum"), list) and rule["enum"]:
            return draw.sampled_from(rule["enum"])
        options = alternatives(rule, self._root)
        if options:
            return draw.one_of([self.build(each, depth + 1) for each in options])
        if isinstance(rule.get("allOf"), list):
            return self.build(merge_all_of(rule, self._root), depth + 1)
        types = likely_types(rule)
        if not types:
            return self._any_value()
        return draw.one_of([self._types[each](rule, depth) for each in types])

    def _any_value(self) -> _Strategy:
        plain = draw.none() | draw.booleans() | draw.integers(-1000, 1000) | draw.text(max_size=10)
        return (
            plain
            | draw.lists(plain, max_size=3)
            | draw.dictionaries(draw.text(max_size=5), plain, max_size=3)
        )

    def _object(self, rule: Mapping[str, object], depth: int) -> _Strategy:
        properties = properties_of(rule)
        required = {
            name: self.build(properties.get(name, True), depth + 1) for name in required_names(rule)
        }
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

    def _array(self, rule: Mapping[str, object], depth: int) -> _Strategy:
        fixed = rule.get("prefixItems")
        first = [self.build(each, depth + 1) for each in fixed] if isinstance(fixed, list) else []
        least = max(_natural(rule, "minItems", 0) - len(first), 0)
        most = min(_natural(rule, "maxItems", 1_000) - len(first), least + _MORE_ITEMS)
        item = self.build(rule.get("items", True), depth + 1)
        if rule.get("items") is False or most <= 0:
            rest: SearchStrategy[list[object]] = draw.just([])
        elif rule.get("uniqueItems") is True:
            rest = draw.lists(item, min_size=least, max_size=most, unique_by=_key)
        else:
            rest = draw.lists(item, min_size=least, max_size=most)
        return draw.builds(lambda one, other: [*one, *other], draw.tuples(*first), rest)

    def _integer(self, rule: Mapping[str, object]) -> _Strategy:
        step = number_at(rule, "multipleOf")
        if step is not None and step == int(step) and step > 0:
            return _multiples(rule, int(step))
        low, high = (int(each) for each in _finite_range(rule).integers())
        return draw.nothing() if low > high else draw.integers(low, high)

    def _number(self, rule: Mapping[str, object]) -> _Strategy:
        step = number_at(rule, "multipleOf")
        if step is not None and step > 0:
            return _multiples(rule, step)
        limits = _finite_range(rule)
        is_excluded = limits.excludes_low or limits.excludes_high
        if limits.low > limits.high or (limits.low == limits.high and is_excluded):
            return draw.nothing()
        floats = draw.floats(
            float(limits.low),
            float(limits.high),
            allow_nan=False,
            exclude_min=limits.excludes_low,
            exclude_max=limits.excludes_high,
        )
        return floats | self._integer(rule)

    def _text(self, rule: Mapping[str, object]) -> _Strategy:
        pattern = rule.get("pattern")
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except re.error:
                return draw.just(sample(rule, root=self._root))
            # Python's $ lets a line break follow, which JSON Schema's does not.
            pattern = re.sub(r"(?<!\\)\$$", r"\\Z", pattern)
            return draw.from_regex(pattern, alphabet=_CHARACTERS)
        formatted = self._formatted_text(rule.get("format"), rule)
        if formatted is not None:
            return formatted
        least = _natural(rule, "minLength", 0)
        most = min(_natural(rule, "maxLength", least + _LONGEST), least + _LONGEST)
        return (
            draw.nothing()
            if least > most
            else draw.text(_CHARACTERS, min_size=least, max_size=most)
        )

    def _formatted_text(self, form: object, rule: Mapping[str, object]) -> _Strategy | None:
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


def _key(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _natural(rule: Mapping[str, object], key: str, otherwise: int) -> int:
    value = number_at(rule, key)
    return otherwise if value is None or value < 0 else int(value)


def _multiples(rule: Mapping[str, object], step: float) -> _Strategy:
    limits = _finite_range(rule)
    low, high = int(-(-limits.low // step)), int(limits.high // step)
    return draw.nothing() if low > high else draw.integers(low, high).map(lambda n: n * step)


def _finite_range(rule: Mapping[str, object]) -> NumberRange:
    """Return the limits of a number, those of exact integers in place of infinite ones."""
    limits = number_range(rule)
    low = min(-SAFE_INTEGER, limits.high) if limits.low == -math.inf else limits.low
    high = max(SAFE_INTEGER, low) if limits.high == math.inf else limits.high
    return limits._replace(low=low, high=high)
