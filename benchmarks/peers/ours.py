"""The benchmarks' server, written with accord."""

import sys

from catalogue import add, add_plain, echo, fillers

from accord import Context, Server


async def count(ctx: Context, to: int) -> int:
    """Count, and tell each step."""
    for step in range(1, to + 1):
        await ctx.progress(step)
    return to


def add_inline(a: int, b: int) -> int:
    """Add two numbers, on the loop."""
    return a + b


async def greet(ctx: Context) -> str:
    """Ask for a name, and greet."""
    name = await ctx.elicit("Your name?", str)
    return f"hello {name}"


def build(tools: int) -> Server:
    server = Server("ours")
    server.add_tool(add)
    server.add_tool(add_plain)
    server.add_tool(add_inline, inline=True)
    server.add_tool(echo)
    server.add_tool(count)
    server.add_tool(greet)
    for name, function in fillers(tools):
        server.add_tool(function, name=name)
    return server


if __name__ == "__main__":
    build(int(sys.argv[1])).run()
