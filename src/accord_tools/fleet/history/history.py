"""The history of a fleet: runs are saved, found again, compared and pruned."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from accord.types import JsonObject
from accord_tools.fleet.definition import DEFAULT_HISTORY, FleetError
from accord_tools.fleet.history.comparison import FindChanges, compare_runs, name_run
from accord_tools.fleet.history.database import HistoryDatabase, explain_damage
from accord_tools.fleet.history.json_lines import ENDING, HistoryHeader, HistoryLine, HistoryLines
from accord_tools.fleet.history.packing import (
    TRAVELLING,
    CatalogPart,
    PackedResult,
    PackedRun,
    Packer,
    ReportPart,
    RuleSetPart,
    VerdictPart,
    WordingPart,
    unpack_catalog,
    unpack_comparison,
    unpack_details,
    unpack_letters,
    unpack_report,
    unpack_result,
    unpack_rules,
    unpack_run,
)
from accord_tools.fleet.history.past import (
    PastReader,
    ServerObservation,
    ServerPast,
    as_point,
    find_flaky,
    observe,
)
from accord_tools.fleet.history.storage import RunStorage
from accord_tools.fleet.history.summaries import (
    PruneReport,
    ReusableResult,
    RunSummary,
    as_summary,
    escape_surrogates,
    fleet_key,
    read_moment,
)
from accord_tools.fleet.results import (
    FleetRun,
    FleetView,
    RunComparison,
    ServerDocuments,
    ServerTiming,
    TrendPoint,
)
from accord_tools.fleet.rule_set import RuleSet

MEMORY: Final = ":memory:"
_ADVICE: Final = "accord fleet history lists the runs"


def default_history(file: Path) -> Path:
    """Return where the history of a fleet file is, unless another place is named."""
    return file.parent / DEFAULT_HISTORY


def open_history(path: Path | str | None, *, must_exist: bool = False) -> "History":
    """Open the history in a file, and create it if it is missing.

    Args:
        path: a SQLite file, or one of JSON lines if it ends in `.jsonl`; ":memory:" or None keeps
            runs only as long as the history is open.
        must_exist: refuses a missing file.

    Raises:
        FleetError: the file cannot be used; says why, and what to do.
    """
    if path is None or str(path) == MEMORY:
        return History(HistoryDatabase(None))
    path = Path(path)
    if must_exist and not path.exists():
        raise FleetError(f"history {path}: there is no such file yet; accord fleet run makes it")
    if path.suffix == ENDING:
        return History(HistoryDatabase(None), HistoryLines(path))
    return History(HistoryDatabase(path))


@explain_damage
class History:
    """The runs of a fleet, and what can be learned from them; made by `open_history`.

    Attributes:
        place: the file.
        notes: remarks on it, such as a last line that was cut off.
    """

    def __init__(self, db: HistoryDatabase, lines: HistoryLines | None = None) -> None:
        self._db = db
        self._storage = RunStorage(db)
        self._lines = lines
        self.place = str((db.path if lines is None else lines.path) or MEMORY)
        if lines is not None:
            with db.transaction():
                self._load(lines.read(), lines.notes)
        self.notes: tuple[str, ...] = () if lines is None else tuple(lines.notes)

    def _load(self, lines: Iterable[HistoryLine], notes: list[str]) -> None:
        last = 0
        for each in lines:
            if isinstance(each, HistoryHeader):
                continue
            if not self._storage.has_parts_of(each):
                if isinstance(each, PackedRun):
                    notes.append(
                        f"the run of {each.started} is left out: a line it refers to is missing"
                    )
                continue
            if isinstance(each, PackedRun):
                # Two runs that were appended at once have the same id.
                last = max(each.id, last + 1)
                self._storage.add_run(msgspec.structs.replace(each, id=last))
            else:
                self._storage.add_part(each)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- runs

    def save_run(self, view: FleetView, rules: RuleSet, *, is_finished: bool = True) -> int:
        """Save a run, all of it or nothing; return its id.

        Args:
            view: the run, how it was compared, and the documents of its servers.
            rules: by which it was judged.
            is_finished: whether it reached all servers; others are never compared with.

        Raises:
            FleetError: it cannot be written; says why.
        """
        packer = Packer(rules)
        try:
            run = packer.pack(view, is_finished=is_finished)
        except UnicodeEncodeError:
            # Names of files may have bytes that are not characters.
            run = packer.pack(escape_surrogates(view), is_finished=is_finished)
        with self._db.transaction():
            new = [each for each in packer.parts.values() if not self._storage.has_part(each)]
            for each in new:
                self._storage.add_part(each)
            id = self._storage.add_run(run)
            if self._lines is not None:
                travelling = [each for each in new if isinstance(each, TRAVELLING)]
                self._lines.append([*travelling, run.without_reports(id)])
        return id

    def load_run(self, id: int) -> FleetRun:
        """Return a run.

        Raises:
            FleetError: there is no such run, or it cannot be read.
        """
        packed = self._storage.run(id)
        if packed is None:
            raise FleetError(f"there is no run {id} in the history; {_ADVICE}")
        return unpack_run(packed, self._storage.part)

    def comparison(self, id: int) -> RunComparison | None:
        """Return how a run was compared when it was made; None if it was not."""
        packed = self._storage.run(id)
        return None if packed is None else unpack_comparison(packed)

    def rule_ids(self, run: int) -> frozenset[str]:
        """Return the ids of the rules that a run was judged by; empty if it is not known."""
        digest = self._db.value(
            """SELECT rule_set.digest FROM run JOIN rule_set ON rule_set.id = run.rules
            WHERE run.id = ?""",
            run,
        )
        return self._find_rules(digest or "")

    def _find_rules(self, digest: str) -> frozenset[str]:
        found = self._storage.part(digest, RuleSetPart)
        return frozenset() if found is None else unpack_rules(found).ids

    def last_run(
        self, fleet: str = "", file: str = "", branch: str = "", names: Collection[str] = ()
    ) -> FleetRun | None:
        """Return the newest finished run to compare with: of the same branch, else of any.

        Args:
            fleet: the name of the fleet; without one, `file` tells fleets apart.
            file: the fleet file; only its name counts.
            branch: of the repository.
            names: servers that the run must not have left out.
        """
        asked = frozenset(names)
        fitting = [
            row
            for row in self._finished_runs(fleet, file)
            if asked.isdisjoint(msgspec.json.decode(row["left_out"]))
        ]
        same = [row for row in fitting if row["git_branch"] == branch] or fitting
        # A run with --skip check says nothing about failures, and would hide new ones.
        found = next((row for row in same if row["is_checked"]), next(iter(same), None))
        return None if found is None else self.load_run(found["id"])

    def _finished_runs(self, fleet: str, file: str) -> list[Any]:
        """Return the rows of the finished runs of a fleet, the newest first."""
        rows = self._db.rows(
            """SELECT id, fleet, file, git_branch, left_out, started,
                coalesce((SELECT max(applicable) FROM result
                WHERE run = run.id AND state IN ('ok', 'failed')), 1) > 0 AS is_checked
            FROM run WHERE is_finished ORDER BY id DESC"""
        )
        wanted = fleet_key(fleet, file)
        return [row for row in rows if not wanted or wanted == fleet_key(row["fleet"], row["file"])]

    def find_run(self, text: str, fleet: str = "", file: str = "") -> FleetRun:
        """Return the run that a user named.

        Args:
            text: a number, "last", "branch:NAME", or a date as in 2026-11-16 or 2026-11-16T08:02;
                all but a number name the newest finished run that fits.
            fleet: as in `last_run`.
            file: likewise.

        Raises:
            FleetError: no run fits.
        """
        if text.isascii() and text.isdigit():
            return self.load_run(int(text))
        rows = self._finished_runs(fleet, file)
        kind, colon, branch = text.partition(":")
        if text == "last":
            why = "no run has been finished yet"
        elif kind == "branch" and colon:
            rows = [row for row in rows if row["git_branch"] == branch]
            why = f"there is no finished run of the branch {branch}"
        elif text[:4].isdigit() and text[4:5] == "-":
            moment = text.replace(" ", "T")
            rows = [row for row in rows if row["started"].startswith(moment)]
            why = f"there is no finished run of {text}"
        else:
            raise FleetError(
                f"{text!r} does not name a run: write its number, last, branch:NAME or a date such "
                f"as 2026-11-16; {_ADVICE}"
            )
        if not rows:
            raise FleetError(f"{why}; {_ADVICE}")
        return self.load_run(rows[0]["id"])

    def runs(self, limit: int = 50, fleet: str = "", file: str = "") -> tuple[RunSummary, ...]:
        """Return the newest runs, the newest first; also those that were interrupted."""
        rows = self._db.rows(
            """SELECT run.*, count(result.id) AS servers,
                coalesce(sum(result.state = 'ok'), 0) AS as_expected
            FROM run LEFT JOIN result ON result.run = run.id GROUP BY run.id ORDER BY run.id DESC"""
        )
        wanted = fleet_key(fleet, file)
        found = [
            row for row in rows if not wanted or wanted == fleet_key(row["fleet"], row["file"])
        ]
        return tuple(map(as_summary, found[:limit]))

    def compare(
        self,
        before: FleetRun,
        view: FleetView,
        rules: RuleSet,
        *,
        before_rules: Collection[str] | None = None,
        find_changes: FindChanges | None = None,
        required: Collection[str] = (),
        against: str = "",
    ) -> RunComparison:
        """Return how a run that is not saved yet differs from another one.

        Args:
            before: a run of this history, or of a file.
            view: the run, with the documents of its servers.
            rules: by which it was judged.
            before_rules: ids of the rule set of `before`, if it is not of this history.
            find_changes: what differs between two catalogs.
            required: servers that may not be skipped.
            against: `before` for people.
        """
        after = view.run
        own = {
            each.catalog.digest: view.documents[each.name].catalog
            for each in after.results
            if each.catalog is not None and each.name in view.documents
        }

        def catalogs(digest: str) -> JsonObject | None:
            found = own.get(digest)
            return self.catalog(digest) if found is None else found

        known = self._find_rules(before.rules.digest) if before_rules is None else before_rules
        names = [each.name for each in after.results]
        return compare_runs(
            before,
            after,
            before_rules=known or None,
            after_rules=rules.ids,
            catalogs=catalogs,
            find_changes=find_changes,
            flaky={name: self.flaky(name, now=after) for name in names},
            earlier={} if before.id == 0 else self.timings_before(before.id, names),
            required=required,
            against=against or name_run(before),
        )

    # -- servers

    def documents(self, server: str, run: int) -> ServerDocuments:
        """Return the report and the catalog of a server; empty where they are not kept."""
        found = next(iter(self._storage.results(server, "run.id = ?", run)), None)
        return ServerDocuments() if found is None else self._documents(found[1])

    def _documents(self, packed: PackedResult) -> ServerDocuments:
        report = self._storage.part(packed.report, ReportPart) if packed.report else None
        if report is None:
            return ServerDocuments(catalog=self.catalog(packed.catalog))
        wording = self._storage.part(report.wording, WordingPart)
        return ServerDocuments(
            report=unpack_report(report, wording), catalog=self.catalog(packed.catalog)
        )

    def catalog(self, digest: str) -> JsonObject | None:
        """Return a catalog by its digest; None if it is not known."""
        found = self._storage.part(digest, CatalogPart) if digest else None
        return None if found is None else unpack_catalog(found)

    def find_reusable(
        self, server: str, cache_key: str, not_before: datetime
    ) -> ReusableResult | None:
        """Return the newest result that was made with a key, and not before a moment.

        Results that were reused themselves, did not come to an end, or whose report is not kept,
        as in a file of JSON lines, are left out.
        """
        if not cache_key:
            return None
        made = "cache_key = ? AND reused_from = '' AND state IN ('ok', 'failed')"
        for run, packed in self._storage.results(server, made, cache_key):
            started = self._start_time(run)
            if read_moment(started) < not_before:
                return None
            documents = self._documents(packed)
            if documents.report:
                result = unpack_result(packed, self._storage.part)
                return ReusableResult(result, documents, started)
        return None

    def _start_time(self, run: int) -> str:
        return str(self._db.value("SELECT started FROM run WHERE id = ?", run))

    def trends(self, names: Iterable[str], limit: int = 50) -> Mapping[str, tuple[TrendPoint, ...]]:
        """Return the newest results of each server, of finished runs, the oldest first."""
        return {name: tuple(self._points(name, limit)) for name in names}

    def _points(self, name: str, limit: int) -> list[TrendPoint]:
        rows = self._db.rows(
            """SELECT result.*, run.started, run.rules_version FROM result
            JOIN run ON run.id = result.run
            WHERE result.server = (SELECT id FROM server WHERE name = ?) AND run.is_finished
            ORDER BY run.id DESC LIMIT ?""",
            name,
            limit,
        )
        return [as_point(row) for row in reversed(rows)]

    def flaky(
        self, server: str, limit: int = 10, *, now: FleetRun | None = None
    ) -> tuple[str, ...]:
        """Return requirements whose verdicts changed without cause in the newest runs.

        Args:
            server: its name.
            limit: how many runs to look at.
            now: the newest of them, if it is not saved yet.
        """
        found = list(observe(now, server)) if now is not None else []
        made = "reused_from = '' AND verdicts IS NOT NULL"
        for run, packed in self._storage.results(server, made):
            if len(found) >= limit:
                break
            found.append(self._observation(run, packed))
        return find_flaky(found[::-1])

    def _observation(self, run: int, packed: PackedResult) -> ServerObservation:
        accord = self._db.value("SELECT accord FROM run WHERE id = ?", run)
        verdicts = self._storage.part(packed.verdicts, VerdictPart)
        assert verdicts is not None  # a foreign key
        rules = self._storage.part(verdicts.rules, RuleSetPart)
        assert rules is not None
        return ServerObservation(
            server_version=packed.server_version,
            catalog=packed.catalog,
            rules=verdicts.rules,
            accord=str(accord),
            revisions=tuple(unpack_details(packed).get("revisions", ())),
            verdicts=unpack_letters(verdicts, rules),
        )

    def expected_seconds(self) -> Mapping[str, float]:
        """Return how long each server took when it was last checked."""
        rows = self._db.rows(
            """SELECT server.name, result.seconds, max(result.run) FROM result
            JOIN server ON server.id = result.server
            WHERE result.reused_from = '' AND result.state != 'skipped' GROUP BY server.name"""
        )
        return {row["name"]: row["seconds"] for row in rows}

    def timings_before(
        self, run: int, names: Iterable[str] | None = None
    ) -> Mapping[str, ServerTiming]:
        """Return how fast servers, all or some, were in the newest results before a run."""
        if names is None:
            names = [row["name"] for row in self._db.rows("SELECT name FROM server")]
        made = "run.id < ? AND reused_from = '' AND state IN ('ok', 'failed') AND run.is_finished"
        found = {}
        for name in names:
            for _, packed in self._storage.results(name, made, run):
                given = unpack_details(packed).get("timing", {})
                found[name] = msgspec.convert(given, ServerTiming)
                break
        return found

    def server_past(
        self, name: str, limit: int = 50, find_changes: FindChanges | None = None
    ) -> ServerPast:
        """Return the results of a server over time, with what changed when.

        Raises:
            FleetError: the history has no such server.
        """
        reader = PastReader(self._db, self._storage, find_changes)
        return reader.read(name, limit, self.flaky(name))

    # -- pruning

    def prune(self, keep: int) -> PruneReport:
        """Remove all but the newest runs of each fleet, and give their space back.

        Raises:
            FleetError: the file cannot be written; says why.
        """
        before = self._size()
        seen: dict[str, int] = {}
        old = []
        for row in self._db.rows("SELECT id, fleet, file FROM run ORDER BY id DESC"):
            key = fleet_key(row["fleet"], row["file"])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > keep:
                old.append(row["id"])
        with self._db.transaction():
            for id in old:
                self._db.execute("DELETE FROM run WHERE id = ?", id)
            self._storage.drop_orphans()
        if self._lines is not None:
            self._lines.replace(self._all_lines())
        self._db.shrink()
        return PruneReport(
            removed=len(old),
            kept=sum(seen.values()) - len(old),
            size_before=before,
            size_after=self._size(),
        )

    def _all_lines(self) -> Iterator[HistoryLine]:
        yield from self._storage.travelling_parts()
        for row in self._db.rows("SELECT id FROM run ORDER BY id"):
            run = self._storage.run(row["id"])
            if run is not None:
                yield run.without_reports(row["id"])

    def _size(self) -> int:
        path = self._db.path if self._lines is None else self._lines.path
        if path is None:
            return 0
        beside = path.with_name(f"{path.name}-wal")
        return sum(each.stat().st_size for each in (path, beside) if each.exists())
