"""A process that runs workers for servers of some kinds, and prints how they ended."""

import asyncio
import sys

from accord_tools.fleet.running.pool import run_all
from accord_tools.fleet.running.worker_process import WorkerOutcome

sys.path.insert(0, sys.argv[1])
from fleet.jobs import job


def show(outcome: WorkerOutcome) -> None:
    """Print how one ended."""
    print(outcome.name, outcome.ended, outcome.text, flush=True)


async def main() -> None:
    """Run them all."""
    ran = await run_all([job(kind) for kind in sys.argv[2:]], jobs=4, on_result=show)
    print("interrupted" if ran.is_interrupted else "done", flush=True)


asyncio.run(main())
