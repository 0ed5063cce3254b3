"""How a function becomes a handler: its arguments as JSON Schema, and their way into a call.

The parameters are compiled into one struct, so that a single decode reads and checks them all, and
into one lambda that makes the call. Everything lenient happens only after the strict decode failed.
"""

import inspect as _inspect
import sys
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET

from accord.errors import RegistrationError, ToolError
from accord.server import docstrings
from accord.server.annotations import Resolver, callable_name, core_of
from accord.server.mismatch import explain, path_text
from accord.server.natives import constrained, native
from accord.server.schemas import (
    Collector,
    Mismatch,
    admits,
    convert,
    dec_hook,
    encode,
    inline,
    json_default,
)
from accord.types import JsonObject

__all__ = ["ArgumentsError", "Bound", "Parameter", "Signature", "inspect"]

_EMPTY: Final = _inspect.Parameter.empty
_LONGEST_ERROR: Final = 300
_IMMUTABLE: Final = (int, str, float, bool, bytes, NoneType)
_WORDS: Final = {"yes": True, "on": True, "no": False, "off": False}


class ArgumentsError(ToolError):
    """The arguments do not fit the parameters; the text says which, what was wanted, what came."""


class Parameter(NamedTuple):
    """A parameter that a caller fills in."""

    name: str
    required: bool
    description: str | None
    schema: JsonObject


class Bound(msgspec.Struct, gc=False):
    """Arguments, decoded and in order; the context is not among them."""

    positional: ClassVar[int] = 0
    keywords: ClassVar[tuple[str, ...]] = ()

    @property
    def args(self) -> tuple[Any, ...]:
        """What is passed by position."""
        return msgspec.structs.astuple(self)[: self.positional]

    @property
    def kwargs(self) -> dict[str, Any]:
        """What is passed by name."""
        values = msgspec.structs.astuple(self)[self.positional :]
        return dict(zip(self.keywords, values, strict=True))


class _Slot(NamedTuple):
    """A parameter on its way into the struct."""

    name: str
    type: Any
    default: Any
    factory: Any
    by_name: bool

    @property
    def required(self) -> bool:
        return self.default is _EMPTY and self.factory is UNSET


class Signature:
    """What is known of a function, and the way from JSON to a call of it.

    `call(function, bound, context)` calls the function, with the context put in its place.
    """

    name: str
    description: str | None
    is_async: bool
    context_parameter: str | None
    parameters: tuple[Parameter, ...]
    input_schema: JsonObject
    call: Callable[[Callable[..., Any], Bound, Any], Any]

    def __init__(self, function: Any, context_type: type | None) -> None:
        reader = _Reader(function, context_type)
        documented = docstrings.parse(_doc(function))
        self.name = callable_name(function)
        self.description = documented.summary or None
        self.is_async = _is_async(function)
        self.context_parameter = reader.context
        self.input_schema = _input_schema(reader.slots, documented.parameters, reader.where)
        properties = self.input_schema["properties"]
        self.parameters = tuple(
            Parameter(
                slot.name,
                slot.required,
                properties[slot.name].get("description"),
                properties[slot.name],
            )
            for slot in reader.slots
        )
        self.call = _caller(reader)
        self._types = {slot.name: slot.type for slot in reader.slots}
        self._struct = _struct(reader)
        self._decode = msgspec.json.Decoder(self._struct, dec_hook=dec_hook).decode

    def bind(self, raw: bytes | msgspec.Raw) -> Bound:
        """Read an object of arguments.

        An object or array that arrives as a string of JSON, and a whole number written with a
        fraction, are taken for what they mean. Arguments that the function does not have are
        ignored. Nothing at all, and null, are an empty object.

        Raises:
            ArgumentsError: they do not fit.
        """
        try:
            return self._decode(raw)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return self._second_look(raw)

    def bind_strings(self, values: Mapping[str, str]) -> Bound:
        """Read arguments that are all strings, as prompts and resource templates have them.

        Strings are converted to what the parameters want; objects and arrays are read as JSON. An
        empty string for a parameter that has a default and cannot be a string is as good as none.

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

    # -- the second look

    def _second_look(self, raw: Any) -> Bound:
        given = _plain_object(raw)
        readings = {name: self._repaired(name, value) for name, value in given.items()}
        self._refuse(given, [name for name, reading in readings.items() if reading is UNSET])
        try:
            return self._decode(encode(readings))
        except msgspec.ValidationError as error:
            raise ArgumentsError(_shortened(f"the arguments do not fit: {error}")) from None

    def _repaired(self, name: str, value: Any) -> Any:
        """Return what an argument means; UNSET where it does not fit by any reading."""
        type_ = self._types.get(name)
        if type_ is None:
            return value
        candidates = [value, _whole(value)]
        if isinstance(value, str) and self._is_structured(name):
            parsed = _parsed(value)
            parsed = parsed if isinstance(parsed, dict | list) else UNSET
            candidates += [parsed, _whole(parsed)]
        for candidate in candidates:
            if candidate is not UNSET and self._mismatch(name, candidate) is None:
                return candidate
        return UNSET

    def _read_string(self, name: str, value: Any) -> Any:
        type_ = self._types.get(name)
        if type_ is None or not isinstance(value, str):
            return value
        stripped = value.strip()
        candidates = [value, stripped, _WORDS.get(stripped.lower(), UNSET), _parsed(value)]
        for candidate in candidates:
            try:
                convert(candidate, type_, strict=False)
            except (msgspec.ValidationError, TypeError):
                continue
            return candidate
        return UNSET

    def _is_blank(self, name: str, value: Any) -> bool:
        if value or name not in self._types:
            return False
        return name not in self.input_schema.get("required", ()) and not self._admits(
            name, "string"
        )

    def _is_structured(self, name: str) -> bool:
        """Tell whether a string can only be meant as the object or array in it."""
        return not self._admits(name, "string") and self._admits(name, "object", "array")

    def _admits(self, name: str, *kinds: str) -> bool:
        schema = self.input_schema["properties"][name]
        return admits(schema, kinds, self.input_schema.get("$defs", {}))

    def _mismatch(self, name: str, value: Any) -> Mismatch | None:
        try:
            msgspec.json.decode(encode(value), type=self._types[name], dec_hook=dec_hook)
        except msgspec.ValidationError as error:
            return _mismatch_of(error)
        return None

    def _refuse(self, given: Mapping[str, Any], wrong: list[str]) -> None:
        """Raise one error that names all that is missing or wrong, if anything is."""
        required: list[str] = self.input_schema.get("required", [])
        problems = []
        for name in [name for name in required if name not in given]:
            unknown = [other for other in given if other not in self._types]
            meant = _close(name, unknown)
            hint = f' (did you mean it by "{meant}"?)' if meant else ""
            problems.append(f'argument "{name}" is missing{hint}')
        problems += [self._problem(name, given[name]) for name in wrong]
        if problems:
            raise ArgumentsError(_shortened("; ".join(problems)))

    def _problem(self, name: str, value: Any) -> str:
        schema = self.input_schema["properties"][name]
        found = explain(schema, value, self.input_schema.get("$defs", {}))
        found = found or self._mismatch(name, value) or Mismatch("does not fit")
        reason = found.reason if found.reason.startswith("is ") else f": {found.reason}"
        separator = " " if found.reason.startswith("is ") else ""
        return f'argument "{path_text((name, *found.path))}"{separator}{reason}'


def inspect(function: Callable[..., Any], *, context_type: type | None = None) -> Signature:
    """Read the signature of anything callable.

    Args:
        function: what will be called; its annotations, defaults and docstring are read.
        context_type: the parameter annotated with it is filled in by the server.

    Raises:
        RegistrationError: a client could not call the function; the message names the parameter.
    """
    return Signature(function, context_type)


# Reading


class _Reader:
    """The parameters of a function, sorted into slots and the context."""

    def __init__(self, function: Any, context_type: type | None) -> None:
        self.where = f'function "{callable_name(function)}"'
        _refuse_generators(function, self.where)
        self.context: str | None = None
        self.order: list[tuple[str, bool]] = []
        self.slots: list[_Slot] = []
        self._context_type = context_type
        known = {} if context_type is None else {context_type.__name__: context_type}
        resolver = Resolver(function, known)
        hidden = _bound_by_partial(function)
        for parameter in self._parameters_of(function):
            if parameter.name not in hidden:
                self._add(parameter, resolver)

    def _parameters_of(self, function: Any) -> list[_inspect.Parameter]:
        try:
            parameters = list(_inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{self.where} cannot be registered: {error}") from error
        if parameters and parameters[0].name == "self" and parameters[0].annotation is _EMPTY:
            raise RegistrationError(
                f'{self.where}: parameter "self" would be asked of the client; register the method '
                "of an instance"
            )
        return parameters

    def _add(self, parameter: _inspect.Parameter, resolver: Resolver) -> None:
        what = f'parameter "{parameter.name}"'
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise RegistrationError(
                f'{self.where}: "{parameter}" cannot be described to a client; '
                "give each argument a parameter of its own"
            )
        annotation = resolver.resolve(parameter.annotation, what)
        by_name = parameter.kind is parameter.KEYWORD_ONLY
        self.order.append((parameter.name, by_name))
        if self._context_type is not None and _is_context(annotation, self._context_type):
            if self.context is not None:
                raise RegistrationError(f"{self.where}: {what} is a second context")
            self.context = parameter.name
            return
        try:
            self.slots.append(_slot(parameter, annotation, by_name=by_name))
        except RegistrationError as error:
            raise RegistrationError(f"{self.where}: {what}: {error}") from error


def _slot(parameter: _inspect.Parameter, annotation: Any, *, by_name: bool) -> _Slot:
    default, factory = parameter.default, UNSET
    if "pydantic" in sys.modules:
        from accord.server import pydantic

        if pydantic.is_field(default):
            annotation = constrained(annotation, [default])
            default, factory = pydantic.default_of(default)
            default = _EMPTY if default is UNSET else default
    type_ = native(annotation)
    if default is None and not _takes_none(type_):
        type_ = native(annotation | None)
    return _Slot(parameter.name, type_, default, factory, by_name)


def _takes_none(type_: Any) -> bool:
    try:
        convert(None, type_)
    except msgspec.ValidationError:
        return False
    return True


def _is_context(annotation: Any, context_type: type) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context(get_args(annotation)[0], context_type)
    if origin is not None:
        members = [member for member in get_args(annotation) if member is not NoneType]
        if origin is context_type:
            return True
        # `Context | None`; a list of contexts is not one.
        return type(None) in get_args(annotation) and all(
            _is_context(member, context_type) for member in members
        )
    return isinstance(annotation, type) and issubclass(annotation, context_type)


def _bound_by_partial(function: Any) -> set[str]:
    """Return the names that partial objects fill in; their values are nobody else's business."""
    names: set[str] = set()
    while hasattr(function, "func") and hasattr(function, "keywords"):
        names |= function.keywords.keys()
        function = function.func
    return names


def _is_async(function: Any) -> bool:
    """Tell whether a call gives an awaitable; a plain decorator around a coroutine hands it on."""
    return _inspect.iscoroutinefunction(function) or _inspect.iscoroutinefunction(core_of(function))


def _refuse_generators(function: Any, where: str) -> None:
    core = core_of(function)
    if _inspect.isgeneratorfunction(core) or _inspect.isasyncgenfunction(core):
        raise RegistrationError(f"{where} is a generator; return a list instead")


def _doc(function: Any) -> str | None:
    """Return what was written on the function; an instance has the docstring of its class."""
    doc: str | None = core_of(function).__doc__
    if not doc and not _inspect.isroutine(function):
        doc = type(function).__doc__ if not hasattr(function, "func") else None
    return doc


# Compiling


def _input_schema(slots: list[_Slot], documented: dict[str, str], where: str) -> JsonObject:
    collector = Collector()
    try:
        schemas = collector.schemas([slot.type for slot in slots])
    except RegistrationError as error:
        raise RegistrationError(f"{where}: {error}") from error
    properties: JsonObject = {}
    for slot, schema in zip(slots, schemas, strict=True):
        schema = dict(schema)
        if slot.name in documented and "description" not in schema:
            schema["description"] = documented[slot.name]
        if slot.default is not _EMPTY and (shown := json_default(slot.default)) is not UNSET:
            schema["default"] = shown
        properties[slot.name] = schema
    required = [slot.name for slot in slots if slot.required]
    schema = {"type": "object", "properties": properties, "required": required}
    return inline(schema, collector.components)


def _struct(reader: _Reader) -> type[Bound]:
    slots = reader.slots
    by_position = [slot for slot in slots if not slot.by_name]
    return msgspec.defstruct(  # type: ignore[return-value]  # a subclass of its base
        "Arguments",
        [(f"field{n}", slot.type, _field(slot)) for n, slot in enumerate(slots)],
        bases=(Bound,),
        kw_only=True,
        gc=False,
        namespace={
            "positional": len(by_position),
            "keywords": tuple(slot.name for slot in slots if slot.by_name),
        },
    )


def _field(slot: _Slot) -> Any:
    if slot.factory is not UNSET:
        return msgspec.field(name=slot.name, default_factory=slot.factory)
    if slot.default is _EMPTY:
        return msgspec.field(name=slot.name)
    if isinstance(slot.default, _IMMUTABLE):
        return msgspec.field(name=slot.name, default=slot.default)
    # Python shares a default between calls; so does this.
    return msgspec.field(name=slot.name, default_factory=lambda: slot.default)


def _caller(reader: _Reader) -> Callable[..., Any]:
    """Build the call as one expression.

    It runs for every request, and attributes named in source are read without building a tuple. The
    source holds nothing but names of parameters, which are identifiers.
    """
    fields = {slot.name: f"bound.field{n}" for n, slot in enumerate(reader.slots)}
    arguments = [
        f"{name}={fields.get(name, 'context')}" if by_name else fields.get(name, "context")
        for name, by_name in reader.order
    ]
    source = f"lambda function, bound, context: function({', '.join(arguments)})"
    return eval(source)  # type: ignore[no-any-return]  # noqa: S307  # see above


# Reading leniently


def _plain_object(raw: Any) -> dict[str, Any]:
    if raw is UNSET or raw is None or not bytes(raw).strip():
        return {}
    try:
        given = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArgumentsError(f"the arguments are not JSON: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ArgumentsError("the arguments have to be an object, with a member for each")
    return given


def _parsed(text: str) -> Any:
    """Return what a string of JSON says; UNSET where it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNSET


def _whole(value: Any) -> Any:
    """Write whole numbers as integers: JSON does not tell 2.0 from 2."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return value


# Wording


def _mismatch_of(error: msgspec.ValidationError) -> Mismatch:
    if isinstance(error.__cause__, Mismatch):
        return error.__cause__
    text = str(error.__cause__ or error).partition(" - at ")[0].replace("`", "")
    return Mismatch(text[:1].lower() + text[1:])


def _close(name: str, others: list[str]) -> str | None:
    from difflib import get_close_matches

    by_folded = {other.replace("_", "").replace("-", "").lower(): other for other in others}
    folded = name.replace("_", "").lower()
    match = get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[match[0]] if match else None


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 3] + "..."
