"""Gives, takes and asks what is too large in some way, under limits of its own."""

import asyncio
import sys
from typing import Any

import msgspec

from accord import Context, Limits, Server
from accord.types import CallToolResult, CreateMessageResult, SamplingMessage, TextContent

# Each payload is beyond one limit alone.
SMALL = Limits(message_bytes=100_000, depth=40, message_values=3_000)
LARGE = Limits(message_bytes=1_000_000, depth=400, message_values=100_000)


def payload(kind: str) -> Any:
    if kind == "message_bytes":
        return "x" * 150_000
    if kind == "message_values":
        return [*range(4_000)]
    value: Any = 0
    for _ in range(60):
        value = [value]
    return value


async def on_sample(params: Any) -> CreateMessageResult:
    """Answer with as much as the question names."""
    block = params.messages[0].content
    block = block[0] if isinstance(block, list) else block
    meta = {"example.com/value": payload(block.text)} if block.text else None
    return CreateMessageResult("assistant", TextContent("yes"), "tiny", meta=meta)


def make(limits: Limits, **settings: Any) -> Server[None]:
    server: Server[None] = Server("limited", limits=limits, **settings)
    gate = asyncio.Event()

    @server.tool
    async def hold() -> str:
        """Wait for `let_go`."""
        await gate.wait()
        gate.clear()
        return "held"

    @server.tool
    async def let_go() -> str:
        """End `hold`."""
        gate.set()
        return "let go"

    @server.tool
    async def give(kind: str) -> CallToolResult:
        """Return too much."""
        return CallToolResult([TextContent("")], structured_content={"value": payload(kind)})

    @server.tool
    async def take(value: Any) -> str:
        """Take too much."""
        return "taken"

    @server.tool
    async def ask(ctx: Context, question: str = "", answer: str = "") -> str:
        """Ask too much, or for too much."""
        meta = {"example.com/value": payload(question)} if question else None
        try:
            await ctx.sample(SamplingMessage("user", TextContent(answer, meta=meta)))
        except Exception as error:
            return str(error)
        return "answered"

    return server


if __name__ == "__main__":
    make(msgspec.json.decode(sys.argv[1], type=Limits)).run()
