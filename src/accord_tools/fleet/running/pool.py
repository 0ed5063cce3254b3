"""Runs workers side by side: as many as the machine takes, each bounded in time.

Verdicts that a busy machine may have caused are made again alone.
"""

import asyncio
import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.errors import ConnectFailed
from accord.protocol.verdict import VerdictName
from accord.secrets.filter import SecretFilter
from accord_tools.fleet.results import BUSY, TestCounts
from accord_tools.fleet.running.processes import (
    RunningProcess,
    adopt_orphans,
    end_processes,
    find_children,
    find_orphans,
    reap,
)
from accord_tools.fleet.running.worker_process import (
    DoubtfulVerdicts,
    OnWorkerProgress,
    WorkerOutcome,
    WorkerProcess,
)
from accord_tools.fleet.worker.job import WorkerJob, WorkerProgress, WorkerReport
from accord_tools.reports.report import RequirementResult, replace_results

# -- repetition


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
    again = () if second.report.report is None else second.report.report.results
    results = {
        each.id: each
        for each in again
        if each.id in first.doubtful.requirements and each.verdict in _DECIDED
    }
    tests = {
        name: verdict
        for name, verdict in second.report.tests.names.items()
        if name in first.doubtful.tests and verdict in _DECIDED
    }
    report, repeated = first.report, dict[str, VerdictName]()
    if report.report is not None and results:
        repeated |= {e.id: e.verdict for e in report.report.results if e.id in results}
        newer = replace_results(report.report, results)
        report = msgspec.structs.replace(report, report=newer)
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


# -- the pool


# Workers mostly wait, so that two on a core bring nearly all there is.
_PER_CORE: Final = 2
_MOST_JOBS: Final = 8
# Servers behind URLs cost this machine little; each host gets one worker at a time.
_REMOTE_JOBS: Final = 8
# Scenarios that a check runs at once, and all checks together on one core. Each waits most of the
# time: with four times two on a core, verdicts are the same and take two thirds of the time.
_AT_ONCE: Final = 4
_AT_ONCE_PER_CORE: Final = 8
_ORPHAN_GRACE: Final = 0.5

OnResult: TypeAlias = Callable[[WorkerOutcome], object]
"""Called with the outcome of each server, once."""


class PoolRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of workers gave.

    Attributes:
        outcomes: by the name of the server, in the order given; servers whose work did not begin
            are missing.
        is_interrupted: whether it was cancelled.
        jobs: how many workers ran at once.
    """

    outcomes: dict[str, WorkerOutcome]
    is_interrupted: bool = False
    jobs: int = 1


def count_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def default_jobs() -> int:
    """Return how many workers for launched servers run at once by default."""
    return min(_PER_CORE * count_cores(), _MOST_JOBS)


async def run_all(
    work: Sequence[WorkerJob],
    *,
    jobs: int | None = None,
    expected_seconds: Mapping[str, float] | None = None,
    on_progress: OnWorkerProgress | None = None,
    on_result: OnResult | None = None,
    is_enough: Callable[[WorkerOutcome], bool] | None = None,
) -> PoolRun:
    """Run a worker for each server, and return all outcomes; no process is left afterwards.

    Cancelling it, Ctrl-C and SIGTERM end all workers, and what is there is returned. While it
    runs, this process should start no other process in a session of its own: on Linux it would be
    taken for one that a worker left.

    Args:
        work: the jobs, one for each server.
        jobs: how many workers for launched servers run at once.
        expected_seconds: how long each server took the last time; the slowest begin first.
        on_progress: called with each message about progress.
        on_result: called with each outcome.
        is_enough: called with each outcome; if it returns True, the other workers are ended.
    """
    pool = _Pool(jobs or default_jobs(), on_progress, on_result, is_enough)
    expected = expected_seconds or {}
    # Those that are not known yet may be slow, too.
    ordered = sorted(work, key=lambda job: -expected.get(job.name, float("inf")))
    with _orphans_to_us(), _cancel_on_terminate(), _shared_folder() as folder:
        ordered = [msgspec.structs.replace(job, generator_home=folder) for job in ordered]
        is_interrupted = await pool.run(ordered)
    names = [job.name for job in work if job.name in pool.outcomes]
    return PoolRun(
        outcomes={name: pool.outcomes[name] for name in names},
        is_interrupted=is_interrupted,
        jobs=pool.jobs,
    )


class _Pool:
    def __init__(
        self,
        jobs: int,
        on_progress: OnWorkerProgress | None,
        on_result: OnResult | None,
        is_enough: Callable[[WorkerOutcome], bool] | None,
    ) -> None:
        self.jobs = jobs
        self.outcomes: dict[str, WorkerOutcome] = {}
        self._on_progress = on_progress
        self._on_result = on_result
        self._is_enough = is_enough
        self._local = asyncio.Semaphore(jobs)
        self._remote = asyncio.Semaphore(_REMOTE_JOBS)
        self._hosts: dict[str, asyncio.Lock] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._doubtful: list[WorkerJob] = []
        self._process_lock = threading.Lock()
        self._secrets: set[str] = set()
        # Children that are not to be ended here.
        self._known = {each.pid for each in find_children()}

    async def run(self, work: Sequence[WorkerJob]) -> bool:
        """Run all; return whether that was interrupted."""
        self._secrets = {secret for job in work for secret in job.server.secrets}
        self._tasks = [asyncio.create_task(self._run_one(job)) for job in work]
        is_interrupted = await self._finish()
        if not is_interrupted:
            self._tasks = [asyncio.create_task(self._repeat_doubtful())]
            is_interrupted = await self._finish()
        for job in self._doubtful:
            # The first outcome counts if there was no time for a second one.
            self._deliver(self.outcomes[job.name])
        await asyncio.to_thread(self._end_orphans)
        return is_interrupted

    async def _finish(self) -> bool:
        """Wait for all tasks; when cancelled, cancel them and wait on."""
        is_cancelled = False
        while any(not task.done() for task in self._tasks):
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError:
                is_cancelled = True
                current = asyncio.current_task()
                if current is not None:
                    current.uncancel()
                self._cancel_all()
        for task in self._tasks:
            if not task.cancelled():
                task.result()
        return is_cancelled

    def _cancel_all(self, but: "asyncio.Task[None] | None" = None) -> None:
        for task in self._tasks:
            if task is not but:
                task.cancel()

    # -- one server

    async def _run_one(self, job: WorkerJob) -> None:
        async with AsyncExitStack() as slots:
            host = urlsplit(job.server.url).hostname or ""
            if job.server.url:
                await slots.enter_async_context(self._hosts.setdefault(host, asyncio.Lock()))
            await slots.enter_async_context(self._remote if job.server.url else self._local)
            outcome = await self._work(self._fit_to_machine(job))
        doubtful = find_doubtful(outcome)
        outcome = msgspec.structs.replace(outcome, doubtful=doubtful)
        self.outcomes[job.name] = outcome
        if any(doubtful):
            self._doubtful.append(job)
            self._report_waiting(job.name)
        else:
            self._deliver(outcome)

    def _fit_to_machine(self, job: WorkerJob) -> WorkerJob:
        """Let a check do fewer things at a time where many checks fill the machine already."""
        if job.at_once is not None:
            return job
        most = _AT_ONCE_PER_CORE * count_cores() // min(self.jobs, len(self._tasks))
        return msgspec.structs.replace(job, at_once=max(1, min(_AT_ONCE, most)))

    async def _work(self, job: WorkerJob) -> WorkerOutcome:
        worker = WorkerProcess(job, self._on_progress)
        try:
            # Otherwise it may be taken for an orphan as soon as it runs.
            with self._process_lock:
                self._known.add(worker.start())
        except ConnectFailed as error:
            return WorkerOutcome(
                name=job.name, ended="crashed", report=WorkerReport(), text=f"no worker: {error}"
            )
        outcome = await worker.finish()
        # A worker that was killed leaves its servers to us.
        left = await asyncio.to_thread(self._end_orphans)
        if left and outcome.ended != "finished":
            report = outcome.report.with_part(WorkerReport(left_processes=left))
            outcome = msgspec.structs.replace(outcome, report=report)
        return outcome

    def _deliver(self, outcome: WorkerOutcome) -> None:
        if self._on_result is not None:
            self._on_result(outcome)
        if self._is_enough is not None and self._is_enough(outcome):
            self._cancel_all(but=asyncio.current_task())

    # -- again, alone

    def _report_waiting(self, name: str) -> None:
        if self._on_progress is not None:
            waiting = WorkerProgress(stage="check", share=1.0, now="waits to be checked again")
            self._on_progress(name, waiting)

    async def _repeat_doubtful(self) -> None:
        while self._doubtful:
            job = self._doubtful[0]
            first = self.outcomes[job.name]
            second = await self._work(make_repetition(job, first.doubtful))
            self.outcomes[job.name] = replace_doubtful(first, second)
            del self._doubtful[0]
            self._deliver(self.outcomes[job.name])

    # -- processes

    def _end_orphans(self) -> tuple[str, ...]:
        """End what dead workers left; return it in words."""
        described: dict[tuple[int, str], str] = {}

        def find() -> list[RunningProcess]:
            with self._process_lock:
                found = find_orphans(self._known)
            reap(each for each in found if each.is_zombie)
            alive = [each for each in found if not each.is_zombie]
            for each in alive:
                described.setdefault((each.pid, each.started), f"{each.words} (pid {each.pid})")
            return alive

        end_processes(find, grace=_ORPHAN_GRACE)
        if not described:
            return ()
        # Arguments may have secrets, and no worker is left to mask them; whose it was is unknown.
        return tuple(map(SecretFilter(self._secrets).hide_any, described.values()))


def _shared_folder() -> TemporaryDirectory[str]:
    # A worker that was killed may still have written to it.
    return TemporaryDirectory(prefix="accord-fleet-", ignore_cleanup_errors=True)


@contextmanager
def _orphans_to_us() -> Iterator[None]:
    before = adopt_orphans()
    try:
        yield
    finally:
        adopt_orphans(is_on=before)


@contextmanager
def _cancel_on_terminate() -> Iterator[None]:
    """Let SIGTERM cancel the current task, as Ctrl-C does, unless it means something already."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    is_set = False
    if is_free and task is not None:
        # Only the main thread can; Windows has no such signal.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
            is_set = True
    try:
        yield
    finally:
        if is_set:
            loop.remove_signal_handler(signal.SIGTERM)
