"""A correct server whose requests need several rounds, for mutants of 2026-07-28.

It has questions in tools, prompts and resources; states that the next round needs; schemas with
keywords of 2020-12; and capabilities that it needs without looking for them. It has no templates:
completion takes a thread, which virtual time does not wait for.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from accord import Context, Server, types
from accord.errors import ElicitationRefused

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)

server: Server[Any] = Server("rounds", version="1.0.0", page_size=4, revisions=["2026-07-28"])


@dataclass
class Place:
    city: Annotated[str, Meta(description="where to", min_length=1, max_length=40)]


@dataclass
class Seat:
    row: Annotated[int, Meta(ge=1, le=40, description="from the front")]
    side: Literal["window", "aisle"] = "window"


@server.tool(annotations=READS)
async def get_itinerary(ctx: Context[Any], country: Literal["Peru", "Japan"] = "Peru") -> str:
    """Plan a journey: asks for the city, and then for the seat."""
    try:
        place = await ctx.elicit(f"Which city in {country}?", Place)
        seat = await ctx.elicit(f"Which seat to {place.city}?", Seat)
    except ElicitationRefused as refused:
        return refused.action
    return f"{country}, {place.city}, row {seat.row}"


@server.tool(annotations=READS)
async def get_ticket(ctx: Context[Any]) -> str:
    """Ask for the seat and the folders at the same time."""
    try:
        seat, roots = await asyncio.gather(ctx.elicit("Which seat?", Seat), ctx.roots())
    except ElicitationRefused as refused:
        return refused.action
    return f"row {seat.row}, {len(roots)} folders"


@server.tool(annotations=READS)
async def get_account(ctx: Context[Any]) -> str:
    """Send the user to a page, if the client can show one."""
    if "elicitation.url" not in ctx.client_capabilities:
        return "no account"
    try:
        await ctx.elicit_url("Link your account.", "https://bank.example/link")
    except ElicitationRefused as refused:
        return refused.action
    return "linked"


@server.tool(annotations=READS)
async def get_opinion(ctx: Context[Any], topic: str = "Lima") -> str:
    """Ask the client's model, whether it has one or not."""
    answer = await ctx.sample(f"One word about {topic}.", max_tokens=10)
    return answer.content.text if isinstance(answer.content, types.TextContent) else "fine"


@server.tool(annotations=READS)
async def count_bags(ctx: Context[Any], bags: Annotated[int, Meta(ge=0, le=9)] = 2) -> str:
    """Count bags: progress and log messages of several levels."""
    await ctx.debug("counting")
    await ctx.info("still counting")
    for step in range(bags):
        await ctx.progress(step + 1, bags)
    await ctx.log("error", {"bags": bags})
    return str(bags)


@server.tool(annotations=READS)
async def get_route(legs: tuple[str, int]) -> str:
    """Describe a leg of a route: its schema has prefixItems."""
    return f"{legs[0]} in {legs[1]} hours"


@dataclass
class Folder:
    name: str
    inside: list["Folder"] = field(default_factory=list)


@server.tool(annotations=READS)
async def count_folders(folder: Folder) -> str:
    """Count folders within folders: its schema refers to itself."""
    return str(1 + len(folder.inside))


@server.resource("desk://rules", mime_type="text/plain")
async def rules() -> str:
    """What may be taken along."""
    return "Two bags. No swords."


@server.resource("desk://lost", mime_type="text/plain")
async def lost() -> str:
    """What was lost: cannot be read."""
    raise LookupError("the drawer is stuck")


@server.resource("desk://seat", mime_type="text/plain")
async def chosen_seat(ctx: Context[Any]) -> str:
    """The seat that the user chooses."""
    seat = await ctx.elicit("Which seat is it?", Seat)
    return f"row {seat.row}"


@server.resource("desk://a")
async def one() -> str:
    """One more."""
    return "a"


@server.resource("desk://b")
async def two() -> str:
    """And one on the second page."""
    return "b"


@server.resource("file:///srv/desk/notes.txt", mime_type="text/plain")
async def notes() -> str:
    """A file, or so it seems."""
    return "nothing to declare"


@server.prompt
async def farewell(ctx: Context[Any]) -> str:
    """Say goodbye to a place that the user names."""
    place = await ctx.elicit("Which place?", Place)
    return f"Say goodbye to {place.city}."


if __name__ == "__main__":
    server.run()
