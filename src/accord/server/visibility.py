"""Entries that are shown or hidden: for every client, or for one session."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from accord.server.hub import LIST_KINDS, ListKind

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.entries.entry import Entry
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
