"""What a Python type means in JSON: its schema, and how its values are read and written.

msgspec knows most types itself. Those of other libraries join by an `Adapter`; a library is looked
for only when it is loaded already, because nobody can hold one of its types before. How an
annotation becomes a type that msgspec can decode is the matter of `natives`.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import msgspec

from accord.errors import RegistrationError
from accord.server.schema.choices import put_in_order
from accord.types import JsonObject

__all__ = ["Adapter", "Collector", "Mismatch", "convert", "encode", "schema_of"]

Path = tuple[str | int, ...]


class Mismatch(ValueError):
    """A value is not what its type wants; `path` leads to the part that is not."""

    def __init__(self, reason: str, *, path: Path = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class Adapter(Protocol):
    """What a type means in JSON that msgspec does not know."""

    def schema(self, collector: "Collector") -> JsonObject:
        """Return the schema; what it refers to is given to the collector."""
        ...

    def decode(self, value: Any) -> Any:
        """Make a value from plain JSON data.

        Raises:
            ValueError: the data does not fit; best a `Mismatch`.
        """
        ...


class TextAdapter:
    """A class that is made from a string and written by `str`."""

    def __init__(self, type_: Callable[[str], Any], schema: JsonObject) -> None:
        self._type = type_
        self._schema = {"type": "string", **schema}

    def schema(self, collector: "Collector") -> JsonObject:
        """Return the schema of a string of this kind."""
        return self._schema

    def decode(self, value: Any) -> Any:
        """Make a value from a string."""
        if not isinstance(value, str):
            raise Mismatch("expected a string")
        return self._type(value)


# By module, so that none of them is loaded for a server that does not use it.
_TEXT_FORMATS: Final[dict[str, JsonObject]] = {
    "pathlib": {"format": "path"},
    "pathlib._local": {"format": "path"},
    "ipaddress": {},
}
_IP_FORMATS: Final = {"IPv4Address": "ipv4", "IPv6Address": "ipv6"}
_ADAPTERS: Final[WeakKeyDictionary[type, Adapter]] = WeakKeyDictionary()


def _text_adapter(type_: type) -> Adapter | None:
    schema = _TEXT_FORMATS.get(type_.__module__)
    if schema is None:
        return None
    ip_format = _IP_FORMATS.get(type_.__name__)
    return TextAdapter(type_, {"format": ip_format} if ip_format else schema)


class _FitsAll(type):
    """msgspec checks what a hook made by isinstance; a stand-in vouches for its adapter."""

    adapter: Adapter

    def __instancecheck__(cls, instance: object) -> bool:
        return True


def stand_in(adapter: Adapter, name: str) -> Any:
    """Make a class that msgspec decodes by the given adapter, whatever values come out of it."""
    made = _FitsAll(name, (), {})
    made.adapter = adapter
    return made


def adapter_of(type_: Any) -> Adapter | None:
    """Find who knows a class that msgspec does not know; None where nobody does."""
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


def limits_of(metadata: Any) -> JsonObject | None:
    """Return what a mark of `annotated_types` says; None where it is none of those."""
    if type(metadata).__module__ != "annotated_types":
        return None
    said = {name: getattr(metadata, name, None) for name in LIMITS}
    return {name: value for name, value in said.items() if value is not None}


# Values


def dec_hook(type_: Any, value: Any) -> Any:
    """Decode for msgspec what it does not know."""
    adapter = adapter_of(type_)
    if adapter is None:
        raise NotImplementedError(f"{type_!r} has no JSON form")
    return adapter.decode(value)


def enc_hook(value: Any) -> Any:
    """Encode for msgspec what it does not know."""
    if type(value).__module__ in _TEXT_FORMATS:
        return str(value)
    if "pydantic" in sys.modules:
        from accord.server import pydantic_types

        return pydantic_types.encode(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


encode: Final = msgspec.json.Encoder(enc_hook=enc_hook).encode
"""Write any supported value as compact JSON."""


def to_plain(value: Any) -> Any:
    """Turn a value into what its JSON would decode to."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook)


def convert(value: Any, type_: Any, *, strict: bool = True) -> Any:
    """Make a value of a type from plain JSON data."""
    return msgspec.convert(value, type_, strict=strict, str_keys=True, dec_hook=dec_hook)


# Schemas

# Most parameters are one of these; asking msgspec costs ten times as much. A tuple, because
# types may be unhashable.
_SIMPLE: Final = (str, int, bool, float, Any)
_SCHEMAS: Final[tuple[JsonObject, ...]] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "number"},
    {},
)


class Collector:
    """Gathers the schemas of types and of all they refer to.

    With `output` the schemas describe what is written, else what is read; only other libraries
    tell the two apart.
    """

    def __init__(self, *, output: bool = False) -> None:
        self.output = output
        self.components: dict[str, JsonObject] = {}
        self.has_foreign = False
        self._names: dict[Any, str] = {}
        self._calls = 0

    def schemas(self, types: Iterable[Any]) -> list[JsonObject]:
        """Return the schema of each type, with references into `components`.

        Raises:
            RegistrationError: a type has no meaning in JSON.
        """
        types = tuple(types)
        if all(type_ in _SIMPLE for type_ in types):
            return [dict(_SCHEMAS[_SIMPLE.index(type_)]) for type_ in types]
        prefix = self.unique("")
        try:
            schemas, components = msgspec.json.schema_components(
                types, schema_hook=self._hook, ref_template=f"#/$defs/{prefix}{{name}}"
            )
        except (TypeError, NameError) as error:
            raise RegistrationError(_first_line(error)) from error
        put_in_order([*schemas, *components.values()], types)
        self.add({prefix + name: component for name, component in components.items()})
        return list(schemas)

    def add(self, components: dict[str, JsonObject]) -> None:
        """Take in definitions that schemas refer to by `#/$defs/<name>`."""
        self.components |= components

    def unique(self, name: str) -> str:
        """Make a name for a component that no other has."""
        self._calls += 1
        return f"{self._calls}.{name}"

    def _hook(self, type_: Any) -> JsonObject:
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


def schema_of(type_: Any, *, output: bool = False) -> JsonObject:
    """Return the JSON Schema of a type, without references unless it is recursive.

    Raises:
        RegistrationError: the type has no meaning in JSON.
    """
    from accord.server.schema.msgspec_types import native

    collector = Collector(output=output)
    (schema,) = collector.schemas([native(type_, output=output)])
    return inline(schema, collector.components)


_REF: Final = "#/$defs/"
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA: Final = frozenset({"enum", "const", "default", "examples", "required"})
# `title` repeats names, mostly, but not that of a constant; `discriminator` is OpenAPI's, and
# points at definitions that are gone.
_NOISE: Final = frozenset({"title", "discriminator"})


def inline(schema: JsonObject, components: dict[str, JsonObject]) -> JsonObject:
    """Replace references by what they refer to; those of a recursion stay, with `$defs`."""
    recursive = _recursive(components)
    inliner = _Inliner(components, recursive)
    for _ in components:
        name = _target(schema)
        if name is None or not (name in recursive or _target(components[name])):
            break
        # The outermost schema has to say its type itself.
        schema = {**components[name], **{k: v for k, v in schema.items() if k != "$ref"}}
    inlined = inliner.node(schema)
    definitions: JsonObject = {}
    while pending := [name for name in inliner.kept if recursive[name] not in definitions]:
        for name in pending:
            definitions[recursive[name]] = inliner.node(components[name])
    return {**inlined, "$defs": definitions} if definitions else inlined


class _Inliner:
    def __init__(self, components: dict[str, JsonObject], recursive: dict[str, str]) -> None:
        self._components = components
        self._recursive = recursive
        self.kept: dict[str, None] = {}

    def node(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.node(each) for each in node]
        if not isinstance(node, dict):
            return node
        plain = {
            key: self._member(key, value)
            for key, value in node.items()
            if key != "$ref"
            and (key not in _NOISE or "const" in node)
            and not (key == "required" and not value)
        }
        target = _target(node)
        if target is None:
            return _with_type(plain)
        if target in self._recursive:
            self.kept[target] = None
            return {"$ref": _REF + self._recursive[target], **plain}
        return {**self.node(self._components[target]), **plain}

    def _member(self, key: str, value: Any) -> Any:
        if not isinstance(value, dict | list) or key in _DATA:
            return value
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self._named(name, each) for name, each in value.items()}
        return self.node(value)

    def _named(self, name: str, schema: Any) -> Any:
        """Keep the title of a property, unless it only repeats its name."""
        title = schema.get("title") if isinstance(schema, dict) else None
        node = self.node(schema)
        if not isinstance(title, str) or _letters(title) == _letters(name):
            return node
        return {"title": title, **node}


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _target(schema: JsonObject) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix(_REF) if isinstance(ref, str) else None


def _with_type(schema: JsonObject) -> JsonObject:
    """Name the type of a choice: many readers of schemas look for it."""
    values = schema.get("enum")
    if values and "type" not in schema:
        if all(isinstance(value, str) for value in values):
            return {"type": "string", **schema}
        if all(type(value) is int for value in values):
            return {"type": "integer", **schema}
    return schema


def _recursive(components: dict[str, JsonObject]) -> dict[str, str]:
    """Find the components that reach themselves, each with a readable name."""
    targets = {name: set(_references(component)) for name, component in components.items()}
    return _readable_names(name for name in targets if name in _reach(targets[name], targets))


def _reach(start: set[str], targets: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    pending = list(start)
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += targets.get(name, ())
    return seen


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, list):
        for each in node:
            yield from _references(each)
    elif isinstance(node, dict):
        if (target := _target(node)) is not None:
            yield target
        for key, value in node.items():
            if key in _BY_NAME and isinstance(value, dict):
                yield from _references(list(value.values()))
            elif key not in _DATA and key not in _NOISE:
                yield from _references(value)


def _readable_names(names: Iterable[str]) -> dict[str, str]:
    readable: dict[str, str] = {}
    for name in names:
        base = candidate = name.partition(".")[2]
        number = 1
        while candidate in readable.values():
            number += 1
            candidate = f"{base}{number}"
        readable[name] = candidate
    return readable


def json_default(value: Any) -> Any:
    """Return a default as JSON data, UNSET where it has no such form."""
    try:
        return to_plain(_with_names(value))
    except (TypeError, ValueError, NotImplementedError):
        return msgspec.UNSET


def _with_names(value: Any) -> Any:
    """Write named tuples as objects: that is how they are described."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _with_names(each) for name, each in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_with_names(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_names(each) for key, each in value.items()}
    return value


def admits(schema: JsonObject, kinds: Sequence[str], definitions: JsonObject) -> bool:
    """Tell whether a schema lets a value of any of these JSON types through."""
    target = _target(schema)
    if target is not None:
        return admits(definitions.get(target, {}), kinds, definitions)
    if "anyOf" in schema:
        return any(admits(option, kinds, definitions) for option in schema["anyOf"])
    if "enum" in schema:
        return any(kind_of(value) in kinds for value in schema["enum"])
    type_ = schema.get("type")
    if type_ is None:
        return True
    return any(kind in kinds for kind in ([type_] if isinstance(type_, str) else type_))


def kind_of(value: Any) -> str:
    """Return the JSON type of plain data."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0]
