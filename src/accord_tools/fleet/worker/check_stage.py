"""The stage that checks a server against every requirement."""

from accord_tools.check.probing.server_facts import CheckRules
from accord_tools.check.probing.tool_calls import DEFAULT_CALLS
from accord_tools.check.report import Setting
from accord_tools.check.server_check import CheckProgress, ServerPlan, check_server
from accord_tools.fleet.worker.job import WorkerReport
from accord_tools.fleet.worker.stages import LagMeter, ServerWork, StageOutcome


async def check(work: ServerWork) -> StageOutcome:
    """Check the server under each revision."""
    job = work.job
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
        work.channel.report_progress("check", progress.share, now)

    setting = Setting(command=job.repeat or None, artifact=job.artifact or None)
    async with LagMeter() as lag:
        report = await check_server(work.access.check_target(), plan, step=step, setting=setting)
    work.end_leftovers()
    found = WorkerReport(
        report=report, load_lag=lag.seconds, transport=report.setting.transport or ""
    )
    return StageOutcome(found)
