"""Stops a server as a worker does whose event loop was late: `python busy_stop_process.py COMMAND`.

Writes a report with the stage to standard output.
"""

import asyncio
import sys
import time

from accord.client.server_spec import ServerSpec
from accord_tools.fleet.results import StageResult
from accord_tools.fleet.worker.channel import ParentChannel
from accord_tools.fleet.worker.job import WorkerJob, WorkerReport
from accord_tools.fleet.worker.stages import LagMeter, ServerWork
from accord_tools.fleet.worker.timing_stages import TimedServer


async def main() -> None:
    channel = ParentChannel()
    server = ServerSpec(name="late", command=tuple(sys.argv[1:]))
    work = ServerWork(WorkerJob(server=server), channel)
    work.revision = "2025-06-18"
    async with LagMeter() as lag:
        while lag.seconds <= 0.3:
            await asyncio.sleep(0.01)
            time.sleep(0.5)  # the loop is late, as on a busy machine
        async with TimedServer(work, lag) as timed:
            await timed.measure()
            ended = await timed.stop()
    stage = StageResult(name="stop", state=ended.state, text=ended.text)
    channel.send(WorkerReport(stages=(stage,)))


asyncio.run(main())
