"""The first requests to a server: `initialize` without a token, and the first list."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from accord.http.client.sender import ConnectionCut, HttpClientOptions, NotSent
from accord.http.rules.headers import ACCEPT_BOTH, SESSION
from accord.protocol.revisions import HANDSHAKE

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

_BODY_LIMIT: Final = 4_096
_END_TIMEOUT: Final = 3.0


class OpeningExchange(NamedTuple):
    """An `initialize` request as it was sent, and its answer; the body only if it is a refusal."""

    sent_headers: Mapping[str, str]
    sent_body: bytes
    status: int
    headers: "CIMultiDictProxy[str]"
    body: bytes


async def post_initialize(url: str, headers: Mapping[str, str], *, client: str) -> OpeningExchange:
    """Send `initialize` to a URL, and end the session that it may open.

    Args:
        url: of the server.
        headers: sent beside the usual ones.
        client: the name of the client in the request.

    Raises:
        OSError: the request got no answer.
    """
    from accord.http.client.aiohttp_sender import AiohttpSender

    params = {
        "protocolVersion": [*HANDSHAKE][-1],
        "capabilities": {},
        "clientInfo": {"name": client, "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    data = msgspec.json.encode(message)
    sent = {"Accept": ACCEPT_BOTH, "Content-Type": "application/json", **headers}
    sender = AiohttpSender(HttpClientOptions(proxy=""), keeps_cookies=False)
    try:
        response = await sender.send("POST", url, sent, data)
        body = b"" if response.status < 300 else (await response.chunk())[:_BODY_LIMIT]
        response.close()
        if opened := response.header(SESSION):
            # The session is not used again; its end may be refused.
            with contextlib.suppress(NotSent, ConnectionCut, TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT):
                    (await sender.send("DELETE", url, {**sent, SESSION: opened})).close()
    except (NotSent, ConnectionCut) as error:
        raise OSError(None, str(error)) from None
    else:
        return OpeningExchange(sent, data, response.status, response.headers, body)
    finally:
        await sender.close()


async def ask_first_list(client: Any) -> tuple[str, str]:
    """Ask for the first list that the server offers, or ping it; return what was asked and came."""
    can = client.capabilities
    for method, offered, ask in (
        ("tools/list", can.tools, client.list_tools),
        ("resources/list", can.resources, client.list_resources),
        ("prompts/list", can.prompts, client.list_prompts),
    ):
        if offered is not None:
            page = await ask()
            count = len(getattr(page, method.partition("/")[0]))
            return method, f"{count} on the first page"
    await client.ping()
    return "ping", "an answer; it declares nothing to list"
