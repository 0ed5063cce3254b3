"""What the log of the inspector costs: rows a second, answers to the page, and memory.

`benchmarks/inspect.py` measures the page; this measures the log alone.
"""

import asyncio
import sys
import time
import tracemalloc

import msgspec

from accord_tools.inspector.actions import load_actions, perform
from accord_tools.inspector.definition import InspectOptions, InspectTarget
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.session import Changes, InspectedSession

ROWS = 100_000
# Rows a second, judged; a page that shows 10,000 notifications a second must keep up.
LEAST_ROWS = 10_000
# Seconds that the page waits for rows, of 100,000.
MOST_SECONDS = 0.1
FILTERS = ({}, {"text": "level"}, {"severity": True}, {"method": "notifications/message"})
_NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}'


def opened() -> InspectedSession:
    """A session whose conversation has begun."""
    party = {"name": "bench", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": party}
    said = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"logging": {}},
        "serverInfo": party,
    }
    target, options = InspectTarget(title="bench"), InspectOptions()
    session = InspectedSession(0, target, "live", options=options, changes=Changes())
    conversation = session.part(InspectedLog).conversation("main")
    for sender, members in (
        ("client", {"id": 0, "method": "initialize", "params": opening}),
        ("server", {"id": 0, "result": said}),
        ("client", {"method": "notifications/initialized"}),
    ):
        conversation.observe(sender, msgspec.json.encode({"jsonrpc": "2.0", **members}))
    return session


def flood(session: InspectedSession, count: int) -> float:
    """Let notifications pass; return the CPU seconds of one."""
    main = session.part(InspectedLog).main
    assert main is not None
    start = time.process_time()
    for number in range(count):
        main.observe("server", _NOTE % number)
    return (time.process_time() - start) / count


async def ask(session: InspectedSession, chosen: dict[str, object]) -> float:
    """Ask for the last hundred rows as the page does; return the seconds until they are there."""
    body = msgspec.json.encode({"start": -1, "count": 100, "filter": chosen})
    start = time.perf_counter()
    await perform(session, load_actions()["log.rows"], body)
    return time.perf_counter() - start


async def measure() -> bool:
    load_actions()  # imports them
    session = opened()
    flood(session, 1_000)
    each = flood(session, ROWS)
    is_met = 1 / each >= LEAST_ROWS
    print("log of the inspector, CPU time")
    print(f"  a row, judged              {each * 1e6:8.1f} µs, {1 / each:,.0f} a second")
    for chosen in FILTERS:
        first, again = await ask(session, chosen), await ask(session, chosen)
        is_met = is_met and max(first, again) <= MOST_SECONDS
        print(f"  rows of {ROWS:,}, {chosen!s:36} {first * 1e3:6.1f} ms, then {again * 1e3:.1f}")
    return is_met


def memory() -> None:
    tracemalloc.start()
    session = opened()
    flood(session, 20_000)
    log = session.part(InspectedLog)
    taken = tracemalloc.get_traced_memory()[0]
    print(f"  memory of 20,000 rows      {taken / 1e6:8.1f} MB, counted {log.kept_bytes / 1e6:.1f}")
    tracemalloc.stop()


def main() -> int:
    is_met = asyncio.run(measure())
    memory()
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
