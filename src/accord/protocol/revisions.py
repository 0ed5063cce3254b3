"""The revisions of the protocol: a row of features each, and the methods that live in it.

Code asks a feature (`revision.batching`), never a revision id. A revision is written as what
changed since the one before (`evolve`); its method indexes are compiled when first asked for.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from accord.protocol.methods import METHODS, Method
from accord.protocol.violation import CLIENT, SERVER, Party
from accord.types._base import RevisionId

Id = TypeVar("Id", bound=str)


class Phase(Enum):
    """How far a conversation has come. Revisions without handshake are ready from the start."""

    OPENING = "opening"
    NEGOTIATING = "negotiating"
    NEGOTIATED = "negotiated"
    READY = "ready"
    CLOSED = "closed"


class Revision(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A revision of the protocol: its id, its features, its methods."""

    id: RevisionId
    methods: tuple[Method, ...]

    handshake: bool = True
    batching: bool = False
    server_requests: bool = True
    rounds: bool = False
    result_type: bool = False
    cache_hints: bool = False
    tasks: bool = False
    priming_event: bool = False
    streamable_http: bool = False
    version_header: bool = False
    not_found_code: int = -32002
    reserved_codes: bool = False

    def __repr__(self) -> str:
        return f"Revision({self.id!r})"

    def evolve(self, id: RevisionId, **features: Any) -> "Revision":
        """Describe the next revision by what changes."""
        return msgspec.structs.replace(self, id=id, **features)

    @cached_property
    def requests(self) -> dict[Party, dict[str, Method]]:
        """The request methods of this revision by sender and name."""
        return self._index(is_request=True)

    @cached_property
    def notifications(self) -> dict[Party, dict[str, Method]]:
        """The notifications of this revision by sender and name."""
        return self._index(is_request=False)

    def _index(self, *, is_request: bool) -> dict[Party, dict[str, Method]]:
        return {
            party: {
                method.name: method
                for method in self.methods
                if method.is_request is is_request
                and party in method.by
                and self.id in method.lifetime
                and (self.server_requests or party == CLIENT or not is_request)
            }
            for party in (CLIENT, SERVER)
        }

    def needed_for(self, sender: Party, name: str) -> str | None:
        """The capability that the answering party must have declared for a request."""
        return self._needs[sender].get(name)

    @cached_property
    def _needs(self) -> dict[Party, dict[str, str]]:
        return {
            party: {
                name: method.needs
                for name, method in methods.items()
                if method.needs and self.id in method.needs_lifetime
            }
            for party, methods in self.requests.items()
        }


R2024_11_05: Final = Revision(id="2024-11-05", methods=METHODS)
R2025_03_26: Final = R2024_11_05.evolve("2025-03-26", batching=True, streamable_http=True)
R2025_06_18: Final = R2025_03_26.evolve("2025-06-18", batching=False, version_header=True)
R2025_11_25: Final = R2025_06_18.evolve("2025-11-25", priming_event=True, tasks=True)
R2026_07_28: Final = R2025_11_25.evolve(
    "2026-07-28",
    handshake=False,
    priming_event=False,
    tasks=False,
    server_requests=False,
    rounds=True,
    result_type=True,
    cache_hints=True,
    not_found_code=-32602,
    reserved_codes=True,
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.id: revision
        for revision in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
    }
)
"""Every revision, oldest first."""

HANDSHAKE: Final[Mapping[RevisionId, Revision]] = MappingProxyType(
    {row.id: row for row in REVISIONS.values() if row.handshake}
)
"""Those of them that open with `initialize`; in the others each request stands on its own."""

# Assumed of a peer before it has named a revision.
BEFORE_HANDSHAKE: Final = [*HANDSHAKE.values()][-1]


def in_order(ids: Iterable[Id]) -> list[Id]:
    """Sort revision ids, oldest first.

    >>> in_order(["2025-06-18", "2024-11-05"])
    ['2024-11-05', '2025-06-18']
    """
    return sorted(ids)


def newest(ids: Iterable[Id]) -> Id:
    """Return the newest of some revision ids.

    >>> newest({"2025-06-18", "2024-11-05"})
    '2025-06-18'
    """
    return max(ids)


def find_revision(named: object) -> Revision | None:
    """Return the revision that a message names; None if it is not known."""
    return REVISIONS.get(named) if isinstance(named, str) else None


def later_than(id: str) -> list[Revision]:
    """Return the revisions after one, which may be unknown."""
    return [row for row in REVISIONS.values() if row.id > id]


def negotiate(requested: str, supported: Iterable[RevisionId]) -> Revision:
    """Choose what a server answers to `initialize`: the revision asked for, else the newest it has.

    Only revisions with a handshake can be negotiated by one.
    """
    rows = [REVISIONS[id] for id in supported if REVISIONS[id].handshake]
    for row in rows:
        if row.id == requested:  # lifecycle.version.server-echoes
            return row
    if not rows:
        raise ValueError("no supported revision has a handshake")
    return max(rows, key=lambda row: row.id)
