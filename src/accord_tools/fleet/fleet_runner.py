"""Runs a fleet: prepares servers, lets workers check them, judges, compares, and keeps the run."""

import os
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from accord.types import JsonObject
from accord.version import __version__
from accord_tools.fleet.catalogs.changes import find_catalog_changes
from accord_tools.fleet.catalogs.entries import summarize_catalog
from accord_tools.fleet.catalogs.lint import lint_catalog, lint_fleet, lint_remote
from accord_tools.fleet.catalogs.readiness import check_readiness
from accord_tools.fleet.definition import Fleet, FleetServer
from accord_tools.fleet.history.history import History, ReusableResult
from accord_tools.fleet.judging import (
    accept_findings,
    count_tool_calls,
    find_failing_tools,
    find_left_behind,
    judge_server,
)
from accord_tools.fleet.preparation import FleetSettings, Preparation, PreparedServer
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogFinding,
    FleetRun,
    FleetView,
    RunComparison,
    RunOrigin,
    ServerDocuments,
    ServerResult,
    ServerState,
    StageResult,
)
from accord_tools.fleet.rule_set import RuleSet
from accord_tools.fleet.running.pool import run_all
from accord_tools.fleet.running.worker_process import WorkerOutcome
from accord_tools.fleet.worker.job import WorkerProgress, WorkerReport
from accord_tools.reports.report import Report
from accord_tools.reports.wording import plural

# -- where a run was made: commit and branch of the folder, and the job of CI


_SECONDS: Final = 5.0
# A folder that was downloaded must not name programs that git runs.
_SAFE: Final = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
# The variables in which systems for CI name their jobs.
_CI_URLS: Final = ("CI_JOB_URL", "BUILD_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL")
_CI_BRANCHES: Final = (
    *("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "CIRCLE_BRANCH"),
    *("BUILDKITE_BRANCH", "BRANCH_NAME"),
)


def find_origin(folder: Path, environ: Mapping[str, str] | None = None) -> RunOrigin:
    """Return commit, branch, job and machine of a run; what is unknown stays empty.

    Args:
        folder: of the fleet file.
        environ: the variables of this process.
    """
    environ = os.environ if environ is None else environ
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return RunOrigin(ci_url=_ci_url(environ), host=platform.node())
    branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    if branch == "HEAD":  # jobs of CI check out a commit, not a branch
        branch = next((environ[each] for each in _CI_BRANCHES if environ.get(each)), "")
    return RunOrigin(
        git_commit=commit,
        git_branch=branch,
        is_dirty=bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
        ci_url=_ci_url(environ),
        host=platform.node(),
    )


def _ci_url(environ: Mapping[str, str]) -> str:
    job = [environ.get(f"GITHUB_{each}") for each in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    if all(job):
        return f"{job[0]}/{job[1]}/actions/runs/{job[2]}"
    return next((environ[each] for each in _CI_URLS if environ.get(each)), "")


def _git(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # fixed words
            ["git", "-C", str(folder), *_SAFE, *words],  # noqa: S607  # the user's own git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# -- the runner


_REPORT: Final = msgspec.json.Decoder(Report)
# Attributes of a worker's report that a result has under the same name.
_REPORTED: Final = (
    *("transport", "tests", "timing", "server_name", "stderr", "left_processes", "load_lag"),
)


class RunEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that are called while a fleet is checked.

    Attributes:
        on_progress: with the name and what its worker does.
        on_result: with each result, as soon as it is known.
    """

    on_progress: Callable[[str, WorkerProgress], object] = lambda _name, _progress: None
    on_result: Callable[[ServerResult], object] = lambda _result: None


class FleetRunner:
    """One run of a fleet.

    Args:
        fleet: the file.
        rules: the requirements that count.
        settings: what the run does.
        history: earlier runs, and where this one is kept.
        events: called on the way.

    Raises:
        FleetError: there is no run to compare with as the settings name it.
    """

    def __init__(
        self,
        fleet: Fleet,
        rules: RuleSet,
        settings: FleetSettings,
        *,
        history: History,
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
        # Now: the file may be changed or removed while the servers are checked.
        self._file_digest = sha256(fleet.path.read_bytes()).hexdigest()[:16]
        self._before: FleetRun | None = None
        named = settings.against
        self._against = (
            None if named == "last" else history.find_run(named, fleet.name, fleet.path.name)
        )

    async def run(self, servers: Sequence[FleetServer]) -> FleetView:
        """Check servers side by side; an interrupted run keeps the results it has.

        Args:
            servers: those of the fleet that the run is about.

        Raises:
            FleetError: an entry of the file is wrong, or the history cannot be read or written.
        """
        self._before = self._history.last_run(
            self._fleet.name,
            self._fleet.path.name,
            self._origin.git_branch,
            [each.name for each in servers],
        )
        preparation = Preparation(
            fleet=self._fleet,
            rules=self._rules.stamp,
            history=self._history,
            settings=self._settings,
            now=self._started,
        )
        for server in servers:
            prepared = preparation.prepare(server)
            self._prepared[server.name] = prepared
            if prepared.result is not None:
                self._keep(server, prepared.result, None)
        done = await run_all(
            [each.job for each in self._prepared.values() if each.job is not None],
            jobs=self._settings.jobs,
            expected_seconds=self._history.expected_seconds(),
            on_progress=self._events.on_progress,
            on_result=self._finish,
            is_enough=self._is_enough if self._settings.fail_fast else None,
        )
        return self._complete(is_interrupted=done.is_interrupted)

    def _is_enough(self, outcome: WorkerOutcome) -> bool:
        return not self._results[outcome.name].is_as_expected

    # -- one server

    def _finish(self, outcome: WorkerOutcome) -> None:
        """Judge what a worker found."""
        if outcome.ended == "interrupted":
            return  # a part of a result would look like a regression
        prepared = self._prepared[outcome.name]
        report = outcome.report
        earlier = prepared.earlier
        catalog = None if report.catalog is None else summarize_catalog(report.catalog)
        state, reasons = _describe_end(outcome)
        doubt = _describe_doubt(outcome)
        result = ServerResult(
            **{name: getattr(report, name) for name in _REPORTED},
            name=outcome.name,
            line=prepared.server.line,
            state=state,
            reasons=reasons,
            target=prepared.resolved.shown,
            stages=(StageResult(name="resolve", state="passed"), *report.stages),
            catalog_revision=report.revision,
            tool_calls=count_tool_calls(report),
            catalog=catalog,
            seconds=round(outcome.seconds, 3),
            server_version=report.server_version or prepared.version,
            cache_key="" if doubt else prepared.key.key,
            not_cached=prepared.key.why_not or doubt,
            repeated=outcome.repeated,
        )
        checked = report.report
        if report.is_reusable and earlier is not None:
            result, checked = _reuse(result, earlier)
        result = self._with_changes(prepared, result, report)
        findings = (*self._lint(prepared, result, report, checked), *result.findings)
        result = replace(result, findings=findings)
        documents = ServerDocuments(
            report=b"" if checked is None else msgspec.json.encode(checked),
            catalog=report.catalog,
        )
        self._keep(prepared.server, result, checked, documents)

    def _keep(
        self,
        server: FleetServer,
        result: ServerResult,
        report: Report | None,
        documents: ServerDocuments | None = None,
    ) -> None:
        changes = result.changes if result.changed_since == "lock" else ()
        result = judge_server(
            server,
            result,
            report,
            self._rules,
            today=self._started.date(),
            lock_changes=changes,
        )
        self._results[server.name] = result
        self._documents[server.name] = documents or ServerDocuments()
        self._events.on_result(result)

    def _lint(
        self,
        prepared: PreparedServer,
        result: ServerResult,
        report: WorkerReport,
        checked: Report | None,
    ) -> list[CatalogFinding]:
        server, resolved = prepared.server, prepared.resolved
        found = [
            *find_left_behind(report, server.name),
            *find_failing_tools(result.tool_calls, server.name),
        ]
        if report.catalog is None:
            return found
        found += lint_catalog(report.catalog, server=server.name)
        if resolved.url:
            found += lint_remote(
                resolved.url,
                has_token=bool(resolved.headers or resolved.auth),
                lists_tools=bool(report.catalog.get("tools")),
                server=server.name,
            )
        found += check_readiness(
            tuple(dict.fromkeys((*server.readiness, *self._settings.readiness))),
            catalog=report.catalog,
            url=resolved.url,
            verdicts=None if checked is None else {e.id: e.verdict for e in checked.results},
            changes=result.changes,
            server=server.name,
        )
        return found

    def _with_changes(
        self, prepared: PreparedServer, result: ServerResult, report: WorkerReport
    ) -> ServerResult:
        """Add what changed against the lock; without a lock against the run before."""
        if report.catalog is None:
            return result
        if prepared.job is not None and prepared.job.lock is not None:
            if report.lock_problem:
                return replace(result, reasons=(*result.reasons, report.lock_problem))
            return replace(result, changes=report.changes, changed_since="lock")
        if prepared.server.lock is not None and not self._settings.is_locking:
            # A lock that was deleted must not pass quietly.
            reason = f"{prepared.server.lock} does not exist: --update-locks writes it"
            result = replace(result, reasons=(*result.reasons, reason))
        changes = self._changes_since_last(result, report.catalog)
        if not changes:
            return result
        count = len(changes)
        finding = CatalogFinding(
            id="safety.changed",
            severity="warn" if any(each.kind != "compatible" for each in changes) else "info",
            text=f"offers something else than in the run before, in {plural(count, 'place')}:"
            " look at the changes, and lock what you trust",
            server=result.name,
        )
        return replace(
            result,
            changes=changes,
            changed_since="last run",
            findings=(*result.findings, finding),
        )

    def _changes_since_last(
        self, result: ServerResult, catalog: JsonObject
    ) -> tuple[CatalogChange, ...]:
        if self._before is None or result.catalog is None:
            return ()
        for each in self._before.results:
            if each.name == result.name and each.catalog is not None:
                if each.catalog.digest == result.catalog.digest:
                    return ()
                before = self._history.catalog(each.catalog.digest)
                return () if before is None else find_catalog_changes(before, catalog)
        return ()

    # -- the whole

    def _complete(self, *, is_interrupted: bool) -> FleetView:
        """Return the run with its comparison, and keep it in the history."""
        run = self._make_run(is_interrupted=is_interrupted)
        view = FleetView(run=run, documents=self._documents, rules=tuple(sorted(self._rules.ids)))
        return self._history.conclude_run(
            replace(view, comparison=self._compare(view)),
            self._rules,
            self._settings.fail_on,
            is_finished=not is_interrupted,
            require_all=self._settings.require_all,
        )

    def _make_run(self, *, is_interrupted: bool) -> FleetRun:
        results = [self._results[name] for name in self._prepared if name in self._results]
        notes = [*self._fleet.notes, *self._history.notes]
        missing = len(self._prepared) - len(results)
        if is_interrupted or missing:
            why = "interrupted" if is_interrupted else "ended by --fail-fast"
            count = plural(missing, "server")
            notes.append(f"the run was {why}: {count} {'is' if missing == 1 else 'are'} missing")
        run = FleetRun(
            fleet=self._fleet.name,
            file=_show_path(self._fleet.path),
            file_digest=self._file_digest,
            started=self._started.isoformat(timespec="seconds"),
            seconds=round((datetime.now(UTC) - self._started).total_seconds(), 3),
            accord=__version__,
            rules=self._rules.stamp,
            results=tuple(results),
            findings=self._lint_together(),
            jobs=self._settings.jobs,
            origin=self._origin,
            notes=tuple(notes),
            left_out=tuple(
                each.name for each in self._fleet.servers if each.name not in self._results
            ),
        )
        flaky = {name: self._history.flaky(name, now=run) for name in self._results}
        return replace(
            run, results=tuple(replace(each, flaky=flaky[each.name]) for each in results)
        )

    def _lint_together(self) -> tuple[CatalogFinding, ...]:
        catalogs = {
            name: each.catalog for name, each in self._documents.items() if each.catalog is not None
        }
        servers = [each.server for each in self._prepared.values()]
        return accept_findings(lint_fleet(catalogs), servers, today=self._started.date())

    def _compare(self, view: FleetView) -> RunComparison | None:
        before, rules = self._against or (self._before, None)
        if before is None:
            return None
        return self._history.compare(
            before,
            view,
            self._rules,
            before_rules=rules,
            find_changes=find_catalog_changes,
            required=tuple(self._results) if self._settings.require_all else (),
        )


def _show_path(path: Path) -> str:
    """Return a path relative to this folder; one outside of it by its name alone."""
    relative = Path(os.path.relpath(path))
    return path.name if ".." in relative.parts or relative.is_absolute() else relative.as_posix()


def _describe_end(outcome: WorkerOutcome) -> tuple[ServerState, tuple[str, ...]]:
    """Return the state of a server as far as its worker knows it, and why it is not better."""
    if outcome.report.unreachable:
        return "unreachable", (outcome.report.unreachable,)
    if outcome.ended == "crashed":
        return "failed", (outcome.text,)
    late = tuple(each.text for each in outcome.report.stages if each.state == "timed-out")
    if late or outcome.ended == "timed-out":
        return "timed-out", late or (outcome.text,)
    return "ok", ()


def _describe_doubt(outcome: WorkerOutcome) -> str:
    """Return why a later run may find something else about an equal server; empty if it may not."""
    if outcome.ended != "finished":
        return "the work on it did not end"
    if any(outcome.doubtful):
        return "what failed while the machine was busy could not be checked again"
    undone = [
        each.name
        for each in outcome.report.stages
        if each.state in ("failed", "timed-out") and each.name in ("check", "test")
    ]
    return f"the stage {undone[0]} did not end" if undone else ""


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
            tool_calls=old.tool_calls,
            timing=timing,
            reused_from=earlier.started,
            repeated=old.repeated,
        ),
        _REPORT.decode(earlier.documents.report),
    )
