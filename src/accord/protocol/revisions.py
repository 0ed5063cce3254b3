"""The five revisions, each written as what changed since the one before."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from accord.protocol.methods import METHODS
from accord.protocol.revision import Revision
from accord.types._base import RevisionId

Id = TypeVar("Id", bound=str)

R2024_11_05: Final = Revision(id="2024-11-05", methods=METHODS)
R2025_03_26: Final = R2024_11_05.evolve(
    "2025-03-26",
    batching=True,
    streamable_http=True,
)
R2025_06_18: Final = R2025_03_26.evolve("2025-06-18", batching=False, version_header=True)
R2025_11_25: Final = R2025_06_18.evolve("2025-11-25", priming_event=True)
R2026_07_28: Final = R2025_11_25.evolve(
    "2026-07-28",
    handshake=False,
    priming_event=False,
    server_requests=False,
    rounds=True,
    result_type=True,
    cache_hints=True,
    not_found_code=-32602,
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.id: revision
        for revision in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
    }
)

SPOKEN: Final[Mapping[RevisionId, Revision]] = MappingProxyType(
    {row.id: row for row in REVISIONS.values() if row.handshake}
)
"""The revisions that accord can speak, oldest first; of the others it can only judge recordings."""

# Assumed of a peer before it has named a revision.
BEFORE_HANDSHAKE: Final = [*SPOKEN.values()][-1]


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
