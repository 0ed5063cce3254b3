"""Who may use what: one decision for lists and for calls.

An entry may need scopes, and a policy of the author's may look at anything. What either denies is
neither listed nor found. Whoever lacks nothing but scopes is told which, unless that is switched
off: clients can then ask for them.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from accord.errors import InvalidParams
from accord.principal import Principal
from accord.protocol.exchange import Exchange
from accord.runtime.dispatcher import Write

if TYPE_CHECKING:
    from accord.server.registry import Registry, Snapshot
    from accord.server.server import Server
    from accord.server.session import Session
    from accord.transports.memory import MemoryWire

__all__ = ["Access", "ActingServer", "Policy", "Scoped", "parse_scopes"]


class Scoped(Protocol):
    """What a policy can look at: a tool, resource, template or prompt as it was registered."""

    @property
    def key(self) -> str:
        """Its name or URI."""

    @property
    def scopes(self) -> frozenset[str]:
        """What a token must allow."""


Policy: TypeAlias = Callable[[Principal | None, Any], bool]
"""Says whether somebody may use an entry, beside the scopes; None is nobody in particular."""


class Access:
    """Decides who may use what.

    Args:
        policy: the author's, beside scopes.
        step_up: whether somebody who lacks scopes is told which.
    """

    def __init__(self, policy: Policy | None = None, *, step_up: bool = True) -> None:
        self.policy = policy
        self.step_up = step_up
        self._limited: dict[str, tuple[Snapshot[Any], bool]] = {}

    def allows(self, principal: Principal | None, entry: Scoped) -> bool:
        """Whether somebody may use an entry."""
        return not _missing(principal, entry) and self._admits(principal, entry)

    def _admits(self, principal: Principal | None, entry: Scoped) -> bool:
        return self.policy is None or bool(self.policy(principal, entry))

    def admits(self, session: "Session", exchange: Exchange, entry: Scoped) -> bool:
        """Whether a request may use an entry.

        Raises:
            InvalidParams: all it lacks are scopes, which are named.
        """
        if not entry.scopes and self.policy is None:
            return True
        principal = session.principal_of(exchange)
        if not self._admits(principal, entry):
            return False
        if not _missing(principal, entry):
            return True
        if not self.step_up:
            return False
        session.forbid(exchange, entry.scopes)
        needed = sorted(entry.scopes)
        raise InvalidParams(
            f"{entry.key[:100]!r} needs a token with the scopes: {' '.join(needed)}",
            data={"error": "insufficient_scope", "scopes": needed},
        )

    def view(
        self, session: "Session", exchange: Exchange, registry: "Registry[Any]"
    ) -> Callable[[Any], bool] | None:
        """Return what says which entries of a registry a request may see; None where all are."""
        if self.policy is None and not self._is_limited(registry):
            return None
        principal = session.principal_of(exchange)
        return lambda entry: self.allows(principal, entry)

    def _is_limited(self, registry: "Registry[Any]") -> bool:
        snapshot = registry.snapshot()
        known = self._limited.get(registry.kind)
        if known is None or known[0] is not snapshot:
            found = any(entry.scopes for _, entry in snapshot.entries)
            self._limited[registry.kind] = known = (snapshot, found)
        return known[1]


def _missing(principal: Principal | None, entry: Scoped) -> frozenset[str]:
    return entry.scopes if principal is None else entry.scopes - principal.scopes


def parse_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return scopes, given one by one or as one text."""
    return frozenset(scopes.split() if isinstance(scopes, str) else scopes)


class ActingServer:
    """A server as one principal sees it from within the same process; for tests."""

    def __init__(self, server: "Server[Any]", principal: Principal) -> None:
        self._server = server
        self._principal = principal

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[object]:
        """Run the server's lifespan."""
        async with self._server.run_lifespan() as state:
            yield state

    def session(self, write: Write, state: object = None) -> "Session":
        """Begin to serve the principal."""
        session = self._server.session(write, state)
        session.principal = self._principal
        return session

    async def connect_memory(self) -> "MemoryWire":
        """Return the client's end of a connection."""
        from accord.transports.memory import MemoryWire

        return MemoryWire(self)
