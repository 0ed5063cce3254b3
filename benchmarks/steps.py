"""What the ways around a task bring for each call of an `async def` tool, in microseconds of CPU.

    python benchmarks/steps.py [--rounds N]

Of `accord.runtime.eager`, `start` takes the first step of a task from the queue of the loop, and
`run_at_once` runs coroutines that never wait without a task. Three servers take turns: with both,
without the second, without any. `add` awaits nothing; `add_later` awaits, but never waits.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from measure import OPENED, OPENING, Reading, Served, Worker, calls, cpu_of, timed, worker
from web import _free_port
from wire import Connection
from wire import connect as connect_socket

from accord import Server, connect

ARMS: Final = ("both", "first step", "none")
TOOLS: Final = ("add", "add_later")
COUNT: Final = 2_000
WIDTH: Final = 64


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_later(a: int, b: int) -> int:
    """Add two numbers, and await."""
    return await add(a, b)


def build(arm: str) -> Server:
    """Make the server, without what this arm has not."""
    if arm != "both":
        from accord.server.entries import tools

        tools.code_without_await = lambda _: None  # type: ignore[attr-defined]
    if arm == "none":
        from accord.http.server import listener, listener_request, tls
        from accord.runtime import dispatcher

        def queue(loop: Any, work: Any, name: str) -> Any:
            return asyncio.Task(work, loop=loop, name=name)

        for module in (dispatcher, listener, listener_request, tls):
            module.start = queue  # type: ignore[attr-defined]
    server = Server("steps")
    server.add_tool(add)
    server.add_tool(add_later)
    return server


# -- one server, as a process


class Lines(Served):
    """A server over stdio."""

    def __init__(self, arm: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "stdio", arm],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.pid = self.process.pid
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.send(OPENING)
        self.receive(1)
        self.send(OPENED)


def over_stdio(arm: str, tool: str, stack: ExitStack) -> dict[str, Callable[[int], Reading]]:
    server = Lines(arm)
    stack.callback(server.close)

    def one(count: int) -> int:
        server.one_by_one(calls(tool, {"a": 1, "b": 2}, count))
        return count

    def many(count: int) -> int:
        server.in_flight(calls(tool, {"a": 1, "b": 2}, count), WIDTH)
        return count

    return {"stdio": timed(server, one), f"stdio, {WIDTH} at once": timed(server, many)}


def over_http(arm: str, tool: str, stack: ExitStack) -> dict[str, Callable[[int], Reading]]:
    port = _free_port()
    process = subprocess.Popen([sys.executable, __file__, "http", arm, str(port)], stderr=-3)
    stack.callback(process.wait)
    stack.callback(process.kill)
    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    connection: Connection = loop.run_until_complete(connect_socket(port))
    stack.callback(connection.close)
    loop.run_until_complete(connection.open())

    def post(count: int) -> Reading:
        bodies = [body[:-1] for body in calls(tool, {"a": 1, "b": 2}, count)]

        async def some() -> None:
            for body in bodies:
                await connection.post(body)

        before = cpu_of(process.pid)
        loop.run_until_complete(some())
        return Reading(0, (cpu_of(process.pid) - before) / count)

    return {"HTTP": post}


def in_memory(arm: str, tool: str, stack: ExitStack) -> dict[str, Callable[[int], Reading]]:
    process = Worker(Path(__file__).name, "memory", arm, tool)
    stack.callback(process.close)
    return {"in memory, with its client": process.round}


@asynccontextmanager
async def opened(arm: str, tool: str) -> Any:
    async with connect(build(arm)) as client:
        yield lambda: client.call_tool(tool, {"a": 1, "b": 2})


# -- comparing


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what ways around a task bring.")
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    print(f"{'CPU of one call, µs':40}" + "".join(f"{arm:>12}" for arm in ARMS))
    for tool in TOOLS:
        for transport in (over_stdio, over_http, in_memory):
            with ExitStack() as stack:
                arms = {arm: transport(arm, tool, stack) for arm in ARMS}
                for way in arms["both"]:
                    print(line(tool, way, compare({arm: arms[arm][way] for arm in ARMS}, rounds)))
    return 0


def compare(arms: dict[str, Callable[[int], Reading]], rounds: int) -> dict[str, list[float]]:
    """Let them take turns; return what one call cost in each round, after a first one."""
    found: dict[str, list[float]] = {arm: [] for arm in arms}
    for _ in range(rounds + 1):
        for arm, run in arms.items():
            found[arm].append(run(COUNT).cpu * 1e6)
    return {arm: each[1:] for arm, each in found.items()}


def line(tool: str, way: str, found: dict[str, list[float]]) -> str:
    cells = "".join(f"{min(found[arm]):7.1f}/{statistics.median(found[arm]):4.0f}" for arm in ARMS)
    return f"{tool + ', ' + way:40}{cells}   (least/median)"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio", arm]:
            build(arm).run()
        case ["http", arm, port]:
            build(arm).run("http", port=int(port))
        case ["memory", arm, tool]:
            asyncio.run(worker(opened(arm, tool)))
        case _:
            sys.exit(main())
