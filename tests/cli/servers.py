"""Files with servers, correct and faulty, as users write them."""

GOOD = """\
import sys
from dataclasses import dataclass
from enum import Enum
from typing import Literal
from accord import Context, Server, ToolError

print("printed at import")
server = Server("desk", version="1.2.0", title="The desk", instructions="Be kind.")

class Colour(Enum):
    BLUE = "blue"
    RED = "red"

@dataclass
class Point:
    x: int
    y: int

@server.tool
def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    print("printed in a tool")
    return a + b

@server.tool
def kinds(
    number: float, flag: bool, colour: Colour, words: list[str], point: Point,
    level: Literal[1, 2] = 1, maybe: int | None = None, either: int | str = "",
) -> dict[str, str]:
    "Take everything."
    given = [number, flag, colour, words, point, level, maybe, either]
    return {str(place): repr(value) for place, value in enumerate(given)}

@server.tool
async def work(ctx: Context) -> str:
    "Report."
    await ctx.progress(1, 2, message="half")
    await ctx.warning("careful")
    await ctx.log("info", {"a": 1}, logger="deep")
    print("on stderr", file=sys.stderr)
    return "done"

@server.tool
def refuse() -> str:
    "Refuse."
    raise ToolError("not today")

@dataclass
class Seat:
    row: int
    side: Literal["aisle", "window"] = "window"

@server.tool
async def book(ctx: Context) -> str:
    "Ask."
    seat = await ctx.elicit("Which seat?", Seat)
    return f"row {seat.row}, {seat.side}"

@dataclass
class Choice:
    sure: bool
    mood: str = "calm"

@server.tool
async def decide(ctx: Context) -> str:
    "Ask for a yes."
    choice = await ctx.elicit("Are you sure?", Choice)
    return f"{choice.sure}, {choice.mood}"

@server.tool
def escape() -> str:
    "Do mischief \\x1b[2J."
    return "a\\x1b[2Jb"

@server.resource("note://{name}", mime_type="text/markdown")
def note(name: str) -> str | None:
    "A note."
    return None if name == "none" else f"# {name}"

@server.resource("pixel://one", mime_type="image/png")
def pixel() -> bytes:
    "A pixel."
    return b"\\x89PNG\\x00"

@server.prompt
def greet(name: str, style: str = "warm") -> list:
    "Greet a person."
    return [f"Greet {name}.", ("assistant", f"In a {style} way:")]

if __name__ == "__main__":
    server.run()
"""

TWO = """\
from accord import Server
first = Server("first")
second = Server("second")
"""

FACTORY = """\
from accord import Server

def make() -> Server:
    return Server("made")

def demanding(x): ...

def failing():
    return 1 / 0

number = 7
"""

UNGUARDED = """\
from accord import Server
server = Server("unguarded")

@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run()
"""
