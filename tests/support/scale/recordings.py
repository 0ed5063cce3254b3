"""What a client saw: every event with its id, its time and its connection."""

import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accord.protocol.monitor import Monitor
from accord.testing.http_records import ExchangeRecorder, StreamNames
from accord.trace import HttpFacts, Party, Record
from support.scale.http_wire import Reply
from support.scale.ledger import Mark, parse_mark

if TYPE_CHECKING:
    from accord.protocol.violation import Violation


def find_mark(message: Any) -> Mark | None:
    """Return what the tool that sent a message says about it; None for others."""
    if not isinstance(message, dict):
        return None
    method, params = message.get("method"), message.get("params") or {}
    if method in ("notifications/progress", "elicitation/create"):
        return parse_mark(params.get("message"))
    if method == "notifications/message":
        return parse_mark(params.get("data"))
    if method == "sampling/createMessage":
        return parse_mark(params["messages"][0]["content"].get("text"))
    return None


@dataclass
class SeenEvent:
    """One event, or one JSON body, as a client received it."""

    at: float
    exchange: int
    worker: int | None
    id: str | None
    message: Any

    @property
    def mark(self) -> Mark | None:
        """What the tool says about the event; None for others."""
        return find_mark(self.message)

    @property
    def is_response(self) -> bool:
        return isinstance(self.message, dict) and "method" not in self.message

    @property
    def is_question(self) -> bool:
        return isinstance(self.message, dict) and "method" in self.message and "id" in self.message

    def __str__(self) -> str:
        text = json.dumps(self.message)
        place = f"x{self.exchange} w{self.worker}"
        return f"{self.at:.3f} {place} id={self.id} {text[:160]}"


@dataclass
class Attempt:
    """One HTTP request of a client, and what came of it."""

    number: int
    method: str
    what: str
    at: float
    status: int | None = None
    worker: int | None = None
    failure: str | None = None

    def __str__(self) -> str:
        came = self.failure or self.status
        return f"{self.at:.3f} x{self.number} {self.method} {self.what} w{self.worker}: {came}"


@dataclass
class StreamView:
    """What a client saw of one stream, over all its connections.

    Attributes:
        name: for messages.
        seen: the events, in the order in which they came.
        attempts: the requests that it took.
        last_id: where to resume.
        retry: milliseconds that the server asked the client to wait before that.
    """

    name: str
    seen: list[SeenEvent] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    last_id: str | None = None
    retry: int | None = None

    @property
    def marks(self) -> list[Mark]:
        return [event.mark for event in self.seen if event.mark is not None]

    def excerpt(self) -> str:
        """Return the requests and the last events as text, for messages of failures."""
        lines = [str(each) for each in self.attempts[-12:]]
        lines += [str(each) for each in self.seen[-25:]]
        return f"-- {self.name}\n" + "\n".join(lines)


class TrafficRecorder:
    """Lets a monitor of the library judge the traffic of one client.

    Args:
        revision: the one that it speaks.
        transport: "http", or "sse" for the form with two endpoints.
    """

    def __init__(self, revision: str, *, transport: Any = "http") -> None:
        self.violations: list[tuple[Violation, str]] = []
        self.messages = 0
        self._last: deque[str] = deque(maxlen=25)
        self._transport = transport
        self._monitor = Monitor(
            revision=revision,  # type: ignore[arg-type]
            judged="server",
            patience=3_600.0,
        )
        self._streams = StreamNames()
        self._start = time.monotonic()
        self._exchanges = 0

    def begin(
        self, method: str, target: str, headers: dict[str, str], body: bytes | None
    ) -> "RecordedExchange":
        """Record a request."""
        self._exchanges += 1
        path, _, query = target.partition("?")
        recorder = ExchangeRecorder(
            self._take,
            method,
            f"x{self._exchanges}",
            headers,
            path=path,
            query=query,
            streams=self._streams,
        )
        recorder.request(body)
        return RecordedExchange(recorder, self._exchanges)

    def _take(self, sender: Party, data: bytes | None, facts: HttpFacts) -> None:
        self.messages += 1
        record = Record(
            sender=sender,
            t=time.monotonic() - self._start,
            transport=self._transport,
            message=data,  # type: ignore[arg-type]  # bytes are what Raw is made of
            http=facts,
            number=self.messages,
        )
        text = "" if data is None else data.decode(errors="replace")
        place = f"{facts.method} {facts.exchange} {facts.stream} {facts.status or ''}"
        self._last.append(f"{record.t:.3f} {sender} {place} id={facts.id} {text[:400]}")
        for violation in self._monitor.observe(record):
            if violation.party == "server":
                self.violations.append((violation, "\n".join(self._last)))

    def report(self) -> list[str]:
        """Return what the server broke so far."""
        return [f"{each.requirement}: {each.why}" for each, _ in self.violations]

    def excerpts(self) -> list[str]:
        """Return what was said before each breach."""
        return [excerpt for _, excerpt in self.violations]


class RecordedExchange:
    """One request and its response, for the monitor."""

    def __init__(self, recorder: ExchangeRecorder, number: int) -> None:
        self._recorder = recorder
        self.number = number

    def note_head(self, reply: Reply) -> None:
        """Record the head of a response; what the balancer says is not the server's."""
        if reply.worker is not None:
            headers = {k: v for k, v in reply.headers.items() if k != "x-served-by"}
            self._recorder.head(reply.status, headers)

    def note_piece(self, piece: bytes) -> None:
        """Record what a piece of an event stream completes."""
        self._recorder.feed(piece)

    def note_body(self, reply: Reply, body: bytes) -> None:
        if reply.worker is not None:
            self._recorder.body(body, size=len(body))

    def note_end(self, reply: Reply) -> None:
        if reply.worker is not None:
            self._recorder.end("server")
