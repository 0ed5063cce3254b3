"""A server for a long time: 1,000 connections, 500 open streams, a million calls.

    python benchmarks/soak.py                   a million calls, some minutes
    python benchmarks/soak.py --quick           30,000 calls
    python benchmarks/soak.py --calls 5000000 --rate 6000

`server.run("http")` in a process of its own; a client here that does next to nothing. Calls are
sent at an even rate, which two cores can keep up with, on whichever connection is free, so that
latency is that of the server and not of a queue. Each tenth of the run prints the memory of the
server and the latency of its calls. Exits 1 if a call or a stream fails, if memory grows by more
than a tenth from the first tenth to the last, or if the 99th percentile of the worst tenth is more
than twice that of the median tenth. That says something about the server only on a machine that
has nothing else to do; each tenth prints how many cores other processes used meanwhile.
"""

import argparse
import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from measure import calls, cpu_of, memory_of
from wire import Connection, connect

CONNECTIONS, STREAMS, CALLS, RATE = 1_000, 500, 1_000_000, 4_000
QUICK: Final = 30_000
# How often calls are sent: as many as are due.
BEAT: Final = 0.002
GROWTH_MOST: Final = 1.1
SPREAD_MOST: Final = 2.0
# Seconds of silence on a stream after which the server sends a comment.
SILENCE: Final = 2.0
PATIENCE: Final = 60.0
HEAD: Final = (
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:8000\r\nuser-agent: soak\r\n"
    b"accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
    b"mcp-protocol-version: 2025-06-18\r\n%bcontent-length: %d\r\n\r\n%b"
)


def busy_seconds() -> float:
    """Return the CPU seconds that all processes of the machine have used."""
    with contextlib.suppress(OSError):
        user, nice, system, _, _, irq, softirq = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
        )
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return 0.0


# -- the server


def serve(port: int) -> None:
    from accord import Server

    server = Server("soak")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    server.run("http", port=port, keep_alive=SILENCE)


@contextlib.contextmanager
def served(port: int) -> Iterator[int]:
    """Run the server as a process; yields its id."""
    command = [sys.executable, __file__, "--serve", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# -- the client


class Caller(asyncio.Protocol):
    """A connection that is kept; one call at a time, always the same bytes."""

    def __init__(self, run: "Run", request: bytes) -> None:
        self._run = run
        self._request = request
        self._since = 0.0
        self._missing: int | None = None
        self._head = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._run.is_over:
            self._run.errors.append(f"the server has closed a connection: {exc}")

    def call(self, now: float) -> None:
        self._since = now
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._missing is None:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data, self._head = self._head[:end], self._head[end + 4 :], b""
            at = head.find(b"content-length: ")
            if not head.startswith(b"HTTP/1.1 200 ") or at < 0:
                self._run.errors.append(f"unexpected answer: {head[:200]!r}")
                return
            self._missing = int(head[at + 16 :].split(b"\r\n", 1)[0])
            if b'"isError":true' in data or b'"error"' in data:
                self._run.errors.append(f"a call failed: {data[:200]!r}")
        self._missing -= len(data)
        if self._missing <= 0:
            self._missing = None
            self._run.answered(self, self._since)

    def close(self) -> None:
        self._transport.close()


class Listener(asyncio.Protocol):
    """A stream that stays open; counts what arrives."""

    def __init__(self, run: "Run", request: bytes) -> None:
        self._run = run
        self._request = request
        self.reads = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.reads and not data.startswith(b"HTTP/1.1 200 "):
            self._run.errors.append(f"a stream is refused: {data[:200]!r}")
        self.reads += 1

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._run.is_over:
            self._run.errors.append(f"the server has ended a stream: {exc}")

    def close(self) -> None:
        self._transport.close()


class Run:
    """All calls of one run, and what they took."""

    def __init__(self, port: int, pid: int, given: argparse.Namespace) -> None:
        self.port = port
        self.pid = pid
        self.given = given
        self.errors: list[str] = []
        self.is_over = False
        self.listeners: list[Listener] = []
        self._callers: list[Caller] = []
        self._free: deque[Caller] = deque()
        self._latencies: list[float] = []
        self._tenths: list[tuple[float, float, float]] = []
        self._others = self._read_clocks()

    def _read_clocks(self) -> tuple[float, float]:
        """Return the time, and the CPU seconds of all processes but the server and this one."""
        ours = cpu_of(self.pid) + time.process_time()
        return time.perf_counter(), busy_seconds() - ours

    async def open(self) -> None:
        """Open one session for all calls, one for each stream, and all connections."""
        loop = asyncio.get_running_loop()
        (body,) = calls("add", {"a": 1, "b": 2}, 1)
        opener: Connection = await connect(self.port)
        await opener.open()
        request = HEAD % (opener.session, len(body), body)
        for _ in range(self.given.connections):
            made = await loop.create_connection(
                lambda: Caller(self, request), "127.0.0.1", self.port
            )
            self._callers.append(made[1])
        self._free.extend(self._callers)
        for _ in range(self.given.streams):
            opener.session = b""
            await opener.open()
            asked = (
                b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1:8000\r\naccept: text/event-stream\r\n"
                b"mcp-protocol-version: 2025-06-18\r\n%b\r\n" % opener.session
            )
            stream = await loop.create_connection(
                lambda asked=asked: Listener(self, asked), "127.0.0.1", self.port
            )
            self.listeners.append(stream[1])
        opener.close()

    async def go(self) -> None:
        """Make all calls, and report after each tenth."""
        count, rate = self.given.calls, self.given.rate
        sent, start, clock = 0, time.perf_counter(), time.perf_counter
        tenth = count // 10
        while len(self._tenths) < 10 and not self.errors:
            due = min(count, int((clock() - start) * rate)) - sent
            # What a stall of this process has missed is left out: sent at once, it is a queue.
            most = int(rate * BEAT * 4) + 1
            if due > most:
                start += (due - most) / rate
                due = most
            for _ in range(min(due, len(self._free))):
                self._free.popleft().call(clock())
                sent += 1
            if len(self._latencies) >= tenth:
                self._report(tenth)
            await asyncio.sleep(BEAT)

    def answered(self, caller: Caller, since: float) -> None:
        self._latencies.append(time.perf_counter() - since)
        self._free.append(caller)

    def _report(self, tenth: int) -> None:
        ordered = sorted(self._latencies[:tenth])
        del self._latencies[:tenth]
        median, p99 = ordered[tenth // 2] * 1e3, ordered[tenth * 99 // 100] * 1e3
        memory = memory_of(self.pid)
        self._tenths.append((memory, median, p99))
        number = len(self._tenths)
        (before, theirs), self._others = self._others, self._read_clocks()
        others = max(0.0, (self._others[1] - theirs) / (self._others[0] - before))
        print(
            f"{number:3}/10  {memory:7.1f} MB   median {median:6.2f} ms   p99 {p99:7.2f} ms"
            f"   server {cpu_of(self.pid):6.1f} CPU s   others use {others:.1f} cores",
            flush=True,
        )

    def judge(self, seconds: float) -> list[str]:
        """Say what is not as it should be."""
        found = [*self.errors[:3]]
        if len(self._tenths) < 10:
            return [*found, "the run did not end"]
        memories = [each[0] for each in self._tenths]
        growth = memories[-1] / memories[0]
        slowest = [each[2] for each in self._tenths]
        spread = max(slowest) / statistics.median(slowest)
        print(f"memory of the last tenth / the first: {growth:.3f} (at most {GROWTH_MOST:g})")
        print(f"p99 of the worst tenth / the median tenth: {spread:.2f} (at most {SPREAD_MOST:g})")
        if growth > GROWTH_MOST:
            found.append("memory grows")
        if spread > SPREAD_MOST:
            found.append("calls are slower at times")
        silent = sum(listener.reads < 2 for listener in self.listeners)
        if silent and seconds > 4 * SILENCE:
            found.append(f"{silent} streams are silent")
        return found

    def close(self) -> None:
        self.is_over = True
        for caller in self._callers:
            caller.close()
        for listener in self.listeners:
            listener.close()


async def soak(port: int, pid: int, given: argparse.Namespace) -> int:
    run = Run(port, pid, given)
    await run.open()
    before = memory_of(pid)
    print(
        f"{given.connections} connections, {given.streams} streams, {given.calls} calls,"
        f" {given.rate} a second; {before:.1f} MB before the first",
        flush=True,
    )
    cpu, start = cpu_of(pid), time.perf_counter()
    await run.go()
    seconds, cpu = time.perf_counter() - start, cpu_of(pid) - cpu
    print(f"{seconds:.0f} s, {cpu / given.calls * 1e6:.1f} us CPU a call of the server")
    faults = run.judge(seconds)
    run.close()
    for fault in faults:
        print(f"FAILED: {fault}")
    return 1 if faults else 0


def raise_limit() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK:,} calls")
    parser.add_argument("--rate", type=int, default=RATE, help="calls a second")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    raise_limit()
    if given.serve is not None:
        serve(given.serve)
        return 0
    if given.quick:
        given.calls = min(given.calls, QUICK)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
    with served(port) as pid:
        return asyncio.run(soak(port, pid, given))


if __name__ == "__main__":
    sys.exit(main())
