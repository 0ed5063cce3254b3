"""Types of pydantic: models, its own types, and `Field` in annotations.

Imported only when pydantic is loaded. Models follow pydantic's rules, their own settings included.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeGuard, get_args, get_origin

import msgspec
import pydantic
import pydantic_core
from msgspec import UNSET, Meta, UnsetType
from pydantic.fields import FieldInfo

from accord.errors import RegistrationError, lower_first
from accord.json_schema.mismatch import Mismatch
from accord.server.schema.annotations import Choices
from accord.server.schema.conversion import Collector, first_line, limits_of
from accord.types import JsonObject


class PydanticAdapter:
    """A type that pydantic validates."""

    def __init__(self, type_: Any) -> None:
        try:
            self._adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(type_)
        except (pydantic.errors.PydanticUserError, NameError) as error:
            raise RegistrationError(first_line(error)) from error

    def schema(self, collector: Collector) -> JsonObject:
        """Return pydantic's schema, as read or as written."""
        prefix = collector.unique("")
        collector.has_foreign = True
        try:
            schema = self._adapter.json_schema(
                ref_template=f"#/$defs/{prefix}{{model}}",
                mode="serialization" if collector.output else "validation",
            )
        except pydantic.errors.PydanticInvalidForJsonSchema as error:
            raise RegistrationError(first_line(error)) from error
        definitions = schema.pop("$defs", {})
        collector.add({prefix + name: definition for name, definition in definitions.items()})
        return schema

    def decode(self, value: object) -> object:
        """Validate as JSON: strict models accept other values from JSON than from Python."""
        try:
            return self._adapter.validate_json(msgspec.json.encode(value))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            reason = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            path = _path_in(value, first["loc"])
            raise Mismatch(lower_first(reason), path=path) from None


def _path_in(value: object, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Leave the names that pydantic gives to members of unions out of a location."""
    path: list[int | str] = []
    for depth, part in enumerate(location, 1):
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value.get(part)
        elif depth < len(location) or not isinstance(value, dict):
            continue
        path.append(part)
    return tuple(path)


def adapter_of_class(type_: object) -> PydanticAdapter | None:
    """Return the adapter of a class that is pydantic's or made with it; None for others."""
    if hasattr(type_, "__get_pydantic_core_schema__") or hasattr(type_, "__pydantic_validator__"):
        return PydanticAdapter(type_)
    return None


def adapter_of_annotation(annotation: object) -> PydanticAdapter | None:
    """Return the adapter of an `Annotated` whose metadata only pydantic can follow."""
    metadata = get_args(annotation)[1:]
    return PydanticAdapter(annotation) if any(map(_needs_pydantic, metadata)) else None


def _needs_pydantic(metadata: object) -> bool:
    if isinstance(metadata, FieldInfo):
        return (
            metadata.discriminator is not None
            or callable(metadata.json_schema_extra)
            or any(_limits(each) is None for each in metadata.metadata)
        )
    if isinstance(metadata, Choices):  # both libraries read it
        return False
    return type(metadata).__module__.startswith("pydantic.") or hasattr(
        metadata, "__get_pydantic_core_schema__"
    )


def _limits(metadata: object) -> JsonObject | None:
    """Return a constraint of a `Field` as msgspec names it; None if msgspec has no such one."""
    found = limits_of(metadata)
    if found is not None:
        return found
    said = dict(getattr(metadata, "__dict__", {}))
    pattern = said.pop("pattern", None)
    return None if said or pattern is None else {"pattern": getattr(pattern, "pattern", pattern)}


def metas(field: object) -> list[Meta]:
    """Translate a `Field` into the metadata that msgspec reads in `Annotated`."""
    if not isinstance(field, FieldInfo):
        return []
    # One each: msgspec takes limits of numbers and of strings together only in separate objects.
    limits = [Meta(**limit) for metadata in field.metadata if (limit := _limits(metadata))]
    said: JsonObject = {
        name: value
        for name in ("title", "description", "examples")
        if (value := getattr(field, name)) is not None
    }
    if isinstance(field.json_schema_extra, dict):
        said["extra_json_schema"] = dict(field.json_schema_extra)
    return [*limits, Meta(**said)] if said else limits


def default_of(field: FieldInfo) -> tuple[object, Callable[..., object] | UnsetType]:
    """Return default and default factory of a `Field`, UNSET if it has none."""
    default = UNSET if field.default is pydantic_core.PydanticUndefined else field.default
    return default, UNSET if field.default_factory is None else field.default_factory


def alias_of(annotation: object) -> str | None:
    """Return the name that a `Field` gives a parameter on the wire."""
    for metadata in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(metadata, FieldInfo) and isinstance(metadata.alias, str):
            return metadata.alias
    return None


def is_field(value: object) -> TypeGuard[FieldInfo]:
    """Tell whether a parameter's default is a `Field`."""
    return isinstance(value, FieldInfo)


def encode(value: object) -> object:
    """Encode a model, or a value of another type that pydantic knows, as plain data."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if adapter_of_class(type(value)) is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return pydantic_core.to_jsonable_python(value)
