"""What a call costs now against what it cost at another commit, both in one run.

    python benchmarks/before.py v0.2.0 [--quick]

The library of that commit and the one of this tree serve the same calls, in rounds that take turns.
Compared is the CPU time of the best round. Exits 1 when a path costs over 3 % more than before.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from measure import (
    HERE,
    STATELESS,
    Effort,
    Reading,
    Round,
    Served,
    Worker,
    best,
    calls,
    one_core,
    timed,
)
from shared import SharedServer, folder_of_run, store_options, valkey
from web import WIDTH, _calling, serving

from scale import body_of, calling

ARMS: Final = ("before", "now")
ARGUMENTS: Final = {"a": 1, "b": 2}
MOST: Final = 20_000
LIMIT: Final = 1.03

Trees = Mapping[str, Path]
Measure = Callable[[Trees, Effort], Iterator[tuple[str, Mapping[str, Reading]]]]


@contextmanager
def library(source: Path) -> Iterator[None]:
    """Let processes that start meanwhile import accord from this folder."""
    os.environ["PYTHONPATH"] = str(source)
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]


def started(trees: Trees, stack: ExitStack, start: Callable[[str], Any]) -> dict[str, Any]:
    """Start a process for each commit, to be closed with the stack."""
    processes = {}
    for arm, source in trees.items():
        with library(source):
            processes[arm] = start(arm)
        stack.callback(processes[arm].close)
    return processes


def workers(trees: Trees, effort: Effort) -> Iterator[tuple[str, Mapping[str, Reading]]]:
    """The pure path of a call, and a client and a server in one process."""
    for name, command in {
        "core": ("before.py", "core"),
        "in memory": ("memory.py", "accord"),
    }.items():
        with ExitStack() as stack:
            found = started(trees, stack, lambda _, command=command: Worker(*command))
            rounds = {arm: (lambda count, w=w: w.round(count)) for arm, w in found.items()}
            yield name, best(rounds, effort, most=MOST)


def stdio(trees: Trees, effort: Effort) -> Iterator[tuple[str, Mapping[str, Reading]]]:
    """Calls over pipes, one by one and 64 at once, of coroutines and of plain functions."""

    def rounds(
        servers: Mapping[str, Served], tool: str, width: int, **options: Any
    ) -> dict[str, Round]:
        messages = calls(tool, ARGUMENTS, MOST, **options)

        def run(server: Served, count: int) -> int:
            if width == 1:
                server.one_by_one(messages[:count])
            else:
                server.in_flight(messages[:count], min(width, count))
            return count

        return {
            arm: timed(server, lambda count, server=server: run(server, count))
            for arm, server in servers.items()
        }

    with ExitStack() as stack:
        servers = started(trees, stack, lambda _: Served("accord"))
        # On two cores the placement of the processes makes up to twice the CPU time of a call.
        stack.enter_context(one_core(*(server.pid for server in servers.values())))
        for tool, what in (("add", ""), ("add_plain", ", plain function")):
            for width in (1, 64):
                yield f"stdio, {width} in flight{what}", best(rounds(servers, tool, width), effort)
        yield "stdio, 2026-07-28", best(rounds(servers, "add", 1, meta=STATELESS), effort)


def http(trees: Trees, effort: Effort) -> Iterator[tuple[str, Mapping[str, Reading]]]:
    """Calls over HTTP, on connections with a head that repeats."""
    names = {"json": "JSON", "stream": "event stream", "stateless": "2026-07-28"}
    for mode, name in names.items():
        with ExitStack() as stack:
            rounds = {}
            for arm, source in trees.items():
                with library(source):
                    servers, run = stack.enter_context(serving(mode, ["accord"]))
                rounds[arm] = _calling(servers["accord"], run, WIDTH)
            yield f"HTTP, {name}", best(rounds, effort, most=MOST)


def stored(trees: Trees, effort: Effort) -> Iterator[tuple[str, Mapping[str, Reading]]]:
    """Calls over HTTP with a store, and streams of ten events that are stored."""
    with folder_of_run() as folder, valkey(folder) as (url, _, _):
        for store in ("sqlite", "valkey"):
            yield from _with_store(store, trees, effort, folder, url)


def _with_store(
    store: str, trees: Trees, effort: Effort, folder: Path, url: str
) -> Iterator[tuple[str, Mapping[str, Reading]]]:
    def start(arm: str) -> SharedServer:
        # Each has a store of its own, otherwise they would be workers of one server.
        place = folder / f"{store}-{arm}"
        place.mkdir()
        return SharedServer(arm, **store_options(store, place, f"{url[:-1]}{ARMS.index(arm)}"))

    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        servers = started(trees, stack, start)
        for server in servers.values():
            loop.run_until_complete(server.open(WIDTH))
        for kind, make in (("call", _add), ("call with 10 events", _count)):
            rounds = {
                arm: calling(server, loop.run_until_complete, WIDTH, make)
                for arm, server in servers.items()
            }
            yield f"HTTP, {kind}, {store}", best(rounds, effort, most=4_000)


def _add(number: int) -> bytes:
    return body_of(number, "add", ARGUMENTS)


def _count(number: int) -> bytes:
    return body_of(number, "count", {"to": 10}, progress=True)


MEASURES: Final[tuple[Measure, ...]] = (workers, stdio, http, stored)


def serve_core() -> None:
    """Be the process that takes the pure path of a call, as often as it reads on its input."""
    from core import CALL, accord

    call = accord()
    number = 0
    for line in sys.stdin:
        messages = [CALL % (number + each) for each in range(int(line.split()[0]))]
        number += len(messages)
        cpu, start = time.process_time(), time.perf_counter()
        for message in messages:
            call(message)
        elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(elapsed / len(messages), cpu / len(messages), flush=True)


def main() -> int:
    if sys.argv[1:] == ["core"]:
        serve_core()
        return 0
    parser = argparse.ArgumentParser(description="Compare the cost of calls with another commit.")
    parser.add_argument("commit", help="such as v0.2.0")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options = parser.parse_args()
    effort = Effort(3, 0.1) if options.quick else Effort(16, 0.25)
    missed = 0
    with folder_of_run() as folder:
        archive = ["git", "-C", str(HERE.parent), "archive", options.commit, "src"]
        packed = subprocess.run(archive, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], check=True, input=packed)
        trees = dict(zip(ARMS, (folder / "src", HERE.parent / "src"), strict=True))
        print(f"{'CPU µs of a call':36}{'before':>10}{'now':>10}{'ratio':>10}")
        for measure in MEASURES:
            for name, found in measure(trees, effort):
                before, now = (found[arm].cpu * 1e6 for arm in ARMS)
                verdict = "" if now <= before * LIMIT else f"   over {LIMIT}"
                missed += bool(verdict)
                print(
                    f"{name:36}{before:10.2f}{now:10.2f}{now / before:10.3f}{verdict}", flush=True
                )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
