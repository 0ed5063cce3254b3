"""What mounting adds to one tools/call and to lists, in microseconds; FastMCP's in the same run.

The server runs in this process, without a transport: a message goes into its dispatcher and the
answer comes out. CPU time of this thread, best of many rounds that take turns. FastMCP is measured
through its own client in memory, and so is accord beside it.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from accord import Server, connect

ROUNDS, CALLS = 30, 1_000
CLIENT_ROUNDS, CLIENT_CALLS, FOREIGN_CALLS = 10, 200, 20
SERVERS, TOOLS = 50, 1_000
OPENING = (
    b'{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}'
)
OPENED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CALL = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
    b'"params":{"name":"%b","arguments":{"a":1,"b":2}}}'
)
LIST = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}'
# Microseconds that mounting may add to a call.
MOST = 2.0
# How much longer than in one server calls and lists may take in many, beside that.
FACTOR = 1.5


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def plain() -> Server:
    server = Server("bench")
    server.add_tool(add)
    return server


def mounted(prefix: str | None = None, *, depth: int = 1, has_resources: bool = False) -> Server:
    server = plain()
    if has_resources:
        server.add_resource("data://config", lambda: "x")
    for _ in range(depth):
        hub = Server("hub")
        hub.mount(server, prefix=prefix)
        server = hub
    return server


def changed() -> Server:
    hub = Server("hub")
    hub.mount(plain().change("add", hide={"b": 2}, arguments={"a": "first"}))
    return hub


def large() -> Server:
    server = Server("bench")
    for number in range(TOOLS):
        server.add_tool(add, name=f"add{number}")
    return server


def many() -> Server:
    hub = Server("hub")
    for number in range(SERVERS):
        child = Server(f"child{number}")
        for tool in range(TOOLS // SERVERS):
            child.add_tool(add, name=f"add{tool}")
        hub.mount(child, prefix=f"s{number}")
    return hub


# Name, how the server is made, the message, and what is expected in the answer.
CONTENDERS: dict[str, tuple[Callable[[], Server], bytes, bytes]] = {
    "a call": (plain, CALL % (1, b"add"), b'"result":3'),
    "mounted": (mounted, CALL % (1, b"add"), b'"result":3'),
    "mounted with a prefix": (lambda: mounted("x"), CALL % (1, b"x_add"), b'"result":3'),
    "... and with resources to link to": (
        lambda: mounted("x", has_resources=True),
        CALL % (1, b"x_add"),
        b'"result":3',
    ),
    "mounted three deep": (
        lambda: mounted("x", depth=3),
        CALL % (1, b"x_x_x_add"),
        b'"result":3',
    ),
    "an argument hidden, one renamed": (
        changed,
        CALL.replace(b'"a":1,"b":2', b'"first":1') % (1, b"add"),
        b'"result":3',
    ),
    "a call of 1,000 tools": (large, CALL % (1, b"add777"), b'"result":3'),
    "a call of 50 servers with 20 tools": (many, CALL % (1, b"s38_add7"), b'"result":3'),
    "a list of 1,000 tools": (large, LIST % 1, b'"add999"'),
    "a list of 50 servers with 20 tools": (many, LIST % 1, b'"s49_add19"'),
}
AIMED = ("mounted", "mounted with a prefix", "... and with resources to link to")


async def measure() -> dict[str, float]:
    """Return microseconds per request of each contender."""
    written: list[bytes] = []
    best = dict.fromkeys(CONTENDERS, float("inf"))
    async with AsyncExitStack() as stack:
        sessions = {}
        for name, (make, _, _) in CONTENDERS.items():
            server = make()
            state = await stack.enter_async_context(server.run_lifespan())
            session = server._core.session(lambda data, exchange: written.append(data), state)
            for message in (OPENING, OPENED):
                session.dispatcher.receive(message)
            sessions[name] = session
        await asyncio.sleep(0.01)
        for _ in range(ROUNDS):
            for name, session in sessions.items():
                _, message, expected = CONTENDERS[name]
                calls = CALLS // 20 if b"list" in message else CALLS
                written.clear()
                start = time.thread_time()
                for number in range(calls):
                    session.dispatcher.receive(message.replace(b'"id":1', b'"id":%d' % number, 1))
                    while not written:
                        await asyncio.sleep(0)
                    assert expected in written.pop()
                best[name] = min(best[name], (time.thread_time() - start) / calls * 1e6)
    return best


# -- through clients, beside FastMCP


async def time_calls(call: Callable[[], Awaitable[Any]], calls: int) -> float:
    start = time.thread_time()
    for _ in range(calls):
        await call()
    return (time.thread_time() - start) / calls * 1e6


async def compare() -> dict[str, float]:
    """Return microseconds per call through a client in memory: direct, and mounted."""
    found: dict[str, tuple[Callable[[], Awaitable[Any]], int]] = {}
    async with AsyncExitStack() as stack:
        arguments = {"a": 1, "b": 2}
        for name, server, tool in (
            ("accord", plain(), "add"),
            ("accord, mounted", mounted("x"), "x_add"),
        ):
            client = await stack.enter_async_context(connect(server))
            found[name] = (lambda c=client, t=tool: c.call_tool(t, arguments)), CLIENT_CALLS  # type: ignore[misc]
        try:
            from fastmcp import Client, FastMCP
        except ImportError:
            pass
        else:
            own, hub = FastMCP("bench"), FastMCP("hub")
            own.tool(add)
            try:
                hub.mount(own, namespace="x")
            except TypeError:  # before version 3
                hub.mount(own, prefix="x")
            for name, server, tool in (
                ("FastMCP", own, "add"),
                ("FastMCP, mounted", hub, "x_add"),
            ):
                foreign: Any = await stack.enter_async_context(Client(server))
                found[name] = (
                    (  # type: ignore[assignment]
                        lambda c=foreign, t=tool: c.call_tool(t, arguments)  # type: ignore[misc]
                    ),
                    FOREIGN_CALLS,
                )
        best = dict.fromkeys(found, float("inf"))
        for _ in range(CLIENT_ROUNDS):
            for name, (call, calls) in found.items():
                best[name] = min(best[name], await time_calls(call, calls))
    return best


def main() -> int:
    logging.disable(logging.WARNING)  # rounds of calls leave the loop no time for anything else
    best = asyncio.run(measure())
    base, has_failed = best["a call"], False
    print("what mounting adds to one request in process, CPU time")
    for name, cost in best.items():
        text = f"  {name:38}{cost:8.2f} µs"
        if name.startswith(("mounted", "...", "an argument")):
            text += f"   {cost - base:+6.2f} µs"
        if name in AIMED:
            text += f"   (aim: at most {MOST:g} µs more)"
            has_failed |= cost - base > MOST
        if "50 servers" in name:
            one = best[name.replace("50 servers with 20", "1,000")]
            text += f"   (aim: at most {FACTOR:g} times one server, and {MOST:g} µs)"
            has_failed |= cost > one * FACTOR + MOST
        print(text)
    print("one call through a client in memory, CPU time")
    through = asyncio.run(compare())
    for name, cost in through.items():
        text = f"  {name:38}{cost:8.1f} µs"
        if name.endswith(", mounted"):
            text += f"   {cost - through[name.removesuffix(', mounted')]:+6.1f} µs"
        print(text)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
