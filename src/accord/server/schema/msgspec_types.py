"""Annotations turned into types that msgspec decodes.

Most stay as they are. The others are replaced by a stand-in class with an adapter: unions whose
members look alike in JSON, classes that hold such unions, named tuples (decoded from objects,
because member names help a model), and types that another library validates.
"""

import operator
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Reversible
from datetime import datetime, time
from functools import reduce
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta

from accord.errors import RegistrationError
from accord.json_schema.mismatch import Mismatch
from accord.json_schema.reader import properties_of
from accord.server.schema.annotations import (
    Choices,
    Field,
    Header,
    authored_doc,
    class_of,
    fields_of,
    is_named_tuple,
    is_structured,
    key_of,
    substitute,
)
from accord.server.schema.conversion import (
    LIMITS,
    Collector,
    adapter_of,
    convert,
    dec_hook,
    first_line,
    json_default,
    limits_of,
    stand_in,
)
from accord.server.schema.plain import is_plain
from accord.types import JsonObject

# msgspec does not decode these.
_ITERABLES: Final = (Iterable, Reversible)
_WRAPPERS: Final = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)


def to_msgspec_type(
    annotation: object,
    *,
    output: bool = False,
    described: bool = False,
    names: Mapping[str, object] | None = None,
) -> object:
    """Return a type that msgspec can decode and that means the same.

    Args:
        annotation: any type, with all names resolved.
        output: whether values are encoded rather than decoded.
        described: whether descriptions of fields count too, for the schema of an output.
        names: the types that fields of local classes may refer to.

    Raises:
        RegistrationError: the type has no JSON form.
    """
    if is_plain(annotation):
        return annotation
    try:
        made = _Rewriter(names or {}, output=output, described=described).rewrite(annotation)
        msgspec.json.Decoder(made, dec_hook=dec_hook)
    except (TypeError, NameError, ValueError, RecursionError) as error:
        raise RegistrationError(first_line(error)) from error
    return made


def annotate(type_: object, metadata: Iterable[object]) -> object:
    """Put metadata into the `Annotated` of a type."""
    metadata = tuple(metadata)
    return _apply(Annotated, (type_, *metadata)) if metadata else type_


def _apply(generic: Any, arguments: object) -> object:
    """Return `generic[arguments]` for types that are known only at run time."""
    applied: object = generic[arguments]
    return applied


def accepts(type_: object) -> bool:
    """Tell whether msgspec takes a type as it is."""
    try:
        msgspec.json.Decoder(type_, dec_hook=dec_hook)
    except (TypeError, NameError):
        return False
    return True


def union_of(members: Iterable[object]) -> object:
    """Return the union of types; None is a member as well."""
    union: object = reduce(operator.or_, members)
    return union


class _Rewriter:
    def __init__(self, names: Mapping[str, object], *, output: bool, described: bool) -> None:
        self._names = names
        self._output = output
        self._described = described
        self._adapters: dict[Hashable, object] = {}
        self._aliases: list[object] = []

    def rewrite(self, annotation: object) -> object:
        origin = get_origin(annotation)
        if origin is Annotated:
            return self._annotated_type(annotation)
        if origin in (Union, types.UnionType):
            return self._union(get_args(annotation))
        if origin in _WRAPPERS:
            return self.rewrite(get_args(annotation)[0])
        if origin is not None and origin is not Literal:
            return self._generic(annotation, origin)
        return self._plain(annotation)

    def _plain(self, annotation: object) -> object:
        if annotation is object:
            return Any
        if annotation in _ITERABLES:
            return list
        if annotation in (datetime, time) and not self._output:
            # msgspec leaves the format out, since no time zone is required; models need the hint.
            format_ = "date-time" if annotation is datetime else "time"
            return Annotated[annotation, Meta(extra_json_schema={"format": format_})]
        if isinstance(annotation, TypeVar):
            return self._type_variable(annotation)
        if isinstance(annotation, typing.NewType):
            return self.rewrite(annotation.__supertype__)
        if hasattr(annotation, "__value__"):
            return self._alias(annotation)
        if isinstance(annotation, type):
            return self._class(annotation)
        return annotation

    def _alias(self, alias: Any) -> object:
        if alias in self._aliases:
            # A recursive alias such as that of JSON itself: deeper parts are not checked.
            return Any
        self._aliases.append(alias)
        meanings = dict(zip(alias.__type_params__, get_args(alias), strict=False))
        made = self.rewrite(substitute(alias.__value__, meanings))
        self._aliases.pop()
        return made

    def _type_variable(self, variable: TypeVar) -> object:
        if variable.__constraints__:
            return self._union(variable.__constraints__)
        return Any if variable.__bound__ is None else self.rewrite(variable.__bound__)

    def _generic(self, annotation: object, origin: object) -> object:
        if hasattr(origin, "__value__"):
            return self._alias(annotation)
        if adapter_of(annotation) is not None:
            return annotation
        if is_structured(origin):
            return self._class(annotation)
        args = get_args(annotation)
        made = tuple(each if each is Ellipsis else self.rewrite(each) for each in args)
        if origin in _ITERABLES:
            return _apply(list, made)
        if made == args or not args:
            return annotation
        return _apply(origin, made)

    # -- Annotated

    def _annotated_type(self, annotation: object) -> object:
        base, *metadata = get_args(annotation)
        if "pydantic" in sys.modules:
            from accord.server.schema import pydantic_types

            adapter = pydantic_types.adapter_of_annotation(annotation)
            if adapter is not None:
                return stand_in(adapter, getattr(base, "__name__", "value"))
        metas = [meta for each in metadata for meta in _translate(each)]
        for each in metadata:
            if isinstance(each, Choices):
                base = _choice_type(each, base)
        return _with_metas(self.rewrite(base), metas)

    # -- unions

    def _union(self, members: tuple[object, ...]) -> object:
        made = tuple(self.rewrite(member) for member in members)
        union = union_of(made)
        if accepts(union):
            return union
        return stand_in(_UnionAdapter(made), "choice")

    # -- classes

    def _class(self, cls: object) -> object:
        """Rewrite a class, or a generic class with type arguments."""
        key = key_of(cls)
        if key in self._adapters:
            return self._adapters[key]
        if (adapter := adapter_of(cls)) is not None:
            # msgspec would decode a class that it knows itself, without asking the adapter.
            return stand_in(adapter, class_of(cls).__name__) if is_structured(cls) else cls
        origin = get_origin(cls) or cls
        if not is_structured(origin) or (accepts(cls) and not self._is_misread(cls)):
            return cls
        mirror = _ClassAdapter(cls, self._names)
        self._adapters[key] = made = stand_in(mirror, class_of(cls).__name__)
        mirror.build(self.rewrite)
        return made

    def _is_misread(self, cls: object) -> bool:
        """Tell whether msgspec decodes a class, but not from the form that is wanted."""
        is_tuple = is_named_tuple(get_origin(cls) or cls)
        if self._output:
            return self._described and not is_tuple and is_described(cls, self._names)
        return is_tuple or _is_misread(cls, self._names, set())


def _is_misread(type_: object, names: Mapping[str, object], seen: set[Hashable]) -> bool:
    """Tell whether msgspec overlooks something in a class, here or deeper.

    In `Annotated` it reads its own metadata alone. Where the class of a dataclass holds a default,
    msgspec does not set it on the instance, which would be encoded without it.
    """
    origin = get_origin(type_)
    if origin is Annotated:
        base, *metadata = get_args(type_)
        return _is_foreign(type_, metadata) or _is_misread(base, names, seen)
    if origin is not None and not is_structured(origin):
        return any(_is_misread(each, names, seen) for each in get_args(type_))
    cls = origin or type_
    if not is_structured(cls) or key_of(type_) in seen or adapter_of(cls) is not None:
        return False
    if getattr(getattr(cls, "__struct_config__", None), "array_like", False):
        return False
    seen.add(key_of(type_))
    fields = list(fields_of(type_, names))
    if hasattr(cls, "__dataclass_fields__") and any(
        not field.is_required and getattr(cls, field.name, UNSET) is field.default
        for field in fields
    ):
        return True
    return any(_is_misread(field.type, names, seen) for field in fields)


def is_described(
    type_: object, names: Mapping[str, object], seen: set[Hashable] | None = None
) -> bool:
    """Tell whether a field of a class, here or deeper, has a description that msgspec overlooks."""
    seen = set() if seen is None else seen
    origin = get_origin(type_)
    if origin is Annotated:
        base, *metadata = get_args(type_)
        return any(map(_is_description, metadata)) or is_described(base, names, seen)
    if origin is not None and not is_structured(origin):
        return any(is_described(each, names, seen) for each in get_args(type_))
    if not is_structured(origin or type_) or key_of(type_) in seen:
        return False
    seen.add(key_of(type_))
    return any(is_described(field.type, names, seen) for field in fields_of(type_, names))


def _is_description(metadata: object) -> bool:
    return isinstance(metadata, str) or isinstance(getattr(metadata, "documentation", None), str)


def _is_foreign(annotation: object, metadata: Iterable[object]) -> bool:
    if any(
        isinstance(each, Choices) or (not isinstance(each, Meta) and _translate(each))
        for each in metadata
    ):
        return True
    if "pydantic" not in sys.modules:
        return False
    from accord.server.schema import pydantic_types

    return pydantic_types.adapter_of_annotation(annotation) is not None


# Metadata of Annotated


def _choice_type(choices: Choices, base: object) -> object:
    """Return the type of one of the choices, or of a list of them.

    Raises:
        RegistrationError: the annotated type is neither `str` nor a list of `str`.
    """
    is_optional = get_origin(base) in (Union, types.UnionType)
    members = [each for each in get_args(base) if each is not types.NoneType]
    if is_optional and len(members) == 1:
        return union_of([_choice_type(choices, members[0]), None])
    one: object = Literal.__getitem__(choices.values)
    if base is str:
        return annotate(one, _extra(choices.schema("oneOf")))
    if get_origin(base) is list and get_args(base) == (str,):
        return _apply(list, annotate(one, _extra(choices.schema("anyOf"))))
    called = getattr(base, "__name__", base)
    raise RegistrationError(f"Choices annotates str or list[str], not {called}")


def _extra(schema: JsonObject) -> list[Meta]:
    return [Meta(extra_json_schema=schema)] if schema else []


def _translate(metadata: object) -> list[Meta]:
    """Translate metadata of `Annotated` into what msgspec reads there."""
    if isinstance(metadata, Meta):
        return [metadata]
    if isinstance(metadata, str):
        return [Meta(description=metadata)]
    if isinstance(metadata, Header):
        return _extra(metadata.schema)
    if isinstance(text := getattr(metadata, "documentation", None), str):
        return [Meta(description=text)]
    if (limits := limits_of(metadata)) is not None:
        return [Meta(**limits)] if limits else []
    if type(metadata).__module__.startswith("pydantic."):
        from accord.server.schema import pydantic_types

        return pydantic_types.metas(metadata)
    return []


def _with_metas(type_: object, metas: list[Meta]) -> object:
    """Annotate a type; constraints on a union go to the members that can have them."""
    if not metas:
        return type_
    annotated = annotate(type_, metas)
    if accepts(annotated):
        return annotated
    words, limits = _split(metas)
    members = get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)
    limited = []
    for member in members:
        fitting = [limit for limit in limits if accepts(annotate(member, [limit]))]
        limited.append(annotate(member, fitting))
    if not any(member != given for member, given in zip(limited, members, strict=True)):
        return annotated
    return annotate(union_of(limited), words)


def _split(metas: list[Meta]) -> tuple[list[Meta], list[Meta]]:
    """Separate descriptions, which any type can have, from one meta per constraint."""
    words, limits = [], []
    for meta in metas:
        said = {
            name: value
            for name in ("title", "description", "examples", "extra_json_schema")
            if (value := getattr(meta, name)) is not None
        }
        if said:
            words.append(Meta(**said))
        limits += [
            Meta(**{name: value})
            for name in (*LIMITS, "pattern")
            if (value := getattr(meta, name)) is not None
        ]
    return words, limits


# Stand-ins


class _UnionAdapter:
    """A union whose members msgspec cannot tell apart: the best fit of those that decode."""

    def __init__(self, members: tuple[object, ...]) -> None:
        # Plain strings come last: a string that fits another member is meant as that.
        self._members = sorted(members, key=_breadth)

    def schema(self, collector: Collector) -> JsonObject:
        return {"anyOf": collector.schemas(self._members)}

    def decode(self, value: object) -> object:
        fitting: list[tuple[object, object]] = []
        for member in self._members:
            try:
                fitting.append((member, convert(value, member)))
            except msgspec.ValidationError as error:
                failure = error
            else:
                if not isinstance(value, dict):
                    break
        if not fitting:
            raise Mismatch(_reason(failure))
        if len(fitting) == 1 or not isinstance(value, dict):
            return fitting[0][1]
        given = value.keys()
        return max(fitting, key=lambda each: len(_known_keys(each[0]) & given))[1]


def _breadth(type_: object) -> int:
    base = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    if base is Any:
        return 3
    return 2 if base is str else int(get_origin(base) in (dict, typing.Mapping) or base is dict)


def _known_keys(type_: object) -> frozenset[str]:
    """Return the names of the fields that a class reads from an object."""
    base = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    collector = Collector()
    (schema,) = collector.schemas([base])
    return frozenset(properties_of(collector.resolve(schema)))


def _reason(error: msgspec.ValidationError) -> str:
    return str(error).partition(" - at ")[0].replace("`", "")


class _ClassAdapter:
    """Decodes a class that msgspec cannot decode, or not as an object, by way of a struct."""

    def __init__(self, cls: object, names: Mapping[str, object]) -> None:
        self._cls = class_of(cls)
        self._fields = list(fields_of(cls, names))
        self._struct: type[msgspec.Struct] | None = None
        self._make: Callable[..., object] = dict if typing.is_typeddict(self._cls) else self._cls
        self._is_tuple = is_named_tuple(self._cls)

    def build(self, rewrite: Callable[[object], object]) -> None:
        config = getattr(self._cls, "__struct_config__", None)
        self._struct = msgspec.defstruct(
            self._cls.__name__,
            [_struct_field(f"field{n}", field, rewrite) for n, field in enumerate(self._fields)],
            kw_only=True,
            tag=getattr(config, "tag", None),
            tag_field=getattr(config, "tag_field", None),
            forbid_unknown_fields=getattr(config, "forbid_unknown_fields", False),
            namespace={"__doc__": authored_doc(self._cls)},
        )

    def schema(self, collector: Collector) -> JsonObject:
        (schema,) = collector.schemas([self._struct])
        # The struct needs no definition beside that of the class.
        return collector.resolve(schema)

    def decode(self, value: object) -> object:
        if self._is_tuple and isinstance(value, list) and len(value) <= len(self._fields):
            value = dict(zip((field.key for field in self._fields), value, strict=False))
        decoded = msgspec.structs.astuple(convert(value, self._struct))
        given = zip(self._fields, decoded, strict=True)
        # The class itself has the defaults of absent fields.
        return self._make(**{field.name: each for field, each in given if each is not UNSET})


def _struct_field(
    name: str, field: Field, rewrite: Callable[[object], object]
) -> tuple[str, object, object]:
    type_ = rewrite(field.type)
    if field.is_required:
        return (name, type_, msgspec.field(name=field.key))
    shown = UNSET if field.default is UNSET else json_default(field.default)
    if shown is not UNSET:
        type_ = Annotated[type_, Meta(extra_json_schema={"default": shown})]
    return (name, type_, msgspec.field(name=field.key, default_factory=lambda: UNSET))
