"""What judging costs: messages a second of a monitor, against bare JSON decoding of the same bytes.

Once over stdio, and once with all facts of HTTP. And whole checks of servers over stdio, in five
revisions, which people wait for.
"""

import subprocess
import sys
import time
from pathlib import Path

import msgspec

from accord.protocol.monitor import Monitor
from accord.trace import ALL, HttpFacts, Record

EXAMPLES = Path(__file__).parents[1] / "examples"
CALLS = 2_000
ROUNDS = 7
# A message is decoded, classified, followed through the conversation, and held to some forty rules.
MOST_TIMES = 100.0
# With the method, status, headers and stream of every message some thirty rules more.
MOST_TIMES_HTTP = 200.0
MOST_SECONDS = {"ten_lines": 20.0, "everything": 60.0}


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


_REQUEST = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2025-06-18",
    "mcp-session-id": "masked-1",
}
_RESPONSE = {"content-type": "text/event-stream"}


def over_http(observed: list[Record]) -> list[Record]:
    """The same records as a recorder of HTTP makes them: each request opens a stream."""
    made: list[Record] = []
    exchange = 0
    for each in observed:
        exchange += each.sender == "client"
        name = f"exchange-{exchange}"
        is_opening = exchange == 1
        if each.sender == "client":
            dropped = ("mcp-session-id", "mcp-protocol-version") if is_opening else ()
            headers = {key: text for key, text in _REQUEST.items() if key not in dropped}
            http = HttpFacts(
                method="POST", headers=headers, recorded=ALL, exchange=name, path="/mcp"
            )
        else:
            headers = _RESPONSE | ({"mcp-session-id": "masked-1"} if is_opening else {})
            http = HttpFacts(
                method="POST",
                status=200,
                headers=headers,
                recorded=ALL,
                exchange=name,
                stream=name,
                event="message",
            )
        made.append(msgspec.structs.replace(each, transport="http", http=http))
        if b"notifications/initialized" in bytes(each.message or b""):
            accepted = HttpFacts(method="POST", status=202, recorded=ALL, exchange=name, size=0)
            made.append(Record(sender="server", transport="http", http=accepted))
    return made


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


def check(example: str) -> float:
    """Seconds that a whole check of a server takes, in all its revisions."""
    start = time.perf_counter()
    place = str(EXAMPLES / f"{example}.py")
    command = [sys.executable, "-m", "accord.cli.main", "check", "server", place]
    subprocess.run([*command, "--quiet"], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> int:
    said = session()
    bare = min(decode(said) for _ in range(ROUNDS))
    print("judging, CPU time")
    print(f"  bare JSON decoding         {bare * 1e6:8.2f} µs a message")
    shares = []
    for name, observed, most in (
        ("monitor", records(said), MOST_TIMES),
        ("monitor, HTTP", over_http(records(said)), MOST_TIMES_HTTP),
    ):
        judged = min(judge(observed) for _ in range(ROUNDS))
        times = judged / bare
        print(f"  {name:26} {judged * 1e6:8.2f} µs a message, {1 / judged:,.0f} a second")
        print(f"  {name + ' / bare':26} {times:8.1f} of {most:g}: {told(times, most)}")
        shares.append(times / most)
    for example, most in MOST_SECONDS.items():
        seconds = check(example)
        print(f"  check of {example:17} {seconds:8.1f} of {most:g} s: {told(seconds, most)}")
        shares.append(seconds / most)
    return 0 if max(shares) <= 1 else 1


def told(value: float, limit: float) -> str:
    return "met" if value <= limit else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
