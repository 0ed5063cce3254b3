"""Runs a fleet: prepares servers, lets workers check them, judges, compares, and keeps the run."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec
from msgspec.structs import replace

from accord.check.report import Report
from accord.fleet.definition import Directory, Fleet, FleetServer
from accord.fleet.history.comparison import compare_runs
from accord.fleet.history.store import History
from accord.fleet.judging import judge_server
from accord.fleet.origin import find_origin
from accord.fleet.outcome import FailOn, exit_code
from accord.fleet.preparation import Preparation, PreparedServer
from accord.fleet.results import (
    FleetRun,
    FleetView,
    RunComparison,
    ServerDocuments,
    ServerResult,
    StageName,
    StageResult,
    SurfaceChange,
    SurfaceFinding,
)
from accord.fleet.rule_set import RuleSet
from accord.fleet.running.pool import WorkerEnd, run_all
from accord.fleet.surfaces.changes import find_surface_changes
from accord.fleet.surfaces.lint import lint_fleet, lint_remote, lint_surface
from accord.fleet.surfaces.readiness import check_readiness
from accord.fleet.surfaces.summary import summarize_surface
from accord.fleet.worker.job import WorkerProgress, WorkerReport
from accord.types import JsonObject
from accord.version import __version__

_REPORT: Final = msgspec.json.Decoder(Report)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does beyond what the fleet file says.

    Attributes:
        jobs: how many workers at once.
        fail_fast: whether the first server that is not as expected ends the run.
        is_reusing: whether earlier results may be reused.
        refresh: names of servers whose results are made anew.
        skipped: stages that are left out.
        readiness: directories whose rules every server should fulfil.
        against: the run to compare with: "last", a run of the history, a branch, a file.
        fail_on: what fails the run.
        require_all: whether every server has to be checked.
        is_locking: whether lock files are about to be written, so that nothing is compared.
    """

    jobs: int
    fail_fast: bool = False
    is_reusing: bool = True
    refresh: frozenset[str] = frozenset()
    skipped: frozenset[StageName] = frozenset()
    readiness: tuple[Directory, ...] = ()
    against: str = "last"
    fail_on: tuple[FailOn, ...] = ("failure",)
    require_all: bool = False
    is_locking: bool = False


class RunEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that are called while a fleet is checked.

    Attributes:
        on_start: with the name of a server, when its worker starts.
        on_progress: with the name and what its worker does.
        on_result: with each result, as soon as it is known.
    """

    on_start: Callable[[str], object] = lambda _name: None
    on_progress: Callable[[str, WorkerProgress], object] = lambda _name, _progress: None
    on_result: Callable[[ServerResult], object] = lambda _result: None


class FleetRunner:
    """One run of a fleet.

    Args:
        fleet: the file.
        rules: the requirements that count.
        settings: what the run does.
        history: earlier runs; None keeps nothing.
        events: called on the way.
    """

    def __init__(
        self,
        fleet: Fleet,
        rules: RuleSet,
        settings: RunSettings,
        *,
        history: History | None = None,
        events: RunEvents | None = None,
    ) -> None:
        self._fleet = fleet
        self._rules = rules
        self._settings = settings
        self._history = history
        self._events = events or RunEvents()
        self._started = datetime.now(UTC)
        self._prepared: dict[str, PreparedServer] = {}
        self._results: dict[str, ServerResult] = {}
        self._documents: dict[str, ServerDocuments] = {}
        self._origin = find_origin(fleet.folder)
        self._before = (
            None if history is None else history.last_run(fleet.name, self._origin.git_branch)
        )

    async def run(self, servers: Sequence[FleetServer]) -> None:
        """Check servers side by side; a cancelled run keeps the results it has.

        Args:
            servers: those of the fleet that the run is about.
        """
        preparation = Preparation(
            fleet=self._fleet,
            rules=self._rules.stamp,
            history=self._history,
            is_reusing=self._settings.is_reusing,
            refresh=self._settings.refresh,
            skipped=self._settings.skipped,
            is_locking=self._settings.is_locking,
            now=self._started,
        )
        for server in servers:
            prepared = preparation.prepare(server)
            self._prepared[server.name] = prepared
            if prepared.result is not None:
                self._keep(server, prepared.result, None)
        jobs = [each.job for each in self._prepared.values() if each.job is not None]
        expected = {} if self._history is None else self._history.expected_seconds()
        await run_all(
            jobs,
            jobs=self._settings.jobs,
            expected_seconds=expected,
            fail_fast=self._settings.fail_fast,
            on_start=self._events.on_start,
            on_progress=self._events.on_progress,
            on_result=self._finish,
        )

    # -- one server

    def _finish(self, end: WorkerEnd) -> bool:
        """Judge what a worker found; returns whether the server is as expected."""
        prepared = self._prepared[end.name]
        report = end.report
        earlier = prepared.earlier
        is_reused = (
            report.is_reusable
            and earlier is not None
            and earlier.result.server_version == report.server_version
        )
        surface = None if report.surface is None else summarize_surface(report.surface)
        result = ServerResult(
            name=end.name,
            state=end.state,
            reasons=(end.reason,) if end.reason else (),
            target=prepared.resolved.shown,
            transport=report.transport,
            stages=(StageResult(name="resolve", state="passed"), *report.stages),
            surface_revision=report.revision,
            tests=report.tests,
            surface=surface,
            timing=report.timing,
            seconds=end.seconds,
            server_name=report.server_name,
            server_version=report.server_version or prepared.version,
            stderr=report.stderr,
            left_processes=report.left_processes,
            cache_key=prepared.key.key,
            not_cached=prepared.key.why_not,
            load_lag=report.load_lag,
            repeated=end.repeated,
        )
        checked = report.report
        if is_reused:
            assert earlier is not None
            result, checked = _reuse(result, earlier)
        result = replace(result, findings=self._lint(prepared, report, checked))
        result = self._with_changes(prepared, result, report)
        documents = ServerDocuments(
            report=b"" if checked is None else msgspec.json.encode(checked),
            surface=report.surface,
        )
        return self._keep(prepared.server, result, checked, documents)

    def _keep(
        self,
        server: FleetServer,
        result: ServerResult,
        report: Report | None,
        documents: ServerDocuments | None = None,
    ) -> bool:
        changes = result.changes if result.changed_since == "lock" else ()
        result = judge_server(
            server,
            result,
            report,
            self._rules,
            today=self._started.date(),
            lock_changes=changes,
        )
        if self._history is not None:
            result = replace(result, flaky=self._history.flaky(server.name))
        self._results[server.name] = result
        self._documents[server.name] = documents or ServerDocuments()
        self._events.on_result(result)
        return result.is_as_expected

    def _lint(
        self, prepared: PreparedServer, report: WorkerReport, checked: Report | None
    ) -> tuple[SurfaceFinding, ...]:
        server, url = prepared.server, prepared.resolved.url
        found: list[SurfaceFinding] = []
        if report.surface is not None:
            found += lint_surface(report.surface, server=server.name)
            directories = tuple(dict.fromkeys((*server.readiness, *self._settings.readiness)))
            verdicts = {} if checked is None else {e.id: e.verdict for e in checked.results}
            found += check_readiness(
                directories, surface=report.surface, url=url, verdicts=verdicts
            )
            if url:
                has_token = bool(prepared.resolved.headers or prepared.resolved.auth)
                found += lint_remote(url, has_token=has_token, lists_tools=True)
        for each in report.left_processes:
            found.append(
                SurfaceFinding(
                    id="process.left-behind",
                    severity="warn",
                    text=f"{each} still ran after the server was stopped, and was ended: end what"
                    " you start when standard input closes",
                    subject="process",
                )
            )
        return tuple(replace(each, server=server.name) for each in found)

    def _with_changes(
        self, prepared: PreparedServer, result: ServerResult, report: WorkerReport
    ) -> ServerResult:
        """Add what changed against the lock; without a lock against the run before."""
        if report.surface is None:
            return result
        if prepared.job is not None and prepared.job.lock is not None:
            if report.lock_problem:
                reasons = (*result.reasons, report.lock_problem)
                return replace(result, reasons=reasons, state="failed")
            return replace(result, changes=report.changes, changed_since="lock")
        if prepared.server.lock is not None and not self._settings.is_locking:
            remark = f"{prepared.server.lock} does not exist: --update-locks writes it"
            result = replace(result, remarks=(*result.remarks, remark))
        changes = self._changes_since_last(result, report.surface)
        if not changes:
            return result
        count = len(changes)
        finding = SurfaceFinding(
            id="safety.changed",
            severity="warn" if any(each.kind != "compatible" for each in changes) else "info",
            text=f"offers something else than in the run before, in {count} places: look at the"
            " changes, and lock what you trust",
            server=result.name,
        )
        return replace(
            result,
            changes=changes,
            changed_since="last run",
            findings=(*result.findings, finding),
        )

    def _changes_since_last(
        self, result: ServerResult, surface: JsonObject
    ) -> tuple[SurfaceChange, ...]:
        if self._before is None or self._history is None or result.surface is None:
            return ()
        for each in self._before.results:
            if each.name == result.name and each.surface is not None:
                if each.surface.digest == result.surface.digest:
                    return ()
                before = self._history.surface(each.surface.digest)
                return () if before is None else find_surface_changes(before, surface)
        return ()

    # -- the whole

    def finish(self, *, is_finished: bool = True) -> FleetView:
        """Return the run with its comparison, and keep it in the history."""
        names = list(self._prepared)
        surfaces = {
            name: each.surface
            for name, each in self._documents.items()
            if each.surface is not None
        }
        results = tuple(self._results[name] for name in names if name in self._results)
        notes = list(self._fleet.notes)
        if not is_finished:
            notes.append("the run was interrupted: servers that were not finished are missing")
        run = FleetRun(
            fleet=self._fleet.name,
            file=self._fleet.path.name,
            file_digest=sha256(self._fleet.path.read_bytes()).hexdigest()[:16],
            started=self._started.isoformat(timespec="seconds"),
            seconds=round((datetime.now(UTC) - self._started).total_seconds(), 3),
            accord=__version__,
            rules=self._rules.stamp,
            results=results,
            findings=lint_fleet(surfaces),
            jobs=self._settings.jobs,
            origin=self._origin,
            notes=tuple(notes),
            left_out=tuple(
                each.name for each in self._fleet.servers if each.name not in self._results
            ),
        )
        comparison = self._compare(run)
        code = exit_code(
            run, comparison, self._settings.fail_on, require_all=self._settings.require_all
        )
        run = replace(run, exit=code if is_finished else 2)
        view = FleetView(run=run, comparison=comparison, documents=self._documents)
        if self._history is not None:
            id = self._history.save_run(view, self._rules, is_finished=is_finished)
            view = replace(
                view, run=replace(run, id=id), trends=self._history.trends(names)
            )
        return view

    def _compare(self, run: FleetRun) -> RunComparison | None:
        """Compare a run with the one that the settings name."""
        before, rules = self._find_compared()
        if before is None:
            return None
        history = self._history
        flaky = {each.name: each.flaky for each in run.results}
        known = {
            each.surface.digest: self._documents[each.name].surface
            for each in run.results
            if each.surface is not None
        }

        def find_surface(digest: str) -> JsonObject | None:
            if digest in known:
                return known[digest]
            return None if history is None else history.surface(digest)

        return compare_runs(
            before,
            run,
            before_rules=rules,
            after_rules=self._rules.ids,
            surfaces=find_surface,
            find_changes=find_surface_changes,
            flaky=flaky,
            earlier={} if history is None else history.timings_before(before.id),
            required=tuple(self._results) if self._settings.require_all else (),
        )

    def _find_compared(self) -> tuple[FleetRun | None, frozenset[str] | None]:
        """Return the run to compare with, and the ids of its rules.

        Raises:
            FleetError: there is no such run or file.
        """
        named = self._settings.against
        path = Path(named)
        if named != "last" and path.suffix == ".json":
            return read_exported_run(path)
        if self._history is None:
            return None, None
        before = self._before if named == "last" else self._history.find_run(named)
        return before, None if before is None else self._history.rule_ids(before.id)


def _reuse(result: ServerResult, earlier: ReusableResult) -> tuple[ServerResult, Report]:
    """Return a new result with the parts of an earlier one that still hold, and its report."""
    old = earlier.result
    made = {each.name for each in result.stages}
    reused = tuple(
        replace(each, state="reused", seconds=0.0)
        for each in old.stages
        if each.name not in made and each.state == "passed"
    )
    timing = replace(old.timing, start=result.timing.start)
    return (
        replace(
            result,
            stages=(*result.stages, *reused),
            tests=old.tests,
            timing=timing,
            reused_from=earlier.started,
            repeated=old.repeated,
        ),
        _REPORT.decode(earlier.documents.report),
    )
