"""A flat type as the form that a user fills in."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from accord.errors import RegistrationError, ToolError
from accord.server.schemas import convert, schema_of
from accord.types._base import JsonObject

Form = TypeVar("Form")

# What the field is called where only one value is asked for.
_ONE: Final = "value"
_PRIMITIVES: Final = frozenset({"string", "number", "integer", "boolean"})
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
_KEPT: Final = (
    "type",
    "title",
    "description",
    "enum",
    "default",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
)


def form_of(type_: type[Form]) -> tuple[JsonObject, Callable[[JsonObject], Form]]:
    """Return the schema of a form and the function that reads its answer.

    Raises:
        RegistrationError: the type is not flat; the message names the field.
    """
    schema = schema_of(type_)
    called = _called(type_)
    properties = schema.get("properties")
    if schema.get("type") != "object":
        return _form_of_one(type_, schema)
    if not isinstance(properties, dict):
        raise RegistrationError(f"{called} is no form: expected a type with named fields")
    fields = {name: _field(f"{called}.{name}", field) for name, field in properties.items()}
    form: JsonObject = {"type": "object", "properties": fields}
    if schema.get("required"):
        form["required"] = schema["required"]

    def read(content: JsonObject) -> Form:
        try:
            answer: Form = convert(content, type_, strict=False)
        except ValueError as error:
            raise ToolError(f"the answer does not fit {called}: {error}") from None
        if hasattr(answer, "__dict__"):
            # msgspec leaves defaults to a dataclass, so that it would be written without them.
            for name in getattr(answer, "__dataclass_fields__", ()):
                vars(answer).setdefault(name, getattr(answer, name))
        return answer

    return form, read


def _called(type_: Any) -> str:
    return getattr(type_, "__name__", str(type_))


def _form_of_one(
    type_: type[Form], schema: JsonObject
) -> tuple[JsonObject, Callable[[JsonObject], Form]]:
    """Make a form with one field, for a single value."""
    called = _called(type_)
    field = _field(called, schema)
    form: JsonObject = {"type": "object", "properties": {_ONE: field}, "required": [_ONE]}

    def read(content: JsonObject) -> Form:
        try:
            answer: Form = convert(content.get(_ONE), type_, strict=False)
        except ValueError as error:
            raise ToolError(f"the answer does not fit {called}: {error}") from None
        return answer

    return form, read


def _field(what: str, schema: Any) -> JsonObject:
    """Keep what forms may say; optional fields are those that need not be filled in."""
    field = _without_null(schema) if isinstance(schema, dict) else {}
    if "enum" in field and all(isinstance(value, str) for value in field["enum"]):
        field.setdefault("type", "string")
    if field.get("type") not in _PRIMITIVES:
        raise RegistrationError(
            f"{what} cannot be asked for: expected a string, number, boolean or choice of strings"
        )
    kept = {key: field[key] for key in _KEPT if field.get(key) is not None}
    if kept.get("format") not in (None, *_FORMATS):
        del kept["format"]
    if kept["type"] != "string" and "enum" in kept:
        # Forms know choices of strings alone; of numbers they know the range.
        values = kept.pop("enum")
        if kept["type"] != "boolean":
            kept |= {"minimum": min(values), "maximum": max(values)}
    return kept


def _without_null(schema: JsonObject) -> JsonObject:
    options = schema.get("anyOf")
    if not isinstance(options, list):
        return dict(schema)
    real = [option for option in options if option != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**real[0], **rest} if len(real) == 1 else rest
