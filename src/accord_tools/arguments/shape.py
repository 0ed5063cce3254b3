"""Arguments made from an input schema: likely ones, ones at the limits, and invalid ones.

Every value is validated before it is used, so that a keyword unknown here costs a test and never
makes a wrong one.
"""

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from accord.json_schema.reader import (
    alternatives,
    declared_types,
    merge_all_of,
    number_at,
    properties_of,
    required_names,
    resolve,
)
from accord.json_schema.validation import compile_schema
from accord.types import JsonObject
from accord_tools.arguments.samples import sample, short_durations

# Values of one name, and names.
_MOST_VALUES: Final = 5
_MOST_NAMES: Final = 500
_DEEPEST_NOTED: Final = 4
# The end of a name such as order_id or orderId, which an earlier result may call id.
_LAST_WORD: Final = re.compile(r"(?:_|-|(?<=[a-z])(?=[A-Z]))([A-Za-z]+)$")


class KnownValues:
    """Values that a server showed, by the names it gave them."""

    def __init__(self) -> None:
        self._values: dict[str, list[object]] = {}

    def note(self, found: object, depth: int = 0) -> None:
        """Keep the texts and numbers in a value, at any depth up to a limit."""
        if depth > _DEEPEST_NOTED:
            return
        for each in found if isinstance(found, list) else ():
            self.note(each, depth + 1)
        for name, value in found.items() if isinstance(found, dict) else ():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                self._keep(str(name), value)
            else:
                self.note(value, depth + 1)

    def note_text(self, text: str) -> None:
        """Keep the values in a text that is JSON."""
        with suppress(ValueError, RecursionError):
            self.note(json.loads(text))

    def note_resource(self, resource: Mapping[str, object]) -> None:
        """Keep the URI of a resource, and the path of a file."""
        uri = str(resource.get("uri"))
        self._keep("uri", uri)
        with suppress(ValueError):
            parts = urlsplit(uri)
            if parts.scheme == "file":
                self._keep("path", unquote(parts.path))

    def _keep(self, name: str, value: object) -> None:
        if name not in self._values and len(self._values) >= _MOST_NAMES:
            return
        values = self._values.setdefault(name, [])
        if value not in values and len(values) < _MOST_VALUES:
            values.append(value)

    def of(self, name: str) -> list[object]:
        """Return the values for an argument of this name."""
        last = _LAST_WORD.search(name)
        return [
            *self._values.get(name, ()),
            *(self._values.get(last[1].lower(), ()) if last else ()),
        ]


def likely_arguments(
    schema: Mapping[str, object], plain: JsonObject, known: KnownValues
) -> Iterator[JsonObject]:
    """Yield arguments that a tool is likely to accept; not all need be valid.

    Args:
        schema: the input schema of the tool.
        plain: valid arguments, with as many members as possible.
        known: values that the server showed.
    """
    least = {name: plain[name] for name in required_names(schema) if name in plain}
    yield from (least, plain)
    yield from (
        each for each in _list(schema.get("examples"))[:_MOST_VALUES] if isinstance(each, dict)
    )
    values = {
        name: [*_named_values(resolve(rule, schema)), *known.of(name)]
        for name, rule in properties_of(schema).items()
    }
    values = {name: each for name, each in values.items() if each}
    for base in (least, plain):
        chosen = {name: each for name, each in values.items() if name in base}
        for number in range(max(map(len, chosen.values()), default=0)):
            yield {**base, **{name: each[number % len(each)] for name, each in chosen.items()}}


def _named_values(rule: Mapping[str, object]) -> list[object]:
    """Return the values that a schema names itself."""
    found = [value for key in ("examples", "enum") for value in _list(rule.get(key))]
    return ([rule["default"]] if "default" in rule else []) + found[:_MOST_VALUES]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


_DEEPEST: Final = 3
_LONGEST: Final[Mapping[type, int]] = {str: 10_000, list: 1_000}
_WRONG: Final[tuple[object, ...]] = ("text", 12, {"unexpected": True}, ["unexpected"], 12.5, None)
# The keywords that allow only some types.
_TYPING: Final = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf"})
_UNKNOWN: Final = "accord_unknown"
# Where a schema keeps the targets of its references.
_SHARED: Final = ("$defs", "definitions")
_TEXTS: Final = ("", "text", " ", "äöü 漢字 😀", 'it\'s "quoted" \\ <b>\n', "0")


class _Member(NamedTuple):
    path: tuple[str, ...]
    schema: JsonObject
    is_required: bool

    @property
    def name(self) -> str:
        return ".".join(self.path)


class Shape:
    """An input schema, ready to make arguments.

    Raises:
        ValueError: the schema is invalid, or no valid arguments can be made from it.
    """

    def __init__(self, schema: object) -> None:
        self.schema: JsonObject = schema if isinstance(schema, dict) else {}
        self._validate = compile_schema(self.schema)
        self._durations = short_durations(self.schema)
        self.plain: JsonObject = self._plain()

    def is_valid(self, arguments: object) -> bool:
        """Whether the schema allows these arguments."""
        return self._validate(arguments) is None

    def _plain(self) -> JsonObject:
        """Make valid arguments with as many members as possible, and quick ones for durations."""
        full = {**self.schema, "required": [*properties_of(self.schema)]}
        for made in (sample(full), sample(self.schema)):
            if not isinstance(made, dict):
                continue
            for arguments in ({**made, **self._durations}, made):
                if self.is_valid(arguments):
                    return arguments
        # The generator is an extra.
        from accord_tools.arguments.generation import NothingGenerated, smallest_value

        for schema in (full, self.schema):
            with suppress(NothingGenerated):
                found = smallest_value({**schema, "type": "object"}, self.is_valid)
                if isinstance(found, dict):
                    return found
        raise ValueError("no value was found that fits its schema")

    def _required_names(self) -> list[str]:
        return [name for name in required_names(self.schema) if name in self.plain]

    # -- valid

    def for_generator(self) -> JsonObject:
        """Return the schema to generate from: a moment in place of durations of any length."""
        # A tool that may sleep for an hour can be tested with a moment.
        moments = {name: {"const": value} for name, value in self._durations.items()}
        required = [*self._required_names(), *moments]
        return {
            **self.schema,
            "type": "object",
            "properties": {**properties_of(self.schema), **moments},
            "required": list(dict.fromkeys(required)),
        }

    def likely(self, known: KnownValues) -> list[JsonObject]:
        """Return valid arguments that the tool is likely to accept, the least first."""
        made = likely_arguments(self.schema, self.plain, known)
        durations = ({**each, **self._durations} for each in made)
        return [each for each in _drop_repeats(durations) if self.is_valid(each)]

    def boundaries(self) -> list[JsonObject]:
        """Return valid arguments in which one member is at a limit, each once."""
        required = {name: self.plain[name] for name in self._required_names()}
        made: list[JsonObject] = [self.plain, {**required, **self._durations}]
        for member in self._members():
            if member.path[0] not in self._durations:
                values = [each for rule in self._choices(member) for each in _limits(rule)]
                made += [self._with(member.path, value) for value in values]
        return _drop_repeats(each for each in made if self.is_valid(each))

    # -- invalid

    def invalid(self) -> Iterator[tuple[str, list[JsonObject]]]:
        """Yield each mistake in words, with arguments that make it and that the schema refuses."""
        for way, candidates in self._mistakes():
            refused = [each for each in candidates if not self.is_valid(each)]
            if refused:
                yield way, refused

    def _mistakes(self) -> Iterator[tuple[str, list[JsonObject]]]:
        for member in self._members():
            if member.is_required:
                yield f"a call without {member.name}", [self._without(member.path)]
            wrong = [self._with(member.path, value) for value in _WRONG]
            wrong = [each for each in wrong if not self.is_valid(each)][:3]
            if not _TYPING.isdisjoint(member.schema):
                yield f"{member.name} of a wrong type", wrong
            values = [each for rule in self._choices(member) for each in _beyond(rule)]
            beyond = _drop_repeats(self._with(member.path, value) for value in values)
            yield f"{member.name} out of range", beyond
        if self.schema.get("additionalProperties") is False:
            yield "an unknown argument", [{**self.plain, _UNKNOWN: True}]

    # -- members

    def _members(self) -> Iterator[_Member]:
        yield from _walk(self.schema, self.schema, self.plain, ())

    def _choices(self, member: _Member) -> list[JsonObject]:
        """Return the alternatives of a member, each joined with the rest of its schema."""
        whole = merge_all_of(member.schema, self.schema)
        # The targets of references in them.
        shared: JsonObject = {key: self.schema[key] for key in _SHARED if key in self.schema}
        branches = alternatives(whole, self.schema) or [whole]
        return [{**each, **shared} for each in branches]

    def _with(self, path: Sequence[str], value: object) -> JsonObject:
        made = copy.deepcopy(self.plain)
        _parent(made, path)[path[-1]] = value
        return made

    def _without(self, path: Sequence[str]) -> JsonObject:
        made = copy.deepcopy(self.plain)
        _parent(made, path).pop(path[-1], None)
        return made


def _parent(made: JsonObject, path: Sequence[str]) -> JsonObject:
    for name in path[:-1]:
        made = made[name]
    return made


def _walk(
    schema: Mapping[str, object], root: Mapping[str, object], plain: object, path: tuple[str, ...]
) -> Iterator[_Member]:
    """Yield the members of an object and of those in it, as far as the plain value has them."""
    required = required_names(schema)
    for name, rule in properties_of(schema).items():
        inner = resolve(rule, root)
        place = (*path, name)
        yield _Member(place, inner, name in required)
        below = plain.get(name) if isinstance(plain, dict) else None
        if len(place) < _DEEPEST and isinstance(below, dict):
            yield from _walk(inner, root, below, place)


def _drop_repeats(made: Iterable[JsonObject]) -> list[JsonObject]:
    # As JSON they are compared as JSON does: true is not 1.
    return [*{json.dumps(each, sort_keys=True): each for each in made}.values()]


# -- limits


def _limits(rule: Mapping[str, object]) -> list[object]:
    """Return values at the limits of a schema; not all need be valid."""
    made: list[object] = [*_list(rule.get("enum"))[:20], *_list(rule.get("examples"))[:5]]
    made += [rule["default"]] if "default" in rule else []
    for type_ in declared_types(rule):
        made += _LIMITS_BY_TYPE[type_](rule) if type_ in _LIMITS_BY_TYPE else []
    return made


def _numbers(rule: Mapping[str, object]) -> list[object]:
    step = number_at(rule, "multipleOf") or 1
    made = [number_at(rule, key) for key in ("minimum", "maximum")]
    above, below = number_at(rule, "exclusiveMinimum"), number_at(rule, "exclusiveMaximum")
    made += [None if above is None else above + step, None if below is None else below - step]
    return [0, 1, -1, *(each for each in made if each is not None)]


def _repeat(one: str | list[object], rule: Mapping[str, object], *keys: str) -> list[object]:
    """Return texts or lists of the lengths that keywords of a schema name."""
    lengths = [rule.get(key) for key in keys]
    longest = _LONGEST[type(one)]
    return [one * each for each in lengths if isinstance(each, int) and 0 <= each <= longest]


def _lists(rule: Mapping[str, object]) -> list[object]:
    item = _item(rule)
    return [[], [item], *_repeat([item], rule, "minItems", "maxItems")]


def _item(rule: Mapping[str, object]) -> object:
    items = rule.get("items")
    shared: JsonObject = {key: rule[key] for key in _SHARED if key in rule}
    schema = {**items, **shared} if isinstance(items, dict) else {}
    made = sample(schema)
    with suppress(ValueError):
        validate = compile_schema(schema)
        if validate(made) is not None:
            from accord_tools.arguments.generation import NothingGenerated, smallest_value

            with suppress(NothingGenerated):
                made = smallest_value(schema, lambda value: validate(value) is None)
    return made


_LIMITS_BY_TYPE: Final[dict[str, Callable[[Mapping[str, object]], list[object]]]] = {
    "integer": _numbers,
    "number": _numbers,
    "string": lambda rule: [*_TEXTS, *_repeat("x", rule, "minLength", "maxLength")],
    "array": _lists,
    "boolean": lambda _: [False, True],
    "null": lambda _: [None],
    "object": lambda _: [{}],
}


_BEYOND_LIMIT: Final = {"minimum": -1, "maximum": 1, "exclusiveMinimum": 0, "exclusiveMaximum": 0}


def _beyond(rule: Mapping[str, object]) -> list[object]:
    """Return values just outside the limits of a schema."""
    made: list[object] = []
    for key, step in _BEYOND_LIMIT.items():
        limit = number_at(rule, key)
        made += [] if limit is None else [limit + step]
    ones: dict[str, str | list[object]] = {"Length": "x", "Items": [_item(rule)]}
    for what, one in ones.items():
        least, most, longest = rule.get(f"min{what}"), rule.get(f"max{what}"), _LONGEST[type(one)]
        made += [one * (least - 1)] if isinstance(least, int) and 0 < least <= longest else []
        made += [one * (most + 1)] if isinstance(most, int) and most < longest else []
    if "enum" in rule or "const" in rule:
        made.append("accord-none-of-these")
    if isinstance(rule.get("pattern"), str):
        made += ["", "\N{SNOWMAN}"]
    return made
