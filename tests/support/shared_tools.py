"""Servers of several workers that tests watch: one trail of all, and gates that tests open."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from accord import Context, Server


@dataclass
class Name:
    name: str


class Desk:
    """Makes servers with the same tools, for all workers of a test.

    Attributes:
        trail: what the tools did, in the order of all workers.
        gates: what tools wait at, by name.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self.trail: list[str] = []
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.servers: list[Server[Any]] = []

    async def pass_gate(self, name: str, text: str) -> None:
        """Wait at a gate; note if that is cancelled."""
        self.trail.append(f"{text} waits")
        try:
            await self.gates[name].wait()
        except asyncio.CancelledError:
            self.trail.append(f"{text} is cancelled")
            raise
        self.trail.append(f"{text} passes")

    def make(self) -> Server[Any]:
        server: Server[Any] = Server("desk", version="1", **self._settings)
        number = len(self.servers)
        self.servers.append(server)
        self._add_state_tools(server)
        self._add_stream_tools(server, number)
        self._add_change_tools(server)
        return server

    def _add_state_tools(self, server: Server[Any]) -> None:
        @server.tool
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @server.tool
        async def count(ctx: Context) -> int:
            """Count the calls of the session."""
            ctx.session.state["count"] = ctx.session.state.get("count", 0) + 1
            return ctx.session.state["count"]

        @server.tool
        async def put(ctx: Context, key: str, value: Any, gate: str | None = None) -> str:
            """Keep a value, perhaps after a wait."""
            ctx.session.state[key] = value
            if gate is not None:
                await self.pass_gate(gate, f"put {key}")
            return "kept"

        @server.tool
        async def drop(ctx: Context, key: str) -> str:
            """Forget a value."""
            del ctx.session.state[key]
            return "dropped"

        @server.tool
        async def keep_object(ctx: Context) -> str:
            """Keep something that no store can keep."""
            ctx.session.state["odd"] = object()
            return "kept"

        @server.tool
        async def values(ctx: Context) -> dict[str, Any]:
            """Return what is kept."""
            return dict(ctx.session.state)

        @server.tool
        async def set_visible(ctx: Context, name: str, shows: bool) -> str:
            """Show or hide a tool."""
            (ctx.session.show if shows else ctx.session.hide)(name)
            return "done"

        @server.tool
        async def log(ctx: Context, level: str, text: str) -> str:
            """Write to the log of the client."""
            getattr(ctx, level)(text)
            return "logged"

        @server.tool
        async def caller(ctx: Context) -> str:
            """Return the caller."""
            return "nothing" if ctx.principal is None else ctx.principal.subject

    def _add_stream_tools(self, server: Server[Any], number: int) -> None:
        @server.tool
        async def steps(ctx: Context, n: int, size: int = 0, pause: float = 0.01) -> str:
            """Report steps."""
            for step in range(1, n + 1):
                await ctx.progress(step, message="x" * size or None)
                await asyncio.sleep(pause)
            return f"{n} steps"

        @server.tool
        async def hold(ctx: Context, name: str, n: int = 1) -> str:
            """Report a step, wait at a gate, and report more."""
            await ctx.progress(1)
            await self.pass_gate(name, f"{name} at {number}")
            for step in range(n):
                await ctx.progress(2 + step)
            return name

        @server.tool
        async def wait(name: str) -> str:
            """Wait at a gate in silence."""
            await self.pass_gate(name, f"{name} at {number}")
            return name

        @server.tool(idempotent=True)
        async def repeat(ctx: Context, name: str, n: int = 4) -> str:
            """Report steps, and wait at a gate in the middle, which opens for all."""
            for step in range(1, n + 1):
                await ctx.progress(step, message=f"{step} of {number}")
                if step == n // 2:
                    await self.pass_gate(name, f"{name} at {number}")
            return f"{name} by {number}"

        @server.tool
        async def ask(ctx: Context) -> str:
            """Ask the user for a name."""
            self.trail.append("asks")
            answer = await ctx.elicit("Your name?", Name)
            return f"hello {answer.name}"

        @server.tool
        async def ask_roots(ctx: Context) -> int:
            """Ask the client for its roots."""
            return len(await ctx.roots())

    def _add_change_tools(self, server: Server[Any]) -> None:
        @server.tool
        async def touch(uri: str) -> str:
            """Say that a resource has changed."""
            server.resource_updated(uri)
            return "touched"

        @server.tool
        async def change(kind: Any = "tools") -> str:
            """Say that a list has changed."""
            server.list_changed(kind)
            return "changed"

        @server.tool
        async def note_later(ctx: Context, name: str) -> str:
            """Write to the log of the client once the gate opens, after the answer."""

            async def later() -> None:
                await self.gates[name].wait()
                ctx.info(f"later {name}")

            self._later = asyncio.create_task(later())
            return "soon"

        @server.resource("note://{name}")
        async def read_note(name: str) -> str:
            """Read a note."""
            return f"note {name}"

        @server.prompt
        async def greet() -> str:
            """Greet."""
            return "hello"
