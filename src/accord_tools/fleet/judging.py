"""Judges what a worker found about a server by what the fleet expects of it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from accord.protocol.catalogue import catalogue
from accord_tools.fleet.definition import AcceptedBreach, FleetServer, ServerLimits
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogFinding,
    RequirementBreach,
    ServerResult,
)
from accord_tools.fleet.rule_set import RuleSet
from accord_tools.reports.report import EXERCISED, Report, RequirementResult, checkable, rate
from accord_tools.reports.tool_calls import ToolCounts
from accord_tools.reports.wording import plural

if TYPE_CHECKING:
    from accord_tools.fleet.worker.job import WorkerReport

IMPROVED: Final = "better than expected: lower "
"""Begins remarks on limits that a server does not need."""


class _Acceptances:
    """The accepted breaches of one server on one day, and which of them were needed."""

    def __init__(self, accepted: Sequence[AcceptedBreach], today: date) -> None:
        self._accepted = accepted
        self._today = today
        self._used: set[int] = set()

    def reason_for(self, id: str, subject: str | None = None) -> str:
        """Return why a breach is accepted today; empty if it counts."""
        for place, each in enumerate(self._accepted):
            if each.covers(id, subject):
                self._used.add(place)
                if self._today <= each.until:
                    return f"{each.reason} (until {each.until})"
        return ""

    def remarks(self, report: Report | None) -> Iterator[str]:
        """Yield which acceptances ended, and which are not needed any more."""
        for place, each in enumerate(self._accepted):
            if self._today > each.until:
                yield f"{each.id} was accepted until {each.until}, and counts again: {each.reason}"
            elif report is not None and place not in self._used and _was_tried(each, report):
                yield f"{each.id} is accepted, but nothing breaks it: remove the acceptance"


def _was_tried(accepted: AcceptedBreach, report: Report) -> bool:
    """Return whether a check would have shown a breach: not all revisions have all of them."""
    if not any(accepted.covers(id, accepted.subject) for id in catalogue()):
        return True  # a finding: every catalog is searched for it
    return any(
        each.verdict in EXERCISED and accepted.covers(each.id, accepted.subject)
        for each in report.results
    )


def accept_findings(
    findings: Iterable[CatalogFinding], servers: Iterable[FleetServer], *, today: date
) -> tuple[CatalogFinding, ...]:
    """Return findings with the reasons for which servers accept them today.

    A finding about one server is accepted by that server, one about several by any server.
    """
    accepted = {each.name: _Acceptances(each.accept, today) for each in servers}

    def reason_for(finding: CatalogFinding) -> str:
        deciding = [accepted[finding.server]] if finding.server in accepted else []
        if not finding.server:
            deciding = list(accepted.values())
        reasons = (each.reason_for(finding.id, finding.subject) for each in deciding)
        return next(filter(None, reasons), "")

    return tuple(replace(each, accepted=reason_for(each)) for each in findings)


def judge_server(
    server: FleetServer,
    result: ServerResult,
    report: Report | None,
    rules: RuleSet,
    *,
    today: date,
    lock_changes: Sequence[CatalogChange] = (),
) -> ServerResult:
    """Return a result with breaches, counts, score, state, reasons and remarks filled in.

    A server that was not checked to the end keeps its state, `unreachable`, `timed-out` or
    `skipped`, and its reasons.

    Args:
        server: what is expected.
        result: what is known so far; findings have to be there already.
        report: of the check; None if it was not made.
        rules: the requirements that count.
        today: the day, for breaches that are accepted until some day.
        lock_changes: how the catalog differs from the lock file.
    """
    accepted = _Acceptances(server.accept, today)
    findings = tuple(
        replace(each, accepted=accepted.reason_for(each.id, each.subject))
        for each in result.findings
    )
    result = replace(
        result, findings=findings, owner=server.owner, tags=server.tags, expect=server.expect
    )
    if report is not None:
        result = _with_report(result, report, rules, accepted)
    remarks = [*result.remarks, *accepted.remarks(report)]
    reasons = list(result.reasons)
    if result.state in ("ok", "failed"):
        reasons += _broken_limits(server.expect, result)
        reasons += _describe_drift(lock_changes)
        remarks += _improvements(server.expect, result)
        result = replace(result, state="failed" if reasons else "ok")
    return replace(result, reasons=tuple(reasons), remarks=tuple(remarks))


def _with_report(
    result: ServerResult, report: Report, rules: RuleSet, accepted: _Acceptances
) -> ServerResult:
    breaches = tuple(
        _breach(each, accepted.reason_for(each.id), is_pending=each.id not in rules.ids)
        for each in report.results
        if each.verdict in ("fail", "warn")
    )
    inside = [each for each in report.results if each.id in rules.ids]
    score, coverage = rate(inside, checkable(inside))
    return replace(
        result,
        revision=report.revision,
        revisions=report.setting.revisions,
        score=score,
        exercised=coverage.exercised,
        applicable=coverage.applicable,
        breaches=breaches,
        failures=sum(each.verdict == "fail" and each.counts for each in breaches),
        warnings=sum(each.verdict == "warn" and each.counts for each in breaches),
        accepted=sum(bool(each.accepted) for each in breaches),
        verdicts={each.id: each.verdict for each in report.results},
    )


def _breach(result: RequirementResult, accepted: str, *, is_pending: bool) -> RequirementBreach:
    shown = "\n".join(each.message or each.why for each in result.evidence)
    return RequirementBreach(
        requirement=result.id,
        verdict="fail" if result.verdict == "fail" else "warn",
        level=result.level,
        message=result.message,
        revisions=tuple(
            revision
            for revision, verdict in result.by_revision.items()
            if verdict == result.verdict
        ),
        evidence=sha256(shown.encode(errors="backslashreplace")).hexdigest()[:16],
        accepted=accepted,
        is_pending=is_pending,
    )


# -- limits


def _broken_limits(limits: ServerLimits, result: ServerResult) -> Iterator[str]:
    """Yield a sentence for each limit that is not kept."""
    for limit, count, verdict in (
        (limits.failures, result.failures, "fail"),
        (limits.warnings, result.warnings, "warn"),
    ):
        if limit is not None and count > limit:
            yield (
                f"{plural(count, 'requirement')} {verdict}ed, expected {_at_most(limit)}:"
                f" {_name_breaches(result.breaches, verdict)}"
            )
    if limits.tests is not None and result.tests.failed > limits.tests:
        names = _some([each.name for each in result.tests.failures])
        yield (
            f"{plural(result.tests.failed, 'test')} failed, expected"
            f" {_at_most(limits.tests)}: {names}"
        )
    if limits.score is not None and (result.score is None or result.score < limits.score):
        score = "there is no score" if result.score is None else f"the score is {result.score:g}"
        yield f"{score}, expected at least {limits.score:g}"
    yield from _broken_coverage(limits, result)
    start = result.timing.start
    if limits.start is not None and start is not None and start > limits.start:
        yield f"the first answer took {start:.1f} s, expected at most {limits.start:g} s"
    if limits.tokens is not None and result.catalog is not None:
        tokens = result.catalog.tokens
        if tokens > limits.tokens:
            most = _at_most(limits.tokens)
            yield f"the list of tools costs about {tokens} tokens, expected {most}"
    yield from (
        f"the stage {each.name} failed: {each.text}"
        for each in result.stages
        if each.state == "failed" and each.name in ("surface", "check", "test")
    )


def _broken_coverage(limits: ServerLimits, result: ServerResult) -> Iterator[str]:
    shown = f"{result.exercised} of {result.applicable} requirements were put to the test"
    if limits.exercised is not None and result.exercised < limits.exercised:
        yield f"{shown}, expected at least {limits.exercised}"
    if limits.coverage is not None:
        percent = 100 * result.exercised / result.applicable if result.applicable else 0.0
        if percent < limits.coverage:
            yield f"{shown} ({percent:.0f}%), expected at least {limits.coverage:g}%"


def _improvements(limits: ServerLimits, result: ServerResult) -> Iterator[str]:
    """Yield where a server is better than its limits, which hide a step back then."""
    if not result.exercised:
        return
    has_run = result.tests.passed + result.tests.failed
    for name, limit, count in (
        ("failures", limits.failures, result.failures),
        ("warnings", limits.warnings, result.warnings),
        ("tests", limits.tests if has_run else 0, result.tests.failed),
    ):
        if limit and count < limit:
            yield f"{IMPROVED}expect.{name} to {count}"


def _describe_drift(changes: Sequence[CatalogChange]) -> Iterator[str]:
    if changes:
        breaking = sum(each.kind == "breaking" for each in changes)
        kind = f", {breaking} of them breaking" if breaking else ""
        subjects = _some(list(dict.fromkeys(each.subject for each in changes)))
        yield (
            f"differs from the lock file in {plural(len(changes), 'place')}{kind}: {subjects};"
            " if that is intended, --update-locks accepts it"
        )


def _at_most(limit: int) -> str:
    return f"at most {limit}" if limit else "none"


def _name_breaches(breaches: Iterable[RequirementBreach], verdict: str) -> str:
    return _some([e.requirement for e in breaches if e.verdict == verdict and e.counts])


def _some(names: Sequence[str], shown: int = 3) -> str:
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")


# -- findings about what a server did; those about its texts are of the lint


_LEFT_BEHIND: Final = "process.left-behind"
_NEVER_SUCCEEDED: Final = "calls.never-succeeded"
RUN_FINDINGS: Final = frozenset({_LEFT_BEHIND, _NEVER_SUCCEEDED})
"""The ids of these findings, for `accept`."""


def count_tool_calls(report: "WorkerReport") -> tuple[ToolCounts, ...]:
    """Return the calls of each tool, by the check and by the tests together."""
    of_check = () if report.report is None else report.report.setting.tools
    found: dict[str, ToolCounts] = {}
    for each in (*of_check, *report.tool_calls):
        before = found.get(each.name, ToolCounts(name=each.name))
        found[each.name] = ToolCounts(
            name=each.name,
            calls=before.calls + each.calls,
            succeeded=before.succeeded + each.succeeded,
            refused=before.refused + each.refused,
        )
    return tuple(found.values())


def find_left_behind(report: "WorkerReport", server: str) -> Iterator[CatalogFinding]:
    """Yield a finding for each process that ran on after the server was stopped."""
    for each in report.left_processes:
        yield CatalogFinding(
            id=_LEFT_BEHIND,
            severity="warn",
            text=f"{each} still ran after the server was stopped, and was ended: a server ends"
            " what it starts when its standard input closes",
            subject="process",
            server=server,
        )


def find_failing_tools(tools: Iterable[ToolCounts], server: str) -> Iterator[CatalogFinding]:
    """Yield a finding for each tool that answered every call with an error."""
    for each in tools:
        if each.never_succeeded:
            yield CatalogFinding(
                id=_NEVER_SUCCEEDED,
                severity="warn",
                text=f"none of {plural(each.calls, 'call')} succeeded, so nothing shows that it"
                " works; give examples of valid arguments in its inputSchema, or a test case",
                subject=f"tool {each.name}",
                server=server,
            )
