"""Ten servers in one client against ten clients, in one run: connecting, listing and calling.

CPU time of this process, which has the clients; each server is a bare process of its own. Both are
measured in short blocks, one right after the other, each first in half of them. The ratio is the
median of such pairs, with its quartiles: on a busy machine single readings differ by a tenth. Exits
1 if several servers in one client cost more than they may.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from accord import Client, connect, connect_all

SERVERS, TOOLS = 10, 100
ROUNDS, CONNECTIONS, BLOCKS, CALLS = 4, 6, 10, 30
ARGUMENTS = {"a": 1, "b": 2}
COMMAND = [sys.executable, str(Path(__file__).parent / "peers" / "bare.py"), str(TOOLS)]
NAMES = [f"server{number}" for number in range(SERVERS)]
# How many times what ten clients cost. Names are split and joined, lists are copied.
MOST = {"connect and close": 1.1, "list all tools": 1.25, "call a tool": 1.1}


class Open(NamedTuple):
    """Connections that are open: how to list everything, and how to call a tool of each."""

    list_all: Callable[[], Awaitable[int]]
    call_each: Callable[[], Awaitable[Any]]


@asynccontextmanager
async def ten_clients() -> AsyncIterator[Open]:
    clients = await asyncio.gather(*(_connect() for _ in NAMES))

    async def list_one(client: Client) -> list[Any]:
        return [tool async for tool in client.tools(fresh=True)]

    async def list_all() -> int:
        return sum(map(len, await asyncio.gather(*map(list_one, clients))))

    async def call_each() -> None:
        for client in clients:
            await client.call_tool("add", ARGUMENTS)

    yield Open(list_all, call_each)
    await asyncio.gather(*(client.close() for client in clients))


async def _connect() -> Client:
    return await connect(COMMAND)


@asynccontextmanager
async def one_group() -> AsyncIterator[Open]:
    servers = {name: {"command": COMMAND[0], "args": COMMAND[1:]} for name in NAMES}
    async with connect_all({"mcpServers": servers}) as clients:

        async def list_all() -> int:
            return len([tool async for tool in clients.tools(fresh=True)])

        async def call_each() -> None:
            for name in NAMES:
                await clients.call_tool(f"{name}.add", ARGUMENTS)

        yield Open(list_all, call_each)


CONTENDERS = {"ten clients": ten_clients, "one group": one_group}


async def measure(order: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Return the CPU seconds of each part by contender, in blocks that take turns."""
    found: dict[str, dict[str, list[float]]] = {part: {name: [] for name in order} for part in MOST}
    for turn in range(CONNECTIONS):
        for name in order if turn % 2 else reversed(order):
            begun = time.process_time()
            async with CONTENDERS[name]():
                pass
            found["connect and close"][name].append(time.process_time() - begun)
    async with AsyncExitStack() as stack:
        opened = {name: await stack.enter_async_context(CONTENDERS[name]()) for name in order}
        for block in range(BLOCKS):
            for name in order if block % 2 else reversed(order):
                begun = time.process_time()
                listed = await opened[name].list_all()
                assert listed >= SERVERS * TOOLS, listed
                had_listed = time.process_time()
                for _ in range(CALLS):
                    await opened[name].call_each()
                found["list all tools"][name].append(had_listed - begun)
                found["call a tool"][name].append((time.process_time() - had_listed) / CALLS)
    return found


def main() -> int:
    found: dict[str, dict[str, list[float]]] = {}
    for number in range(ROUNDS):
        order = [*CONTENDERS] if number % 2 else [*CONTENDERS][::-1]
        for part, readings in asyncio.run(measure(order)).items():
            for name, seconds in readings.items():
                found.setdefault(part, {}).setdefault(name, []).extend(seconds)
    print(f"{SERVERS} servers with {TOOLS} tools each, CPU time for all of them")
    is_met = True
    for part, most in MOST.items():
        apart, together = found[part]["ten clients"], found[part]["one group"]
        ratios = [two / one for one, two in zip(apart, together, strict=True)]
        low, ratio, high = statistics.quantiles(ratios, n=4)
        is_met = is_met and ratio <= most
        print(
            f"  {part:18} {min(apart) * 1e3:7.2f} ms as ten clients {min(together) * 1e3:7.2f} ms "
            f"as one, ratio {ratio:.2f} ({low:.2f} to {high:.2f}) of {most:g}: "
            f"{'met' if ratio <= most else 'MISSED'}"
        )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
