"""Driving servers with prepared bytes, reading the clocks, and telling whether an aim was reached.

Every contender is driven by the same code, in rounds that take turns, so that whatever else the
machine does falls on all of them. The best round counts: noise only ever adds.
"""

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
CONTENDERS: Final = {"bare": "bare", "accord": "ours", "official": "official", "FastMCP": "fast"}
TOOLS: Final = 100
PATIENCE: Final = 60.0

OPENING: Final = (
    b'{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}\n'
)
OPENED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'


def request(number: int, method: str, params: Any) -> bytes:
    """Prepare one request, as a line."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


PREFIX: Final = "io.modelcontextprotocol/"
STATELESS: Final = {
    f"{PREFIX}protocolVersion": "2026-07-28",
    f"{PREFIX}clientCapabilities": {},
    f"{PREFIX}clientInfo": {"name": "bench", "version": "1"},
}
"""The `_meta` of a request that stands on its own."""


def calls(
    tool: str, arguments: Any, count: int, *, progress: bool = False, meta: Any = None
) -> list[bytes]:
    """Prepare calls of a tool, with ids from 1."""
    prepared = []
    for number in range(1, count + 1):
        said = {**(meta or {}), **({"progressToken": number} if progress else {})}
        params = {"name": tool, "arguments": arguments, **({"_meta": said} if said else {})}
        prepared.append(request(number, "tools/call", params))
    return prepared


# -- processes


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and all its threads, to the nanosecond."""
    # How Linux names the CPU clock of another process: its id inverted, and the kind of clock.
    return time.clock_gettime((~pid << 3) | 2)


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no memory")


@contextmanager
def one_core(*pids: int) -> Iterator[None]:
    """Keep processes on one core, so that the kernel's placement does not decide the result."""
    before = os.sched_getaffinity(0)
    _pin({max(before)}, os.getpid(), *pids)
    try:
        yield
    finally:
        _pin(before, os.getpid(), *pids)


def _pin(cores: set[int], *pids: int) -> None:
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), cores)


class Served:
    """A contender's server as a process, opened and ready for calls."""

    def __init__(self, contender: str, *, tools: int = TOOLS) -> None:
        script = HERE / "peers" / f"{CONTENDERS[contender]}.py"
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(tools)],
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
        self.opened_after = time.perf_counter() - started
        self.opened_cpu = cpu_of(self.pid)
        self.opened_memory = memory_of(self.pid)
        self.send(OPENED)

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]

    def receive(self, lines: int) -> bytes:
        """Read until so many lines have come."""
        chunks = []
        while lines > 0:
            if not select.select([self._out], [], [], PATIENCE)[0]:
                raise TimeoutError(f"no answer within {PATIENCE:g} s")
            chunks.append(self._read())
            lines -= chunks[-1].count(b"\n")
        return b"".join(chunks)

    def _read(self) -> bytes:
        chunk = os.read(self._out, 1 << 16)
        if not chunk:
            raise RuntimeError("the server has gone")
        return chunk

    def ask(self, message: bytes) -> Any:
        """Send one request and return its result."""
        self.send(message)
        answer = json.loads(self.receive(1))
        if "result" not in answer:
            raise RuntimeError(f"unexpected answer: {answer}")
        return answer["result"]

    def one_by_one(self, messages: Sequence[bytes], *, lines: int = 1) -> None:
        """Send each message when the one before has been answered."""
        write, read, into, out = os.write, os.read, self._in, self._out
        for message in messages:
            if len(message) > 1 << 16:
                self.send(message)
            else:
                write(into, message)
            missing = lines
            while missing > 0:
                chunk = read(out, 1 << 16)
                if not chunk:
                    raise RuntimeError("the server has gone")
                missing -= chunk.count(b"\n")

    def in_flight(self, messages: Sequence[bytes], width: int) -> None:
        """Keep so many requests under way."""
        join, count = b"".join, len(messages)
        sent, answered = width, 0
        self.send(join(messages[:width]))
        while answered < count:
            answers = self._read().count(b"\n")
            answered += answers
            if answers and sent < count:
                self.send(join(messages[sent : sent + answers]))
                sent += answers

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@contextmanager
def served(
    contenders: Sequence[str] = (*CONTENDERS,), **options: Any
) -> Iterator[dict[str, Served]]:
    """Start one server of each contender, and stop them in the end."""
    running: dict[str, Served] = {}
    try:
        for contender in contenders:
            running[contender] = Served(contender, **options)
        yield running
    finally:
        for server in running.values():
            server.close()


class Worker:
    """A process that makes calls in rounds on command, for what cannot be driven by bytes."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self, count: int, width: int = 1) -> "Reading":
        """Let it make a round of calls, so many at once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{count} {width}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args!r} has gone")
        seconds, cpu = map(float, answer.split())
        return Reading(seconds, cpu)

    @property
    def pids(self) -> list[int]:
        """The process and those that it has launched."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        launched = [pid for task in tasks for pid in (task / "children").read_text().split()]
        return [self.process.pid, *map(int, launched)]

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


async def worker(opening: AbstractAsyncContextManager[Callable[[], Awaitable[Any]]]) -> None:
    """Be such a process: open the connection, then make calls on command until the input ends."""
    report = os.fdopen(os.dup(1), "w")
    async with opening as call:

        async def some(count: int) -> None:
            for _ in range(count):
                await call()

        while line := sys.stdin.readline():
            count, width = map(int, line.split())
            cpu, start = time.process_time(), time.perf_counter()
            if width == 1:
                await some(count)
            else:
                await asyncio.gather(*(some(count // width) for _ in range(width)))
            elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
            done = count // width * width
            print(elapsed / done, cpu / done, file=report, flush=True)


# -- rounds


@dataclass
class Reading:
    """What one call cost, in seconds."""

    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        return 1 / self.seconds


@dataclass
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float

    @classmethod
    def of(cls, *, quick: bool) -> "Effort":
        return cls(2, 0.1) if quick else cls(6, 0.25)


Round = Callable[[int], Reading]
"""Does so many operations and says what one of them cost."""


def timed(server: Served, work: Callable[[int], int]) -> Round:
    """Make a round of work on a server; the work returns how many operations it was."""

    def run(count: int) -> Reading:
        cpu, start = cpu_of(server.pid), time.perf_counter()
        done = work(count)
        elapsed = time.perf_counter() - start
        return Reading(elapsed / done, (cpu_of(server.pid) - cpu) / done)

    return run


def best(rounds: Mapping[str, Round], effort: Effort, *, most: int = 20_000) -> dict[str, Reading]:
    """Let the contenders take turns, each for about the same time; return the best of each."""
    counts = {}
    for name, run in rounds.items():
        count = 1
        # The first rounds are slow, so the pace is found step by step; it warms everything up too.
        while count < (wanted := min(most, int(effort.seconds / run(count).seconds))):
            count = min(wanted, count * 20)
        counts[name] = count
    found: dict[str, list[Reading]] = {name: [] for name in rounds}
    for _ in range(effort.rounds):
        for name, run in rounds.items():
            found[name].append(run(counts[name]))
    return {
        name: Reading(min(each.seconds for each in all_), min(each.cpu for each in all_))
        for name, all_ in found.items()
    }


# -- figures and aims


@dataclass
class Aim:
    """What a figure is held to: `value` must be at least, or at most, `first`."""

    value: float
    first: float
    moonshot: float
    of: str
    at_most: bool = False

    def meets(self, bound: float) -> bool:
        return self.value <= bound if self.at_most else self.value >= bound

    @property
    def reached(self) -> bool:
        return self.meets(self.first)

    def __str__(self) -> str:
        verdict = "reached" if self.reached else "MISSED"
        verdict = "moonshot" if self.meets(self.moonshot) else verdict
        limit = "at most" if self.at_most else "at least"
        value, first, moonshot = (f"{each:.4g}" for each in (self.value, self.first, self.moonshot))
        return f"{verdict:9}{value} {self.of} (aim: {limit} {first}; moonshot {moonshot})"


@dataclass
class Figure:
    """One line of the table."""

    name: str
    values: dict[str, float]
    digits: int = 0
    more_is_better: bool = True
    aim: Aim | None = None
    note: str = field(default="")

    def times(self, peer: str) -> float | None:
        """How many times better accord is than a peer."""
        if peer not in self.values or "accord" not in self.values:
            return None
        ours, theirs = self.values["accord"], self.values[peer]
        return ours / theirs if self.more_is_better else theirs / ours


def per_second(name: str, readings: Mapping[str, Reading], aim: Aim | None = None) -> list[Figure]:
    """Make the two lines of a rate: operations per second, and CPU time of one."""
    return [
        Figure(name, {who: each.rate for who, each in readings.items()}, aim=aim),
        cpu_line("  CPU µs of the server", readings),
    ]


def cpu_line(name: str, readings: Mapping[str, Reading], aim: Aim | None = None) -> Figure:
    values = {who: each.cpu * 1e6 for who, each in readings.items()}
    return Figure(name, values, digits=1, more_is_better=False, aim=aim)


def heading() -> str:
    names = "".join(f"{who:>10}" for who in CONTENDERS)
    return f"{'':38}{names}{'of bare':>10}{'official':>10}{'FastMCP':>9}"


def line(figure: Figure) -> str:
    cells = [f"{figure.name:38}"]
    for who in CONTENDERS:
        value = figure.values.get(who)
        cells.append(f"{'':10}" if value is None else f"{value:10,.{figure.digits}f}")
    for peer, width, digits in (("bare", 10, 2), ("official", 10, 1), ("FastMCP", 9, 1)):
        times = figure.times(peer)
        shown = "" if times is None else f"{times:.{digits}f}{'' if peer == 'bare' else 'x'}"
        cells.append(f"{shown:>{width}}")
    tail = figure.aim or figure.note
    return "".join(cells) + (f"   {tail}" if tail else "")
