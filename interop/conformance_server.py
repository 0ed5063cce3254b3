"""The accord server that the official conformance suite looks at.

    python conformance_server.py --port N [--revision REVISION] [--answers auto|stream]

It offers the tools, resources and prompts that the suite calls by name, at /mcp. Written with
accord's public names alone.
"""

import argparse
import asyncio
import itertools
from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from accord import Context, Header, Server, ToolError
from accord.errors import InternalError
from accord.server import Audio, Image
from accord.server.tasks import TaskSettings
from accord.types import EmbeddedResource, ResourceContents

# One red pixel, and a moment of silence.
PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA==")

parser = argparse.ArgumentParser(description="serve what the conformance suite asks for")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--revision", action="append", help="speak this one only; repeatable")
parser.add_argument("--answers", choices=("auto", "stream"), default="auto")
chosen = parser.parse_args()

server = Server(
    "conformance",
    version="1.0.0",
    revisions=chosen.revision,
    # The suite expects a task also of a call that ends at once.
    tasks=TaskSettings(grace=0),
)


# -- tools: what they return


@server.tool
def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@server.tool
def test_image_content() -> Image:
    """Return a picture."""
    return Image(PNG)


@server.tool
def test_audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV)


@server.tool
def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    text = "This is an embedded resource content."
    return EmbeddedResource(
        ResourceContents("test://embedded-resource", mime_type="text/plain", text=text)
    )


@server.tool
def test_multiple_content_types() -> list[Any]:
    """Return text, a picture and a resource."""
    mixed = ResourceContents(
        "test://mixed-content-resource",
        mime_type="application/json",
        text='{"test": "data", "value": 123}',
    )
    return ["Multiple content types test:", Image(PNG), EmbeddedResource(mixed)]


@server.tool
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


# -- tools: what they say meanwhile


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages while it runs."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times while it runs."""
    for progress in (0, 50, 100):
        await ctx.progress(progress, 100, message=f"Completed step {progress} of 100")
        await asyncio.sleep(0.05)
    return "Tool with progress executed successfully"


# -- tools: what they ask the client


@server.tool
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Ask the client's model."""
    answer = await ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {answer.content}"


@dataclass
class Account:
    """The user, by name and address."""

    username: str
    email: str


@server.tool
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask the client's user."""
    return f"User response: {await ctx.elicit(message, Account)}"


@dataclass
class Profile:
    """What the user may leave as it is."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the client's user for what has defaults."""
    answer = await ctx.elicit("Please review and update the form fields", Profile)
    return f"Elicitation completed: {answer}"


# Written by hand, since no type of ours leads to the older form of titles under 2025-11-25.
VALUES = ["value1", "value2", "value3"]
TITLED = [{"const": each, "title": f"Title of {each}"} for each in VALUES]
SELECTION = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": VALUES},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": VALUES}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the client's user for choices of every form."""
    return f"Elicitation completed: {await ctx.elicit('Please choose', SELECTION)}"


ADDRESS_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "address",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contact": {"enum": ["mail", "phone"]},
    },
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"properties": {"contact": {"const": "mail"}}, "required": ["contact"]},
    "then": {"required": ["address"]},
    "else": {},
    "additionalProperties": False,
}


@server.tool(input_schema=ADDRESS_SCHEMA)
def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Take what a written schema describes."""
    return f"JSON Schema 2020-12 tool called with: {arguments}"


# -- tools: what they ask in rounds


@dataclass
class Named:
    """The user, by name."""

    name: str


@dataclass
class Confirmed:
    """Yes or no."""

    confirmed: bool


async def ask_name(ctx: Context) -> str:
    """Ask the client's user for a name."""
    return (await ctx.elicit("What is your name?", Named, key="user_name")).name


async def ask_capital(ctx: Context) -> object:
    """Ask the client's model."""
    question = "What is the capital of France?"
    return (await ctx.sample(question, max_tokens=100, key="capital_question")).content


async def ask_roots(ctx: Context) -> list[str]:
    """Ask the client for its roots."""
    return [root.uri for root in await ctx.roots(key="client_roots")]


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask the user for a name."""
    return f"Hello, {await ask_name(ctx)}!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model."""
    return f"LLM response: {await ask_capital(ctx)}"


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    return f"Roots: {await ask_roots(ctx)}"


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask, and remember between the rounds what was found before."""
    found = await ctx.once("found", lambda: "state-ok")
    answer = await ctx.elicit("Please confirm", Confirmed, key="confirm")
    return f"{found}: {answer.confirmed}"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and for the roots at once."""
    answers = await asyncio.gather(ask_name(ctx), ask_capital(ctx), ask_roots(ctx))
    return f"Answers: {answers}"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, one question after the other."""
    first = await ctx.elicit("Step 1: What is your name?", Named, key="step1")
    color = {"type": "object", "properties": {"color": {"type": "string"}}}
    second = await ctx.elicit("Step 2: What is your favourite colour?", color, key="step2")
    return f"{first.name} likes {second}"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask, with state that must come back as it was."""
    return f"Confirmed: {await ctx.elicit('Please confirm', Confirmed, key='confirm')}"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask whatever the client can answer."""
    questions = {"elicitation": ask_name, "sampling": ask_capital, "roots": ask_roots}
    asked = [ask(ctx) for name, ask in questions.items() if name in ctx.client_capabilities]
    return f"Answers: {await asyncio.gather(*asked)}"


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Ask the user for the context of a prompt."""
    form = {"type": "object", "properties": {"context": {"type": "string"}}}
    asked = "What context should the prompt use?"
    return f"Use this context: {await ctx.elicit(asked, form, key='user_context')}"


# -- tools: what they do without a session


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Ask the model, without which it can do nothing."""
    return f"LLM response: {await ask_capital(ctx)}"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    await ctx.progress(0, 100)
    return f"Hello, {await ask_name(ctx)}!"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log, for clients that want to read it."""
    await ctx.info("This is logged where it is asked for")
    return "Logged"


added = itertools.count(1)


@server.tool
def test_trigger_tool_change() -> str:
    """Offer one more tool."""
    server.add_tool(test_simple_text, name=f"added_{next(added)}")
    return "The list of tools changed"


@server.tool
def test_trigger_prompt_change() -> str:
    """Offer one more prompt."""
    server.add_prompt(test_simple_prompt, name=f"added_{next(added)}")
    return "The list of prompts changed"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Hang up, and answer when the client has come back."""
    ctx.hang_up(retry=500)
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully"


@server.tool
def test_x_mcp_header(region: Annotated[str, Header("Region")]) -> str:
    """Work in a region, which a header names too.

    Args:
        region: which one
    """
    return f"Region: {region}"


# -- tools: what goes on as a task


@server.tool
def greet(name: str) -> str:
    """Greet at once.

    Args:
        name: the name to greet
    """
    return f"Hello, {name}!"


@server.tool(task="optional")
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    """Take a while.

    Args:
        seconds: how long
        label: what for
    """
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds} s"


@server.tool(task="required")
async def failing_job() -> str:
    """Fail."""
    raise ToolError("This job intentionally fails")


@server.tool(task="optional")
async def protocol_error_job() -> str:
    """Fail with an error of the protocol."""
    raise InternalError("This job intentionally breaks")


@dataclass
class Decision:
    """Yes or no."""

    confirm: bool


@server.tool(task="optional")
async def confirm_delete(ctx: Context, filename: str) -> str:
    """Ask before deleting.

    Args:
        filename: what to delete
    """
    answer = await ctx.elicit(f"Delete {filename}?", Decision, key="confirm")
    return f"Deleted {filename}: {answer.confirm}"


@server.tool(task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    name, decision = await asyncio.gather(
        ctx.elicit("What is your name?", Named, key="name"),
        ctx.elicit("Go on?", Decision, key="decision"),
    )
    return f"{name.name}: {decision.confirm}"


@server.tool(task="required", ask_first=True)
async def test_tool_with_task(ctx: Context) -> str:
    """Ask for a name, and go on as a task."""
    name = await ask_name(ctx)
    await ctx.start_task()
    return f"Hello, {name}!"


# -- resources


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """Text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return PNG


@server.resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> dict[str, Any]:
    """Data of an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Text to subscribe to."""
    return "Watched resource content"


# -- prompts


@server.prompt
def test_simple_prompt() -> str:
    """Say one thing."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Say one thing with two arguments in it.

    Args:
        arg1: the first one
        arg2: the other one
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803
    """Show a resource.

    Args:
        resourceUri: which one
    """
    shown = ResourceContents(
        resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [shown, "Please process the embedded resource above."]


@server.prompt
def test_prompt_with_image() -> list[Any]:
    """Show a picture."""
    return [Image(PNG), "Please analyze the image above."]


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(typed: str) -> list[str]:
    """Suggest what begins as typed."""
    return [value for value in ("test", "testing", "toast") if value.startswith(typed)]


if __name__ == "__main__":
    server.run("http", port=chosen.port, answers=chosen.answers)
