"""Signatures of handlers: their parameters as JSON Schema, and the way from JSON to a call.

The parameters are compiled into one struct, so that a single decode reads and checks them all, and
into one lambda that makes the call. Lenient reading happens only after the strict decode failed.

What cannot fail is made when it is first needed: the schema for a list, the struct and the lambda
for a call. Parameters of other than plain types are compiled at registration, where their author
learns of what is wrong. `SignatureWithSchema` has a schema that its author wrote.
"""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from accord.errors import RegistrationError, ToolError
from accord.server.schema.annotations import callable_name
from accord.server.schema.parameters import ParsedParameter, ParsedParameters, is_async, is_bare
from accord.server.schema.plain import encode
from accord.types import JsonObject

if TYPE_CHECKING:
    from accord.json_schema.validation import Validate
    from accord.server.injection import Plan
    from accord.server.schema.arguments import ArgumentsReader
    from accord.server.schema.docstrings import Docstring


log = logging.getLogger("accord.server")


class ArgumentsError(ToolError):
    """The arguments do not fit the parameters; the text names the argument and what it expects."""


class Parameter(msgspec.Struct, frozen=True):
    """A parameter that a caller fills in."""

    name: str
    required: bool
    description: str | None
    schema: JsonObject


class BoundArguments(msgspec.Struct, gc=False):
    """Arguments, decoded and in order; the context is not among them."""


class NoArguments(BoundArguments, forbid_unknown_fields=True, gc=False):
    """The arguments of a function that takes none."""


class Signature:
    """The parameters of a function, and the way from JSON to a call of it.

    `call(function, bound, context, values)` calls the function with the arguments, the context and
    the values of its dependencies; `plan` says how these are made. Clients see `listed_schema`.
    """

    name: str
    is_async: bool
    is_plain = False
    call: Callable[..., Any]
    plan: "Plan | None"
    _decode: Callable[[bytes | msgspec.Raw], BoundArguments]
    _takes_nothing = False
    _is_strict = False
    _forbids_unknown = True

    def __init__(
        self,
        function: Callable[..., object],
        context_type: type | None,
        *,
        is_strict: bool = False,
    ) -> None:
        self._is_strict = is_strict
        reader = ParsedParameters(function, context_type)
        self._takes_nothing = not reader.client_parameters
        self._read(function, reader)

    def _read(self, function: Callable[..., object], reader: ParsedParameters) -> None:
        for warning in reader.warnings:
            log.warning("%s: %s", reader.where, warning)
        self.name = callable_name(function)
        self.is_async = is_async(function)
        self.plan = _build_plan(reader)
        self._function = function
        self._declared: list[ParsedParameter] = reader.client_parameters
        self._order = reader.order
        self._filled_in = tuple(reader.dependencies)
        self.is_plain = reader.is_plain
        # Attributes of the instance, which the first call replaces, are the fastest to read.
        self.call = self._compile_and_call
        self._decode = self._compile_and_decode
        if not reader.is_plain:
            _ = self.input_schema
            self._compile()

    # -- made when they are first needed

    @functools.cached_property
    def _docstring(self) -> "Docstring":
        from accord.server.schema.docstrings import doc_of, parse_docstring

        return parse_docstring(doc_of(self._function))

    @property
    def begins_with_prose(self) -> bool:
        """Whether the docstring surely says something of the function as a whole.

        Without parsing it: headings of sections have two words at most, and fields begin with a
        colon.
        """
        doc = self._function.__doc__ if is_bare(self._function) else None
        first = doc.lstrip().partition("\n")[0].rstrip() if doc else ""
        return first.count(" ") >= 2 and first[0] != ":"

    @functools.cached_property
    def description(self) -> str | None:
        """What the docstring says of the function as a whole."""
        return self._docstring.summary or None

    @functools.cached_property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of the arguments."""
        from accord.server.schema.conversion import input_schema

        where = f'function "{self.name}"'
        return input_schema(self._declared, self._docstring.parameters, where)

    @functools.cached_property
    def listed_schema(self) -> JsonObject:
        """The schema that clients see."""
        return self.input_schema

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that a client fills in."""
        properties = self.input_schema["properties"]
        return tuple(
            Parameter(
                each.key,
                each.is_required,
                properties[each.key].get("description"),
                properties[each.key],
            )
            for each in self._declared
        )

    @functools.cached_property
    def _struct(self) -> type[BoundArguments]:
        from accord.server.schema.conversion import struct_of

        return struct_of(self._declared, forbids_unknown=self._forbids_unknown)

    def _compile(self) -> None:
        from accord.server.schema.conversion import build_call, decoder_of

        self._decode = decoder_of(NoArguments if self._takes_nothing else self._struct)
        self.call = build_call(self._order, self._declared, self._filled_in)

    def _compile_and_decode(self, raw: bytes | msgspec.Raw) -> BoundArguments:
        self._compile()
        return self._decode(raw)

    def _compile_and_call(self, *arguments: Any) -> Any:
        self._compile()
        return self.call(*arguments)

    @functools.cached_property
    def _reader(self) -> "ArgumentsReader":
        from accord.server.schema.arguments import ArgumentsReader

        types = {each.key: each.type for each in self._declared}
        return ArgumentsReader(
            types,
            self.input_schema,
            is_strict=self._is_strict,
            forbids_unknown=self._forbids_unknown,
        )

    # -- from JSON to a call

    def bind(self, raw: bytes | msgspec.Raw) -> BoundArguments:
        """Decode an object of arguments.

        Text is read as a number, a boolean, an object or an array where the schema admits no text,
        unless the tool is strict, and a float such as 2.0 is accepted for an integer. Empty text
        and null are an empty object.

        Raises:
            ArgumentsError: they do not fit.
        """
        try:
            return self._decode(raw)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return self._reader.read(raw, self._decode, takes_nothing=self._takes_nothing)

    def bind_strings(self, values: Mapping[str, str]) -> BoundArguments:
        """Decode arguments that are all strings, as those of prompts and resource templates.

        Strings are converted to the types of the parameters; objects and arrays are parsed as JSON.
        An empty string is left out if the parameter has a default and cannot be a string. Names
        that the function does not have are ignored.

        Raises:
            ArgumentsError: they do not fit.
        """
        return self._reader.read_strings(values, self._struct)


def inspect(
    function: Callable[..., object],
    *,
    context_type: type | None = None,
    written_schema: JsonObject | None = None,
    is_strict: bool = False,
) -> Signature:
    """Read the signature of anything callable.

    Args:
        function: the handler; its annotations, defaults and docstring are read.
        context_type: the parameter annotated with it is filled in by the server.
        written_schema: the schema of the arguments, if the author wrote it.
        is_strict: whether text is never read as another value.

    Raises:
        RegistrationError: a client could not call the function; the message names the parameter.
    """
    if written_schema is None:
        return Signature(function, context_type, is_strict=is_strict)

    return SignatureWithSchema(function, context_type, written_schema, is_strict=is_strict)


def _build_plan(reader: ParsedParameters) -> "Plan | None":
    if not reader.dependencies:
        return None
    from accord.server.injection import Plan
    from accord.server.schema.conversion import argument_expressions

    return Plan(
        [*reader.dependencies.values()],
        argument_expressions(reader.client_parameters),
        reader.where,
    )


def compile_written(schema: JsonObject, what: str) -> "Validate":
    """Return the validator of a schema.

    Args:
        schema: in a dialect of `DIALECTS`, 2020-12 by default.
        what: names it in errors.

    Raises:
        RegistrationError: it is invalid, in another dialect, or refers to something outside itself.
        MissingExtra: no validator is installed; the faults above are found without one.
    """
    # Most tools have no written schema, and need neither of these.
    from accord.json_schema.dialects import find_schema_fault
    from accord.json_schema.validation import compile_schema

    fault = find_schema_fault(schema)
    if fault is not None:
        raise RegistrationError(f"{what} {fault}" if fault[:6] == "refers" else f"{what}: {fault}")
    try:
        return compile_schema(schema)
    except ValueError as error:
        raise RegistrationError(f"{what} is invalid: {error}") from None


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
        from accord.server.schema.arguments import decode_object, read_texts, shorten

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
