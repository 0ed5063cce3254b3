"""The benchmarks' server, written with the high-level interface of the official SDK."""

import sys

from catalogue import add, add_plain, echo, fillers
from mcp.server import MCPServer
from mcp.server.mcpserver import Context


async def count(ctx: Context, to: int) -> int:
    """Count, and tell each step."""
    for step in range(1, to + 1):
        await ctx.report_progress(step)
    return to


def build(tools: int) -> MCPServer:
    # Its log lines per call are what a user would switch off first.
    server = MCPServer("official", log_level="ERROR")
    server.add_tool(add)
    server.add_tool(add_plain)
    server.add_tool(echo)
    server.add_tool(count)
    for name, function in fillers(tools):
        server.add_tool(function, name=name)
    return server


if __name__ == "__main__":
    build(int(sys.argv[1])).run()
