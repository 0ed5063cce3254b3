"""A server written with the low-level API of the official Python SDK: everything by hand.

python mcp_lowlevel_server.py [http FORM]
"""

import asyncio
import base64
import json
import sys
import warnings
from typing import Any, ClassVar

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ToolsListChanged,
)
from rounds import ask, elicitation, sampling
from serving import serve

# Logging, roots and sampling are deprecated by the newest revision, and used by all others.
warnings.simplefilter("ignore")

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVE").decode()
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
PAGE = 4


def schema(**properties: str) -> dict[str, Any]:
    members = {name: {"type": kind, "description": name} for name, kind in properties.items()}
    return {"type": "object", "properties": members, "required": list(properties)}


def tool(name: str, description: str, **properties: str) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema=schema(**properties))


TOOLS = {
    each.name: each
    for each in (
        types.Tool(
            name="add",
            title="Addition",
            description="Add two numbers.",
            input_schema=schema(a="integer", b="integer"),
            output_schema=schema(result="integer"),
            annotations=types.ToolAnnotations(read_only_hint=True),
        ),
        types.Tool(
            name="weather",
            description="Tell the weather.",
            input_schema=schema(city="string"),
            output_schema=schema(city="string", celsius="number", sky="string"),
        ),
        tool("echo", "Say the same again.", text="string"),
        tool("fail", "Fail."),
        tool("count", "Count, telling how far it is.", to="integer"),
        tool("wait", "Wait until cancelled."),
        tool("cancelled", "Tell how many calls were cancelled."),
        tool("say", "Log something.", level="string", text="string"),
        tool("ask_model", "Ask the client's model.", question="string"),
        tool("ask_user", "Ask the user.", question="string"),
        tool("folders", "Ask for the roots."),
        tool("ask_together", "Ask the user and for the roots at once.", question="string"),
        tool("media", "Return content of every kind."),
        tool("grow", "Offer one more tool."),
        tool("touch", "Say that a resource changed.", uri="string"),
    )
}


class State:
    """What the one client of this process did and wants."""

    cancelled = 0
    waiting = 0
    level = "info"
    subscribed: ClassVar[set[str]] = set()


def text(value: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=value)], is_error=is_error
    )


def structured(value: dict[str, Any], shown: types.CallToolResult) -> types.CallToolResult:
    return shown.model_copy(update={"structured_content": value})


def is_modern(ctx: Any) -> bool:
    return ctx.protocol_version == "2026-07-28"


PERSON = schema(name="string", age="integer")
# What these tools ask for in the revision without a handshake, by the names of the answers.
QUESTIONS: dict[str, Any] = {
    "ask_model": lambda question: {"model": sampling(question)},
    "ask_user": lambda question: {"user": elicitation(question, PERSON)},
    "folders": lambda: {"roots": types.ListRootsRequest()},
    "ask_together": lambda question: {
        "user": elicitation(question, PERSON),
        "roots": types.ListRootsRequest(),
    },
}


def answer_in_rounds(params: types.CallToolRequestParams) -> Any:
    """Ask, and when the call comes again, tell what was answered."""
    answers = params.input_responses
    if not answers:
        return ask(**QUESTIONS[params.name](**(params.arguments or {})))
    if "model" in answers:
        return text(f"{answers['model'].model}: {answers['model'].content.text}")
    said = []
    if "user" in answers:
        said.append(introduced(answers["user"]))
    if "roots" in answers:
        said.append(" ".join(str(root.uri) for root in answers["roots"].roots))
    return text(" in ".join(said))


def introduced(answer: types.ElicitResult) -> str:
    if answer.action != "accept" or answer.content is None:
        return answer.action
    return f"{answer.content['name']} is {answer.content['age']}"


async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> Any:
    cursor = params.cursor if params is not None else None
    if cursor is not None and not cursor.isdecimal():
        raise MCPError(types.INVALID_PARAMS, "unknown cursor")
    start = int(cursor or 0)
    tools = list(TOOLS.values())
    following = str(start + PAGE) if start + PAGE < len(tools) else None
    return types.ListToolsResult(tools=tools[start : start + PAGE], next_cursor=following)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"unknown tool {params.name}")
    if is_modern(ctx) and params.name in QUESTIONS:
        return answer_in_rounds(params)
    return await globals()[f"_{params.name}"](ctx, **(params.arguments or {}))


async def _add(ctx: Any, a: Any, b: Any) -> Any:
    if not isinstance(a, int):
        return text("a is not an integer", is_error=True)
    return structured({"result": a + b}, text(str(a + b)))


async def _weather(ctx: Any, city: str) -> Any:
    told = {"city": city, "celsius": 21.5, "sky": "clear"}
    return structured(told, text(json.dumps(told)))


async def _echo(ctx: Any, text: str) -> Any:
    return globals()["text"](text)


async def _fail(ctx: Any) -> Any:
    return text("the tool says no", is_error=True)


async def _count(ctx: Any, to: int) -> Any:
    for step in range(1, to + 1):
        await ctx.session.report_progress(step, to, f"step {step}")
    return text(f"counted to {to}")


async def _wait(ctx: Any) -> Any:
    State.waiting += 1
    try:
        await ctx.session.report_progress(0)
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        State.cancelled += 1
        raise
    finally:
        State.waiting -= 1
    return text("waited")


async def _cancelled(ctx: Any) -> Any:
    # Over HTTP a cancellation that was sent before may come on another connection, and later.
    for _ in range(100):
        if not State.waiting:
            break
        await asyncio.sleep(0.01)
    return text(str(State.cancelled))


async def _say(ctx: Any, level: Any, text: str) -> Any:
    if is_modern(ctx) or LEVELS.index(level) >= LEVELS.index(State.level):
        await ctx.session.send_log_message(level, text, logger="interop")
    return globals()["text"]("said")


async def _ask_model(ctx: Any, question: str) -> Any:
    asked = types.SamplingMessage(
        role="user", content=types.TextContent(type="text", text=question)
    )
    answer = await ctx.session.create_message([asked], max_tokens=50, system_prompt="Be brief.")
    return text(f"{answer.model}: {answer.content.text}")


async def _ask_user(ctx: Any, question: str) -> Any:
    return text(introduced(await ctx.session.elicit_form(question, PERSON)))


async def _folders(ctx: Any) -> Any:
    return text(" ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots))


async def _media(ctx: Any) -> Any:
    held = types.TextResourceContents(uri="memo://today", text="sunny", mime_type="text/plain")
    return types.CallToolResult(
        content=[
            types.TextContent(type="text", text="text"),
            types.ImageContent(type="image", data=PNG, mime_type="image/png"),
            types.AudioContent(type="audio", data=WAV, mime_type="audio/wav"),
            types.EmbeddedResource(type="resource", resource=held),
            types.ResourceLink(type="resource_link", uri="memo://today", name="today"),
        ]
    )


async def _grow(ctx: Any) -> Any:
    TOOLS["extra"] = tool("extra", "Be new.")
    if is_modern(ctx):
        await changes.publish(ToolsListChanged())
    else:
        await ctx.session.send_tool_list_changed()
    return text("grown")


async def _extra(ctx: Any) -> Any:
    return text("new")


async def _touch(ctx: Any, uri: str) -> Any:
    if is_modern(ctx):
        await changes.publish(ResourceUpdated(uri=uri))
    elif uri in State.subscribed:
        await ctx.session.send_resource_updated(uri)
    return text("touched")


async def list_resources(ctx: Any, params: Any) -> Any:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri="memo://today", name="today", mime_type="text/plain"),
            types.Resource(uri="memo://logo", name="logo", mime_type="image/png"),
        ]
    )


async def list_templates(ctx: Any, params: Any) -> Any:
    note = types.ResourceTemplate(
        uri_template="memo://notes/{name}", name="note", mime_type="text/plain"
    )
    return types.ListResourceTemplatesResult(resource_templates=[note])


async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> Any:
    uri = str(params.uri)
    held: Any
    if uri == "memo://logo":
        held = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == "memo://today":
        held = types.TextResourceContents(uri=uri, mime_type="text/plain", text="sunny")
    elif uri.startswith("memo://notes/"):
        name = uri.rpartition("/")[2]
        held = types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"note {name}")
    else:
        code = types.INVALID_PARAMS if is_modern(ctx) else -32002
        raise MCPError(code, "no such resource", {"uri": uri})
    return types.ReadResourceResult(contents=[held])


async def subscribe(ctx: Any, params: types.SubscribeRequestParams) -> types.EmptyResult:
    State.subscribed.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(ctx: Any, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    State.subscribed.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    State.level = params.level
    return types.EmptyResult()


async def list_prompts(ctx: Any, params: Any) -> Any:
    arguments = [
        types.PromptArgument(name="name", required=True),
        types.PromptArgument(name="mood", required=False),
    ]
    prompts = [types.Prompt(name="greet", arguments=arguments), types.Prompt(name="tour")]
    return types.ListPromptsResult(prompts=prompts)


def tour() -> types.GetPromptResult:
    held = types.TextResourceContents(uri="memo://today", text="sunny", mime_type="text/plain")
    messages = (
        ("user", types.TextContent(type="text", text="Look.")),
        ("assistant", types.TextContent(type="text", text="At what?")),
        ("user", types.EmbeddedResource(type="resource", resource=held)),
        ("user", types.ImageContent(type="image", data=PNG, mime_type="image/png")),
    )
    return types.GetPromptResult(
        messages=[types.PromptMessage(role=role, content=content) for role, content in messages]
    )


async def get_prompt(ctx: Any, params: types.GetPromptRequestParams) -> Any:
    if params.name == "tour":
        return tour()
    if params.name != "greet" or "name" not in (params.arguments or {}):
        raise MCPError(types.INVALID_PARAMS, "no such prompt, or no name")
    filled = {"mood": "happy", **(params.arguments or {})}
    content = types.TextContent(
        type="text", text=f"Greet {filled['name']}, who is {filled['mood']}."
    )
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])


async def complete(ctx: Any, params: types.CompleteRequestParams) -> Any:
    is_prompt = isinstance(params.ref, types.PromptReference)
    known = ("happy", "hungry", "sad") if is_prompt else ("monday", "moon", "tuesday")
    values = [each for each in known if each.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values))


changes = InMemorySubscriptionBus()
server = Server(
    "interop",
    version="1.2.3",
    instructions="Call anything.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_set_logging_level=set_level,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_subscriptions_listen=ListenHandler(changes),
)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        told = NotificationOptions(tools_changed=True)
        await server.run(reading, writing, server.create_initialization_options(told))


class Kept(EventStore):
    """What was sent on streams, so that they can be taken up again."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str:
        last = int(last_event_id)
        stream = self._events[last - 1][0]
        for number, (each, message) in enumerate(self._events[last:], last + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def app(form: str) -> Any:
    return server.streamable_http_app(
        stateless_http=form == "stateless",
        json_response=form == "json",
        event_store=Kept() if form == "stateful" else None,
        retry_interval=10,
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(app(sys.argv[2]))
    else:
        asyncio.run(main())
