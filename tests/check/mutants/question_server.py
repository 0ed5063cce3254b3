"""A correct server that asks in every way of 2025-11-25, if the client declared it."""

from typing import Annotated, Any

from msgspec import Meta

from accord import Context, Server, ToolError, types
from accord.errors import ElicitationRefused

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
LOOK = types.Tool("look", {"type": "object", "properties": {}, "required": []}, title="Look")

server: Server[Any] = Server("questions", version="1.0.0", title="Questions", instructions="Ask.")


def need(ctx: Context[Any], capability: str) -> None:
    if capability not in ctx.client_capabilities:
        raise ToolError(f'{{"error": "the client has no {capability}"}}')


def asks_by(ctx: Context[Any], mode: str) -> bool:
    """Return whether the client can be asked in a mode; one that names none has forms."""
    declared = ctx.client_capabilities
    has_none = not {"elicitation.form", "elicitation.url"} & set(declared)
    return f"elicitation.{mode}" in declared or (mode == "form" and has_none)


@server.tool(title="Seat", annotations=READS)
async def get_seat(ctx: Context[Any]) -> str:
    """Ask the user for a row."""
    need(ctx, "elicitation")
    if not asks_by(ctx, "form"):
        raise ToolError('{"error": "the client has no forms"}')
    try:
        row = await ctx.elicit("Which row?", Annotated[int, Meta(ge=1, le=40)])
    except ElicitationRefused as refused:
        return refused.action
    return f"row {row}"


@server.tool(title="Account", annotations=READS)
async def get_account(ctx: Context[Any]) -> str:
    """Ask the user to visit a page."""
    need(ctx, "elicitation")
    if not asks_by(ctx, "url"):
        raise ToolError('{"error": "the client opens no pages"}')
    try:
        await ctx.elicit_url("Link your account.", "https://desk.example/link")
    except ElicitationRefused as refused:
        return refused.action
    return "linked"


@server.tool(title="Late seat", annotations=READS)
async def get_late_seat(ctx: Context[Any]) -> str:
    """Ask the user for a row, as a task if the client keeps tasks."""
    need(ctx, "elicitation")
    if not asks_by(ctx, "form"):
        raise ToolError('{"error": "the client has no forms"}')
    keeps = "tasks.requests.elicitation.create" in ctx.client_capabilities
    row = await ctx.elicit("Which row?", Annotated[int, Meta(ge=1, le=40)], task=keeps)
    return f"row {row}"


@server.tool(title="Model", annotations=READS)
async def query_model(ctx: Context[Any]) -> str:
    """Ask the client's model, with a tool if it can use one."""
    need(ctx, "sampling")
    if "sampling.tools" not in ctx.client_capabilities:
        return str((await ctx.sample("A word.", max_tokens=5)).model)
    answer = await ctx.sample("A word.", max_tokens=5, tools=[LOOK])
    blocks = answer.content if isinstance(answer.content, list) else [answer.content]
    used = [block for block in blocks if isinstance(block, types.ToolUseContent)]
    if used:
        seen = [types.TextContent("seen")]
        results: list[Any] = [types.ToolResultContent(block.id, seen) for block in used]
        said = types.SamplingMessage("user", results)
        answer = await ctx.sample(["A word.", answer, said], max_tokens=5, tools=[LOOK])
    return str(answer.model)


@server.tool(title="Folders", annotations=READS)
async def list_folders(ctx: Context[Any]) -> list[str]:
    """List the client's folders."""
    need(ctx, "roots")
    return [root.uri for root in await ctx.roots()]
