"""Servers over pipes: calls, progress, large payloads, start-up and memory.

The tool that is compared is `async def` everywhere, and a plain `def` in `plain_calls`. What accord
does with an inline sync tool stands on a line of its own; the peers have no such thing.
"""

from collections.abc import Callable

from measure import (
    CONTENDERS,
    STATELESS,
    Aim,
    Effort,
    Figure,
    Reading,
    Round,
    Served,
    best,
    calls,
    cpu_line,
    memory_of,
    one_core,
    per_second,
    served,
    timed,
)

MOST = 20_000
STEPS = 1_000
MEGABYTE = 1 << 20
ARGUMENTS = {"a": 1, "b": 2}
INLINE = "accord, inline"


def tool_calls(effort: Effort) -> list[Figure]:
    """Calls one by one and 64 at once."""
    one_by_one: dict[str, Round] = {}
    in_flight: dict[str, Round] = {}
    with served() as running:
        for who, server in running.items():
            _agrees(who, server)
            one_by_one[who] = _calling(server, "add", width=1)
            in_flight[who] = _calling(server, "add", width=64)
        one_by_one[INLINE] = _calling(running["accord"], "add_inline", width=1)
        in_flight[INLINE] = _calling(running["accord"], "add_inline", width=64)
        with one_core(*(server.pid for server in running.values())):
            alone = best(one_by_one, effort, most=MOST)
        together = best(in_flight, effort, most=MOST)
    return [
        *_call_lines("tools/call per s, one in flight", alone, first=12, moonshot=25),
        *_call_lines("tools/call per s, 64 in flight", together, first=40, moonshot=100),
    ]


def plain_calls(effort: Effort) -> list[Figure]:
    """Calls of a plain function, which runs in a thread, one by one and 64 at once."""
    one_by_one: dict[str, Round] = {}
    in_flight: dict[str, Round] = {}
    with served(("accord", "official", "FastMCP")) as running:
        for who, server in running.items():
            _agrees(who, server, "add_plain")
            one_by_one[who] = _calling(server, "add_plain", width=1)
            in_flight[who] = _calling(server, "add_plain", width=64)
        # On two cores the threads of some contenders fight for the interpreter's lock.
        with one_core(*(server.pid for server in running.values())):
            alone = best(one_by_one, effort, most=MOST)
            together = best(in_flight, effort, most=MOST)
    return [
        *_plain_lines("calls of plain functions per s, one", alone, first=15, moonshot=20),
        *_plain_lines("calls of plain functions per s, 64", together, first=30, moonshot=50),
    ]


def _plain_lines(
    name: str, readings: dict[str, Reading], *, first: float, moonshot: float
) -> list[Figure]:
    # By CPU: the client's own work has more weight the faster the server is.
    times = readings["official"].cpu / readings["accord"].cpu
    rate, cpu = per_second(name, readings)
    cpu.aim = Aim(times, first, moonshot, "times the official SDK")
    return [rate, cpu]


def _agrees(who: str, server: Served, tool: str = "add") -> None:
    """See that all do the same work before it is timed."""
    result = server.ask(calls(tool, ARGUMENTS, 1)[0])
    text, structured = result["content"][0]["text"], result.get("structuredContent")
    if text != "3" or structured != {"result": 3}:
        raise RuntimeError(f"{who} answers {result}")


def _calling(server: Served, tool: str, *, width: int, meta: object = None) -> Round:
    prepared = calls(tool, ARGUMENTS, MOST, meta=meta)

    def work(count: int) -> int:
        if width == 1:
            server.one_by_one(prepared[:count])
            return count
        count = max(count, width)
        server.in_flight(prepared[:count], width)
        return count

    return timed(server, work)


def _call_lines(
    name: str, readings: dict[str, Reading], *, first: float, moonshot: float
) -> list[Figure]:
    inline = readings.pop(INLINE)
    times = readings["accord"].rate / readings["official"].rate
    rate, cpu = per_second(name, readings, Aim(times, first, moonshot, "times the official SDK"))
    readings = {**readings, "accord": inline}
    return [rate, cpu, *per_second("  with an inline sync tool, accord", readings)]


def stateless_calls(effort: Effort) -> list[Figure]:
    """Calls that stand on their own beside calls after a handshake, one by one and 64 at once."""
    figures = []
    with served(("accord",)) as running:
        server = running["accord"]
        for width, name in ((1, "one in flight"), (64, "64 in flight")):
            rounds = {
                era: _calling(server, "add", width=width, meta=meta)
                for era, meta in {"handshake": None, "2026-07-28": STATELESS}.items()
            }
            with one_core(server.pid):
                found = best(rounds, effort, most=MOST)
            times = found["2026-07-28"].cpu / found["handshake"].cpu
            aim = Aim(times, 1.1, 1.0, "of the CPU after a handshake", at_most=True)
            ours = {"accord": found["2026-07-28"]}
            rate, cpu = per_second(f"2026-07-28 tools/call per s, {name}", ours)
            figures += [rate, cpu]
            if width == 1:
                cpu.aim = aim
            else:
                cpu.note = f"{times:.3g} {aim.of}"
    return figures


def progress(effort: Effort) -> list[Figure]:
    """One call that reports 1,000 times."""
    prepared = calls("count", {"to": STEPS}, 200, progress=True)

    def reporting(server: Served) -> Callable[[int], int]:
        def work(count: int) -> int:
            server.one_by_one(prepared[:count], lines=STEPS + 1)
            return count * STEPS

        return work

    with served() as running:
        rounds = {who: timed(server, reporting(server)) for who, server in running.items()}
        found = best(_in_steps(rounds, STEPS), effort, most=200)
    times = found["accord"].rate / found["official"].rate
    return per_second(
        "progress notifications per s", found, Aim(times, 15, 30, "times the official SDK")
    )


def _in_steps(rounds: dict[str, Round], steps: int) -> dict[str, Round]:
    """Let the number of operations to do mean single steps, of which a call has many."""

    def counting(run: Round) -> Round:
        return lambda count: run(max(1, count // steps))

    return {who: counting(run) for who, run in rounds.items()}


def echo(effort: Effort) -> list[Figure]:
    """A text of 1 MB there and back."""
    prepared = calls("echo", {"text": "lorem ipsum " * (MEGABYTE // 12)}, 1)

    def echoing(server: Served) -> Callable[[int], int]:
        def work(count: int) -> int:
            for _ in range(count):
                server.one_by_one(prepared)
            return count

        return work

    with served() as running:
        rounds = {who: timed(server, echoing(server)) for who, server in running.items()}
        found = best(rounds, effort, most=200)
    ratio = found["accord"].rate / found["bare"].rate
    return per_second("echo of 1 MB per s", found, Aim(ratio, 0.7, 0.9, "of the bare loop"))


def start(effort: Effort) -> list[Figure]:
    """From the start of the process to the answer of initialize, with 100 tools."""
    seconds: dict[str, float] = dict.fromkeys(CONTENDERS, float("inf"))
    cpu, memory = dict(seconds), dict(seconds)
    for _ in range(effort.rounds + 1):
        for who in CONTENDERS:
            server = Served(who)
            server.close()
            seconds[who] = min(seconds[who], server.opened_after * 1e3)
            cpu[who] = min(cpu[who], server.opened_cpu * 1e3)
            memory[who] = min(memory[who], server.opened_memory)
    times = seconds["official"] / seconds["accord"]
    return [
        Figure(
            "spawn to initialize, ms",
            seconds,
            digits=1,
            more_is_better=False,
            aim=Aim(times, 6, 10, "times faster than the official SDK"),
        ),
        Figure("  CPU ms of the server", cpu, digits=1, more_is_better=False),
        Figure(
            "memory after start, MB",
            memory,
            digits=1,
            more_is_better=False,
            aim=Aim(memory["accord"], 30, 23, "MB", at_most=True),
        ),
    ]


def many_calls(effort: Effort) -> list[Figure]:
    """Memory before and after 100,000 calls; the peers would take minutes."""
    prepared = calls("add", ARGUMENTS, MOST)
    turns = 5 if effort.rounds > 2 else 2
    before, after = {}, {}
    with served(("bare", "accord")) as running:
        for who, server in running.items():
            server.in_flight(prepared, 64)
            before[who] = memory_of(server.pid)
            for _ in range(turns - 1):
                server.in_flight(prepared, 64)
            after[who] = memory_of(server.pid)
    return [
        Figure(
            f"memory after {turns * MOST:,} calls, MB",
            after,
            digits=1,
            more_is_better=False,
            aim=Aim(
                after["accord"] - before["accord"],
                1,
                0.25,
                f"MB more than after {MOST:,}",
                at_most=True,
            ),
        )
    ]


FIGURES = (tool_calls, plain_calls, stateless_calls, progress, echo, start, many_calls)

__all__ = ["FIGURES", "cpu_line"]
