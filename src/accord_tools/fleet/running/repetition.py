"""Verdicts that a busy machine may have caused: found, made again alone, and replaced."""

import re
from collections.abc import Container, Mapping
from typing import Final

import msgspec

from accord.protocol.verdict import VerdictName
from accord_tools.check.report import Report, RequirementResult, replace_results
from accord_tools.fleet.results import BUSY, TestCounts
from accord_tools.fleet.running.worker_process import DoubtfulVerdicts, WorkerOutcome
from accord_tools.fleet.worker.job import WorkerJob, WorkerReport

# What verdicts say that rest on waiting in vain.
_WAITED: Final = re.compile(
    r"within [\d.]+ ?s\b|\bsilent\b|\bin time\b|\bnothing more\b|\bno (?:answer|response)\b"
    r"|\bdid not (?:arrive|end|exit)\b|\bdoes not (?:answer|end|exit)\b|\bkeeps running\b|\blate\b"
    r"|\bunanswered\b|\bnever (?:answers|sent|ends)\b|\b(?:is|was) not answered\b"
)
_DECIDED: Final = ("pass", "warn", "fail")


def find_doubtful(outcome: WorkerOutcome) -> DoubtfulVerdicts:
    """Return what failed by waiting in vain while the machine was busy."""
    found = outcome.report
    if outcome.ended != "finished" or found.load_lag <= BUSY:
        return DoubtfulVerdicts()
    results = () if found.report is None else found.report.results
    return DoubtfulVerdicts(
        tuple(each.id for each in results if each.verdict == "fail" and _has_waited(each)),
        tuple(each.name for each in found.tests.failures if _WAITED.search(each.summary)),
    )


def _has_waited(result: RequirementResult) -> bool:
    texts = [result.message, *(each.why for each in result.evidence)]
    return any(_WAITED.search(text) for text in texts)


def make_repetition(job: WorkerJob, doubtful: DoubtfulVerdicts) -> WorkerJob:
    """Return the job that makes some verdicts again, and does nothing else."""
    return msgspec.structs.replace(
        job, requirements=doubtful.requirements, tests=doubtful.tests, lock=None, reuse_if=""
    )


def replace_doubtful(first: WorkerOutcome, second: WorkerOutcome) -> WorkerOutcome:
    """Return an outcome in which the second verdicts count, where there are any.

    Args:
        first: the outcome with what is doubtful in it.
        second: that of the repetition, alone.
    """
    results = _newer_results(second.report.report, first.doubtful.requirements)
    tests = {
        name: verdict
        for name, verdict in second.report.tests.names.items()
        if name in first.doubtful.tests and verdict in _DECIDED
    }
    report, repeated = first.report, dict[str, VerdictName]()
    if report.report is not None and results:
        repeated |= {e.id: e.verdict for e in report.report.results if e.id in results}
        report = _with_results(report, report.report, results)
    if tests:
        repeated |= dict.fromkeys(tests, "fail")
        counts = _with_tests(report.tests, tests, second.report.tests)
        calls = (*report.tool_calls, *second.report.tool_calls)
        report = msgspec.structs.replace(report, tests=counts, tool_calls=calls)
    return msgspec.structs.replace(
        first,
        report=report,
        seconds=round(first.seconds + second.seconds, 3),
        repeated=repeated,
        doubtful=DoubtfulVerdicts(
            tuple(each for each in first.doubtful.requirements if each not in results),
            tuple(each for each in first.doubtful.tests if each not in tests),
        ),
    )


def _newer_results(
    report: Report | None, requirements: Container[str]
) -> dict[str, RequirementResult]:
    results = () if report is None else report.results
    return {
        each.id: each for each in results if each.id in requirements and each.verdict in _DECIDED
    }


def _with_results(
    whole: WorkerReport, report: Report, newer: dict[str, RequirementResult]
) -> WorkerReport:
    return msgspec.structs.replace(whole, report=replace_results(report, newer))


def _with_tests(counts: TestCounts, newer: Mapping[str, str], second: TestCounts) -> TestCounts:
    """Return tests with the newer verdicts, all of which were failures before."""
    passed = sum(verdict == "pass" for verdict in newer.values())
    kept = [each for each in counts.failures if each.name not in newer]
    return msgspec.structs.replace(
        counts,
        passed=counts.passed + passed,
        failed=counts.failed - passed,
        failures=(*kept, *(each for each in second.failures if each.name in newer)),
        names={**counts.names, **newer},
    )
