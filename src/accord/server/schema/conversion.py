"""The JSON form of Python types: their schemas, and how values are decoded and encoded.

msgspec knows most types itself. Types of other libraries have an `Adapter`; a library is considered
only once it is loaded, since its types cannot occur before. `msgspec_types` turns annotations into
types that msgspec decodes. The parameters of a function are compiled here too: to a schema, to a
struct with its decoder, and to a call.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Literal, Protocol, get_args, get_origin
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET

from accord.errors import RegistrationError
from accord.json_schema.mismatch import Mismatch
from accord.json_schema.reader import inline, resolve
from accord.server.schema.annotations import fields_of, is_structured, key_of
from accord.server.schema.parameters import EMPTY, ParsedParameter, compile_call
from accord.server.schema.plain import SIMPLE, TEXT_MODULES, is_plain, order_of, to_plain
from accord.server.schema.signature import BoundArguments
from accord.types import JsonObject


class Adapter(Protocol):
    """The JSON form of a type that msgspec does not know."""

    def schema(self, collector: "Collector") -> JsonObject:
        """Return the schema; definitions that it refers to are added to the collector."""
        ...

    def decode(self, value: object) -> object:
        """Make a value from plain JSON data.

        Raises:
            ValueError: the data does not fit; best a `Mismatch`.
        """
        ...


class TextAdapter:
    """A class that is made from a string and written by `str`."""

    def __init__(self, type_: Callable[[str], object], format_: str | None) -> None:
        self._type = type_
        self._schema = {"type": "string"} | ({"format": format_} if format_ else {})

    def schema(self, collector: "Collector") -> JsonObject:
        """Return the schema of a string of this kind."""
        return self._schema

    def decode(self, value: object) -> object:
        """Make a value from a string."""
        if not isinstance(value, str):
            raise Mismatch("expected a string")
        return self._type(value)


_IP_FORMATS: Final = {"IPv4Address": "ipv4", "IPv6Address": "ipv6"}
_ADAPTERS: Final[WeakKeyDictionary[type, Adapter]] = WeakKeyDictionary()


def _text_adapter(type_: type) -> Adapter | None:
    if type_.__module__ not in TEXT_MODULES:
        return None
    is_path = type_.__module__ != "ipaddress"
    return TextAdapter(type_, "path" if is_path else _IP_FORMATS.get(type_.__name__))


class _FitsAll(type):
    """Accepts every instance: msgspec checks the values that a hook returns by isinstance."""

    adapter: Adapter

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def stand_in(adapter: Adapter, name: str) -> type:
    """Make a class that msgspec decodes by an adapter, whatever type its values have."""
    made = _FitsAll(name, (), {})
    made.adapter = adapter
    return made


def adapter_of(type_: object) -> Adapter | None:
    """Return the adapter of a class that msgspec does not know; None if it has none."""
    if isinstance(type_, _FitsAll):
        return type_.adapter
    if not isinstance(type_, type):
        return None
    found = _ADAPTERS.get(type_) or _text_adapter(type_)
    if found is None and "pydantic" in sys.modules:
        from accord.server.schema import pydantic_types

        found = pydantic_types.adapter_of_class(type_)
    if found is not None:
        _ADAPTERS[type_] = found
    return found


LIMITS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length")


def limits_of(metadata: object) -> JsonObject | None:
    """Return the limits in an object of `annotated_types`; None for any other metadata."""
    if type(metadata).__module__ != "annotated_types":
        return None
    said = {name: getattr(metadata, name, None) for name in LIMITS}
    return {name: value for name, value in said.items() if value is not None}


# Values


def dec_hook(type_: object, value: object) -> object:
    """Decode a value of a type that msgspec does not know."""
    adapter = adapter_of(type_)
    if adapter is None:
        raise NotImplementedError(f"{type_!r} has no JSON form")
    return adapter.decode(value)


def convert(value: object, type_: object, *, strict: bool = True) -> Any:
    """Make a value of a type from plain JSON data."""
    return msgspec.convert(value, type_, strict=strict, str_keys=True, dec_hook=dec_hook)


# Schemas

# Most parameters are one of these; asking msgspec costs ten times as much. A tuple, because
# types may be unhashable.
_SCHEMAS: Final[tuple[JsonObject, ...]] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "number"},
    {},
)


def plain_schema(type_: object) -> JsonObject:
    """Return the schema of a plain type, for the caller to change; parts of it are shared."""
    if type_ in SIMPLE:
        return dict(_SCHEMAS[SIMPLE.index(type_)])
    key = order_of(type_)
    if key not in _PLAIN_SCHEMAS:
        _PLAIN_SCHEMAS[key] = msgspec.json.schema(type_)
    return dict(_PLAIN_SCHEMAS[key])


# There are not many plain types.
_PLAIN_SCHEMAS: Final[dict[object, JsonObject]] = {}


class Collector:
    """Gathers the schemas of types and of all they refer to.

    With `output` the schemas describe values as they are encoded, else as they are decoded; only
    types of other libraries differ in that.
    """

    def __init__(self, *, output: bool = False) -> None:
        self.output = output
        self.components: dict[str, JsonObject] = {}
        self.has_foreign = False
        self._names: dict[object, str] = {}
        self._calls = 0

    def schemas(self, types: Iterable[object]) -> list[JsonObject]:
        """Return the schema of each type, with references into `components`.

        Raises:
            RegistrationError: a type has no JSON form.
        """
        types = tuple(types)
        if all(type_ in SIMPLE for type_ in types):
            return [dict(_SCHEMAS[SIMPLE.index(type_)]) for type_ in types]
        prefix = self.unique("")
        try:
            schemas, components = msgspec.json.schema_components(
                types, schema_hook=self._hook, ref_template=f"#/$defs/{prefix}{{name}}"
            )
        except (TypeError, NameError) as error:
            raise RegistrationError(first_line(error)) from error
        _restore_order([*schemas, *components.values()], types)
        self.add({prefix + name: component for name, component in components.items()})
        return list(schemas)

    def resolve(self, schema: JsonObject) -> JsonObject:
        """Follow the references of a schema into `components`."""
        return resolve(schema, {"$defs": self.components})

    def add(self, components: dict[str, JsonObject]) -> None:
        """Add definitions that schemas refer to by `#/$defs/<name>`."""
        self.components |= components

    def unique(self, name: str) -> str:
        """Make a component name that is not used yet."""
        self._calls += 1
        return f"{self._calls}.{name}"

    def _hook(self, type_: object) -> JsonObject:
        name = self._names.get(type_)
        if name is None:
            adapter = adapter_of(type_)
            if adapter is None:
                raise TypeError(
                    f"{getattr(type_, '__qualname__', type_)} has no JSON form; use a dataclass, a "
                    "typed dict, a struct or a model"
                )
            # Named before it is described: it may refer to itself.
            name = self._names[type_] = self.unique(getattr(type_, "__name__", "value"))
            self.components[name] = adapter.schema(self)
        return {"$ref": f"#/$defs/{name}"}


def _restore_order(schemas: list[JsonObject], types: Iterable[object]) -> None:
    """Give the choices within schemas the order of their author; msgspec sorts them."""
    unordered = list(_schemas_with_enum(schemas))
    if not unordered:
        return
    authored: dict[Hashable, list[object]] = {}
    seen: set[Hashable] = set()
    for type_ in types:
        for values in _choices_in(type_, seen):
            authored.setdefault(_key_of_values(values), values)
    for schema in unordered:
        schema["enum"] = authored.get(_key_of_values(schema["enum"]), schema["enum"])


def _key_of_values(values: Iterable[object]) -> Hashable:
    # By text: True equals 1, and a default may look like choices and hold anything.
    return frozenset(map(repr, values))


def _schemas_with_enum(node: object) -> Iterator[JsonObject]:
    """Find the schemas that list choices, at any depth."""
    if isinstance(node, dict):
        if isinstance(node.get("enum"), list):
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _schemas_with_enum(each)


def _choices_in(type_: object, seen: set[Hashable]) -> Iterator[list[object]]:
    """Find choices in a type, in its members and in the fields of classes."""
    if (key := key_of(type_)) in seen:
        return
    seen.add(key)
    origin = get_origin(type_)
    if origin is Literal:
        yield list(get_args(type_))
    elif isinstance(type_, type) and issubclass(type_, Enum):
        yield [member.value for member in type_]
    else:
        for each in _inner_types(type_, origin):
            yield from _choices_in(each, seen)


def _inner_types(type_: object, origin: object) -> list[object]:
    if hasattr(type_, "__value__"):  # an alias
        return [type_.__value__, *get_args(type_)]
    if not is_structured(origin or type_):
        return list(get_args(type_))
    try:
        return [field.type for field in fields_of(type_, {})]
    except (NameError, TypeError):  # it refers to names that are not visible here
        return []


def schema_of(type_: object, *, output: bool = False) -> JsonObject:
    """Return the JSON Schema of a type, without references unless it is recursive.

    Raises:
        RegistrationError: the type has no JSON form.
    """
    from accord.server.schema.msgspec_types import to_msgspec_type

    collector = Collector(output=output)
    (schema,) = collector.schemas([to_msgspec_type(type_, output=output)])
    return inline(schema, collector.components)


def json_default(value: object) -> object:
    """Return a default as JSON data; UNSET if it has no JSON form."""
    try:
        return to_plain(_named_tuples_as_objects(value))
    except (TypeError, ValueError, NotImplementedError):
        return msgspec.UNSET


def _named_tuples_as_objects(value: object) -> object:
    """Write named tuples as objects: that is how they are described."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _named_tuples_as_objects(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_named_tuples_as_objects(each) for each in value]
    if isinstance(value, dict):
        return {key: _named_tuples_as_objects(each) for key, each in value.items()}
    return value


def first_line(error: object) -> str:
    """Return the first line of an error of another library; the rest is for its users."""
    return str(error).strip().split("\n", 1)[0]


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
    sources |= argument_expressions(parameters)
    return compile_call(
        [
            f"{name}={sources.get(name, 'context')}" if by_name else sources.get(name, "context")
            for name, by_name in order
        ]
    )


def argument_expressions(parameters: Iterable[ParsedParameter]) -> dict[str, str]:
    """Return the expressions that read arguments, by the names of their parameters."""
    return {each.name: f"bound.field{n}" for n, each in enumerate(parameters)}
