"""The server of the HTTP tests; clients hold and free calls with other calls."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from accord import Context, Server


@dataclass
class Name:
    name: str


def offer(**settings: Any) -> Server:
    """Make a server; held calls are its own."""
    server = Server("offer", version="1", instructions="Be kind.", **settings)
    gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
    log: list[str] = []
    left_over: set[asyncio.Task[None]] = set()

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(inline=True)
    def add_inline(a: int, b: int) -> int:
        """Add two numbers on the loop."""
        return a + b

    @server.tool
    async def count(ctx: Context, to: int, pause: float = 0.0, size: int = 0) -> int:
        """Count, and report each step."""
        for step in range(1, to + 1):
            await ctx.progress(step, message="x" * size)
            if pause:
                await asyncio.sleep(pause)
        return to

    @server.tool
    async def hold(ctx: Context, name: str, steps: int = 1) -> str:
        """Wait until `free` is called, between two reports of progress."""
        log.append(f"{name} begins")
        await ctx.progress(1)
        try:
            await gates[name].wait()
        except asyncio.CancelledError:
            log.append(f"{name} is cancelled")
            raise
        for step in range(steps):
            await ctx.progress(2 + step)
        log.append(f"{name} ends")
        return name

    @server.tool
    async def wait(name: str) -> str:
        """Wait in silence until `free` is called."""
        log.append(f"{name} begins")
        await gates[name].wait()
        return name

    @server.tool
    async def free(name: str) -> str:
        """Free the calls held under a name."""
        gates[name].set()
        return "freed"

    @server.tool
    async def history() -> list[str]:
        """Return what has happened to held calls."""
        return list(log)

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the user for a name."""
        answer = await ctx.elicit("Your name?", Name)
        return f"hello {answer.name}"

    @server.tool
    async def note(ctx: Context, text: str) -> str:
        """Write to the client's log."""
        await ctx.info(text)
        return "noted"

    @server.tool
    async def note_later(ctx: Context, name: str) -> str:
        """Write to the client's log when the call is over and the name is freed."""

        async def later() -> None:
            await gates[name].wait()
            ctx.info(f"later {name}")

        task = asyncio.create_task(later())
        left_over.add(task)
        task.add_done_callback(left_over.discard)
        return "soon"

    @server.tool
    async def big(size: int) -> str:
        """Return a long text."""
        return "x" * size

    @server.tool
    def block(seconds: float) -> str:
        """Block a thread."""
        log.append("block begins")
        time.sleep(seconds)
        return "slept"

    @server.tool
    async def register(name: str) -> str:
        """Offer another tool."""

        async def another() -> str:
            """Do nothing."""
            return name

        server.add_tool(another, name=name)
        return "registered"

    @server.tool
    async def touch(uri: str) -> str:
        """Say that a resource has changed."""
        server.resource_updated(uri)
        return "touched"

    @server.resource("note://{name}")
    async def read_note(name: str) -> str:
        """Read a note."""
        return f"note {name}"

    return server
