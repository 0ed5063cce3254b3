"""What both forms of HTTP keep: messages, their session, streams of events, delays."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from accord.http.client.sender import SenderResponse
from accord.http.rules import headers as names
from accord.http.rules.sse import Decoder, Event, EventTooLong
from accord.protocol.json_text import read_envelope
from accord.protocol.revisions import Revision
from accord.stdio.lines import LineTooLong
from accord.types._base import RequestId

if TYPE_CHECKING:
    from accord.http.client.carrier import DirectPost
    from accord.http.rules.responses import ResponseMessage

# Each answer takes a connection. Servers that ask a client in parallel ask a handful of questions.
_ANSWERS_MOST: Final = 64
_ANSWER_BYTES_MOST: Final = 4 * 1024 * 1024
# How far back a server may repeat events when a stream is resumed; ids are usually short.
_REMEMBERED: Final = 1_000
_REMEMBERED_CHARACTERS: Final = 64 * 1024
# How many messages are delivered before other tasks get their turn.
_AT_ONCE: Final = 32
_FIRST: Final = 0.2
_MOST: Final = 30.0
# Bounds of the delay that a server may ask for: less would be a flood of requests, more a stream
# that is never resumed.
_LEAST_ASKED: Final = 0.2
_MOST_ASKED: Final = 3_600.0
# Clients that lost the same server return spread over this part of the delay.
_SPREAD: Final = 0.5
# A delay that a server asks for is kept; many clients are spread a little.
_SPREAD_ON_REQUEST: Final = 0.05


class Message(msgspec.Struct, eq=False):
    """A message on its way out.

    `id` is that of a request, `name` the method, None in replies. `answer` is set for requests of
    the wire itself, which the listener does not know of. `is_probe` says that it finds out whether
    the server knows requests without a handshake. `is_postponed` says after a failure that it may
    be worth trying again, `is_sent` that the server may have seen it. `begun` is set where it was
    sent without a task, and a task goes on with its response.
    """

    data: bytes
    id: RequestId | None = None
    name: str | None = None
    headers: Mapping[str, str] | None = None
    refusals: int = 0
    number: int = 0
    is_probe: bool = False
    is_postponed: bool = False
    is_sent: bool = False
    answer: "asyncio.Future[ResponseMessage] | None" = None
    begun: "DirectPost | None" = None

    @property
    def is_initialize(self) -> bool:
        """Whether it begins a session."""
        return self.name == "initialize"

    @property
    def is_opening(self) -> bool:
        """Whether it is the first message of a connection, or begins a session."""
        return self.is_probe or self.is_initialize


class HttpClientSession:
    """The URL and headers of all requests of a session, from one `initialize` to the next."""

    __slots__ = ("headers", "id", "url")

    def __init__(self, url: str, id: str | None = None) -> None:
        self.url = url
        self.id = id
        self.headers = {"Accept": names.ACCEPT_BOTH, "Content-Type": "application/json"}
        if id is not None:
            self.headers["Mcp-Session-Id"] = id

    def set_revision(self, revision: Revision) -> None:
        """Send the negotiated revision from now on."""
        if revision.version_header:
            self.headers["MCP-Protocol-Version"] = revision.id


class PendingAnswers:
    """Counts the answers that are on their way, and lets readers of streams wait for room.

    `is_full` is an attribute, because readers look at it after every message.
    """

    __slots__ = ("_bytes", "_count", "_room", "is_full")

    def __init__(self) -> None:
        self.is_full = False
        self._count = 0
        self._bytes = 0
        self._room: asyncio.Event | None = None

    def begin(self, size: int) -> None:
        """Count an answer of this size."""
        self._change(1, size)

    def end(self, size: int) -> None:
        """Stop counting an answer that has arrived or was given up."""
        self._change(-1, -size)

    def _change(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size
        self.is_full = self._count >= _ANSWERS_MOST or self._bytes >= _ANSWER_BYTES_MOST
        if not self.is_full and self._room is not None:
            self._room.set()
            self._room = None

    async def room(self) -> None:
        """Wait until there is room for another answer."""
        while self.is_full:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()


class EventReader:
    """Reads messages from event streams, each once, also when a later response repeats some.

    Reading stops while too many answers to the server are on their way: a server that does not
    take answers cannot have more questions read. `place` is the data of the last `endpoint` event,
    if there was one.
    """

    def __init__(
        self,
        deliver: Callable[[bytes], None],
        drop: Callable[[LineTooLong], None],
        limit: int,
        answers: PendingAnswers,
    ) -> None:
        self.place: bytes | None = None
        self._deliver = deliver
        self._drop = drop
        self._answers = answers
        self._decoder = Decoder(limit, with_lost=True)
        self._messages = 0
        self._seen: deque[str] = deque()
        self._seen_size = 0
        self._known: frozenset[str] = frozenset()
        # Whether the rest of a message is still to be passed over.
        self._is_lost = False

    @property
    def last_id(self) -> str | None:
        """The last complete event, after which the stream can be resumed."""
        return self._decoder.last_id or None

    @property
    def retry(self) -> float | None:
        """Seconds that the server asks to wait before the stream is resumed."""
        milliseconds = self._decoder.retry
        return None if milliseconds is None else milliseconds / 1_000

    @property
    def progress(self) -> tuple[int, str | None]:
        """A value that changes with every event."""
        return self._messages, self._decoder.last_id

    def begin(self) -> None:
        """Read another response from its beginning: an incomplete event is sent again."""
        self._decoder.restart()
        self._is_lost = False
        self._known = frozenset(self._seen)

    async def read(self, response: SenderResponse) -> bool:
        """Read the next bytes; false at the end of the response.

        Raises:
            ConnectionCut: the connection broke.
            EventTooLong: an event outgrew the limit and does not show its id, or the id of an
                event outgrew its own.
        """
        answers = self._answers
        chunk = await response.chunk()
        for number, event in enumerate(self._decoder.feed(chunk), 1):
            self._take(event)
            if answers.is_full:
                await answers.room()
            elif number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return bool(chunk)

    def _take(self, event: Event) -> None:
        if event.id:
            if event.id in self._known:
                return
            self._remember(event.id)
        if event.lost is not None:
            self._messages += 1
            self._lose(*event.lost)
        elif event.name == "message":
            self._messages += 1
            self._deliver(event.data)
        elif event.name == "endpoint":
            self.place = event.data

    def _lose(self, head: bytes, tail: bytes) -> None:
        """Pass on that a message is too long, once: as soon as its id shows."""
        limit, is_over = self._decoder.limit, bool(tail)
        id, kind = (None, None) if self._is_lost else read_envelope(head, tail)
        if id is not None:
            self._drop(LineTooLong(limit, id=id, kind=kind))
        elif is_over and not self._is_lost:
            raise EventTooLong(limit)
        self._is_lost = not is_over and (self._is_lost or id is not None)

    def _remember(self, id: str) -> None:
        seen = self._seen
        seen.append(id)
        self._seen_size += len(id)
        while len(seen) > _REMEMBERED or self._seen_size > _REMEMBERED_CHARACTERS:
            self._seen_size -= len(seen.popleft())


class Backoff:
    """Delays that double from failure to failure, with jitter, up to the longest."""

    __slots__ = ("_first", "_most", "failures")

    def __init__(self, first: float = _FIRST, most: float = _MOST) -> None:
        self._first = first
        self._most = most
        self.failures = 0

    def succeed(self) -> None:
        """Begin anew."""
        self.failures = 0

    def fail(self, asked: float | None = None) -> float:
        """Count a failure and return the delay.

        Args:
            asked: what the server asks for: the least, between 0.2 s and an hour.
        """
        if asked is not None:
            asked = min(max(asked, _LEAST_ASKED), _MOST_ASKED)
        jitter = random.random()  # noqa: S311  # spreads load, protects nothing
        first = self._first if asked is None else asked
        delay = min(first * 2.0 ** min(self.failures, 16), max(self._most, first))
        self.failures += 1
        if asked is not None and self.failures == 1:
            return asked * (1 + _SPREAD_ON_REQUEST * jitter)
        return max(delay * (1 - _SPREAD * jitter), asked or 0.0)
