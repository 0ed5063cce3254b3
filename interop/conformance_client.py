"""The accord client that the official conformance suite looks at.

    python conformance_client.py [REVISION] URL

The suite says in MCP_CONFORMANCE_SCENARIO what it wants to see, and is the server at the URL.
Written with accord's public names alone.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from accord import Client, connect
from accord.types import ElicitParams, RevisionId

# Shorter than the patience of the suite, so that an error says what did not come.
TIMEOUT = 10.0


async def agree(client: Client) -> None:
    """Open the conversation and close it again: the suite offers nothing there."""
    print(client.revision, client.server_info)


async def list_tools(client: Client) -> None:
    """Look at what there is."""
    async for tool in client.tools():
        print(tool.name)


async def add_numbers(client: Client) -> None:
    """Call a tool with numbers."""
    await list_tools(client)
    print(await client.call_tool("add_numbers", {"a": 5, "b": 3}))


async def elicit_defaults(client: Client) -> None:
    """Call a tool that asks for what has defaults."""
    await list_tools(client)
    print(await client.call_tool("test_client_elicitation_defaults"))


async def reconnect(client: Client) -> None:
    """Call a tool whose answer comes after the stream was closed."""
    await list_tools(client)
    print(await client.call_tool("test_reconnection"))


SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": agree,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": elicit_defaults,
    "sse-retry": reconnect,
}


def accept_defaults(asked: ElicitParams) -> dict[str, Any]:
    """Fill in a form with its defaults."""
    fields = (asked.requested_schema or {}).get("properties", {})
    return {name: field["default"] for name, field in fields.items() if "default" in field}


async def main(scenario: str, url: str, revision: RevisionId | None) -> None:
    """Do what a scenario wants to see."""
    if scenario not in SCENARIOS:
        sys.exit(f"no such scenario: {scenario}")
    async with connect(
        url, revision=revision, on_elicit=accept_defaults, timeout=TIMEOUT
    ) as client:
        await SCENARIOS[scenario](client)


if __name__ == "__main__":
    *pinned, url = sys.argv[1:]
    revision: Any = pinned[0] if pinned else None
    asyncio.run(main(os.environ["MCP_CONFORMANCE_SCENARIO"], url, revision))
