"""The parameters of a function, as a client has to fill them in."""

import inspect as _inspect
import sys
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from accord.errors import RegistrationError
from accord.server.schema.annotations import AnnotationResolver, callable_name, unwrap
from accord.server.schema.conversion import convert, json_default
from accord.server.schema.msgspec_types import annotate, to_msgspec_type, union_of

EMPTY: Final = _inspect.Parameter.empty
_CONTEXT_NAMES: Final = ("ctx", "context")


class ParsedParameter(NamedTuple):
    """A parameter as the function declares it; `key` is its name in JSON."""

    name: str
    key: str
    type: object
    default: object
    factory: Callable[..., object] | UnsetType
    by_name: bool

    @property
    def is_required(self) -> bool:
        return self.default is EMPTY and self.factory is UNSET


class ParsedParameters:
    """The parameters of a function: those that a client fills in, and the context.

    Args:
        function: anything callable.
        context_type: the parameter annotated with it is the context.
        has_schema: whether a schema describes the arguments, so that `**rest` may take some.

    Attributes:
        client_parameters: those that a client fills in.
        order: every parameter by name, and whether it is passed by keyword.
        takes_rest: whether the function takes arguments that it does not name.
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
        self.where = f'function "{callable_name(function)}"'
        _refuse_generators(function, self.where)
        self.context: str | None = None
        self.order: list[tuple[str, bool]] = []
        self.client_parameters: list[ParsedParameter] = []
        self.takes_rest = False
        self.warnings: list[str] = []
        self._has_schema = has_schema
        self._context_type = context_type
        extra = {} if context_type is None else {context_type.__name__: context_type}
        resolver = AnnotationResolver(function, extra)
        hidden = _bound_by_partial(function)
        for parameter in self._parameters_of(function):
            if parameter.name not in hidden:
                self._add(parameter, resolver)

    def _parameters_of(self, function: Callable[..., object]) -> list[_inspect.Parameter]:
        try:
            parameters = list(_inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{self.where} cannot be registered: {error}") from error
        if parameters and parameters[0].name == "self" and parameters[0].annotation is EMPTY:
            raise RegistrationError(
                f'{self.where}: parameter "self" would be asked of the client; register the method '
                "of an instance"
            )
        return parameters

    def _add(self, parameter: _inspect.Parameter, resolver: AnnotationResolver) -> None:
        what = f'parameter "{parameter.name}"'
        if parameter.kind is parameter.VAR_KEYWORD and self._has_schema:
            self.takes_rest = True
            return
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise RegistrationError(
                f'{self.where}: "{parameter}" cannot be described to a client; '
                "give each argument a parameter of its own, or describe them with input_schema"
            )
        annotation = resolver.resolve(parameter.annotation, what)
        self.order.append((parameter.name, parameter.kind is parameter.KEYWORD_ONLY))
        if self._context_type is not None and _is_context(annotation, self._context_type):
            if self.context is not None:
                raise RegistrationError(f"{self.where}: {what} is a second context")
            self.context = parameter.name
            return
        try:
            parsed = _parse(parameter, annotation, resolver.names)
        except RegistrationError as error:
            raise RegistrationError(f"{self.where}: {what}: {error}") from error
        self.client_parameters.append(parsed)
        if parameter.annotation is EMPTY and parameter.name in _CONTEXT_NAMES:
            self.warnings.append(
                f"{what} has no annotation, so clients are asked for it; write "
                f"{parameter.name}: Context if the server is to fill it in"
            )
        elif not _default_fits(parsed):
            self.warnings.append(
                f"{what} has the default {parsed.default!r}, which its type refuses"
            )


def _parse(
    parameter: _inspect.Parameter, annotation: object, names: Mapping[str, object]
) -> ParsedParameter:
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
    type_ = to_msgspec_type(annotation, names=names)
    if default is None and not _takes_none(type_):
        type_ = to_msgspec_type(union_of([annotation, None]), names=names)
    by_name = parameter.kind is parameter.KEYWORD_ONLY
    return ParsedParameter(parameter.name, key, type_, default, factory, by_name)


def _default_fits(parsed: ParsedParameter) -> bool:
    """Tell whether a caller could send the default as well; one without a JSON form always fits."""
    if parsed.default is EMPTY or parsed.default is None or type(parsed.default) is parsed.type:
        return True
    shown = json_default(parsed.default)
    if shown is UNSET:
        return True
    try:
        convert(shown, parsed.type)
    except (msgspec.ValidationError, ValueError):
        return False
    return True


def _takes_none(type_: object) -> bool:
    try:
        convert(None, type_)
    except msgspec.ValidationError:
        return False
    return True


def _is_context(annotation: object, context_type: type) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_context(get_args(annotation)[0], context_type)
    if origin is not None:
        members = [member for member in get_args(annotation) if member is not NoneType]
        if origin is context_type:
            return True
        # `Context | None`; a list of contexts is not one.
        return type(None) in get_args(annotation) and all(
            _is_context(member, context_type) for member in members
        )
    return isinstance(annotation, type) and issubclass(annotation, context_type)


def _bound_by_partial(function: object) -> set[str]:
    """Return the names that partial objects fill in, which clients must not."""
    names: set[str] = set()
    while hasattr(function, "func") and hasattr(function, "keywords"):
        names |= function.keywords.keys()
        function = function.func
    return names


def is_async(function: object) -> bool:
    """Tell whether a call returns an awaitable; a plain decorator passes a coroutine on."""
    return _inspect.iscoroutinefunction(function) or _inspect.iscoroutinefunction(unwrap(function))


def _refuse_generators(function: object, where: str) -> None:
    core = unwrap(function)
    if _inspect.isgeneratorfunction(core) or _inspect.isasyncgenfunction(core):
        raise RegistrationError(f"{where} is a generator; return a list instead")


def doc_of(function: object) -> str | None:
    """Return the docstring of a function; a callable object has that of its class."""
    doc: str | None = unwrap(function).__doc__
    if not doc and not _inspect.isroutine(function):
        doc = type(function).__doc__ if not hasattr(function, "func") else None
    return doc
