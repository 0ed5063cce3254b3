"""A reverse proxy between a client and a server that copies what passes.

Bodies pass byte for byte. Only hop-by-hop parts are changed: Host, the headers of one connection,
and an absolute URL in the `endpoint` event of HTTP with SSE, which would bypass the proxy.
Each request is assigned to a conversation, by its session or by what it shares with others.
"""

import asyncio
import contextlib
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from socket import socket
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from accord.errors import MissingExtra
from accord.http.client.sender import require_aiohttp
from accord.http.rules import headers as names
from accord.http.rules.addresses import LOOPBACK_HOSTS
from accord.http.rules.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.http.rules.stateless import VERSION_KEY
from accord.http.server.exchange import Receive, ResponseCut, Scope, Send
from accord.protocol.party import Bounded
from accord.testing.http_records import ExchangeRecorder, StreamNames
from accord.trace import HttpFacts, Party, Transport
from accord_tools.check.trace_check import opening_method
from accord_tools.watch.watcher import Copy, Watcher

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession


# Larger bodies pass without being judged.
_JUDGED_MOST: Final = 64 * 1024 * 1024
_CONNECTIONS: Final = 1_000


class ConversationIndex:
    """Finds the conversation of a request, by its session or by what it shares with others."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._older: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._plain: Bounded[str, str] = Bounded(_CONNECTIONS)
        self._sessions: Bounded[str, None] = Bounded(_CONNECTIONS)
        self._on_connection: Bounded[str, str] = Bounded(_CONNECTIONS)
        self._streams: Bounded[str, StreamNames] = Bounded(_CONNECTIONS)
        self._latest = ""

    def streams_of(self, session: str) -> StreamNames:
        """Return the streams of a session, which a client may resume."""
        return self._streams.setdefault(session, StreamNames())

    def assign(self, tap: "Tap", query: str, body: bytes, connection: str) -> None:
        """Assign a request to its conversation, as far as the request names it."""
        session = tap.headers.get(names.SESSION)
        tap.begun = lambda: self._note(tap, connection)
        older = self._older.get(query) or self._find_older(tap)
        if older is not None:
            tap.join(older)
        elif session:
            # An id that no server assigned, on the connection of a session: its client made it up.
            known = session if session in self._sessions else self._on_connection.get(connection)
            tap.join(known or session)
        elif opening_method(body) == "initialize":
            # Without a session each initialize starts a conversation; a session id renames it.
            tap.opened = lambda: self._begin_plain(tap, connection)
        elif VERSION_KEY in body:
            tap.fallback = self._latest
        else:
            tap.fallback = self._find_without_session(connection)

    def _find_without_session(self, connection: str) -> str:
        known = self._plain.get(connection) or self._on_connection.get(connection)
        if known is None and not self._latest and len(self._sessions) == 1:
            return next(iter(self._sessions))  # a client that leaves its session id out
        known = self._latest if known is None else known
        if known != self._latest and known not in self._sessions:
            # Two at once without session ids cannot be distinguished.
            self._watcher.drop(known)
            self._watcher.drop(self._latest)
        return known

    def _note(self, tap: "Tap", connection: str) -> None:
        """Remember the session of a connection."""
        if tap.assigned is not None:
            self._sessions[tap.assigned] = None
            self._on_connection[connection] = tap.assigned

    def _begin_plain(self, tap: "Tap", connection: str) -> str:
        self._latest = self._plain[connection] = f"without session {tap.number}"
        return self._latest

    def _find_older(self, tap: "Tap") -> str | None:
        """Return the only stream with this endpoint, for a client that leaves its query out."""
        found = [name for name, path in self._places.items() if path == tap.path]
        return found[0] if len(found) == 1 and tap.method != "GET" else None

    def begin_older(self, tap: "Tap", place: str) -> None:
        """Start the conversation of an SSE stream that names its endpoint."""
        tap.join(f"stream {tap.number}")
        tap.transport = "sse"
        query = place.partition("?")[2].partition("#")[0]
        if query:
            self._older[query] = tap.conversation
        with contextlib.suppress(ValueError):
            self._places[tap.conversation] = urlsplit(urljoin(tap.path, place)).path

    def end(self, tap: "Tap") -> None:
        """Forget the conversation of a stream that ended."""
        if tap.transport == "sse" and tap.method == "GET":
            self._places.pop(tap.conversation, None)
            self._older = {
                query: name for query, name in self._older.items() if name != tap.conversation
            }


class Tap:
    """Copies one request and its response."""

    def __init__(
        self, watcher: Watcher, scope: Scope, headers: Mapping[str, str], number: int
    ) -> None:
        self.method: str = scope["method"]
        self.path = path_of(scope)
        self.headers = headers
        self.number = number
        self.conversation = ""
        self.fallback = ""
        self.opened: Callable[[], str] | None = None
        self.begun: Callable[[], None] | None = None
        self.assigned: str | None = None
        self.transport: Transport = "http"
        self.is_stream = False
        self._scope = scope
        self._watcher = watcher
        self._recorder: ExchangeRecorder
        self._request: bytes | None = None
        self._head: tuple[int, dict[str, str]] | None = None
        self._held: list[bytes] = []
        self._size = 0
        self._unpacked: Any = None
        self._is_readable = True

    def join(self, conversation: str) -> None:
        """Assign this exchange to a conversation."""
        self.conversation = conversation
        if conversation.startswith("stream "):
            self.transport = "sse"

    def _take(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        now = self._watcher.now()
        copy = Copy(sender, data, now, facts, self.conversation, self.transport)
        self._watcher.take(copy)

    def request(self, body: bytes, streams: StreamNames, sent: Mapping[str, str]) -> None:
        """Copy a request; without a session it waits for the response, which may name one.

        Args:
            body: of the request.
            streams: those of its session.
            sent: the headers as the server gets them.
        """
        self._recorder = ExchangeRecorder(
            self._take,
            self.method,
            f"{self.method.lower()}-{self.number}",
            sent,
            path=self.path,
            query=self._scope["query_string"].decode("latin-1"),
            streams=streams,
        )
        self._request = body
        if self.conversation:
            self.begin()

    def begin(self) -> None:
        """Hand over the waiting request, then the head of its response; may be repeated."""
        body, self._request = self._request, None
        if body is not None:
            self._recorder.request(body or None)
        head, self._head = self._head, None
        if head is not None:
            self._recorder.head(*head)

    def response(self, response: "ClientResponse") -> None:
        """Record status and headers of the response."""
        said = join_headers(response.raw_headers)
        if response.status < 400:
            self.assigned = said.get(names.SESSION)
        if not self.conversation:
            self.conversation = said.get(names.SESSION) or (
                self.opened() if self.opened and response.status < 400 else self.fallback
            )
        if self.begun is not None:
            self.begun()
        self._head = (response.status, said)
        self.is_stream = names.media_type(said.get("content-type")) == CONTENT_TYPE
        if self.method != "GET" or not self.is_stream:
            self.begin()
        packing = said.get("content-encoding", "identity").lower()
        if packing in ("gzip", "deflate"):
            self._unpacked = zlib.decompressobj(wbits=47)
        elif packing not in ("", "identity"):
            self._give_up()

    def _give_up(self) -> None:
        """Let the rest pass without being judged, and count it."""
        self._is_readable = False
        self._held.clear()
        self.begin()
        self._watcher.drop(self.conversation)

    def hear(self, chunk: bytes) -> None:
        """Copy a chunk of the body."""
        if not self._is_readable:
            return
        try:
            if self._unpacked is not None:
                chunk = self._unpacked.decompress(chunk, _JUDGED_MOST)
            self._size += len(chunk)
            if self.is_stream:
                self.begin()
                self._recorder.feed(chunk)
            elif self._size > _JUDGED_MOST:
                self._give_up()
            else:
                self._held.append(chunk)
        except (zlib.error, EventTooLong):
            self._give_up()

    def end(self, party: Party = "server") -> None:
        """Copy a whole body that is not a stream, or the end of one that is."""
        self.begin()
        if not self._is_readable or self._recorder.status is None:
            return
        if self.is_stream:
            self._recorder.end(party)
        elif party == "server":
            self._recorder.body(b"".join(self._held), size=self._size)


def path_of(scope: Scope) -> str:
    """Return the path as the client wrote it, escapes included."""
    raw = scope.get("raw_path") or scope["path"].encode()
    return str(raw.decode("latin-1").partition("?")[0])


def join_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name; repeated ones are joined to a list, as HTTP allows."""
    made: dict[str, str] = {}
    for name, text in headers:
        key, said = name.decode("latin-1").lower(), text.decode("latin-1")
        made[key] = f"{made[key]}, {said}" if key in made else said
    return made


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
