"""What a worker is asked to do, and what it reports: the messages between the two processes.

A job has secrets, so it travels over a pipe and never in arguments. Reports are masked.
"""

from typing import Final, TypeAlias

import msgspec

from accord.client.server_spec import ServerSpec
from accord.types import JsonObject, RevisionId
from accord_tools.fleet.definition import WorkPlan
from accord_tools.fleet.results import (
    CatalogChange,
    ServerTiming,
    StageName,
    StageResult,
    TestCounts,
)
from accord_tools.reports.report import Report
from accord_tools.reports.tool_calls import ToolCounts


class WorkerJob(WorkPlan, frozen=True, kw_only=True):
    """All that a worker needs to know about its server.

    Attributes:
        server: how to reach it.
        at_once: how many scenarios of the check run at once; None is the default of a check.
        checks: whether requirements are checked.
        measure: whether its speed is measured, and how it ends.
        reuse_if: the digest of the catalog for which nothing but the catalog is needed.
        reuse_version: the version of the server for which the same holds.
        withheld: variables of this process that neither worker nor server sees.
        repeat: the command line that checks this server, up to where options go.
        artifact: the fleet file, in which tools for source code show violations.
        requirements: check these again, alone, and do nothing else but `tests`; if both are
            empty, everything is done.
        tests: run the tests with these names again, and do nothing else but `requirements`.
        generator_home: a folder in which the generator of arguments keeps its tables, for all
            workers of a run; empty makes one.
    """

    server: ServerSpec
    at_once: int | None = None
    checks: bool = True
    measure: bool = True
    reuse_if: str = ""
    reuse_version: str = ""
    withheld: tuple[str, ...] = ()
    repeat: str = ""
    artifact: str = ""
    requirements: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    generator_home: str = ""

    @property
    def name(self) -> str:
        """The name of the server in the fleet."""
        return self.server.name

    def __repr__(self) -> str:
        # Logs and tracebacks quote it.
        return f"<WorkerJob {self.server!r}>"


class WorkerProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """How far a worker is.

    Attributes:
        stage: what it works on.
        share: the part of the stage that is done, from 0 to 1.
        now: such as the name of a scenario or a test.
    """

    stage: StageName
    share: float = 0.0
    now: str = ""


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="report"):
    """What a worker found out, or the part of it that one stage found out.

    Attributes:
        stages: how each ended.
        report: of the check; its results have the verdicts by revision.
        tests: contract tests and cases.
        tool_calls: how often these tests called each tool, and how the calls were answered.
        catalog: what the server lists, as `accord.testing.catalog_of` returns it.
        changes: against the lock.
        lock_problem: why there is no comparison with the lock.
        timing: how fast the server is.
        server_name: as the server says.
        server_version: likewise.
        transport: stdio, http or sse.
        revision: the one that it was connected to with.
        stderr: its first and last lines.
        left_processes: what still ran after it was stopped, such as "sleep (pid 7)".
        load_lag: the largest delay of the event loop while the server worked, in seconds.
        is_reusable: whether the catalog is the one of `WorkerJob.reuse_if`, so that an earlier
            result holds.
        unreachable: why the server could not be reached; empty if it could.
        is_complete: whether the worker has finished.
    """

    stages: tuple[StageResult, ...] = ()
    report: Report | None = None
    tests: TestCounts = TestCounts()
    tool_calls: tuple[ToolCounts, ...] = ()
    catalog: JsonObject | None = None
    changes: tuple[CatalogChange, ...] = ()
    lock_problem: str = ""
    timing: ServerTiming = ServerTiming()
    server_name: str = ""
    server_version: str = ""
    transport: str = ""
    revision: RevisionId | None = None
    stderr: tuple[str, ...] = ()
    left_processes: tuple[str, ...] = ()
    load_lag: float = 0.0
    is_reusable: bool = False
    unreachable: str = ""
    is_complete: bool = False

    def with_part(self, part: "WorkerReport") -> "WorkerReport":
        """Return this report and a later part of it: values of the part count where it has any."""
        changed = {
            each.name: value
            for each in msgspec.structs.fields(part)
            if (value := getattr(part, each.name)) != each.default
        }
        timing = {
            name: value
            for name in ServerTiming.__struct_fields__
            if (value := getattr(part.timing, name)) not in (None, "")
        }
        more = {
            "stages": (*self.stages, *part.stages),
            "stderr": part.stderr or self.stderr,
            "left_processes": (*self.left_processes, *part.left_processes),
            "load_lag": max(self.load_lag, part.load_lag),
            "timing": msgspec.structs.replace(self.timing, **timing),
        }
        return msgspec.structs.replace(self, **{**changed, **more})


WorkerMessage: TypeAlias = WorkerProgress | WorkerReport
"""A line that a worker writes."""

DECODER: Final = msgspec.json.Decoder(WorkerMessage)
JOB_DECODER: Final = msgspec.json.Decoder(WorkerJob, dec_hook=lambda kind, text: kind(text))


def encode_job(job: WorkerJob) -> bytes:
    """Return a job as a line of JSON."""
    return msgspec.json.encode(job, enc_hook=str) + b"\n"
