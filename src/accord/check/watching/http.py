"""Between a client and a server over HTTP: a reverse proxy whose bodies pass byte for byte.

Only what names a hop is changed: Host, the headers of one connection, and an absolute URL in the
`endpoint` event of the older form, which would lead around the proxy.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from accord.bindings import headers as names
from accord.bindings.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.check.watching.watcher import Copy, Watcher
from accord.errors import MissingExtra
from accord.trace import HttpFacts, Transport

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

__all__ = ["HttpProxy"]

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Of one connection alone; the proxy has two.
_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Bodies beyond this pass unjudged.
_JUDGED_MOST: Final = 64 * 1024 * 1024
_CHUNK: Final = 64 * 1024
_CONNECTING: Final = 10.0


class HttpProxy:
    """An ASGI app that passes requests on to a server and hands copies to a watcher.

    Args:
        url: of the server's endpoint; requests to any other path go to the same host.
        watcher: takes the copies.
        headers: added to every request, such as a token that the client does not have.
    """

    def __init__(
        self, url: str, watcher: Watcher, *, headers: Mapping[str, str] | None = None
    ) -> None:
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc.rpartition("@")[2]
        self._watcher = watcher
        self._more = {name.lower(): text for name, text in (headers or {}).items()}
        self._session: ClientSession | None = None
        self._older: dict[str, str] = {}
        self._count = 0

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._pass(scope, receive, send)

    async def _live(self, receive: _Receive, send: _Send) -> None:
        try:
            import aiohttp
        except ImportError:
            raise MissingExtra("http", needed_for="watching over HTTP") from None
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING),
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self._session:
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    # -- one request

    async def _pass(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        import aiohttp

        assert self._session is not None
        self._count += 1
        method: str = scope["method"]
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        body = await _body(receive)
        if body is None:
            return
        query = scope["query_string"].decode("latin-1")
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        tap = _Tap(self._watcher, method, headers, self._conversation(headers, query), self._count)
        tap.request(body)
        try:
            response = await self._session.request(
                method,
                _exact(f"{self._origin}{path}{'?' if query else ''}{query}"),
                headers=self._forwarded(headers),
                data=body or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            await _refuse(send, f"the server cannot be reached: {error}")
            return
        gone = asyncio.get_running_loop().create_task(_gone(receive))
        answer = asyncio.get_running_loop().create_task(self._answer(response, send, tap))
        try:
            await asyncio.wait({gone, answer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            answer.cancel()
            response.close()
            await asyncio.wait({gone, answer})
        broke = None if answer.cancelled() else answer.exception()
        if broke is not None:
            # The server broke off: so does the proxy, without an end that nobody sent.
            raise ConnectionError(f"the server broke off: {broke}")

    def _conversation(self, headers: Mapping[str, str], query: str) -> str:
        """Name the conversation of a request: its session, or the only one without."""
        return headers.get(names.SESSION) or self._older.get(query, "")

    def _forwarded(self, headers: Mapping[str, str]) -> dict[str, str]:
        listed = {each.strip().lower() for each in headers.get("connection", "").split(",")}
        kept = {
            name: text
            for name, text in headers.items()
            if name not in _HOP and name not in listed and name != "content-length"
        }
        return kept | {"host": self._host} | self._more

    async def _answer(self, response: "ClientResponse", send: _Send, tap: "_Tap") -> None:
        tap.response(response)
        listed = response.headers.get("connection", "").lower()
        head = [
            (name.lower().encode("latin-1"), text.encode("latin-1"))
            for name, text in response.headers.items()
            if name.lower() not in _HOP and name.lower() not in listed
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": head})
        is_older = tap.method == "GET" and tap.is_stream
        while chunk := await response.content.readany():
            if is_older:
                chunk, is_older = self._endpoint(chunk, tap), False
                tap.begin()
            tap.hear(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        tap.end()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _endpoint(self, chunk: bytes, tap: "_Tap") -> bytes:
        """Note the place to post to, and keep the client on this side of the proxy."""
        event = next(iter(_events(chunk)), None)
        if event is None or event.name != "endpoint":
            return chunk
        tap.transport = "sse"
        place = event.data.decode(errors="replace")
        query = urlsplit(urljoin(self._origin, place)).query
        tap.conversation = f"stream {tap.number}"
        if query:
            self._older[query] = tap.conversation
        return chunk.replace(self._origin.encode(), b"", 1) if place.startswith("http") else chunk


class _Tap:
    """Copies what one request and its response say."""

    def __init__(
        self,
        watcher: Watcher,
        method: str,
        headers: Mapping[str, str],
        conversation: str,
        number: int,
    ) -> None:
        self.method = method
        self.number = number
        self.conversation = conversation
        self.transport: Transport = "sse" if conversation.startswith("stream ") else "http"
        self.is_stream = False
        self._watcher = watcher
        self._headers = headers
        self._facts = HttpFacts(method=method, headers=headers)
        self._request: bytes | None = None
        self._held: list[bytes] = []
        self._size = 0
        self._unpacked: Any = None
        self._decoder = Decoder(_JUDGED_MOST)

    def _take(self, sender: Any, data: bytes | None, facts: HttpFacts) -> None:
        self._watcher.take(
            Copy(
                sender,
                data,
                self._watcher.now(),
                http=facts,
                conversation=self.conversation,
                transport=self.transport,
            )
        )

    def request(self, body: bytes) -> None:
        """Copy a request; one without a session waits, since it is the response that names it."""
        self._request = body
        if self.conversation:
            self.begin()

    def begin(self) -> None:
        """Hand over the request that waited; may be repeated."""
        body, self._request = self._request, None
        if body is not None:
            facts = HttpFacts(method=self.method, headers=self._headers)
            self._take("client", body or None, facts)

    def response(self, response: "ClientResponse") -> None:
        """Take note of the head of the response."""
        said = {name.lower(): text for name, text in response.headers.items()}
        self.conversation = self.conversation or said.get(names.SESSION, "")
        stream = f"{self.method.lower()}-{self.number}"
        self._facts = HttpFacts(self.method, response.status, said, stream)
        self.is_stream = names.media_type(said.get("content-type")) == CONTENT_TYPE
        if self.method != "GET" or not self.is_stream:
            self.begin()
        packing = said.get("content-encoding", "identity").lower()
        if packing in ("gzip", "deflate"):
            self._unpacked = zlib.decompressobj(wbits=47 if packing == "gzip" else zlib.MAX_WBITS)
        elif packing not in ("", "identity"):
            self._size = _JUDGED_MOST + 1  # cannot be read here: passes unjudged

    def hear(self, chunk: bytes) -> None:
        """Copy a part of the body."""
        self._size += len(chunk)
        if self._size > _JUDGED_MOST and not self.is_stream:
            self._held.clear()
            return
        if self._unpacked is not None:
            try:
                chunk = self._unpacked.decompress(chunk, _JUDGED_MOST)
            except zlib.error:
                return
        if not self.is_stream:
            self._held.append(chunk)
            return
        with contextlib.suppress(EventTooLong):
            for event in self._decoder.feed(chunk):
                if event.name == "message":
                    self._take("server", event.data, self._facts)

    def end(self) -> None:
        """Copy the whole of a body that is no stream."""
        self.begin()
        if self.is_stream:
            return
        body = b"".join(self._held)
        is_message = names.media_type(self._facts.header("content-type")) == "application/json"
        if self._facts.is_refusal and b'"jsonrpc"' not in body:
            is_message = False
        self._take("server", body if body.strip() and is_message else None, self._facts)


def _events(chunk: bytes) -> Iterable[Event]:
    with contextlib.suppress(EventTooLong):
        yield from Decoder(_CHUNK).feed(chunk)


def _exact(url: str) -> Any:
    """Keep a URL as the client wrote it, escapes included."""
    from yarl import URL

    return URL(url, encoded=True)


async def _body(receive: _Receive) -> bytes | None:
    """Read the body of a request; None where its sender is gone."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: _Send, why: str) -> None:
    error = {"code": -32000, "message": f"accord watch: {why}"}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 502, "headers": head})
    await send({"type": "http.response.body", "body": body})
