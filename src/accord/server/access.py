"""Access of principals to tools, resources and prompts, decided alike for lists and calls.

An entry may need scopes, and the author's policy may decide by anything else. Entries that either
denies are neither listed nor found. A caller that lacks nothing but scopes gets an error that names
them, unless that is switched off, so that a client can ask for them.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from accord.errors import InvalidParams
from accord.principal import Principal
from accord.protocol.exchange import Exchange
from accord.runtime.handlers import Write
from accord.server.hub import LIST_KINDS, ListKind

if TYPE_CHECKING:
    from accord.runtime.wire import MemoryWire
    from accord.server.core import ServerCore
    from accord.server.entries.entry import Entry
    from accord.server.entries.registry import Registry, Snapshot
    from accord.server.session import Session


class _Rule(msgspec.Struct, frozen=True):
    shows: bool
    names: frozenset[str]
    tags: frozenset[str]
    kind: ListKind | None

    def decides_for(self, other: "_Rule") -> bool:
        """Whether it matches the same entries as another rule."""
        return (self.names, self.tags, self.kind) == (other.names, other.tags, other.kind)

    def matches(self, entry: "Entry") -> bool:
        if self.kind is not None and self.kind != entry.list_kind:
            return False
        return entry.key in self.names or not self.tags.isdisjoint(entry.tags)


class Visibility:
    """Rules that show or hide entries by name or tag; the last one that matches decides."""

    def __init__(self, rules: Iterable[_Rule] = ()) -> None:
        self._rules = tuple(rules)

    def decide(self, entry: "Entry") -> bool | None:
        """Whether an entry is shown; None where no rule matches."""
        for rule in reversed(self._rules):
            if rule.matches(entry):
                return rule.shows
        return None

    def with_rule(
        self,
        server: "ServerCore",
        names: tuple[str, ...],
        tags: Iterable[str],
        kind: ListKind | None,
        *,
        shows: bool,
    ) -> "Visibility":
        """Return these rules and one more.

        Raises:
            ValueError: it names nothing, or a kind that does not exist.
            KeyError: no entry has one of the names.
        """
        call = "show" if shows else "hide"
        wanted = frozenset([tags] if isinstance(tags, str) else tags)
        if not names and not wanted:
            raise ValueError(f"{call}() needs a name or tags, as {call}(tags={{'admin'}})")
        if kind is not None and kind not in LIST_KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(LIST_KINDS)}")
        known = {entry.key for entry in _entries(server) if kind in (None, entry.list_kind)}
        for name in names:
            if name not in known:
                raise KeyError(f"{call}(): no {kind or 'entry'} is registered as {name!r}")
        rule = _Rule(shows, frozenset(names), wanted, kind)
        # A rule that decides for the same entries as an earlier one replaces it, so that a session
        # that shows and hides all day does not grow.
        kept = [each for each in self._rules if not rule.decides_for(each)]
        return Visibility((*kept, rule))

    def encode(self) -> bytes:
        """Return the rules as bytes, for other workers."""
        return msgspec.msgpack.encode(self._rules)

    @classmethod
    def decode(cls, rules: bytes) -> "Visibility":
        """Return rules that another worker has encoded."""
        return cls(msgspec.msgpack.decode(rules, type=list[_Rule]))


NO_RULES: Final = Visibility()


def is_shown(entry: "Entry", *rules: Visibility | None) -> bool:
    """Whether an entry is shown by rules of which the first that decide count; else it is."""
    for each in rules:
        shown = None if each is None else each.decide(entry)
        if shown is not None:
            return shown
    return True


def changed_kinds(
    server: "ServerCore", old: tuple[Visibility | None, ...], new: tuple[Visibility | None, ...]
) -> list[ListKind]:
    """Return the lists that look different by new rules."""
    changed = {
        entry.list_kind
        for entry in _entries(server)
        if is_shown(entry, *old) is not is_shown(entry, *new)
    }
    return [kind for kind in LIST_KINDS if kind in changed]


def set_visible(
    session: "Session",
    names: tuple[str, ...],
    tags: Iterable[str],
    kind: ListKind | None,
    *,
    shows: bool,
) -> None:
    """Show or hide entries for one session; its client is notified of the lists that change."""
    server, old = session.server, session.visibility
    new = (old or NO_RULES).with_rule(server, names, tags, kind, shows=shows)
    session.visibility = new
    common = server.access.visibility
    for changed in changed_kinds(server, (old, common), (new, common)):
        session.list_changed(changed)


def _entries(server: "ServerCore") -> "Iterator[Entry]":
    resources = server.resource_entries
    for registry in (
        server.tool_entries,
        server.prompt_entries,
        resources.fixed,
        resources.templates,
    ):
        yield from registry


Policy: TypeAlias = Callable[[Principal | None, Any], bool]
"""Says whether a principal may use an entry, beside its scopes; None is a caller without token."""


class Access:
    """Decides which entries a principal may use.

    Args:
        policy: the author's, beside scopes.
        step_up: whether the error for missing scopes names them.

    Attributes:
        is_open: whether nothing but scopes decides, unless a session shows or hides something.
    """

    def __init__(self, policy: Policy | None = None, *, step_up: bool = True) -> None:
        self.policy = policy
        self.step_up = step_up
        self.visibility = NO_RULES
        self.is_open = policy is None
        self._facts: dict[str, tuple[Snapshot, tuple[frozenset[str], bool]]] = {}

    def allows(self, principal: Principal | None, entry: "Entry") -> bool:
        """Whether a principal may use an entry."""
        if _missing_scopes(principal, entry) or not is_shown(entry, self.visibility):
            return False
        return self._policy_allows(principal, entry)

    def _policy_allows(self, principal: Principal | None, entry: "Entry") -> bool:
        return self.policy is None or bool(self.policy(principal, entry))

    def set_visibility(self, rules: Visibility) -> None:
        """Show and hide entries for every session, unless it has rules of its own."""
        self.visibility = rules
        self.is_open = self.policy is None and rules is NO_RULES

    def _shows(self, session: "Session", exchange: Exchange, entry: "Entry") -> bool:
        # tools.list.not-per-connection: where there is no session, each request sees the same.
        own = session.visibility if exchange.revision.handshake else None
        return is_shown(entry, own, self.visibility)

    def admits(self, session: "Session", exchange: Exchange, entry: "Entry") -> bool:
        """Whether a request may use an entry.

        Raises:
            InvalidParams: only scopes are missing; the message names them.
        """
        if not entry.scopes and self.is_open and session.visibility is None:
            return True
        principal = session.principal_of(exchange)
        if not self._shows(session, exchange, entry) or not self._policy_allows(principal, entry):
            return False
        if not _missing_scopes(principal, entry):
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
        self, session: "Session", exchange: Exchange, registry: "Registry"
    ) -> Callable[[Any], bool] | None:
        """Return a filter of the entries that a request may see; None if it may see all."""
        if self.is_open and session.visibility is None:
            scopes, is_guarded = self._facts_of(registry)
            if not scopes and not is_guarded:
                return None
        return lambda entry: (
            self.shows(session, exchange, entry) and entry.is_visible(session, exchange)
        )

    def shows(self, session: "Session", exchange: Exchange, entry: "Entry") -> bool:
        """Whether a request may see an entry."""
        principal = session.principal_of(exchange)
        return (
            not _missing_scopes(principal, entry)
            and self._shows(session, exchange, entry)
            and self._policy_allows(principal, entry)
        )

    def _facts_of(self, registry: "Registry") -> tuple[frozenset[str], bool]:
        """Return the scopes that entries need, and whether a mounted server guards any of them."""
        snapshot = registry.snapshot()
        known = self._facts.get(registry.kind)
        if known is None or known[0] is not snapshot:
            scopes = frozenset(scope for _, entry in snapshot for scope in entry.scopes)
            facts = scopes, any(entry.is_guarded for _, entry in snapshot)
            self._facts[registry.kind] = known = (snapshot, facts)
        return known[1]

    def offered_scopes(self, *registries: "Registry") -> frozenset[str]:
        """Return the scopes that entries need; none where the error does not name them either."""
        if not self.step_up:
            return frozenset()
        return frozenset().union(*(self._facts_of(each)[0] for each in registries))


def _missing_scopes(principal: Principal | None, entry: "Entry") -> frozenset[str]:
    return entry.scopes if principal is None else entry.scopes - principal.scopes


# Shared by all entries without scopes or tags: an empty set of its own takes 216 bytes.
_NOTHING: Final[frozenset[str]] = frozenset()


def parse_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return a set of scopes, given as a collection or as one text with spaces."""
    return frozenset(scopes.split() if isinstance(scopes, str) else scopes) or _NOTHING


def parse_tags(tags: Iterable[str]) -> frozenset[str]:
    """Return a set of tags, given as a collection or as one text."""
    return frozenset([tags] if isinstance(tags, str) else tags) or _NOTHING


class ActingServer:
    """A server as one principal sees it from within the same process; for tests."""

    def __init__(self, server: "ServerCore", principal: Principal) -> None:
        self._server = server
        self._principal = principal

    def open_lifespan(self) -> AbstractAsyncContextManager[object]:
        """Run the server's lifespan."""
        return self._server.open_lifespan()

    def session(self, write: Write, state: object = None) -> "Session":
        """Open a session of the principal."""
        session = self._server.session(write, state)
        session.principal = self._principal
        return session

    async def connect_memory(self) -> "MemoryWire":
        """Return the client's end of a connection."""
        from accord.runtime.wire import MemoryWire

        return MemoryWire(self)
