"""The five revisions, each written as what changed since the one before."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from accord.protocol.methods import METHODS
from accord.protocol.revision import Revision
from accord.types._base import RevisionId

R2024_11_05: Final = Revision(id="2024-11-05", methods=METHODS, two_endpoints=True)
R2025_03_26: Final = R2024_11_05.evolve(
    "2025-03-26",
    batching=True,
    two_endpoints=False,
    streamable_http=True,
    sessions=True,
    resumable=True,
)
R2025_06_18: Final = R2025_03_26.evolve("2025-06-18", batching=False, version_header=True)
R2025_11_25: Final = R2025_06_18.evolve("2025-11-25", priming_event=True)
R2026_07_28: Final = R2025_11_25.evolve(
    "2026-07-28",
    handshake=False,
    sessions=False,
    resumable=False,
    priming_event=False,
    server_requests=False,
    rounds=True,
    mirrored_headers=True,
    result_type=True,
    cache_hints=True,
    disconnect_cancels=True,
    ids_unique_in="flight",
    not_found_code=-32602,
)

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        revision.id: revision
        for revision in (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)
    }
)

# What is assumed of a peer before it has named a revision: the newest that opens with a handshake.
BEFORE_HANDSHAKE: Final = max(
    (revision for revision in REVISIONS.values() if revision.handshake), key=lambda row: row.id
)


def later_than(id: str) -> list[Revision]:
    """Return the revisions after one, which need not be known."""
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
