"""What judging costs: messages a second of a monitor, against bare JSON decoding of the same bytes.

And a whole check of a server over stdio, which people wait for.
"""

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from accord.protocol.monitor import Monitor
from accord.trace import Record

EVERYTHING = Path(__file__).parents[1] / "examples" / "everything.py"
CALLS = 2_000
ROUNDS = 7
# A message is decoded, classified, followed through the conversation, and held to some forty rules.
MOST_TIMES = 100.0
MOST_SECONDS = 60.0


def session() -> list[bytes]:
    """A session that opens, lists, and calls tools with progress, as people record them."""
    opening = [
        _message(id=0, method="initialize", params=_OPENING),
        _message(id=0, result=_OPENED),
        _message(method="notifications/initialized"),
        _message(id="list", method="tools/list", params={}),
        _message(id="list", result={"tools": [_TOOL]}),
    ]
    said = list(opening)
    for number in range(1, CALLS + 1):
        meta = {"progressToken": number}
        params = {"name": "add", "arguments": {"a": number, "b": 2}, "_meta": meta}
        report = {"progressToken": number, "progress": 1, "total": 2, "message": "half"}
        result = {"content": [{"type": "text", "text": str(number + 2)}], "isError": False}
        said += [
            _message(id=number, method="tools/call", params=params),
            _message(method="notifications/progress", params=report),
            _message(id=number, result=result),
        ]
    return said


def _message(**members: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members})


_OPENING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_OPENED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bench", "version": "1"},
}
_NUMBER = {"type": "integer", "description": "a number"}
_TOOL = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": _NUMBER, "b": _NUMBER},
        "required": ["a", "b"],
    },
}


_CLIENT = (b'"initialize', b'"notifications/initialized', b'"tools/')


def records(said: list[bytes]) -> list[Record]:
    return [
        Record(
            sender="client" if any(sign in each for sign in _CLIENT) else "server",
            message=msgspec.Raw(each),
            number=number,
        )
        for number, each in enumerate(said, 1)
    ]


def judge(observed: list[Record]) -> float:
    start = time.process_time()
    monitor = Monitor()
    broken = [violation for record in observed for violation in monitor.observe(record)]
    assert not broken, broken[0]
    return (time.process_time() - start) / len(observed)


def decode(said: list[bytes]) -> float:
    start = time.process_time()
    for each in said:
        msgspec.json.decode(each)
    return (time.process_time() - start) / len(said)


def check() -> float:
    """Seconds that a whole check of a server takes, in all its revisions."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "accord.cli.main", "check", "server", str(EVERYTHING)]
    subprocess.run([*command, "--quiet"], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    said = session()
    observed = records(said)
    judged = min(judge(observed) for _ in range(ROUNDS))
    bare = min(decode(said) for _ in range(ROUNDS))
    times = judged / bare
    print("judging, CPU time")
    print(f"  bare JSON decoding       {bare * 1e6:8.2f} µs a message")
    print(
        f"  monitor                  {judged * 1e6:8.2f} µs a message, {1 / judged:,.0f} a second"
    )
    print(f"  monitor / bare           {times:8.1f} of {MOST_TIMES:g}: {told(times, MOST_TIMES)}")
    seconds = check()
    part = seconds / MOST_SECONDS
    print(f"  check of a stdio server  {seconds:8.1f} s, {part:.2f} of a minute: {told(part, 1)}")
    return 0 if times <= MOST_TIMES and part <= 1 else 1


def told(value: float, limit: float) -> str:
    return "met" if value <= limit else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
