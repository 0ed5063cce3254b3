"""A plugin that reports progress: a context parameter works here as anywhere."""

import random

from accord import Context


async def roll(ctx: Context, times: int = 2, sides: int = 6) -> list[int]:
    """Roll dice."""
    rolled = []
    for count in range(times):
        rolled.append(random.randint(1, sides))  # noqa: S311  # a game
        await ctx.progress(count + 1, times)
    return rolled
