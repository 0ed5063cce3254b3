"""A flat type as the form that a user fills in."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from accord.errors import RegistrationError, ToolError
from accord.server.schemas import convert, schema_of
from accord.types._base import JsonObject

Form = TypeVar("Form")

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
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise RegistrationError(f"{type_.__name__} is no form: expected a type with named fields")
    fields = {name: _field(type_, name, field) for name, field in properties.items()}
    form: JsonObject = {"type": "object", "properties": fields}
    if schema.get("required"):
        form["required"] = schema["required"]

    def read(content: JsonObject) -> Form:
        try:
            answer: Form = convert(content, type_, strict=False)
        except ValueError as error:
            raise ToolError(f"the answer does not fit {type_.__name__}: {error}") from None
        return answer

    return form, read


def _field(type_: type, name: str, schema: Any) -> JsonObject:
    """Keep what forms may say; optional fields are those that need not be filled in."""
    field = _without_null(schema) if isinstance(schema, dict) else {}
    if "enum" in field and all(isinstance(value, str) for value in field["enum"]):
        field.setdefault("type", "string")
    if field.get("type") not in _PRIMITIVES:
        raise RegistrationError(
            f"{type_.__name__}.{name} cannot be asked for: expected a string, number, boolean or "
            "choice of strings"
        )
    kept = {key: field[key] for key in _KEPT if field.get(key) is not None}
    if kept.get("format") not in (None, *_FORMATS):
        del kept["format"]
    return kept


def _without_null(schema: JsonObject) -> JsonObject:
    options = schema.get("anyOf")
    if not isinstance(options, list):
        return dict(schema)
    real = [option for option in options if option != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**real[0], **rest} if len(real) == 1 else rest
