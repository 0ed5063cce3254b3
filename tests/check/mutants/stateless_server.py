"""A correct server over HTTP without a handshake, with arguments that headers repeat."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from accord import Context, Server, types
from accord.server import Header

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)

server: Server[Any] = Server(
    "stateless", version="1.0.0", revisions=["2026-07-28"], page_size=1, instructions="Ask."
)


@server.tool(title="Region", annotations=READS)
async def get_region(
    region: Annotated[str, Header("Region"), Meta(description="where")] = "eu-1",
    number: Annotated[int, Header("Number"), Meta(description="how many")] = 7,
    fast: Annotated[bool, Header("Fast"), Meta(description="how")] = True,
) -> str:
    """Tell about a region."""
    return f"{number} in {region}, {fast}"


@server.tool(title="Look", annotations=READS)
async def look(
    ctx: Context[Any], seconds: Annotated[float, Meta(ge=0, le=60, description="how long")] = 0.3
) -> str:
    """Look for it: takes its time, and tells how far it is."""
    for step in range(6):
        await asyncio.sleep(seconds / 6)
        await ctx.progress(step + 1, 6, message="looking")
    return "found"


@server.tool(title="Model", annotations=READS)
async def query_model(ctx: Context[Any]) -> str:
    """Ask the client's model, which it must have."""
    answer = await ctx.sample("A word.", max_tokens=5)
    return str(answer.model)


@server.resource("desk://rules", title="Rules", mime_type="text/plain")
async def rules() -> str:
    """What may be taken along."""
    return "two bags"


@server.prompt(title="Joke")
async def joke() -> str:
    """Tell a joke."""
    return "Tell a joke."
