"""A call through a proxy against the same call without one, in one run, beside other proxies.

One server, written with accord: over HTTP for direct calls, and as a command behind each proxy,
which serves it over HTTP. One client, accord's, drives them all. What counts is the CPU time of all
processes together: client, proxy and server. The proxies take turns in short rounds, each right
after the direct calls that it is compared with, and the ratio is the median of such pairs. Calls
are made sixteen at a time, which the aim is for, and one at a time, where waking up further
processes is most of the cost. Exits 1 if a call through accord's proxy costs more than it may.
"""

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from measure import cpu_of

from accord import Client, connect

HERE = Path(__file__).parent
SERVER = str(HERE / "peers" / "behind_proxy.py")
OTHER = HERE.parent / ".venv-bench" / "mcp-proxy" / "bin" / "mcp-proxy"
MOST = 1.6
ROUNDS, CALLS, WIDTHS = 9, 480, (16, 1)
REVISION = "2025-06-18"


def commands() -> dict[str, Callable[[str], list[str]]]:
    """Return how each one is launched, by its name and for a port."""
    python = sys.executable
    found: dict[str, Callable[[str], list[str]]] = {
        "direct": lambda port: [python, "-m", "accord", "run", SERVER, "--http", "--port", port],
        "accord": lambda port: [
            *[python, "-m", "accord", "proxy", "--http", "--port", port],
            *["--", python, SERVER],
        ],
        "FastMCP": lambda port: [python, str(HERE / "peers" / "fast_proxy.py"), port, SERVER],
    }
    if OTHER.exists():
        found["mcp-proxy"] = lambda port: [
            *[str(OTHER), "--port", port, "--log-level", "ERROR", "--pass-environment"],
            *["--", python, SERVER],
        ]
    return found


@contextmanager
def launch(command: Callable[[str], list[str]]) -> Iterator[tuple[str, int]]:
    """Run a server on a free port; yields its URL and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command(str(port)), stdout=quiet, stderr=quiet) as process:
        try:
            yield f"http://127.0.0.1:{port}/mcp", process.pid
        finally:
            process.terminate()


async def reach(url: str) -> Client:
    for _ in range(200):
        try:
            return await connect(url, revision=REVISION)
        except Exception:  # it is not listening yet
            await asyncio.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its children."""
    return sum(map(cpu_of, tree(pid)))


def tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += tree(int(child))
    return found


async def measure(client: Client, pid: int, width: int) -> float:
    """Return the CPU microseconds of one call, in the client and behind it."""

    async def call_some() -> None:
        for _ in range(CALLS // width):
            await client.call_tool("add", {"a": 1, "b": 2})

    used, own = cpu_seconds(pid), time.process_time()
    await asyncio.gather(*(call_some() for _ in range(width)))
    spent = cpu_seconds(pid) - used + time.process_time() - own
    return spent / (CALLS) * 1e6


async def compare(width: int) -> dict[str, tuple[float, float]]:
    """Return for each proxy what a call costs, and how many times a direct one.

    Args:
        width: how many calls are under way at a time.
    """
    async with AsyncExitStack() as stack:
        running: dict[str, tuple[Client, int]] = {}
        for name, command in commands().items():
            url, pid = stack.enter_context(launch(command))
            client = await reach(url)
            stack.push_async_callback(client.close)
            running[name] = client, pid
            await measure(client, pid, width)
        pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
        for _ in range(ROUNDS):
            for name, each in running.items():
                direct = await measure(*running["direct"], width)
                pairs[name].append((await measure(*each, width), direct))
    return {
        name: (
            statistics.median(cost for cost, _ in found),
            statistics.median(cost / direct for cost, direct in found),
        )
        for name, found in pairs.items()
    }


def report(width: int, found: dict[str, tuple[float, float]]) -> None:
    shown = "one at a time" if width == 1 else f"{width} at a time"
    print(f"{shown:16} {'CPU µs':>8} {'of direct':>10}")
    for name, (cost, ratio) in found.items():
        print(f"{name:16} {cost:8.0f} {ratio:9.2f}x")


def main() -> int:
    ratios = {}
    for width in WIDTHS:
        found = asyncio.run(compare(width))
        report(width, found)
        ratios[width] = found["accord"][1]
    if not OTHER.exists():
        print("mcp-proxy is not installed; make bench installs it")
    ratio = ratios[WIDTHS[0]]
    is_reached = ratio <= MOST
    print(f"{'reached' if is_reached else 'MISSED'}: {ratio:.2f} times a direct call (aim {MOST})")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
