"""Tables of faults: a mutant is a row, named by its keyword."""

from collections.abc import Callable
from functools import wraps
from typing import Any


def named(name: str, fault: Any) -> Any:
    """Return a fault with this name, which is that of its mutant."""
    fault.__name__ = name
    return fault


def faults(register: Callable[[Any], Any], **rows: Any) -> None:
    """Register what breaks one requirement in one way after the other."""
    for name, fault in rows.items():
        register(named(name, fault))


def hook(**changes: Callable[..., Any]) -> Callable[[Any], None]:
    """Return a hook that changes what a carrier does at these places."""

    def hooked(carrier: Any) -> None:
        for name, change in changes.items():
            setattr(carrier, name, change)

    return hooked


def hook_at(place: str, fault: Any) -> Any:
    """Return a hook that has a fault at a place, or the fault itself, which is a hook."""
    return hook(**{place: fault}) if place else fault


def hook_maker(work: Callable[..., None]) -> Callable[..., Callable[[Any], None]]:
    """Let a function whose first parameter is a carrier return a hook, from its other ones."""

    @wraps(work)
    def made(*args: Any, **settings: Any) -> Callable[[Any], None]:
        return lambda carrier: work(carrier, *args, **settings)

    return made


def altering(kind: type[Any], **members: Any) -> type[Any]:
    """Return a client that differs from another in these members."""
    return type(kind.__name__, (kind,), members)


async def nothing(*args: Any, **settings: Any) -> None:
    """Stand for a step that a client leaves out."""
