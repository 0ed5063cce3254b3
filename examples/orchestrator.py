"""An orchestrator: three other servers, each in its own revision, offered as one, and joined.

    accord list examples/orchestrator.py
    accord call examples/orchestrator.py journey cities=Lima,Kyoto

A client may speak any revision: questions, progress and cancellation pass through. A server that
does not start is left out until it does; the tools that need it say so.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from accord import Server, ToolError
from accord.compose import proxy
from accord.errors import InvalidParams
from accord.types import ToolAnnotations

HERE = Path(__file__).parent
STARTED = time.monotonic()
READS = ToolAnnotations(read_only_hint=True)
UPSTREAM = {
    "desk": proxy(HERE / "everything.py", revision="2025-06-18"),
    "sales": proxy(HERE / "tickets.py", revision="2025-03-26"),
    "adder": proxy(HERE / "ten_lines.py", revision="2024-11-05"),
}

server = Server("orchestrator", version="2.0.0")
for name, source in UPSTREAM.items():
    server.mount(source, prefix=name)


@dataclass
class Journey:
    cities: list[str]
    total_celsius: int


@server.tool(annotations=READS)
async def journey(cities: Annotated[list[str], Meta(min_length=1, max_length=20)]) -> Journey:
    """Ask one server about every city at once, and let another one do the sum.

    Args:
        cities: the names of the cities, in their order
    """
    stops = await asyncio.gather(*(use("desk_weather", city=city) for city in cities))
    total = 0
    for stop in stops:
        # A server of 2024-11-05 answers with text alone.
        total = int(await use("adder_add", a=total, b=round(stop["celsius"])))
    return Journey([stop["city"] for stop in stops], total)


@dataclass
class Health:
    version: str
    uptime_seconds: int
    servers: dict[str, str]


@server.tool(annotations=READS)
def health() -> Health:
    """Report the version, how long this server has run, and the state of the other ones."""
    return Health(server.info.version, int(time.monotonic() - STARTED), revisions())


@server.tool(annotations=READS)
def revisions() -> dict[str, str]:
    """Tell which revision each server speaks."""
    return {name: source.revision or "not connected" for name, source in UPSTREAM.items()}


async def use(tool: str, **arguments: object) -> Any:
    """Call a tool of another server, as a client would, and return its value."""
    try:
        result = await server.call_tool(tool, arguments)
    except InvalidParams:
        details = {"tool": tool, "reason": "not available"}
        raise ToolError(f"{tool} is not available", data=details) from None
    if result.is_error:
        # The text is for models, the data for programs.
        raise ToolError(result.text, data={"tool": tool, "arguments": arguments})
    return result.data


if __name__ == "__main__":
    server.run()
