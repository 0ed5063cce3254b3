"""Everything: most features of the protocol once, in one server, a small travel desk."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from accord import Context, Server, ToolError, types
from accord.errors import ElicitationRefused
from accord.server import Audio, DirectoryResource, Image, Proceed

CITIES = {"Peru": ["Cusco", "Lima"], "Japan": ["Kyoto", "Nara", "Osaka"], "Mali": ["Gao", "Mopti"]}
RULES = types.ResourceContents("desk://rules", mime_type="text/plain", text="Two bags. No swords.")
FOR_USERS = types.Annotations(audience=["user"], priority=0.9)
READ_ONLY = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
# One white pixel, and a moment of silence.
STAMP = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
CHIME = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA==")


Name = Annotated[str, "the traveller's name"]
City = Annotated[str, "a city to fly to", Meta(examples=["Lima", "Osaka"])]
Seconds = Annotated[float, Meta(ge=0, le=600, description="how long it takes")]


# -- state: made when the server starts, reached by ctx.state


@dataclass
class Desk:
    bookings: dict[str, str] = field(default_factory=dict)
    departed: int = 0
    waiting: int = 0
    gave_up: int = 0


@asynccontextmanager
async def open_desk(server: Server[Desk]) -> AsyncIterator[Desk]:
    desk = Desk()
    board = asyncio.create_task(update_board(server, desk))
    try:
        yield desk
    finally:
        board.cancel()


async def update_board(server: Server[Desk], desk: Desk) -> None:
    """Change the board now and then, and notify its subscribers."""
    while True:
        await asyncio.sleep(0.2)
        desk.departed += 1
        server.resource_updated("desk://departures")


# -- middleware: called around every request; ctx.get() finds its values by their type


class Started(float):
    """When a request arrived."""


async def measure(ctx: Context[Desk], proceed: Proceed) -> Any:
    ctx.put(Started(time.monotonic()))
    return await proceed()


server: Server[Desk] = Server(
    "everything",
    version="1.0.0",
    title="Travel desk",
    instructions="Look at the weather before you book.",
    lifespan=open_desk,
    middleware=[measure],
    page_size=6,
)


# -- tools: results of all kinds


@server.tool(inline=True)
def greet(name: Name) -> str:
    """Say hello: a string is text. Too quick for a thread, so it runs inline."""
    return f"Welcome to the travel desk, {name}."


@dataclass
class Weather:
    city: str
    celsius: float
    day: date | None = None


@server.tool(title="Weather", annotations=READ_ONLY, meta={"org.example/kind": "forecast"})
def weather(city: City, day: date | None = None) -> Weather:
    """Forecast the weather: a typed value has an output schema and is sent as structured content.

    Args:
        day: when, today if not given.
    """
    if not any(city in cities for cities in CITIES.values()):
        raise ToolError(f"no flights to {city}")
    return Weather(city, 14.0 + len(city), day)


@server.tool
def boarding_pass(name: Name) -> list[Any]:
    """Print a boarding pass: text, a picture, a sound, a link and an embedded resource."""
    return [
        types.TextContent(f"Pass of {name}", annotations=FOR_USERS),
        Image(STAMP),
        Audio(CHIME),
        types.ResourceLink("desk://departures", "departures", description="when you leave"),
        types.EmbeddedResource(RULES),
    ]


@server.tool
def whoami(ctx: Context[Desk]) -> dict[str, str | float | list[str]]:
    """Return what the server knows about its caller."""
    return {
        "client": ctx.client_info.name if ctx.client_info else "unknown",
        "revision": ctx.revision,
        "capabilities": sorted(ctx.client_capabilities),
        "seconds": time.monotonic() - ctx.get(Started),
    }


# -- tools: requests to the client


@dataclass
class Seat:
    row: Annotated[int, Meta(ge=1, le=40, description="from the front")]
    side: Literal["window", "aisle"] = "window"


@server.tool
async def book(ctx: Context[Desk], city: City) -> str:
    """Book a flight: elicitation asks the user, and the answer is a Seat."""
    try:
        seat = await ctx.elicit(f"Which seat to {city}?", Seat)
    except ElicitationRefused as refused:
        return f"No seat, no booking ({refused.action})."
    ctx.state.bookings[city] = f"row {seat.row}, {seat.side}"
    return f"Booked {city}, {ctx.state.bookings[city]}."


@server.tool
async def advise(ctx: Context[Desk], city: City) -> str:
    """Advise a traveller: sampling asks the client's model."""
    answer = await ctx.sample(f"One sentence about {city}.", max_tokens=100, temperature=0.5)
    return answer.content.text if isinstance(answer.content, types.TextContent) else "Beautiful!"


@server.tool
async def luggage(ctx: Context[Desk]) -> list[str]:
    """List the traveller's folders: roots."""
    return [root.name or root.uri for root in await ctx.roots()]


@server.on_roots_changed
async def note_new_roots(session: Any) -> None:
    server.resource_updated("desk://rules")


# -- tools: long work, progress, logging, cancellation


@server.tool
async def fly(ctx: Context[Desk], city: City, hops: Annotated[int, "landings"] = 3) -> str:
    """Fly somewhere: progress, and log messages at the level that the client chose."""
    await ctx.debug({"city": city, "hops": hops})
    for hop in range(hops):
        await asyncio.sleep(0.02)
        await ctx.progress(hop + 1, hops, message=f"over hop {hop + 1}")
    await ctx.log("notice", f"landed in {city}", logger="tower")
    return f"Landed in {city}."


@server.tool
async def queue(ctx: Context[Desk], seconds: Seconds = 60) -> str:
    """Stand in the queue: a cancelled async tool gets CancelledError."""
    ctx.state.waiting += 1
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        ctx.state.gave_up += 1
        raise
    return "It is your turn."


@server.tool(timeout=30)
def search(ctx: Context[Desk], seconds: Seconds = 60) -> str:
    """Search for lost luggage: a sync tool runs in a thread and looks at a flag."""
    ctx.state.waiting += 1
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ctx.is_cancelled:
        time.sleep(0.01)
    ctx.state.gave_up += ctx.is_cancelled
    return "Here it is."


# -- tools that are enabled and disabled: clients are notified that the list changed


@server.tool
def lounge() -> str:
    """Sit in the lounge, which is listed only while it is open."""
    return "Peanuts?"


server.tool_entries.disable("lounge")


@server.tool
def open_lounge(*, is_open: Annotated[bool, "False closes it"] = True) -> str:
    """Open or close the lounge."""
    switch = server.tool_entries.enable if is_open else server.tool_entries.disable
    switch("lounge")
    return f"The lounge is {'open' if is_open else 'closed'}."


# -- resources: text, bytes, JSON, files; a family of them by a template


@server.resource("desk://rules", annotations=FOR_USERS)
def rules() -> types.ResourceContents:
    """What travellers may take."""
    return RULES


@server.resource("desk://stamp.png", size=len(STAMP))
def stamp() -> bytes:
    """The stamp of the desk."""
    return STAMP


@server.resource("desk://departures", mime_type="application/json")
def departures(ctx: Context[Desk]) -> Desk:
    """The board, which changes by itself: subscribe to it."""
    return ctx.state


@server.resource("city://{country}/{city}")
async def about(country: str, city: str) -> str | None:
    """What the desk knows about a city; None is answered as not found."""
    return f"{city} is in {country}." if city in CITIES.get(country, []) else None


sources = DirectoryResource(Path(__file__).parent, "source://{+path}", pattern="*.py")
sources.publish(server.resource_entries)


# -- prompts: messages of both roles, in all kinds of content


@server.prompt(title="Plan a journey")
def plan(country: str, city: str, days: int = 3) -> str:
    """Plan a journey."""
    return f"Plan {days} days in {city}, {country}."


@server.prompt
def postcard(city: str) -> list[Any]:
    """Write a postcard, with everything that can be in a prompt."""
    return [
        ("user", f"A postcard from {city}, please. You may use the stamp and the chime."),
        ("user", Image(STAMP).content()),
        ("user", Audio(CHIME).content()),
        ("user", types.ResourceLink("desk://rules", "rules")),
        ("user", RULES),
        ("assistant", f"Dear all, {city} is"),
    ]


# -- completion: by the typed text, and by the arguments filled in so far

server.add_completion("plan", "country", list(CITIES))


@server.completion("city://{country}/{city}", "city")
@server.completion("plan", "city")
def cities(typed: str, filled_in: Mapping[str, str]) -> list[str]:
    return [city for city in CITIES.get(filled_in.get("country", ""), []) if city.startswith(typed)]


if __name__ == "__main__":
    server.run()
