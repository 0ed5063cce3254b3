"""Raw messages over HTTP: each request with the headers that a person chose."""

import asyncio
import contextlib
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from accord.errors import ConnectFailed
from accord.http.client.sender import (
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    require_aiohttp,
)
from accord.http.rules.request_headers import request_headers
from accord.http.rules.responses import quote_url
from accord.http.rules.sse import CONTENT_TYPE, EventTooLong
from accord.protocol.revisions import find_revision
from accord.testing.http_records import ExchangeRecorder, StreamNames
from accord.trace import HttpFacts, Party, Transport
from accord_tools.check.probing.http_exchange import (
    ACCEPT,
    CONTENT_JSON,
    is_own_place,
    lower_headers,
    read_body,
)
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.raw.lines import (
    HeaderChanges,
    HttpMethod,
    LineListener,
    TaskSet,
    change_headers,
)

if TYPE_CHECKING:
    from accord.http.client.aiohttp_sender import AiohttpResponse, AiohttpSender

EXCHANGES_MOST: Final = 100
"""The requests that may be under way at the same time."""
# Of a body that is not a message, so much is shown.
_BODY_SHOWN: Final = 16 * 1024
_CLOSING: Final = 2.0
_OPENING: Final = 15.0
_OK: Final = range(200, 300)


class HttpLine:
    """Streamable HTTP: each message is a request of its own."""

    def __init__(self, url: str, headers: Mapping[str, str], listener: LineListener) -> None:
        self.transport: Transport = "http"
        self.url = url
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._listener = listener
        self._sender: AiohttpSender | None = None
        self._tasks = TaskSet()
        self._numbers = count(1)
        self._streams = StreamNames()
        self._session: str | None = None
        self._version: str | None = None
        self._is_stateless = False
        self._problem = ""

    async def open(self) -> None:
        """Get ready; the first message makes the connection."""
        require_aiohttp("http", "raw messages over HTTP")
        from accord.http.client.aiohttp_sender import AiohttpSender

        self._sender = AiohttpSender(HttpClientOptions(), is_raw=True)

    def agree(self, revision: str) -> None:
        """Send the headers that a revision asks for, from now on."""
        row = find_revision(revision)
        if row is not None:
            self._is_stateless = not row.handshake
            self._version = row.id if row.version_header else None

    def _usual_headers(self, data: bytes, method: HttpMethod) -> dict[str, str]:
        if method == "POST":
            made = {"content-type": CONTENT_JSON, "accept": ACCEPT}
        else:
            made = {"accept": CONTENT_TYPE} if method == "GET" else {}
        made |= self._headers
        if self._is_stateless and data:
            # A text that is not a request has nothing to repeat.
            with contextlib.suppress(ValueError, RecursionError):
                found = request_headers(data, lambda _: ())
                made |= {name.lower(): text for name, text in found.items()}
        if self._session is not None and not self._is_stateless:
            made["mcp-session-id"] = self._session
        if self._version is not None:
            made.setdefault("mcp-protocol-version", self._version)
        return made

    async def send(
        self, data: bytes, headers: HeaderChanges = (), method: HttpMethod = "POST"
    ) -> None:
        """Begin a request; its answer is observed while it arrives."""
        if len(self._tasks) >= EXCHANGES_MOST:
            raise ActionRefused(
                f"{EXCHANGES_MOST} requests are under way; wait, or close the connection"
            )
        sent = change_headers(self._usual_headers(data, method), headers)
        body = data if data or method == "POST" else None
        self._tasks.spawn(self._exchange(method, self._place, sent, body))

    @property
    def _place(self) -> str:
        return self.url

    async def _exchange(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> None:
        assert self._sender is not None
        exchange = _Exchange(self._listener)
        parts = urlsplit(url)
        recorder = ExchangeRecorder(
            exchange.take,
            method,
            f"raw-{next(self._numbers)}",
            headers,
            path=parts.path or "/",
            query=parts.query,
            streams=self._streams,
        )
        recorder.request(body)
        try:
            response = await self._sender.send(method, url, headers, body)
        except (NotSent, ConnectionCut) as error:
            self._report(f"{method} {quote_url(url)}: {error}")
            return
        try:
            await self._read(response, recorder, exchange)
        except ConnectionCut as error:
            self._report(f"the answer to {method} broke off: {error}")
        finally:
            response.close()

    def _report(self, problem: str) -> None:
        self._problem = problem
        self._listener.report(problem)

    async def _read(
        self, response: "AiohttpResponse", recorder: ExchangeRecorder, exchange: "_Exchange"
    ) -> None:
        recorder.head(response.status, lower_headers(response))
        assigned = response.header("mcp-session-id")
        if assigned is not None and self._session is None and response.status in _OK:
            self._session = assigned
        if response.status not in _OK:
            self._problem = f"the server answered with status {response.status}"
        if not recorder.is_stream:
            exchange.body = await read_body(response)
            recorder.body(exchange.body, size=len(exchange.body))
            return
        try:
            while chunk := await response.chunk():
                for event in recorder.feed(chunk):
                    self._on_event(event.name, event.data)
        except EventTooLong as error:
            self._listener.report(f"an event was too long: {error}")
            return
        recorder.end("server")
        self._on_stream_end()

    def _on_event(self, name: str, data: bytes) -> None:
        """Look at an event; only the older form gives some a meaning."""

    def _on_stream_end(self) -> None:
        """Note the end of a stream; only the older form has one that matters."""

    async def close(self) -> None:
        """End the session, if the server began one, and all connections."""
        if self._sender is None:
            return
        await self._tasks.cancel(_CLOSING)
        if self._session is not None:
            headers = self._usual_headers(b"", "DELETE")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await self._exchange("DELETE", self.url, headers, None)
        await self._sender.close()


class SseLine(HttpLine):
    """The older form: a stream that names the place to post to."""

    def __init__(self, url: str, headers: Mapping[str, str], listener: LineListener) -> None:
        super().__init__(url, headers, listener)
        self.transport = "sse"
        self._endpoint: str | None = None
        self._ready = asyncio.Event()

    async def open(self) -> None:
        """Open the stream and wait for the place that it names.

        Raises:
            ConnectFailed: it did not arrive.
        """
        await super().open()
        headers = {"accept": CONTENT_TYPE, **self._headers}
        stream = self._tasks.spawn(self._exchange("GET", self.url, headers, None))
        stream.add_done_callback(lambda _: self._ready.set())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPENING):
                await self._ready.wait()
        if self._endpoint is None:
            await self.close()
            why = self._problem or "no endpoint event arrived"
            raise ConnectFailed(f"{quote_url(self.url)}: {why}")

    @property
    def _place(self) -> str:
        return self._endpoint or self.url

    def _on_event(self, name: str, data: bytes) -> None:
        if name == "endpoint" and self._endpoint is None:
            place = urljoin(self.url, data.decode(errors="replace"))
            # Headers of the user go there as well: not to another host.
            if is_own_place(self.url, place, self._headers):
                self._endpoint = place
            else:
                self._report("the endpoint event names another host")
            self._ready.set()

    def _on_stream_end(self) -> None:
        self._listener.end("the server ended its stream")


class _Exchange:
    """Passes the records of one exchange on; shows a body even if it is not a message."""

    def __init__(self, listener: LineListener) -> None:
        self._listener = listener
        self.body = b""

    def take(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        if sender == "server" and data is None and facts.data is None and self.body.strip():
            shown = self.body[:_BODY_SHOWN].decode(errors="replace")
            facts = replace(facts, data=shown)
        self._listener.observe(sender, data, facts)
