"""Records of one HTTP exchange: the request, the head of its response, events, body and end.

All recorders use this, so that a watch, a test and a check record the same facts of the same
traffic. Nothing is sent here, and nothing is changed.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from accord.http.rules.headers import LAST_EVENT, media_type
from accord.http.rules.sse import CONTENT_TYPE, Decoder, Event
from accord.protocol.party import Bounded
from accord.trace import ALL, HttpFacts, Party

Take: TypeAlias = Callable[[Party, bytes | None, HttpFacts], object]
"""Records what a party sends: bytes of a message or None, with the facts of HTTP."""

# Metadata are short; of other bodies that are not messages only the size is recorded.
_DATA_MOST: Final = 64 * 1024
# Larger events pass without being recorded.
_EVENT_MOST: Final = 64 * 1024 * 1024
# Servers of the older form say "Accepted" with it, without a type.
_ACCEPTED: Final = 202
_WELL_KNOWN: Final = "/.well-known/"
_TOKEN_PATHS: Final = ("/token", "/register", "/authorize", "/revoke", "/introspect")


class StreamNames:
    """The streams of the events of one session: a client that resumes a stream names an event."""

    def __init__(self) -> None:
        self._known: Bounded[str, str] = Bounded(10_000)

    def add(self, event_id: str, stream: str) -> None:
        """Remember on which stream an event was sent."""
        self._known[event_id] = stream

    def find(self, event_id: str | None) -> str | None:
        """Return the stream of an event."""
        return None if event_id is None else self._known.get(event_id)


class ExchangeRecorder:
    """Records one request and its response.

    Args:
        take: receives the records.
        method: of the request.
        name: of the exchange, unique in the recording.
        headers: those of the request.
        path: what was asked for, if known.
        query: the query string, if known.
        streams: the streams of the session.
        recorded: the headers that would be among these if they had been sent, or "all".

    Attributes:
        is_stream: whether the response is an event stream.
        status: of the response.
    """

    def __init__(
        self,
        take: Take,
        method: str,
        name: str,
        headers: Mapping[str, str],
        *,
        path: str | None = None,
        query: str | None = None,
        streams: StreamNames | None = None,
        recorded: Literal["all"] | tuple[str, ...] = ALL,
    ) -> None:
        self._take = take
        self.method = method
        self.name = name
        self.path = path
        self._streams = streams or StreamNames()
        sent = {key.lower(): text for key, text in headers.items()}
        self.stream = self._streams.find(sent.get(LAST_EVENT)) or name
        self.asked = HttpFacts(
            method=method,
            headers=sent,
            stream=self.stream,
            recorded=recorded,
            exchange=name,
            path=path,
            query=query,
        )
        self.said = HttpFacts(method=method, stream=self.stream, exchange=name)
        self.is_stream = False
        self.status: int | None = None
        self._decoder = Decoder(_EVENT_MOST, with_empty=True)
        self._retry: int | None = None
        self._is_told = False
        self._is_over = False

    def request(self, body: bytes | None, *, is_repeated: bool = False) -> None:
        """Record the request; what is sent to token endpoints is not a message.

        Args:
            body: of the request.
            is_repeated: whether it was recorded before, and the server did not take it.
        """
        is_message = bool(body) and not is_repeated and not self._is_foreign(body or b"")
        facts = self.asked
        if body is not None or self.method == "POST":
            facts = replace(facts, size=len(body or b""))
        self._take("client", body if is_message else None, facts)

    def _is_foreign(self, body: bytes) -> bool:
        path = (self.path or "").rstrip("/")
        is_other = _WELL_KNOWN in path or path.endswith(_TOKEN_PATHS)
        return is_other and b'"jsonrpc"' not in body

    def head(
        self,
        status: int,
        headers: Mapping[str, str],
        *,
        recorded: Literal["all"] | tuple[str, ...] = ALL,
    ) -> None:
        """Take the head of the response; that of a body is recorded with the body."""
        self.status = status
        self.said = HttpFacts(
            method=self.method,
            status=status,
            headers=headers,
            stream=self.stream,
            recorded=recorded,
            exchange=self.name,
        )
        kind = media_type(self.said.header("content-type"))
        self.is_stream = 200 <= status < 300 and kind == CONTENT_TYPE
        if self.is_stream:
            self._tell("server", None, self.said)

    def _tell(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        self._is_told = True
        self._take(sender, data, facts)

    def feed(self, chunk: bytes) -> list[Event]:
        """Record the events that a chunk completes, and return those with data.

        Raises:
            EventTooLong: an event outgrew the limit.
        """
        events = list(self._decoder.feed(chunk))
        for event in events:
            self.event(event)
        if not events:
            self._note_retry()
        return [event for event in events if event.data]

    def event(self, event: Event) -> None:
        """Record one event of the stream."""
        if event.id is not None:
            self._streams.add(event.id, self.stream)
        is_message = event.name == "message" and bool(event.data)
        data = None if is_message or not event.data else event.data[:_DATA_MOST]
        facts = self._part(
            event=event.name,
            id=event.id,
            retry=self._fresh_retry(),
            data=None if data is None else data.decode(errors="replace"),
        )
        self._take("server", event.data if is_message else None, facts)

    def _part(self, **facts: object) -> HttpFacts:
        """Return the facts of a part of the response, without the headers that came before."""
        return HttpFacts(
            method=self.method,
            status=self.status,
            stream=self.stream,
            exchange=self.name,
            **facts,  # type: ignore[arg-type]
        )

    def _fresh_retry(self) -> int | None:
        before, self._retry = self._retry, self._decoder.retry
        return None if before == self._retry else self._retry

    def _note_retry(self) -> None:
        retry = self._fresh_retry()
        if retry is not None:
            self._take("server", None, self._part(retry=retry))

    def body(self, body: bytes, *, size: int | None = None) -> None:
        """Record a response that is not a stream; its body is a message, or only its size counts.

        Args:
            body: as far as it was read.
            size: its length; None if the body was not read to its end.
        """
        if self._is_told:
            return
        said = self.said
        data = body.decode(errors="replace") if self._has_metadata(body) else None
        facts = HttpFacts(
            method=self.method,
            status=self.status,
            headers=said.headers,
            stream=self.stream,
            recorded=said.recorded,
            exchange=self.name,
            data=data,
            size=size,
        )
        self._tell("server", body if data is None and self._is_message(body) else None, facts)

    def _has_metadata(self, body: bytes) -> bool:
        is_json = media_type(self.said.header("content-type")) == "application/json"
        return _WELL_KNOWN in (self.path or "") and is_json and len(body) <= _DATA_MOST

    def _is_message(self, body: bytes) -> bool:
        """Whether a body is a message; the body of a refusal or of 202 may be anything."""
        kind = media_type(self.said.header("content-type"))
        if not body.strip() or kind not in ("application/json", ""):
            return False
        if self.said.is_refusal or (self.status == _ACCEPTED and not kind):
            return b'"jsonrpc"' in body
        return not self._is_foreign(body)

    def end(self, party: Party) -> None:
        """Record the orderly end of a stream; a broken connection has none."""
        if self.is_stream and not self._is_over:
            self._is_over = True
            self._take("server", None, self._part(ended=party))
