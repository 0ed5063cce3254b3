"""Gives and takes as much as is asked for, within a limit."""

import sys

from accord import Limits, Server
from accord.errors import InvalidParams
from accord.types import CallToolResult, TextContent


def make(limit: int) -> Server[None]:
    server: Server[None] = Server("sizes", limits=Limits(message_bytes=limit))

    @server.tool
    def give(size: int) -> str:
        """Return a text."""
        return "x" * size

    @server.tool
    async def give_async(size: int) -> str:
        """Return a text from the loop."""
        return "x" * size

    @server.tool(inline=True)
    def give_inline(size: int) -> CallToolResult:
        """Return a text inline."""
        return CallToolResult([TextContent("x" * size)])

    @server.tool
    async def refuse(size: int) -> str:
        """Raise a large error."""
        raise InvalidParams("x" * size)

    @server.tool
    def take(text: str) -> int:
        """Measure a text."""
        return len(text)

    @server.resource("text://{size}")
    def text(size: int) -> str:
        """Return a text."""
        return "x" * size

    @server.prompt
    async def words(size: str) -> str:
        """Return a text."""
        return "x" * int(size)

    return server


if __name__ == "__main__":
    make(int(sys.argv[1])).run()
