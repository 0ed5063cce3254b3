"""A flat type as the form that a user fills in."""

import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Final

import msgspec

from accord.errors import RegistrationError, ToolError
from accord.json_schema.mismatch import explain, path_text
from accord.protocol.questions import asks_for_secret
from accord.server.schema.annotations import Choices
from accord.server.schema.conversion import convert, schema_of
from accord.server.schema.plain import to_plain
from accord.types._base import JsonObject

log = logging.getLogger("accord.server")

# The name of the field in a form for a single value.
_SINGLE: Final = "value"
_PRIMITIVES: Final = frozenset({"string", "number", "integer", "boolean"})
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
_COMMON: Final = ("type", "title", "description", "default")
_LIMITS: Final = ("minLength", "maxLength", "minimum", "maximum")
_KEYWORDS: Final = (*_COMMON, *_LIMITS, "enum", "format", "oneOf")
_MULTI_SELECT_KEYWORDS: Final = (*_COMMON, "items", "minItems", "maxItems")


def form_of(type_: object) -> tuple[JsonObject, Callable[[JsonObject], object]]:
    """Return the schema of a form and the function that reads its answer.

    Args:
        type_: a flat type, the type of one value, `Choices`, or a schema written by hand.

    Raises:
        RegistrationError: the type is not flat; the message names the field.
    """
    if isinstance(type_, dict):
        return _authored_form(type_)
    default = type_.default if isinstance(type_, Choices) else None
    if isinstance(type_, Choices):
        type_ = Annotated[list[str] if type_.several else str, type_]
    schema = schema_of(type_)
    called = getattr(type_, "__name__", str(type_))
    is_single = schema.get("type") != "object"
    properties = {_SINGLE: schema} if is_single else schema.get("properties")
    if not isinstance(properties, dict):
        raise RegistrationError(f"{called} cannot be a form: expected a type with named fields")
    fields = {
        name: _field(called if is_single else f"{called}.{name}", field)
        for name, field in properties.items()
    }
    _warn_about_secrets(fields)
    if default is not None:
        fields[_SINGLE]["default"] = default
    for name, made in _made_defaults(type_):
        field = fields.get(name, {})
        if field.get("type") == "array" and made:
            field.setdefault("default", to_plain(made))
    form: JsonObject = {"type": "object", "properties": fields}
    if required := [_SINGLE] if is_single else schema.get("required"):
        form["required"] = required

    def read(content: JsonObject) -> object:
        try:
            answer = convert(content.get(_SINGLE) if is_single else content, type_, strict=False)
        except ValueError as error:
            raise ToolError(f"the answer does not fit {called}: {error}") from None
        _refuse_other_choices(form, content)
        if hasattr(answer, "__dict__"):
            # msgspec does not set defaults of a dataclass, which would be encoded without them.
            for name in getattr(answer, "__dataclass_fields__", ()):
                vars(answer).setdefault(name, getattr(answer, name))
        return answer

    return form, read


def _warn_about_secrets(fields: JsonObject) -> None:
    for name, field in fields.items():
        if asks_for_secret(name, field):
            _warn_about_secret(name)


@lru_cache(maxsize=1_000)
def _warn_about_secret(name: str) -> None:
    """Warn about a field, once: a form is made for every question."""
    log.warning(
        "a form asks for the secret %r, and the client sees the answer; use ctx.elicit_url", name
    )


def _made_defaults(type_: object) -> Iterator[tuple[str, object]]:
    """Make the defaults of fields that have a function for them, as lists in classes do."""
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        for each in msgspec.structs.fields(type_):
            if each.default_factory is not msgspec.NODEFAULT:
                yield each.encode_name, each.default_factory()
    else:
        for name, field in getattr(type_, "__dataclass_fields__", {}).items():
            if callable(field.default_factory):
                yield name, field.default_factory()


def _authored_form(schema: JsonObject) -> tuple[JsonObject, Callable[[JsonObject], JsonObject]]:
    """Use a schema that the author wrote; the answer stays a dictionary."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        raise RegistrationError('a form written by hand has "type": "object" and "properties"')
    for name, field in schema["properties"].items():
        _check_authored_field(f"the field {name!r}", field)
    _warn_about_secrets(schema["properties"])

    def read(content: JsonObject) -> JsonObject:
        if (wrong := explain(schema, content)) is not None:
            raise _answer_error(wrong.path, wrong.reason)
        return content

    return schema, read


def _check_authored_field(what: str, field: object) -> None:
    """Refuse a field that clients cannot show: they know a few types and keywords alone."""
    kept = _field(what, field)
    assert isinstance(field, dict)  # or it would have no type
    # elicitation.form.formats; the published schema has no pattern.
    if field.get("format", kept.get("format")) != kept.get("format"):
        formats = ", ".join(sorted(_FORMATS))
        raise RegistrationError(f"{what}: format is {field['format']!r}, expected {formats}")
    if "pattern" in field:
        raise RegistrationError(f"{what}: forms have no pattern; check the answer instead")


def _refuse_other_choices(form: JsonObject, content: JsonObject) -> None:
    """Refuse values that are not among the choices, which msgspec does not check."""
    for name, field in form["properties"].items():
        is_choice = "oneOf" in field or "enum" in field or "items" in field
        if is_choice and name in content and (wrong := explain(field, content[name])):
            raise _answer_error((name, *wrong.path), wrong.reason)


def _answer_error(path: tuple[str | int, ...], reason: str) -> ToolError:
    return ToolError(f"the answer does not fit the form: {path_text(path)}: {reason}")


def _field(what: str, schema: object) -> JsonObject:
    """Keep the keywords that forms allow; a field that may be null is optional instead."""
    field = _without_null(schema) if isinstance(schema, dict) else {}
    if field.get("type") == "array":
        return _multi_select_field(what, field)
    if "oneOf" in field:
        # The titles list the values as well.
        field.pop("enum", None)
    if "enum" in field and all(isinstance(value, str) for value in field["enum"]):
        field.setdefault("type", "string")
    if field.get("type") not in _PRIMITIVES:
        raise RegistrationError(
            f"{what} cannot be asked for: expected a string, number, boolean, choice of strings or "
            "list of such a choice"
        )
    kept = {key: field[key] for key in _KEYWORDS if field.get(key) is not None}
    if kept.get("format") not in (None, *_FORMATS):
        del kept["format"]
    if kept["type"] != "string" and "enum" in kept:
        # Forms have choices of strings alone; numbers have a range.
        values = kept.pop("enum")
        if kept["type"] != "boolean":
            kept |= {"minimum": min(values), "maximum": max(values)}
    return kept


def _multi_select_field(what: str, field: JsonObject) -> JsonObject:
    """Describe a choice of several values, with titles or without."""
    items = field.get("items")
    items = dict(items) if isinstance(items, dict) else {}
    kept = {key: field[key] for key in _MULTI_SELECT_KEYWORDS if field.get(key) is not None}
    if "anyOf" in items:
        kept["items"] = {"anyOf": items["anyOf"]}
    elif items.get("enum") and all(isinstance(value, str) for value in items["enum"]):
        kept["items"] = {"type": "string", "enum": items["enum"]}
    else:
        raise RegistrationError(
            f"{what} cannot be asked for: a list in a form is a choice of several strings; write "
            'list[Literal["a", "b"]] or Annotated[list[str], Choices(...)]'
        )
    return kept


def _without_null(schema: JsonObject) -> JsonObject:
    options = schema.get("anyOf")
    if not isinstance(options, list):
        return dict(schema)
    real = [option for option in options if option != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**real[0], **rest} if len(real) == 1 else rest
