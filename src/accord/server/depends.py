"""`Depends`: parameters that the server fills in, and that clients never see."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

import msgspec

from accord.errors import RegistrationError

Scope: TypeAlias = Literal["request", "session", "server"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


class Dependency(msgspec.Struct, frozen=True):
    """What a parameter depends on: made by a function, once for each scope."""

    function: Callable[..., object]
    scope: Scope


def Depends(function: Callable[..., object], *, scope: Scope = "request") -> Any:  # noqa: N802
    """Let the server fill a parameter in, by the value of a function.

    As `db: Annotated[Database, Depends(open_database)]` or `db: Database = Depends(open_database)`.
    The parameter is not part of the schema, and no client can set it.

    Args:
        function: a function, a generator that yields the value once and cleans up after it, a
            class, or a function that returns a context manager (`@asynccontextmanager`); async or
            not. It may take the `Context`, arguments of the handler by their names, and
            dependencies of its own. For the scope "server" it takes no `Context`, and for the
            scopes "server" and "session" no arguments.
        scope: how long the value is kept: for one "request", one "session" or the "server".

    Raises:
        RegistrationError: the function cannot be called, or the scope does not exist.
    """
    if not callable(function):
        raise RegistrationError(
            f"Depends({function!r:.80}): expected a function or a class, without calling it"
        )
    if scope not in SCOPES:
        raise RegistrationError(f"scope is {scope!r}, expected one of {', '.join(SCOPES)}")
    return Dependency(function, scope)


def find_dependency(annotation: object, default: object) -> Dependency | None:
    """Return what a parameter depends on; None for one that a client fills in."""
    if isinstance(default, Dependency):
        return default
    if get_origin(annotation) is Annotated:
        for each in get_args(annotation)[1:]:
            if isinstance(each, Dependency):
                return each
    return None
