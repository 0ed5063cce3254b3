"""The benchmarks' server, written with FastMCP."""

import sys

from catalogue import add, add_plain, echo, fillers
from fastmcp import Context, FastMCP


async def count(ctx: Context, to: int) -> int:
    """Count, and tell each step."""
    for step in range(1, to + 1):
        await ctx.report_progress(step)
    return to


def build(tools: int) -> FastMCP:
    server = FastMCP("fast")
    server.tool(add)
    server.tool(add_plain)
    server.tool(echo)
    server.tool(count)
    for name, function in fillers(tools):
        server.tool(function, name=name)
    return server


if __name__ == "__main__":
    build(int(sys.argv[1])).run(show_banner=False, log_level="ERROR")
