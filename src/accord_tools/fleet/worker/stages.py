"""The work on one server, stage by stage; what each finds is sent as soon as it ends."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from accord.errors import AccordError
from accord.protocol.revisions import newest
from accord_tools.fleet.results import (
    CatalogChange,
    ServerTiming,
    StageName,
    StageResult,
    StageState,
)
from accord_tools.fleet.running.processes import (
    descendants_cpu,
    end_processes,
    find_descendants,
    reap,
)
from accord_tools.fleet.worker.channel import ParentChannel
from accord_tools.fleet.worker.job import WorkerJob, WorkerReport
from accord_tools.fleet.worker.server_access import ServerAccess

if TYPE_CHECKING:
    from accord.client import Client
    from accord.types import JsonObject, RevisionId

log = logging.getLogger("accord_tools.fleet")

# What a server left is asked to end, and killed after so many seconds.
_LEFT_GRACE: Final = 0.5
_LEFT_SHOWN: Final = 8
_LAG_PAUSE: Final = 0.05
_NOT_FOUND: Final = -32601


class StageOutcome(NamedTuple):
    """What a stage found, and how it ended."""

    found: WorkerReport = WorkerReport()
    state: StageState = "passed"
    text: str = ""


class ServerWork:
    """The work on the server of one job.

    Args:
        job: what to do.
        channel: where results go.

    Attributes:
        access: how the server is reached.
        catalog: what it lists; empty before that is known.
        revision: the one that it was connected to with.
        began: when the work began, for the limit of the whole.
    """

    def __init__(self, job: WorkerJob, channel: ParentChannel) -> None:
        self.job = job
        self.channel = channel
        self.access = ServerAccess(job)
        self.catalog: JsonObject = {}
        self.revision: RevisionId | None = None
        self.version = ""
        self.began = monotonic()
        self._left: dict[tuple[int, str], str] = {}

    async def run(self) -> WorkerReport:
        """Do all stages, and return the last part of the report."""
        if self.job.requirements or self.job.tests:
            await self._repeat()
            return self._last_part()
        if not await self._connect():
            return self._last_part()
        if self._is_reusable():
            for name in ("check", "test", "measure", "stop"):
                self._send_stage(StageResult(name=name, state="reused"))
            return WorkerReport(is_reusable=True)
        if self.job.checks and not await self._do("check", self._check):
            return self._last_part()
        if self.job.contract or self.job.cases:
            await self._do("test", self._test)
        if self.job.measure:
            from accord_tools.fleet.worker.timing_stages import TimedServer

            async with LagMeter() as lag, TimedServer(self, lag) as timed:
                if await self._do("measure", timed.measure):
                    await self._do("stop", timed.stop)
        return self._last_part()

    async def _repeat(self) -> None:
        """Make the verdicts again that the job names, and no others."""
        if not await self._connect(lists=False):
            return
        if self.job.requirements:
            await self._do("check", self._check)
        if self.job.tests:
            await self._do("test", self._test)

    def _last_part(self) -> WorkerReport:
        # Every copy of the server was stopped, so whatever runs now was left behind.
        self.end_leftovers()
        left = self._describe_left()
        return WorkerReport(left_processes=left, stderr=self.access.stderr.lines)

    # Imported when they are needed: a server that cannot be reached needs none of them.

    async def _check(self) -> StageOutcome:
        from accord_tools.check.probing.server_facts import CheckRules
        from accord_tools.check.probing.tool_calls import DEFAULT_CALLS
        from accord_tools.check.server_check import CheckProgress, ServerPlan, check_server
        from accord_tools.reports.report import Setting

        job = self.job
        plan = ServerPlan(
            revisions=job.revisions,
            only=job.requirements or job.only,
            rules=CheckRules(
                allow_writes=job.allow_writes,
                tools=frozenset(job.tools),
                calls=DEFAULT_CALLS if job.calls is None else job.calls,
            ),
        )

        def step(progress: CheckProgress) -> None:
            now = f"{progress.revision} {progress.scenario}".rstrip()
            self.channel.report_progress("check", progress.share, now)

        setting = Setting(command=job.repeat or None, artifact=job.artifact or None)
        target = self.access.check_target()
        async with LagMeter() as lag:
            report = await check_server(target, plan, step=step, setting=setting)
        self.end_leftovers()
        return StageOutcome(
            WorkerReport(
                report=report, load_lag=lag.seconds, transport=report.setting.transport or ""
            )
        )

    async def _test(self) -> StageOutcome:
        from accord_tools.fleet.worker.contract_stage import run_contract_tests

        return await run_contract_tests(self)

    # -- one stage

    async def _do(self, name: StageName, work: Callable[[], Awaitable[StageOutcome]]) -> bool:
        """Do a stage and send what it found; return whether the next one makes sense."""
        self.channel.report_progress(name)
        began = monotonic()
        try:
            outcome = await work()
        except Exception as error:
            # One server is never the end of a fleet, whatever it does to us.
            if not isinstance(error, AccordError | ValueError | OSError):
                log.exception("the stage %s failed", name)
            outcome = StageOutcome(state="failed", text=self.access.explain(error))
        seconds = round(monotonic() - began, 3)
        result = StageResult(name=name, state=outcome.state, seconds=seconds, text=outcome.text)
        self._send_stage(result, outcome.found)
        return outcome.state != "failed"

    def _send_stage(self, result: StageResult, found: WorkerReport = WorkerReport()) -> None:  # noqa: B008  # frozen
        from msgspec.structs import replace

        self.channel.send(replace(found, stages=(result,)))

    # -- start and catalog

    async def _connect(self, *, lists: bool = True) -> bool:
        """Start the server and list what it offers; return whether it was reached."""
        async with contextlib.AsyncExitStack() as stack:
            clients: list[Client] = []

            async def start() -> StageOutcome:
                client, outcome = await self._start()
                if client is not None:
                    clients.append(client)
                    stack.push_async_callback(client.close)
                return outcome

            if not await self._do("start", start):
                return False
            if lists:
                # The check may say more about a list that fails.
                await self._do("surface", lambda: self._list(clients[0]))
        self.end_leftovers()
        return True

    async def _start(self) -> "tuple[Client | None, StageOutcome]":
        from accord.client import connect

        access = self.access
        client: Client | None = None
        last: BaseException | None = None
        timing = ServerTiming()
        async with LagMeter() as lag:
            for revision in self._start_revisions():
                began, cpu = monotonic(), descendants_cpu()
                try:
                    client = await connect(access.target, **access.connect_options(revision))
                    timing = _measure_start(began, None if self.job.server.url else cpu)
                    break
                except (AccordError, OSError, ValueError, ImportError) as error:
                    last = error
        if client is None:
            text = access.explain(last) if last is not None else "not tried"
            found = WorkerReport(unreachable=text, stderr=access.stderr.lines)
            return None, StageOutcome(found, "failed", text)
        await access.keep_token()
        if access.token:
            self.channel.add_secrets((access.token,))
        self.revision = client.revision
        self.version = client.server_info.version
        server = self.job.server
        found = WorkerReport(
            timing=timing,
            load_lag=lag.seconds,
            server_name=client.server_info.name,
            server_version=client.server_info.version,
            transport=(server.transport or "http") if server.url else "stdio",
            revision=client.revision,
        )
        return client, StageOutcome(found)

    def _start_revisions(self) -> "list[RevisionId | None]":
        """Return the revisions to connect with: the one of the lock, else the newest wanted."""
        wanted = newest(self.job.revisions) if self.job.revisions else None
        if self.job.lock is None:
            return [wanted]
        from accord_tools.fleet.catalogs.changes import locked_revision

        locked = locked_revision(self.job.lock)
        return [wanted] if locked in (None, wanted) else [locked, wanted]

    async def _list(self, client: "Client") -> StageOutcome:
        from accord.testing.catalog import catalog_of

        self.catalog = catalog = await catalog_of(client)
        failed: dict[str, int] = catalog.get("failed", {})
        said = [
            f"{method} failed with error {code}"
            for method, code in failed.items()
            if code != _NOT_FOUND
        ]
        changes: tuple[CatalogChange, ...] = ()
        problem = ""
        if self.job.lock is not None:
            from accord_tools.contract.lock_file import LockError
            from accord_tools.fleet.catalogs.changes import compare_with_lock, explain_lock

            try:
                changes = compare_with_lock(self.job.lock, catalog, self.channel.mask_catalog)
            except LockError as error:
                problem = explain_lock(error)
        found = WorkerReport(catalog=catalog, changes=changes, lock_problem=problem)
        return StageOutcome(found, text="; ".join(said))

    def _is_reusable(self) -> bool:
        if not self.job.reuse_if or not self.catalog:
            return False
        if self.version != self.job.reuse_version:
            return False
        from accord_tools.fleet.catalogs.entries import summarize_catalog

        # The parent knows only the masked one.
        masked = self.channel.mask_catalog(self.catalog)
        return summarize_catalog(masked).digest == self.job.reuse_if

    # -- processes

    def note_leftovers(self) -> None:
        """Note what runs now as left behind; to be called while no server should run."""
        for each in find_descendants():
            self._left.setdefault((each.pid, each.started), each.words)

    def _describe_left(self) -> tuple[str, ...]:
        """Return what was left in words; each start of a server may leave the same."""
        pids: dict[str, list[int]] = {}
        for (pid, _), words in self._left.items():
            pids.setdefault(words, []).append(pid)
        shown = [
            f"{words} (pid {own[0]})"
            if len(own) == 1
            else f"{words} ({len(own)} processes, the first with pid {own[0]})"
            for words, own in pids.items()
        ]
        more = len(shown) - _LEFT_SHOWN
        return (*shown[:_LEFT_SHOWN], f"and {more} more") if more > 0 else tuple(shown)

    def end_leftovers(self) -> None:
        """Note what servers left behind, and end it."""
        self.note_leftovers()
        reap(end_processes(find_descendants, grace=_LEFT_GRACE))


def _measure_start(began: float, cpu: float | None) -> ServerTiming:
    """Return how long a server took from a moment at which its processes had used this CPU time."""
    start = round(monotonic() - began, 4)
    used = None if cpu is None else descendants_cpu()
    if cpu is None or used is None:
        return ServerTiming(start=start)
    return ServerTiming(start=start, start_cpu=round(used - cpu, 4))


class LagMeter:
    """Measures how late the event loop is, which tells how busy the machine is."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._measure())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def seconds(self) -> float:
        """The largest delay so far."""
        return round(self._worst, 3)

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_PAUSE
            await asyncio.sleep(_LAG_PAUSE)
            self._worst = max(self._worst, loop.time() - due)
