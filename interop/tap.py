"""Stand between HTTP clients and servers; change nothing, record heads and messages of both.

The bytes of every connection are copied as they come; parsers read along. What is complete is
recorded before it travels on, so that a question always stands before its answer. A connection can
be cut in the middle of a stream, once, to see whether the client takes it up again.
"""

import asyncio
import contextlib
import itertools
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httptools
import msgspec

from accord.http.rules.sse import Decoder
from accord.trace import HttpFacts, Party, Record, Transport

CHUNK: Final = 64 * 1024
PATIENCE: Final = 10.0
EVENTS: Final = "text/event-stream"


class Told(NamedTuple):
    """One event of a stream."""

    id: str | None
    name: str
    data: Any


@dataclass
class Exchange:
    """One HTTP request and its response."""

    number: int
    transport: Transport
    method: str
    target: str
    headers: dict[str, str]
    sent: Any = None
    status: int | None = None
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: Any = None
    events: list[Told] = field(default_factory=list)
    is_complete: bool = False
    was_cut: bool = False

    @property
    def is_stream(self) -> bool:
        """Whether it was answered with events."""
        return self.answer_headers.get("content-type", "").startswith(EVENTS)

    @property
    def is_refused(self) -> bool:
        """Whether HTTP refused it, without a message of the protocol."""
        is_told = isinstance(self.answer, dict) and "jsonrpc" in self.answer
        return self.status is not None and self.status >= 400 and not is_told

    def facts(self, *, answered: bool) -> HttpFacts:
        """Say what HTTP says about a message of this exchange."""
        stream = f"{self.method} {self.number}"
        if not answered:
            return HttpFacts(method=self.method, headers=self.headers, stream=stream)
        headers = dict(self.answer_headers)
        if "last-event-id" in self.headers:  # which tells that a stream was taken up again
            headers["last-event-id"] = self.headers["last-event-id"]
        return HttpFacts(method=self.method, status=self.status, headers=headers, stream=stream)


class Recording:
    """What travelled through one address.

    Args:
        transport: the form that is spoken there.
        cut: bytes of a server at which its connection is cut, the first time they come.
    """

    def __init__(self, transport: Transport, cut: bytes | None) -> None:
        self.transport = transport
        self.cut = cut
        self.port = 0
        # With the number of the exchange in which each came.
        self.records: list[tuple[int, Record]] = []
        self.exchanges: list[Exchange] = []
        self._numbers = itertools.count()
        self.server: asyncio.Server | None = None

    def begin(self, method: str, target: str, headers: dict[str, str]) -> Exchange:
        """Note a new request."""
        number = next(self._numbers)
        exchange = Exchange(number, self.transport, method, target, headers)
        self.exchanges.append(exchange)
        return exchange

    def write(self, sender: Party, exchange: Exchange, body: bytes) -> Any:
        """Record one message, or its absence; return it decoded."""
        facts = exchange.facts(answered=sender == "server")
        when = asyncio.get_running_loop().time()
        told, message, raw = None, None, None
        if body:
            try:
                told = msgspec.json.decode(body)
                message = msgspec.Raw(body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                raw = body.decode("utf-8", "surrogateescape")
        record = Record(
            sender=sender,
            t=when,
            transport=exchange.transport,
            message=message,
            raw=raw,
            http=facts,
            number=len(self.records) + 1,
        )
        self.records.append((exchange.number, record))
        return told


class _Side:
    """Reads one direction of a connection; the parser calls it back."""

    def __init__(self, recording: Recording, waiting: deque[Exchange]) -> None:
        self.recording = recording
        self.waiting = waiting
        self.target = b""
        self.headers: dict[str, str] = {}
        self.body = bytearray()

    def on_message_begin(self) -> None:
        self.target, self.headers, self.body = b"", {}, bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body


class Asking(_Side):
    """What a client sends."""

    def __init__(self, recording: Recording, waiting: deque[Exchange]) -> None:
        super().__init__(recording, waiting)
        self.parser = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_message_complete(self) -> None:
        method = self.parser.get_method().decode()
        exchange = self.recording.begin(method, self.target.decode(), self.headers)
        exchange.sent = self.recording.write("client", exchange, bytes(self.body))
        self.waiting.append(exchange)


class Answering(_Side):
    """What a server sends."""

    def __init__(self, recording: Recording, waiting: deque[Exchange]) -> None:
        super().__init__(recording, waiting)
        self.parser = httptools.HttpResponseParser(self)
        self.events = Decoder()

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status >= 200 and self.waiting:
            exchange = self.waiting[0]
            exchange.status, exchange.answer_headers = status, self.headers
            self.events = Decoder()
            if exchange.is_stream:
                self.recording.write("server", exchange, b"")

    def on_body(self, body: bytes) -> None:
        exchange = self.waiting[0]
        if not exchange.is_stream:
            super().on_body(body)
            return
        for event in self.events.feed(body):
            data: Any = event.data.decode()
            if event.name == "message":
                data = self.recording.write("server", exchange, event.data)
            exchange.events.append(Told(event.id, event.name, data))

    def on_message_complete(self) -> None:
        if self.parser.get_status_code() < 200:
            return
        exchange = self.waiting.popleft()
        exchange.is_complete = True
        if exchange.is_stream:
            return
        content = exchange.answer_headers.get("content-type", "")
        # The older form answers with a word of plain text, which is not a message.
        body = bytes(self.body) if content.startswith("application/json") else b""
        exchange.answer = self.recording.write("server", exchange, body)


class Tap:
    """Addresses that lead to servers, with a loop and a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def open(self, port: int, transport: Transport, cut: bytes | None = None) -> Recording:
        """Begin to record what goes to a port of this machine."""
        recording = Recording(transport, cut)
        opening = self._open(recording, port)
        asyncio.run_coroutine_threadsafe(opening, self._loop).result(PATIENCE)
        return recording

    def end(self, recording: Recording) -> None:
        """Take no more connections there."""
        assert recording.server is not None
        self._loop.call_soon_threadsafe(recording.server.close)

    def close(self) -> None:
        """End it all."""

        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            if others:
                await asyncio.wait(others, timeout=PATIENCE)

        asyncio.run_coroutine_threadsafe(cancel(), self._loop).result(2 * PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _open(self, recording: Recording, port: int) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                upstream = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.transport.abort()
                return
            await _join(recording, (reader, writer), upstream)

        recording.server = await asyncio.start_server(connected, "127.0.0.1", 0)
        recording.port = recording.server.sockets[0].getsockname()[1]


async def _join(recording: Recording, client: Any, server: Any) -> None:
    """Copy both ways until either end is gone; then the other one goes too."""
    waiting: deque[Exchange] = deque()
    ways = (
        _copy(client[0], server[1], Asking(recording, waiting)),
        _copy(server[0], client[1], Answering(recording, waiting)),
    )
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for _, writer in (client, server):
            writer.close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Any) -> None:
    recording: Recording = side.recording
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(CHUNK):
            cut = recording.cut
            at = chunk.find(cut) if cut is not None and isinstance(side, Answering) else -1
            if at >= 0:
                recording.cut = None
                chunk = chunk[:at]
            side.parser.feed_data(chunk)
            writer.write(chunk)
            await writer.drain()
            if at >= 0:
                side.waiting[0].was_cut = True
                return
