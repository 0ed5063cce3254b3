"""HTTP as a check speaks it: carriers of messages, and single requests with their raw responses.

The carriers speak Streamable HTTP and the older form with two endpoints; `exchange` sends any
request, valid or not.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec.structs import replace

from accord.errors import ConnectFailed
from accord.http.client.sender import ConnectionCut, HttpClientOptions, NotSent, require_aiohttp
from accord.http.rules.addresses import is_loopback
from accord.http.rules.headers import media_type
from accord.http.rules.request_headers import request_headers
from accord.http.rules.responses import quote_url
from accord.http.rules.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.protocol.mirroring import MirroredArgument
from accord.protocol.revisions import find_revision
from accord.protocol.verdict import Evidence
from accord.protocol.violation import OTHER
from accord.testing.http_records import ExchangeRecorder, StreamNames
from accord.trace import HttpFacts, Party
from accord.types import JsonObject
from accord_tools.check.probing.messages import is_request, is_same_id, objects_in
from accord_tools.check.probing.raw_connection import (
    AuthorizationRequired,
    ConnectionEnded,
    MessageTimeout,
    RawConnection,
)

if TYPE_CHECKING:
    from accord.http.client.aiohttp_sender import AiohttpResponse, AiohttpSender


CONTENT_JSON: Final = "application/json"
ACCEPT: Final = f"{CONTENT_JSON}, {CONTENT_TYPE}"
_LARGEST_BODY: Final = 64 * 1024 * 1024
_CLOSING: Final = 2.0
# Servers close idle connections, some after 2 s. A request that meets such an end would look like a
# server that breaks.
_IDLE: Final = 1.0
_OK: Final = range(200, 300)
_UNAUTHORIZED: Final = 401
# Further ones prove nothing new.
_ODD: Final = 100
_PORTS: Final = {"http": 80, "https": 443}
_LOCKED: Final = "the server asks for authorization (status 401)"


class _HttpBase:
    """The part that both forms share: sending requests, recording messages."""

    takes_down = True

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.headers = dict(headers or {})
        self.connection: RawConnection
        self._sender: AiohttpSender | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams = count(1)
        self._names = StreamNames()
        self.statuses: list[int] = []

    async def open(self, connection: RawConnection) -> None:
        """Get ready; the first message makes the connection."""
        require_aiohttp("http", "checking over HTTP")
        from accord.http.client.aiohttp_sender import AiohttpSender

        self.connection = connection
        self._sender = AiohttpSender(HttpClientOptions(proxy=""), idle=_IDLE, is_raw=True)

    @asynccontextmanager
    async def response(
        self,
        method: str,
        *,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> "AsyncIterator[AiohttpResponse]":
        """Send a raw request with these headers alone and yield its response, head read.

        Raises:
            ConnectFailed: there is no connection.
            ConnectionEnded: the connection broke.
            MessageTimeout: the head did not arrive in time.
        """
        assert self._sender is not None
        wait = self.connection.longest
        try:
            async with asyncio.timeout(wait) as limit:
                response = await self._sender.send(method, url or self.url, headers or {}, body)
                limit.reschedule(None)
        except TimeoutError:
            # The server may ask something on it all the same, and cancel that on another stream.
            self.connection.log.miss()
            raise MessageTimeout(f"no response to HTTP {method} within {wait:.3g} s") from None
        except NotSent as error:
            raise ConnectFailed(f"{quote_url(self.url)}: {error.reason}") from None
        except ConnectionCut as error:
            raise ConnectionEnded(f"the connection broke: {error}") from None
        try:
            yield response
        except ConnectionCut as error:
            self.connection.log.miss()
            raise ConnectionEnded(f"the response broke off: {error}") from None
        finally:
            response.close()

    async def request(
        self, method: str, *, url: str | None = None, headers: Mapping[str, str], body: bytes | None
    ) -> int:
        """Send a raw request, wait for the end of its response, and return the status.

        An event stream is read only for as long as the connection's patience.
        """
        async with self.response(method, url=url, headers=headers, body=body) as response:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.connection.patience):
                    await read_body(response)
            return response.status

    async def events(
        self, response: "AiohttpResponse", recorder: ExchangeRecorder
    ) -> AsyncIterator[Event]:
        """Record the events of a stream as they arrive, and yield them, until it ends."""
        with contextlib.suppress(EventTooLong):
            while chunk := await response.chunk():
                for event in recorder.feed(chunk):
                    yield event
            recorder.end("server")

    def _spawn(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        # A request without an answer is reported by its caller; others may be answered.
        if not isinstance(error, MessageTimeout):
            self.connection.end(f"the server could not be read: {error}")

    async def close(self) -> None:
        """End the session, if there is one, and all connections."""
        if self._sender is None:
            return
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING)
        with contextlib.suppress(ConnectionEnded, MessageTimeout, ConnectFailed, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._end_session()
        await self._sender.close()

    async def _end_session(self) -> None:
        pass

    def _recorder(
        self, method: str, headers: Mapping[str, str], url: str | None = None
    ) -> ExchangeRecorder:
        """Return what records one exchange: messages for the checker, the rest for the monitor."""
        parts = urlsplit(url or self.url)
        return ExchangeRecorder(
            self._take_record,
            method,
            f"stream-{next(self._streams)}",
            headers,
            path=parts.path or "/",
            query=parts.query,
            streams=self._names,
        )

    def _take_record(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        if data is None:
            self.connection.log.note(sender, facts)
        elif sender == "client":
            self.connection.log.take("client", data, facts)
        else:
            self.connection.receive(data, facts)


class HttpCarrier(_HttpBase):
    """Streamable HTTP: every message a POST, answers as JSON or as events, a GET to listen.

    Attributes:
        session: the session id that the server assigned.
        version: sent as MCP-Protocol-Version; None leaves the header out.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        mirrored: Mapping[str, tuple[MirroredArgument, ...]] | None = None,
    ) -> None:
        super().__init__(url, headers)
        self.session: str | None = None
        self.version: str | None = None
        self.listens: bool | None = None
        self._is_stateless = False
        self._mirrored = {} if mirrored is None else mirrored

    def heads(self, data: bytes = b"") -> dict[str, str]:
        """Return the headers of a POST in this conversation.

        Args:
            data: its body; without a handshake headers repeat parts of it.
        """
        made = {"content-type": CONTENT_JSON, "accept": ACCEPT, **self.headers}
        if self._is_stateless and data:
            # What cannot be decoded has nothing to repeat.
            with contextlib.suppress(ValueError, RecursionError):
                found = request_headers(data, lambda name: self._mirrored.get(name, ()))
                made |= {name.lower(): text for name, text in found.items()}
        if self.session is not None:
            made["mcp-session-id"] = self.session
        if self.version is not None:
            made.setdefault("mcp-protocol-version", self.version)
        return made

    async def send(self, data: bytes) -> None:
        """Post a message; its answer is read while it arrives."""
        headers = self.heads(data)
        recorder = self._recorder("POST", headers)
        recorder.request(data)
        begun = asyncio.Event()
        task = self._spawn(self._post(data, headers, begun, recorder))
        waiting = asyncio.get_running_loop().create_task(begun.wait())
        try:
            # Wait for the head, so that messages arrive in the order they were sent.
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Also when the sender is cancelled: nothing else would ever end it.
            waiting.cancel()
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _post(
        self, data: bytes, headers: dict[str, str], begun: asyncio.Event, recorder: ExchangeRecorder
    ) -> None:
        async with self.response("POST", headers=headers, body=data) as response:
            self.statuses.append(response.status)
            recorder.head(response.status, lower_headers(response))
            assigned = response.header("mcp-session-id")
            if assigned is not None and self.session is None and not self._is_stateless:
                self.session = assigned
            if response.status == _UNAUTHORIZED:
                recorder.body(b"")
                raise AuthorizationRequired(_LOCKED)
            begun.set()
            if response.status in _OK:
                await self._receive(response, recorder)
                return
            body = await read_body(response)
            self.connection.receive_refusal(data, body, replace(recorder.said, size=len(body)))

    def agree(self, revision: object) -> None:
        """Send the negotiated revision from now on."""
        row = find_revision(revision)
        if row is not None and row.version_header:
            self.version = row.id
        self._is_stateless = row is not None and not row.handshake

    def listen(self) -> None:
        """Open the stream for messages that belong to no request, if the server offers it."""
        self._spawn(self._listen())

    async def _receive(self, response: "AiohttpResponse", recorder: ExchangeRecorder) -> None:
        if recorder.is_stream:
            async for _ in self.events(response, recorder):
                pass
            return
        body = await read_body(response)
        facts = replace(recorder.said, size=len(body))
        if body.strip():
            self.connection.receive(body, facts)
        else:
            self.connection.log.note("server", facts)

    async def _listen(self) -> None:
        headers = self.heads() | {"accept": CONTENT_TYPE}
        del headers["content-type"]
        recorder = self._recorder("GET", headers)
        recorder.request(None)
        with contextlib.suppress(ConnectionEnded, MessageTimeout):
            async with self.response("GET", headers=headers) as response:
                self.listens = response.status in _OK
                recorder.head(response.status, lower_headers(response))
                if self.listens:
                    await self._receive(response, recorder)
                else:
                    recorder.body(b"")

    async def _end_session(self) -> None:
        if self.session is not None:
            await self.request("DELETE", headers=self.heads(), body=None)


class SseCarrier(_HttpBase):
    """The older form: a stream that names the place to post to.

    Attributes:
        place: where messages are posted, as the endpoint event said.
        first: the first event of the stream.
        odd: events that are not messages, except the first, which names the endpoint.
        in_bodies: messages in responses to POST, which belong on the stream.
        is_locked: whether the stream was refused with status 401.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(url, headers)
        self.place: str | None = None
        self.first: Event | None = None
        self.odd: list[Event] = []
        self.in_bodies: list[bytes] = []
        self.is_locked = False
        self._ready = asyncio.Event()

    async def open(self, connection: RawConnection) -> None:
        """Open the stream and wait for the endpoint event.

        Raises:
            ConnectFailed: it did not arrive.
        """
        await super().open(connection)
        self._spawn(self._listen())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(connection.longest):
                await self._ready.wait()
        if self.place is None:
            why = connection.ended or "no endpoint event arrived"
            await self.close()
            if self.is_locked:
                raise AuthorizationRequired(_LOCKED)
            raise ConnectFailed(f"{quote_url(self.url)}: {why}")

    async def _listen(self) -> None:
        try:
            headers = {"accept": CONTENT_TYPE, **self.headers}
            recorder = self._recorder("GET", headers)
            recorder.request(None)
            async with self.response("GET", headers=headers) as response:
                recorder.head(response.status, lower_headers(response))
                kind = media_type(response.header("content-type"))
                if response.status not in _OK or kind != CONTENT_TYPE:
                    self.is_locked = response.status == _UNAUTHORIZED
                    self.connection.end(
                        f"HTTP GET is answered with status {response.status} and "
                        f"{kind or 'nothing'}, not with a stream of events"
                    )
                    return
                async for event in self.events(response, recorder):
                    self._take(event)
                self.connection.end("the server ended its stream")
        finally:
            self._ready.set()

    def _take(self, event: Event) -> None:
        self.first = self.first or event
        if event.name == "endpoint" and self.place is None:
            self.place = urljoin(self.url, event.data.decode(errors="replace"))
            # The token goes there as well: neither to another host nor without TLS.
            if not is_own_place(self.url, self.place, self.headers):
                self.connection.end("the endpoint event names another host")
            self._ready.set()
        elif event.name != "message" and len(self.odd) < _ODD:
            self.odd.append(event)

    async def send(self, data: bytes) -> None:
        """Post a message to the place that the server named."""
        assert self.place is not None
        headers = {"content-type": CONTENT_JSON, **self.headers}
        recorder = self._recorder("POST", headers, self.place)
        recorder.request(data)
        async with self.response("POST", url=self.place, headers=headers, body=data) as response:
            recorder.head(response.status, lower_headers(response))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.connection.patience):
                    body = await read_body(response)
                    self.connection.log.note("server", replace(recorder.said, size=len(body)))
                    if b'"jsonrpc"' in body and len(self.in_bodies) < _ODD:
                        self.in_bodies.append(body)
            self.statuses.append(response.status)


def is_own_place(url: str, place: str, headers: Mapping[str, str]) -> bool:
    """Return whether a place is at the server of a URL, so that these headers may go there.

    Without headers, which may be secret, all names of this machine are alike.
    """
    one, other = urlsplit(url), urlsplit(place)
    try:
        ports = [each.port or _PORTS.get(each.scheme) for each in (one, other)]
    except ValueError:
        return False
    hosts = [each.hostname or "" for each in (one, other)]
    is_same_host = hosts[0] == hosts[1] or (not headers and all(map(is_loopback, hosts)))
    return one.scheme == other.scheme and ports[0] == ports[1] and is_same_host


async def read_body(response: "AiohttpResponse") -> bytes:
    """Read a body, up to a bound."""
    body = bytearray()
    while len(body) < _LARGEST_BODY and (chunk := await response.chunk()):
        body += chunk
    return bytes(body[:_LARGEST_BODY])


def lower_headers(response: "AiohttpResponse") -> dict[str, str]:
    """Return the headers of a response, names in lower case."""
    return {name.lower(): value for name, value in response.headers.items()}


_KEPT_BYTES: Final = 16 * 1024 * 1024
_EVENTS: Final = 100


class RawResponse:
    """The response to one request, as far as it was read.

    Attributes:
        status: its status.
        headers: its headers, names in lower case.
        body: the body, unless it is an event stream.
        messages: the JSON values in it, in order.
        names: of the events, in order.
        events: the first ones of a stream, as they came.
        ids: of the events, in order; also of those without data.
        comments: how many lines of the stream were comments.
        is_primed: whether the stream began with an id before any data.
        has_ended: whether the server ended it.
    """

    def __init__(self, connection: RawConnection, response: "AiohttpResponse") -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = lower_headers(response)
        self.body = b""
        self.messages: list[object] = []
        self.names: list[str] = []
        self.events: list[Event] = []
        self.ids: list[str] = []
        self.comments = 0
        self.is_primed = False
        self.has_ended = False
        self._connection = connection
        self._response = response
        self._decoder = Decoder(_KEPT_BYTES)
        self._facts = HttpFacts(status=self.status, headers=self.headers)

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return media_type(self.headers.get("content-type"))

    @property
    def is_ok(self) -> bool:
        """Whether the status says that it succeeded."""
        return 200 <= self.status < 300

    @property
    def is_stream(self) -> bool:
        """Whether it is an event stream."""
        return self.is_ok and self.content_type == CONTENT_TYPE

    @property
    def retry(self) -> int | None:
        """Milliseconds that the server asks to wait before coming back."""
        return self._decoder.retry

    @property
    def code(self) -> object:
        """The code of the first error among the messages; None without an error."""
        errors = [each.get("error") for each in self._flat()]
        return next((each.get("code") for each in errors if isinstance(each, dict)), None)

    def answers_to(self, id: object) -> list[JsonObject]:
        """Return the messages that answer a request."""
        return [
            each for each in self._flat() if "method" not in each and is_same_id(each.get("id"), id)
        ]

    def answers(self) -> list[JsonObject]:
        """Return the messages that answer anything."""
        return [
            each for each in self._flat() if "method" not in each and {"result", "error"} & {*each}
        ]

    def _flat(self) -> list[JsonObject]:
        return [each for message in self.messages for each in objects_in(message)]

    def evidence(self, asked: int) -> list[Evidence]:
        """Return the request, by the number of its record, and its answer."""
        request, *others = self._connection.log.evidence_since(asked)
        answer = list(takewhile(lambda each: each.party != request.party, others))
        if answer:
            return [request, *answer]
        # Without a body there is no record: the status is the evidence.
        return [request, Evidence("HTTP", OTHER[request.party], None, str(self))]

    # -- reading

    async def until(self, is_enough: Callable[["RawResponse"], bool], patience: float) -> bool:
        """Read until a condition holds, the response ends or so many seconds are over."""
        deadline = asyncio.get_running_loop().time() + patience
        while not is_enough(self):
            if self.has_ended or not await self._read(deadline):
                return is_enough(self)
        return True

    async def rest(self, seconds: float) -> None:
        """Read for so long, or to the end."""
        await self.until(lambda heard: heard.has_ended, seconds)

    async def _read(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline):
                chunk = await self._response.chunk()
        except TimeoutError:
            return False
        if not chunk:
            self.has_ended = True
            if not self.is_stream:
                self._take(self.body)
        elif self.is_stream:
            self._feed(chunk)
        elif len(self.body) < _KEPT_BYTES:
            self.body += chunk
        return True

    def _feed(self, chunk: bytes) -> None:
        # Line by line: of an event without data only the id can be seen.
        for part in chunk.splitlines(keepends=True):
            before = self._decoder.last_id
            self.comments += part.startswith(b":")
            try:
                for event in self._decoder.feed(part):
                    self.names.append(event.name)
                    if len(self.events) < _EVENTS:
                        self.events.append(event)
                    self._take(event.data)
                    if event.id is not None:
                        self.ids.append(event.id)
                        before = event.id
            except EventTooLong:
                self.has_ended = True
                return
            if self._decoder.last_id not in (None, before):
                self.ids.append(str(self._decoder.last_id))
                self.is_primed = self.is_primed or not self.names

    def _take(self, data: bytes) -> None:
        message = self._connection.log.take("server", data, self._facts)
        if message is not None:
            self.messages.append(message)

    def __str__(self) -> str:
        return f"status {self.status}" + (f", {self.content_type}" if self.content_type else "")


@asynccontextmanager
async def exchange(
    connection: RawConnection,
    message: object = None,
    *,
    method: str = "POST",
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    **changed: str | None,
) -> AsyncIterator[RawResponse]:
    """Send a request on behalf of a connection and yield its response, head read.

    Args:
        connection: an unjudged one over HTTP; gives the headers, and records the messages.
        message: bytes, or a value that is encoded as JSON.
        method: the method of HTTP.
        url: in place of the one of the connection.
        headers: in place of those of the connection.
        **changed: headers to set, or with None to leave out, with _ for -.

    Raises:
        ConnectFailed: there is no connection.
        ConnectionEnded: the connection broke.
        MessageTimeout: the head did not arrive in time.
        CallRefused: it calls a tool that may not be called, or not again.
    """
    connection.claim(message)
    carrier: HttpCarrier = connection.carrier
    body = message if isinstance(message, bytes | None) else msgspec.json.encode(message)
    sent = dict(carrier.heads(body or b"") if headers is None else headers)
    if method != "POST":
        sent.pop("content-type", None)
    for name, value in changed.items():
        sent.pop(name.replace("_", "-"), None)
        if value is not None:
            sent[name.replace("_", "-")] = value
    connection.log.take("client", body or b"", HttpFacts(method=method, headers=sent))
    asked = connection.log.count
    connection.proof = partial(connection.log.evidence_since, asked)
    async with carrier.response(method, url=url, headers=sent, body=body) as response:
        heard = RawResponse(connection, response)
        connection.proof = partial(heard.evidence, asked)
        yield heard


async def post_message(connection: RawConnection, message: object, **settings: Any) -> RawResponse:
    """Post a message and return its response, read until each request in it is answered."""
    async with exchange(connection, message, **settings) as heard:
        asked = [each["id"] for each in objects_in(message) if is_request(each)]
        if heard.is_stream:
            await heard.until(
                lambda heard: all(heard.answers_to(id) for id in asked), connection.patience
            )
        else:
            await heard.rest(connection.patience)
        return heard
