"""The fields of classes with named members, however a class was made."""

import typing
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET

__all__ = [
    "Field",
    "fields_of",
    "filled",
    "is_named_tuple",
    "is_structured",
    "key_of",
    "written_doc",
]


class Field(NamedTuple):
    """A field of a class; `key` is its name in JSON."""

    name: str
    key: str
    type: Any
    is_required: bool = True
    default: Any = UNSET


def is_structured(cls: Any) -> bool:
    """Tell whether something is a class whose fields can be told."""
    if not isinstance(cls, type):
        return False
    return (
        issubclass(cls, msgspec.Struct)
        or hasattr(cls, "__dataclass_fields__")
        or typing.is_typeddict(cls)
        or hasattr(cls, "__attrs_attrs__")
        or is_named_tuple(cls)
    )


def is_named_tuple(cls: Any) -> bool:
    """Tell whether something is a class of tuples with names."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def key_of(type_: Any) -> Hashable:
    """Return what stands for a type in a dictionary; metadata in it need not be hashable."""
    try:
        hash(type_)
    except TypeError:
        return repr(type_)
    return type_  # type: ignore[no-any-return]  # it has just been hashed


def written_doc(cls: type) -> str | None:
    """Return the docstring somebody wrote; those of dataclasses and named tuples are made up."""
    doc = cls.__doc__
    return None if doc is None or doc.startswith(f"{cls.__name__}(") else doc


def fields_of(type_: Any, names: Mapping[str, Any]) -> Iterable[Field]:
    """Read the fields of a class, or of a generic one that was told what its variables mean.

    Args:
        type_: such a class.
        names: what annotations in it may refer to beside globals.
    """
    cls = get_origin(type_) or type_
    hints = _hints(type_, cls, names)
    if issubclass(cls, msgspec.Struct):
        yield from _struct_fields(cls, hints)
    elif typing.is_typeddict(cls):
        for name, hint in hints.items():
            yield Field(name, name, hint, name in cls.__required_keys__)
    elif hasattr(cls, "__dataclass_fields__"):
        yield from _dataclass_fields(cls, hints)
    elif hasattr(cls, "__attrs_attrs__"):
        for each in cls.__attrs_attrs__:
            if each.init:
                has_default = type(each.default).__name__ != "_Nothing"
                default = each.default if has_default else UNSET
                hint = hints.get(each.name, Any)
                yield Field(each.alias, each.name, hint, not has_default, default)
    else:
        defaults = cls._field_defaults
        for name in cls._fields:
            default = defaults.get(name, UNSET)
            yield Field(name, name, hints.get(name, Any), name not in defaults, default)


def _struct_fields(cls: Any, hints: dict[str, Any]) -> Iterable[Field]:
    required = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    defaults = (*[NODEFAULT] * required, *cls.__struct_defaults__)
    fields = zip(cls.__struct_fields__, cls.__struct_encode_fields__, defaults, strict=True)
    for name, key, default in fields:
        # Keyword-only fields stand among the defaults too.
        yield Field(name, key, hints[name], default is NODEFAULT, _shown(default))


def _shown(default: Any) -> Any:
    is_factory = type(default).__module__ == "msgspec._core"
    return UNSET if default is NODEFAULT or is_factory else default


def _dataclass_fields(cls: Any, hints: dict[str, Any]) -> Iterable[Field]:
    from dataclasses import MISSING, fields  # loaded already, where there is one

    for field in fields(cls):
        if field.init:
            is_required = field.default is MISSING and field.default_factory is MISSING
            default = UNSET if field.default is MISSING else field.default
            yield Field(field.name, field.name, hints[field.name], is_required, default)


# What stands for type variables


def _hints(type_: Any, cls: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, localns=dict(names), include_extras=True)
    meanings: dict[Any, dict[Any, Any]] = {}
    _collect_meanings(type_, {}, meanings)
    if not meanings:
        return hints
    # A variable may mean one thing in a class and another in the class it is made from.
    owners = {name: each for each in reversed(cls.__mro__) for name in _annotated_in(each)}
    return {
        name: filled(hint, meanings.get(owners.get(name, cls), {})) for name, hint in hints.items()
    }


def _collect_meanings(type_: Any, around: dict[Any, Any], found: dict[Any, Any]) -> None:
    """Find what stands for the variables of a class and of those it is made from."""
    cls = get_origin(type_) or type_
    variables = getattr(cls, "__parameters__", ())
    given = [filled(each, around) for each in get_args(type_)]
    meanings = dict(zip(variables, given, strict=False))
    if meanings:
        found.setdefault(cls, meanings)
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is not typing.Generic:
            _collect_meanings(base, meanings, found)


def _annotated_in(cls: type) -> Iterable[str]:
    annotations: dict[str, Any] = vars(cls).get("__annotations__", {})
    return annotations


def filled(hint: Any, meanings: Mapping[Any, Any]) -> Any:
    """Put what type variables mean in their place."""
    if isinstance(hint, typing.TypeVar):
        return meanings.get(hint, hint)
    variables = getattr(hint, "__parameters__", ()) if get_origin(hint) is not None else ()
    return hint[tuple(meanings.get(each, each) for each in variables)] if variables else hint
