"""One HTTP request and its response, on the ASGI interface."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

from accord.bindings import headers as names
from accord.bindings import http, sse
from accord.protocol import codec
from accord.protocol.jsonrpc import ErrorBody
from accord.transports.http_session import HttpSession
from accord.transports.streams import Stream

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_JSON: Final = (b"content-type", b"application/json")
_SSE: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_PREFLIGHT_AGE: Final = b"600"


class HttpExchange:
    """One HTTP request and its response."""

    __slots__ = ("_app", "_receive", "_send", "head")

    def __init__(self, app: Any, head: http.Head, receive: Receive, send: Send) -> None:
        self._app = app
        self.head = head
        self._receive = receive
        self._send = send

    async def body(self, limit: int) -> bytes | None:
        """Read the body; None where the request was refused or is gone."""
        announced = self.head.headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced) > limit:
            await self.refuse(http.Refusal(413, f"body exceeds {limit} bytes (message_bytes)"))
            return None
        message = await self._next()
        if message is None:
            return None
        if not message.get("more_body"):
            whole: bytes = message.get("body", b"")
            if len(whole) <= limit:
                return whole
            await self._too_large(limit)
            return None
        chunks = [message.get("body", b"")]
        size = len(chunks[0])
        while message.get("more_body"):
            message = await self._next()
            if message is None:
                return None
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > limit:
                await self._too_large(limit)
                return None
        return b"".join(chunks)

    async def _too_large(self, limit: int) -> None:
        await self.refuse(http.Refusal(413, f"body exceeds {limit} bytes (message_bytes)"))

    async def _next(self) -> MutableMapping[str, Any] | None:
        try:
            async with asyncio.timeout(self._app.options.body_timeout):
                message = await self._receive()
        except TimeoutError:
            await self.refuse(http.Refusal(408, "the body did not arrive in time (body_timeout)"))
            return None
        return message if message["type"] == "http.request" else None

    def _headers(self, *more: tuple[bytes, bytes]) -> Headers:
        found = list(more)
        origin = self.head.headers.get("origin")
        if origin is not None and self._app.options.cors:
            found += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", b"Mcp-Session-Id, MCP-Protocol-Version"),
                (b"vary", b"Origin"),
            ]
        return found

    async def _respond(self, status: int, headers: Headers, body: bytes = b"") -> None:
        headers.append((b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def json(self, status: int, body: bytes, *, session: str | None = None) -> None:
        """Answer with one message."""
        headers = self._headers(_JSON)
        if session is not None:
            headers.append((names.SESSION.encode(), session.encode()))
        await self._respond(status, headers, body)

    async def empty(self, status: int) -> None:
        """Answer without a body."""
        await self._respond(status, self._headers())

    async def refuse(self, refusal: http.Refusal) -> None:
        """Answer with an error that says why."""
        body = codec.encode_error(None, ErrorBody(refusal.code, refusal.message))
        headers = self._headers(_JSON)
        headers += [(name.encode(), value.encode()) for name, value in refusal.headers]
        await self._respond(refusal.status, headers, body)

    async def health(self, *, is_ready: bool) -> None:
        """Say that the process lives, or that it takes requests."""
        body = b'{"status":"ok"}' if is_ready else b'{"status":"stopping"}'
        await self._respond(200 if is_ready else 503, self._headers(_JSON), body)

    async def preflight(self) -> None:
        """Answer a browser that asks whether it may."""
        if not self._app.options.cors:
            await self.refuse(
                http.Refusal(405, "CORS is off; see cors", headers=(("allow", http.ALLOWED),))
            )
            return
        asked = self.head.headers.get("access-control-request-headers", "*")
        await self._respond(
            204,
            self._headers(
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", asked.encode("latin-1")),
                (b"access-control-max-age", _PREFLIGHT_AGE),
            ),
        )

    async def stream(
        self,
        stream: Stream,
        *,
        session: str | None = None,
        first: bytes = b"",
        lasting: HttpSession | None = None,
    ) -> None:
        """Answer with an event stream, until it ends or the client is gone."""
        headers = self._headers(*_SSE)
        if session is not None:
            headers.append((names.SESSION.encode(), session.encode()))
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        first = first or (
            b"" if stream.store is None else sse.encode_retry(self._app.options.retry)
        )
        gone = asyncio.ensure_future(self._disconnected())
        following = asyncio.ensure_future(self._follow(stream, first, lasting))
        try:
            await asyncio.wait((gone, following), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            following.cancel()
            await asyncio.gather(gone, following, return_exceptions=True)

    async def _follow(self, stream: Stream, first: bytes, lasting: HttpSession | None) -> None:
        if first:
            await self._write(first)
        async for chunk in stream.follow(self._app.options.keep_alive):
            if lasting is not None:
                lasting.used = time.monotonic()
            await self._write(chunk)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _disconnected(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def resume(
        self, session: HttpSession, name: str, missed: Sequence[tuple[str, bytes]]
    ) -> None:
        """Send what was missed of a stream, and go on where it still lives."""
        replay = b"".join(
            sse.encode(data, name="message", id=event_id) for event_id, data in missed
        )
        live = session.standing if name == "s" else session.streams.get(name)
        if live is None:
            live = Stream(name, None)
            live.end()
        else:
            live.take()  # what is unread there is what was missed
        await self.stream(live, first=replay, lasting=session)
