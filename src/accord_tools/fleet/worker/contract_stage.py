"""The stage that tests a server against its own schemas, and runs the cases of the user."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from time import monotonic
from typing import Final

import msgspec

from accord.errors import MissingExtra
from accord.types import REVISION_IDS
from accord_tools.contract.cases import CaseFile, read_cases
from accord_tools.contract.runner import TestRun, plan_tests, run_test, temporary_hypothesis_home
from accord_tools.contract.tested_server import ContractRules, Test, TestedServer
from accord_tools.fleet.results import FailedTest, TestCounts
from accord_tools.fleet.worker.job import WorkerReport
from accord_tools.fleet.worker.stages import LagMeter, ServerWork, StageOutcome

# The part of the time of a server after which no further test begins.
_TIME_SHARE: Final = 0.8


async def run_contract_tests(work: ServerWork) -> StageOutcome:
    """Run the tests in a thread, because they wait for each answer."""
    files = [read_cases(path) for path in work.job.cases]
    async with LagMeter() as lag:
        outcome = await asyncio.to_thread(_run, work, files)
    work.end_leftovers()
    found = msgspec.structs.replace(outcome.found, load_lag=lag.seconds)
    return outcome._replace(found=found)


def _run(work: ServerWork, files: Sequence[CaseFile]) -> StageOutcome:
    job, access = work.job, work.access
    revisions = [file.revision for file in files if file.revision in REVISION_IDS]
    options = access.connect_options(revisions[0] if revisions else work.revision)
    # The limit of a case file is meant for its own cases; waiting longer breaks nothing.
    patience = max([job.patience, *(file.timeout for file in files if file.case)])
    tests = TestedServer(access.target, options, patience=patience)
    with temporary_hypothesis_home(job.generator_home), tests as server:
        rules, missing = _rules(work, files), ""
        cases = [case for file in files for case in file.case]
        try:
            planned, _ = plan_tests(server, rules, cases, calls=job.calls)
        except MissingExtra as error:
            missing = f"no contract tests: {error}; or leave them out: contract = false"
            planned, _ = plan_tests(server, None, cases, calls=job.calls)
        named = _name_tests(planned)
        if job.tests:
            named = {name: test for name, test in named.items() if name in job.tests}
        ran = _run_each(work, server, named)
        calls = tuple(each for each in server.limit.all_counts() if each.calls)
    left_out = [name for name in named if name not in ran]
    found = WorkerReport(tests=count_tests(ran, left_out), tool_calls=calls)
    if missing:
        return StageOutcome(found, "failed", missing)
    if left_out:
        return StageOutcome(
            found, "timed-out", _describe_left_out(job.time, len(ran), len(left_out))
        )
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


def _describe_left_out(time: float, ran: int, left_out: int) -> str:
    return (
        f"the time of the server, {time:g} s, was over before {left_out} of {ran + left_out} tests"
        " began; a larger time lets them run, fewer revisions or calls make them quicker"
    )


def _name_tests(tests: Iterable[Test]) -> dict[str, Test]:
    """Return tests by their names; of two with the same name the second gets a number.

    Cases come first: the user wrote them, and there are few.
    """
    named: dict[str, Test] = {}
    for test in sorted(tests, key=lambda each: each.kind != "case"):
        name, number = test.name, 1
        while name in named:
            number += 1
            name = f"{test.name} ({number})"
        named[name] = test
    return named


def _run_each(
    work: ServerWork, server: TestedServer, tests: Mapping[str, Test]
) -> dict[str, TestRun]:
    """Run tests while there is time; those that are missing had none."""
    over = work.began + work.job.time
    ends = work.began + work.job.time * _TIME_SHARE
    longest = 0.0
    ran: dict[str, TestRun] = {}
    for name, test in tests.items():
        work.channel.report_progress("test", len(ran) / len(tests), name)
        start = monotonic()
        # A test that does not end in time would lose the results of all others, too.
        if start > ends or start + 2 * longest > over:
            break
        outcome = run_test(server, test)
        seconds = monotonic() - start
        longest = max(longest, seconds)
        ran[name] = TestRun(test=test, outcome=outcome, seconds=seconds)
    return ran


def count_tests(ran: Mapping[str, TestRun], left_out: Collection[str] = ()) -> TestCounts:
    """Return the counts, the names with their verdicts, and the details of failures."""
    counts = Counter(each.outcome.verdict for each in ran.values())
    verdicts = {name: str(each.outcome.verdict) for name, each in ran.items()}
    return TestCounts(
        passed=counts["pass"],
        failed=counts["fail"],
        skipped=counts["skip"],
        no_time=len(left_out),
        failures=tuple(
            FailedTest(
                name=name,
                kind=each.test.kind,
                summary=each.outcome.failure.summary(),
                repeat=each.outcome.failure.repeat,
                seconds=round(each.seconds, 3),
            )
            for name, each in ran.items()
            if each.outcome.failure is not None
        ),
        names=verdicts | dict.fromkeys(left_out, "no-time"),
    )
