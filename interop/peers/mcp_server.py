"""A server written with the high-level API of the official Python SDK, `mcp`.

    python mcp_server.py [http FORM]

Without: subscriptions and log levels of the handshake revisions, which that API leaves to the
low-level one, and pages. What it asks goes out as a request, or in the revision without a
handshake as the answer to the first call: a resolver does either.
"""

import asyncio
import base64
import sys
import warnings
from typing import Annotated, Any, Literal

import mcp_types as types
from mcp.server.mcpserver import (
    AssistantMessage,
    Context,
    Elicit,
    ElicitationResult,
    ListRoots,
    MCPServer,
    Resolve,
    Sample,
    UserMessage,
)
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field
from serving import serve

# Logging, roots and sampling are deprecated by the newest revision, and used by all others.
warnings.simplefilter("ignore")

PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x24\x00\x00\x00WAVE"

server = MCPServer("interop", version="1.2.3", instructions="Call anything.", log_level="ERROR")
cancelled = 0
waiting = 0


Number = Annotated[int, Field(description="a number")]
Text = Annotated[str, Field(description="a text")]


class Weather(BaseModel):
    city: str
    celsius: float
    sky: Literal["clear", "cloudy"]


class Person(BaseModel):
    name: str
    age: int


@server.tool(title="Addition", annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: Number, b: Number) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def weather(city: Text) -> Weather:
    """Tell the weather."""
    return Weather(city=city, celsius=21.5, sky="clear")


@server.tool(structured_output=False)
def echo(text: Text) -> str:
    """Say the same again."""
    return text


@server.tool(structured_output=False)
def fail() -> str:
    """Fail."""
    raise ToolError("the tool says no")


@server.tool(structured_output=False)
async def count(ctx: Context, to: Number) -> str:
    """Count, telling how far it is."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    return f"counted to {to}"


@server.tool(structured_output=False)
async def wait(ctx: Context) -> str:
    """Wait until cancelled."""
    global cancelled, waiting
    waiting += 1
    try:
        await ctx.report_progress(0)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    finally:
        waiting -= 1
    return "waited"


@server.tool(name="cancelled", structured_output=False)
async def count_cancelled() -> str:
    """Tell how many calls were cancelled."""
    # Over HTTP a cancellation that was sent before may come on another connection, and later.
    for _ in range(100):
        if not waiting:
            break
        await asyncio.sleep(0.01)
    return str(cancelled)


@server.tool(structured_output=False)
async def say(ctx: Context, level: Text, text: Text) -> str:
    """Log something."""
    await ctx.log(level, text, logger_name="interop")
    return "said"


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version == "2026-07-28"


async def sampled(ctx: Context, question: str) -> Any:
    said = types.TextContent(type="text", text=question)
    asked = [types.SamplingMessage(role="user", content=said)]
    if is_modern(ctx):
        return Sample(asked, max_tokens=50, system_prompt="Be brief.")
    return await ctx.session.create_message(asked, max_tokens=50, system_prompt="Be brief.")


def elicited(question: str) -> Any:
    return Elicit(question, Person)


async def listed(ctx: Context) -> Any:
    return ListRoots() if is_modern(ctx) else await ctx.session.list_roots()


Sampled = Annotated[types.CreateMessageResult, Resolve(sampled)]
Elicited = Annotated[ElicitationResult[Person], Resolve(elicited)]
Listed = Annotated[types.ListRootsResult, Resolve(listed)]


def introduced(answer: Any) -> str:
    return (
        f"{answer.data.name} is {answer.data.age}" if answer.action == "accept" else answer.action
    )


def joined(found: types.ListRootsResult) -> str:
    return " ".join(str(root.uri) for root in found.roots)


@server.tool(structured_output=False)
async def ask_model(question: Text, answer: Sampled) -> str:
    """Ask the client's model."""
    return f"{answer.model}: {answer.content.text}"


@server.tool(structured_output=False)
async def ask_user(question: Text, answer: Elicited) -> str:
    """Ask the user."""
    return introduced(answer)


@server.tool(structured_output=False)
async def folders(found: Listed) -> str:
    """Ask for the roots."""
    return joined(found)


@server.tool(structured_output=False)
async def ask_together(question: Text, answer: Elicited, found: Listed) -> str:
    """Ask the user and for the roots at once."""
    return f"{introduced(answer)} in {joined(found)}"


@server.tool(structured_output=False)
def media() -> list[Any]:
    """Return content of every kind."""
    held = types.TextResourceContents(uri="memo://today", text="sunny", mime_type="text/plain")
    return [
        types.TextContent(type="text", text="text"),
        types.ImageContent(
            type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png"
        ),
        types.AudioContent(
            type="audio", data=base64.b64encode(WAV).decode(), mime_type="audio/wav"
        ),
        types.EmbeddedResource(type="resource", resource=held),
        types.ResourceLink(type="resource_link", uri="memo://today", name="today"),
    ]


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Offer one more tool."""

    def extra() -> str:
        """Be new."""
        return "new"

    server.add_tool(extra, structured_output=False)
    if is_modern(ctx):
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool(structured_output=False)
async def touch(ctx: Context, uri: Text) -> str:
    """Say that a resource changed."""
    await ctx.notify_resource_updated(uri)
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
def note(name: str) -> str:
    """Read a note."""
    return f"note {name}"


@server.prompt()
def greet(name: str, mood: str = "happy") -> str:
    """Greet a person."""
    return f"Greet {name}, who is {mood}."


@server.prompt()
def tour() -> list[Any]:
    """Show messages of every kind."""
    held = types.TextResourceContents(uri="memo://today", text="sunny", mime_type="text/plain")
    image = base64.b64encode(PNG).decode()
    return [
        UserMessage("Look."),
        AssistantMessage("At what?"),
        UserMessage(types.EmbeddedResource(type="resource", resource=held)),
        UserMessage(types.ImageContent(type="image", data=image, mime_type="image/png")),
    ]


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
    """Complete a mood or the name of a note."""
    is_prompt = isinstance(ref, types.PromptReference)
    known = ("happy", "hungry", "sad") if is_prompt else ("monday", "moon", "tuesday")
    return types.Completion(values=[each for each in known if each.startswith(argument.value)])


def app(form: str) -> Any:
    if form == "sse":
        return server.sse_app()
    is_stateless, is_json = form == "stateless", form == "json"
    return server.streamable_http_app(stateless_http=is_stateless, json_response=is_json)


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(app(sys.argv[2]))
    else:
        server.run()
