"""What middleware, dependencies and arguments as text add to one tools/call, in microseconds.

The server runs in this process, without a transport: a message goes into its dispatcher and the
answer comes out. CPU time of this thread, best of many rounds that take turns.
"""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from accord import Server

ROUNDS, CALLS = 30, 1_000
OPENING = (
    b'{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}'
)
OPENED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
CALL = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
    b'"params":{"name":"add","arguments":{"a":%b,"b":2}}}'
)
# Microseconds that one of them may add to a call.
MOST = 5.0


def plain() -> Server:
    server = Server("bench")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    return server


def with_middleware() -> Server:
    server = plain()

    async def layer(ctx: Any, proceed: Any) -> Any:
        return await proceed()

    server.add_middleware(layer)
    return server


def with_middleware_that_reads() -> Server:
    server = plain()

    async def layer(ctx: Any, proceed: Any) -> Any:
        assert ctx.params.name == "add"
        return await proceed()

    server.add_middleware(layer, "tools/call")
    return server


def with_dependency() -> Server:
    from accord import Depends

    async def offset() -> int:
        return 0

    server = Server("bench")

    @server.tool
    async def add(a: int, b: int, c: Annotated[int, Depends(offset)]) -> int:
        """Add."""
        return a + b + c

    return server


def with_generator() -> Server:
    from accord import Depends

    async def offset() -> AsyncIterator[int]:
        yield 0

    server = Server("bench")

    @server.tool
    async def add(a: int, b: int, c: Annotated[int, Depends(offset)]) -> int:
        """Add."""
        return a + b + c

    return server


CONTENDERS: dict[str, tuple[Callable[[], Server], bytes, bool]] = {
    "a call": (plain, b"1", False),
    "one middleware": (with_middleware, b"1", True),
    "one middleware that reads params": (with_middleware_that_reads, b"1", True),
    "one dependency": (with_dependency, b"1", True),
    "one generator as dependency": (with_generator, b"1", False),
    'an argument as text ("1")': (plain, b'"1"', False),
}


async def measure(names: list[str]) -> dict[str, float]:
    """Return microseconds per call of each contender."""
    written: list[bytes] = []
    sessions = {}
    for name in names:
        session = CONTENDERS[name][0]()._core.session(lambda data, exchange: written.append(data))
        for message in (OPENING, OPENED):
            session.dispatcher.receive(message)
        sessions[name] = session
    await asyncio.sleep(0.01)
    best = dict.fromkeys(names, float("inf"))
    for _ in range(ROUNDS):
        for name, session in sessions.items():
            messages = [CALL % (number, CONTENDERS[name][1]) for number in range(CALLS)]
            written.clear()
            start = time.thread_time()
            for message in messages:
                session.dispatcher.receive(message)
                while not written:
                    await asyncio.sleep(0)
                assert b'"result":3' in written.pop()
            best[name] = min(best[name], (time.thread_time() - start) / CALLS * 1e6)
    return best


def main() -> int:
    logging.disable(logging.WARNING)  # rounds of calls leave the loop no time for anything else
    names = sys.argv[1:] or list(CONTENDERS)
    best = asyncio.run(measure(names))
    base, has_failed = best.get("a call", 0.0), False
    print("what authors add to one tools/call in process, CPU time")
    for name, cost in best.items():
        added = cost - base
        text = f"  {name:36}{cost:8.2f} µs"
        if name != "a call":
            text += f"   {added:+6.2f} µs"
        if CONTENDERS[name][2]:
            text += f"   (aim: at most {MOST:g} µs more)"
            has_failed |= added > MOST
        print(text)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
