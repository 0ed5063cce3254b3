"""A server for a container: the environment chooses how it is served."""

import asyncio

from accord import Context, Server

server = Server("desk", instructions="Adds, and counts with progress.")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def count(ctx: Context, to: int, pause: float = 0.1) -> str:
    """Count with a pause before each step, and report progress."""
    for number in range(1, to + 1):
        await asyncio.sleep(pause)
        await ctx.progress(number, to)
    return f"counted to {to}"
