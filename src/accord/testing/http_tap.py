"""A sender of HTTP requests with an observer: messages, and what HTTP said about them."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

import msgspec

from accord.bindings.headers import media_type
from accord.bindings.sse import CONTENT_TYPE, Decoder, Event, EventTooLong
from accord.testing.recording import Recording
from accord.trace import HttpFacts
from accord.transports.http.client.sender import NotSent, Sender, SenderResponse

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
        # The stream that an event came on: a client that resumes names the event.
        self._streams: dict[str, str] = {}
        # What no server has taken, and may be sent again as it is.
        self._untaken: set[bytes] = set()
        self._is_open = False

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> SenderResponse:
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


class _Tapped:
    """A response with an observer."""

    def __init__(self, inner: SenderResponse, facts: HttpFacts) -> None:
        self.status = inner.status
        self._inner = inner
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # whatever else a response can do

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case."""
        return self._inner.header(name)

    def close(self) -> None:
        """Let go of the response."""
        self._inner.close()


class _TappedBody(_Tapped):
    """A response that is one body."""

    def __init__(self, inner: SenderResponse, recording: Recording, facts: HttpFacts) -> None:
        super().__init__(inner, facts)
        self._recording = recording
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
        super().close()

    def _observe(self, body: bytes) -> None:
        if not self._is_observed:
            self._is_observed = True
            message = body if _is_message(body, self._facts) else None
            self._recording.observe("server", message, http=self._facts)


class _TappedStream(_Tapped):
    """A response that is a stream of events."""

    def __init__(self, inner: SenderResponse, tap: TappedSender, facts: HttpFacts) -> None:
        super().__init__(inner, facts)
        self._tap = tap
        self._decoder = Decoder()

    async def chunk(self) -> bytes:
        """Return the next bytes of the stream."""
        data = await self._inner.chunk()
        with suppress(EventTooLong):  # the client finds out by itself
            for event in self._decoder.feed(data):
                self._tap.observe_event(event, self._facts)
        return data


def _is_message(body: bytes, facts: HttpFacts) -> bool:
    """Whether a body is meant as a message; a refusal may say anything in any form."""
    if not body.strip() or media_type(facts.header("content-type")) not in ("application/json", ""):
        return False
    return b'"jsonrpc"' in body if facts.is_refusal else True


def _is_last_event(name: str) -> bool:
    return name.lower() == "last-event-id"


def _method_of(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Head).method
    except msgspec.MsgspecError:
        return None
