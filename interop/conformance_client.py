"""The accord client that the official conformance suite looks at.

    python conformance_client.py [REVISION] URL

The suite says in MCP_CONFORMANCE_SCENARIO what it wants to see, and is the server at the URL.
Written with accord's public names alone.
"""

import asyncio
import json
import os
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from accord import Client, connect
from accord.auth import ClientKey, MemoryStore, OAuth
from accord.errors import AuthError
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


async def call_protected(client: Client) -> None:
    """Call a tool of a server that wants a token."""
    await list_tools(client)
    print(await client.call_tool("test-tool"))


def agree_in_browser(url: str) -> None:
    """Play a user who agrees in the browser: the suite redirects at once."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(url, timeout=TIMEOUT).read()


def issuer_of(url: str) -> str:
    """Return the issuer that a server names; the suite tells a secret, but not whose it is."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    document = json.load(opener.open(place, timeout=TIMEOUT))
    return str(document["authorization_servers"][0])


def oauth(scenario: str, url: str) -> OAuth:
    """Authorize as a scenario wants it; the suite tells in a variable what was agreed before."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    pem = context.get("private_key_pem")
    machine = scenario.startswith("auth/client-credentials")
    return OAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        issuer=issuer_of(url) if context.get("client_secret") else None,
        client_key=ClientKey(pem, algorithm=context.get("signing_algorithm")) if pem else None,
        client_metadata_url="https://conformance-test.local/client-metadata.json",
        grant="client_credentials" if machine else "authorization_code",
        store=MemoryStore(),
        open_browser=agree_in_browser,
        timeout=TIMEOUT,
    )


# Here the server never lets the client in, and what counts is how it takes that.
REFUSED = ("auth/scope-retry-limit", "auth/resource-mismatch")

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
    is_protected = scenario.startswith("auth/")
    work = call_protected if is_protected else SCENARIOS.get(scenario)
    if work is None:
        sys.exit(f"no such scenario: {scenario}")
    try:
        async with connect(
            url,
            revision=revision,
            on_elicit=accept_defaults,
            timeout=TIMEOUT,
            auth=oauth(scenario, url) if is_protected else None,
        ) as client:
            await work(client)
    except AuthError as error:
        if scenario not in REFUSED:
            raise
        print("refused, as it should be:", error)


if __name__ == "__main__":
    *pinned, url = sys.argv[1:]
    revision: Any = pinned[0] if pinned else None
    asyncio.run(main(os.environ["MCP_CONFORMANCE_SCENARIO"], url, revision))
