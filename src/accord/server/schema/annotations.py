"""Annotations of functions and of the fields of classes, as the types they name.

`Choices` and `Header` are for use in them.

Annotations may be strings, may name types of an enclosing function, and may stand on a function
behind partial objects, methods and decorators.
"""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET

from accord.errors import RegistrationError
from accord.server.schema.plain import is_plain
from accord.types import JsonObject

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

ANYTHING: Final[object] = Any
"""The type of a parameter or field without annotation."""


def unwrap(function: object) -> object:
    """Return the Python function behind partial objects, methods, callables and decorators."""
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, types.MethodType | staticmethod | classmethod):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(function, type):
            function = inspect.getattr_static(function, "__init__")
        elif not isinstance(function, types.FunctionType) and _has_own_call(function):
            function = type(function).__call__
    return function


def _has_own_call(function: object) -> bool:
    return isinstance(getattr(type(function), "__call__", None), types.FunctionType)  # noqa: B004


def callable_name(function: object) -> str:
    """Return the name that a function was given; a callable object has that of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


class AnnotationResolver:
    """Resolves the annotations of one function.

    Args:
        function: anything callable.
        extra_names: types by name, for annotations that are imported for type checkers only.
    """

    def __init__(self, function: object, extra_names: Mapping[str, object]) -> None:
        self._function = function
        self._extra_names = extra_names

    @functools.cached_property
    def _core(self) -> object:
        return unwrap(self._function)

    @functools.cached_property
    def _globals(self) -> dict[str, object]:
        return getattr(self._core, "__globals__", {})

    @functools.cached_property
    def names(self) -> dict[str, object]:
        """The types that annotations may refer to beside globals; read while it is registered."""
        return {
            name: type_ for name, type_ in self._extra_names.items() if name not in self._globals
        } | _visible_names(self._core)

    def resolve(self, annotation: object, what: str) -> object:
        """Return the type that an annotation names.

        Raises:
            RegistrationError: it names nothing that can be found; the message says where.
        """
        if annotation is inspect.Parameter.empty:
            return ANYTHING
        if isinstance(annotation, type):
            return annotation
        if isinstance(annotation, str):
            try:
                found = eval(_compile(annotation), self._globals, self.names)  # noqa: S307  # as below
            except Exception:
                found = None
            if isinstance(found, type) or is_plain(found):
                # A quarter of the time, and most names are those of classes.
                return found
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            return typing.get_type_hints(holder, self._globals, self.names, include_extras=True)[
                "it"
            ]
        except Exception as error:
            shown = (
                annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
            )
            where = f'function "{callable_name(self._function)}"'
            raise RegistrationError(
                f'{where}: {what}: the annotation "{shown}" cannot be resolved ({error}); '
                "define or import what it names before the function is registered"
            ) from error


@functools.lru_cache(maxsize=256)
def _compile(annotation: str) -> types.CodeType:
    return compile(annotation, "<annotation>", "eval")


def _visible_names(core: object) -> dict[str, object]:
    """Collect the names visible where a function stands: scopes, closure, type parameters."""
    names: dict[str, object] = {}
    qualname, globals_ = getattr(core, "__qualname__", ""), getattr(core, "__globals__", None)
    frame = sys._getframe() if "." in qualname else None
    while frame is not None:
        scope = frame.f_code.co_qualname
        if frame.f_globals is globals_ and qualname.startswith(f"{scope}."):
            # Frames are met innermost first, and the innermost scope wins.
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    cells = getattr(core, "__closure__", None) or ()
    code = getattr(core, "__code__", None)
    for name, cell in zip(code.co_freevars if code and cells else (), cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    for parameter in getattr(core, "__type_params__", ()):
        names[parameter.__name__] = parameter
    return names


# -- choices


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
        default: what is chosen to begin with, a value or a list of several, where `Choices` itself
            is asked for; in `Annotated` the parameter or field has the default.
    """

    def __init__(
        self,
        options: Mapping[str, str] | Iterable[str],
        *,
        several: bool = False,
        default: str | list[str] | None = None,
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
        self.default = default
        if default is not None:
            self._check_default(default)

    def _check_default(self, default: str | list[str]) -> None:
        if isinstance(default, list) is not self.several:
            expected = "a list" if self.several else "one value"
            raise RegistrationError(f"the default of Choices is {default!r}, expected {expected}")
        for each in default if isinstance(default, list) else [default]:
            if each not in self.values:
                raise RegistrationError(f"the default {each!r} is not among the choices")

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


# -- headers


class Header:
    """The HTTP header that repeats an argument of a tool, so that gateways can route by it.

        region: Annotated[str, Header("Region")]  # as Mcp-Param-Region

    Clients of 2026-07-28 send it beside the argument, and calls in which the two differ are
    refused. The argument is a string, an integer or a boolean.

    Args:
        name: the part of the header's name after `Mcp-Param-`; unique within the tool.
    """

    def __init__(self, name: str) -> None:
        from accord.protocol.syntax import is_http_token

        if not is_http_token(name):
            raise RegistrationError(f"Header takes letters, digits and hyphens, got {name!r:.60}")
        self.name = name

    @property
    def schema(self) -> JsonObject:
        """What the schema of the argument says of it."""
        return {"x-mcp-header": self.name}

    def __get_pydantic_json_schema__(
        self, schema: "CoreSchema", handler: "Callable[[CoreSchema], JsonObject]"
    ) -> JsonObject:
        """Let models of pydantic name the header."""
        return {**handler(schema), **self.schema}

    def __repr__(self) -> str:
        return f"Header({self.name!r})"


# -- fields of classes


class Field(msgspec.Struct, frozen=True):
    """A field of a class; `key` is its name in JSON."""

    name: str
    key: str
    type: object
    is_required: bool = True
    default: object = UNSET


def class_of(type_: object) -> type[Any]:
    """Return a class itself, or the class that a generic alias such as `Page[int]` is made of.

    Raises:
        TypeError: it is something else.
    """
    cls = get_origin(type_) or type_
    if not isinstance(cls, type):
        raise TypeError(f"{cls!r} is not a class")
    return cls


def is_structured(cls: object) -> bool:
    """Tell whether something is a class with named fields."""
    if not isinstance(cls, type):
        return False
    return (
        issubclass(cls, msgspec.Struct)
        or hasattr(cls, "__dataclass_fields__")
        or typing.is_typeddict(cls)
        or hasattr(cls, "__attrs_attrs__")
        or is_named_tuple(cls)
    )


def is_named_tuple(cls: object) -> bool:
    """Tell whether something is a class of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def key_of(type_: object) -> Hashable:
    """Return a dictionary key for a type; metadata in it need not be hashable."""
    try:
        hash(type_)
    except TypeError:
        return repr(type_)
    return type_


def authored_doc(cls: type) -> str | None:
    """Return the docstring that the author wrote; dataclasses and named tuples generate one."""
    doc = cls.__doc__
    return None if doc is None or doc.startswith(f"{cls.__name__}(") else doc


def fields_of(type_: object, names: Mapping[str, object]) -> Iterable[Field]:
    """Read the fields of a class, or of a generic class with type arguments.

    Args:
        type_: a structured class.
        names: the types that annotations in it may refer to beside globals.
    """
    cls = class_of(type_)
    hints = _field_types(type_, cls, names)
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
                hint = hints.get(each.name, ANYTHING)
                yield Field(each.alias, each.name, hint, not has_default, default)
    else:
        defaults = cls._field_defaults
        for name in cls._fields:
            default = defaults.get(name, UNSET)
            yield Field(name, name, hints.get(name, ANYTHING), name not in defaults, default)


def _struct_fields(cls: type[msgspec.Struct], hints: dict[str, object]) -> Iterable[Field]:
    required = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    defaults = (*[NODEFAULT] * required, *cls.__struct_defaults__)
    fields = zip(cls.__struct_fields__, cls.__struct_encode_fields__, defaults, strict=True)
    for name, key, default in fields:
        # Keyword-only fields stand among the defaults too.
        yield Field(name, key, hints[name], default is NODEFAULT, _listed_default(default))


def _listed_default(default: object) -> object:
    is_factory = type(default).__module__ == "msgspec._core"
    return UNSET if default is NODEFAULT or is_factory else default


def _dataclass_fields(cls: type[Any], hints: dict[str, object]) -> Iterable[Field]:
    from dataclasses import MISSING, fields  # loaded already, where there is one

    for field in fields(cls):
        if field.init:
            is_required = field.default is MISSING and field.default_factory is MISSING
            default = UNSET if field.default is MISSING else field.default
            yield Field(field.name, field.name, hints[field.name], is_required, default)


# Type variables


def _field_types(type_: object, cls: type, names: Mapping[str, object]) -> dict[str, object]:
    hints = typing.get_type_hints(cls, localns=dict(names), include_extras=True)
    arguments: dict[object, dict[object, object]] = {}
    _collect_arguments(type_, {}, arguments)
    if not arguments:
        return hints
    # A variable may stand for one type in a class and for another in its base.
    owners = {
        name: each
        for each in reversed(cls.__mro__)
        for name in vars(each).get("__annotations__", ())
    }
    return {
        name: substitute(hint, arguments.get(owners.get(name, cls), {}))
        for name, hint in hints.items()
    }


def _collect_arguments(
    type_: object, around: Mapping[object, object], found: dict[object, dict[object, object]]
) -> None:
    """Find the type arguments of a class and of its bases."""
    cls = get_origin(type_) or type_
    variables = getattr(cls, "__parameters__", ())
    given = [substitute(each, around) for each in get_args(type_)]
    arguments = dict(zip(variables, given, strict=False))
    if arguments:
        found.setdefault(cls, arguments)
    for base in getattr(cls, "__orig_bases__", ()):
        if get_origin(base) is not typing.Generic:
            _collect_arguments(base, arguments, found)


def substitute(hint: object, arguments: Mapping[object, object]) -> object:
    """Replace type variables by their type arguments."""
    if isinstance(hint, typing.TypeVar):
        return arguments.get(hint, hint)
    variables = getattr(hint, "__parameters__", ()) if get_origin(hint) is not None else ()
    if not variables:
        return hint
    generic: Any = hint
    return generic[tuple(arguments.get(each, each) for each in variables)]
