"""`accord inspect`: the start, the size of the page, and what the log takes and keeps.

The start is wall time, from the launch until the page says that the server is ready; the best of
several launches counts. The sizes are those that a browser loads, compressed. The log is fed as a
connection feeds it: every message is parsed, judged, masked and indexed. `--quick` feeds a tenth.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from measure import Aim

from accord_tools.inspector.definition import InspectOptions, InspectTarget
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.session import Changes, InspectedSession
from accord_tools.inspector.web.static_files import StaticFiles

ROOT = Path(__file__).parents[1]
IS_QUICK = "--quick" in sys.argv
LAUNCHES = 3 if IS_QUICK else 7
MESSAGES = 10_000 if IS_QUICK else 100_000
MOST_SECONDS = 1.0
MOST_LISTENING = 0.35
MOST_PAGE_KB = 150.0
LEAST_RATE = 5_000.0
MOST_MEMORY_MB = 300.0
PATIENCE = 60.0
CALL = {"name": "add", "arguments": {"a": 1, "b": 2}}
RESULT = {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}}


# -- the start


def ask(url: str, action: str, **params: Any) -> Any:
    base, _, key = url.partition("/#key=")
    headers = {"x-accord-key": key, "content-type": "application/json"}
    body = json.dumps(params).encode()
    request = urllib.request.Request(f"{base}/api/{action}", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def launch() -> tuple[float, float]:
    """Return the seconds until the address is printed, and until the server is ready."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "accord", "inspect", "examples/ten_lines.py"),
            *("--json", "--no-open", "--no-history"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        listening = time.perf_counter() - began
        with urllib.request.urlopen(url.partition("#")[0], timeout=PATIENCE) as page:
            page.read()
        while (state := ask(url, "session.get", target=0)["state"]) == "connecting":
            time.sleep(0.005)
        assert state == "ready", state
        return listening, time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(PATIENCE)


# -- the log


async def feed(count: int) -> tuple[float, int]:
    """Feed calls and their answers to a log; return the seconds, and how many rows are kept."""
    target = InspectTarget(title="fed")
    session = InspectedSession(0, target, "live", options=InspectOptions(), changes=Changes())
    log = session.part(InspectedLog)
    conversation = log.conversation("main")
    client = {"name": "bench", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}}
    lines = [
        ("client", {"id": 0, "method": "initialize", "params": {**opening, "clientInfo": client}}),
        ("server", {"id": 0, "result": {**opening, "serverInfo": client}}),
        ("client", {"method": "notifications/initialized"}),
    ]
    lines[1][1]["result"]["capabilities"] = {"tools": {}}
    for number in range(1, count // 2):
        lines.append(("client", {"id": number, "method": "tools/call", "params": CALL}))
        lines.append(("server", {"id": number, "result": RESULT}))
    encoded = [(who, json.dumps({"jsonrpc": "2.0", **said}).encode()) for who, said in lines]
    began = time.perf_counter()
    for sender, data in encoded:
        conversation.observe(sender, data)
    taken = time.perf_counter() - began
    assert log.counters.messages == len(encoded)
    assert log.counters.fail == 0
    return taken, log.next_number - log.first_kept


def memory_in_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    launches = [launch() for _ in range(LAUNCHES)]
    listening, ready = (min(each) for each in zip(*launches, strict=True))
    files = StaticFiles()
    loaded = [path for path in files.paths if path.endswith((".js", ".css", ".html"))]
    size = sum(len(files.find(path).compressed) for path in loaded) / 1024
    before = memory_in_mb()
    seconds, rows = asyncio.run(feed(MESSAGES))
    memory = memory_in_mb() - before
    load = os.getloadavg()[0]
    print(f"accord inspect (load of the machine {load:.1f})")
    aims = {
        "until the address is printed": Aim(listening, MOST_LISTENING, 0.2, "s", at_most=True),
        "until the page says ready": Aim(ready, MOST_SECONDS, 0.6, "s", at_most=True),
        "all files of the page": Aim(size, MOST_PAGE_KB, 100.0, "KB", at_most=True),
        "messages that the log takes": Aim(MESSAGES / seconds, LEAST_RATE, 20_000, "in a second"),
        f"memory of {rows} rows": Aim(memory, MOST_MEMORY_MB, 100.0, "MB", at_most=True),
    }
    for name, aim in aims.items():
        print(f"  {name:32}{aim}")
    print(f"  ready / limit                   {ready / MOST_SECONDS:.2f}")
    return 0 if all(aim.reached for aim in aims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
