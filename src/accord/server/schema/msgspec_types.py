"""Annotations as people write them, turned into types that msgspec decodes.

Most stay as they are. What msgspec cannot do is put behind a stand-in with an adapter: unions whose
members look alike in JSON, classes that hold such unions, named tuples (read as objects, because
their names tell a model what goes where), and whatever another library validates.
"""

import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Reversible
from datetime import datetime, time
from functools import reduce
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta

from accord.errors import RegistrationError
from accord.server.fields import (
    Field,
    fields_of,
    filled,
    is_named_tuple,
    is_structured,
    key_of,
    written_doc,
)
from accord.server.schema.choices import Choices
from accord.server.schema.conversion import (
    LIMITS,
    Collector,
    Mismatch,
    adapter_of,
    convert,
    dec_hook,
    json_default,
    limits_of,
    stand_in,
)
from accord.types import JsonObject

__all__ = ["constrained", "native"]

_SIMPLE: Final = (Any, str, int, float, bool)
# Of these msgspec knows no more than the name.
_ITERABLES: Final = (Iterable, Reversible)
_WRAPPERS: Final = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)


def native(annotation: Any, *, output: bool = False, names: Mapping[str, Any] | None = None) -> Any:
    """Return a type that msgspec can decode and that means the same.

    Args:
        annotation: any type, with all names resolved.
        output: whether it is written rather than read.
        names: what the fields of local classes may refer to.

    Raises:
        RegistrationError: nothing that JSON can carry is meant.
    """
    if annotation in _SIMPLE:
        return annotation
    try:
        made = _Rewriter(names or {}, output=output).rewrite(annotation)
        msgspec.json.Decoder(made, dec_hook=dec_hook)
    except (TypeError, NameError, ValueError, RecursionError) as error:
        raise RegistrationError(str(error).strip().split("\n", 1)[0]) from error
    return made


def constrained(type_: Any, metadata: Iterable[Any]) -> Any:
    """Annotate a type as if the metadata stood in its `Annotated`."""
    metadata = tuple(metadata)
    return Annotated[(type_, *metadata)] if metadata else type_


def accepts(type_: Any) -> bool:
    """Tell whether msgspec takes a type as it is."""
    try:
        msgspec.json.Decoder(type_, dec_hook=dec_hook)
    except (TypeError, NameError):
        return False
    return True


def _either(members: Iterable[Any]) -> Any:
    return reduce(operator.or_, members)


class _Rewriter:
    def __init__(self, names: Mapping[str, Any], *, output: bool) -> None:
        self._names = names
        self._output = output
        self._mirrors: dict[Any, Any] = {}
        self._aliases: list[Any] = []

    def rewrite(self, annotation: Any) -> Any:
        origin = get_origin(annotation)
        if origin is Annotated:
            return self._annotated(annotation)
        if origin in (Union, types.UnionType):
            return self._union(get_args(annotation))
        if origin in _WRAPPERS:
            return self.rewrite(get_args(annotation)[0])
        if origin is not None and origin is not Literal:
            return self._generic(annotation, origin)
        return self._plain(annotation)

    def _plain(self, annotation: Any) -> Any:
        if annotation is object:
            return Any
        if annotation in _ITERABLES:
            return list
        if annotation in (datetime, time) and not self._output:
            # msgspec leaves the format out because a zone is not demanded; models need the hint.
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

    def _alias(self, alias: Any) -> Any:
        if alias in self._aliases:
            # A recursive alias such as that of JSON itself: deeper parts are taken as they come.
            return Any
        self._aliases.append(alias)
        meanings = dict(zip(alias.__type_params__, get_args(alias), strict=False))
        made = self.rewrite(filled(alias.__value__, meanings))
        self._aliases.pop()
        return made

    def _type_variable(self, variable: TypeVar) -> Any:
        if variable.__constraints__:
            return self._union(variable.__constraints__)
        return Any if variable.__bound__ is None else self.rewrite(variable.__bound__)

    def _generic(self, annotation: Any, origin: Any) -> Any:
        if hasattr(origin, "__value__"):
            return self._alias(annotation)
        if adapter_of(annotation) is not None:
            return annotation
        if is_structured(origin):
            return self._class(annotation)
        args = get_args(annotation)
        made = tuple(each if each is Ellipsis else self.rewrite(each) for each in args)
        if origin in _ITERABLES:
            return list[made]  # type: ignore[valid-type]
        if made == args or not args:
            return annotation
        return origin[made]

    # -- Annotated

    def _annotated(self, annotation: Any) -> Any:
        base, *metadata = get_args(annotation)
        if "pydantic" in sys.modules:
            from accord.server.schema import pydantic_types

            adapter = pydantic_types.adapter_of_annotation(annotation)
            if adapter is not None:
                return stand_in(adapter, getattr(base, "__name__", "value"))
        metas = [meta for each in metadata for meta in _metas(each)]
        for each in metadata:
            if isinstance(each, Choices):
                base = chosen_from(each, base)
        return _with_metas(self.rewrite(base), metas)

    # -- unions

    def _union(self, members: tuple[Any, ...]) -> Any:
        made = tuple(self.rewrite(member) for member in members)
        union = _either(made)
        if accepts(union):
            return union
        return stand_in(_Choice(made), "choice")

    # -- classes

    def _class(self, cls: Any) -> Any:
        """Look at a class; a generic one may have been told what its variables mean."""
        key = key_of(cls)
        if key in self._mirrors:
            return self._mirrors[key]
        if (adapter := adapter_of(cls)) is not None:
            # A class that msgspec knows as well would never come to the hook.
            return stand_in(adapter, cls.__name__) if is_structured(cls) else cls
        origin = get_origin(cls) or cls
        if not is_structured(origin) or (accepts(cls) and not self._is_read_badly(cls)):
            return cls
        mirror = _Mirror(cls, self._names)
        self._mirrors[key] = made = stand_in(mirror, origin.__name__)
        mirror.build(self.rewrite)
        return made

    def _is_read_badly(self, cls: Any) -> bool:
        """Tell whether msgspec takes a class, but not in the form that is wanted of it."""
        if self._output:
            return False
        return is_named_tuple(get_origin(cls) or cls) or _is_misread(cls, self._names, set())


def _is_misread(type_: Any, names: Mapping[str, Any], seen: set[Any]) -> bool:
    """Tell whether msgspec overlooks something in a class, here or deeper.

    It knows no words and limits in `Annotated` but its own. Defaults of a dataclass it leaves to
    the class where it can, so that the instance would be written without them.
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


def _is_foreign(annotation: Any, metadata: Iterable[Any]) -> bool:
    if any(
        isinstance(each, Choices) or (not isinstance(each, Meta) and _metas(each))
        for each in metadata
    ):
        return True
    if "pydantic" not in sys.modules:
        return False
    from accord.server.schema import pydantic_types

    return pydantic_types.adapter_of_annotation(annotation) is not None


# Metadata of Annotated


def chosen_from(choices: Choices, base: Any) -> Any:
    """Return the type whose values are those of a choice, or lists of them.

    Raises:
        RegistrationError: the annotated type is neither `str` nor a list of `str`.
    """
    is_optional = get_origin(base) in (Union, types.UnionType)
    members = [each for each in get_args(base) if each is not types.NoneType]
    if is_optional and len(members) == 1:
        return chosen_from(choices, members[0]) | None
    one: Any = Literal.__getitem__(choices.values)
    if base is str:
        return constrained(one, _extra(choices.schema("oneOf")))
    if get_origin(base) is list and get_args(base) == (str,):
        return list[constrained(one, _extra(choices.schema("anyOf")))]  # type: ignore[misc]
    called = getattr(base, "__name__", base)
    raise RegistrationError(f"Choices stands on str or list[str], not on {called}")


def _extra(schema: JsonObject) -> list[Meta]:
    return [Meta(extra_json_schema=schema)] if schema else []


def _metas(metadata: Any) -> list[Meta]:
    """Translate what stands in `Annotated` into what msgspec reads there."""
    if isinstance(metadata, Meta):
        return [metadata]
    if isinstance(metadata, str):
        return [Meta(description=metadata)]
    if isinstance(text := getattr(metadata, "documentation", None), str):
        return [Meta(description=text)]
    if (limits := limits_of(metadata)) is not None:
        return [Meta(**limits)] if limits else []
    if type(metadata).__module__.startswith("pydantic."):
        from accord.server.schema import pydantic_types

        return pydantic_types.metas(metadata)
    return []


def _with_metas(type_: Any, metas: list[Meta]) -> Any:
    """Annotate a type; constraints on a union go to the members that can have them."""
    if not metas:
        return type_
    annotated = constrained(type_, metas)
    if accepts(annotated):
        return annotated
    words, limits = _split(metas)
    members = get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)
    limited = []
    for member in members:
        fitting = [limit for limit in limits if accepts(constrained(member, [limit]))]
        limited.append(constrained(member, fitting))
    if not any(member != given for member, given in zip(limited, members, strict=True)):
        return annotated
    return constrained(_either(limited), words)


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


class _Choice:
    """A union whose members msgspec cannot tell apart: the best fit of those that decode."""

    def __init__(self, members: tuple[Any, ...]) -> None:
        # Whatever a string may also be is meant if it fits: plain strings come last.
        self._members = sorted(members, key=_breadth)
        self._keys: dict[int, frozenset[str]] = {}

    def schema(self, collector: Collector) -> JsonObject:
        return {"anyOf": collector.schemas(self._members)}

    def decode(self, value: Any) -> Any:
        fitting = []
        for member in self._members:
            try:
                fitting.append((member, convert(value, member)))
            except msgspec.ValidationError as error:
                failure = error
            else:
                if not isinstance(value, dict):
                    break
        if not fitting:
            raise Mismatch(_plain_words(failure))
        return (
            max(fitting, key=lambda each: len(_known_keys(each[0]) & value.keys()))[1]
            if (len(fitting) > 1)
            else fitting[0][1]
        )


def _breadth(type_: Any) -> int:
    base = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    if base is Any:
        return 3
    return 2 if base is str else int(get_origin(base) in (dict, typing.Mapping) or base is dict)


def _known_keys(type_: Any) -> frozenset[str]:
    """Return the names of the fields that a class reads from an object."""
    base = get_args(type_)[0] if get_origin(type_) is Annotated else type_
    collector = Collector()
    (schema,) = collector.schemas([base])
    while "$ref" in schema:
        schema = collector.components[schema["$ref"].removeprefix("#/$defs/")]
    return frozenset(schema.get("properties", ()))


def _plain_words(error: msgspec.ValidationError) -> str:
    return str(error).partition(" - at ")[0].replace("`", "")


class _Mirror:
    """A class that msgspec cannot decode, or not as an object, by way of a struct that it can."""

    def __init__(self, cls: Any, names: Mapping[str, Any]) -> None:
        self._cls = get_origin(cls) or cls
        self._fields = list(fields_of(cls, names))
        self._struct: Any = None
        self._make: Callable[..., Any] = dict if typing.is_typeddict(self._cls) else self._cls
        self._is_tuple = is_named_tuple(self._cls)

    def build(self, rewrite: Callable[[Any], Any]) -> None:
        config = getattr(self._cls, "__struct_config__", None)
        self._struct = msgspec.defstruct(
            self._cls.__name__,
            [_mirrored(f"field{n}", field, rewrite) for n, field in enumerate(self._fields)],
            kw_only=True,
            tag=getattr(config, "tag", None),
            tag_field=getattr(config, "tag_field", None),
            forbid_unknown_fields=getattr(config, "forbid_unknown_fields", False),
            namespace={"__doc__": written_doc(self._cls)},
        )

    def schema(self, collector: Collector) -> JsonObject:
        (schema,) = collector.schemas([self._struct])
        # What the class is called by is not worth a second name in a recursion.
        return collector.components[schema["$ref"].removeprefix("#/$defs/")]

    def decode(self, value: Any) -> Any:
        if self._is_tuple and isinstance(value, list) and len(value) <= len(self._fields):
            value = dict(zip((field.key for field in self._fields), value, strict=False))
        decoded = msgspec.structs.astuple(convert(value, self._struct))
        given = zip(self._fields, decoded, strict=True)
        # What is absent is left to the defaults of the class itself.
        return self._make(**{field.name: each for field, each in given if each is not UNSET})


def _mirrored(name: str, field: Field, rewrite: Callable[[Any], Any]) -> tuple[str, Any, Any]:
    type_ = rewrite(field.type)
    if field.is_required:
        return (name, type_, msgspec.field(name=field.key))
    shown = UNSET if field.default is UNSET else json_default(field.default)
    if shown is not UNSET:
        type_ = Annotated[type_, Meta(extra_json_schema={"default": shown})]
    return (name, type_, msgspec.field(name=field.key, default_factory=lambda: UNSET))
