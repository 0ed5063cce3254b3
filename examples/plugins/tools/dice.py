"""A plugin with a server of its own, which could also be run alone: `accord run dice.py`."""

import random

from accord import Context, Server

server = Server("dice")


@server.tool
async def roll(ctx: Context, times: int = 2, sides: int = 6) -> list[int]:
    """Roll dice."""
    rolled = []
    for count in range(times):
        rolled.append(random.randint(1, sides))  # noqa: S311  # a game
        await ctx.progress(count + 1, times)
    return rolled
