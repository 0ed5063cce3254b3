"""The accord server that foreign clients talk to: every feature of the protocol once.

    python accord_server.py [http FORM] [REVISION]

Written with the public names alone. The foreign servers beside it offer the same things under the
same names, as far as their libraries let them.
"""

import asyncio
import os
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from accord import Context, Server, ToolError
from accord.errors import ElicitationRefused
from accord.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    LoggingLevel,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)

# The smallest picture and the smallest sound there are.
PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x24\x00\x00\x00WAVE"

FORMS: dict[str, dict[str, Any]] = {
    "auto": {},
    "stream": {"answers": "stream"},
    "json": {"answers": "json"},
    "stateless": {"sessions": False},
    "sse": {"sse": True},
    "shared": {"store": os.environ.get("INTEROP_STORE")},
}
form = sys.argv[2] if sys.argv[1:2] == ["http"] else None
revisions = sys.argv[3:] if form is not None else sys.argv[1:]

server = Server(
    "interop",
    version="1.2.3",
    title="Interop",
    instructions="Call anything.",
    page_size=4,
    **({"revisions": revisions} if revisions else {}),
)
cancelled = 0
waiting = 0


@dataclass
class Weather:
    """What it is like outside."""

    city: str
    celsius: float
    sky: Literal["clear", "cloudy"]


@dataclass
class Person:
    """The answer of the user."""

    name: str
    age: int
    mood: Literal["happy", "sad"] = "happy"
    is_member: bool = False


@server.tool(title="Addition", annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first one
        b: the other one
    """
    return a + b


@server.tool
async def weather(city: str) -> Weather:
    """Tell the weather.

    Args:
        city: where
    """
    return Weather(city, 21.5, "clear")


@server.tool
def echo(text: str) -> str:
    """Say the same again.

    Args:
        text: what to say
    """
    return text


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("the tool says no")


@server.tool
async def count(ctx: Context[Any], to: int) -> str:
    """Count, telling how far it is.

    Args:
        to: the last number
    """
    for step in range(1, to + 1):
        ctx.progress(step, to, message=f"step {step}")
        # The TypeScript SDKs lose progress that they read together with the answer.
        await asyncio.sleep(0.02)
    return f"counted to {to}"


@server.tool
async def wait(ctx: Context[Any]) -> str:
    """Wait until cancelled."""
    global cancelled, waiting
    ctx.progress(0)
    waiting += 1
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    finally:
        waiting -= 1
    return "waited"


@server.tool(name="cancelled")
async def count_cancelled() -> str:
    """Tell how many calls were cancelled."""
    # Over HTTP a cancellation that was sent before may come on another connection, and later.
    for _ in range(100):
        await asyncio.sleep(0.01)
        if not waiting:
            break
    return str(cancelled)


@server.tool
async def say(ctx: Context[Any], level: LoggingLevel, text: str) -> str:
    """Log something.

    Args:
        level: how severe it is
        text: what to log
    """
    ctx.log(level, text, logger="interop")
    return "said"


@server.tool
async def ask_model(ctx: Context[Any], question: str) -> str:
    """Ask the client's model.

    Args:
        question: what to ask
    """
    answer = await ctx.sample(question, max_tokens=50, system_prompt="Be brief.")
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def ask_user(ctx: Context[Any], question: str) -> str:
    """Ask the user.

    Args:
        question: what to ask
    """
    try:
        person = await ctx.elicit(question, Person)
    except ElicitationRefused as refusal:
        return refusal.action
    return f"{person.name} is {person.age}"


@server.tool
async def folders(ctx: Context[Any]) -> str:
    """Ask for the roots."""
    return " ".join(root.uri for root in await ctx.roots())


@server.tool
async def ask_together(ctx: Context[Any], question: str) -> str:
    """Ask the user and for the roots at once.

    Args:
        question: what to ask
    """
    person, roots = await asyncio.gather(ctx.elicit(question, Person), ctx.roots())
    return f"{person.name} is {person.age} in {' '.join(root.uri for root in roots)}"


@server.tool
def media() -> list[Any]:
    """Return content of every kind."""
    return [
        TextContent("text"),
        ImageContent(b64encode(PNG).decode(), "image/png"),
        AudioContent(b64encode(WAV).decode(), "audio/wav"),
        EmbeddedResource(ResourceContents("memo://today", text="sunny", mime_type="text/plain")),
        ResourceLink(uri="memo://today", name="today"),
    ]


@server.tool
def grow() -> str:
    """Offer one more tool."""

    def extra() -> str:
        """Be new."""
        return "new"

    server.add_tool(extra)
    return "grown"


@server.tool
def touch(uri: str) -> str:
    """Say that a resource changed.

    Args:
        uri: which one
    """
    server.resource_updated(uri)
    return "touched"


@server.resource("memo://today", mime_type="text/plain")
def today() -> str:
    """Say what today is like."""
    return "sunny"


@server.resource("memo://logo", mime_type="image/png")
def logo() -> bytes:
    """Show the logo."""
    return PNG


@server.resource("memo://notes/{name}", mime_type="text/plain")
async def note(name: str) -> str:
    """Read a note."""
    return f"note {name}"


@server.prompt
def greet(name: str, mood: str = "happy") -> str:
    """Greet a person."""
    return f"Greet {name}, who is {mood}."


@server.prompt
def tour() -> list[PromptMessage]:
    """Show messages of every kind."""
    held = ResourceContents("memo://today", text="sunny", mime_type="text/plain")
    return [
        PromptMessage("user", TextContent("Look.")),
        PromptMessage("assistant", TextContent("At what?")),
        PromptMessage("user", EmbeddedResource(held)),
        PromptMessage("user", ImageContent(b64encode(PNG).decode(), "image/png")),
    ]


@server.completion("greet", "mood")
def moods(typed: str, known: Mapping[str, str]) -> list[str]:
    """Complete a mood."""
    if known.get("name") == "Marvin":
        return ["depressed"]
    return [mood for mood in ("happy", "hungry", "sad") if mood.startswith(typed)]


@server.completion("memo://notes/{name}", "name")
def names(typed: str) -> list[str]:
    """Complete the name of a note."""
    return [name for name in ("monday", "moon", "tuesday") if name.startswith(typed)]


if __name__ == "__main__":
    if form is None:
        server.run()
    else:
        server.run("http", port=0, retry=10, **FORMS[form])
