"""Run a worker of the fleet: the job as JSON on standard input, messages as JSON lines."""

import asyncio
import logging
import signal
import sys
from typing import Any, cast

from accord_tools.fleet.running.processes import adopt_orphans
from accord_tools.fleet.worker.channel import ENDED_BY_PARENT, MaskedStream, ParentChannel


def main() -> None:
    """Work on the server of one job."""
    channel = ParentChannel()
    sys.stderr = cast("Any", MaskedStream(sys.stderr, channel.hide))
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    job = channel.read_job()
    adopt_orphans()
    channel.watch_parent()
    signal.signal(signal.SIGTERM, lambda *_: channel.end(ENDED_BY_PARENT))
    # Later, so that the parent is watched while they are imported.
    from accord_tools.fleet.worker.stages import ServerWork

    channel.finish(asyncio.run(ServerWork(job, channel).run()))


if __name__ == "__main__":
    main()
