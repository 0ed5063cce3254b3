"""What scenarios over HTTP share: a conversation of raw requests, and calls that may stream."""

import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from accord.check.probing.exchange import Heard, exchanging, posted
from accord.check.probing.raw_connection import CLIENT_INFO, RawConnection, next_id
from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.check.probing.probe import Probe

__all__ = [
    "INITIALIZED",
    "PERMISSION",
    "calls",
    "conversing",
    "end_session",
    "initialize",
    "is_loopback",
    "request",
]

INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PERMISSION: Final = "a permission of which the server made no use"
# A server behind a URL is somebody's: what a few calls do not show stays open.
_CALLS: Final = 8


def request(method: str, params: Any = None) -> dict[str, Any]:
    """Return a request with an id of its own."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": next_id(), "method": method}
    return message if params is None else message | {"params": params}


def initialize(revision: str) -> dict[str, Any]:
    """Return the request that opens a conversation, of a client that can do nothing."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
    return request("initialize", params)


@asynccontextmanager
async def conversing(
    probe: "Probe", *, revision: str | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[RawConnection]:
    """Open a conversation that is not judged and in which nobody listens yet.

    The client declares nothing, so that no tool asks it anything: nobody would answer.

    Raises:
        AccordError: the server opens none.
    """
    async with probe.open(is_judged=False, begins=False, headers=headers) as line:
        reply = await line.initialize(
            revision or probe.revision, capabilities={}, is_confirmed=False
        )
        if reply.is_error:
            raise AccordError(f"no conversation could be opened: {reply}")
        await posted(line, INITIALIZED)
        yield line


def calls(probe: "Probe") -> list[dict[str, Any]]:
    """Return calls of tools that may be called, each with a token for progress."""
    made = []
    for tool, arguments in probe.facts.callable_tools()[:_CALLS]:
        token = f"accord-check-{next_id()}"
        params = {"name": tool["name"], "arguments": arguments, "_meta": {"progressToken": token}}
        made.append(request("tools/call", params))
    return made


async def end_session(line: RawConnection, heard: Heard) -> None:
    """End the session that a raw request has opened, if it has."""
    given = heard.headers.get("mcp-session-id")
    if given is not None:
        proof = line.proof
        async with exchanging(line, method="DELETE", mcp_session_id=given):
            pass
        # What is judged next is the request that opened it.
        line.proof = proof


def is_loopback(url: str) -> bool:
    """Tell whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
