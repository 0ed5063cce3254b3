"""Dialects of JSON Schema, and references that lead out of a schema.

These faults are found without a validator.

A schema without `$schema` is in the default dialect, 2020-12 (schema.dialect.default-2020-12).
"""

from collections.abc import Iterator
from typing import Final

from accord.json_schema.reader import SchemaDocument
from accord.types import JsonObject

DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
"""The dialects that schemas may declare, without the `#` that some end with."""

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_BY_NAME: Final = frozenset(
    {
        "$defs",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "patternProperties",
        "properties",
    }
)
_SUBSCHEMAS: Final = _BY_NAME | {
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
}


def find_schema_fault(schema: JsonObject) -> str | None:
    """Return why a schema cannot be used whatever validates it; None if nothing is known.

    >>> find_schema_fault({"properties": {"a": {"$ref": "https://example.com/a.json"}}})
    "refers to 'https://example.com/a.json', which is not part of it; use a reference within it"
    """
    dialect = schema.get("$schema", DIALECTS[0])
    if not isinstance(dialect, str) or dialect.removesuffix("#") not in DIALECTS:
        # schema.dialect.unsupported-reported
        return f"the dialect {dialect!r} is not supported; use one of {', '.join(DIALECTS)}"
    document = SchemaDocument(schema)
    for subschema in _subschemas(schema):
        for key in _REFERENCES:
            target = subschema.get(key)
            if not isinstance(target, str) or target.removesuffix("#") in DIALECTS:
                continue
            if not document.find(subschema, key, target):  # schema.ref.unresolved-rejected
                return f"refers to {target!r}, which is not part of it; use a reference within it"
    return None


def _subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Walk through all subschemas; values of unknown keywords are data."""
    waiting: list[object] = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            for key in _SUBSCHEMAS.intersection(each):
                value = each[key]
                if isinstance(value, list):
                    waiting += value
                elif key in _BY_NAME and isinstance(value, dict):
                    waiting += value.values()
                else:
                    waiting.append(value)
