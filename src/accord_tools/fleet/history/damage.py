"""Histories that were changed by others: errors say which file is damaged, and what to do."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import msgspec

from accord_tools.fleet.definition import FleetError

T = TypeVar("T", bound=type)

# What stored values of a wrong type, length or form lead to.
_DAMAGE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError),
    *(ValueError, msgspec.MsgspecError),
)
# They work on runs that are known to be whole.
_OTHERS: Final = frozenset({"close", "compare", "save_run"})


def explain_damage(kind: T) -> T:
    """Let the methods that read a history raise a FleetError that names the file."""
    for name, method in list(vars(kind).items()):
        is_read = name == "__init__" or not name.startswith("_")
        if callable(method) and is_read and name not in _OTHERS:
            setattr(kind, name, _with_explanation(method))
    return kind


def _with_explanation(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except FleetError:
            raise
        except _DAMAGE as error:
            raise FleetError(
                f"history {self.place}: is damaged ({type(error).__name__}: {str(error)[:200]}); "
                "restore it from a copy, or move it away to begin a new one"
            ) from error

    return call
