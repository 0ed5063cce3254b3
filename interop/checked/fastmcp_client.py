"""A plain program with FastMCP, as its users write it: python fastmcp_client.py URL."""

import asyncio
import sys
import warnings
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

warnings.simplefilter("ignore")


async def sample(messages: Any, params: Any, context: Any) -> str:
    return "hello"


async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
    return ElicitResult(action="decline")


def transport(command: str, args: list[str]) -> Any:
    if command.endswith("/sse"):
        return SSETransport(command)
    if command.startswith("http://"):
        return StreamableHttpTransport(command)
    return StdioTransport(command, args)


async def main(command: str, args: list[str]) -> None:
    client: Any = Client(
        transport(command, args),
        sampling_handler=sample,
        elicitation_handler=elicit,
        roots=["file:///work"],
    )
    async with client:
        await client.list_tools()
        await client.list_resources()
        await client.list_prompts()
        await client.call_tool("echo", {"text": "hello"})
        await client.read_resource("play://note")
        await client.get_prompt("greet", {"name": "Ada"})
        await client.ping()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
