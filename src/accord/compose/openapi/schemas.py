"""Schemas of OpenAPI 3.0 and 3.1 as JSON Schema 2020-12, which tools have.

Each converter writes only keywords that it knows, with values of the right type, so that whatever
a document holds becomes a valid schema. What a schema refers to becomes a definition in `$defs`,
converted once and shared by all operations. Definitions beyond a size are left open: those of some
APIs hang together, and each tool would carry megabytes.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import msgspec

from accord.compose.openapi.document import ApiDocument, Inexpressible, list_at, object_at
from accord.json_schema.reader import TYPES, merge
from accord.types import JsonObject

_DEFS: Final = "#/$defs/"
_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_DESCRIPTION: Final = 600
_EXAMPLE_BYTES: Final = 300
_COUNTS: Final = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_ONE: Final = ("not", "if", "then", "else", "contains", "propertyNames")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_TEXTS: Final = ("format", "contentEncoding", "contentMediaType")
_DEEPEST: Final = 24
LEFT_OPEN: Final = {"description": "anything: this part of the schema is left out, to be brief"}
"""In place of definitions that would make a schema too large."""


class Definition(msgspec.Struct):
    """What a reference leads to, converted.

    Attributes:
        name: in `$defs`.
        schema: None while it is being converted.
        references: the references in it.
        size: in bytes of JSON.
    """

    name: str
    schema: JsonObject | None = None
    references: dict[str, None] = {}
    size: int = 0

    @property
    def is_small(self) -> bool:
        """Whether a copy of it is simpler than a reference: a number, a text or a choice."""
        schema = self.schema
        return (
            schema is not None
            and not self.references
            and self.size <= 400
            and not schema.keys() & {"properties", "anyOf", "allOf", "items"}
        )


class Converter:
    """Converts the schemas of one document.

    Args:
        document: where references lead.
        most_bytes: how large the definitions of one schema may be together.
    """

    hidden = ""
    """The keyword of properties that are left out."""

    def __init__(self, document: ApiDocument, most_bytes: int) -> None:
        self.document = document
        self._most_bytes = most_bytes
        self._definitions: dict[str, Definition] = {}
        self._names: set[str] = set()

    def convert(self, schema: object, references: dict[str, None]) -> JsonObject:
        """Convert a schema.

        Args:
            schema: as the document has it.
            references: gets the references in the result.

        Raises:
            Inexpressible: a reference leads nowhere, or the value is not a schema.
        """
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        if not isinstance(schema, dict):
            raise Inexpressible(f"{schema!r:.60} stands where a schema is expected")
        if "$ref" in schema:
            return self._refer(schema, references)
        return self._convert_object(schema, references)

    def _convert_object(self, schema: JsonObject, references: dict[str, None]) -> JsonObject:
        raise NotImplementedError

    def _siblings(self, schema: JsonObject, references: dict[str, None]) -> JsonObject:
        """Return what stands beside a reference, converted."""
        description = _describe(schema)
        return {"description": description} if description else {}

    def _refer(self, schema: JsonObject, references: dict[str, None]) -> JsonObject:
        reference = schema["$ref"]
        found = self._define(reference)
        siblings = self._siblings(schema, references) if len(schema) > 1 else {}
        if found.is_small:
            return {**(found.schema or {}), **siblings}
        references[reference] = None
        return {"$ref": _DEFS + found.name, **siblings}

    def _define(self, reference: object) -> Definition:
        target = self.document.find(reference)
        assert isinstance(reference, str)
        found = self._definitions.get(reference)
        if found is not None:
            return found
        found = self._definitions[reference] = Definition(self._name(reference))
        references: dict[str, None] = {}
        try:
            converted = self.convert(target, references)
        except (Inexpressible, RecursionError):
            del self._definitions[reference]
            raise
        if self._leads_back(reference, converted):
            converted = {}
            references = {}
        found.schema = converted
        found.references = references
        found.size = len(msgspec.json.encode(converted))
        return found

    def _leads_back(self, reference: str, schema: JsonObject) -> bool:
        """Whether a definition is nothing but a reference that is not converted yet."""
        if not str(schema.get("$ref", "")).startswith(_DEFS):
            return False
        name = schema["$ref"].removeprefix(_DEFS)
        return any(each.name == name and each.schema is None for each in self._definitions.values())

    def _name(self, reference: str) -> str:
        base = _NAME.sub("_", reference.rpartition("/")[2]).strip("_") or "schema"
        name, number = base, 1
        while name in self._names:
            number += 1
            name = f"{base}{number}"
        self._names.add(name)
        return name

    def close(self, schema: JsonObject, references: Iterable[str]) -> JsonObject:
        """Return a schema with the definitions that it needs, nearest first, up to a size."""
        waiting = list(dict.fromkeys(references))
        if not waiting:
            return schema
        seen = set(waiting)
        definitions: JsonObject = {}
        left = self._most_bytes
        for reference in waiting:
            found = self._define(reference)
            left -= found.size
            if left < 0 or found.schema is None:
                definitions[found.name] = LEFT_OPEN
                continue
            definitions[found.name] = found.schema
            for each in found.references:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return {**schema, "$defs": definitions}

    def flatten(self, schema: object, depth: int = 0) -> JsonObject:
        """Return an unconverted schema with its reference resolved and its `allOf` joined.

        Raises:
            Inexpressible: a reference leads nowhere.
        """
        for _ in range(_DEEPEST):
            if not isinstance(schema, dict):
                return {}
            if "$ref" not in schema:
                break
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            target = self.document.find(schema["$ref"])
            schema = {**target, **siblings} if isinstance(target, dict) else siblings
        else:
            return {}
        members = schema.get("allOf")
        if not isinstance(members, list) or depth > _DEEPEST:
            return schema
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return merge([*(self.flatten(each, depth + 1) for each in members), rest])

    def is_hidden(self, schema: object) -> bool:
        """Whether a property is not part of what is converted."""
        if not isinstance(schema, dict):
            return False
        if schema.get(self.hidden) is True:
            return True
        if "$ref" not in schema or len(schema) > 1:
            return False
        target = self.document.find(schema["$ref"])
        return isinstance(target, dict) and target.get(self.hidden) is True


# -- what callers send


class InputConverter(Converter):
    """Converts schemas of arguments: constraints are kept, what only answers have is left out.

    `oneOf` becomes `anyOf`, since alternatives in real documents overlap.
    """

    hidden = "readOnly"

    def _siblings(self, schema: JsonObject, references: dict[str, None]) -> JsonObject:
        if self.document.is_old:
            return super()._siblings(schema, references)
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return self._convert_object(rest, references)

    def _convert_object(self, schema: JsonObject, references: dict[str, None]) -> JsonObject:
        result: JsonObject = {}
        types = read_types(schema)
        if types:
            result["type"] = types[0] if len(types) == 1 else types
        description = _describe(schema)
        if description:
            result["description"] = description
        self._add_values(schema, result, types)
        self._add_limits(schema, result)
        self._add_parts(schema, result, references)
        self._add_alternatives(schema, result, references)
        if schema.get("nullable") is True and self.document.is_old:
            return _with_null(result)
        return result

    def _add_values(self, schema: JsonObject, result: JsonObject, types: list[str]) -> None:
        values = schema.get("enum")
        if isinstance(values, list) and values:
            result["enum"] = values
            fitting = [each for each in types if any(_is_of(value, each) for value in values)]
            if types and not fitting:
                del result["type"]
        for key in ("const", "default"):
            if key in schema:
                result[key] = schema[key]
        examples = schema.get("examples")
        shown = list(examples) if isinstance(examples, list) else []
        if "example" in schema and not shown:
            shown = [schema["example"]]
        if shown and len(msgspec.json.encode(shown[:1])) <= _EXAMPLE_BYTES:
            result["examples"] = shown[:1]
        if schema.get("deprecated") is True:
            result["deprecated"] = True

    def _add_limits(self, schema: JsonObject, result: JsonObject) -> None:
        for key in _COUNTS:
            value: Any = schema.get(key)
            if _is_number(value) and value >= 0 and value == int(value):
                result[key] = int(value)
        for key, exclusive in (
            ("minimum", "exclusiveMinimum"),
            ("maximum", "exclusiveMaximum"),
        ):
            limit, strict = schema.get(key), schema.get(exclusive)
            if _is_number(limit):
                result[exclusive if strict is True else key] = limit
            if _is_number(strict):
                result[exclusive] = strict
        multiple: Any = schema.get("multipleOf")
        if _is_number(multiple) and multiple > 0:
            result["multipleOf"] = multiple
        if schema.get("uniqueItems") is True:
            result["uniqueItems"] = True
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and is_pattern(pattern):
            result["pattern"] = pattern
        for key in _TEXTS:
            if isinstance(schema.get(key), str):
                result[key] = schema[key]

    def _add_parts(
        self, schema: JsonObject, result: JsonObject, references: dict[str, None]
    ) -> None:
        for key in _MAPS:
            members = object_at(schema, key)
            if members:
                result[key] = {
                    name: self.convert(each, references)
                    for name, each in members.items()
                    if not self.is_hidden(each) and (key != "patternProperties" or is_pattern(name))
                }
        members = object_at(schema, "properties")
        names = [name for name in list_at(schema, "required") if isinstance(name, str)]
        required = [name for name in dict.fromkeys(names) if not self.is_hidden(members.get(name))]
        if required:
            result["required"] = required
        rest = schema.get("additionalProperties")
        if rest is False or (isinstance(rest, dict) and rest):
            result["additionalProperties"] = rest and self.convert(rest, references)
        items = schema.get("items")
        before = items if isinstance(items, list) else schema.get("prefixItems")
        if isinstance(before, list) and before:
            result["prefixItems"] = [self.convert(each, references) for each in before]
        if isinstance(items, dict) or items is False:
            result["items"] = self.convert(items, references)
        for key in _ONE:
            if isinstance(schema.get(key), dict):
                result[key] = self.convert(schema[key], references)
        dependent = object_at(schema, "dependentRequired")
        if dependent and all(_is_names(each) for each in dependent.values()):
            result["dependentRequired"] = dependent

    def _add_alternatives(
        self, schema: JsonObject, result: JsonObject, references: dict[str, None]
    ) -> None:
        everything = [self.convert(each, references) for each in list_at(schema, "allOf")]
        tags = _tags(schema)
        for key in ("anyOf", "oneOf"):
            members = list_at(schema, key)
            if not members:
                continue
            options = []
            for each in members:
                option = self.convert(each, references)
                names = tags.get(str(each.get("$ref"))) if isinstance(each, dict) else None
                if names:
                    tag = {object_at(schema, "discriminator")["propertyName"]: {"enum": names}}
                    option = {"allOf": [option], "properties": tag}
                options.append(option)
            if key == "oneOf" and "anyOf" in result:
                everything.append({"anyOf": options})
            else:
                result["anyOf"] = options
        if everything:
            result["allOf"] = everything


def _tags(schema: JsonObject) -> dict[str, list[str]]:
    """Return the values of the discriminator for each alternative, where the document maps them."""
    discriminator = object_at(schema, "discriminator")
    found: dict[str, list[str]] = {}
    if not isinstance(discriminator.get("propertyName"), str):
        return found
    for value, target in object_at(discriminator, "mapping").items():
        if isinstance(target, str):
            reference = target if "/" in target else f"#/components/schemas/{target}"
            found.setdefault(reference, []).append(value)
    return found


def _with_null(schema: JsonObject) -> JsonObject:
    """Let a schema of 3.0 take null as well."""
    if "allOf" in schema or "anyOf" in schema or "not" in schema:
        outer: JsonObject = {
            key: schema.pop(key) for key in ("description", "default") if key in schema
        }
        options = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        return {**outer, "anyOf": [*options, {"type": "null"}]}
    types = schema.get("type")
    if isinstance(types, str):
        schema["type"] = [types, "null"]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


# -- what APIs answer


class OutputConverter(Converter):
    """Converts schemas of answers to their shape: types, members and items, all of them optional.

    Real answers break the schemas of their documents. Each part may therefore be null, which takes
    the place of what does not fit, and no values, formats, limits and required members are kept.
    """

    hidden = "writeOnly"

    def _convert_object(self, schema: JsonObject, references: dict[str, None]) -> JsonObject:
        if "allOf" in schema:
            schema = self.flatten(schema)
        result: JsonObject = {}
        types = read_types(schema)
        members = object_at(schema, "properties")
        if not types:
            types = ["object"] if members else ["array"] if "items" in schema else []
        if types:
            result["type"] = [*types, "null"] if "null" not in types else types
        description = _describe(schema)
        if description:
            result["description"] = description
        if members and "object" in types:
            result["properties"] = {
                name: self.convert(each, references)
                for name, each in members.items()
                if not self.is_hidden(each)
            }
        rest = schema.get("additionalProperties")
        if isinstance(rest, dict) and rest and "object" in types:
            result["additionalProperties"] = self.convert(rest, references)
        if isinstance(schema.get("items"), dict) and "array" in types:
            result["items"] = self.convert(schema["items"], references)
        options = list_at(schema, "anyOf") or list_at(schema, "oneOf")
        if options and not members:
            alternatives = [self.convert(each, references) for each in options]
            if all(alternatives):
                result.pop("type", None)
                result["anyOf"] = [*alternatives, {"type": "null"}]
        return result


# -- parts


def read_types(schema: JsonObject) -> list[str]:
    """Return the JSON types that a schema names; documents have others, which mean nothing."""
    declared = schema.get("type")
    named = declared if isinstance(declared, list) else [declared]
    types = [each for each in TYPES if each in named]
    return types if all(each in TYPES for each in named) else []


def _describe(schema: JsonObject) -> str:
    text = schema.get("description")
    if not isinstance(text, str):
        return ""
    text = text.strip()
    return text if len(text) <= _DESCRIPTION else text[: _DESCRIPTION - 3].rstrip() + "..."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_CHECKS: Final[dict[str, Callable[[object], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and float(value) == int(value),  # type: ignore[arg-type,call-overload]  # a number
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_of(value: object, type_: str) -> bool:
    return _CHECKS[type_](value)


@cache
def is_pattern(pattern: str) -> bool:
    """Tell whether a pattern can be read by those that validate."""
    try:
        import jsonschema_rs

        jsonschema_rs.validator_for({"pattern": pattern})
    except ImportError:
        try:
            re.compile(pattern)
        except re.error:
            return False
    except ValueError:
        return False
    return True
