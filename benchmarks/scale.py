"""What several workers cost, and what they bring; ratios in one run.

    python benchmarks/scale.py [--quick] [FIGURE ...]

A plain call with a store against one without it; calls with a stream through SQLite and Valkey
against those of one process; what an idle session costs; how throughput grows with workers, beside
the official SDK with affinity; how soon a stream goes on when its worker is killed. Exits 1 when a
first aim is missed.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from measure import HERE, Aim, Effort, Reading, Round, best, cpu_of, memory_of
from shared import (
    STORES,
    SharedServer,
    call_for,
    folder_of_run,
    free_port,
    nginx,
    running,
    store_options,
    used_memory,
    valkey,
)
from wire import Connection, connect

WIDTH: Final = 32
EVENTS: Final = 10
SESSIONS: Final = 2_000
GIGABYTE: Final = 1 << 30
WINDOWS: Final = 4
_aims: list[Aim] = []


def print_line(name: str, values: dict[str, float], unit: str, aim: Aim | None = None) -> None:
    """Print one figure, with a value for each store."""
    cells = "".join(f"{who:>12}{value:11,.1f}" for who, value in values.items())
    print(f"{name:42}{cells} {unit}" + (f"   {aim}" if aim else ""), flush=True)
    if aim is not None:
        _aims.append(aim)


def body_of(number: int, tool: str, arguments: Any, *, progress: bool = False) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if progress:
        params["_meta"] = {"progressToken": number}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


PLAIN: Final = body_of(1, "add", {"a": 1, "b": 2})
BUSY: Final = body_of(1, "compute", {"milliseconds": 1.0})

Run = Callable[[Any], Any]


@contextmanager
def one_of_each() -> Iterator[tuple[dict[str, SharedServer], Run, int, Path]]:
    """Run one worker with each store; yields also the id of Valkey's process, and a folder."""
    loop = asyncio.new_event_loop()
    with ExitStack() as stack:
        folder = stack.enter_context(folder_of_run())
        url, _, pid = stack.enter_context(valkey(folder))
        servers = {}
        for store in STORES:
            servers[store] = SharedServer(store, **store_options(store, folder, url))
            stack.callback(servers[store].close)
            loop.run_until_complete(servers[store].open(WIDTH))
        yield servers, loop.run_until_complete, pid, folder
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def calling(server: SharedServer, run: Run, width: int, make: Callable[[int], bytes]) -> Round:
    """Return rounds of calls, so many at once; the CPU is that of the worker."""

    async def work(bodies: Sequence[bytes]) -> None:
        share = len(bodies) // width

        async def some(connection: Connection, mine: Sequence[bytes]) -> None:
            for body in mine:
                await connection.post(body)

        await asyncio.gather(
            *(
                some(connection, bodies[share * at : share * (at + 1)])
                for at, connection in enumerate(server.connections[:width])
            )
        )

    def one_round(count: int) -> Reading:
        count = max(count // width, 1) * width
        bodies = [make(number) for number in range(1, count + 1)]
        cpu, start = cpu_of(server.pid), time.perf_counter()
        run(work(bodies))
        elapsed = time.perf_counter() - start
        return Reading(elapsed / count, (cpu_of(server.pid) - cpu) / count)

    return one_round


def latencies(server: SharedServer, run: Run, make: Callable[[int], bytes]) -> tuple[float, float]:
    """Return p50 and p99 of calls on one connection, in µs."""
    took: list[float] = []

    async def work() -> None:
        for number in range(300):
            start = time.perf_counter()
            await server.connections[0].post(make(number))
            took.append((time.perf_counter() - start) * 1e6)

    run(work())
    took.sort()
    return took[len(took) // 2], took[int(len(took) * 0.99)]


# -- figures


def plain_calls(effort: Effort) -> None:
    """A call that ends without a word: with a store it must cost what it costs without one."""
    longer = Effort(3 * effort.rounds, effort.seconds)
    with one_of_each() as (servers, run, _, _):

        def add(number: int) -> bytes:
            return body_of(number, "add", {"a": number, "b": 2})

        rounds = {name: calling(server, run, WIDTH, add) for name, server in servers.items()}
        found = best(rounds, longer, most=8_000)
        cpu = {name: each.cpu * 1e6 for name, each in found.items()}
        for store in ("sqlite", "valkey"):
            what = f"of the call without a store ({store})"
            aim = Aim(cpu[store] / cpu["none"], 1.03, 1.0, what, at_most=True)
            print_line(f"plain call, {WIDTH} connections", {store: cpu[store]}, "µs CPU", aim)
        print_line("  without a store", {"none": cpu["none"]}, "µs CPU")
        alone = {name: latencies(server, run, add) for name, server in servers.items()}
        print_line("  p50, 1 connection", {name: each[0] for name, each in alone.items()}, "µs")


def streamed_calls(effort: Effort) -> None:
    """A call with ten events, each of which is stored before the client sees it."""
    with one_of_each() as (servers, run, engine, _):

        def count(number: int) -> bytes:
            return body_of(number, "count", {"to": EVENTS}, progress=True)

        rounds = {name: calling(server, run, WIDTH, count) for name, server in servers.items()}
        before, start = cpu_of(engine), time.perf_counter()
        found = best(rounds, effort, most=2_000)
        engine_share = (cpu_of(engine) - before) / (time.perf_counter() - start)
        cpu = {name: each.cpu * 1e6 for name, each in found.items()}
        print_line(f"call with {EVENTS} events, {WIDTH} connections", cpu, "µs CPU of the worker")
        for store in ("sqlite", "valkey"):
            each_event = (cpu[store] - cpu["none"]) / (EVENTS + 1)
            aim = Aim(each_event, 1_000, 100, f"µs CPU more for each event ({store})", at_most=True)
            ratio = {store: cpu[store] / cpu["none"]}
            print_line("  times the CPU without a store", ratio, "x", aim)
        rate = {name: each.rate for name, each in found.items()}
        print_line("  streams per second and worker", rate, "per s")
        print_line("  share of a core that Valkey took", {"valkey": engine_share * 100}, "%")
        alone = {name: latencies(server, run, count) for name, server in servers.items()}
        print_line("  p50, 1 connection", {name: each[0] for name, each in alone.items()}, "µs")
        print_line("  p99, 1 connection", {name: each[1] for name, each in alone.items()}, "µs")


def idle_sessions(effort: Effort) -> None:
    """What a session costs that nothing happens in."""
    count = SESSIONS // (4 if effort.rounds < 3 else 1)

    async def open_sessions(port: int) -> None:
        connection = await connect(port)
        for _ in range(count):
            connection.session = b""
            await connection.open()
        connection.close()

    with folder_of_run() as folder, valkey(folder) as (url, port, _):
        costs: dict[str, float] = {}
        for store in STORES:
            server = SharedServer(store, **store_options(store, folder, url))
            try:
                asyncio.run(server_warm_up(server))
                memory, kept = memory_of(server.pid), kept_bytes(store, folder, port)
                asyncio.run(open_sessions(server.port))
                grown = (memory_of(server.pid) - memory) * (1 << 20) / count
                stored = (kept_bytes(store, folder, port) - kept) / count
            finally:
                server.close()
            costs[store] = stored
            print_line(f"idle session, store: {store}", {"worker": grown}, "bytes in the worker")
            if store != "none":
                print_line("", {store: stored}, f"bytes in {store}")
                print_line("", {store: GIGABYTE / stored}, f"sessions per GB of {store}")


async def server_warm_up(server: SharedServer) -> None:
    connection = await connect(server.port)
    for _ in range(50):
        connection.session = b""
        await connection.open()
    connection.close()


def kept_bytes(store: str, folder: Path, port: int) -> int:
    """Return how much a store holds."""
    if store == "none":
        return 0
    if store == "valkey":
        return used_memory(port)
    return sum(each.stat().st_size for each in folder.glob("bench-sqlite.db*"))


def growth_with_workers(effort: Effort) -> None:
    """Calls per second with 1, 2 and 4 workers behind nginx, beside the official SDK with affinity.

    The client, nginx and the workers share the machine, so that the CPU of the workers is what is
    compared. A second kind of call computes for a millisecond: there the workers are the limit.
    """
    seconds = 1.0 if effort.rounds < 3 else 4.0
    plain: dict[str, Reading] = {}
    busy: dict[str, Reading] = {}
    with folder_of_run() as folder, valkey(folder) as (url, _, _):
        for count in (1, 2, 4):
            for store in ("sqlite", "valkey"):
                options = store_options(store, folder, url)
                with ExitStack() as stack:
                    servers = [SharedServer(store, **options) for _ in range(count)]
                    for server in servers:
                        stack.callback(server.close)
                    front = stack.enter_context(nginx(folder, [each.port for each in servers]))
                    pids = [server.pid for server in servers]
                    name = f"{store} x{count}"
                    plain[name] = measure_rate(front, pids, PLAIN, seconds)
                    busy[name] = measure_rate(front, pids, BUSY, seconds)
            with ExitStack() as stack:
                ports = [free_port() for _ in range(count)]
                script = str(HERE / "peers" / "web.py")
                pids = [
                    stack.enter_context(
                        running(
                            [sys.executable, script, "official", "json", str(port), "100"], port
                        )
                    ).pid
                    for port in ports
                ]
                affinity = "hash $http_x_client consistent;"
                front = stack.enter_context(nginx(folder, ports, affinity=affinity))
                plain[f"official x{count}"] = measure_rate(front, pids, PLAIN, seconds)
    for name, found in (("plain call", plain), ("call of 1 ms", busy)):
        for who in ("sqlite", "valkey", "official"):
            readings = {key: each for key, each in found.items() if key.startswith(who)}
            if readings:
                rates = {key: each.rate for key, each in readings.items()}
                print_line(f"{name}, behind nginx", rates, "per s")
                cpu = {key: each.cpu * 1e6 for key, each in readings.items()}
                print_line("  CPU of all workers", cpu, "µs a call")
    for count in (1, 2, 4):
        ratio = plain[f"official x{count}"].cpu / plain[f"valkey x{count}"].cpu
        aim = Aim(ratio, 5, 12, f"times less CPU than the official SDK ({count} workers)")
        print_line("", {f"x{count}": plain[f"valkey x{count}"].cpu * 1e6}, "µs a call", aim)
    for store in ("sqlite", "valkey"):
        grown = busy[f"{store} x2"].rate / busy[f"{store} x1"].rate
        aim = Aim(grown, 1.3, 1.7, f"times the calls of one worker ({store}, 2 workers, 2 cores)")
        print_line("", {f"{store} x2": busy[f"{store} x2"].rate}, "per s", aim)


def measure_rate(port: int, pids: Sequence[int], body: bytes, seconds: float) -> Reading:
    """Return what a call costs that 32 sessions make over and over, all workers together."""

    async def measure() -> Reading:
        connections = []
        for number in range(WIDTH):
            connection = await connect(port)
            client = b"x-client: %d\r\n" % number
            connection.session = client
            await connection.open()
            connection.session = client + connection.session.replace(client, b"")
            connections.append(connection)
        await call_for(connections, body, 0.5)  # each worker has met each session then
        found = []
        for _ in range(WINDOWS):
            cpu = sum(map(cpu_of, pids))
            done, took = await call_for(connections, body, seconds / WINDOWS)
            found.append(Reading(took / done, (sum(map(cpu_of, pids)) - cpu) / done))
        for connection in connections:
            connection.close()
        # Noise only ever adds.
        return Reading(min(each.seconds for each in found), min(each.cpu for each in found))

    return asyncio.run(measure())


LEASES: Final = (1.5, 5.0)


def time_to_resume(effort: Effort) -> None:
    """From the kill of a worker until the client has the next event of its stream."""
    times = 2 if effort.rounds < 3 else 5
    with folder_of_run() as folder, valkey(folder) as (url, _, _):
        for store in ("sqlite", "valkey"):
            for lease in LEASES[: 1 if effort.rounds < 3 else 2]:
                options = {**store_options(store, folder, url), "lease": lease}
                took = [asyncio.run(kill_and_resume(options)) for _ in range(times)]
                middle = statistics.median(took)
                aim = Aim(middle, lease + 1, lease, f"s (lease {lease:g} s)", at_most=True)
                values = {store: middle, "most": max(took)}
                print_line("from the kill to the resumed stream", values, "s", aim)


async def kill_and_resume(options: dict[str, Any]) -> float:
    """Let a call run on one of two workers, kill it, and follow the stream at the other."""
    first, second = SharedServer("first", **options), SharedServer("second", **options)
    try:
        await first.open(1)
        session = first.connections[0].session
        reader, writer = await asyncio.open_connection("127.0.0.1", first.port)
        body = body_of(1, "crawl", {"steps": 100_000})
        writer.write(head(b"POST", session, b"content-length: %d\r\n" % len(body)) + body)
        last = await read_until_event(reader, b"crawl has begun", minimum=5)
        os.kill(first.pid, signal.SIGKILL)
        killed = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", second.port)
        writer.write(head(b"GET", session, b"last-event-id: %b\r\n" % last))
        await read_until_event(reader, last, minimum=1)
        return time.perf_counter() - killed
    finally:
        first.close()
        second.close()


def head(method: bytes, session: bytes, more: bytes) -> bytes:
    return (
        b"%b /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: application/json, text/event-stream\r\n"
        b"content-type: application/json\r\nmcp-protocol-version: 2025-06-18\r\n%b%b\r\n"
        % (method, session, more)
    )


async def read_until_event(reader: asyncio.StreamReader, after: bytes, *, minimum: int) -> bytes:
    """Read so many events that follow one; return the id of the last of them."""
    last = b""
    seen = 0
    async with asyncio.timeout(30):
        while seen < minimum:
            line = await reader.readline()
            if not line:
                raise RuntimeError("the stream has ended")
            if line.startswith(b"id: ") and line[4:].strip() != after:
                last = line[4:].strip()
                seen += 1
    return last


FIGURES: Final = {
    each.__name__: each
    for each in (plain_calls, streamed_calls, idle_sessions, growth_with_workers, time_to_resume)
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure several workers with a shared store.")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    options = parser.parse_args()
    unknown = sorted({*options.figures} - {*FIGURES})
    if unknown:
        parser.error(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    effort = Effort.of(quick=options.quick)
    for name in options.figures or FIGURES:
        FIGURES[name](effort)
    missed = [aim for aim in _aims if not aim.reached]
    print(f"{len(_aims) - len(missed)} of {len(_aims)} aims reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
