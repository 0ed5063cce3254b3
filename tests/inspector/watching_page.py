"""Runs a command between a host and its server, with a page beside it that writes its rows down.

Arguments: a file for the rows, and the command.
"""

import asyncio
import json
import sys
from pathlib import Path

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.live.session_facts import observed_facts
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.views import show_row
from accord_tools.inspector.log.watched import TrafficBuffer, WatchedTraffic, watch_stdio
from accord_tools.inspector.session import Changes, InspectedSession


async def page(buffer: TrafficBuffer) -> None:
    target = ServerSpec(name="watched")
    session = InspectedSession(0, target, "watch", options=InspectOptions(), changes=Changes())
    session.part(WatchedTraffic).attach(buffer)
    try:
        await asyncio.Event().wait()
    finally:
        await session.close()
        log = session.part(InspectedLog)
        entries = filter(None, map(log.get, range(1, log.next_number)))
        rows = [show_row(log, entry) for entry in entries]
        facts = observed_facts(session)
        Path(sys.argv[1]).write_bytes(msgspec.json.encode({"rows": rows, "facts": facts}))


if __name__ == "__main__":
    sys.exit(watch_stdio(sys.argv[2:], json.loads("{}"), page))
