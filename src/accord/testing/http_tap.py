"""A sender of HTTP requests that somebody listens to: messages, and what HTTP said about them."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

import msgspec

from accord.bindings.headers import media_type
from accord.bindings.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.testing.recording import Recording
from accord.trace import HttpFacts
from accord.transports.http_sender import NotSent, Response, Sender

__all__ = ["TappedSender"]

# What a response may say that bears on the protocol; the seam has no way to list all.
_RESPONSE_HEADERS: Final = (
    "allow",
    "cache-control",
    "content-length",
    "content-type",
    "location",
    "mcp-session-id",
    "retry-after",
    "www-authenticate",
)


class _Head(msgspec.Struct):
    method: str | None = None


class TappedSender:
    """Passes everything on as it is, and lets a recording observe it.

    A request is observed before it is sent, an answer before it is handed over, so that the order
    is the one in which the client lives through it.
    """

    def __init__(self, inner: Sender, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording
        self._numbers = count(1)
        # The stream that an event came on: whoever resumes names the event.
        self._streams: dict[str, str] = {}
        # What no server has taken, and may be sent again as it is.
        self._untaken: set[bytes] = set()
        self._is_open = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Send a request and wait for the head of its response."""
        last = next((text for name, text in headers.items() if _is_last_event(name)), None)
        stream = self._streams.get(last or "") or f"{method.lower()}-{next(self._numbers)}"
        self._observe_request(HttpFacts(method, None, headers, stream), body)
        try:
            response = await self._inner.send(method, url, headers, body)
        except NotSent:
            self._leave(body)
            raise
        if response.status >= 300:
            self._leave(body)
        said = {name: text for name in _RESPONSE_HEADERS if (text := response.header(name))}
        if last is not None:
            said["last-event-id"] = last  # what is replayed may belong to any request
        facts = HttpFacts(method, response.status, said, stream)
        if response.status == 200 and media_type(response.header("content-type")) == CONTENT_TYPE:
            self._recording.observe("server", None, http=facts)
            return _TappedStream(response, self, facts)
        return _TappedBody(response, self._recording, facts)

    def _observe_request(self, facts: HttpFacts, body: bytes | None) -> None:
        name = None if body is None else _method_of(body)
        if name == "initialize" and self._is_open:
            # The server lost the session: with this one another conversation begins.
            self._is_open = False
            self._untaken.clear()
            self._recording.begin_anew()
        elif name == "notifications/initialized":
            self._is_open = True
        is_repeated = body is not None and body in self._untaken
        self._recording.observe("client", None if is_repeated else body, http=facts)

    def _leave(self, body: bytes | None) -> None:
        if body is not None:
            self._untaken.add(body)

    def observe_event(self, event: Event, facts: HttpFacts) -> None:
        """Take down an event of a stream."""
        if event.id is not None and facts.stream is not None:
            self._streams[event.id] = facts.stream
        if event.name == "endpoint":
            self._recording.transport = "sse"
        elif event.name == "message":
            self._recording.observe("server", event.data, http=facts)


class _TappedBody:
    """A response that is one body."""

    def __init__(self, inner: Response, recording: Recording, facts: HttpFacts) -> None:
        self.status = inner.status
        self.header = inner.header
        self._inner = inner
        self._recording = recording
        self._facts = facts
        self._chunks: list[bytes] = []
        self._is_observed = False

    async def chunk(self) -> bytes:
        """Return the next bytes of the body."""
        data = await self._inner.chunk()
        if data:
            self._chunks.append(data)
        else:
            self._observe(b"".join(self._chunks))
        return data

    def close(self) -> None:
        """Let go of the response."""
        self._observe(b"")
        self._inner.close()

    def _observe(self, body: bytes) -> None:
        if not self._is_observed:
            self._is_observed = True
            kind = media_type(self._facts.header("content-type"))
            # A refusal may say anything, and in any form; only an error in our form is a message.
            is_message = not body.isspace() and kind in ("application/json", "")
            if self._facts.is_refusal:
                is_message = is_message and b'"jsonrpc"' in body
            message = body if body and is_message else None
            self._recording.observe("server", message, http=self._facts)


class _TappedStream:
    """A response that is a stream of events."""

    def __init__(self, inner: Response, tap: TappedSender, facts: HttpFacts) -> None:
        self.status = inner.status
        self.header = inner.header
        self.close = inner.close
        self._inner = inner
        self._tap = tap
        self._facts = facts
        self._decoder = Decoder()

    async def chunk(self) -> bytes:
        """Return the next bytes of the stream."""
        data = await self._inner.chunk()
        for event in self._events(data):
            self._tap.observe_event(event, self._facts)
        return data

    def _events(self, data: bytes) -> Iterator[Event]:
        try:
            yield from self._decoder.feed(data)
        except EventTooLong:
            return  # the client finds out by itself


def _is_last_event(name: str) -> bool:
    return name.lower() == "last-event-id"


def _method_of(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Head).method
    except msgspec.MsgspecError:
        return None
