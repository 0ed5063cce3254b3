"""The stage that tests a server against its own schemas, and runs the cases of the user."""

import asyncio
from collections import Counter
from collections.abc import Container, Sequence
from time import monotonic
from typing import Final

import msgspec

from accord.check.contract.cases import Case, CaseFile, read_cases
from accord.check.contract.declared_tests import ContractRules
from accord.check.contract.hypothesis_home import temporary_hypothesis_home
from accord.check.contract.runner import TestRun, plan_tests, run_test
from accord.check.contract.tested_server import Test, TestedServer
from accord.errors import MissingExtra
from accord.fleet.results import FailedTest, TestCounts
from accord.fleet.worker.job import WorkerJob, WorkerReport
from accord.fleet.worker.stages import ServerWork, StageOutcome
from accord.types import REVISION_IDS

# The part of the time of a server after which no further test begins.
_TIME_SHARE: Final = 0.8


async def run_contract_tests(work: ServerWork) -> StageOutcome:
    """Run the tests in a thread, because they wait for each answer."""
    files = [read_cases(path) for path in work.job.cases]
    outcome = await asyncio.to_thread(_run, work, files)
    work.end_leftovers()
    return outcome


def _run(work: ServerWork, files: Sequence[CaseFile]) -> StageOutcome:
    job, access = work.job, work.access
    named = [file.revision for file in files if file.revision in REVISION_IDS]
    options = access.connect_options(named[0] if named else work.revision)
    # The limit of a case file is meant for its own cases; waiting longer breaks nothing.
    patience = max([job.patience, *(file.timeout for file in files if file.case)])
    tests = TestedServer(access.target, options, patience=patience)
    with temporary_hypothesis_home(job.generator_home), tests as server:
        rules, missing = _rules(work, files), ""
        cases = _cases(files)
        try:
            planned, _ = plan_tests(server, rules, cases, calls=job.calls)
        except MissingExtra as error:
            missing = f"no contract tests: {error}; or leave them out: contract = false"
            planned, _ = plan_tests(server, None, cases, calls=job.calls)
        ran, left_out = _run_each(work, server, planned)
    found = WorkerReport(tests=count_tests(ran, left_out))
    if missing:
        return StageOutcome(found, "failed", missing)
    if left_out:
        return StageOutcome(found, "timed-out", _describe_left_out(job, ran, left_out))
    return StageOutcome(found)


def _rules(work: ServerWork, files: Sequence[CaseFile]) -> ContractRules | None:
    """Return what contract tests may do: as the job says, and as the case files add."""
    job = work.job
    if not job.contract or (files and not any(file.contract for file in files)):
        return None
    asking = [file for file in files if file.contract]
    first = asking[0] if asking else CaseFile()
    return ContractRules(
        tools=frozenset(job.tools).union(*(file.tools for file in asking)),
        allow_writes=job.allow_writes or any(file.allow_writes for file in asking),
        examples=first.examples,
        seed=first.seed,
        calls=first.calls if job.calls is None else job.calls,
    )


def _cases(files: Sequence[CaseFile]) -> list[Case]:
    """Return the cases of all files; names that occur twice get a number."""
    seen: Counter[str] = Counter()
    found = []
    for case in (case for file in files for case in file.case):
        seen[case.name] += 1
        number = seen[case.name]
        name = f"{case.name} ({number})" if number > 1 else case.name
        found.append(msgspec.structs.replace(case, name=name))
    return found


def _describe_left_out(job: WorkerJob, ran: Sequence[TestRun], left_out: Sequence[Test]) -> str:
    return (
        f"the time of the server, {job.time:g} s, was over before"
        f" {len(left_out)} of {len(ran) + len(left_out)} tests began; a larger time lets them run,"
        " fewer revisions or calls make them quicker"
    )


def _run_each(
    work: ServerWork, server: TestedServer, tests: Sequence[Test]
) -> tuple[list[TestRun], list[Test]]:
    """Run tests while there is time; return what ran, and what was left out."""
    ends = work.began + work.job.time * _TIME_SHARE
    # Cases first: the user wrote them, and there are few.
    ordered = sorted(tests, key=lambda test: test.kind != "case")
    ran: list[TestRun] = []
    for number, test in enumerate(ordered):
        work.channel.report_progress("test", number / len(ordered), test.name)
        start = monotonic()
        if start > ends:
            return ran, ordered[number:]
        outcome = run_test(server, test)
        ran.append(TestRun(test=test, outcome=outcome, seconds=monotonic() - start))
    return ran, []


def count_tests(ran: Sequence[TestRun], left_out: Sequence[Test] = ()) -> TestCounts:
    """Return the counts, the names with their verdicts, and the details of failures."""
    counts = Counter(each.outcome.verdict for each in ran)
    names: dict[str, str] = {}
    failures: list[FailedTest] = []
    for each in ran:
        name = _free_name(each.test.name, names)
        names[name] = each.outcome.verdict
        if each.outcome.failure is not None:
            failure = each.outcome.failure
            failures.append(
                FailedTest(
                    name=name,
                    kind=each.test.kind,
                    summary=failure.summary(),
                    repeat=failure.repeat,
                    seconds=round(each.seconds, 3),
                )
            )
    for test in left_out:
        names[_free_name(test.name, names)] = "no-time"
    return TestCounts(
        passed=counts["pass"],
        failed=counts["fail"],
        skipped=counts["skip"],
        no_time=len(left_out),
        failures=tuple(failures),
        names=names,
    )


def _free_name(name: str, taken: Container[str]) -> str:
    """Return a name for a test; one that is taken gets a number."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} ({number})"
    return found
