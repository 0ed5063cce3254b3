"""The accord client that the official conformance suite looks at.

    python conformance_client.py [REVISION] URL

The suite says in MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT what it wants to see, and is
the server at the URL. Which revision it speaks is for the client to find out.
Written with accord's public names alone.
"""

import asyncio
import json
import os
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from accord import Client, connect
from accord.auth import (
    ClientKey,
    DpopKey,
    IdentityAssertion,
    MemoryStore,
    OAuth,
    WorkloadToken,
)
from accord.errors import AuthError
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    RevisionId,
    Root,
    TextContent,
)

# Shorter than the patience of the suite, so that an error says what did not come.
TIMEOUT = 10.0
# What was agreed before, or is to be done.
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


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


async def use_everything(client: Client) -> None:
    """Call every tool that the library shows, read every resource, get every prompt."""
    for tool in [each async for each in client.tools()]:
        print(await client.call_tool(tool.name, fill_in(tool.input_schema)))
    for resource in [each async for each in client.resources()]:
        print(await client.read_resource(resource.uri))
    for prompt in [each async for each in client.prompts()]:
        print(await client.get_prompt(prompt.name))


async def call_every_tool(client: Client) -> None:
    """Call every tool that the library shows."""
    for tool in [each async for each in client.tools()]:
        print(await client.call_tool(tool.name, fill_in(tool.input_schema)))


async def call_as_written(client: Client) -> None:
    """Make the calls that the suite has written down."""
    await list_tools(client)
    for call in CONTEXT["toolCalls"]:
        print(await client.call_tool(call["name"], call["arguments"]))


async def send_schema_back(client: Client) -> None:
    """Return the schema of a tool as it was received."""
    schemas = {tool.name: tool.input_schema async for tool in client.tools()}
    schema = schemas["json_schema_2020_12_tool"]
    print(await client.call_tool("json_schema_echo", {"schema": schema}))


async def answer_in_rounds(client: Client) -> None:
    """Call tools that ask first, with state and without, and some that do not."""
    for kind in ("echo_state", "unrelated", "no_state", "no_result_type"):
        print(await client.call_tool(f"test_mrtr_{kind}"))


def agree_in_browser(url: str) -> None:
    """Play a user who agrees in the browser: the suite redirects at once."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(url, timeout=TIMEOUT).read()


def issuer_of(url: str) -> str:
    """Return the issuer that a server names; older suites tell a secret, but not whose it is."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    document = json.load(opener.open(place, timeout=TIMEOUT))
    return str(document["authorization_servers"][0])


def oauth(scenario: str, url: str) -> OAuth:
    """Authorize as a scenario wants it."""
    issuer = CONTEXT.get("issuer")
    options: dict[str, Any] = {
        "client_id": CONTEXT.get("client_id"),
        "client_secret": CONTEXT.get("client_secret"),
        "issuer": issuer or (issuer_of(url) if "client_id" in CONTEXT else None),
        "client_metadata_url": "https://conformance-test.local/client-metadata.json",
    }
    return OAuth(
        **options | extension(scenario),
        store=MemoryStore(),
        open_browser=agree_in_browser,
        timeout=TIMEOUT,
    )


def extension(scenario: str) -> dict[str, Any]:
    """Return what an extension of authorization needs."""
    if scenario.startswith("auth/client-credentials"):
        pem = CONTEXT.get("private_key_pem")
        key = ClientKey(pem, algorithm=CONTEXT["signing_algorithm"]) if pem else None
        return {"grant": "client_credentials", "client_key": key}
    if scenario.startswith("auth/dpop"):
        return {"dpop": DpopKey()}
    if "idp_id_token" in CONTEXT:
        assertion = IdentityAssertion(
            CONTEXT["idp_id_token"],
            issuer=CONTEXT["idp_issuer"],
            client_id=CONTEXT["idp_client_id"],
        )
        return {"grant": "jwt_bearer", "assertion": assertion}
    if "valid_jwt" in CONTEXT:
        return {"grant": "jwt_bearer", "assertion": WorkloadToken(CONTEXT["valid_jwt"])}
    return {}


# Here no client may get in, and what counts is how it takes that.
REFUSED = {
    "auth/scope-retry-limit",
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
}

SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": agree,
    "tools_call": add_numbers,
    "elicitation-sep1034-client-defaults": elicit_defaults,
    "sse-retry": reconnect,
    "request-metadata": agree,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_written,
    "http-invalid-tool-headers": call_every_tool,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": send_schema_back,
    "sep-2322-client-request-state": answer_in_rounds,
}
EXAMPLES = {"string": "test", "integer": 1, "number": 1.5, "boolean": True}


def fill_in(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in a form: with its defaults, and where it has none with what is required."""
    fields = schema.get("properties", {})
    required = schema.get("required", fields)
    return {
        name: field.get("default", EXAMPLES.get(field.get("type")))
        for name, field in fields.items()
        if name in required or "default" in field
    }


def accept(asked: ElicitParams) -> dict[str, Any]:
    """Play a user who leaves a form as it is."""
    return fill_in(asked.requested_schema or {})


def sample(asked: CreateMessageParams) -> CreateMessageResult:
    """Play a model that says one thing."""
    return CreateMessageResult(role="assistant", content=TextContent("Yes."), model="test")


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
            on_elicit=accept,
            on_sample=sample,
            roots=[Root("file:///work")],
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
