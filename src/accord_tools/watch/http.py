"""A reverse proxy between a client and a server that copies what passes.

Bodies pass byte for byte. Only hop-by-hop parts are changed: Host, the headers of one connection,
and an absolute URL in the `endpoint` event of HTTP with SSE, which would bypass the proxy.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from socket import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from accord.errors import MissingExtra
from accord.http.client.sender import require_aiohttp
from accord.http.rules import headers as names
from accord.http.rules.addresses import LOOPBACK_HOSTS
from accord.http.rules.sse import Decoder, Event, EventTooLong
from accord.http.server.exchange import Receive, ResponseCut, Scope, Send
from accord_tools.watch.http_conversations import ConversationIndex, Tap, join_headers, path_of
from accord_tools.watch.watcher import Watcher

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

# Hop-by-hop headers (RFC 9110, 7.6.1): the proxy has two connections.
_HOP: Final = frozenset(
    {
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_CHUNK: Final = 64 * 1024
_CONNECTING: Final = 10.0
# Some servers close idle connections after 2 s; a request sent at that moment would fail.
_IDLE: Final = 1.0
# Matches the whole header: userinfo, lists and other schemes could hide another origin.
_LOOPBACK_ORIGIN: Final = re.compile(
    r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?", re.IGNORECASE
)


@asynccontextmanager
async def serve_proxy(
    url: str,
    sockets: list[socket],
    watcher: Watcher,
    *,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[None]:
    """Pass requests on to a server within a block, and hand copies to a watcher.

    Args:
        url: of the server's endpoint; requests to any other path go to the same host.
        sockets: where clients connect; they are closed at the end.
        watcher: receives the copies.
        headers: added to every request, such as a token that the client does not have.

    Raises:
        MissingExtra: a package for HTTP is not installed.
    """
    require_aiohttp("http", "watching over HTTP")
    try:
        from accord.http.client.aiohttp_sender import open_session
        from accord.http.server.running import serve_asgi
    except ImportError:
        raise MissingExtra("http", needed_for="watching over HTTP") from None
    async with (
        open_session(connect=_CONNECTING, idle=_IDLE, is_raw=True, decompress=False) as session,
        serve_asgi(HttpProxy(url, watcher, session, headers or {}), sockets),
    ):
        yield


class HttpProxy:
    """An ASGI app that passes requests on to a server and hands copies to a watcher."""

    def __init__(
        self, url: str, watcher: Watcher, session: "ClientSession", headers: Mapping[str, str]
    ) -> None:
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc.rpartition("@")[2]
        self._watcher = watcher
        self._more = {name.lower(): text for name, text in headers.items()}
        self._session = session
        self._conversations = ConversationIndex(watcher)
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._pass(scope, receive, send)

    # -- one request

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        import aiohttp

        self._count += 1
        headers = join_headers(scope["headers"])
        refusal = _check_source(headers)
        if refusal:
            await _refuse(send, refusal, 403)
            return
        body = await _body(receive)
        if body is None:
            return
        query = scope["query_string"].decode("latin-1")
        tap = Tap(self._watcher, scope, headers, self._count)
        self._conversations.assign(tap, query, body, str(scope.get("client")))
        streams = self._conversations.streams_of(headers.get(names.SESSION, ""))
        tap.request(body, streams, {**headers, **self._more})
        loop = asyncio.get_running_loop()
        gone = loop.create_task(_wait_for_disconnect(receive))
        work = loop.create_task(self._exchange(scope, query, body, send, tap))
        try:
            await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                tap.end("client")
        finally:
            gone.cancel()
            work.cancel()
            await asyncio.wait({gone, work})
            self._conversations.end(tap)
        broke = None if work.cancelled() else work.exception()
        if isinstance(broke, aiohttp.ClientError | OSError):
            # The server broke off, so the proxy drops the connection as well.
            raise ResponseCut(f"the server broke off: {broke}")
        if broke is not None:
            raise broke

    async def _exchange(self, scope: Scope, query: str, body: bytes, send: Send, tap: Tap) -> None:
        import aiohttp
        from yarl import URL

        path = path_of(scope)
        try:
            response = await self._session.request(
                scope["method"],
                # As the client wrote it, escapes included.
                URL(f"{self._origin}{path}{'?' if query else ''}{query}", encoded=True),
                headers=self._forward_headers(scope["headers"]),
                data=body or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            await _refuse(send, f"the server cannot be reached: {error}")
            return
        try:
            await self._answer(response, send, tap)
        finally:
            # Not reused: unread bytes would be taken for the next response.
            response.close()

    def _forward_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
        """Return the headers of a request without those of the connection."""
        pairs = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in headers]
        listed = _connection_headers(text for name, text in pairs if name == "connection")
        left_out = {*_HOP, *listed, *self._more, "content-length", "host"}
        kept = [(name, text) for name, text in pairs if name not in left_out]
        return [("host", self._host), *kept, *self._more.items()]

    async def _answer(self, response: "ClientResponse", send: Send, tap: Tap) -> None:
        tap.response(response)
        left_out = {*_HOP, *_connection_headers(response.headers.getall("connection", []))}
        head = [(name.lower(), text) for name, text in response.raw_headers]
        head = [each for each in head if each[0].decode("latin-1") not in left_out]
        await send({"type": "http.response.start", "status": response.status, "headers": head})
        # The head leaves with it, although the body may have to be waited for.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        opening = self._make_opening(tap) if tap.method == "GET" and tap.is_stream else None
        while chunk := await response.content.readany():
            if opening is not None:
                chunk = opening.take(chunk)
                if opening.is_over:
                    opening = None
            if chunk:
                tap.hear(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if opening is not None and opening.held:
            tap.hear(opening.held)
            await send({"type": "http.response.body", "body": opening.held, "more_body": True})
        tap.end()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _make_opening(self, tap: Tap) -> "_FirstEvent":
        def take(event: Event | None) -> bytes | None:
            place = None
            if event is not None and event.name == "endpoint":
                place = event.data.decode(errors="replace")
                self._conversations.begin_older(tap, place)
            tap.begin()
            return None if place is None else self._inside(place)

        return _FirstEvent(take)

    def _inside(self, place: str) -> bytes | None:
        """Return the origin to remove from an endpoint, so that the client uses the proxy."""
        asked, own = _place(place), _place(self._origin)
        is_near = {asked[0], own[0]} <= LOOPBACK_HOSTS and asked[1] == own[1]
        if asked[0] is None or (asked != own and not is_near):
            return None
        scheme, _, rest = place.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}".encode()


class _FirstEvent:
    """The first event of a stream, held back until it is complete: it may name an endpoint."""

    def __init__(self, take: Callable[[Event | None], bytes | None]) -> None:
        self.held = b""
        self.is_over = False
        self._told = take

    def take(self, chunk: bytes) -> bytes:
        """Return the bytes that may pass; none before the event is complete."""
        self.held += chunk
        event = None
        with contextlib.suppress(EventTooLong):
            event = next(iter(Decoder(_CHUNK).feed(self.held)), None)
        # Between two events a stream ends with an empty line.
        is_whole = self.held.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
        if event is None and len(self.held) < _CHUNK and not is_whole:
            return b""
        out, self.held = self.held, b""
        if event is None and len(out) < _CHUNK:
            return out  # only comments so far: the event may follow
        self.is_over = True
        origin = self._told(event)
        return out if origin is None else out.replace(origin, b"", 1)


def _check_source(headers: Mapping[str, str]) -> str:
    """Return why a request is refused; empty if it comes from this machine.

    The proxy adds the user's token, and the server sees every request come from the proxy: neither
    a page at a name that resolves to loopback nor a page of another site may use it.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if _place(f"http://{host}")[0] not in LOOPBACK_HOSTS:
        return f"the Host is {host[:200]!r}, expected 127.0.0.1 or localhost"
    if origin is not None and not _LOOPBACK_ORIGIN.fullmatch(origin):
        return (
            f"the Origin is {origin[:200]!r}, expected none or that of a page on 127.0.0.1 or "
            "localhost: the watch adds its token to every request"
        )
    if origin is None and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        # Browsers send no Origin with a GET for a picture or a frame.
        return "a page of another origin asks for it"
    return ""


def _place(url: str) -> tuple[str | None, int | None]:
    """Return host and port of a URL; None if it is invalid or has no host."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None, None
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _connection_headers(texts: Iterable[str]) -> set[str]:
    """Return the headers that a Connection header names as hop-by-hop."""
    return {name.strip().lower() for text in texts for name in text.split(",")}


async def _body(receive: Receive) -> bytes | None:
    """Read the body of a request; None if the client disconnected."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send, why: str, status: int = 502) -> None:
    error = {"code": -32000, "message": f"accord watch: {why}"}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
