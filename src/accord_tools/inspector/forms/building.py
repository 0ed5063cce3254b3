"""From a JSON Schema to the model of a form.

References are followed within the schema. A part that leads back to itself becomes a `ref`, whose
model stands in `defs`. Whatever the schema is, the model has a bounded size; what is beyond a form
is a field for JSON with a note. The whole value is validated by other means.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from accord.json_schema.reader import (
    SchemaDocument,
    likely_types,
    number_at,
    properties_of,
    required_names,
)
from accord.types import JsonObject
from accord_tools.inspector.forms.model import (
    LONGEST_DESCRIPTION,
    LONGEST_TITLE,
    FormChoice,
    FormField,
    FormModel,
    FormOption,
    short_text,
)

_LONGEST_PATTERN: Final = 200
_LONGEST_NUMBER: Final = 40
_SIZES: Final = {
    "string": ("Length", "character"),
    "array": ("Items", "item"),
    "object": ("Properties", "member"),
}


def limits_of(schema: JsonObject, type_: str) -> list[str]:
    """Return what values of a type a schema allows.

    >>> limits_of({"minimum": 1, "maximum": 10}, "integer")
    ['1 to 10']
    """
    if type_ in ("integer", "number"):
        return list(_number_limits(schema))
    return list(_size_limits(schema, type_))


def _number_limits(schema: JsonObject) -> Iterator[str]:
    least, most = number_at(schema, "minimum"), number_at(schema, "maximum")
    above, below = number_at(schema, "exclusiveMinimum"), number_at(schema, "exclusiveMaximum")
    if least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}"
    elif least is not None:
        yield f"at least {_number(least)}"
    elif most is not None:
        yield f"at most {_number(most)}"
    if above is not None:
        yield f"more than {_number(above)}"
    if below is not None:
        yield f"less than {_number(below)}"
    step = number_at(schema, "multipleOf")
    if step is not None and step != 1:
        yield f"a multiple of {_number(step)}"


def _number(value: float) -> str:
    return short_text(json.dumps(value), _LONGEST_NUMBER).removesuffix(".0")


def _size_limits(schema: JsonObject, type_: str) -> Iterator[str]:
    keyword, noun = _SIZES[type_]
    least, most = number_at(schema, f"min{keyword}"), number_at(schema, f"max{keyword}")
    if least and most is not None:
        same = least == most
        yield _count(least, noun) if same else f"{_number(least)} to {_count(most, noun)}"
    elif least:
        yield f"at least {_count(least, noun)}"
    elif most is not None:
        yield f"at most {_count(most, noun)}"
    if type_ == "string" and isinstance(schema.get("pattern"), str):
        yield f"matches {short_text(schema['pattern'], _LONGEST_PATTERN)}"
    if type_ == "array" and schema.get("uniqueItems") is True:
        yield "each item once"
    if type_ == "object":
        names = schema.get("propertyNames")
        if isinstance(names, dict) and isinstance(names.get("pattern"), str):
            yield f"names match {short_text(names['pattern'], _LONGEST_PATTERN)}"


def _count(number: float, noun: str) -> str:
    return f"{_number(number)} {noun}" if number == 1 else f"{_number(number)} {noun}s"


# Of these, the first one counts: they describe, or a form does not show them.
_FIRST: Final = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$schema",
        "contains",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "deprecated",
        "description",
        "else",
        "examples",
        "format",
        "if",
        "not",
        "pattern",
        "propertyNames",
        "readOnly",
        "then",
        "title",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
        "writeOnly",
    }
)
_NO_MERGE: Final = object()


def merge_plain(schemas: Iterable[JsonObject]) -> JsonObject | None:
    """Join schemas; None where they contradict, or cannot be said in one plain schema."""
    merged: JsonObject = {}
    for schema in schemas:
        for key, value in schema.items():
            known = merged.get(key, _NO_MERGE)
            if known is _NO_MERGE:
                merged[key] = value
            elif key not in _FIRST and known != value:
                join = _JOINS.get(key)
                merged[key] = _NO_MERGE if join is None else join(known, value)
                if merged[key] is _NO_MERGE:
                    return None
    return merged


def _join_properties(one: Any, other: Any) -> object:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return _NO_MERGE
    shared = {
        name: {"allOf": [each, other[name]]}
        for name, each in one.items()
        if name in other and other[name] != each
    }
    return {**one, **other, **shared}


def _join_required(one: Any, other: Any) -> object:
    if not isinstance(one, list) or not isinstance(other, list):
        return _NO_MERGE
    return [*one, *(each for each in other if each not in one)]


def _join_lists(one: Any, other: Any) -> object:
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else _NO_MERGE


def _join_types(one: Any, other: Any) -> object:
    first = one if isinstance(one, list) else [one]
    second = other if isinstance(other, list) else [other]
    both = [each for each in first if each in second]
    if "integer" in first + second and "number" in first + second and "integer" not in both:
        both.append("integer")
    return both or _NO_MERGE


def _join_choices(one: Any, other: Any) -> object:
    if not isinstance(one, list) or not isinstance(other, list):
        return _NO_MERGE
    return [each for each in one if each in other] or _NO_MERGE


def _join_rest(one: Any, other: Any) -> object:
    """Join what other members may be: false wins, true says nothing."""
    if one is False or other is False:
        return False
    if one is True or other is True:
        return other if one is True else one
    return _NO_MERGE


def _tighten(choose: Callable[[float, float], float]) -> Callable[[Any, Any], object]:
    def join(one: Any, other: Any) -> object:
        if isinstance(one, int | float) and isinstance(other, int | float):
            return choose(one, other)
        return _NO_MERGE

    return join


_SMALLEST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LARGEST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_JOINS: Final[dict[str, Callable[[Any, Any], object]]] = {
    "properties": _join_properties,
    "patternProperties": _join_properties,
    "required": _join_required,
    "allOf": _join_lists,
    "type": _join_types,
    "enum": _join_choices,
    "additionalProperties": _join_rest,
    **dict.fromkeys(_SMALLEST, _tighten(max)),
    **dict.fromkeys(_LARGEST, _tighten(min)),
}


MOST_FIELDS: Final = 4_000
"""How many fields one form has."""
MOST_MEMBERS: Final = 1_000
"""How many members of one object a form shows."""
MOST_CHOICES: Final = 500
"""How many values of an `enum` a form offers."""
MOST_OPTIONS: Final = 100
"""How many options of a union a form offers."""
MOST_LEVELS: Final = 24
"""How deep fields nest; references that come again are opened on demand."""

_LONGEST_VALUE: Final = 10_000
_LONG_TEXT: Final = 120
_MOST_EXAMPLES: Final = 3
# A definition with as many fields is not repeated at each place that refers to it.
_LARGE_DEFINITION: Final = 40
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LONG_FORMATS: Final = ("multiline", "textarea", "markdown", "html", "code")
_SECTIONS: Final = {
    "not": "not",
    "if": "if",
    "dependentRequired": "dependentRequired",
    "dependentSchemas": "dependentSchemas",
    "dependencies": "dependencies",
    "contains": "contains",
}
# An option with these alone says nothing about what a form looks like.
_RULES_ALONE: Final = frozenset(
    {"required", "not", "minProperties", "maxProperties", "title", "description", "$comment"}
)
_ANNOTATIONS: Final = ("title", "description", "default", "examples", "deprecated", "readOnly")
_BY_KEYWORD: Final = {
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "format": "string",
    "contentEncoding": "string",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
    "additionalProperties": "object",
    "patternProperties": "object",
    "propertyNames": "object",
}
_NOUNS: Final = {
    "text": "text",
    "multiline": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "true or false",
    "null": "null",
    "choice": "choice",
    "list": "list",
    "tuple": "list",
    "object": "object",
    "map": "object",
    "union": "one of several",
    "json": "JSON",
    "ref": "object",
}


class FormBuilder:
    """Builds the form of one schema."""

    def __init__(self, schema: object) -> None:
        self._root = schema
        self._document = SchemaDocument(schema if isinstance(schema, dict) else {})
        self._left = MOST_FIELDS
        self._depth = 0
        # The definitions that the current field stands in, and those without a level between.
        self._active: list[int] = []
        self._in_place: frozenset[int] = frozenset()
        self._keys: dict[int, str] = {}
        self._targets: dict[str, JsonObject] = {}
        self._sizes: dict[int, int] = {}

    def build(self) -> FormModel:
        """Return the model."""
        model = self._model(self._root)
        done: dict[str, FormModel] = {}
        while len(done) < len(self._targets):
            for key, target in list(self._targets.items()):
                if key not in done:
                    self._depth, self._active = 0, [id(target)]
                    self._in_place = frozenset(self._active)
                    done[key] = self._model(target)
        model.defs = done
        return model

    # -- a field

    def _model(self, schema: object) -> FormModel:
        if not isinstance(schema, dict):
            note = "No value fits here." if schema is False else "The schema here is invalid."
            return FormModel(kind="json", note="" if schema is True else note)
        self._left -= 1
        if self._left < 0 or self._depth > MOST_LEVELS:
            return FormModel(kind="json", note="The schema is too large for a form here.")
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                return self._follow(schema, key)
        if isinstance(schema.get("allOf"), list):
            return self._merge(schema)
        return self._annotate(self._whole_field(schema), schema)

    def _inner(self, schema: object) -> FormModel:
        """Return the field of a part of the value."""
        before, self._in_place = self._in_place, frozenset()
        self._depth += 1
        made = self._model(schema)
        self._depth -= 1
        self._in_place = before
        return made

    def _follow(self, schema: JsonObject, key: str) -> FormModel:
        reference = schema[key]
        beside = {name: each for name, each in schema.items() if name != key}
        targets = self._document.find(schema, key, reference)
        shown = short_text(reference, LONGEST_TITLE)
        if not targets:
            note = f"The schema refers to {shown}, which is not part of it."
            return self._annotate(FormModel(kind="json", note=note), beside)
        target = targets[0]
        if id(target) in self._in_place:
            note = f"The schema refers to {shown}, which leads back to itself."
            return self._annotate(FormModel(kind="json", note=note), beside)
        if id(target) in self._active or self._sizes.get(id(target), 0) >= _LARGE_DEFINITION:
            made = FormModel(kind="ref", ref=self._key(target))
            return self._annotate(made, {**_only_annotations(target), **beside})
        joined = merge_plain([beside, target])
        if joined is None:
            return self._annotate(_contradiction(), beside)
        before, left = self._in_place, self._left
        self._active.append(id(target))
        self._in_place = before | {id(target)}
        made = self._model(joined)
        self._in_place = before
        self._active.pop()
        self._sizes[id(target)] = left - self._left
        return made

    def _key(self, target: JsonObject) -> str:
        key = self._keys.setdefault(id(target), f"d{len(self._keys) + 1}")
        self._targets[key] = target
        return key

    def _merge(self, schema: JsonObject) -> FormModel:
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        members: list[JsonObject] = []
        seen: set[int] = set()
        waiting = [each for each in reversed(schema["allOf"]) if each is not True]
        while waiting:
            each = waiting.pop()
            key = next((key for key in _REFERENCES if isinstance(each, dict) and key in each), None)
            if not isinstance(each, dict) or len(members) > MOST_OPTIONS:
                return self._annotate(_contradiction(), rest)
            if key is not None:
                targets = self._document.find(each, key, str(each[key]))
                if not targets or id(targets[0]) in seen | self._in_place:
                    return self._annotate(_contradiction(), rest)
                seen.add(id(targets[0]))
                waiting += [targets[0], {name: one for name, one in each.items() if name != key}]
            else:
                members.append(each)
        joined = merge_plain([rest, *members])
        if joined is None:
            return self._annotate(_contradiction(), rest)
        before, self._in_place = self._in_place, self._in_place | seen
        made = self._model(joined)
        self._in_place = before
        return made

    def _whole_field(self, schema: JsonObject) -> FormModel:
        """Return the field of a schema without references and `allOf`."""
        if "const" in schema:
            return self._choice([schema["const"]], ())
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._enum(schema)
        for key in ("oneOf", "anyOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                return self._options(schema, key, options)
        types = likely_types(schema)
        if not types and "type" in schema:
            return FormModel(kind="json", note="The schema names a type that does not exist.")
        types = types or _types_by_keyword(schema)
        if "number" in types and "integer" in types:
            types = [each for each in types if each != "integer"]
        kinds = [each for each in types if each != "null"]
        if len(kinds) > 1:
            made = self._union([{**schema, "type": each} for each in kinds])
        else:
            made = self._of_type((kinds or types or [""])[0], schema)
        made.nullable = made.nullable or (bool(kinds) and "null" in types)
        return made

    def _annotate(self, model: FormModel, schema: JsonObject) -> FormModel:
        model.title = model.title or short_text(schema.get("title"), LONGEST_TITLE)
        described = short_text(schema.get("description"), LONGEST_DESCRIPTION)
        model.description = model.description or described
        model.deprecated = model.deprecated or schema.get("deprecated") is True
        model.read_only = model.read_only or schema.get("readOnly") is True
        if "default" in schema and model.default is None:
            model.default = _text(schema["default"])
        examples = schema.get("examples")
        if isinstance(examples, list) and not model.examples:
            texts = map(_text, examples[:_MOST_EXAMPLES])
            model.examples = [each for each in texts if each is not None]
        hidden = [word for key, word in _SECTIONS.items() if key in schema]
        if hidden:
            model.add_note(f"Rules that are checked but not drawn: {', '.join(hidden)}.")
        return model

    # -- choices and unions

    def _enum(self, schema: JsonObject) -> FormModel:
        values = schema["enum"]
        named = schema.get("enumNames", schema.get("x-enumNames"))
        made = self._choice(values, named if isinstance(named, list) else ())
        if len(values) > MOST_CHOICES:
            rest = {key: value for key, value in schema.items() if key != "enum"}
            types = likely_types(rest)
            made = self._of_type(types[0] if types else "", rest)
            made.add_note(f"One of {len(values)} values, too many to offer.")
        return made

    def _choice(self, values: list[object], titles: "list[object] | tuple[()]") -> FormModel:
        choices: list[FormChoice] = []
        for index, value in enumerate(values[:MOST_CHOICES]):
            text = _text(value)
            if text is None:
                return FormModel(kind="json", note="A value of the choice is too long for a form.")
            title = titles[index] if index < len(titles) else None
            shown = value if isinstance(value, str) else text
            choices.append(FormChoice(short_text(title or shown, LONGEST_TITLE), text))
        others = [each for each in choices if each.value != "null"]
        if not others:
            return FormModel(kind="null")
        made = FormModel(kind="choice", choices=others, nullable=len(others) < len(choices))
        if len(choices) == 1:
            made.const = choices[0].value
        return made

    def _options(self, schema: JsonObject, key: str, options: list[object]) -> FormModel:
        rest = {
            name: value
            for name, value in schema.items()
            if name != key and name not in _ANNOTATIONS and name != "discriminator"
        }
        if all(isinstance(each, dict) and each.keys() <= _RULES_ALONE for each in options):
            made = self._whole_field({**rest, **_only_annotations(schema)})
            word = "exactly one" if key == "oneOf" else "at least one"
            made.add_note(f"Has to fit {word} of {len(options)} further rules ({key}).")
            return made
        titled = self._titled_choice(options)
        if titled is not None:
            return titled
        kept = [each for each in options if not _is_null(each)]
        nullable = len(kept) < len(options)
        if len(kept) > MOST_OPTIONS:
            return FormModel(kind="json", note=f"One of {len(kept)} options, too many for a form.")
        joined = [_join_option(each, rest) for each in kept]
        made = self._model(joined[0]) if len(kept) == 1 else self._union(joined)
        made.nullable = made.nullable or nullable
        return made

    def _titled_choice(self, options: list[object]) -> FormModel | None:
        """Return the choice that options with one value each make; None if they are others."""
        values: list[object] = []
        titles: list[object] = []
        for each in options:
            if _is_null(each):
                values.append(None)
                titles.append("")
            elif isinstance(each, dict) and "const" in each:
                values.append(each["const"])
                titles.append(each.get("title") or each.get("description"))
            else:
                return None
        return self._choice(values, titles) if len(values) <= MOST_CHOICES else None

    def _union(self, schemas: list[object]) -> FormModel:
        made: list[FormOption] = []
        used: dict[str, int] = {}
        for each in schemas:
            model = self._model(each)
            title = model.title or _tag(model) or _reference_name(each) or _noun(model)
            used[title] = used.get(title, 0) + 1
            if used[title] > 1:
                title = f"{title} ({used[title]})"
            made.append(FormOption(title, model))
        return FormModel(kind="union", options=made)

    # -- types

    def _of_type(self, type_: str, schema: JsonObject) -> FormModel:
        if type_ == "object":
            return self._object(schema)
        if type_ == "array":
            return self._array(schema)
        if type_ == "string":
            return _text_field(schema)
        if type_ == "integer":
            return FormModel(kind="integer", limits=limits_of(schema, type_))
        if type_ == "number":
            return FormModel(kind="number", limits=limits_of(schema, type_))
        if type_ == "boolean":
            return FormModel(kind="boolean")
        return FormModel(kind="null") if type_ == "null" else FormModel(kind="json")

    def _object(self, schema: JsonObject) -> FormModel:
        named, required = properties_of(schema), dict.fromkeys(required_names(schema))
        names = [*named, *(each for each in required if each not in named)]
        limits = limits_of(schema, "object")
        if len(names) > MOST_MEMBERS:
            note = f"The schema has {len(names)} members, too many for a form."
            return FormModel(kind="json", note=note, limits=limits)
        rest = schema.get("additionalProperties")
        patterns = schema.get("patternProperties")
        made = FormModel(kind="object", limits=limits, closed=rest is False and not patterns)
        if isinstance(rest, dict):
            made.values = self._inner(rest)
        if isinstance(patterns, dict) and patterns:
            shown = ", ".join(short_text(each, LONGEST_TITLE) for each in [*patterns][:3])
            made.add_note(f"Members whose names match {shown} have schemas of their own.")
            is_alone = len(patterns) == 1 and made.values is None
            made.values = self._inner(next(iter(patterns.values())) if is_alone else True)
        is_free = not names and not made.closed and (self._depth > 0 or rest is True)
        if is_free and made.values is None:
            made.values = FormModel(kind="json")
        if made.values is not None and not names:
            made.kind = "map"
        for name in names:
            model = self._inner(named.get(name, True))
            model.required = name in required
            made.fields.append(FormField(name, model))
        return made

    def _array(self, schema: JsonObject) -> FormModel:
        items, first = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list):
            items, first = schema.get("additionalItems"), items
        limits = limits_of(schema, "array")
        if isinstance(first, list) and first:
            if len(first) > MOST_MEMBERS:
                return FormModel(kind="json", note="Too many items for a form.", limits=limits)
            made = FormModel(kind="tuple", limits=limits, closed=items is False)
            least = number_at(schema, "minItems") or 0
            for index, each in enumerate(first):
                model = self._inner(each)
                model.required = index < least
                made.prefix.append(model)
            made.items = None if items is False else self._inner(True if items is None else items)
            return made
        if items is False:
            return FormModel(kind="list", limits=limits, closed=True)
        inner = self._inner(True if items is None else items)
        inner.required = True
        if inner.kind == "choice" and not inner.nullable and not inner.multiple:
            return FormModel(kind="choice", multiple=True, choices=inner.choices, limits=limits)
        return FormModel(kind="list", items=inner, limits=limits)


def _text_field(schema: JsonObject) -> FormModel:
    longest = number_at(schema, "maxLength") or 0
    format_ = short_text(schema.get("format"), LONGEST_TITLE)
    media = short_text(schema.get("contentMediaType"), LONGEST_TITLE)
    encoding = short_text(schema.get("contentEncoding"), LONGEST_TITLE)
    is_long = longest > _LONG_TEXT or format_ in _LONG_FORMATS or bool(media and not encoding)
    return FormModel(
        kind="multiline" if is_long and not encoding else "text",
        format=format_ or media,
        encoding=encoding,
        limits=limits_of(schema, "string"),
    )


def _types_by_keyword(schema: JsonObject) -> list[str]:
    found = {type_ for key, type_ in _BY_KEYWORD.items() if key in schema}
    return list(found) if len(found) == 1 else []


def _only_annotations(schema: JsonObject) -> JsonObject:
    return {key: schema[key] for key in _ANNOTATIONS if key in schema}


def _contradiction() -> FormModel:
    note = "The schema combines others (allOf) in a way that a form cannot show."
    return FormModel(kind="json", note=note)


def _is_null(schema: object) -> bool:
    if not isinstance(schema, dict):
        return False
    only_null = schema.get("type") == "null" or schema.get("enum") == [None]
    return only_null or ("const" in schema and schema["const"] is None)


def _join_option(option: object, rest: JsonObject) -> object:
    if not isinstance(option, dict):
        return rest if option is True and rest else option
    if not rest:
        return option
    # A reference is joined with what stands beside it when it is followed.
    joined = merge_plain([option, rest])
    return joined if joined is not None else {"allOf": [option, rest]}


def _tag(model: FormModel) -> str:
    """Return the text of the member that marks an option of a union."""
    for field in model.fields:
        if field.model.const is not None:
            return field.model.choices[0].title
    return ""


def _reference_name(schema: object) -> str:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    return reference.rpartition("/")[2][:LONGEST_TITLE] if isinstance(reference, str) else ""


def _noun(model: FormModel) -> str:
    if model.const is not None:
        return model.choices[0].title
    if model.kind == "list" and model.items is not None:
        return f"list of {_NOUNS[model.items.kind]}"
    return _NOUNS[model.kind]


def _text(value: object) -> str | None:
    """Return the JSON of a value; None if it is too long to be kept in a form."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return text if len(text) <= _LONGEST_VALUE else None
