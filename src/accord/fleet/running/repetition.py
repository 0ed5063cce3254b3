"""Verdicts that a busy machine may have caused: found, checked again alone, and replaced."""

import re
from typing import Final

import msgspec

from accord.check.report import Report, RequirementResult, replace_results
from accord.fleet.running.worker_process import WorkerOutcome
from accord.fleet.worker.job import WorkerJob, WorkerReport

# An event loop that is late by so many seconds runs on a busy machine.
BUSY: Final = 0.1
# What verdicts say that rest on waiting in vain.
_WAITED: Final = re.compile(
    r"within [\d.]+ ?s\b|\bsilent\b|\bin time\b|\bnothing more\b|\bno (?:answer|response)\b"
    r"|\bdid not (?:arrive|end|exit)\b|\bdoes not (?:answer|end|exit)\b|\bkeeps running\b|\blate\b"
    r"|\bunanswered\b|\bnever (?:answers|sent|ends)\b|\b(?:is|was) not answered\b"
)
_DECIDED: Final = ("pass", "warn", "fail")


def find_doubtful(outcome: WorkerOutcome) -> tuple[str, ...]:
    """Return the requirements that failed by waiting in vain while the machine was busy."""
    report = outcome.report.report
    if report is None or outcome.ended != "finished" or outcome.report.load_lag <= BUSY:
        return ()
    return tuple(each.id for each in report.results if each.verdict == "fail" and _has_waited(each))


def _has_waited(result: RequirementResult) -> bool:
    texts = [result.message, *(each.why for each in result.evidence)]
    return any(_WAITED.search(text) for text in texts)


def make_repetition(job: WorkerJob, requirements: tuple[str, ...]) -> WorkerJob:
    """Return the job that checks some requirements again, and does nothing else."""
    return msgspec.structs.replace(job, requirements=requirements, lock=None, reuse_if="")


def replace_doubtful(
    first: WorkerOutcome, requirements: tuple[str, ...], second: WorkerOutcome
) -> WorkerOutcome:
    """Return an outcome in which the verdicts of the second check count, where it has any."""
    report, again = first.report.report, second.report.report
    if report is None or again is None:
        return first
    newer = {
        each.id: each
        for each in again.results
        if each.id in requirements and each.verdict in _DECIDED
    }
    repeated = {each.id: each.verdict for each in report.results if each.id in newer}
    return msgspec.structs.replace(
        first,
        report=_with_results(first.report, report, newer),
        seconds=round(first.seconds + second.seconds, 3),
        repeated=repeated,
    )


def _with_results(
    whole: WorkerReport, report: Report, newer: dict[str, RequirementResult]
) -> WorkerReport:
    return msgspec.structs.replace(whole, report=replace_results(report, newer))
