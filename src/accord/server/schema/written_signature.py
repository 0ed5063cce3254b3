"""Functions with a JSON Schema of their arguments that the author wrote."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from accord.errors import RegistrationError
from accord.server.schema.arguments import decode_object, shorten
from accord.server.schema.encoding import encode
from accord.server.schema.leniency import read_texts
from accord.server.schema.parameters import ParsedParameters
from accord.server.schema.signature import ArgumentsError, BoundArguments, Signature
from accord.server.schema.written import compile_written
from accord.types import JsonObject


class BoundWithRest(NamedTuple):
    """Decoded arguments, and those that the function takes by `**`."""

    bound: BoundArguments
    rest: dict[str, object]


class SignatureWithSchema(Signature):
    """A function with a JSON Schema of its arguments that the author wrote: listed, and enforced.

    The schema decides first, by a full validator; then the annotations of the parameters decode
    what it let through. `**rest` gets the arguments that have no parameter of their own.

    Raises:
        RegistrationError: the schema is invalid, or it and the function disagree on a name.
        MissingExtra: no validator is installed.
    """

    _forbids_unknown = False  # the schema decides

    def __init__(
        self,
        function: Callable[..., object],
        context_type: type | None,
        schema: JsonObject,
        *,
        is_strict: bool = False,
    ) -> None:
        self._is_strict = is_strict
        reader = ParsedParameters(function, context_type, has_schema=True)
        self._read(function, reader)
        self._compile()
        self.is_plain = False
        self.listed_schema = schema
        if schema.get("type") != "object":
            raise RegistrationError(f'{reader.where}: input_schema has to say "type": "object"')
        self._validate = compile_written(schema, f"{reader.where}: input_schema")
        _compare_names(schema, reader)
        self._taken = frozenset(each.key for each in reader.client_parameters)
        self._takes_rest = reader.takes_rest
        if reader.takes_rest:
            self.call = functools.partial(_call_with_rest, self.call)

    def bind(self, raw: bytes | msgspec.Raw) -> Any:
        """Hold the arguments to the schema, and decode them.

        Raises:
            ArgumentsError: they do not fit; the message names the place.
        """
        given = decode_object(raw)
        wrong = self._validate(given)
        if wrong is not None and not self._is_strict:
            read = read_texts(given, self.listed_schema, self.listed_schema)
            if read != given and isinstance(read, dict) and self._validate(read) is None:
                given, raw, wrong = read, encode(read), None
        if wrong is not None:
            raise ArgumentsError(shorten(f"the arguments do not fit the input schema: {wrong}"))
        bound = super().bind(raw)
        if not self._takes_rest:
            return bound
        rest = {name: value for name, value in given.items() if name not in self._taken}
        return BoundWithRest(bound, rest)


def _compare_names(schema: JsonObject, reader: ParsedParameters) -> None:
    for each in reader.client_parameters:
        if each.is_required and each.key not in schema.get("required", ()):
            raise RegistrationError(
                f'{reader.where}: parameter "{each.key}" has no default, and input_schema does '
                "not require it"
            )
    taken = {each.key for each in reader.client_parameters}
    properties = schema.get("properties")
    for name in properties if isinstance(properties, dict) else ():
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
    values: Sequence[object] = (),
) -> object:
    return call(functools.partial(function, **bound.rest), bound.bound, context, values)
