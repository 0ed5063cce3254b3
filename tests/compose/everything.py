"""A server of one revision with everything that servers have, to be offered through a proxy."""

import asyncio
import os
import sys
from base64 import b64encode
from typing import Any

import msgspec

from accord import Context, Server, ToolError, types
from accord.errors import (
    ElicitationRefused,
    MissingCapability,
    RequestError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from accord.server import Audio, Image
from accord.server.tasks import TaskSettings

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
SOUND = b"RIFF\0\0\0\0WAVE"
PAGE = "https://desk.example/link/{elicitation_id}"
CITIES = ["Oslo", "Ottawa", "Paris"]


class Journey(msgspec.Struct):
    """Where to go."""

    city: str
    nights: int = 2


def make(revision: Any, **settings: Any) -> Server[Any]:
    settings.setdefault("tasks", TaskSettings(poll_interval=0.05))
    server: Server[Any] = Server("everything", revisions=[revision], **settings)
    add_tools(server)
    add_questions(server)
    add_waiting(server)
    add_content(server)
    return server


def add_tools(server: Server[Any]) -> None:
    @server.tool(title="Addition", annotations=types.ToolAnnotations(read_only_hint=True))
    async def add(a: int, b: int) -> dict[str, int]:
        """Add two numbers.

        Args:
            a: the first
            b: the second
        """
        return {"sum": a + b}

    @server.tool
    async def contents(ctx: Context) -> list[Any]:
        """Return every kind of content that the revision has."""
        found: list[Any] = [
            types.TextContent("text", annotations=types.Annotations(priority=0.5)),
            Image(PIXEL).content(),
            types.EmbeddedResource(
                types.ResourceContents("note://today", mime_type="text/plain", text="buy milk")
            ),
            types.EmbeddedResource(
                types.ResourceContents("blob://pixel", blob=b64encode(PIXEL).decode())
            ),
        ]
        if ctx.revision >= "2025-03-26":
            found.append(Audio(SOUND).content())
        if ctx.revision >= "2025-06-18":
            found.append(types.ResourceLink("note://today", "today"))
        return found

    @server.tool
    async def large(size: int) -> str:
        """Return a long text.

        Args:
            size: how long
        """
        return "x" * size

    @server.tool
    async def fail() -> str:
        """Fail in a way that the model should read."""
        raise ToolError("closed on Sundays")

    @server.tool
    async def refuse() -> str:
        """Fail with a code."""
        raise RequestError("the disk is full", code=-31050, data={"disk": "a"})

    @server.tool
    async def facts(ctx: Context) -> dict[str, Any]:
        """Say what is known of the client."""
        return {"revision": ctx.revision, "capabilities": sorted(ctx.client_capabilities)}


def add_questions(server: Server[Any]) -> None:
    @server.tool
    async def book(ctx: Context) -> str:
        """Ask for a journey."""
        try:
            return f"booked {(await ctx.elicit('Where to?', Journey)).city}"
        except ElicitationRefused as refused:
            return f"refused: {refused.action}"

    @server.tool
    async def visit(ctx: Context) -> str:
        """Ask the user to visit a page."""
        await ctx.elicit_url("Link your account", PAGE)
        return "visited"

    linked: list[Any] = []

    @server.tool
    async def balance(ctx: Context) -> str:
        """Need a page that the user has visited."""
        if not linked:
            linked.append(ctx.prepare_url("Link your account", PAGE))
            loop = asyncio.get_running_loop()
            loop.call_later(0.05, server.elicitation_completed, linked[0].id)
            raise UrlElicitationRequired("no account is linked", elicitations=linked)
        return "12 EUR"

    @server.tool
    async def think(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Which way?", max_tokens=10, system_prompt="Be brief.")).text

    @server.tool
    async def think_with_tools(ctx: Context) -> str:
        """Let the model use a tool."""
        answer = await ctx.sample("How much?", tools=["add"], tool_choice="required")
        return ",".join(use.name for use in answer.tool_uses)

    @server.tool
    async def look(ctx: Context) -> list[str]:
        """Ask for the roots."""
        return [root.uri for root in await ctx.roots()]

    @server.tool
    async def several(ctx: Context) -> list[str]:
        """Ask two things at once, then a third one."""
        answer, roots = await asyncio.gather(ctx.sample("Which way?"), ctx.roots())
        journey = await ctx.sample(f"After {answer.text}?")
        return [answer.text, roots[0].uri, journey.text]

    @server.prompt
    async def plan(ctx: Context, days: str) -> str:
        """Plan a journey.

        Args:
            days: how long
        """
        try:
            answer = await ctx.sample("Where to?")
        except MissingCapability:
            return "no model"
        return f"Plan {days} days in {answer.text}."


def add_waiting(server: Server[Any]) -> None:
    cancelled: list[str] = []

    @server.tool
    async def steps(ctx: Context, count: int) -> str:
        """Report progress.

        Args:
            count: how often
        """
        for number in range(count):
            await ctx.progress(number + 1, count, message=f"step {number + 1}")
        return "done"

    @server.tool
    async def speak(ctx: Context) -> str:
        """Log at three levels."""
        await ctx.debug("fine")
        await ctx.log("warning", {"rows": 3}, logger="shop")
        await ctx.error("bad")
        return "spoken"

    @server.tool
    async def wait(ctx: Context, name: str) -> str:
        """Wait until it is cancelled.

        Args:
            name: of the call
        """
        try:
            await ctx.progress(1)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise
        return "never"

    @server.tool
    async def die() -> str:
        """End the process."""
        os._exit(3)

    @server.tool
    async def list_cancelled() -> list[str]:
        """Return the calls that were cancelled."""
        return cancelled

    @server.tool(task="optional")
    async def build(ctx: Context) -> str:
        """Build, as a task if that is wanted."""
        return f"built {ctx.task is not None}"

    @server.tool(task="required")
    async def train(ctx: Context) -> dict[str, int]:
        """Train, as a task wherever there are tasks."""
        return {"epochs": 3}


def add_content(server: Server[Any]) -> None:
    notes = {"today": "buy milk", "tomorrow": "sell it"}

    @server.resource("note://index", title="Index", mime_type="text/markdown", size=7)
    async def index() -> str:
        """All notes."""
        return "# Notes"

    @server.resource("blob://pixel", mime_type="image/png")
    async def pixel() -> bytes:
        """One pixel."""
        return PIXEL

    @server.resource("note://{name}", mime_type="text/plain")
    async def note(name: str) -> str:
        """One note."""
        if name not in notes:
            raise ResourceNotFound(f"no note {name}", data={"uri": f"note://{name}"})
        return notes[name]

    @server.prompt(title="Greeting")
    async def greet(name: str) -> list[Any]:
        """Greet a person.

        Args:
            name: the person
        """
        return [f"Greet {name}", ("assistant", "With pleasure."), Image(PIXEL).content()]

    @server.completion("greet", "name")
    async def names(typed: str) -> list[str]:
        return [each for each in CITIES if each.startswith(typed)]

    @server.completion("note://{name}", "name")
    async def note_names(typed: str) -> list[str]:
        return [each for each in notes if each.startswith(typed)]

    @server.tool
    async def change(uri: str) -> str:
        """Change a resource.

        Args:
            uri: which one
        """
        server.resource_updated(uri)
        return "changed"

    @server.tool
    async def grow() -> str:
        """Offer more."""

        async def added() -> str:
            return "new"

        server.add_tool(added, name="added", description="New.")
        server.add_prompt(added, name="added", description="New.")
        server.add_resource("new://1", added, name="added")
        return "grown"


if __name__ == "__main__":
    make(sys.argv[1]).run()
