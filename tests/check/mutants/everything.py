"""A correct server with every feature, quick enough to be checked hundreds of times.

Its tools have names that a check finds safe to call, and its board changes by itself.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from accord import Context, Server, ToolError, types
from accord.errors import ElicitationRefused, RequestTimeout
from accord.server import Audio, Image

CITIES = {"Peru": ["Cusco", "Lima"], "Japan": ["Kyoto", "Nara", "Osaka"]}
RULES = types.ResourceContents("desk://rules", mime_type="text/plain", text="Two bags. No swords.")
READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
PIXEL = bytes.fromhex("89504e470d0a1a0a")
CHIME = b"RIFF&\x00\x00\x00WAVE"

City = Annotated[Literal["Lima", "Nara"], Meta(description="where to")]


@asynccontextmanager
async def opened(server: "Server[Any]") -> AsyncIterator[dict[str, int]]:
    board = {"departed": 0}
    logging.getLogger("everything").warning("the desk opens")
    task = asyncio.create_task(departing(server, board))
    try:
        yield board
    finally:
        task.cancel()


async def departing(server: "Server[Any]", board: dict[str, int]) -> None:
    while True:
        await asyncio.sleep(0.02)
        board["departed"] += 1
        server.resource_updated("desk://board")


server: Server[Any] = Server(
    "everything",
    version="1.0.0",
    title="Everything",
    instructions="Ask for anything.",
    lifespan=opened,
    page_size=3,
)


# -- tools


@dataclass
class Weather:
    city: Annotated[str, Meta(description="where")]
    celsius: Annotated[float, Meta(description="how warm")]


@server.tool(title="Health", annotations=READS)
async def health_status() -> str:
    """Tell that the server is well."""
    return "ok"


@server.tool(title="Weather", annotations=READS, meta={"org.example/kind": "forecast"})
async def get_weather(city: City) -> Weather:
    """Forecast the weather: structured, with a schema."""
    return Weather(city, 14.5)


@server.tool(title="Greeting", annotations=READS)
async def greet(name: Annotated[str, Meta(description="whom", min_length=1, max_length=40)]) -> str:
    """Say hello."""
    return f"hello {name}"


@server.tool(title="Pass", annotations=READS)
async def show_pass(city: City = "Lima") -> list[Any]:
    """Show every kind of content."""
    return [
        types.TextContent(f"to {city}", annotations=types.Annotations(["user"], 0.9)),
        Image(PIXEL),
        Audio(CHIME),
        types.ResourceLink("desk://rules", "rules", description="what to take"),
        types.EmbeddedResource(RULES),
    ]


@server.tool(title="Counting", annotations=READS)
async def count(
    ctx: Context[Any],
    steps: Annotated[int, Meta(ge=1, le=9, description="how many steps")] = 3,
) -> str:
    """Count aloud: progress and log messages."""
    await ctx.debug("counting")
    for step in range(steps):
        await asyncio.sleep(0)
        await ctx.progress(step + 1, steps, message=f"step {step + 1}")
    await ctx.log("warning", {"steps": steps}, logger="count")
    return str(steps)


@server.tool(title="Slow look", annotations=READS)
async def look(
    ctx: Context[Any],
    seconds: Annotated[float, Meta(ge=0, le=60, description="how long it takes")] = 0.12,
) -> str:
    """Look for it: takes its time, tells how far it is, and can be cancelled."""
    for step in range(6):
        await asyncio.sleep(seconds / 6)
        await ctx.progress(step + 1, 6, message="looking")
    return "found"


@server.tool(title="Find", annotations=READS)
async def find_suitcase(
    number: Annotated[int, Meta(ge=0, le=999, description="the number on its tag")],
) -> str:
    """Find a suitcase: never does."""
    raise ToolError(f'{{"error": "no suitcase {number}"}}')


@server.tool(title="Resolve", annotations=READS)
async def resolve(riddle: Annotated[str, Meta(description="what to think about")]) -> str:
    """Resolve a riddle: fails in an unexpected way."""
    raise LookupError(riddle)


@server.tool(title="Ask a model", annotations=READS)
async def query_model(
    ctx: Context[Any], topic: Annotated[str, Meta(description="what to write about")] = "Lima"
) -> str:
    """Ask the client's model."""
    if "sampling" not in ctx.client_capabilities:
        raise ToolError('{"error": "the client has no model"}')
    answer = await ctx.sample(f"One sentence about {topic}.", max_tokens=100)
    return answer.content.text if isinstance(answer.content, types.TextContent) else "beautiful"


@dataclass
class Seat:
    row: Annotated[int, Meta(ge=1, le=40, description="from the front")]
    side: Literal["window", "aisle"] = "window"


@server.tool(title="Choice", annotations=READS)
async def get_choice(ctx: Context[Any]) -> str:
    """Ask the user which seat it shall be."""
    if "elicitation" not in ctx.client_capabilities or ctx.revision < "2025-06-18":
        raise ToolError('{"error": "the client has no user"}')
    try:
        seat = await ctx.elicit("Which seat?", Seat)
    except ElicitationRefused as refused:
        return refused.action
    return f"row {seat.row}, {seat.side}"


@server.tool(title="Impatience", annotations=READS)
async def get_quick_answer(ctx: Context[Any]) -> str:
    """Ask the client's model, and do not wait for long."""
    if "sampling" not in ctx.client_capabilities:
        raise ToolError('{"error": "the client has no model"}')
    try:
        await ctx.sample("Quick: a word.", max_tokens=5, timeout=0.1)
    except RequestTimeout:
        return "too late"
    return "just in time"


@server.tool(title="Folders", annotations=READS)
async def list_folders(ctx: Context[Any]) -> list[str]:
    """List the client's folders."""
    if "roots" not in ctx.client_capabilities:
        raise ToolError('{"error": "the client has no folders"}')
    return [root.uri for root in await ctx.roots()]


@server.tool
async def lounge() -> str:
    """Sit in the lounge, which comes and goes."""
    return "peanuts"


server.tool_entries.disable("lounge")


@server.tool(title="Lists", annotations=READS)
async def view_changes(ctx: Context[Any]) -> str:
    """View how all lists change, and are soon as they were."""
    server.tool_entries.enable("lounge")
    server.tool_entries.disable("lounge")
    server.prompt_entries.enable("rare")
    server.prompt_entries.disable("rare")
    RESOURCES.enable("desk://rare")
    RESOURCES.disable("desk://rare")
    return "changed"


@server.tool(annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True))
async def delete_everything() -> str:
    """Delete everything: no check may call this."""
    raise AssertionError("a check called what destroys")


# -- resources


@server.resource("desk://rules", title="Rules", annotations=types.Annotations(["user"], 1))
async def rules() -> types.ResourceContents:
    """What may be taken along."""
    return RULES


@server.resource("desk://pixel.png", title="Pixel", mime_type="image/png", size=len(PIXEL))
async def pixel() -> bytes:
    """A small picture."""
    return PIXEL


@server.resource("desk://board", title="Board", mime_type="application/json")
async def board(ctx: Context[Any]) -> dict[str, int]:
    """The board, which changes by itself."""
    return dict(ctx.state)


@server.resource("desk://hours", title="Hours", mime_type="text/plain")
async def hours() -> str:
    """When the desk is open."""
    return "always"


@server.resource("desk://lost", title="Lost", mime_type="text/plain")
async def lost() -> str:
    """What was lost: cannot be read, for an unexpected reason."""
    raise LookupError("the drawer is stuck")


@server.resource("desk://rare", title="Rare", mime_type="text/plain")
async def rare_resource() -> str:
    """Listed now and then."""
    return "rare"


RESOURCES = server.resource_entries.registry_of("desk://rare")
RESOURCES.disable("desk://rare")


@server.resource("city://{country}/{city}", title="City", mime_type="text/plain")
async def about(country: str, city: str) -> str | None:
    """What the desk knows about a city."""
    return f"{city} is in {country}" if city in CITIES.get(country, []) else None


@server.resource("gate://{gate}", title="Gate", mime_type="text/plain")
async def gate(gate: str) -> str:
    """Where a gate is."""
    return f"gate {gate} is upstairs"


@server.resource("flight://{number}", title="Flight", mime_type="text/plain")
async def flight(number: str) -> str:
    """Where a flight is."""
    return f"flight {number} is late"


@server.resource("seat://{row}/{side}", title="Seat", mime_type="text/plain")
async def seat(row: str, side: str) -> str:
    """What a seat is like."""
    return f"row {row}, {side}: narrow"


# -- prompts and completion


@server.prompt(title="Plan")
async def plan(
    country: Annotated[str, Meta(description="the country")],
    city: Annotated[str, Meta(description="the city")],
    days: Annotated[int, Meta(description="how long")] = 3,
) -> str:
    """Plan a journey."""
    return f"Plan {days} days in {city}, {country}."


@server.prompt(title="Postcard")
async def postcard(city: Annotated[str, Meta(description="from where")]) -> list[Any]:
    """Write a postcard, with everything that can be in a prompt."""
    return [
        ("user", f"A postcard from {city}, please."),
        ("user", Image(PIXEL).content()),
        ("user", Audio(CHIME).content()),
        ("user", RULES),
        ("assistant", f"Dear all, {city} is"),
    ]


@server.prompt(title="Joke")
async def joke() -> str:
    """Tell a joke."""
    return "Tell a joke."


@server.prompt(title="Riddle")
async def riddle() -> str:
    """Ask a riddle."""
    return "Ask a riddle."


@server.prompt(title="Rare")
async def rare() -> str:
    """Listed now and then."""
    return "rare"


server.prompt_entries.disable("rare")
server.add_completion("plan", "country", list(CITIES))


@server.completion("city://{country}/{city}", "city")
@server.completion("plan", "city")
async def cities(typed: str, known: Mapping[str, str]) -> list[str]:
    return [city for city in CITIES.get(known.get("country", ""), []) if city.startswith(typed)]


if __name__ == "__main__":
    server.run()
