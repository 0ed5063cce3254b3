"""How long clients may keep results, where the revision has such hints.

By default a result is out of date at once: how long a list or a resource stays the same is known to
the author alone, and a client that does not listen would miss changes. Lists and `server/discover`
are public by default if every caller gets the same: on a server without authorization, policy,
scopes and middleware, for a caller without name.
"""

from math import isfinite
from typing import TYPE_CHECKING, get_args

import msgspec

from accord.errors import RegistrationError
from accord.types import CacheScope, ReadResourceResult

if TYPE_CHECKING:
    from accord.protocol.exchange import Exchange
    from accord.server.core import ServerCore
    from accord.server.entries.entry import Entry
    from accord.server.session import Session


class CacheHints(msgspec.Struct, frozen=True, kw_only=True):
    """How long clients may keep results, in seconds; 0 means that they ask each time.

    Attributes:
        discover: what the server says of itself.
        tools: a page of the list of tools.
        prompts: a page of the list of prompts.
        resources: a page of the list of resources.
        resource_templates: a page of the list of resource templates.
        reads: the contents of a resource that has no `ttl` of its own.
        scope: "public" if caches may pass results on to other callers, "private" if not. What
            depends on the caller is private in any case. By default only lists and `discover` are
            public, and only if every caller may see them.

    Raises:
        RegistrationError: a value is invalid.
    """

    discover: float = 0.0
    tools: float = 0.0
    prompts: float = 0.0
    resources: float = 0.0
    resource_templates: float = 0.0
    reads: float = 0.0
    scope: CacheScope | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__[:-1]:
            to_milliseconds(getattr(self, name), f"CacheHints: {name}")
        if self.scope is not None:
            check_scope(self.scope, "CacheHints: scope")


def to_milliseconds(seconds: object, where: str) -> int:
    """Return a time to keep results for in the unit of the protocol.

    Raises:
        RegistrationError: it is not a number of seconds.

    >>> to_milliseconds(1.5, "ttl")
    1500
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not isfinite(seconds) or seconds < 0:  # type: ignore[arg-type,operator]
        raise RegistrationError(f"{where} is {seconds!r}, expected seconds, at least 0")
    return round(seconds * 1000)  # type: ignore[operator]


def check_scope(scope: object, where: str) -> None:
    """Refuse what is not a scope of caches.

    Raises:
        RegistrationError: it is neither "public" nor "private".
    """
    if scope not in get_args(CacheScope):
        raise RegistrationError(f"{where} is {scope!r}, expected 'public' or 'private'")


def list_scope(session: "Session", exchange: "Exchange") -> CacheScope:
    """Return whether caches may share a list of which every caller sees the whole."""
    server = session.server
    if server.cache.scope is not None:
        return server.cache.scope
    is_open = server.auth is None and server.access.policy is None
    # Middleware may answer each caller differently.
    if not is_open or server.layers.around(exchange.name):
        return "private"
    return "public" if session.principal_of(exchange) is None else "private"


def add_read_hints(result: ReadResourceResult, entry: "Entry", server: "ServerCore") -> None:
    """Fill in the hints that neither the result nor its resource gives."""
    if result.ttl_ms is None:
        result.ttl_ms = to_milliseconds(server.cache.reads, "reads")
    if result.cache_scope is None and not entry.scopes and server.access.policy is None:
        result.cache_scope = server.cache.scope
