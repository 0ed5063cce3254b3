"""The least that could answer over HTTP: msgspec and the ASGI interface; no rules, no library."""

import asyncio
import secrets
from typing import Any

from bare import TOOLS, Response, encode, initialize, listing, read_call, read_request

JSON = (b"content-type", b"application/json")
STREAM = (b"content-type", b"text/event-stream")


class App:
    def __init__(self, mode: str) -> None:
        self.streams = mode == "stream"
        self.stateless = mode == "sessionless"
        self.sessions: set[bytes] = set()
        self.listed = listing(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.lifespan(receive, send)
        if scope["method"] == "GET":
            return await self.listen(receive, send)
        if scope["method"] == "DELETE":
            return await self.respond(send, 200, [], b"")
        headers = dict(scope["headers"])
        message = await receive()
        body = message["body"]
        if message["more_body"]:
            chunks = [body]
            while message["more_body"]:
                message = await receive()
                chunks.append(message["body"])
            body = b"".join(chunks)
        request = read_request(body)
        more = []
        if request.method == "initialize":
            session = secrets.token_urlsafe(24).encode()
            self.sessions.add(session)
            more.append((b"mcp-session-id", session))
            result: Any = initialize()
        elif not self.stateless and headers.get(b"mcp-session-id") not in self.sessions:
            return await self.respond(send, 404, [], b"")
        elif request.id is None:
            return await self.respond(send, 202, [], b"")
        elif request.method == "tools/list":
            result = self.listed
        else:
            call = read_call(request.params)
            result = TOOLS[call.name](call)
        answer = encode(Response(request.id, result))
        if self.streams:
            event = b"event: message\ndata: %b\n\n" % answer
            return await self.respond(send, 200, [STREAM, *more], event)
        return await self.respond(send, 200, [JSON, *more], answer)

    async def respond(self, send: Any, status: int, headers: list[Any], body: bytes) -> None:
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def listen(self, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [STREAM]})
        await send({"type": "http.response.body", "body": b": open\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            await asyncio.sleep(0)

    async def lifespan(self, receive: Any, send: Any) -> None:
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
