"""The parameters of a function, compiled: a schema, a struct with its decoder, and a call."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from accord.errors import RegistrationError
from accord.json_schema.reader import inline
from accord.server.schema.conversion import Collector, dec_hook, json_default, plain_schema
from accord.server.schema.parameters import EMPTY, ParsedParameter, compile_call
from accord.server.schema.plain import is_plain
from accord.server.schema.signature import BoundArguments
from accord.types import JsonObject

_IMMUTABLE: Final = (int, str, float, bool, bytes, type(None))


def input_schema(
    parameters: Sequence[ParsedParameter], documented: dict[str, str], where: str
) -> JsonObject:
    """Return the JSON Schema of the arguments.

    Args:
        parameters: those that a client fills in.
        documented: what the docstring says of them, by name.
        where: names the function in errors.

    Raises:
        RegistrationError: a type has no JSON form; the message names the parameter.
    """
    if not parameters:
        # 2025-11-25, "Tool with no parameters". Some hosts refuse a schema without properties.
        return {"type": "object", "properties": {}, "additionalProperties": False}
    collector = Collector()
    is_whole = True
    properties: JsonObject = {}
    for each in parameters:
        if is_plain(each.type):
            schema = plain_schema(each.type)
        else:
            is_whole = False
            schema = _schema_of(each, collector, where)
        if each.name in documented and "description" not in schema:
            schema["description"] = documented[each.name]
        if each.default is not EMPTY and (shown := json_default(each.default)) is not UNSET:
            schema["default"] = shown
        properties[each.key] = schema
    required = [each.key for each in parameters if each.is_required]
    made: JsonObject = {"type": "object", "properties": properties}
    if required:
        made["required"] = required
    # Strict modes of hosts demand it, and so a misspelt optional argument is not lost in silence.
    made["additionalProperties"] = False
    return made if is_whole else inline(made, collector.components)


def _schema_of(parameter: ParsedParameter, collector: Collector, where: str) -> JsonObject:
    try:
        (schema,) = collector.schemas([parameter.type])
    except RegistrationError as error:
        raise RegistrationError(f'{where}: parameter "{parameter.name}": {error}') from error
    return dict(schema)


def decoder_of(struct: type[BoundArguments]) -> Callable[[bytes | msgspec.Raw], BoundArguments]:
    """Return the function that decodes arguments."""
    return msgspec.json.Decoder(struct, dec_hook=dec_hook).decode


def struct_of(
    parameters: Iterable[ParsedParameter], *, forbids_unknown: bool
) -> type[BoundArguments]:
    """Return a struct with a field for each parameter."""
    return msgspec.defstruct(  # type: ignore[return-value]  # a subclass of its base
        "Arguments",
        [(f"field{n}", each.type, _field(each)) for n, each in enumerate(parameters)],
        bases=(BoundArguments,),
        forbid_unknown_fields=forbids_unknown,
        kw_only=True,
        gc=False,
    )


def _field(parameter: ParsedParameter) -> object:
    if parameter.factory is not UNSET:
        return msgspec.field(name=parameter.key, default_factory=parameter.factory)
    if parameter.default is EMPTY:
        return msgspec.field(name=parameter.key)
    if isinstance(parameter.default, _IMMUTABLE):
        return msgspec.field(name=parameter.key, default=parameter.default)
    # Python shares a default between calls; so does this.
    return msgspec.field(name=parameter.key, default_factory=lambda: parameter.default)


def build_call(
    order: Iterable[tuple[str, bool]],
    parameters: Iterable[ParsedParameter],
    dependencies: Iterable[str],
) -> Callable[..., Any]:
    """Return `call(function, bound, context, values)`.

    Args:
        order: every parameter by name, and whether it is passed by keyword.
        parameters: those that a client fills in, as fields of `bound`.
        dependencies: the names of those that `values` fill in.
    """
    sources = {name: f"values[{n}]" for n, name in enumerate(dependencies)}
    sources |= fields_of(parameters)
    return compile_call(
        [
            f"{name}={sources.get(name, 'context')}" if by_name else sources.get(name, "context")
            for name, by_name in order
        ]
    )


def fields_of(parameters: Iterable[ParsedParameter]) -> dict[str, str]:
    """Return the expressions that read arguments, by the names of their parameters."""
    return {each.name: f"bound.field{n}" for n, each in enumerate(parameters)}
