"""Servers over HTTP: calls as JSON, as event streams, stateless; sessions, streams, large payloads.

accord runs as `server.run("http")` does, on its own listener; the peers on what their plain
installation brings; the bare app on the fastest uvicorn there is. All are driven by one raw client.
The CPU time of the server is what is compared: the client shares the machine with it.
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from measure import (
    CONTENDERS,
    HERE,
    PREFIX,
    STATELESS,
    Aim,
    Effort,
    Figure,
    Reading,
    Round,
    best,
    cpu_line,
    cpu_of,
    memory_of,
    per_second,
)
from wire import Connection, connect

WIDTH: Final = 32
MEGABYTE: Final = 1 << 20
TOOLS: Final = 100
MODES: Final = ("json", "stream", "sessionless")


class Web:
    """A contender's server, with connections to it."""

    def __init__(self, who: str, mode: str, tools: int = TOOLS) -> None:
        self.who = who
        self.mode = mode
        self.port = _free_port()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "peers" / "web.py"), who, mode, str(self.port), str(tools)],
            stderr=subprocess.DEVNULL,
        )
        self.pid = self.process.pid
        self.connections: list[Connection] = []
        self.took: list[float] = []

    async def open(self, count: int) -> None:
        """Have so many connections, each with a session of its own where there are any."""
        while len(self.connections) < count:
            connection = await connect(self.port)
            if self.mode == "stateless":
                connection.repeat("tools/call", "add")
            elif self.mode != "sessionless":
                await connection.open()
            self.connections.append(connection)

    async def call(self, bodies: Sequence[bytes], width: int) -> None:
        """Send calls, so many at once, and note how long each took."""
        self.took.clear()
        took, clock, share = self.took, time.perf_counter, len(bodies) // width

        async def some(connection: Connection, mine: Sequence[bytes]) -> None:
            for body in mine:
                start = clock()
                await connection.post(body)
                took.append(clock() - start)

        await asyncio.gather(
            *(
                some(connection, bodies[share * at : share * (at + 1)])
                for at, connection in enumerate(self.connections[:width])
            )
        )

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.process.kill()  # how it ends does not matter
        self.process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def serving(
    mode: str, contenders: Sequence[str], tools: int = TOOLS
) -> Iterator[tuple[dict[str, Web], Run]]:
    """Start one server of each contender; the loop is that of their connections."""
    loop = asyncio.new_event_loop()
    servers = {who: Web(who, mode, tools) for who in contenders}
    try:
        for server in servers.values():
            loop.run_until_complete(server.open(WIDTH))
            loop.run_until_complete(_agrees(server))
        yield servers, loop.run_until_complete
    finally:
        for server in servers.values():
            server.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def _body(number: int, name: str, arguments: Any, **more: Any) -> bytes:
    params = {"name": name, "arguments": arguments, **more}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


async def _agrees(server: Web) -> None:
    """See that all do the same work before it is timed."""
    body = _body(0, "add", {"a": 1, "b": 2}, **_meta_for(server))
    response = await server.connections[0].post(body)
    if b'"structuredContent":{"result":3}' not in response.replace(b": ", b":"):
        raise RuntimeError(f"{server.who} answers {response[:500]!r}")


def _meta_for(server: Web) -> dict[str, Any]:
    return {"_meta": STATELESS} if server.mode == "stateless" else {}


def _calling(server: Web, run: Run, width: int) -> Round:
    def calls(count: int) -> Reading:
        count = max(count // width, 1) * width
        meta = _meta_for(server)
        bodies = [
            _body(number, "add", {"a": number, "b": 2}, **meta) for number in range(1, count + 1)
        ]
        cpu, start = cpu_of(server.pid), time.perf_counter()
        run(server.call(bodies, width))
        elapsed = time.perf_counter() - start
        return Reading(elapsed / count, (cpu_of(server.pid) - cpu) / count)

    return calls


def _quantile(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(int(len(took) * share), len(took) - 1)] * 1e6


def _latencies(servers: dict[str, Web], rounds: dict[str, Round], name: str) -> list[Figure]:
    """Make the lines of p50 and p99, of the best of a few rounds."""
    p50, p99 = {}, {}
    for who, run in rounds.items():
        best_p99 = best_p50 = float("inf")
        for _ in range(3):
            run(2_000 if who in ("accord", "bare") else 500)
            best_p50 = min(best_p50, _quantile(servers[who].took, 0.5))
            best_p99 = min(best_p99, _quantile(servers[who].took, 0.99))
        p50[who], p99[who] = best_p50, best_p99
    return [
        Figure(f"  p50 µs{name}", p50, more_is_better=False),
        Figure(f"  p99 µs{name}", p99, more_is_better=False),
    ]


# Beside the contenders: a protocol without ASGI, and what runs elsewhere than it is installed for.
MORE: Final = {
    "json": ("protocol", "accord tuned", "official tuned"),
    "stream": ("accord tuned", "official tuned"),
    "sessionless": (),
}


def http_calls(effort: Effort) -> list[Figure]:
    """Calls as JSON, as event streams and stateless, at 32 connections and at one."""
    figures: list[Figure] = []
    for mode in MODES:
        with (
            serving(mode, [*CONTENDERS, *MORE[mode]]) as (servers, run),
            serving("json", ["accord"]) as (plain, run_plain),
        ):
            wide = {who: _calling(server, run, WIDTH) for who, server in servers.items()}
            peers = {who: server for who, server in servers.items() if who in CONTENDERS}
            alone = {who: _calling(server, run, 1) for who, server in peers.items()}
            # What is compared with our JSON takes turns with it.
            ours = {"JSON": _calling(plain["accord"], run_plain, WIDTH)}
            found = best(wide | ours, effort, most=8_000)
            json_cpu = found.pop("JSON").cpu
            figures += per_second(f"HTTP, {mode}, 32 connections, per s", found)
            figures[-2].aim, figures[-1].aim = _aims(mode, found, json_cpu)
            figures += _elsewhere(found)
            figures += _latencies(servers, {who: wide[who] for who in peers}, " at 32 connections")
            figures += per_second(
                f"HTTP, {mode}, 1 connection, per s", best(alone, effort, most=4_000)
            )
            figures += _latencies(servers, alone, " at 1 connection")
    return figures


def _aims(mode: str, found: dict[str, Reading], json_cpu: float) -> tuple[Aim, Aim]:
    ours = found["accord"].cpu
    peer = Aim(found["official"].cpu / ours, 15, 25, "times less CPU than the official SDK")
    if mode == "json":
        return peer, Aim(found["bare"].cpu / ours, 1.2, 1.7, "of the raw ASGI app")
    # As JSON means: within what two runs of the same thing differ by.
    first, moonshot = (1.4, 1.15) if mode == "stream" else (1.25, 1.05)
    return peer, Aim(ours / json_cpu, first, moonshot, "of our JSON", at_most=True)


def _elsewhere(found: dict[str, Reading]) -> list[Figure]:
    """Make the lines of contenders that run elsewhere than they are installed for."""
    lines: list[Figure] = []
    if "protocol" in found:
        both = {"bare": found["protocol"], "accord": found["accord"]}
        lines.append(cpu_line("  CPU µs beside a bare protocol", both))
    if "accord tuned" in found:
        tuned = {"bare": found["bare"], "accord": found["accord tuned"]}
        tuned["official"] = found["official tuned"]
        ratio = found["bare"].cpu / found["accord tuned"].cpu
        aim = Aim(ratio, 0.6, 0.8, "of the raw ASGI app")
        lines.append(cpu_line("  CPU µs on uvicorn, httptools, uvloop", tuned, aim))
    return lines


def http_stateless(effort: Effort) -> list[Figure]:
    """Calls of 2026-07-28, each with all that it needs, beside calls in a session."""
    peers = [who for who in CONTENDERS if who != "bare"]
    with (
        serving("stateless", peers) as (servers, run),
        serving("json", ["accord"]) as (plain, run_plain),
        serving("stateless", ["accord"], 1) as (few, run_few),
        serving("stateless", ["accord"], 1_000) as (many, run_many),
    ):
        rounds = {who: _calling(server, run, WIDTH) for who, server in servers.items()}
        rounds["in a session"] = _calling(plain["accord"], run_plain, WIDTH)
        rounds["1 tool"] = _calling(few["accord"], run_few, WIDTH)
        rounds["1,000 tools"] = _calling(many["accord"], run_many, WIDTH)
        rounds["discover"] = _repeating(few["accord"], run_few, "server/discover")
        rounds["question"] = _asking(few["accord"], run_few)
        found = best(rounds, effort, most=8_000)
    calls = {who: found[who] for who in peers}
    rate, cpu = per_second("HTTP, 2026-07-28, 32 connections, per s", calls)
    ours, session = found["accord"].cpu, found["in a session"].cpu
    rate.aim = Aim(found["official"].cpu / ours, 5, 15, "times less CPU than the official SDK")
    cpu.aim = Aim(ours / session, 1.15, 1.0, "of a call in a session", at_most=True)
    growth = found["1,000 tools"].cpu / found["1 tool"].cpu
    tools = cpu_line("  CPU µs with 1,000 tools", {"accord": found["1,000 tools"]})
    tools.aim = Aim(growth, 1.1, 1.0, "of a call with 1 tool", at_most=True)
    return [
        rate,
        cpu,
        tools,
        cpu_line("  CPU µs of server/discover", {"accord": found["discover"]}),
        cpu_line("  CPU µs of a call with a question", {"accord": found["question"]}),
    ]


def _repeating(server: Web, run: Run, method: str) -> Round:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": STATELESS}}
    body = json.dumps(message).encode()

    async def work(count: int) -> None:
        connection = server.connections[0]
        connection.repeat(method)
        for _ in range(count):
            await connection.post(body)
        connection.repeat("tools/call", "add")

    return _timed(server, run, work)


def _asking(server: Web, run: Run) -> Round:
    """Call a tool that asks, and call it again with the answer."""
    capabilities = {f"{PREFIX}clientCapabilities": {"elicitation": {}}}
    meta = {**STATELESS, **capabilities}

    async def work(count: int) -> None:
        connection = server.connections[0]
        connection.repeat("tools/call", "greet")
        for _ in range(count):
            response = await connection.post(_body(1, "greet", {}, _meta=meta))
            asked = json.loads(response.partition(b"\r\n\r\n")[2])["result"]
            given = {
                "inputResponses": {
                    key: {"action": "accept", "content": {"value": "ann"}}
                    for key in asked["inputRequests"]
                },
                "requestState": asked["requestState"],
            }
            response = await connection.post(_body(2, "greet", {}, _meta=meta, **given))
            if b"hello ann" not in response:
                raise RuntimeError(f"{server.who} answers {response[:500]!r}")
        connection.repeat("tools/call", "add")

    return _timed(server, run, work)


def _timed(server: Web, run: Run, work: Callable[[int], Coroutine[Any, Any, None]]) -> Round:
    def one_round(count: int) -> Reading:
        cpu, start = cpu_of(server.pid), time.perf_counter()
        run(work(count))
        elapsed = time.perf_counter() - start
        return Reading(elapsed / count, (cpu_of(server.pid) - cpu) / count)

    return one_round


def http_large(effort: Effort) -> list[Figure]:
    """Echoes of 1 MB."""
    body = _body(1, "echo", {"text": "x" * MEGABYTE})
    with serving("json", [*CONTENDERS]) as (servers, run):
        rounds: dict[str, Round] = {}
        for who, server in servers.items():

            def echo(count: int, server: Web = server) -> Reading:
                cpu, start = cpu_of(server.pid), time.perf_counter()
                run(server.call([body] * count, 1))
                elapsed = time.perf_counter() - start
                return Reading(elapsed / count, (cpu_of(server.pid) - cpu) / count)

            rounds[who] = echo
        found = best(rounds, effort, most=100)
    return per_second("HTTP, echo of 1 MB, per s", found)


def http_sessions(effort: Effort) -> list[Figure]:
    """Opening sessions, what they cost while idle, and what calls cost beside them."""
    idle, listening = (500, 100) if effort.rounds < 3 else (5_000, 500)
    names = ("rate", "cpu", "session", "stream", "beside", "p99")
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for who in CONTENDERS:
        with serving("json", [who]) as (servers, run):
            server = servers[who]
            run(_burn_in(server))
            for name, value in run(_sessions(server, idle, listening)).items():
                found[name][who] = value
            calling = {who: _calling(server, run, WIDTH)}
            found["beside"][who] = best(calling, effort, most=4_000)[who].cpu * 1e6
            found["p99"][who] = _latencies(servers, calling, "")[1].values[who] / 1e3
    beside = f"beside {idle:,} sessions, {listening} streams"
    ours = found["session"]["accord"]
    return [
        Figure("HTTP, sessions opened per s", found["rate"]),
        Figure("  CPU µs", found["cpu"], more_is_better=False),
        Figure(
            "  KB per idle session",
            found["session"],
            digits=1,
            more_is_better=False,
            aim=Aim(ours, 4, 1, "KB", at_most=True),
        ),
        Figure("  KB per open stream", found["stream"], digits=1, more_is_better=False),
        Figure("  CPU µs of a call", found["beside"], digits=1, more_is_better=False, note=beside),
        Figure("  p99 ms", found["p99"], digits=1, more_is_better=False, note=beside),
    ]


async def _burn_in(server: Web) -> None:
    """Open sessions until what is allocated once has been."""
    await _at_once(WIDTH, server, 200)


async def _sessions(server: Web, idle: int, listening: int) -> dict[str, float]:
    before, cpu, start = memory_of(server.pid), cpu_of(server.pid), time.perf_counter()
    opened = await _at_once(WIDTH, server, idle)
    elapsed = time.perf_counter() - start
    spent = cpu_of(server.pid) - cpu
    between = memory_of(server.pid)
    for session in opened[:listening]:
        connection = await connect(server.port)
        await connection.listen(session)
        server.connections.append(connection)
    return {
        "rate": idle / elapsed,
        "cpu": spent / idle * 1e6,
        "session": (between - before) * 1024 / idle,
        "stream": (memory_of(server.pid) - between) * 1024 / listening,
    }


async def _at_once(width: int, server: Web, count: int) -> list[bytes]:
    """Open sessions over the connections there are."""
    sessions: list[bytes] = []

    async def some(connection: Connection) -> None:
        own, connection.session = connection.session, b""
        for _ in range(count // width + 1):
            connection.session = b""
            await connection.open()
            sessions.append(connection.session)
        connection.session = own

    work: list[Awaitable[None]] = [some(each) for each in server.connections[:width]]
    await asyncio.gather(*work)
    return sessions


FIGURES = (http_calls, http_stateless, http_large, http_sessions)
