"""Facts about a request that all middleware needs: its target, its tool, its caller."""

import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accord.errors import RegistrationError
from accord.http.rules.addresses import client_network
from accord.protocol.revisions import METHODS
from accord.server import Context
from accord.types import Tool

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.sharing.workers.worker import Worker

AnyContext = Context[Any]
Value = TypeVar("Value")

REQUESTS: Final = frozenset(row.name for row in METHODS if row.is_request and "client" in row.by)


def params_of(ctx: AnyContext) -> Any:
    """Return the params without decoding what nothing has looked at yet.

    In a mounted server they have the names of that server.
    """
    return received_params(ctx) if ctx._params is None else ctx._params


def received_params(ctx: AnyContext) -> Any:
    """Return the params as they were received; in a mounted server, from the one that mounts it."""
    received = getattr(ctx, "_received", None)
    return ctx._exchange.params if received is None else received


def server_of(ctx: AnyContext) -> "ServerCore":
    """Return the server; unlike `ctx.session` it leaves the session free to be used again."""
    return ctx._session.server


def worker_of(ctx: AnyContext) -> "Worker | None":
    """Return the worker that serves a request together with others; None without others."""
    session = ctx._session
    while (outer := getattr(session, "outer", None)) is not None:  # of a mounted server
        session = outer
    return session.server.worker


def target_of(ctx: AnyContext) -> str | None:
    """Return the name of the tool or prompt, or the URI, that a request is about."""
    return _find_target(params_of(ctx))


def _find_target(params: Any) -> str | None:
    params = getattr(params, "ref", params)  # of a completion
    found = getattr(params, "name", None)
    if found is None:
        found = getattr(params, "uri", None)
    return found if isinstance(found, str) else None


def tool_of(ctx: AnyContext) -> Tool | None:
    """Return the tool that a request calls; None if it does not exist, or for another request."""
    if ctx.method != "tools/call":
        return None
    entry = server_of(ctx).tool_entries.get(params_of(ctx).name)
    return None if entry is None else entry.item


def describe(ctx: AnyContext) -> str:
    """Return what a request is about, for a message: `tool add`, `resources/read note://x`."""
    is_mounted = getattr(ctx, "_received", None) is not None
    # The client knows the names of the server that it is connected to.
    target = _find_target(ctx._exchange.params) if is_mounted else target_of(ctx)
    if target is None:
        return ctx.method
    target = target if len(target) <= 100 else f"{target[:100]}..."
    return f"tool {target}" if ctx.method == "tools/call" else f"{ctx.method} {target}"


# -- callers


def session_key(ctx: AnyContext) -> Hashable | None:
    """Return a key of the connection or session; None where each request stands on its own."""
    session = ctx._session
    # By a weak reference: an id would be used again by a later session, for another user.
    return weakref.ref(session) if session.is_lasting else None


def network_of(ctx: AnyContext) -> str | None:
    """Return the address of the client over HTTP, of IPv6 its network.

    Behind a proxy that is not trusted it is the address of the proxy.
    """
    peer = ctx.request.peer
    return None if peer is None else client_network(peer[0])


# -- settings


def check_methods(call: str, methods: Iterable[str]) -> frozenset[str]:
    """Return methods as a set.

    Raises:
        RegistrationError: the protocol has no such request.
    """
    found = frozenset([methods] if isinstance(methods, str) else methods)
    for method in sorted(found - REQUESTS):
        from difflib import get_close_matches

        close = get_close_matches(method, REQUESTS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise RegistrationError(f"{call}: the protocol has no request {method!r}{hint}")
    return found


def check_names(call: str, tools: Iterable[str] | None) -> frozenset[str] | None:
    """Return the names of tools as a set; None stays.

    Raises:
        TypeError: they are not texts.
    """
    if tools is None:
        return None
    found = frozenset([tools] if isinstance(tools, str) else tools)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{call}: tools has {name!r:.80}, expected names of tools")
    return found


def check_count(call: str, name: str, value: Any) -> int:
    """Return a number of things.

    Raises:
        ValueError: it is not 1 or more.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{call}: {name} is {value!r:.80}, expected 1 or more")
    return value


def check_number(call: str, name: str, value: Any, *, least: float = 0.0) -> float:
    """Return a number of a setting.

    Raises:
        ValueError: it is not above the least one.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least < value < float("inf"):
        raise ValueError(f"{call}: {name} is {value!r:.80}, expected a number above {least:g}")
    return float(value)


def check_choice(call: str, by: object, choices: tuple[str, ...]) -> None:
    """Make sure that callers are grouped in a way that exists.

    Raises:
        ValueError: it does not.
    """
    if not callable(by) and by not in choices:
        expected = ", ".join(map(repr, choices))
        raise ValueError(f"{call}: by is {by!r:.80}, expected {expected} or a function of ctx")


def mark_passing(middleware: Callable[..., Value]) -> Callable[..., Value]:
    """Mark middleware that does not look at lists: their pages stay encoded."""
    middleware.passes_results = True  # type: ignore[attr-defined]  # of a function
    return middleware


def is_failed(result: object) -> bool:
    """Whether a result is the error result of a tool."""
    if isinstance(result, dict):  # middleware may answer with one
        return result.get("isError") is True
    return getattr(result, "is_error", False) is True
