"""What a tool costs before it is used: its registration, and the start of a server.

    python benchmarks/registration.py [--quick]

Every figure is taken for accord and for the official SDK in one run, in rounds that take turns.
Exits 1 when an aim is missed. CPU times: wall-clock times on a shared machine say little.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from measure import HERE, OPENING, cpu_of, memory_of

COUNTS = (100, 1_000, 10_000)
TOOLS = 100
# In CPU microseconds a tool with five parameters, and how many times faster the start is.
AIM_US, AIM_RATIO = 60.0, 10.0
CONTENDERS = {"accord": "ours", "official": "official"}


def tools(count: int) -> Iterator[tuple[str, Callable[..., object]]]:
    """Make tools with five parameters, each a function of its own."""
    for number in range(count):

        async def book(
            name: str,
            guests: int,
            price: float = 9.5,
            wishes: list[str] | None = None,
            *,
            vegan: bool = False,
        ) -> dict[str, int]:
            """Book a table for some guests, and return its number.

            Args:
                name: of the guest.
                guests: how many come.
                price: what a meal may cost.
                vegan: whether all food has to be vegan.
                wishes: what else is wanted.
            """
            return {"table": guests}

        yield f"book_{number}", book


def register(contender: str, count: int) -> None:
    """Register tools in this process, and print CPU seconds and KB a tool."""
    if contender == "accord":
        from accord import Server

        server = Server("ours")
    else:
        from mcp.server import MCPServer

        server = MCPServer("official", log_level="ERROR")
    prepared = list(tools(count + 1))
    name, function = prepared.pop()
    server.add_tool(function, name=name)  # what is loaded for the first one is part of a start
    before, size = time.process_time(), _memory()
    for name, function in prepared:
        server.add_tool(function, name=name)
    print((time.process_time() - before) / count, (_memory() - size) / count)


def _memory() -> float:
    import os

    return memory_of(os.getpid()) * 1024


def registrations(rounds: int) -> bool:
    reached = True
    print("registration of a tool with five parameters       accord   official    times")
    for count in COUNTS:
        best = {who: (float("inf"), float("inf")) for who in CONTENDERS}
        for _ in range(1 if count > 1_000 else rounds):
            for who in CONTENDERS:
                done = subprocess.run(
                    [sys.executable, __file__, "--register", who, str(count)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                seconds, kilobytes = map(float, done.stdout.split())
                best[who] = min(best[who][0], seconds), min(best[who][1], kilobytes)
        (ours, our_size), (theirs, their_size) = best["accord"], best["official"]
        print(
            f"  {count:6,} tools, CPU µs a tool {ours * 1e6:21.1f} {theirs * 1e6:10.1f} "
            f"{theirs / ours:8.1f}"
        )
        print(
            f"  {count:6,} tools, KB a tool {our_size:25.2f} {their_size:10.2f} "
            f"{their_size / max(our_size, 0.01):8.1f}"
        )
        reached = reached and ours * 1e6 <= AIM_US
    print(f"  aim: at most {AIM_US:.0f} µs: {'reached' if reached else 'MISSED'}")
    return reached


def spawns(rounds: int) -> bool:
    found: dict[str, list[tuple[float, float, float]]] = {who: [] for who in CONTENDERS}
    for _ in range(rounds):
        for who, script in CONTENDERS.items():
            found[who].append(_spawn(script))
    best = {who: [min(column) for column in zip(*rows, strict=True)] for who, rows in found.items()}
    print(f"start with {TOOLS} tools, from spawn to the answer    accord   official    times")
    for place, (label, scale) in enumerate((("ms", 1e3), ("CPU ms", 1e3), ("memory, MB", 1.0))):
        ours, theirs = best["accord"][place], best["official"][place]
        print(f"  {label:30}{ours * scale:24.1f} {theirs * scale:10.1f} {theirs / ours:8.1f}")
    reached = best["official"][1] / best["accord"][1] >= AIM_RATIO
    print(f"  aim: {AIM_RATIO:.0f} times less CPU: {'reached' if reached else 'MISSED'}")
    return reached


def _spawn(script: str) -> tuple[float, float, float]:
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(HERE / "peers" / f"{script}.py"), str(TOOLS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(OPENING)
        process.stdin.flush()
        answer = process.stdout.readline()
        figures = time.perf_counter() - started, cpu_of(process.pid), memory_of(process.pid)
        process.stdin.close()
    if b'"result"' not in answer:
        raise RuntimeError(f"{script} answers {answer[:200]!r}")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description="What a tool costs before it is used.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--register", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.register:
        register(options.register[0], int(options.register[1]))
        return 0
    rounds = 3 if options.quick else 15
    reached = [spawns(rounds), registrations(min(rounds, 5))]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
