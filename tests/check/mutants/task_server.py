"""A correct server whose tools can be called as tasks, seen by a user that it knows."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from accord import Context, Principal, Server, ToolError, types
from accord.errors import ElicitationRefused, RequestError
from accord.server.tasks import TaskSettings

READS = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)


@dataclass
class Film:
    title: Annotated[str, Meta(description="what it is called")]
    frames: Annotated[int, Meta(description="how long it is")]


def make_known() -> Any:
    """Return the server as a known user sees it, with a list of the user's tasks."""
    return make_server().acting_as(Principal("ada"))


def make_server() -> Server[Any]:
    """Return a server whose tools can be called as tasks; it has no tasks yet."""
    # Without a grace every call is a task, also one that ends at once.
    settings = TaskSettings(grace=0)
    server: Server[Any] = Server(
        "tasks", version="1.0.0", title="Tasks", instructions="Take time.", tasks=settings
    )

    @server.tool(title="Film", annotations=READS, task="optional")
    async def get_film(title: Annotated[str, Meta(description="which one")] = "sea") -> Film:
        """Get a film: quick, structured."""
        return Film(title, 24)

    @server.tool(title="Render", annotations=READS, task="optional")
    async def get_frames(
        ctx: Context[Any],
        seconds: Annotated[float, Meta(ge=0, le=60, description="how long it takes")] = 0.12,
    ) -> str:
        """Render frames: takes its time, and tells how far it is."""
        for frame in range(6):
            await asyncio.sleep(seconds / 6)
            await ctx.progress(frame + 1, 6, message="rendering")
        return "six frames"

    @server.tool(title="Lost film", annotations=READS, task="optional")
    async def find_lost_film(number: Annotated[int, Meta(ge=0, le=9)] = 1) -> str:
        """Find a lost film: never does."""
        await asyncio.sleep(0.01)
        raise ToolError(f'{{"error": "no film {number}"}}')

    @server.tool(title="Closed hall", annotations=READS, task="optional")
    async def view_hall() -> str:
        """View the hall: refused by an error of the protocol."""
        await asyncio.sleep(0.01)
        raise RequestError("the hall is closed", code=-31000)

    @server.tool(title="Choice", annotations=READS, task="required")
    async def get_choice(ctx: Context[Any]) -> str:
        """Ask the user which film it shall be, always as a task."""
        if "elicitation" not in ctx.client_capabilities:
            raise ToolError('{"error": "the client has no user"}')
        try:
            number = await ctx.elicit("Which film?", Annotated[int, Meta(ge=1, le=40)])
        except ElicitationRefused as refused:
            return refused.action
        await asyncio.sleep(0.12)
        return f"film {number}"

    @server.tool(title="Tickets", annotations=READS)
    async def count_tickets() -> str:
        """Count tickets: cannot be called as a task."""
        return "none"

    return server


def make_plain() -> Server[Any]:
    """Return a server without tasks."""
    plain: Server[Any] = Server("plain", version="1.0.0", title="Plain", instructions="Ask.")

    @plain.tool(title="Count", annotations=READS)
    async def count_plainly() -> str:
        """Count, without tasks."""
        return "three"

    return plain
