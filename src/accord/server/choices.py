"""Choices in schemas, as their author wrote them: msgspec sorts those of enums and literals."""

from collections.abc import Hashable, Iterable, Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from accord.server.fields import fields_of, is_structured, key_of
from accord.types import JsonObject

__all__ = ["put_in_order"]


def put_in_order(schemas: Any, types: Iterable[Any]) -> None:
    """Give the choices within schemas the order that they have in the types described."""
    choosing = list(_choosing(schemas))
    if not choosing:
        return
    written: dict[Hashable, list[Any]] = {}
    seen: set[Hashable] = set()
    for type_ in types:
        for values in _written(type_, seen):
            written.setdefault(_same(values), values)
    for schema in choosing:
        schema["enum"] = written.get(_same(schema["enum"]), schema["enum"])


def _same(values: Iterable[Any]) -> Hashable:
    # By text: True equals 1, and a default may look like choices and hold anything.
    return frozenset(map(repr, values))


def _choosing(node: Any) -> Iterator[JsonObject]:
    """Find the schemas that list choices, wherever they stand."""
    if isinstance(node, dict):
        if isinstance(node.get("enum"), list):
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _choosing(each)


def _written(type_: Any, seen: set[Hashable]) -> Iterator[list[Any]]:
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
        for each in _parts(type_, origin):
            yield from _written(each, seen)


def _parts(type_: Any, origin: Any) -> list[Any]:
    if hasattr(type_, "__value__"):  # a name for another type
        return [type_.__value__, *get_args(type_)]
    if not is_structured(origin or type_):
        return list(get_args(type_))
    try:
        return [field.type for field in fields_of(type_, {})]
    except (NameError, TypeError):  # names of a place that cannot be seen from here
        return []
