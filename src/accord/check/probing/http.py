"""Lines to a server over HTTP: Streamable HTTP and the older two endpoints, and raw requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from errno import ECONNREFUSED
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec.structs import replace

from accord.bindings.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.check.probing.raw_carrier import AuthorizationRequired, ConnectionEnded, MessageTimeout
from accord.check.probing.raw_connection import RawConnection
from accord.errors import ConnectFailed, MissingExtra
from accord.protocol.revisions import REVISIONS
from accord.trace import HttpFacts

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

__all__ = ["HttpCarrier", "HttpReply", "SseCarrier"]

CONTENT_JSON: Final = "application/json"
ACCEPT: Final = f"{CONTENT_JSON}, {CONTENT_TYPE}"
_MOST: Final = 64 * 1024 * 1024
_CHUNK: Final = 64 * 1024
_CLOSING: Final = 2.0
# Servers close idle connections, some after 2 s. A request that meets such an end would look like a
# server that breaks.
_IDLE: Final = 1.0
_OK: Final = range(200, 300)
_UNAUTHORIZED: Final = 401
# One of a kind is proof enough.
_ODD: Final = 100
_LOCKED: Final = "the server asks for authorization (status 401)"


class HttpReply(msgspec.Struct, frozen=True):
    """The whole response to one raw request."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case."""
        return self.headers.get(name.lower())

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @property
    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (ValueError, RecursionError):
            return None

    def __str__(self) -> str:
        text = self.body[:120].decode(errors="replace")
        return f"status {self.status}, {self.content_type or 'no content type'}, {text!r}"


class _Web:
    """What both forms have in common: sending requests, taking down what travels."""

    takes_down = True

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.headers = dict(headers or {})
        self.line: RawConnection
        self._session: ClientSession
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = count(1)

    async def _open_session(self, line: RawConnection) -> None:
        try:
            import aiohttp
        except ImportError:
            raise MissingExtra("http", needed_for="checking over HTTP") from None
        self.line = line
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
            skip_auto_headers=("Accept", "Content-Type", "User-Agent", "Accept-Encoding"),
            raise_for_status=False,
            auto_decompress=True,
        )

    @asynccontextmanager
    async def response(
        self,
        method: str,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> "AsyncIterator[ClientResponse]":
        """Send a raw request with these headers alone and yield its response, head read.

        Raises:
            ConnectionEnded: there is no connection, or it broke.
            MessageTimeout: the head did not come in time.
        """
        import aiohttp

        wait = self.line.longest
        try:
            async with asyncio.timeout(wait) as limit:
                sent = await self._session.request(
                    method,
                    url or self.url,
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                )
                limit.reschedule(None)
        except TimeoutError:
            raise MessageTimeout(f"no response to HTTP {method} within {wait:.3g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise ConnectFailed(f"{self.url}: {_unreached(error)}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ConnectionEnded(
                f"the connection broke: {str(error) or type(error).__name__}"
            ) from None
        try:
            yield sent
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionEnded(
                f"the response broke off: {str(error) or type(error).__name__}"
            ) from None
        finally:
            sent.close()

    async def request(
        self,
        method: str,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpReply:
        """Send a raw request, apart from the conversation, and return the whole response.

        Of an event stream only what comes within the line's patience is read.
        """
        async with self.response(method, url=url, headers=headers, body=body) as response:
            held = bytearray()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.line.patience):
                    while len(held) < _MOST and (chunk := await response.content.read(_CHUNK)):
                        held += chunk
            return HttpReply(response.status, heads_of(response), bytes(held))

    async def events(
        self, response: "ClientResponse", patience: float | None = None
    ) -> AsyncIterator[Event]:
        """Yield the events of a stream as they come; ends with it, or after so much silence."""
        decoder = Decoder(_MOST)
        while True:
            try:
                async with asyncio.timeout(patience):
                    chunk = await response.content.read(_CHUNK)
            except TimeoutError:
                return
            if not chunk:
                return
            try:
                for event in decoder.feed(chunk):
                    yield event
            except EventTooLong:
                return

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # One request without an answer is told by who waits for it; others may be answered.
        if not isinstance(error, MessageTimeout):
            self.line.end(f"the server could not be heard: {error}")

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)

    def _take_down(
        self, data: bytes, headers: Mapping[str, str], stream: str | None = None
    ) -> None:
        facts = HttpFacts(method="POST", headers=headers, stream=stream)
        self.line.log.take("client", data, facts)


class HttpCarrier(_Web):
    """Streamable HTTP: every message a POST, answers as JSON or as events, a GET to listen.

    Attributes:
        session: the session id that the server gave.
        version: what is sent as MCP-Protocol-Version; None sends none.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(url, headers)
        self.session: str | None = None
        self.version: str | None = None
        self.statuses: list[int] = []
        self.listens: bool | None = None

    async def open(self, line: RawConnection) -> None:
        """Get ready; the first message makes the connection."""
        await self._open_session(line)

    def heads(self, **more: str) -> dict[str, str]:
        """Return the headers of a POST in this conversation."""
        made = {"content-type": CONTENT_JSON, "accept": ACCEPT, **self.headers}
        if self.session is not None:
            made["mcp-session-id"] = self.session
        if self.version is not None:
            made["mcp-protocol-version"] = self.version
        return made | {name.replace("_", "-"): value for name, value in more.items()}

    async def send(self, data: bytes) -> None:
        """Post a message; what it is answered with is heard while it comes."""
        headers = self.heads()
        stream = f"stream-{next(self._streams)}"
        self._take_down(data, headers, stream)
        begun = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._post(data, headers, begun, stream))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        waiting = asyncio.get_running_loop().create_task(begun.wait())
        try:
            # Until the head is there: messages arrive in the order they were sent.
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also where the sender is cancelled: nothing else would ever end it.
            waiting.cancel()
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _post(
        self, data: bytes, headers: dict[str, str], begun: asyncio.Event, stream: str
    ) -> None:
        async with self.response("POST", headers=headers, body=data) as response:
            self.statuses.append(response.status)
            given = response.headers.get("mcp-session-id")
            if given is not None and self.session is None:
                self.session = given
            if response.status == _UNAUTHORIZED:
                raise AuthorizationRequired(_LOCKED)
            begun.set()
            if response.status in _OK:
                await self._hear(response, HttpFacts(stream=stream))
                return
            body = await response.content.read(_MOST)
            facts = HttpFacts(status=response.status, headers=heads_of(response))
            self.line.receive_refusal(data, body, facts)

    def agree(self, revision: Any) -> None:
        """Take note of the revision that was agreed on."""
        row = REVISIONS.get(revision) if isinstance(revision, str) else None
        if row is not None and row.version_header:
            self.version = row.id

    def listen(self) -> None:
        """Listen for what belongs to no request, if the server offers it."""
        self._spawn(self._listen())

    async def _hear(self, response: "ClientResponse", facts: HttpFacts) -> None:
        facts = replace(facts, status=response.status, headers=heads_of(response))
        kind = response.content_type if "content-type" in response.headers else ""
        if kind == CONTENT_TYPE:
            async for event in self.events(response):
                if event.name == "message":
                    self.line.hear(event.data, facts)
            return
        body = await response.content.read(_MOST)
        if body.strip():
            self.line.hear(body, replace(facts, stream=None))

    async def _listen(self) -> None:
        headers = {name: value for name, value in self.heads().items() if name != "content-type"}
        headers["accept"] = CONTENT_TYPE
        with contextlib.suppress(ConnectionEnded, MessageTimeout):
            async with self.response("GET", headers=headers) as response:
                self.listens = response.status in _OK
                if self.listens:
                    stream = f"stream-{next(self._streams)}"
                    await self._hear(response, HttpFacts(method="GET", stream=stream))

    async def close(self) -> None:
        """End the session and all connections."""
        if not hasattr(self, "_session"):
            return
        await self._end_tasks()
        if self.session is not None:
            with contextlib.suppress(ConnectionEnded, MessageTimeout, ConnectFailed, TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await self.request("DELETE", headers=self.heads())
        await self._session.close()


class SseCarrier(_Web):
    """The older form: a stream that names the place to post to.

    Attributes:
        place: where messages are posted, as the endpoint event said.
        first: the first event of the stream.
        odd: events that are no messages, though the first is the endpoint's.
        is_locked: whether the stream was refused with status 401.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(url, headers)
        self.place: str | None = None
        self.first: Event | None = None
        self.odd: list[Event] = []
        self.statuses: list[int] = []
        self.is_locked = False
        self._ready = asyncio.Event()

    async def open(self, line: RawConnection) -> None:
        """Open the stream and wait for the endpoint event.

        Raises:
            ConnectFailed: there is none.
        """
        await self._open_session(line)
        self._spawn(self._listen())
        try:
            async with asyncio.timeout(line.longest):
                await self._ready.wait()
        except TimeoutError:
            pass
        if self.place is None:
            why = line.ended or "no endpoint event came"
            await self.close()
            if self.is_locked:
                raise AuthorizationRequired(_LOCKED)
            raise ConnectFailed(f"{self.url}: {why}")

    async def _listen(self) -> None:
        try:
            async with self.response(
                "GET", headers={"accept": CONTENT_TYPE, **self.headers}
            ) as response:
                if response.status not in _OK or response.content_type != CONTENT_TYPE:
                    self.is_locked = response.status == _UNAUTHORIZED
                    kind = (
                        response.content_type if "content-type" in response.headers else "nothing"
                    )
                    self.line.end(
                        f"HTTP GET is answered with status {response.status} and {kind},"
                        " not with a stream of events"
                    )
                    return
                facts = HttpFacts(
                    status=response.status, headers=heads_of(response), stream="stream-1"
                )
                async for event in self.events(response):
                    self._take(event, facts)
                self.line.end("the server ended its stream")
        finally:
            self._ready.set()

    def _take(self, event: Event, facts: HttpFacts) -> None:
        self.first = self.first or event
        if event.name == "endpoint" and self.place is None:
            self.place = urljoin(self.url, event.data.decode(errors="replace"))
            # The token goes there as well: neither to another host nor without TLS.
            if urlsplit(self.place)[:2] != urlsplit(self.url)[:2]:
                self.line.end("the endpoint event names another host")
            self._ready.set()
        elif event.name == "message":
            self.line.hear(event.data, facts)
        elif len(self.odd) < _ODD:
            self.odd.append(event)

    async def send(self, data: bytes) -> None:
        """Post a message to the place that the server named."""
        assert self.place is not None
        headers = {"content-type": CONTENT_JSON, **self.headers}
        self._take_down(data, headers)
        reply = await self.request("POST", url=self.place, headers=headers, body=data)
        self.statuses.append(reply.status)

    async def close(self) -> None:
        """End the stream."""
        if not hasattr(self, "_session"):
            return
        await self._end_tasks()
        await self._session.close()


def _unreached(error: OSError) -> str:
    """Say why nobody is reached, in words of the system rather than of a library."""
    return "nobody listens there" if error.errno == ECONNREFUSED else str(error.strerror or error)


def heads_of(response: "ClientResponse") -> dict[str, str]:
    """Return the headers of a response, names in lower case."""
    return {name.lower(): value for name, value in response.headers.items()}
