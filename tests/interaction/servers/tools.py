"""Tools that take and give everything."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec

from accord import Context, Server, ToolError, types
from accord.errors import InvalidParams, RequestError
from accord.server import Audio, Image


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Seat:
    row: int
    letter: str


class Options(TypedDict, total=False):
    deep: bool


class Pair(NamedTuple):
    left: str
    right: int


PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
SOUND = b"RIFF\0\0\0\0WAVE"


def make() -> Server[Any]:
    server = Server("tools", version="1.2", title="All tools", instructions="Use them well.")
    seen: list[str] = []

    @server.resource("note://one")
    def one() -> str:
        """What a tool embeds."""
        return "one"

    # -- what comes

    @server.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    @server.tool
    async def typed(
        when: date,
        person: UUID,
        much: Decimal,
        colour: Colour,
        mode: Literal["quick", "slow"],
        at: Point,
        seat: Seat,
        options: Options,
        names: list[str],
        limit: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5,
        note: str | None = None,
    ) -> str:
        """Take every kind of argument.

        Args:
            when: a day
            person: a number for life
            much: an amount
            colour: one of two
            mode: how
            at: a place
            seat: a seat
            options: what else
            names: of people
            limit: at most
            note: anything
        """
        kinds = (when, person, much, colour, at, seat)
        reported = [type(each).__name__ for each in kinds]
        return f"{' '.join(reported)} {mode} {options} {names} {limit} {note}"

    @server.tool
    def nothing() -> str:
        """Take nothing."""
        return "nothing taken"

    # -- what goes

    @server.tool
    def text() -> str:
        """Give text."""
        return "plain"

    @server.tool
    def image() -> Image:
        """Give a picture."""
        return Image(PIXEL)

    @server.tool
    def sound() -> Audio:
        """Give a sound."""
        return Audio(SOUND)

    @server.tool
    def binary() -> bytes:
        """Give bytes."""
        return b"\0\1\2"

    @server.tool
    def mixed() -> list[Any]:
        """Give several things."""
        return [
            "first",
            Image(PIXEL),
            types.EmbeddedResource(
                types.ResourceContents("note://one", mime_type="text/plain", text="one")
            ),
            types.ResourceLink(uri="note://two", name="two"),
        ]

    @server.tool
    def point(x: int) -> Point:
        """Give an object.

        Args:
            x: its place
        """
        return Point(x, 2)

    @server.tool
    def points() -> list[Point]:
        """Give a list."""
        return [Point(1), Point(2)]

    @server.tool
    def pair() -> Pair:
        """Give a tuple with names."""
        return Pair("l", 2)

    @server.tool
    def table() -> dict[str, int]:
        """Give a mapping."""
        return {"one": 1}

    @server.tool
    def nobody() -> None:
        """Give nothing."""

    @server.tool
    def liar() -> Point:
        """Give something else than promised."""
        return {"x": "no number"}  # type: ignore[return-value]

    @server.tool
    def whole() -> types.CallToolResult:
        """Give a result that is ready."""
        return types.CallToolResult(
            [types.TextContent("ready", annotations=types.Annotations(priority=0.5))],
            meta={"org.example/trace": "t1"},
        )

    # -- what fails

    @server.tool
    def refuse() -> str:
        """Fail in a way that the caller should read."""
        raise ToolError("the door is locked; try the window")

    @server.tool
    async def refuse_async() -> str:
        """The same in a coroutine."""
        raise ToolError("the door is locked; try the window")

    @server.tool
    def crash() -> str:
        """Fail by mistake."""
        raise ValueError("the password is sesame")

    @server.tool
    async def crash_async() -> str:
        """The same in a coroutine."""
        raise ValueError("the password is sesame")

    @server.tool(inline=True)
    def crash_inline() -> str:
        """The same on the loop."""
        raise ValueError("the password is sesame")

    @server.tool
    def refuse_request() -> str:
        """Answer with a protocol error."""
        raise InvalidParams("the moon is not full", data={"phase": "new"})

    @server.tool
    def own_code() -> str:
        """Answer with a code of its own."""
        raise RequestError("teapot", code=418)

    @server.tool
    def reserved_code() -> str:
        """Answer with a code that later revisions reserve."""
        raise RequestError("kettle", code=-32050)

    # -- how long it takes

    @server.tool(timeout=0.05)
    async def slow() -> str:
        """Take too long in a coroutine."""
        try:
            await asyncio.sleep(30)
        finally:
            seen.append("slow stopped")
        return "late"

    @server.tool(timeout=0.5)  # within that, a thread begins
    def slow_in_thread() -> str:
        """Take too long in a thread."""
        try:
            for _ in range(3000):
                time.sleep(0.01)
        finally:
            seen.append("slow_in_thread stopped")
        return "late"

    @server.tool(timeout=30)
    async def own_timeout() -> str:
        """Have a time-out of its own, well within the limit."""
        async with asyncio.timeout(0.01):
            await asyncio.sleep(30)
        return "late"

    @server.tool(timeout=30)
    def quick_enough() -> str:
        """Keep within the limit."""
        return "in time"

    @server.tool
    async def events() -> list[str]:
        """Say what was seen."""
        with suppress(TimeoutError):
            async with asyncio.timeout(20):
                while not seen:
                    await asyncio.sleep(0.005)
        return seen

    # -- how it is described

    @server.tool(
        name="described",
        title="A fine tool",
        description="Says what it is.",
        annotations=types.ToolAnnotations(read_only_hint=True, title="Fine"),
        meta={"org.example/kind": "demo"},
        icons=[types.Icon("https://example.org/icon.png", mime_type="image/png")],
    )
    def other_name(ctx: Context) -> str:
        """Not this."""
        return ctx.method

    class Desk:
        def __init__(self, prefix: str) -> None:
            self.prefix = prefix

        def greet(self, name: str) -> str:
            """Greet a person.

            Args:
                name: the person
            """
            return f"{self.prefix} {name}"

    server.add_tool(Desk("Dear").greet, name="greet")
    server.tool(lambda: "small", name="small", description="Say something small.")
    return server
