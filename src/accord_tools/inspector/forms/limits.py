"""The limits of a JSON Schema in words, as they stand beside a field."""

import json
from collections.abc import Iterator
from typing import Final

from accord.json_schema.reader import number_at
from accord.types import JsonObject
from accord_tools.inspector.forms.model import short_text

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
