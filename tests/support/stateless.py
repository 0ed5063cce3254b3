"""Requests of 2026-07-28 over HTTP, with the headers that repeat them."""

import json
from typing import Any

from accord.protocol.mirroring import encode_header, name_to_mirror
from support.asgi import Asgi, Exchange
from support.http_talk import text_of
from support.modern import REVISION, meta


def modern(method: str, id: Any = 1, *, capabilities: Any = None, **params: Any) -> dict[str, Any]:
    """A request; `_meta` may be given to send another one."""
    params = {"_meta": meta(capabilities), **params}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(tool: str, id: Any = 1, *, token: Any = None, **arguments: Any) -> dict[str, Any]:
    """A call of a tool; a token asks for progress."""
    made = modern("tools/call", id, name=tool, arguments=arguments)
    if token is not None:
        made["params"]["_meta"]["progressToken"] = token
    return made


def headers_of(message: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The headers that repeat a request; None leaves one out."""
    name = name_to_mirror(message["method"], message.get("params"))
    return {
        "mcp_protocol_version": REVISION,
        "mcp_method": message["method"],
        "mcp_name": None if name is None else encode_header(name),
        **changed,
    }


class Modern(Asgi):
    """A client that calls an app directly, each request with its headers."""

    def begin(self, message: dict[str, Any], **changed: Any) -> Exchange:
        """Send a request; it is under way."""
        body = json.dumps(message).encode()
        return self.start("POST", body, **headers_of(message, **changed))

    async def ask(self, message: dict[str, Any], **changed: Any) -> Exchange:
        """Send a request and wait for the response."""
        return await self.begin(message, **changed).done()

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return the text of its result."""
        response = await self.ask(call(tool, **arguments))
        assert response.status == 200, response.body
        return text_of(response.json)
