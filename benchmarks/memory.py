"""Client and server in one process: calls per second, one after another.

Run with the name of a contender, this file is the process that makes the calls.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from measure import CONTENDERS, HERE, TOOLS, Aim, Effort, Figure, Worker, best, per_second, worker

Call = Callable[[], Awaitable[Any]]

ARGUMENTS = {"a": 1, "b": 2}


@asynccontextmanager
async def bare() -> AsyncIterator[Call]:
    import bare as server
    import msgspec

    class Response(msgspec.Struct):
        id: int
        result: server.CallResult

    listing = server.listing(TOOLS)
    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(Response).decode

    async def call() -> Any:
        params = {"name": "add", "arguments": ARGUMENTS}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return decode(server.answer(encode(message), listing)).result

    yield call


@asynccontextmanager
async def accord() -> AsyncIterator[Call]:
    from ours import build

    from accord import connect

    async with connect(build(TOOLS)) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def official() -> AsyncIterator[Call]:
    from mcp.client.client import Client
    from official import build

    async with Client(build(TOOLS)) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def fast() -> AsyncIterator[Call]:
    from fast import build
    from fastmcp import Client

    async with Client(build(TOOLS)) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


OPENERS: dict[str, Callable[[], AbstractAsyncContextManager[Call]]] = {
    "bare": bare,
    "accord": accord,
    "official": official,
    "FastMCP": fast,
}


def in_memory(effort: Effort) -> list[Figure]:
    workers = {who: Worker("memory.py", who) for who in CONTENDERS}
    try:
        rounds = {who: (lambda count, w=w: w.round(count)) for who, w in workers.items()}
        found = best(rounds, effort)
    finally:
        for each in workers.values():
            each.close()
    times = found["accord"].rate / found["official"].rate
    rate, cpu = per_second(
        "in memory, calls per s", found, Aim(times, 6, 15, "times the official SDK")
    )
    cpu.name = "  CPU µs of both sides"
    return [rate, cpu]


FIGURES = (in_memory,)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE / "peers"))
    asyncio.run(worker(OPENERS[sys.argv[1]]()))
