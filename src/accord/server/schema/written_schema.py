"""Tools with an input schema that the author wrote: it is listed unchanged, and enforced."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from accord.errors import RegistrationError
from accord.json_schema.validation import Validate, compile_schema
from accord.server.schema.parameters import ParsedParameters
from accord.server.schema.signature import (
    ArgumentsError,
    BoundArguments,
    Signature,
    decode_object,
    shorten,
)
from accord.types import JsonObject


class BoundWithRest(NamedTuple):
    """Decoded arguments, and those that the function takes by `**`."""

    bound: BoundArguments
    rest: dict[str, object]


class SignatureWithSchema(Signature):
    """A function with a JSON Schema of its arguments that the author wrote.

    The schema decides first, by a full validator; then the annotations of the parameters decode
    what it let through. `**rest` gets the arguments that have no parameter of their own.

    Raises:
        RegistrationError: the schema is invalid, or it and the function disagree on a name.
        MissingExtra: no validator is installed.
    """

    def __init__(
        self, function: Callable[..., object], context_type: type | None, schema: JsonObject
    ) -> None:
        reader = ParsedParameters(function, context_type, has_schema=True)
        self._schema = schema
        self._where = reader.where
        self._read(function, reader)
        self._validate = self._compile(schema)
        self._compare_names(reader)
        if reader.takes_rest:
            self.call = functools.partial(_call_with_rest, self.call)
        self._takes_rest = reader.takes_rest

    @property
    def listed_schema(self) -> JsonObject:
        """The schema as its author wrote it."""
        return self._schema

    def bind(self, raw: bytes | msgspec.Raw) -> Any:
        """Hold the arguments to the schema, and decode them.

        Raises:
            ArgumentsError: they do not fit; the message names the place.
        """
        given = decode_object(raw)
        wrong = self._validate(given)
        if wrong is not None:
            raise ArgumentsError(shorten(f"the arguments do not fit the input schema: {wrong}"))
        bound = super().bind(raw)
        if not self._takes_rest:
            return bound
        rest = {name: value for name, value in given.items() if name not in self._types}
        return BoundWithRest(bound, rest)

    def _compile(self, schema: JsonObject) -> Validate:
        if schema.get("type") != "object":
            raise RegistrationError(f'{self._where}: input_schema has to say "type": "object"')
        try:
            return compile_schema(schema)
        except ValueError as error:
            raise RegistrationError(f"{self._where}: input_schema is invalid: {error}") from None

    def _compare_names(self, reader: ParsedParameters) -> None:
        properties = self._schema.get("properties")
        described = properties if isinstance(properties, dict) else {}
        for each in reader.client_parameters:
            if each.is_required and each.key not in self._schema.get("required", ()):
                raise RegistrationError(
                    f'{reader.where}: parameter "{each.key}" has no default, and input_schema does '
                    "not require it"
                )
        taken = {each.key for each in reader.client_parameters}
        for name in described:
            if name not in taken and not reader.takes_rest:
                raise RegistrationError(
                    f'{reader.where}: input_schema has the property "{name}", and the function '
                    f"does not take it; add a parameter {name} or **rest"
                )


def _call_with_rest(
    call: Callable[..., object],
    function: Callable[..., object],
    bound: BoundWithRest,
    context: object,
) -> object:
    return call(functools.partial(function, **bound.rest), bound.bound, context)
