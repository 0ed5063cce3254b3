"""Servers under test: a good one, and one that breaks the protocol on purpose."""

import os
from typing import Any

from accord import Server
from accord.types import CallToolResult, TextContent

print("printed at import")


def make() -> Server[Any]:
    server = Server("good", instructions="Be good.")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def where() -> int:
        """Say which process this is."""
        return os.getpid()

    @server.prompt
    def hello() -> str:
        """Say hello."""
        return "hello"

    return server


good = make()


def make_bad() -> Server[Any]:
    server = Server("bad")

    @server.tool
    def lie() -> CallToolResult:
        """Send structured content without the same in text."""
        return CallToolResult([TextContent("something else")], structured_content={"n": 1})

    return server
