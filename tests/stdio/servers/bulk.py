"""Sends and receives large messages."""

import time

from accord import Context, Server

server = Server("bulk")


@server.tool(inline=True)
def echo(text: str) -> str:
    """Return the argument."""
    return text


@server.tool(inline=True)
def size(text: str) -> int:
    """Return the length of the argument."""
    return len(text)


@server.tool(inline=True)
def much(size: int) -> str:
    """Return a long text."""
    return "x" * size


@server.tool
def much_in_thread(size: int) -> str:
    """The same in a thread."""
    return "x" * size


@server.prompt
def much_prompt(size: str) -> str:
    """The same as a prompt."""
    return "x" * int(size)


@server.tool
async def flood(ctx: Context, count: int, bytes: int) -> str:
    """Log much, waiting for the client."""
    for _ in range(count):
        await ctx.info("x" * bytes)
    return "done"


@server.tool
def flood_in_thread(ctx: Context, count: int, bytes: int) -> str:
    """The same in a thread."""
    for _ in range(count):
        ctx.info("x" * bytes)
    return "done"


@server.tool
async def flood_heedlessly(ctx: Context, count: int, bytes: int) -> str:
    """Log much without waiting for the client."""
    for _ in range(count):
        ctx.info("x" * bytes)
    return "done"


@server.tool
def nap() -> str:
    """Take a moment."""
    time.sleep(0.02)
    return "awake"


if __name__ == "__main__":
    server.run(grace=0.4)
