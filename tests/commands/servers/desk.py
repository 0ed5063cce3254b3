"""A small server with a bit of everything, which does the same at every call."""

from dataclasses import dataclass
from typing import Literal

from accord import Context, Server, ToolError
from accord.types import ToolAnnotations

server = Server("desk", version="1.2.0", title="The desk", instructions="Be kind.")
READS = ToolAnnotations(read_only_hint=True)


@dataclass
class Seat:
    row: int
    side: Literal["aisle", "window"] = "window"


@server.tool(annotations=READS)
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=READS)
def seats(rows: list[int], side: Literal["aisle", "window"] = "window") -> list[Seat]:
    """List seats."""
    return [Seat(row, side) for row in rows]


@server.tool(annotations=READS)
def refuse() -> str:
    """Refuse."""
    raise ToolError("not today")


@server.tool
def clear(name: str) -> str:
    """Clear a list."""
    return f"cleared {name}"


@server.tool(annotations=READS)
async def work(ctx: Context) -> str:
    """Report progress and log."""
    await ctx.progress(1, 2, message="half")
    await ctx.warning("careful")
    return "done"


@server.tool
async def book(ctx: Context) -> str:
    """Book a seat, after a question."""
    seat = await ctx.elicit("Which seat?", Seat)
    return f"row {seat.row}, {seat.side}"


@server.resource("note://today", mime_type="text/markdown")
def today() -> str:
    """What is written today."""
    return "# Today"


@server.resource("note://by/{name}", mime_type="text/markdown")
def note(name: str) -> str | None:
    """A note by its name."""
    return None if name == "none" else f"# {name}"


@server.resource("pixel://one", mime_type="image/png")
def pixel() -> bytes:
    """A pixel."""
    return b"\x89PNG\x00"


@server.prompt
def greet(name: str, style: str = "warm") -> str:
    """Greet a person."""
    return f"Greet {name} in a {style} way."


if __name__ == "__main__":
    server.run()
