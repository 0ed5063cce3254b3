"""The results of one server over time, and what changed when."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Final

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import JsonObject, RevisionId
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.history.comparison import ComparisonContext, FindChanges, compare_results
from accord_tools.fleet.history.database import HistoryDatabase
from accord_tools.fleet.history.packing import (
    CatalogPart,
    RuleSetPart,
    unpack_catalog,
    unpack_result,
)
from accord_tools.fleet.history.storage import RunStorage
from accord_tools.fleet.results import FleetRun, RunDifference, ServerResult, TrendPoint


class PastResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a server, and how it differs from the one before it."""

    point: TrendPoint
    server_version: str = ""
    commit: str = ""
    is_finished: bool = True
    reasons: tuple[str, ...] = ()
    differences: tuple[RunDifference, ...] = ()


class ServerPast(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one server over time, the oldest first."""

    name: str
    first_seen: str
    owner: str
    tags: tuple[str, ...]
    flaky: tuple[str, ...]
    results: tuple[PastResult, ...]


def as_point(row: Any) -> TrendPoint:
    """Return a row of a result, joined with that of its run, as a point of a trend."""
    return TrendPoint(
        run=row["run"],
        started=row["started"],
        rules=row["rules_version"],
        state=row["state"],
        failures=row["failures"],
        warnings=row["warnings"],
        exercised=row["exercised"],
        applicable=row["applicable"],
        score=row["score"],
        start=None if row["start_ms"] is None else row["start_ms"] / 1000,
        is_reused=bool(row["reused_from"]),
    )


class PastReader:
    """Reads the results of a server, and compares each with the one before it."""

    def __init__(
        self, db: HistoryDatabase, storage: RunStorage, find_changes: FindChanges | None
    ) -> None:
        self._db = db
        self._storage = storage
        self._find_changes = find_changes

    def read(self, name: str, limit: int, flaky: tuple[str, ...]) -> ServerPast:
        """Return the newest results of a server.

        Raises:
            FleetError: the history has no such server.
        """
        row = self._db.row("SELECT * FROM server WHERE name = ?", name)
        if row is None:
            raise FleetError(f"the history has no server {name!r}{self._suggest(name)}")
        return ServerPast(
            name=name,
            first_seen=row["first_seen"],
            owner=row["owner"],
            tags=msgspec.json.decode(row["tags"], type=tuple[str, ...]),
            flaky=flaky,
            results=tuple(self._results(name, limit)),
        )

    def _suggest(self, name: str) -> str:
        known = [row["name"] for row in self._db.rows("SELECT name FROM server ORDER BY name")]
        close = get_close_matches(name, known, n=3)
        if close:
            return f"; did you mean {' or '.join(close)}?"
        return f"; it has {', '.join(known[:20])}" if known else "; it has no servers yet"

    def _results(self, name: str, limit: int) -> Iterator[PastResult]:
        rows = self._db.rows(
            """SELECT result.*, run.started, run.accord, run.rules_version, run.git_commit,
                run.is_finished, rule_set.digest AS rules
            FROM result JOIN run ON run.id = result.run JOIN rule_set ON rule_set.id = run.rules
            WHERE result.server = (SELECT id FROM server WHERE name = ?)
            ORDER BY run.id DESC LIMIT ?""",
            name,
            limit + 1,  # the oldest one is only there to compare with
        )
        packed = dict(self._storage.results(name, "run.id >= ?", rows[-1]["run"] if rows else 0))
        before: tuple[ServerResult, Any] | None = None
        for position, row in enumerate(reversed(rows)):
            after = unpack_result(packed[row["run"]], self._storage.part)
            if position or len(rows) <= limit:
                yield PastResult(
                    point=as_point(row),
                    server_version=after.server_version,
                    commit=row["git_commit"],
                    is_finished=bool(row["is_finished"]),
                    reasons=after.reasons,
                    differences=() if before is None else self._compare(*before, after, row),
                )
            before = after, row

    def _compare(
        self, old: ServerResult, old_run: Any, new: ServerResult, new_run: Any
    ) -> tuple[RunDifference, ...]:
        is_same = old_run["rules"] == new_run["rules"]
        context = ComparisonContext(
            rules=None if is_same else self._ids(old_run) & self._ids(new_run),
            has_same_rules=is_same,
            has_same_accord=old_run["accord"] == new_run["accord"],
            catalogs=self._catalog,
            find_changes=self._find_changes,
        )
        return tuple(compare_results(old, new, context))

    def _ids(self, run: Any) -> frozenset[str]:
        found = self._storage.part(run["rules"], RuleSetPart)
        return frozenset() if found is None else frozenset(found.sorted_ids)

    def _catalog(self, digest: str) -> JsonObject | None:
        found = self._storage.part(digest, CatalogPart)
        return None if found is None else unpack_catalog(found)


# -- flaky requirements: their verdicts change although nothing else did

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
