"""What each kind of request costs in operations of the store that several workers share.

    python benchmarks/store_operations.py            three workers
    python benchmarks/store_operations.py --workers 2

The workers run in this process, with one store in memory behind a counter each. What happens by
itself, such as renewing leases, is counted while nothing else happens, and taken off the rest.
docs/capacity.md is made of these numbers. A plain call that touches the store fails the run.
"""

import argparse
import asyncio
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from accord import Context, Server
from accord.http.server.running import serve_in_loop
from accord.sharing.backends.memory_backend import MemoryBackend

REVISION: Final = "2025-11-25"
TIMES: Final = 20
EVENTS: Final = 10
IDLE: Final = 6.0
PATIENCE: Final = 30.0
OPERATIONS: Final = frozenset(
    {
        *("now", "get", "put", "delete", "touch", "add", "remove", "members", "count"),
        *("append", "read", "seize", "extend", "drop", "notify", "follow", "unfollow", "take"),
    }
)


@dataclass
class Name:
    name: str


class CountingBackend:
    """Passes operations on to another backend, and counts them by name."""

    def __init__(self, backend: MemoryBackend, counts: Counter[str]) -> None:
        self._backend = backend
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if name not in OPERATIONS:
            return found

        async def operate(*args: Any, **options: Any) -> Any:
            self._counts[name] += 1
            return await found(*args, **options)

        return operate


def make_server() -> Server:
    server = Server("desk")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def visit(ctx: Context) -> int:
        """Count in the state of the session."""
        ctx.session.state["visits"] = ctx.session.state.get("visits", 0) + 1
        return int(ctx.session.state["visits"])

    @server.tool
    async def count(ctx: Context, to: int) -> int:
        """Report each step, some time apart."""
        for step in range(1, to + 1):
            await ctx.progress(step)
            await asyncio.sleep(0.005)
        return to

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask for a name."""
        return (await ctx.elicit("name?", Name)).name

    @server.tool
    async def wait(ctx: Context) -> str:
        """Wait until it is cancelled."""
        await ctx.progress(1)
        await asyncio.sleep(PATIENCE)
        return "waited"

    @server.tool
    async def change() -> str:
        """Say that the list of tools has changed."""
        server.list_changed("tools")
        return "changed"

    @server.resource("note://a")
    def note() -> str:
        """Read a note."""
        return "a"

    return server


class Fleet:
    """Workers with one store, and a client for each of them."""

    def __init__(self, http: aiohttp.ClientSession, ports: list[int], counts: Counter[str]) -> None:
        self._http = http
        self.ports = ports
        self.counts = counts
        self.idle_rate: dict[str, float] = {}

    async def post(
        self, worker: int, message: dict[str, Any], session: str | None = None
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json, text/event-stream"}
        if session is not None:
            headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
        url = f"http://127.0.0.1:{self.ports[worker]}/mcp"
        return await self._http.post(url, json={"jsonrpc": "2.0", **message}, headers=headers)

    async def send(self, method: str, worker: int, session: str, **more: str) -> Any:
        headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, **more}
        url = f"http://127.0.0.1:{self.ports[worker]}/mcp"
        return await self._http.request(method, url, headers=headers)

    async def open(self, worker: int) -> str:
        """Begin a session."""
        info = {"name": "bench", "version": "1"}
        params = {
            "protocolVersion": REVISION,
            "capabilities": {"elicitation": {}},
            "clientInfo": info,
        }
        response = await self.post(worker, {"id": 0, "method": "initialize", "params": params})
        assert response.status == 200, await response.text()
        await response.read()
        session = response.headers["Mcp-Session-Id"]
        accepted = await self.post(worker, {"method": "notifications/initialized"}, session)
        assert accepted.status == 202, await accepted.text()
        return session

    async def call(
        self, worker: int, session: str, tool: str, *, progress: bool = False, **arguments: Any
    ) -> aiohttp.ClientResponse:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if progress:
            params["_meta"] = {"progressToken": 1}
        message = {"id": time.monotonic_ns() % 2**40, "method": "tools/call", "params": params}
        return await self.post(worker, message, session)

    async def answer(self, worker: int, session: str, tool: str, **options: Any) -> str:
        """Call a tool, and return the whole body of the response."""
        response = await self.call(worker, session, tool, **options)
        text = await response.text()
        assert response.status == 200, text
        return text

    async def spread(self, workers: int) -> str:
        """Begin a session of which several workers have a copy."""
        session = await self.open(0)
        for worker in range(1, workers):
            await self.answer(worker, session, "add", a=1, b=2)
        return session

    # -- counting

    async def settle(self) -> None:
        """Wait until nothing more follows from what was done."""
        await asyncio.sleep(0.15)

    async def learn_idle_rate(self) -> None:
        await asyncio.sleep(1.5)
        before, began = Counter(self.counts), time.monotonic()
        await asyncio.sleep(IDLE)
        seconds = time.monotonic() - began
        self.idle_rate = {name: count / seconds for name, count in (self.counts - before).items()}

    async def measure(self, work: Callable[[], Awaitable[None]], times: int = 1) -> Counter[str]:
        """Return how many operations a piece of work has caused, `times` of it together."""
        await self.settle()
        before, began = Counter(self.counts), time.monotonic()
        await work()
        await self.settle()
        seconds = time.monotonic() - began
        found: Counter[str] = Counter()
        for name, count in (self.counts - before).items():
            left = (count - self.idle_rate.get(name, 0.0) * seconds) / times
            found[name] = max(0, round(left))
        return +found


@asynccontextmanager
async def running_fleet(workers: int) -> AsyncIterator[Fleet]:
    store, counts = MemoryBackend(), Counter[str]()
    async with AsyncExitStack() as stack:
        ports, serving = [], []
        for _ in range(workers):
            listening = socket.create_server(("127.0.0.1", 0))
            ports.append(listening.getsockname()[1])
            backend: Any = CountingBackend(store, counts)
            app = make_server().asgi(store=backend, grace=1)
            serving.append(asyncio.create_task(serve_in_loop(app, [listening])))
        http = await stack.enter_async_context(
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE))
        )
        try:
            await wait_until_ready(http, ports)
            yield Fleet(http, ports, counts)
        finally:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)


async def wait_until_ready(http: aiohttp.ClientSession, ports: list[int]) -> None:
    async with asyncio.timeout(PATIENCE):
        for port in ports:
            while True:
                try:
                    response = await http.get(f"http://127.0.0.1:{port}/readyz")
                except aiohttp.ClientError:
                    await asyncio.sleep(0.05)
                    continue
                if response.status == 200:
                    break


# -- kinds of requests


async def read_until(response: aiohttp.ClientResponse, text: str) -> str:
    """Read a stream until it has a text."""
    received = ""
    async for chunk in response.content.iter_any():
        received += chunk.decode()
        if text in received:
            return received
    raise AssertionError(f"the stream has ended without {text!r}: {received}")


def question_in(text: str) -> Any:
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return json.loads(lines[-1])["id"]


async def answer_question(fleet: Fleet, session: str, at: int) -> None:
    response = await fleet.call(0, session, "ask")
    id = question_in(await read_until(response, "elicitation/create"))
    result = {"action": "accept", "content": {"name": "Ada"}}
    posted = await fleet.post(at, {"id": id, "result": result}, session)
    assert posted.status == 202, await posted.text()
    assert "Ada" in await response.text()


async def cancel(fleet: Fleet, session: str, at: int) -> None:
    params = {"name": "wait", "arguments": {}, "_meta": {"progressToken": 1}}
    id = time.monotonic_ns() % 2**40
    response = await fleet.post(0, {"id": id, "method": "tools/call", "params": params}, session)
    await read_until(response, "notifications/progress")
    notice = {"method": "notifications/cancelled", "params": {"requestId": id}}
    assert (await fleet.post(at, notice, session)).status == 202
    await response.read()


async def resume(fleet: Fleet, session: str, at: int) -> None:
    """Break off a stream in its middle, and read the rest at another worker."""
    response = await fleet.call(0, session, "count", progress=True, to=EVENTS)
    text = await read_until(response, '"progress":5')
    response.close()
    ids = [line[3:].strip() for line in text.splitlines() if line.startswith("id:")]
    rest = await fleet.send("GET", at, session, **{"Last-Event-ID": ids[-1]})
    assert f'"text":"{EVENTS}"' in await rest.text()


def print_row(what: str, found: Counter[str], note: str = "") -> None:
    parts = ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
    print(f"{what:<58} {found.total():>4}   {parts}{note}")


async def measure_all(fleet: Fleet) -> bool:
    workers = len(fleet.ports)

    async def repeat(work: Callable[[], Awaitable[Any]], times: int = TIMES) -> Counter[str]:
        async def all_of_it() -> None:
            for _ in range(times):
                await work()

        return await fleet.measure(all_of_it, times)

    await fleet.learn_idle_rate()
    print(f"{workers} workers\n")
    each = sum(fleet.idle_rate.values()) / workers
    print(f"{'one worker, idle, a second':<58} {each:>6.1f}")
    session = await fleet.open(0)
    plain = await repeat(lambda: fleet.answer(0, session, "add", a=1, b=2))
    print_row("plain call, answered as JSON", plain)
    print_row("initialize and notifications/initialized", await repeat(lambda: fleet.open(0)))

    sessions = [await fleet.open(0) for _ in range(TIMES)]
    print_row(
        "first request of a session at another worker",
        await repeat(lambda: fleet.answer(1, sessions.pop(), "add", a=1, b=2)),
    )
    for copies in range(1, workers + 1):
        shared = await fleet.spread(copies)
        found = await repeat(lambda shared=shared: fleet.answer(0, shared, "visit"))  # type: ignore[misc]
        print_row(f"call that changes session.state, {copies} copies", found)
    shared = await fleet.spread(2)
    streamed = await repeat(lambda: fleet.answer(0, shared, "count", progress=True, to=EVENTS))
    print_row(f"streamed call with {EVENTS} events", streamed)
    brief = await repeat(lambda: fleet.answer(0, shared, "count", progress=True, to=1))
    print_row("streamed call with 1 event", brief)
    print_row(
        "streamed call, resumed at another worker", await repeat(lambda: resume(fleet, shared, 1))
    )
    print_row(
        "question, answered at the same worker",
        await repeat(lambda: answer_question(fleet, shared, 0)),
    )
    print_row(
        "question, answered at another worker",
        await repeat(lambda: answer_question(fleet, shared, 1)),
    )
    print_row(
        "call that is cancelled at the same worker", await repeat(lambda: cancel(fleet, shared, 0))
    )
    print_row(
        "call that is cancelled at another worker", await repeat(lambda: cancel(fleet, shared, 1))
    )
    await measure_listening(fleet, repeat)
    print_row("DELETE, 1 copy", await measure_ends(fleet, 1))
    print_row("DELETE, 2 copies", await measure_ends(fleet, 2))
    return not plain


async def measure_ends(fleet: Fleet, copies: int) -> Counter[str]:
    sessions = [await fleet.spread(copies) for _ in range(TIMES)]

    async def end_all() -> None:
        for session in sessions:
            assert (await fleet.send("DELETE", 0, session)).status == 204

    return await fleet.measure(end_all, TIMES)


async def measure_listening(fleet: Fleet, repeat: Any) -> None:
    session = await fleet.open(0)
    listening: list[aiohttp.ClientResponse] = []

    async def listen() -> None:
        response = await fleet.send("GET", 0, session)
        assert response.status == 200, await response.text()
        listening.append(response)

    async def leave() -> None:
        listening.pop().close()

    print_row("GET, a client begins to listen", await repeat(listen, 4))
    print_row("a client stops listening", await repeat(leave, 4))
    subscribe = {"id": 1, "method": "resources/subscribe", "params": {"uri": "note://a"}}
    unsubscribe = {**subscribe, "method": "resources/unsubscribe"}

    async def subscribe_both_ways() -> None:
        for message in (subscribe, unsubscribe):
            assert (await fleet.post(0, message, session)).status == 200

    print_row("subscribe and unsubscribe, 1 copy", await repeat(subscribe_both_ways))
    quiet = await measure_changes(fleet)
    print_row("change of a list, nothing listens", quiet)
    sessions = [await fleet.open(number % len(fleet.ports)) for number in range(30)]
    open_streams = []
    for number, each in enumerate(sessions):
        open_streams.append(await fleet.send("GET", number % len(fleet.ports), each))
    idle = Counter(fleet.counts)
    began = time.monotonic()
    await asyncio.sleep(IDLE)
    seconds = time.monotonic() - began
    grown = (fleet.counts - idle).total() / seconds - sum(fleet.idle_rate.values())
    print(f"{'a listening client, idle, a second':<58} {grown / len(sessions):>6.1f}")
    before = dict(fleet.idle_rate)
    fleet.idle_rate["read"] = before.get("read", 0.0) + grown
    loud = await measure_changes(fleet)
    fleet.idle_rate = before
    print_row(f"change of a list, {len(sessions)} clients listen", loud)
    for response in open_streams:
        response.close()


async def measure_changes(fleet: Fleet) -> Counter[str]:
    session = await fleet.open(0)
    times = 10

    async def change() -> None:
        for _ in range(times):
            await fleet.answer(0, session, "change")
            await asyncio.sleep(0.1)  # those of one moment are joined

    return await fleet.measure(change, times)


async def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=3)
    async with running_fleet(parser.parse_args().workers) as fleet:
        return await measure_all(fleet)


if __name__ == "__main__":
    if not asyncio.run(main()):
        print("a plain call touches the store", file=sys.stderr)
        sys.exit(1)
