"""The annotations of whatever can be called, as the types they name.

Annotations may be strings, may name types of the function around, and may stand on a function that
partial objects, methods and decorators hide.
"""

import functools
import inspect
import sys
import types
import typing
from typing import Any

from accord.errors import RegistrationError

__all__ = ["Resolver", "callable_name", "core_of"]


def core_of(function: Any) -> Any:
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


def _has_own_call(function: Any) -> bool:
    return isinstance(getattr(type(function), "__call__", None), types.FunctionType)  # noqa: B004


def callable_name(function: Any) -> str:
    """Return the name that a function was given; a callable object has that of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


class Resolver:
    """Finds what the annotations of one function mean.

    Args:
        function: anything callable.
        known: types by name, for annotations whose import is hidden from run time.

    Attributes:
        names: what annotations there may refer to beside globals.
    """

    def __init__(self, function: Any, known: dict[str, Any]) -> None:
        core = core_of(function)
        self._where = f'function "{callable_name(function)}"'
        self._globals: dict[str, Any] = getattr(core, "__globals__", {})
        self.names = {
            name: type_ for name, type_ in known.items() if name not in self._globals
        } | _surroundings(core)

    def resolve(self, annotation: Any, what: str) -> Any:
        """Return the type that an annotation names.

        Raises:
            RegistrationError: it names nothing that can be found; the message says where.
        """
        if annotation is inspect.Parameter.empty:
            return Any
        if isinstance(annotation, type):
            return annotation
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            return typing.get_type_hints(holder, self._globals, self.names, include_extras=True)[
                "it"
            ]
        except Exception as error:
            shown = (
                annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
            )
            raise RegistrationError(
                f'{self._where}: {what}: the annotation "{shown}" cannot be resolved ({error}); '
                "define or import what it names before the function is registered"
            ) from error


def _surroundings(core: Any) -> dict[str, Any]:
    """Collect the names visible where a function stands: scopes, closure, type parameters."""
    names: dict[str, Any] = {}
    qualname, globals_ = getattr(core, "__qualname__", ""), getattr(core, "__globals__", None)
    frame = sys._getframe() if "." in qualname else None
    while frame is not None:
        scope = frame.f_code.co_qualname
        if frame.f_globals is globals_ and qualname.startswith(f"{scope}."):
            # Frames are met innermost first, and the innermost scope wins.
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    cells = getattr(core, "__closure__", None) or ()
    for name, cell in zip(core.__code__.co_freevars if cells else (), cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
    for parameter in getattr(core, "__type_params__", ()):
        names[parameter.__name__] = parameter
    return names
