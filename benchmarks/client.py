"""Clients against the bare servers, over stdio and HTTP: calls per second, one in flight and 32.

Run with the name of a contender, and the port of a server over HTTP if that is meant, this file is
the process with the client. The bare contender is a client of forty lines: an asyncio protocol and
futures by id; over HTTP, prepared bytes and a few connections.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from measure import (
    CONTENDERS,
    HERE,
    OPENED,
    OPENING,
    Aim,
    Effort,
    Figure,
    Reading,
    Round,
    Worker,
    best,
    one_core,
    per_second,
    worker,
)
from web import serving
from wire import connect as connect_raw

Call = Callable[[], Awaitable[Any]]

ARGUMENTS = {"a": 1, "b": 2}
COMMAND = [sys.executable, str(HERE / "peers" / "bare.py"), "0"]
WIDTH = 32


@asynccontextmanager
async def bare() -> AsyncIterator[Call]:
    import msgspec

    class Response(msgspec.Struct):
        id: int | str
        result: Any

    decode, encode = msgspec.json.Decoder(Response).decode, msgspec.json.Encoder().encode
    loop = asyncio.get_running_loop()
    waiting: dict[int | str, asyncio.Future[Any]] = {}

    class Pipes(asyncio.SubprocessProtocol):
        rest = b""

        def pipe_data_received(self, fd: int, data: bytes) -> None:
            *lines, self.rest = (self.rest + data).split(b"\n")
            for line in lines:
                response = decode(line)
                waiting.pop(response.id).set_result(response.result)

    transport, _ = await loop.subprocess_exec(Pipes, *COMMAND, stderr=None)
    reading: Any = transport.get_pipe_transport(1)
    reading.max_size = 1 << 16
    writing: Any = transport.get_pipe_transport(0)
    ids = itertools.count(1)

    async def call() -> Any:
        id = next(ids)
        params = {"name": "add", "arguments": ARGUMENTS}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        waiting[id] = future = loop.create_future()
        writing.write(encode(message) + b"\n")
        return await future

    waiting["open"] = opened = loop.create_future()
    writing.write(OPENING)
    await opened
    writing.write(OPENED)
    yield call
    transport.close()


@asynccontextmanager
async def accord() -> AsyncIterator[Call]:
    from accord import connect

    async with connect(COMMAND) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def official() -> AsyncIterator[Call]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    async with Client(stdio_client(parameters), mode="legacy") as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def fast() -> AsyncIterator[Call]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    async with Client(StdioTransport(COMMAND[0], COMMAND[1:])) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def bare_http(port: int) -> AsyncIterator[Call]:
    import msgspec

    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
    spare = [await connect_raw(port) for _ in range(WIDTH)]
    await spare[0].open()
    for connection in spare:
        connection.session = spare[0].session
    ids = itertools.count(1)

    async def call() -> Any:
        params = {"name": "add", "arguments": ARGUMENTS}
        message = {"jsonrpc": "2.0", "id": next(ids), "method": "tools/call", "params": params}
        connection = spare.pop()
        response = await connection.post(encode(message))
        spare.append(connection)
        return decode(response.partition(b"\r\n\r\n")[2])["result"]

    yield call
    for connection in spare:
        connection.close()


@asynccontextmanager
async def accord_http(port: int) -> AsyncIterator[Call]:
    from accord import connect

    async with connect(_url(port)) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def official_http(port: int) -> AsyncIterator[Call]:
    from mcp.client.client import Client

    async with Client(_url(port), mode="legacy") as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


@asynccontextmanager
async def fast_http(port: int) -> AsyncIterator[Call]:
    from fastmcp import Client

    async with Client(_url(port)) as client:
        yield lambda: client.call_tool("add", ARGUMENTS)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


Opening = AbstractAsyncContextManager[Call]
OPENERS: dict[str, tuple[Callable[[], Opening], Callable[[int], Opening]]] = {
    "bare": (bare, bare_http),
    "accord": (accord, accord_http),
    "official": (official, official_http),
    "FastMCP": (fast, fast_http),
}


def clients(effort: Effort) -> list[Figure]:
    """Clients over stdio."""
    alone, together = _measured(effort)
    return [
        *_lines("client calls per s, one in flight", alone, 6, 15),
        *_lines(f"client calls per s, {WIDTH} in flight", together, 6, 15),
    ]


def http_clients(effort: Effort) -> list[Figure]:
    """Clients over HTTP, against the raw app."""
    with serving("json", ["bare"]) as (servers, _):
        server = servers["bare"]
        alone, together = _measured(effort, str(server.port), servers=[server.pid])
    return [
        *_lines("HTTP client calls per s, one in flight", alone),
        *_lines(f"HTTP client calls per s, {WIDTH} in flight", together, 10, 30),
    ]


def _measured(effort: Effort, *where: str, servers: Sequence[int] = ()) -> list[dict[str, Reading]]:
    workers = {who: Worker("client.py", who, *where) for who in CONTENDERS}

    def rounds(width: int) -> dict[str, Round]:
        def of(worker: Worker) -> Round:
            return lambda count: worker.round(max(count, width), width)

        return {who: of(each) for who, each in workers.items()}

    try:
        for each in workers.values():
            each.round(1)  # by now it is connected
        with one_core(*servers, *(pid for each in workers.values() for pid in each.pids)):
            alone = best(rounds(1), effort)
        return [alone, best(rounds(WIDTH), effort)]
    finally:
        for each in workers.values():
            each.close()


def _lines(
    name: str, readings: dict[str, Reading], first: float = 0, moonshot: float = 0
) -> list[Figure]:
    times = readings["official"].cpu / readings["accord"].cpu
    rate, cpu = per_second(name, readings)
    cpu.name = "  CPU µs of the client"
    if first:
        # Which core the kernel wakes weighs more on the rate here than any client does.
        cpu.aim = Aim(times, first, moonshot, "times less than the official SDK")
    return [rate, cpu]


FIGURES = (clients, http_clients)


def _opening(who: str, *where: str) -> Opening:
    over_stdio, over_http = OPENERS[who]
    return over_http(int(where[0])) if where else over_stdio()


if __name__ == "__main__":
    asyncio.run(worker(_opening(*sys.argv[1:])))
