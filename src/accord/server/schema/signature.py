"""Signatures of handlers: their parameters as JSON Schema, and the way from JSON to a call.

The parameters are compiled into one struct, so that a single decode reads and checks them all, and
into one lambda that makes the call. Lenient reading happens only after the strict decode failed.
"""

import functools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import RegistrationError, ToolError, lower_first
from accord.json_schema.mismatch import Mismatch, explain, path_text
from accord.json_schema.reader import admits, inline
from accord.server.schema.annotations import callable_name
from accord.server.schema.conversion import Collector, convert, dec_hook, encode, json_default
from accord.server.schema.leniency import floats_to_integers, parse_json, read_texts
from accord.server.schema.parameters import (
    EMPTY,
    ParsedParameter,
    ParsedParameters,
    compile_call,
    doc_of,
    is_async,
    parse_docstring,
)
from accord.server.schema.written import compile_written
from accord.types import JsonObject

if TYPE_CHECKING:
    from accord.server.injection import Plan

log = logging.getLogger("accord.server")

_LONGEST_ERROR: Final = 300
_IMMUTABLE: Final = (int, str, float, bool, bytes, NoneType)
_WORDS: Final = {"yes": True, "on": True, "no": False, "off": False}


class ArgumentsError(ToolError):
    """The arguments do not fit the parameters; the text names the argument and what it expects."""


class Parameter(NamedTuple):
    """A parameter that a caller fills in."""

    name: str
    required: bool
    description: str | None
    schema: JsonObject


class BoundArguments(msgspec.Struct, gc=False):
    """Arguments, decoded and in order; the context is not among them."""


class _NoArguments(BoundArguments, forbid_unknown_fields=True, gc=False):
    """The arguments of a function that takes none."""


class Signature:
    """The parameters of a function, and the way from JSON to a call of it.

    `call(function, bound, context, values)` calls the function with the arguments, the context and
    the values of its dependencies; `plan` says how these are made. Clients see `listed_schema`.
    """

    name: str
    description: str | None
    is_async: bool
    parameters: tuple[Parameter, ...]
    input_schema: JsonObject
    listed_schema: JsonObject
    call: Callable[..., Any]
    plan: "Plan | None"
    _takes_nothing = False
    _is_strict = False

    def __init__(
        self,
        function: Callable[..., object],
        context_type: type | None,
        *,
        is_strict: bool = False,
    ) -> None:
        self._is_strict = is_strict
        self._read(function, ParsedParameters(function, context_type))
        self._takes_nothing = not self.parameters

    def _read(self, function: Callable[..., object], reader: ParsedParameters) -> None:
        for warning in reader.warnings:
            log.warning("%s: %s", reader.where, warning)
        documented = parse_docstring(doc_of(function))
        self.name = callable_name(function)
        self.description = documented.summary or None
        self.is_async = is_async(function)
        self.input_schema = self.listed_schema = _input_schema(
            reader.client_parameters, documented.parameters, reader.where
        )
        properties = self.input_schema["properties"]
        self.parameters = tuple(
            Parameter(
                each.key,
                each.is_required,
                properties[each.key].get("description"),
                properties[each.key],
            )
            for each in reader.client_parameters
        )
        self.call = _build_call(reader)
        self.plan = _build_plan(reader)
        self._types = {each.key: each.type for each in reader.client_parameters}
        self._struct = _struct(reader)
        # A decoder takes half the time of registering. If making it cannot fail, it is made for the
        # first call.
        if not all(_surely_decodes(each.type) for each in reader.client_parameters):
            _ = self._decode

    @functools.cached_property
    def _decode(self) -> Callable[[bytes | msgspec.Raw], BoundArguments]:
        struct = _NoArguments if self._takes_nothing else self._struct
        return msgspec.json.Decoder(struct, dec_hook=dec_hook).decode

    def bind(self, raw: bytes | msgspec.Raw) -> BoundArguments:
        """Decode an object of arguments.

        Text is read as a number, a boolean, an object or an array where the schema admits no text,
        unless the tool is strict, and a float such as 2.0 is accepted for an integer. Arguments
        that the function does not have are ignored, unless it has none at all: its schema allows
        none. Empty text and null are an empty object.

        Raises:
            ArgumentsError: they do not fit.
        """
        try:
            return self._decode(raw)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return self._bind_leniently(raw)

    def bind_strings(self, values: Mapping[str, str]) -> BoundArguments:
        """Decode arguments that are all strings, as those of prompts and resource templates.

        Strings are converted to the types of the parameters; objects and arrays are parsed as JSON.
        An empty string is left out if the parameter has a default and cannot be a string.

        Raises:
            ArgumentsError: they do not fit.
        """
        given = {name: value for name, value in values.items() if not self._is_blank(name, value)}
        try:
            return convert(given, self._struct, strict=False)  # type: ignore[no-any-return]
        except msgspec.ValidationError:
            readings = {name: self._read_string(name, value) for name, value in given.items()}
        self._refuse(given, [name for name, reading in readings.items() if reading is UNSET])
        return convert(readings, self._struct, strict=False)  # type: ignore[no-any-return]

    # -- lenient reading

    def _bind_leniently(self, raw: bytes | msgspec.Raw) -> BoundArguments:
        given = _decode_object(raw)
        if self._takes_nothing and given:
            names = ", ".join(f'"{name}"' for name in given)
            raise ArgumentsError(
                _shorten(f"unknown arguments {names}; the tool takes no arguments")
            )
        readings = {name: self._repair(name, value) for name, value in given.items()}
        self._refuse(given, [name for name, reading in readings.items() if reading is UNSET])
        try:
            return self._decode(encode(readings))
        except msgspec.ValidationError as error:
            raise ArgumentsError(_shorten(f"the arguments do not fit: {error}")) from None

    def _repair(self, name: str, value: object) -> object:
        """Return an argument in a form that fits its parameter; UNSET if none fits."""
        type_ = self._types.get(name)
        if type_ is None:
            return value
        candidates = [value, floats_to_integers(value)]
        if not self._is_strict:
            read = read_texts(value, self.input_schema["properties"][name], self.input_schema)
            candidates += [read, floats_to_integers(read)]
        for candidate in candidates:
            if self._mismatch(name, candidate) is None:
                return candidate
        return UNSET

    def _read_string(self, name: str, value: object) -> object:
        type_ = self._types.get(name)
        if type_ is None or not isinstance(value, str):
            return value
        stripped = value.strip()
        candidates = [value, stripped, _WORDS.get(stripped.lower(), UNSET), parse_json(value)]
        for candidate in candidates:
            try:
                convert(candidate, type_, strict=False)
            except (msgspec.ValidationError, TypeError):
                continue
            return candidate
        return UNSET

    def _is_blank(self, name: str, value: object) -> bool:
        if value or name not in self._types:
            return False
        return name not in self.input_schema.get("required", ()) and not self._admits(
            name, "string"
        )

    def _is_structured(self, name: str) -> bool:
        """Tell whether a parameter takes objects or arrays, and no strings."""
        return not self._admits(name, "string") and self._admits(name, "object", "array")

    def _admits(self, name: str, *types: str) -> bool:
        schema = self.input_schema["properties"][name]
        return admits(schema, types, self.input_schema)

    def _mismatch(self, name: str, value: object) -> Mismatch | None:
        try:
            msgspec.json.decode(encode(value), type=self._types[name], dec_hook=dec_hook)
        except msgspec.ValidationError as error:
            return _mismatch_of(error)
        return None

    def _refuse(self, given: Mapping[str, object], wrong: list[str]) -> None:
        """Raise one error that names all missing and wrong arguments, if there are any."""
        required: list[str] = self.input_schema.get("required", [])
        problems = []
        for name in [name for name in required if name not in given]:
            unknown = [other for other in given if other not in self._types]
            meant = _close(name, unknown)
            hint = f' (did you mean it by "{meant}"?)' if meant else ""
            problems.append(f'argument "{name}" is missing{hint}')
        problems += [self._problem(name, given[name]) for name in wrong]
        if problems:
            raise ArgumentsError(_shorten("; ".join(problems)))

    def _problem(self, name: str, value: object) -> str:
        schema = self.input_schema["properties"][name]
        if isinstance(value, str) and not self._is_strict and self._is_structured(name):
            parsed = parse_json(value)
            # The mistake is within the object or array in the text.
            value = parsed if isinstance(parsed, dict | list) else value
        seen = explain(schema, value, self.input_schema)
        raised = self._mismatch(name, value)
        # Other libraries have rules that a schema does not show; the path they name is right.
        has_path = raised is not None and raised.path
        agrees = seen is not None and raised is not None and seen.path == raised.path
        found = (raised if has_path and not agrees else seen or raised) or Mismatch("is wrong")
        reason = found.reason if found.reason.startswith("is ") else f": {found.reason}"
        separator = " " if found.reason.startswith("is ") else ""
        return f'argument "{path_text((name, *found.path))}"{separator}{reason}'


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
        self.listed_schema = schema
        if schema.get("type") != "object":
            raise RegistrationError(f'{reader.where}: input_schema has to say "type": "object"')
        self._validate = compile_written(schema, f"{reader.where}: input_schema")
        _compare_names(schema, reader)
        self._takes_rest = reader.takes_rest
        if reader.takes_rest:
            self.call = functools.partial(_call_with_rest, self.call)

    def bind(self, raw: bytes | msgspec.Raw) -> Any:
        """Hold the arguments to the schema, and decode them.

        Raises:
            ArgumentsError: they do not fit; the message names the place.
        """
        given = _decode_object(raw)
        wrong = self._validate(given)
        if wrong is not None and not self._is_strict:
            read = read_texts(given, self.listed_schema, self.listed_schema)
            if read != given and isinstance(read, dict) and self._validate(read) is None:
                given, raw, wrong = read, encode(read), None
        if wrong is not None:
            raise ArgumentsError(_shorten(f"the arguments do not fit the input schema: {wrong}"))
        bound = super().bind(raw)
        if not self._takes_rest:
            return bound
        rest = {name: value for name, value in given.items() if name not in self._types}
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


# Compiling


def _input_schema(
    parameters: list[ParsedParameter], documented: dict[str, str], where: str
) -> JsonObject:
    collector = Collector()
    schemas = []
    for each in parameters:
        try:
            schemas += collector.schemas([each.type])
        except RegistrationError as error:
            raise RegistrationError(f'{where}: parameter "{each.name}": {error}') from error
    properties: JsonObject = {}
    for each, schema in zip(parameters, schemas, strict=True):
        schema = dict(schema)
        if each.name in documented and "description" not in schema:
            schema["description"] = documented[each.name]
        if each.default is not EMPTY and (shown := json_default(each.default)) is not UNSET:
            schema["default"] = shown
        properties[each.key] = schema
    required = [each.key for each in parameters if each.is_required]
    schema = {"type": "object", "properties": properties, "required": required}
    if not parameters:
        # 2025-11-25, "Tool with no parameters". Some hosts refuse a schema without properties.
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return inline(schema, collector.components)


def _surely_decodes(type_: object) -> bool:
    members = get_args(type_) if isinstance(type_, UnionType) else (type_,)
    return all(member in _IMMUTABLE for member in members)


def _struct(reader: ParsedParameters) -> type[BoundArguments]:
    parameters = reader.client_parameters
    return msgspec.defstruct(  # type: ignore[return-value]  # a subclass of its base
        "Arguments",
        [(f"field{n}", each.type, _field(each)) for n, each in enumerate(parameters)],
        bases=(BoundArguments,),
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


def _build_call(reader: ParsedParameters) -> Callable[..., object]:
    sources = {name: f"values[{n}]" for n, name in enumerate(reader.dependencies)}
    sources |= _fields(reader)
    return compile_call(
        [
            f"{name}={sources.get(name, 'context')}" if by_name else sources.get(name, "context")
            for name, by_name in reader.order
        ]
    )


def _fields(reader: ParsedParameters) -> dict[str, str]:
    return {each.name: f"bound.field{n}" for n, each in enumerate(reader.client_parameters)}


def _build_plan(reader: ParsedParameters) -> "Plan | None":
    if not reader.dependencies:
        return None
    from accord.server.injection import Plan

    return Plan([*reader.dependencies.values()], _fields(reader), reader.where)


# Reading leniently


def _decode_object(raw: bytes | msgspec.Raw | UnsetType | None) -> JsonObject:
    if raw is UNSET or raw is None or not bytes(raw).strip():
        return {}
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ArgumentsError("the arguments have to be an object with a member for each argument")
    return given


# Wording


def _mismatch_of(error: msgspec.ValidationError) -> Mismatch:
    cause = error.__cause__
    if isinstance(cause, Mismatch):
        return Mismatch(cause.reason, path=(*_location(error), *cause.path) if cause.path else ())
    text, _, place = str(error.__cause__ or error).partition(" - at ")
    words = lower_first(text.replace("`", ""))
    # Schemas do not describe keys.
    return Mismatch(f"a key: {words}" if place.startswith("`key`") else words)


def _location(error: msgspec.ValidationError) -> Iterator[str | int]:
    """Parse the path that msgspec writes as in `$.tags[2]`."""
    _, found, path = str(error).rpartition(" - at `$")
    # Without a path, the text may still have brackets: those of a pattern, for example.
    path = path.rstrip("`") if found else ""
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path):
        yield name or (int(index) if index.isdigit() else index)


def _close(name: str, others: list[str]) -> str | None:
    from difflib import get_close_matches

    by_folded = {other.replace("_", "").replace("-", "").lower(): other for other in others}
    folded = name.replace("_", "").lower()
    match = get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[match[0]] if match else None


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 3] + "..."
