"""The parameters of a function, read for a client that will fill them in."""

import inspect as _inspect
import sys
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import msgspec
from msgspec import UNSET

from accord.errors import RegistrationError
from accord.server.schema.annotations import Resolver, callable_name, core_of
from accord.server.schema.conversion import convert, json_default
from accord.server.schema.msgspec_types import constrained, native

__all__ = ["Parameters", "Slot", "doc_of", "is_async"]

EMPTY: Final = _inspect.Parameter.empty
_CONTEXT_NAMES: Final = ("ctx", "context")


class Slot(NamedTuple):
    """A parameter on its way into the struct; `key` is its name on the wire."""

    name: str
    key: str
    type: Any
    default: Any
    factory: Any
    by_name: bool

    @property
    def required(self) -> bool:
        return self.default is EMPTY and self.factory is UNSET


class Parameters:
    """The parameters of a function, sorted into slots and the context.

    Args:
        function: anything callable.
        context_type: the parameter annotated with it is the context.
        has_schema: whether a schema describes the arguments, so that `**rest` may take some.

    Attributes:
        takes_rest: whether the function takes arguments that it does not name.
        warnings: mistakes that do not prevent a call, but that its author would want to know of.
    """

    def __init__(
        self, function: Any, context_type: type | None, *, has_schema: bool = False
    ) -> None:
        if isinstance(function, str):
            raise RegistrationError(
                f"expected a function, got {function!r}; a name is given by keyword, as name=..."
            )
        self.where = f'function "{callable_name(function)}"'
        _refuse_generators(function, self.where)
        self.context: str | None = None
        self.order: list[tuple[str, bool]] = []
        self.slots: list[Slot] = []
        self.takes_rest = False
        self.warnings: list[str] = []
        self._has_schema = has_schema
        self._context_type = context_type
        known = {} if context_type is None else {context_type.__name__: context_type}
        resolver = Resolver(function, known)
        hidden = _bound_by_partial(function)
        for parameter in self._parameters_of(function):
            if parameter.name not in hidden:
                self._add(parameter, resolver)

    def _parameters_of(self, function: Any) -> list[_inspect.Parameter]:
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

    def _add(self, parameter: _inspect.Parameter, resolver: Resolver) -> None:
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
            slot = _slot(parameter, annotation, resolver.names)
        except RegistrationError as error:
            raise RegistrationError(f"{self.where}: {what}: {error}") from error
        self.slots.append(slot)
        if parameter.annotation is EMPTY and parameter.name in _CONTEXT_NAMES:
            self.warnings.append(
                f"{what} has no annotation, so clients are asked for it; write "
                f"{parameter.name}: Context if the server is to fill it in"
            )
        elif not _default_fits(slot):
            self.warnings.append(f"{what} has the default {slot.default!r}, which its type refuses")


def _slot(parameter: _inspect.Parameter, annotation: Any, names: dict[str, Any]) -> Slot:
    default, factory, key = parameter.default, UNSET, parameter.name
    if "pydantic" in sys.modules:
        from accord.server.schema import pydantic_types

        if pydantic_types.is_field(default):
            annotation = constrained(annotation, [default])
            default, factory = pydantic_types.default_of(default)
            default = EMPTY if default is UNSET else default
        key = pydantic_types.alias_of(annotation) or key
    type_ = native(annotation, names=names)
    if default is None and not _takes_none(type_):
        type_ = native(annotation | None, names=names)
    by_name = parameter.kind is parameter.KEYWORD_ONLY
    return Slot(parameter.name, key, type_, default, factory, by_name)


def _default_fits(slot: Slot) -> bool:
    """Tell whether a caller could send the default as well; one without a JSON form always fits."""
    if slot.default is EMPTY or slot.default is None or type(slot.default) is slot.type:
        return True
    shown = json_default(slot.default)
    if shown is UNSET:
        return True
    try:
        convert(shown, slot.type)
    except (msgspec.ValidationError, ValueError):
        return False
    return True


def _takes_none(type_: Any) -> bool:
    try:
        convert(None, type_)
    except msgspec.ValidationError:
        return False
    return True


def _is_context(annotation: Any, context_type: type) -> bool:
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


def _bound_by_partial(function: Any) -> set[str]:
    """Return the names that partial objects fill in; their values are nobody else's business."""
    names: set[str] = set()
    while hasattr(function, "func") and hasattr(function, "keywords"):
        names |= function.keywords.keys()
        function = function.func
    return names


def is_async(function: Any) -> bool:
    """Tell whether a call gives an awaitable; a plain decorator around a coroutine hands it on."""
    return _inspect.iscoroutinefunction(function) or _inspect.iscoroutinefunction(core_of(function))


def _refuse_generators(function: Any, where: str) -> None:
    core = core_of(function)
    if _inspect.isgeneratorfunction(core) or _inspect.isasyncgenfunction(core):
        raise RegistrationError(f"{where} is a generator; return a list instead")


def doc_of(function: Any) -> str | None:
    """Return what was written on the function; an instance has the docstring of its class."""
    doc: str | None = core_of(function).__doc__
    if not doc and not _inspect.isroutine(function):
        doc = type(function).__doc__ if not hasattr(function, "func") else None
    return doc
