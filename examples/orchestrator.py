"""An orchestrator: a server with tools that call other servers, which run as long as it does.

    accord call examples/orchestrator.py journey cities=Lima,Kyoto

One that does not start is left out; the tools that need it say so.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from accord import Client, Context, Server, ToolError, connect
from accord.errors import ConnectFailed

HERE = Path(__file__).parent
UPSTREAM = {"desk": HERE / "everything.py", "adder": HERE / "ten_lines.py"}

log = logging.getLogger("orchestrator")


@dataclass
class Upstream:
    clients: dict[str, Client]

    def __getitem__(self, name: str) -> Client:
        if name not in self.clients:
            raise ToolError(f"the server {name!r} is not available")
        return self.clients[name]


@asynccontextmanager
async def connect_all(server: Server[Upstream]) -> AsyncIterator[Upstream]:
    async with AsyncExitStack() as stack:
        connecting = [stack.enter_async_context(connect(each)) for each in UPSTREAM.values()]
        outcomes = await asyncio.gather(*connecting, return_exceptions=True)
        clients = {}
        for name, outcome in zip(UPSTREAM, outcomes, strict=True):
            if isinstance(outcome, Client):
                clients[name] = outcome
            elif isinstance(outcome, ConnectFailed):
                log.warning("%s: %s", name, outcome)
            else:
                raise outcome
        yield Upstream(clients)


server = Server("orchestrator", version="1.0.0", lifespan=connect_all)


@dataclass
class Weather:
    city: str
    celsius: float


@dataclass
class Journey:
    stops: list[Weather]
    total_celsius: int


@server.tool
async def journey(ctx: Context[Upstream], cities: list[str]) -> Journey:
    """Ask one server about every city at once, and let another one do the sum."""
    desk, adder = ctx.state["desk"], ctx.state["adder"]

    async def look(city: str) -> Weather:
        return await desk.call_tool("weather", {"city": city}, result_type=Weather)

    stops = await asyncio.gather(*map(look, cities))
    total = 0
    for stop in stops:
        total = await adder.call_tool(
            "add", {"a": total, "b": round(stop.celsius)}, result_type=int
        )
    return Journey(list(stops), total)


@server.tool
async def fly(ctx: Context[Upstream], city: str, hops: int = 3) -> str:
    """Pass a long call on, with its progress; cancelling this cancels that."""
    return await ctx.state["desk"].call_tool(
        "fly",
        {"city": city, "hops": hops},
        result_type=str,
        on_progress=lambda step: ctx.progress(step.progress, step.total, message=step.message),
    )


@server.tool
async def offers(ctx: Context[Upstream]) -> dict[str, list[str]]:
    """List the tools of all servers."""
    return {
        name: [tool.name async for tool in client.tools()]
        for name, client in ctx.state.clients.items()
    }


if __name__ == "__main__":
    server.run()
