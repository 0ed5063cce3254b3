"""A server written with FastMCP. Without subscriptions, which it does not serve.

    python fastmcp_server.py [http FORM]

In the revision without a handshake it leaves questions to the tools, which return them.
"""

import asyncio
import base64
import sys
import warnings
from typing import Annotated, Any, Literal

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message
from fastmcp.tools import ToolResult
from pydantic import BaseModel, Field
from rounds import ask, elicitation, sampling
from serving import serve

# Logging, roots and sampling are deprecated by the newest revision, and used by all others.
warnings.simplefilter("ignore")

PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x24\x00\x00\x00WAVE"

server = FastMCP("interop", "Call anything.", version="1.2.3", list_page_size=4)
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


FORM = Person.model_json_schema()


@server.tool(title="Addition", annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: Number, b: Number) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def weather(city: Text) -> Weather:
    """Tell the weather."""
    return Weather(city=city, celsius=21.5, sky="clear")


@server.tool(output_schema=None)
def echo(text: Text) -> str:
    """Say the same again."""
    return text


@server.tool(output_schema=None)
def fail() -> str:
    """Fail."""
    raise ToolError("the tool says no")


@server.tool(output_schema=None)
async def count(ctx: Context, to: Number) -> str:
    """Count, telling how far it is."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    return f"counted to {to}"


@server.tool(output_schema=None)
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


@server.tool(name="cancelled", output_schema=None)
async def count_cancelled() -> str:
    """Tell how many calls were cancelled."""
    # Over HTTP a cancellation that was sent before may come on another connection, and later.
    for _ in range(100):
        if not waiting:
            break
        await asyncio.sleep(0.01)
    return str(cancelled)


@server.tool(output_schema=None)
async def say(ctx: Context, level: Text, text: Text) -> str:
    """Log something."""
    await ctx.log(text, level=level, logger_name="interop")
    return "said"


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version == "2026-07-28"


def introduced(action: str, person: Any) -> str:
    return f"{person['name']} is {person['age']}" if action == "accept" else action


def joined(found: types.ListRootsResult) -> str:
    return " ".join(str(root.uri) for root in found.roots)


@server.tool(output_schema=None)
async def ask_model(ctx: Context, question: Text) -> Any:
    """Ask the client's model."""
    if is_modern(ctx):
        answers = ctx.input_responses
        if not answers:
            return ask(model=sampling(question))
        return f"{answers['model'].model}: {answers['model'].content.text}"
    asked = sampling(question).params
    answer = await ctx.session.create_message(
        asked.messages, max_tokens=asked.max_tokens, system_prompt=asked.system_prompt
    )
    return f"{answer.model}: {answer.content.text}"


@server.tool(output_schema=None)
async def ask_user(ctx: Context, question: Text) -> Any:
    """Ask the user."""
    if is_modern(ctx):
        answers = ctx.input_responses
        if not answers:
            return ask(user=elicitation(question, FORM))
        return introduced(answers["user"].action, answers["user"].content)
    answer = await ctx.elicit(question, Person)
    return introduced(answer.action, answer.action == "accept" and answer.data.model_dump())


@server.tool(output_schema=None)
async def folders(ctx: Context) -> Any:
    """Ask for the roots."""
    if is_modern(ctx):
        answers = ctx.input_responses
        return joined(answers["roots"]) if answers else ask(roots=types.ListRootsRequest())
    return joined(await ctx.session.list_roots())


@server.tool(output_schema=None)
async def ask_together(ctx: Context, question: Text) -> Any:
    """Ask the user and for the roots at once."""
    answers = ctx.input_responses
    if not answers:
        return ask(user=elicitation(question, FORM), roots=types.ListRootsRequest())
    said = introduced(answers["user"].action, answers["user"].content)
    return f"{said} in {joined(answers['roots'])}"


@server.tool(output_schema=None)
def media() -> ToolResult:
    """Return content of every kind."""
    held = types.TextResourceContents(uri="memo://today", text="sunny", mime_type="text/plain")
    image = base64.b64encode(PNG).decode()
    sound = base64.b64encode(WAV).decode()
    return ToolResult(
        content=[
            types.TextContent(type="text", text="text"),
            types.ImageContent(type="image", data=image, mime_type="image/png"),
            types.AudioContent(type="audio", data=sound, mime_type="audio/wav"),
            types.EmbeddedResource(type="resource", resource=held),
            types.ResourceLink(type="resource_link", uri="memo://today", name="today"),
        ]
    )


@server.tool(output_schema=None)
async def grow(ctx: Context) -> str:
    """Offer one more tool."""

    @server.tool(output_schema=None)
    def extra() -> str:
        """Be new."""
        return "new"

    await ctx.send_notification(types.ToolListChangedNotification())
    return "grown"


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


@server.prompt
def greet(name: str, mood: str = "happy") -> str:
    """Greet a person."""
    return f"Greet {name}, who is {mood}."


@server.prompt
def tour() -> list[Message]:
    """Show messages of every kind."""
    held = types.TextResourceContents(uri="memo://today", text="sunny", mime_type="text/plain")
    image = base64.b64encode(PNG).decode()
    return [
        Message("Look."),
        Message("At what?", role="assistant"),
        Message(types.EmbeddedResource(type="resource", resource=held)),
        Message(types.ImageContent(type="image", data=image, mime_type="image/png")),
    ]


async def complete(ref: Any, argument: Any, context: Any) -> list[str]:
    """Complete a mood or the name of a note."""
    is_prompt = isinstance(ref, types.PromptReference)
    known = ("happy", "hungry", "sad") if is_prompt else ("monday", "moon", "tuesday")
    return [each for each in known if each.startswith(argument.value)]


server.add_completion_handler(complete)


def app(form: str) -> Any:
    if form == "sse":
        return server.http_app(transport="sse")
    is_stateless, is_json = form == "stateless", form == "json"
    return server.http_app(stateless_http=is_stateless, json_response=is_json)


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(app(sys.argv[2]))
    else:
        server.run(show_banner=False, log_level="ERROR")
