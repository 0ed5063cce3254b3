"""An HTTP server that can misbehave: the test chooses every byte of an answer."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

SESSION = "Mcp-Session-Id"
REASONS = {200: "OK", 202: "Accepted", 204: "No Content", 404: "Not Found", 405: "Not Allowed"}


class Request:
    """One request as received."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.message: Any = json.loads(body) if body else None

    @property
    def name(self) -> str:
        """The method of the message, or the HTTP method without a message."""
        if isinstance(self.message, list):
            return "response"
        return self.message.get("method", "response") if self.message else self.method

    @property
    def session(self) -> str | None:
        return self.headers.get("mcp-session-id")


class Reply:
    """The answer to a request, written piece by piece; `limit` cuts it after some bytes."""

    def __init__(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
        self._writer = writer
        self._reader = reader
        self.limit: int | None = None
        self.written = 0
        self.is_chunked = False

    def raw(self, data: bytes) -> None:
        if self.limit is not None:
            data = data[: max(self.limit - self.written, 0)]
        self.written += len(data)
        self._writer.write(data)

    def head(self, status: int, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw("\r\n".join([*lines, "", ""]).encode())

    def body(self, status: int, data: bytes, kind: str = "application/json", **more: str) -> None:
        self.head(status, Content_Type=kind, Content_Length=str(len(data)), **more)
        self.raw(data)

    def json(self, message: Any, *, status: int = 200, **headers: str) -> None:
        self.body(status, json.dumps(message).encode(), **headers)

    def result(self, request: Request, result: Any, **headers: str) -> None:
        self.json({"jsonrpc": "2.0", "id": request.message["id"], "result": result}, **headers)

    def empty(self, status: int, **headers: str) -> None:
        self.head(status, Content_Length="0", **headers)

    def stream(self, *, chunked: bool = True, **headers: str) -> None:
        """Begin an event stream."""
        self.is_chunked = chunked
        how = {"Transfer_Encoding": "chunked"} if chunked else {"Connection": "close"}
        self.head(200, Content_Type="text/event-stream", **how, **headers)

    def text(self, data: bytes) -> None:
        """Write a part of an event stream."""
        self.raw(b"%x\r\n%b\r\n" % (len(data), data) if self.is_chunked else data)

    def event(self, message: Any, **fields: Any) -> None:
        """Write an event; fields are id, event and retry."""
        data = message if isinstance(message, str) else json.dumps(message)
        lines = [f"{name}: {value}" for name, value in fields.items()]
        self.text("\n".join([*lines, f"data: {data}", "", ""]).encode())

    async def hung_up(self) -> None:
        """Wait until the client ends the connection, which resets it if something is unread."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(1):
                pass

    def end(self) -> None:
        """End an event stream."""
        if self.is_chunked:
            self.raw(b"0\r\n\r\n")
        else:
            self.close()

    def close(self) -> None:
        """End the connection in order."""
        self._writer.close()

    def abort(self) -> None:
        """End the connection by a reset."""
        self._writer.transport.abort()


Behaviour = Callable[[Request, Reply], Awaitable[None] | None]


class RawServer:
    """A server with a behaviour for each method of the protocol, and GET and DELETE.

    What a test does not choose is done rightly: sessions are made and known, `tools/call` echoes
    its arguments, GET is not offered.
    """

    def __init__(self, **behaviours: Behaviour) -> None:
        self.behaviours = {name.replace("__", "/"): call for name, call in behaviours.items()}
        self.requests: list[Request] = []
        self.sessions: set[str] = set()
        self.opened = 0
        self.capabilities: Any = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}
        self.revision: str | None = None
        self._server: asyncio.Server
        self._connections: set[asyncio.Task[Any]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def seen(self, name: str) -> list[Request]:
        return [request for request in self.requests if request.name == name]

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop, and forget all sessions."""
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self.sessions.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await self._read(reader)) is not None:
                self.requests.append(request)
                reply = Reply(writer, reader)
                outcome = self._behaviour(request)(request, reply)
                if outcome is not None:
                    await outcome
                await writer.drain()
                if reply.limit is not None and reply.written >= reply.limit:
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Request | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        pairs = (line.split(": ", 1) for line in lines if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(method, path, headers, body)

    def _behaviour(self, request: Request) -> Behaviour:
        chosen = self.behaviours.get(request.name)
        if chosen is not None:
            return chosen
        return {"initialize": self.initialize, "GET": self.no_stream}.get(request.name, self.usual)

    def initialize(self, request: Request, reply: Reply) -> None:
        self.opened += 1
        session = f"session-{self.opened}"
        self.sessions.add(session)
        reply.result(request, self.opening(request), **{SESSION: session})

    def opening(self, request: Request) -> Any:
        return {
            "protocolVersion": self.revision or request.message["params"]["protocolVersion"],
            "capabilities": self.capabilities,
            "serverInfo": {"name": "raw", "version": "1"},
        }

    def no_stream(self, request: Request, reply: Reply) -> None:
        reply.empty(405 if request.session in self.sessions else 404)

    def usual(self, request: Request, reply: Reply) -> None:
        if request.session not in self.sessions:
            reply.body(404, b"session not found", "text/plain")
        elif request.method == "DELETE":
            self.sessions.discard(request.session or "")
            reply.empty(204)
        elif request.name == "response" or "id" not in request.message:
            reply.empty(202)
        else:
            reply.result(request, self.result(request))

    def result(self, request: Request) -> Any:
        if request.name == "tools/call":
            said = json.dumps(request.message["params"]["arguments"])
            return {"content": [{"type": "text", "text": said}], "isError": False}
        return {"tools": []} if request.name == "tools/list" else {}


class OlderServer(RawServer):
    """A server of the two-endpoint form; its stream takes no POST."""

    def __init__(self, endpoint: str = "/messages?id={n}", **behaviours: Behaviour) -> None:
        super().__init__(**behaviours)
        self.endpoint = endpoint
        self.streams: dict[str, Reply] = {}
        self.behaviours.setdefault("GET", self.listen)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/sse"

    async def stop(self) -> None:
        await super().stop()
        self.streams.clear()

    async def listen(self, request: Request, reply: Reply) -> None:
        self.opened += 1
        path = self.endpoint.format(n=self.opened)
        self.streams[path] = reply
        reply.stream()
        reply.event(path, event="endpoint")
        await asyncio.sleep(60)

    def drop(self) -> None:
        """End all streams, and with them their sessions."""
        for stream in self.streams.values():
            stream.abort()
        self.streams.clear()

    def _behaviour(self, request: Request) -> Behaviour:
        if request.method == "GET":
            return self.behaviours["GET"]
        if request.path == "/sse":
            return lambda request, reply: reply.empty(405)
        return self.behaviours.get(request.name, self.take)

    def take(self, request: Request, reply: Reply) -> None:
        stream = self.streams.get(request.path)
        if stream is None:
            reply.body(404, b"no such session", "text/plain")
            return
        reply.empty(202)
        if "id" in request.message and "method" in request.message:
            opens = request.name == "initialize"
            result = self.opening(request) if opens else self.result(request)
            stream.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})


class StatelessServer(RawServer):
    """A server of revisions without handshake: every request stands on its own."""

    def __init__(self, **behaviours: Behaviour) -> None:
        super().__init__(**behaviours)
        self.tools: list[Any] = []

    def _behaviour(self, request: Request) -> Behaviour:
        chosen = self.behaviours.get(request.name)
        if chosen is not None:
            return chosen
        return self.usual if request.method == "POST" else lambda _, reply: reply.empty(405)

    def usual(self, request: Request, reply: Reply) -> None:
        reply.result(request, self.result(request))

    def result(self, request: Request) -> Any:
        common = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if request.name == "server/discover":
            return {
                **common,
                "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities,
                "_meta": {
                    "io.modelcontextprotocol/serverInfo": {"name": "raw", "version": "1"},
                },
            }
        if request.name == "tools/list":
            return {**common, "tools": self.tools}
        return {**common, **super().result(request)}

    def refuse(self, code: int, status: int = 400, **more: Any) -> Behaviour:
        """A behaviour: an error with a status."""

        def behave(request: Request, reply: Reply) -> None:
            error = {"code": code, "message": "refused", **more}
            message = {"jsonrpc": "2.0", "id": request.message["id"], "error": error}
            reply.json(message, status=status)

        return behave
