"""The history of a fleet: runs are saved, found again, compared and pruned."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec

from accord.cli.options import did_you_mean
from accord.types import JsonObject
from accord_tools.fleet.definition import DEFAULT_HISTORY, FleetError
from accord_tools.fleet.history.comparison import (
    ComparisonContext,
    FindChanges,
    ServerObservation,
    SharedRules,
    compare_results,
    compare_runs,
    find_flaky,
    observe,
)
from accord_tools.fleet.history.database import HistoryDatabase, explain_errors
from accord_tools.fleet.history.exports import ExportedRun, read_export, read_moment
from accord_tools.fleet.history.older_form import convert
from accord_tools.fleet.history.storage import (
    StoredCatalog,
    StoredResult,
    StoredRun,
    add_run,
    escape_surrogates,
    unpack,
    unpack_report,
)
from accord_tools.fleet.results import (
    FailOn,
    FleetRun,
    FleetView,
    RunComparison,
    RunDifference,
    ServerDocuments,
    ServerResult,
    ServerTiming,
    TrendPoint,
    exit_code,
)
from accord_tools.fleet.rule_set import RuleSet

MEMORY: Final = ":memory:"
_ADVICE: Final = "accord fleet history lists the runs"
_FORMER_ENDING: Final = ".jsonl"
# Of a result with its run; reports are large, and read apart.
_COLUMNS: Final = """results.id, run, first_seen, state, score, failures, warnings, exercised,
    applicable, start, reused_from, results.document,
    started, accord, rules, rules_digest, git_commit, is_finished"""


class ReusableResult(NamedTuple):
    """A stored result that may stand for a new one, and when it was made."""

    result: ServerResult
    documents: ServerDocuments
    started: str


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in one line.

    Attributes:
        as_expected: how many servers are.
        regressions: None if it was compared with nothing.
        is_finished: False if it was interrupted; it is never compared with then.
    """

    id: int
    fleet: str
    file: str
    started: str
    seconds: float
    accord: str
    rules: str
    git_commit: str
    git_branch: str
    is_dirty: bool
    servers: int
    as_expected: int
    regressions: int | None
    exit: int
    is_finished: bool


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a pruning removed, and the bytes of the file before and after it."""

    removed: int
    kept: int
    size_before: int
    size_after: int


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
    return msgspec.convert({**dict(row), "is_reused": bool(row["reused_from"])}, TrendPoint)


def as_summary(row: Any) -> RunSummary:
    """Return a row of a run, with its numbers of servers, as a summary."""
    flags = {name: bool(row[name]) for name in ("is_dirty", "is_finished")}
    return msgspec.convert({**dict(row), **flags}, RunSummary)


def fleet_key(fleet: str, file: str) -> str:
    """Return what tells the fleets of one history apart: the name, or the name of the file."""
    return fleet or PurePath(file.replace("\\", "/")).name


def default_history(file: Path) -> Path:
    """Return where the history of a fleet file is, unless another place is named."""
    return file.parent / DEFAULT_HISTORY


def open_history(path: Path | str | None, *, must_exist: bool = False) -> "History":
    """Open the history in a file, and create it if it is missing.

    Args:
        path: a SQLite file; ":memory:" or None keeps runs only as long as the history is open.
        must_exist: refuses a missing file.

    Raises:
        FleetError: the file cannot be used; says why, and what to do.
    """
    if path is None or str(path) == MEMORY:
        return History(HistoryDatabase(None, convert))
    path = Path(path)
    if path.suffix == _FORMER_ENDING:
        raise FleetError(
            f"history {path}: JSON lines keep no history any more; name a .sqlite file, which can "
            "travel as well, or write each run with --output FILE.json"
        )
    if must_exist and not path.exists():
        raise FleetError(f"history {path}: there is no such file yet; accord fleet run makes it")
    return History(HistoryDatabase(path, convert))


@explain_errors
class History:
    """The runs of a fleet, and what can be learned from them; made by `open_history`.

    Attributes:
        place: the file.
        notes: remarks on it, such as that it has a new form.
    """

    def __init__(self, db: HistoryDatabase) -> None:
        self._db = db
        self._rules: dict[str, tuple[str, ...]] = {}
        self.place = db.place
        self.notes = db.notes

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
        save = partial(add_run, self._db, rules=tuple(sorted(rules.ids)), is_finished=is_finished)
        try:
            return save(view=view)
        except UnicodeEncodeError:
            # Names of files may have bytes that are not characters.
            return save(view=escape_surrogates(view))

    def conclude_run(
        self,
        view: FleetView,
        rules: RuleSet,
        fail_on: Collection[FailOn],
        *,
        is_finished: bool = True,
        require_all: bool = False,
    ) -> FleetView:
        """Save a run that is compared already; return it with exit code, id and trends.

        Args:
            view: as in `save_run`.
            rules: likewise.
            fail_on: what fails the run.
            is_finished: as in `save_run`; the exit code of others is 2.
            require_all: whether a server that was skipped means exit code 2.
        """
        replace = msgspec.structs.replace
        code = exit_code(view.run, view.comparison, fail_on, require_all=require_all)
        view = replace(view, run=replace(view.run, exit=code if is_finished else 2))
        id = self.save_run(view, rules, is_finished=is_finished)
        trends = self.trends(each.name for each in view.run.results)
        return replace(view, run=replace(view.run, id=id), trends=trends)

    def load_run(self, id: int) -> FleetRun:
        """Return a run.

        Raises:
            FleetError: there is no such run, or it cannot be read.
        """
        found = self._stored_run(id)
        if found is None:
            raise FleetError(f"there is no run {id} in the history; {_ADVICE}")
        rows = self._db.rows("SELECT document FROM results WHERE run = ? ORDER BY id", id)
        results = (unpack(each["document"], StoredResult).unpack(found.rules) for each in rows)
        return msgspec.structs.replace(found.run, id=id, results=tuple(results))

    def _stored_run(self, id: int) -> StoredRun | None:
        document = self._db.value("SELECT document FROM runs WHERE id = ?", id)
        return None if document is None else unpack(document, StoredRun)

    def comparison(self, id: int) -> RunComparison | None:
        """Return how a run was compared when it was made; None if it was not."""
        found = self._stored_run(id)
        return None if found is None else found.comparison

    def _find_rules(self, digest: str) -> tuple[str, ...]:
        """Return the sorted ids of a set of rules; empty if no run was judged by it."""
        if digest not in self._rules:
            query = "SELECT document FROM runs WHERE rules_digest = ? LIMIT 1"
            document = self._db.value(query, digest)
            found = () if document is None else unpack(document, StoredRun).rules
            if not found:
                return ()
            self._rules[digest] = found
        return self._rules[digest]

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
                coalesce((SELECT max(applicable) FROM results
                WHERE run = runs.id AND state IN ('ok', 'failed')), 1) > 0 AS is_checked
            FROM runs WHERE is_finished ORDER BY id DESC"""
        )
        wanted = fleet_key(fleet, file)
        return [row for row in rows if not wanted or wanted == fleet_key(row["fleet"], row["file"])]

    def find_run(self, text: str, fleet: str = "", file: str = "") -> ExportedRun:
        """Return the run that a user named, with its rules if it is one of a file.

        Args:
            text: a number, "last", "branch:NAME", a date as in 2026-11-16 or 2026-11-16T08:02, or
                a .json file; all but a number and a file name the newest finished run that fits.
            fleet: as in `last_run`.
            file: likewise.

        Raises:
            FleetError: no run fits.
        """
        if text.endswith(".json"):
            return read_export(Path(text))
        if text.isascii() and text.isdigit():
            return ExportedRun(self.load_run(int(text)))
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
        return ExportedRun(self.load_run(rows[0]["id"]))

    def runs(self, limit: int = 50) -> tuple[RunSummary, ...]:
        """Return the newest runs, the newest first; also those that were interrupted."""
        rows = self._db.rows(
            """SELECT runs.*, count(results.id) AS servers,
                coalesce(sum(results.state = 'ok'), 0) AS as_expected
            FROM runs LEFT JOIN results ON run = runs.id
            GROUP BY runs.id ORDER BY runs.id DESC LIMIT ?""",
            limit,
        )
        return tuple(map(as_summary, rows))

    def compare(
        self,
        before: FleetRun,
        view: FleetView,
        rules: RuleSet,
        *,
        before_rules: Collection[str] | None = None,
        find_changes: FindChanges | None = None,
        required: Collection[str] = (),
    ) -> RunComparison:
        """Return how a run that is not saved yet differs from another one.

        Args:
            before: a run of this history, or of a file.
            view: the run, with the documents of its servers.
            rules: by which it was judged.
            before_rules: ids of the rule set of `before`, if it is not of this history.
            find_changes: what differs between two catalogs.
            required: servers that may not be skipped.
        """
        after = view.run
        own = {
            each.catalog.digest: view.documents[each.name].catalog
            for each in after.results
            if each.catalog is not None and each.name in view.documents
        }
        known = self._find_rules(before.rules.digest) if before_rules is None else before_rules
        names = [each.name for each in after.results]
        return compare_runs(
            before,
            after,
            ComparisonContext(
                before_rules=known or None,
                after_rules=rules.ids,
                catalogs=lambda digest: own.get(digest) or self.catalog(digest),
                find_changes=find_changes,
                flaky={name: self.flaky(name, now=after) for name in names},
                earlier={} if before.id == 0 else self.timings_before(before.id, names),
                required=required,
            ),
        )

    # -- servers

    def documents(self, server: str, run: int) -> ServerDocuments:
        """Return the report and the catalog of a server; empty where they are not kept."""
        row = next(self._results(server, "run = ?", run), None)
        return ServerDocuments() if row is None else self._read_documents(row)

    def _results(self, server: str, where: str, *values: object) -> Iterator[Any]:
        """Yield the rows of a server's results with those of their runs, the newest first.

        Args:
            server: its name.
            where: a condition, with `?` for each value.
            values: for the condition.
        """
        return self._db.each_row(
            f"""SELECT {_COLUMNS} FROM results JOIN runs ON runs.id = run
            WHERE server = ? AND {where} ORDER BY run DESC""",  # noqa: S608  # conditions are ours
            server,
            *values,
        )

    def _read_documents(self, row: Any) -> ServerDocuments:
        report = self._db.value("SELECT report FROM results WHERE id = ?", row["id"])
        return ServerDocuments(
            report=b"" if report is None else unpack_report(report),
            catalog=unpack(row["document"], StoredCatalog).catalog,
        )

    def _unpack_result(self, row: Any) -> ServerResult:
        return unpack(row["document"], StoredResult).unpack(self._find_rules(row["rules_digest"]))

    def catalog(self, digest: str) -> JsonObject | None:
        """Return a catalog by its digest; None if it is not known."""
        query = "SELECT document FROM results WHERE catalog = ? ORDER BY run DESC"
        for row in self._db.each_row(query, digest) if digest else ():
            found = unpack(row["document"], StoredCatalog).catalog
            if found is not None:
                return found
        return None

    def find_reusable(
        self, server: str, cache_key: str, not_before: datetime
    ) -> ReusableResult | None:
        """Return the newest result that was made with a key, and not before a moment.

        Results that were reused themselves, did not come to an end, or whose report is not kept
        are left out.
        """
        if not cache_key:
            return None
        made = "cache_key = ? AND reused_from = '' AND state IN ('ok', 'failed')"
        row = next(self._results(server, f"{made} AND report IS NOT NULL", cache_key), None)
        if row is None or read_moment(row["started"]) < not_before:
            return None
        return ReusableResult(self._unpack_result(row), self._read_documents(row), row["started"])

    def trends(self, names: Iterable[str], limit: int = 50) -> Mapping[str, tuple[TrendPoint, ...]]:
        """Return the newest results of each server, of finished runs, the oldest first."""
        return {
            name: tuple(
                as_point(row)
                for row in reversed([*islice(self._results(name, "is_finished"), limit)])
            )
            for name in names
        }

    def flaky(
        self, server: str, limit: int = 10, *, now: FleetRun | None = None
    ) -> tuple[str, ...]:
        """Return requirements whose verdicts changed without cause in the newest runs.

        Args:
            server: its name.
            limit: how many runs to look at.
            now: the newest of them, if it is not saved yet.
        """
        found: list[ServerObservation] = []
        if now is not None:
            given = (each for each in now.results if each.name == server and not each.reused_from)
            found += [
                observe(each, now.rules.digest, now.accord) for each in given if each.verdicts
            ]
        for row in self._results(server, "reused_from = ''"):
            if len(found) >= limit:
                break
            result = self._unpack_result(row)
            if result.verdicts:
                found.append(observe(result, row["rules_digest"], row["accord"]))
        return find_flaky(found[::-1])

    def expected_seconds(self) -> Mapping[str, float]:
        """Return how long each server took when it was last checked."""
        rows = self._db.rows(
            """SELECT server, seconds, max(run) FROM results
            WHERE reused_from = '' AND state != 'skipped' GROUP BY server"""
        )
        return {row["server"]: row["seconds"] for row in rows}

    def timings_before(self, run: int, names: Iterable[str]) -> Mapping[str, ServerTiming]:
        """Return how fast servers were in the newest results before a run."""
        made = "run < ? AND reused_from = '' AND state IN ('ok', 'failed') AND is_finished"
        rows = {name: next(self._results(name, made, run), None) for name in names}
        return {
            name: unpack(row["document"], StoredResult).result.timing
            for name, row in rows.items()
            if row is not None
        }

    def server_past(
        self, name: str, limit: int = 50, find_changes: FindChanges | None = None
    ) -> ServerPast:
        """Return the results of a server over time, with what changed when.

        Raises:
            FleetError: the history has no such server.
        """
        # The oldest one is only there to compare with.
        rows = [*islice(self._results(name, "1"), limit + 1)]
        if not rows:
            raise FleetError(f"the history has no server {name!r}{self._suggest(name)}")
        pairs = [(row, self._unpack_result(row)) for row in reversed(rows)]
        context = ComparisonContext(catalogs=self.catalog, find_changes=find_changes)
        found = [
            PastResult(
                point=as_point(row),
                server_version=result.server_version,
                commit=row["git_commit"],
                is_finished=bool(row["is_finished"]),
                reasons=result.reasons,
                differences=self._compare_results(before, (row, result), context),
            )
            for before, (row, result) in zip((None, *pairs), pairs, strict=False)
        ]
        _, newest = pairs[-1]
        return ServerPast(
            name=name,
            first_seen=rows[0]["first_seen"],
            owner=newest.owner,
            tags=newest.tags,
            flaky=self.flaky(name),
            results=tuple(found[-limit:]),
        )

    def _compare_results(
        self,
        before: tuple[Any, ServerResult] | None,
        after: tuple[Any, ServerResult],
        context: ComparisonContext,
    ) -> tuple[RunDifference, ...]:
        if before is None:
            return ()
        old, new = (row["rules_digest"] for row, _ in (before, after))
        is_same = old == new
        ids = None if is_same else frozenset(self._find_rules(old)) & {*self._find_rules(new)}
        shared = SharedRules(ids, is_same, before[0]["accord"] == after[0]["accord"])
        return tuple(compare_results(before[1], after[1], shared, context))

    def _suggest(self, name: str) -> str:
        query = "SELECT DISTINCT server FROM results ORDER BY server"
        known = [row["server"] for row in self._db.rows(query)]
        has = f"has {', '.join(known[:20])}" if known else "has no servers yet"
        return did_you_mean(name, known) or f"; it {has}"

    # -- pruning

    def prune(self, keep: int) -> PruneReport:
        """Remove all but the newest runs of each fleet, and give their space back.

        Raises:
            FleetError: the file cannot be written; says why.
        """
        before = self._size()
        seen: dict[str, int] = {}
        old = []
        for row in self._db.rows("SELECT id, fleet, file FROM runs ORDER BY id DESC"):
            key = fleet_key(row["fleet"], row["file"])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] > keep:
                old.append(row["id"])
        with self._db.transaction():
            for id in old:
                self._db.execute("DELETE FROM runs WHERE id = ?", id)
        self._db.shrink()
        return PruneReport(
            removed=len(old),
            kept=sum(seen.values()) - len(old),
            size_before=before,
            size_after=self._size(),
        )

    def _size(self) -> int:
        path = self._db.path
        if path is None:
            return 0
        beside = path.with_name(f"{path.name}-wal")
        return sum(each.stat().st_size for each in (path, beside) if each.exists())
