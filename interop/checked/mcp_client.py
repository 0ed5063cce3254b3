"""A plain program with the official Python SDK, as its users write it: python mcp_client.py URL."""

import asyncio
import sys
import warnings
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")


async def sample(_: Any, params: Any) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="hello")
    return types.CreateMessageResult(
        role="assistant", content=content, model="parrot", stop_reason="endTurn"
    )


async def elicit(_: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])


def transport(command: str, args: list[str]) -> Any:
    if command.endswith("/sse"):
        return sse_client(command)
    if command.startswith("http://"):
        return streamable_http_client(command)
    return stdio_client(StdioServerParameters(command=command, args=args))


async def main(command: str, args: list[str]) -> None:
    callbacks: dict[str, Any] = {
        "sampling_callback": sample,
        "elicitation_callback": elicit,
        "list_roots_callback": roots,
    }
    async with Client(transport(command, args), **callbacks) as client:
        session = client.session
        page = await session.list_tools()
        while page.next_cursor is not None:
            params = types.PaginatedRequestParams(cursor=page.next_cursor)
            page = await session.list_tools(params=params)
        await session.list_resources()
        await session.list_prompts()
        await session.call_tool("echo", {"text": "hello"})
        await session.read_resource("play://note")
        await session.get_prompt("greet", {"name": "Ada"})
        await session.send_ping()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
