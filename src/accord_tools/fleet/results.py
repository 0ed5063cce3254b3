"""What a run of a fleet finds: about each server, about all together, and against another run.

Nothing here contains values of variables, headers or tokens: workers mask what they send.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import JsonObject, RevisionId
from accord_tools.fleet.definition import ServerLimits
from accord_tools.reports.tool_calls import ToolCounts

ServerState: TypeAlias = Literal["ok", "failed", "unreachable", "timed-out", "skipped"]
"""`ok` is as expected, `failed` is not. The others could not be checked, or not to the end."""

STATES: Final[tuple[ServerState, ...]] = ("failed", "unreachable", "timed-out", "skipped", "ok")
"""The states, the worst first."""

StageName: TypeAlias = Literal[
    "resolve", "start", "surface", "lint", "check", "test", "measure", "stop"
]
"""A stage of the work on one server; they are made in this order."""

StageState: TypeAlias = Literal["passed", "failed", "timed-out", "skipped", "reused"]
"""How a stage ended; `timed-out` left something undone because the server's time was over."""

BUSY: Final = 0.1
"""An event loop that is late by so many seconds runs on a busy machine."""

Severity: TypeAlias = Literal["warn", "info"]


class StageResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one stage ended; `text` says why it failed or was left out."""

    name: StageName
    state: StageState
    seconds: float = 0.0
    text: str = ""


class RequirementBreach(msgspec.Struct, frozen=True, kw_only=True):
    """A requirement that failed or warned.

    Attributes:
        requirement: its id.
        verdict: "fail" or "warn".
        level: MUST, SHOULD and so on.
        message: what was seen.
        revisions: in which revisions.
        evidence: digest of what was seen.
        accepted: the reason for which it does not count; empty if it counts.
        is_pending: whether the rule is newer than the set of rules, so that it does not count.
    """

    requirement: str
    verdict: Literal["fail", "warn"]
    level: str
    message: str
    revisions: tuple[RevisionId, ...] = ()
    evidence: str = ""
    accepted: str = ""
    is_pending: bool = False

    @property
    def counts(self) -> bool:
        """Whether it counts against the limits."""
        return not self.accepted and not self.is_pending


class FailedTest(msgspec.Struct, frozen=True, kw_only=True):
    """A contract test or a case that failed."""

    name: str
    kind: str
    summary: str
    repeat: str = ""
    seconds: float = 0.0


class TestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The tests of one server: how many, and the names of all for reports that list them.

    Attributes:
        passed: how many passed.
        failed: how many failed.
        skipped: how many may not be run, such as those of tools that may not be called.
        no_time: how many were left out because the time of the server was over.
        failures: those that failed.
        names: each test: "pass", "fail", "skip" or "no-time".
    """

    __test__ = False  # pytest collects classes of this name

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    no_time: int = 0
    failures: tuple[FailedTest, ...] = ()
    names: Mapping[str, str] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether there are tests that should run; those that were skipped should not."""
        return bool(self.passed or self.failed or self.no_time)


class CatalogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offers, counted and hashed.

    Attributes:
        digest: over everything; versions and order do not matter.
        entries: the digest of each entry, by "tool NAME", "prompt NAME" and so on.
        tools: how many; likewise the others.
        tokens: about how many tokens the list of tools costs a model.
    """

    digest: str
    entries: Mapping[str, str] = {}
    tools: int = 0
    resources: int = 0
    templates: int = 0
    prompts: int = 0
    tokens: int = 0


class CatalogFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a catalog that is worth changing; does not move the score.

    Attributes:
        id: such as "safety.invisible".
        severity: "warn" or "info".
        subject: the entry, such as "tool add"; empty is the server as a whole.
        text: what was found, and what to change.
        server: which server; empty is the fleet as a whole.
        source: for rules of directories: which policy, and when it was read.
        accepted: the reason for which it does not count; empty if it counts.
    """

    id: str
    severity: Severity
    text: str
    subject: str = ""
    server: str = ""
    source: str = ""
    accepted: str = ""


ChangeKind: TypeAlias = Literal["breaking", "compatible", "text"]
"""What a change means for clients; a changed text may change what a model does."""


class CatalogChange(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two catalogs.

    Attributes:
        kind: what it means for clients.
        subject: the entry, such as "tool add".
        what: such as "removed", "description changed", "inputSchema.properties.a removed".
        before: as JSON; None if it was absent.
        after: likewise.
    """

    kind: ChangeKind
    subject: str
    what: str
    before: str | None = None
    after: str | None = None


class ServerTiming(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a server is, in seconds; None where it was not measured.

    `start` is what a user waits; `start_cpu` is the CPU time of it, which a busy machine does not
    change.
    """

    start: float | None = None
    start_cpu: float | None = None
    ping_median: float | None = None
    ping_95: float | None = None
    call_median: float | None = None
    call_95: float | None = None
    tool: str = ""


class ServerResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a run found about one server.

    Attributes:
        name: of the server in the fleet.
        state: whether it is as expected.
        expect: the limits that it was judged by.
        reasons: why it is not, or why it could not be checked; one sentence each.
        remarks: such as "better than expected: lower the number".
        target: the command or URL, without secrets.
        transport: stdio, http or sse.
        stages: how each ended.
        revision: the newest that was checked.
        catalog_revision: the one in which the catalog was listed.
        revisions: all that were checked.
        score: None if nothing was put to the test.
        exercised: how many requirements were put to the test.
        applicable: how many apply.
        failures: how many failed and count.
        warnings: how many warned and count.
        accepted: how many breaches are accepted.
        breaches: requirements that failed or warned.
        verdicts: of every requirement that was asked.
        tests: contract tests and cases.
        tool_calls: how often each tool was called, and how its calls were answered.
        catalog: what it offers, summarized; None if it was not listed.
        findings: of the lint.
        changes: against the lock, or against the run before.
        changed_since: what `changes` compare with: "lock", "last run", or empty.
        timing: how fast it is.
        seconds: of all stages.
        server_name: as the server says.
        server_version: likewise.
        stderr: its first and last lines.
        left_processes: what still ran after it was stopped, such as "sleep (pid 7)".
        cache_key: equal keys mean that the same result is expected; empty if unknown.
        not_cached: why it has no key.
        reused_from: when the reused result was made, as ISO 8601; empty if it is new.
        flaky: requirements whose verdicts change without cause.
        load_lag: the largest delay of the event loop that the worker noticed, in seconds.
        repeated: requirements and tests that were checked again alone, with the verdict before.
        line: of its entry in the fleet file.
    """

    name: str
    state: ServerState
    owner: str = ""
    tags: tuple[str, ...] = ()
    expect: ServerLimits = ServerLimits()
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    target: str = ""
    transport: str = ""
    stages: tuple[StageResult, ...] = ()
    revision: RevisionId | None = None
    catalog_revision: RevisionId | None = msgspec.field(name="surface_revision", default=None)
    revisions: tuple[RevisionId, ...] = ()
    score: float | None = None
    exercised: int = 0
    applicable: int = 0
    failures: int = 0
    warnings: int = 0
    accepted: int = 0
    breaches: tuple[RequirementBreach, ...] = ()
    verdicts: Mapping[str, VerdictName] = {}
    tests: TestCounts = TestCounts()
    tool_calls: tuple[ToolCounts, ...] = ()
    catalog: CatalogSummary | None = msgspec.field(name="surface", default=None)
    findings: tuple[CatalogFinding, ...] = ()
    changes: tuple[CatalogChange, ...] = ()
    changed_since: str = ""
    timing: ServerTiming = ServerTiming()
    seconds: float = 0.0
    server_name: str = ""
    server_version: str = ""
    stderr: tuple[str, ...] = ()
    left_processes: tuple[str, ...] = ()
    cache_key: str = ""
    not_cached: str = ""
    reused_from: str = ""
    flaky: tuple[str, ...] = ()
    load_lag: float = 0.0
    repeated: Mapping[str, VerdictName] = {}
    line: int | None = None

    @property
    def was_busy(self) -> bool:
        """Whether the machine was busy, so that what waited in vain says little."""
        return self.load_lag > BUSY

    @property
    def is_as_expected(self) -> bool:
        """Whether nothing is wrong; one that was skipped is not wrong."""
        return self.state in ("ok", "skipped")


class ServerDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """The long parts of a result, kept apart: the report of the check, and the catalog.

    Attributes:
        report: a `accord_tools.reports.report.Report` as JSON; empty if the check was not made.
        catalog: as `accord.testing.catalog_of` returns it; None if it was not listed.
    """

    report: bytes = b""
    catalog: JsonObject | None = None


class RuleSetStamp(msgspec.Struct, frozen=True, kw_only=True):
    """Which rules a run was judged by: their version, and a digest of their ids."""

    version: str
    digest: str


class RunOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run was made: its commit, branch and the like; empty where unknown."""

    git_commit: str = ""
    git_branch: str = ""
    is_dirty: bool = False
    ci_url: str = ""
    host: str = ""


class FleetRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a fleet.

    Attributes:
        id: of the run in the history; 0 if it is not kept.
        fleet: the name of the fleet.
        file: the fleet file, as it was named.
        file_digest: of the file's text.
        started: ISO 8601, UTC.
        seconds: the duration.
        accord: the version of accord.
        rules: the set of rules.
        results: in the order of the file.
        findings: about several servers together, such as equal names of tools.
        jobs: how many workers ran at once.
        exit: the exit code.
        origin: where it was made.
        notes: remarks on the run.
        left_out: servers of the file that the run was not asked for, such as another shard's.
    """

    fleet: str
    file: str
    started: str
    accord: str
    rules: RuleSetStamp
    results: tuple[ServerResult, ...]
    id: int = 0
    file_digest: str = ""
    seconds: float = 0.0
    findings: tuple[CatalogFinding, ...] = ()
    jobs: int = 1
    exit: int = 0
    origin: RunOrigin = RunOrigin()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


DifferenceKind: TypeAlias = Literal[
    "new-failure",
    "fixed",
    "new-warning",
    "coverage-lost",
    "score-down",
    "test-failing",
    "test-fixed",
    "unreachable",
    "reachable",
    "skipped",
    "surface-breaking",
    "surface-changed",
    "slower",
    "appeared",
    "disappeared",
]
REGRESSIONS: Final[frozenset[str]] = frozenset(
    {
        *("new-failure", "new-warning", "coverage-lost", "score-down", "test-failing"),
        *("unreachable", "surface-breaking", "slower", "disappeared"),
    }
)
"""The kinds of difference that are regressions; `surface-changed` is drift."""


class RunDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two runs.

    Attributes:
        kind: what differs.
        server: of which server.
        subject: the requirement, test or entry; empty is the server as a whole.
        text: a sentence for people.
        is_flaky: whether the verdict changes without cause, so that it fails no build.
    """

    kind: DifferenceKind
    server: str
    text: str
    subject: str = ""
    is_flaky: bool = False

    @property
    def is_regression(self) -> bool:
        """Whether something got worse, and not by chance."""
        return self.kind in REGRESSIONS and not self.is_flaky


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """How a run differs from another one.

    Attributes:
        against: the other run, for people: "run 12 of 2026-11-16 08:02".
        differences: grouped by server, regressions first.
        new_rules: requirements that only the newer set of rules has, never regressions.
        dropped_rules: requirements that only the older set has.
    """

    against: str
    differences: tuple[RunDifference, ...] = ()
    new_rules: tuple[str, ...] = ()
    dropped_rules: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[RunDifference, ...]:
        """What got worse."""
        return tuple(each for each in self.differences if each.is_regression)


class TrendPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One earlier result of a server, for a line over time."""

    run: int
    started: str
    rules: str
    state: ServerState
    failures: int = 0
    warnings: int = 0
    exercised: int = 0
    applicable: int = 0
    score: float | None = None
    start: float | None = None
    is_reused: bool = False


class FleetView(msgspec.Struct, frozen=True, kw_only=True):
    """All that reports show: a run, how it compares, and what was before.

    Attributes:
        run: the run.
        comparison: with an earlier run, if there is one.
        trends: earlier results of each server, the oldest first, this run the last.
        documents: reports and catalogs by server, where they are known.
        rules: the ids of the set of rules; empty if only its stamp is known.
    """

    run: FleetRun
    comparison: RunComparison | None = None
    trends: Mapping[str, tuple[TrendPoint, ...]] = {}
    documents: Mapping[str, ServerDocuments] = {}
    rules: tuple[str, ...] = ()


# -- the outcome of a run: which findings fail it, and its exit code


FailOn: TypeAlias = Literal["failure", "regression", "warning", "drift", "never"]
"""What fails a run: servers that are not as expected; what got worse since the run before; any
warning; any change of what servers offer; or nothing."""

FAIL_ON: Final[tuple[FailOn, ...]] = ("failure", "regression", "warning", "drift", "never")
_DRIFT: Final = ("surface-breaking", "surface-changed")


def exit_code(
    run: FleetRun,
    comparison: RunComparison | None,
    fail_on: Collection[FailOn],
    *,
    require_all: bool = False,
) -> int:
    """Return 0 if all is as expected, 1 if not, 2 if no server could be checked.

    Args:
        run: the run.
        comparison: with an earlier run, if there is one.
        fail_on: what fails the run.
        require_all: whether a server that was skipped means that the run could not be made.
    """
    checked = [each for each in run.results if each.state in ("ok", "failed", "timed-out")]
    skipped = [each for each in run.results if each.state == "skipped"]
    if require_all and skipped:
        return 2
    if "never" in fail_on:
        return 0
    if not checked and len(skipped) < len(run.results):
        return 2
    return 1 if any(_failures(run, comparison, fail_on)) else 0


def _failures(
    run: FleetRun, comparison: RunComparison | None, fail_on: Collection[FailOn]
) -> Iterator[bool]:
    if "failure" in fail_on:
        yield any(not each.is_as_expected for each in run.results)
    if "warning" in fail_on:
        yield any(not each.is_as_expected or _has_warning(each) for each in run.results)
        yield any(map(is_warning, run.findings))
    if "drift" in fail_on:
        yield any(each.changes for each in run.results)
    if comparison is not None:
        if "regression" in fail_on:
            yield bool(comparison.regressions)
        if "drift" in fail_on:
            yield any(each.kind in _DRIFT for each in comparison.differences)


def _has_warning(result: ServerResult) -> bool:
    return result.warnings > 0 or any(map(is_warning, result.findings))


def is_warning(finding: CatalogFinding) -> bool:
    """Return whether a finding of the lint is a warning that is not accepted."""
    return finding.severity == "warn" and not finding.accepted
