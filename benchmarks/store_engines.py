"""What one operation of a store costs: time, and CPU of the worker and of the engine.

    python benchmarks/store_engines.py sqlite:////tmp/bench.db redis://127.0.0.1:6379/0

Operations as workers use them, with values of 300 bytes, one after the other and 50 at once. The
CPU of the engine is what the server itself reports; SQLite has none, since it runs in the worker.
docs/capacity.md has what a machine with two cores measured.
"""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from accord.sharing.backends.backend import Backend
from accord.sharing.backends.urls import open_backend

VALUE: Final = os.urandom(300)
TTL: Final = 60.0
SINGLE: Final = 500
AT_ONCE: Final = 50
MANY: Final = 5_000

Operation = Callable[[Backend, int], Awaitable[Any]]
OPERATIONS: Final[dict[str, Operation]] = {
    "get": lambda store, number: store.get("{a}record"),
    "put": lambda store, number: store.put(f"{{{number % 97}}}record", VALUE, ttl=TTL),
    "append": lambda store, number: store.append(
        f"{{{number % 97}}}log", [VALUE], ttl=TTL, keep=1000, notify=(f"{{{number % 97}}}log",)
    ),
    "read": lambda store, number: store.read("{a}log", after=10),
    "add": lambda store, number: store.add("{a}index", [str(number % 97)], ttl=TTL),
    "take": lambda store, number: store.take("{a}bucket", cost=1, rate=1e9, burst=1e9),
}


async def engine_cpu(store: Any) -> float | None:
    """Return the seconds of CPU that the server has used; None for an engine without a server."""
    read_info = getattr(store, "_read_info", None)
    if read_info is None:
        return None
    info = await read_info()
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def measure(store: Backend, operation: Operation) -> str:
    for number in range(100):
        await operation(store, number)
    times = []
    for number in range(SINGLE):
        began = time.perf_counter()
        await operation(store, number)
        times.append(time.perf_counter() - began)
    engine, own, began = await engine_cpu(store), time.process_time(), time.perf_counter()

    async def work(first: int) -> None:
        for number in range(first, MANY, AT_ONCE):
            await operation(store, number)

    await asyncio.gather(*(work(first) for first in range(AT_ONCE)))
    seconds, own = time.perf_counter() - began, time.process_time() - own
    after = await engine_cpu(store)
    spent = "-" if engine is None or after is None else f"{(after - engine) / MANY * 1e6:.0f}"
    p99 = statistics.quantiles(times, n=100)[98]
    return (
        f"{statistics.median(times) * 1e6:>9.0f} {p99 * 1e6:>9.0f} {MANY / seconds:>10.0f} "
        f"{own / MANY * 1e6:>10.0f} {spent:>10}"
    )


async def main(urls: list[str]) -> None:
    for url in urls:
        store = open_backend(url, namespace="bench")
        await store.open()
        try:
            print(f"\n{store.url}")
            heads = ("median µs", "p99 µs", "a second", "worker µs", "engine µs")
            print(f"{'':<10}" + "".join(f"{head:>11}" for head in heads))
            for name, operation in OPERATIONS.items():
                print(f"{name:<10} {await measure(store, operation)}")
        finally:
            await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["memory:", "sqlite:///bench-store.db"]))
