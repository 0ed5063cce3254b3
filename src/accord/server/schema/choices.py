"""Choices in schemas: with titles for people, and in the order that their author wrote.

msgspec sorts the values of enums and literals, and has no titles.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from accord.errors import RegistrationError
from accord.server.schema.annotations import fields_of, is_structured, key_of
from accord.types import JsonObject

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


class Choices:
    """The values that a person or a model may choose from, each with a title where one is given.

        size: Annotated[str, Choices({"s": "Small", "l": "Large"})]
        toppings: Annotated[list[str], Choices({"ham": "Ham", "egg": "Fried egg"})]
        colour = await ctx.elicit("Which colour?", Choices(["red", "green"]))
        colours = await ctx.elicit("Which colours?", Choices(["red", "green"], several=True))

    Args:
        options: the values, or a mapping of values to titles.
        several: whether several may be chosen, where `Choices` itself is asked for; in `Annotated`
            the type says so.
    """

    def __init__(
        self, options: Mapping[str, str] | Iterable[str], *, several: bool = False
    ) -> None:
        titles = dict(options) if isinstance(options, Mapping) else {}
        values = list(titles) if titles else _list_of_texts(options)
        if not values or not all(isinstance(each, str) for each in (*values, *titles.values())):
            raise RegistrationError(
                "Choices takes at least one text, or a mapping of texts to titles"
            )
        self.values: tuple[str, ...] = tuple(dict.fromkeys(values))
        self.titles: dict[str, str] = titles
        self.several = several

    def schema(self, keyword: str) -> JsonObject:
        """Return the titles as a schema: options with a constant and a title each.

        Args:
            keyword: `oneOf` for a choice of one, `anyOf` for the items of a choice of several.
        """
        if not self.titles:
            return {}
        return {keyword: [{"const": value, "title": self.titles[value]} for value in self.values]}

    def __get_pydantic_core_schema__(
        self, source: object, handler: "Callable[[object], CoreSchema]"
    ) -> "CoreSchema":
        """Let models of pydantic refuse other values."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: "CoreSchema", handler: "Callable[[CoreSchema], JsonObject]"
    ) -> JsonObject:
        """Let models of pydantic show the choices."""
        described = handler(schema)
        if described.get("type") == "array":
            items = {"type": "string", "enum": list(self.values), **self.schema("anyOf")}
            return {**described, "items": items}
        return {**described, "enum": list(self.values), **self.schema("oneOf")}

    def _validate(self, value: object) -> object:
        for each in value if isinstance(value, list) else [value]:
            if each not in self.values:
                raise ValueError(f"expected one of {', '.join(self.values)}, got {each!r}")
        return value

    def __repr__(self) -> str:
        several = ", several=True" if self.several else ""
        return f"Choices({self.titles or list(self.values)!r}{several})"


def _list_of_texts(options: Iterable[str]) -> list[str]:
    if isinstance(options, str):
        raise RegistrationError(f"Choices takes a list of texts, not the text {options!r}")
    return list(options)


def restore_order(schemas: list[JsonObject], types: Iterable[object]) -> None:
    """Give the choices within schemas the order that they have in the types described."""
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
