"""The results of one server over time, and what changed when."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from accord.types import JsonObject
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.history.catalog_differences import FindChanges
from accord_tools.fleet.history.comparison import ComparisonContext, compare_results
from accord_tools.fleet.history.database import HistoryDatabase
from accord_tools.fleet.history.parts import CatalogPart, RuleSetPart
from accord_tools.fleet.history.storage import RunStorage
from accord_tools.fleet.history.unpacking import unpack_catalog, unpack_result
from accord_tools.fleet.results import RunDifference, ServerResult, TrendPoint


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
