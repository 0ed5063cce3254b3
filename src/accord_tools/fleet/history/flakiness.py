"""Flaky requirements: their verdicts change although nothing else did."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import RevisionId
from accord_tools.fleet.results import FleetRun

# A verdict that changed this often, within the runs that are looked at, changes by chance.
_CHANGES: Final = 3


class ServerObservation(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of one run, and what could explain that they differ from another's.

    Attributes:
        server_version: as the server says.
        catalog: the digest of what it offers.
        rules: the digest of the set of rules.
        accord: the version of accord.
        revisions: that were checked.
        verdicts: by requirement.
    """

    server_version: str
    catalog: str
    rules: str
    accord: str
    revisions: tuple[RevisionId, ...]
    verdicts: Mapping[str, VerdictName]

    def is_like(self, other: "ServerObservation") -> bool:
        """Return whether nothing explains a difference of verdicts."""
        return (
            self.server_version == other.server_version
            and self.catalog == other.catalog
            and self.rules == other.rules
            and self.accord == other.accord
            and self.revisions == other.revisions
        )


def observe(run: FleetRun, server: str) -> Iterator[ServerObservation]:
    """Yield what a run that is not saved yet says about a server, if it checked it."""
    for each in run.results:
        if each.name == server and each.verdicts and not each.reused_from:
            yield ServerObservation(
                server_version=each.server_version,
                catalog="" if each.catalog is None else each.catalog.digest,
                rules=run.rules.digest,
                accord=run.accord,
                revisions=each.revisions,
                verdicts=each.verdicts,
            )


def find_flaky(observations: Sequence[ServerObservation]) -> tuple[str, ...]:
    """Return the requirements whose verdicts change by chance.

    Args:
        observations: of one server, in the order of time.
    """
    changes: Counter[str] = Counter()
    for before, after in pairwise(observations):
        if before.is_like(after):
            both = before.verdicts.keys() & after.verdicts.keys()
            changes.update(id for id in both if before.verdicts[id] != after.verdicts[id])
    return tuple(sorted(id for id, count in changes.items() if count >= _CHANGES))
