"""A plugin with a server of its own, which could also be run alone: `accord run dice.py`."""

import random
from typing import Annotated

from msgspec import Meta

from accord import Context, Server
from accord.types import ToolAnnotations

server = Server("dice")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def roll(
    ctx: Context,
    times: Annotated[int, Meta(ge=1, le=100)] = 2,
    sides: Annotated[int, Meta(ge=2, le=1000)] = 6,
) -> list[int]:
    """Roll dice; returns what each of them shows.

    Args:
        times: how many dice
        sides: how many sides each has
    """
    rolled = []
    for count in range(times):
        rolled.append(random.randint(1, sides))  # noqa: S311  # a game
        await ctx.progress(count + 1, times)
    return rolled
