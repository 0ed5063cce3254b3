"""The least that could answer over HTTP without ASGI: httptools on a protocol, no rules."""

import asyncio
import secrets
from typing import Any

import httptools
from bare import TOOLS, Response, encode, initialize, read_call, read_request

SESSIONS: set[bytes] = set()


class Connection(asyncio.Protocol):
    transport: Any

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if not self.body:
            return self.respond(b"200 OK", b"")
        request = read_request(self.body)
        if request.id is None:
            return self.respond(b"202 Accepted", b"")
        if request.method == "initialize":
            session = secrets.token_urlsafe(24).encode()
            SESSIONS.add(session)
            answer = encode(Response(request.id, initialize()))
            return self.respond(b"200 OK", answer, b"mcp-session-id: %b\r\n" % session)
        if self.headers.get(b"mcp-session-id") not in SESSIONS:
            return self.respond(b"404 Not Found", b"")
        call = read_call(request.params)
        return self.respond(b"200 OK", encode(Response(request.id, TOOLS[call.name](call))))

    def respond(self, status: bytes, body: bytes, more: bytes = b"") -> None:
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n%b"
            % (status, more, len(body), body)
        )


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


def run(port: int) -> None:
    import uvloop

    uvloop.run(_serve(port))
