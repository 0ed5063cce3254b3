"""An orchestrator: three other servers, each in its own revision, offered as one, and joined.

    accord list examples/orchestrator.py
    accord call examples/orchestrator.py journey cities=Lima,Kyoto

A client may speak any revision: questions, progress and cancellation pass through. A server that
does not start is left out until it does; the tools that need it say so.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord import Server, ToolError
from accord.compose import proxy
from accord.errors import InvalidParams

HERE = Path(__file__).parent
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


@server.tool
async def journey(cities: list[str]) -> Journey:
    """Ask one server about every city at once, and let another one do the sum."""
    stops = await asyncio.gather(*(use("desk_weather", city=city) for city in cities))
    total = 0
    for stop in stops:
        # A server of 2024-11-05 answers with text alone.
        total = int(await use("adder_add", a=total, b=round(stop["celsius"])))
    return Journey([stop["city"] for stop in stops], total)


@server.tool
def revisions() -> dict[str, str]:
    """Tell which revision each server speaks."""
    return {name: source.revision or "not connected" for name, source in UPSTREAM.items()}


async def use(tool: str, **arguments: object) -> Any:
    """Call a tool of another server, as a client would, and return its value."""
    try:
        result = await server.call_tool(tool, arguments)
    except InvalidParams:
        raise ToolError(f"{tool} is not available") from None
    if result.is_error:
        raise ToolError(result.text)
    return result.data


if __name__ == "__main__":
    server.run()
