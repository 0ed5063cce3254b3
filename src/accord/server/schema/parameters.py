"""The parameters of a function, as a client has to fill them in."""

import functools
import inspect as _inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from types import FunctionType, MethodType, NoneType
from typing import Annotated, Any, Final, TypeGuard, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import RegistrationError
from accord.server.depends import Dependency, find_dependency
from accord.server.schema.annotations import (
    ANYTHING,
    AnnotationResolver,
    callable_name,
    unwrap,
)
from accord.server.schema.plain import admits_plainly, is_plain, takes_none

EMPTY: Final = _inspect.Parameter.empty
_CONTEXT_NAMES: Final = ("ctx", "context")
_GENERATORS: Final = _inspect.CO_GENERATOR | _inspect.CO_ASYNC_GENERATOR
_WITH_REST: Final = _inspect.CO_VARARGS | _inspect.CO_VARKEYWORDS


class DeclaredParameter(msgspec.Struct, frozen=True):
    """A parameter as the function declares it; `by_name` if it is passed by keyword alone."""

    name: str
    annotation: object
    default: object
    by_name: bool


class ParsedParameter(msgspec.Struct, frozen=True):
    """A parameter that a client fills in; `key` is its name in JSON."""

    name: str
    key: str
    type: object
    default: object
    factory: Callable[..., object] | UnsetType

    @property
    def is_required(self) -> bool:
        return self.default is EMPTY and self.factory is UNSET


def is_bare(function: object) -> TypeGuard[FunctionType]:
    """Tell whether something is a function as `def` makes it, which says all about itself."""
    return type(function) is FunctionType and not function.__dict__


class ParsedParameters:
    """The parameters of a function: those that a client fills in, and the context.

    Args:
        function: anything callable.
        context_type: the parameter annotated with it is the context.
        has_schema: whether a schema describes the arguments, so that `**rest` may take some.

    Attributes:
        client_parameters: those that a client fills in.
        order: every parameter by name, and whether it is passed by keyword.
        dependencies: those that the server fills in, by name.
        takes_rest: whether the function takes arguments that it does not name.
        is_plain: whether all types are plain, so that nothing made of them can fail.
        warnings: mistakes that do not prevent a call, but that its author would want to know of.
    """

    def __init__(
        self,
        function: Callable[..., object],
        context_type: type | None,
        *,
        has_schema: bool = False,
    ) -> None:
        if isinstance(function, str):
            raise RegistrationError(
                f"expected a function, got {function!r}; a name is given by keyword, as name=..."
            )
        self._function = function
        self.context: str | None = None
        self.order: list[tuple[str, bool]] = []
        self.client_parameters: list[ParsedParameter] = []
        self.dependencies: dict[str, Dependency] = {}
        self.takes_rest = False
        self.is_plain = True
        self.warnings: list[str] = []
        self._has_schema = has_schema
        self._context_type = context_type
        _refuse_generators(function, self)
        extra = {} if context_type is None else {context_type.__name__: context_type}
        resolver = AnnotationResolver(function, extra)
        for parameter in self._declared_by(function):
            if not self.order and parameter.name == "self" and parameter.annotation is EMPTY:
                raise RegistrationError(
                    f'{self.where}: parameter "self" would be asked of the client; register the '
                    "method of an instance"
                )
            self._add(parameter, resolver)

    @property
    def where(self) -> str:
        """Names the function in messages."""
        return f'function "{callable_name(self._function)}"'

    def _declared_by(self, function: Callable[..., object]) -> Iterable[DeclaredParameter]:
        if is_bare(function) and not function.__code__.co_flags & _WITH_REST:
            # Ten times faster than a signature.
            return _declared_by_code(function)
        return self._declared_by_signature(function)

    def _declared_by_signature(
        self, function: Callable[..., object]
    ) -> Iterator[DeclaredParameter]:
        try:
            parameters = list(_inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{self.where} cannot be registered: {error}") from error
        hidden = _bound_by_partial(function)
        by_keyword = passed_by_keyword(function, parameters)
        for each in parameters:
            if each.name in hidden:
                continue
            if each.kind is each.VAR_KEYWORD and self._has_schema:
                self.takes_rest = True
            elif each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                raise RegistrationError(
                    f'{self.where}: "{each}" cannot be described to a client; '
                    "give each argument a parameter of its own, or describe them with input_schema"
                )
            else:
                yield DeclaredParameter(
                    each.name, each.annotation, each.default, each.name in by_keyword
                )

    def _add(self, parameter: DeclaredParameter, resolver: AnnotationResolver) -> None:
        name, annotation, default = parameter.name, parameter.annotation, parameter.default
        self.order.append((name, parameter.by_name))
        parsed = _parse_plain(name, ANYTHING if annotation is EMPTY else annotation, default)
        if parsed is None:
            resolved = resolver.resolve(annotation, f'parameter "{name}"')
            if isinstance(annotation, str):
                parsed = _parse_plain(name, resolved, default)
            if parsed is None:
                parsed = self._parse_other(parameter, resolved, resolver)
            if parsed is None:
                return
        self.client_parameters.append(parsed)
        if name in _CONTEXT_NAMES and annotation is EMPTY:
            self.warnings.append(
                f'parameter "{name}" has no annotation, so clients are asked for it; write '
                f"{name}: Context if the server is to fill it in"
            )

    def _parse_other(
        self, parameter: DeclaredParameter, annotation: object, resolver: AnnotationResolver
    ) -> ParsedParameter | None:
        """Parse a parameter that is not plain; None for one that the server fills in."""
        name, what = parameter.name, f'parameter "{parameter.name}"'
        dependency = find_dependency(annotation, parameter.default)
        if dependency is not None:
            self.dependencies[name] = dependency
            return None
        if self._context_type is not None and is_context(annotation, self._context_type):
            if self.context is not None:
                raise RegistrationError(f"{self.where}: {what} is a second context")
            self.context = name
            return None
        try:
            parsed = _parse(parameter, annotation, resolver)
        except RegistrationError as error:
            raise RegistrationError(f"{self.where}: {what}: {error}") from error
        self.is_plain = False
        is_missing = parameter.annotation is EMPTY and name in _CONTEXT_NAMES
        if not is_missing and not _default_fits(parsed):
            self.warnings.append(
                f"{what} has the default {parsed.default!r}, which its type refuses"
            )
        return parsed


def _declared_by_code(function: FunctionType) -> list[DeclaredParameter]:
    """Read the parameters of a bare function without `*` and `**`."""
    code, annotations = function.__code__, function.__annotations__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    first_default = count - len(defaults)
    by_name = function.__kwdefaults__ or {}
    return [
        DeclaredParameter(
            name,
            annotations.get(name, EMPTY),
            (defaults[place - first_default] if place >= first_default else EMPTY)
            if place < count
            else by_name.get(name, EMPTY),
            place >= count,
        )
        for place, name in enumerate(names)
    ]


def _parse_plain(name: str, annotation: object, default: object) -> ParsedParameter | None:
    """Parse a parameter of a plain type whose default, if it has one, surely fits."""
    if not is_plain(annotation):
        return None
    if default is None:
        if not takes_none(annotation):
            annotation = annotation | None  # type: ignore[operator]  # of types
    elif default is not EMPTY and not admits_plainly(annotation, default):
        return None
    return ParsedParameter(name, name, annotation, default, UNSET)


def _parse(
    parameter: DeclaredParameter, annotation: object, resolver: AnnotationResolver
) -> ParsedParameter:
    from accord.server.schema.msgspec_types import annotate, to_msgspec_type, union_of

    default: object = parameter.default
    factory: Callable[..., object] | UnsetType = UNSET
    key = parameter.name
    if "pydantic" in sys.modules:
        from accord.server.schema import pydantic_types

        if pydantic_types.is_field(default):
            annotation = annotate(annotation, [default])
            default, factory = pydantic_types.default_of(default)
            default = EMPTY if default is UNSET else default
        key = pydantic_types.alias_of(annotation) or key
    type_ = to_msgspec_type(annotation, names=resolver.names)
    if default is None and not _fits(None, type_):
        type_ = to_msgspec_type(union_of([annotation, None]), names=resolver.names)
    return ParsedParameter(parameter.name, key, type_, default, factory)


def _default_fits(parsed: ParsedParameter) -> bool:
    """Tell whether a caller could send the default as well; one without a JSON form always fits."""
    from accord.server.schema.conversion import json_default

    if parsed.default is EMPTY or parsed.default is None or type(parsed.default) is parsed.type:
        return True
    shown = json_default(parsed.default)
    return shown is UNSET or _fits(shown, parsed.type)


def _fits(value: object, type_: object) -> bool:
    from accord.server.schema.conversion import convert

    try:
        convert(value, type_)
    except (msgspec.ValidationError, ValueError):
        return False
    return True


def is_context(annotation: object, context_type: type) -> bool:
    """Tell whether a parameter with this annotation takes the context."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_context(get_args(annotation)[0], context_type)
    if origin is not None:
        members = [member for member in get_args(annotation) if member is not NoneType]
        if origin is context_type:
            return True
        # `Context | None`; a list of contexts is not one.
        return type(None) in get_args(annotation) and all(
            is_context(member, context_type) for member in members
        )
    return isinstance(annotation, type) and issubclass(annotation, context_type)


def passed_by_keyword(function: object, parameters: Sequence[_inspect.Parameter]) -> frozenset[str]:
    """Return the names of the parameters that are passed by keyword.

    A wrapper has the parameters of what it wraps (`functools.wraps`), and often takes them by
    `**kwargs` alone. Its own first parameters may have other names, and are passed by position.

    >>> passed_by_keyword(print, [])
    frozenset()
    """
    names = {each.name for each in parameters}
    by_keyword = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    own, bound = _called_function(function)
    if own is not None:
        code = own.__code__
        count = code.co_argcount
        by_keyword |= names & {*code.co_varnames[count : count + code.co_kwonlyargcount]}
        if code.co_flags & _inspect.CO_VARKEYWORDS:
            first = [*takewhile(lambda name: name not in names, code.co_varnames[bound:count])]
            by_keyword |= {
                each.name
                for each in parameters[len(first) :]
                if each.kind is each.POSITIONAL_OR_KEYWORD
            }
    return frozenset(by_keyword)


def _called_function(function: Any) -> tuple[FunctionType | None, int]:
    """Return the function that a call runs first, and how many of its arguments are given."""
    bound = 0
    while not isinstance(function, FunctionType):
        if isinstance(function, functools.partial):
            bound += len(function.args)
            function = function.func
        elif isinstance(function, MethodType):
            bound += 1
            function = function.__func__
        else:
            call = getattr(type(function), "__call__", None)  # noqa: B004  # of its class
            return (call, bound + 1) if isinstance(call, FunctionType) else (None, 0)
    return function, bound


def _bound_by_partial(function: object) -> set[str]:
    """Return the names that partial objects fill in, which clients must not."""
    names: set[str] = set()
    while hasattr(function, "func") and hasattr(function, "keywords"):
        names |= function.keywords.keys()
        function = function.func
    return names


def compile_call(arguments: list[str]) -> Callable[..., Any]:
    """Build a call as one expression, of a function with the arguments that are named.

    It runs for every request, and attributes named in source are read without building a tuple. The
    source contains only names of parameters, which are identifiers.
    """
    return _compile(f"lambda function, bound, context, values=(): function({', '.join(arguments)})")


@functools.cache
def _compile(source: str) -> Callable[..., Any]:
    return eval(source)  # type: ignore[no-any-return]  # noqa: S307  # see compile_call


def is_async(function: object) -> bool:
    """Tell whether a call returns an awaitable; a plain decorator passes a coroutine on."""
    if is_bare(function):
        return bool(function.__code__.co_flags & _inspect.CO_COROUTINE)
    return _inspect.iscoroutinefunction(function) or _inspect.iscoroutinefunction(unwrap(function))


def _refuse_generators(function: object, reader: ParsedParameters) -> None:
    core = function if is_bare(function) else unwrap(function)
    if isinstance(core, FunctionType) and core.__code__.co_flags & _GENERATORS:
        raise RegistrationError(f"{reader.where} is a generator; return a list instead")
