"""Plain types: those that msgspec decodes as they are, so that nothing made of them can fail.

Most parameters have one. Their schemas and decoders are made when they are first needed; those of
other types are made at registration, where the author learns of what is wrong. `encode` and
`to_plain` write values as JSON, those of other libraries too.
"""

import sys
import typing
from types import GenericAlias, NoneType, UnionType
from typing import Any, Final

import msgspec

SIMPLE: Final = (str, int, bool, float, Any)

_LEAVES: Final = frozenset({*SIMPLE, NoneType})
_UNIONS: Final = (UnionType, type(typing.Optional[int]))  # noqa: UP045  # the type of the old form


def is_plain(type_: object) -> bool:
    """Tell whether a type is plain: simple, a list or dictionary of simple ones, or their union.

    >>> is_plain(int), is_plain(dict[str, float] | None), is_plain(list[list[int]])
    (True, True, False)
    """
    kind = type(type_)
    if kind is GenericAlias:
        return _is_plain_container(type_)
    if kind in _UNIONS:
        members: tuple[object, ...] = type_.__args__  # type: ignore[attr-defined]  # of a union
        containers = [each for each in members if type(each) is GenericAlias]
        # msgspec cannot tell two lists apart.
        return (
            len(containers) <= 1
            and all(map(_is_plain_container, containers))
            and all(type(each) is GenericAlias or _is_leaf(each) for each in members)
        )
    return _is_leaf(type_)


def _is_leaf(type_: object) -> bool:
    return (type(type_) is type or type_ is Any) and type_ in _LEAVES


def _is_plain_container(type_: Any) -> bool:
    arguments = type_.__args__
    if type_.__origin__ is list:
        return len(arguments) == 1 and _is_leaf(arguments[0])
    return (
        type_.__origin__ is dict
        and len(arguments) == 2
        and arguments[0] is str
        and _is_leaf(arguments[1])
    )


def admits_plainly(type_: object, default: object) -> bool:
    """Tell whether a value surely fits a plain type; None is left to the caller."""
    kind = type(default)
    if type_ is Any:
        return kind in _LEAVES
    if kind is type_:
        return True
    if type_ is float:
        return kind is int
    return type(type_) in _UNIONS and kind in _LEAVES and kind in type_.__args__  # type: ignore[attr-defined]  # of a union


def takes_none(type_: object) -> bool:
    """Tell whether None fits a plain type."""
    if type(type_) in _UNIONS:
        return NoneType in type_.__args__  # type: ignore[attr-defined]  # of a union
    return type_ is Any or type_ is NoneType


def order_of(type_: object) -> object:
    """Return a key for what is made of a plain type: unions are equal in any order.

    >>> (int | str) == (str | int), order_of(int | str) == order_of(str | int)
    (True, False)
    """
    return type_.__args__ if type(type_) in _UNIONS else type_  # type: ignore[attr-defined]  # of a union


# By name, so that none of them is loaded for a server that does not use it.
TEXT_MODULES: Final = ("pathlib", "pathlib._local", "ipaddress")


def enc_hook(value: object) -> object:
    """Encode a value of a type that msgspec does not know."""
    if type(value).__module__ in TEXT_MODULES:
        return str(value)
    if "pydantic" in sys.modules:
        from accord.server.schema import pydantic_types

        return pydantic_types.encode(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


encode: Final = msgspec.json.Encoder(enc_hook=enc_hook).encode
"""Write any supported value as compact JSON."""


def to_plain(value: object) -> object:
    """Turn a value into what its JSON would decode to."""
    plain: object = msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook)
    return plain
