"""What HTTP showed so far: requests, their responses, sessions, streams and events.

A record is one moment of an exchange: the request, the head of its response, an event, a message,
or the end. Judges see the state before the moment changes it.
"""

import re
from typing import Any, Final
from urllib.parse import urljoin

import msgspec
from msgspec import UNSET

from accord.protocol.codec import parse
from accord.protocol.jsonrpc import FAULT, REQUEST, RESULT, Batch, Frame, MalformedMessage
from accord.protocol.party import Bounded, Memory
from accord.protocol.revisions import REVISIONS, Revision
from accord.trace import HttpFacts, Party, Record, Transport
from accord.types._base import RequestId

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
LAST_EVENT: Final = "last-event-id"
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
OK: Final = range(200, 300)
LOST: Final = 404
WELL_KNOWN: Final = "/.well-known/"

# Exchanges and ids that are remembered; what belongs to an older one is not judged.
KEPT: Final = 1024
STATE: Final = "http"
"""Where rules on messages find the state, among the facts that a monitor remembers."""

_INITIALIZE: Final = "initialize"
_REDIRECTS: Final = range(300, 400)
_BEARER: Final = re.compile(r"(?i)(?:^|[,\s])bearer(?=[\s,]|$)")
# Nothing is looked at twice, however long it is: not from its middle, and not in shorter parts.
_PARAM: Final = re.compile(r"(?<![\w-])([\w-]++)\s*+=\s*+(?:\"((?:[^\"\\]|\\.)*+)\"|([^\s,\"]++))")


class Posted(msgspec.Struct):
    """The messages of one body."""

    frames: tuple[Frame, ...] = ()
    requests: dict[RequestId, str] = {}
    is_malformed: bool = False
    is_empty: bool = True

    def forget_bodies(self) -> None:
        """Keep only what the messages are called."""
        self.frames = tuple(
            msgspec.structs.replace(each, params=UNSET, result=UNSET) for each in self.frames
        )

    @property
    def has_only_notices(self) -> bool:
        """Whether it holds messages, and no request among them."""
        return bool(self.frames) and not self.requests and not self.is_malformed


def read_posted(record: Record, decoded: Frame | Batch | MalformedMessage | None) -> Posted:
    """Sort the messages of a record."""
    if decoded is None:
        return Posted()
    parts = [part for part, _ in decoded.parts] if isinstance(decoded, Batch) else [decoded]
    frames = tuple(part for part in parts if isinstance(part, Frame))
    return Posted(
        frames=frames,
        requests={frame.id: str(frame.method) for frame in frames if frame.kind == REQUEST},  # type: ignore[misc]  # a request has an id
        is_malformed=len(frames) < len(parts) or not parts,
        is_empty=False,
    )


class RecordedExchange(msgspec.Struct, kw_only=True):
    """One request and its response.

    `request` is None where a response stands alone. `open` are the posted requests without answer.
    `last` is the id of the last event. `fault` says how the headers differ from the body.
    """

    key: str | None
    form: Transport
    method: str = ""
    request: HttpFacts | None = None
    posted: Posted = msgspec.field(default_factory=Posted)
    number: int = 0
    response: HttpFacts | None = None
    open: set[RequestId] = msgspec.field(default_factory=set)
    answered: set[RequestId] = msgspec.field(default_factory=set)
    events: int = 0
    messages: int = 0
    last: str | None = None
    retry: int | None = None
    stream: str | None = None
    resumed: str | None = None
    is_resumed: bool | None = None
    ended: Party | None = None
    ended_at: float | None = None
    fault: tuple[str, str] | None = None

    @property
    def status(self) -> int | None:
        """The status of the response."""
        return None if self.response is None else self.response.status

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status is not None and self.status in OK

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return self.is_ok and media_type(self.response) == EVENT_STREAM

    @property
    def path(self) -> str | None:
        """What was asked for."""
        return None if self.request is None else self.request.path

    @property
    def title(self) -> str:
        """The request in words."""
        names = [str(frame.method) for frame in self.posted.frames if frame.method]
        return " ".join([self.method or "a request", *(name[:60] for name in names[:1])])


def media_type(facts: HttpFacts | None) -> str | None:
    """Return the type of a body, without parameters; empty without the header, None if unknown."""
    if facts is None or not facts.knows("content-type"):
        return None
    return (facts.header("content-type") or "").partition(";")[0].strip().lower()


class Moment(msgspec.Struct):
    """One record of an exchange, or one message of it."""

    exchange: RecordedExchange
    facts: HttpFacts
    record: Record
    frame: Frame | None = None
    is_malformed: bool = False

    @property
    def answered_id(self) -> RequestId | None:
        """The id of the request that the message answers; None if it answers none."""
        frame = self.frame
        if (
            frame is None
            or frame.kind not in (RESULT, FAULT)
            or not isinstance(frame.id, str | int)
        ):
            return None
        return frame.id


class HttpState:
    """What a judge of HTTP remembers of a conversation.

    Attributes:
        revision: the one to judge by.
        endpoint: the path of the server, once it answered there.
        sessions: the ids that the server assigned; those that are over are in `ended`.
        is_initialized: whether the client has the answer to initialize.
        losses: how often the server did not know the session.
        place: path and query for the client's messages, by the older form of HTTP.
        tokens: the bearer tokens of the client.
        is_trusted: whether a request with a token succeeded.
        is_challenged: whether the server asked for a bearer token.
        cancelled: the ids of the requests that the client gave up.
        suspects: breaches that count once the server goes on.
    """

    def __init__(self, revision: Revision, memory: Memory) -> None:
        self.revision = revision
        self.memory = memory
        self.exchanges: Bounded[str, RecordedExchange] = Bounded(KEPT)
        self.requests: Bounded[RequestId, RecordedExchange] = Bounded(KEPT)
        self.endpoint: str | None = None
        self.detours: Bounded[str, None] = Bounded(KEPT)
        self.sessions: Bounded[str, None] = Bounded(KEPT)
        self.ended: Bounded[str, None] = Bounded(KEPT)
        self.losses = 0
        self.is_initialized = False
        self.opening: RecordedExchange | None = None
        self.negotiated: str | None = None
        self.tokens: Bounded[str, None] = Bounded(KEPT)
        self.is_trusted = False
        self.is_challenged = False
        self.metadata_paths: Bounded[str, None] = Bounded(KEPT)
        self.event_ids: Bounded[str, tuple[str, int]] = Bounded(4 * KEPT)
        self.sent: Bounded[object, str] = Bounded(KEPT)
        self.progress: Bounded[object, str] = Bounded(KEPT)
        self.cancelled: Bounded[RequestId, None] = Bounded(KEPT)
        self.place: tuple[str, str] | None = None
        self.suspects: list[tuple[str, str]] = []
        self.doubtful_get: Moment | None = None

    # -- looking up

    def find(self, record: Record, facts: HttpFacts) -> RecordedExchange:
        """Return the exchange that a record of the server belongs to."""
        key = facts.exchange or facts.stream
        known = None if key is None else self.exchanges.get(key)
        if known is None:
            known = RecordedExchange(
                key=key,
                form=record.transport,
                method=(facts.method or "").upper(),
                stream=facts.stream or facts.exchange,
            )
            if key is not None:
                self.exchanges[key] = known
        return known

    def is_at_endpoint(self, exchange: RecordedExchange) -> bool | None:
        """Whether a request is meant for the server itself; None if that is unknown."""
        path = exchange.path
        if path is None or self.endpoint is None:
            return True if exchange.posted.frames else None
        return path.rstrip("/") == self.endpoint or path in self.detours

    # -- learning

    def add_request(self, moment: Moment) -> None:
        """Remember a request."""
        exchange, facts = moment.exchange, moment.facts
        if exchange.key is not None:
            self.exchanges[exchange.key] = exchange
        if _INITIALIZE in exchange.posted.requests.values():
            # Ids may begin anew with a session.
            for known in (self.requests, self.sent, self.event_ids, self.cancelled):
                known.clear()
        for frame in exchange.posted.frames:
            if isinstance(frame.params, msgspec.Raw) and b"progressToken" in bytes(frame.params):
                self.progress.clear()  # it may be a token that was used before
            if frame.kind == REQUEST:
                self.requests[frame.id] = exchange  # type: ignore[index]  # a request has an id
                exchange.open.add(frame.id)  # type: ignore[arg-type]
            elif frame.method == "notifications/cancelled" and isinstance(
                frame.params, msgspec.Raw
            ):
                id = as_object(parse(bytes(frame.params))).get("requestId")
                if isinstance(id, str | int):
                    self.cancelled[id] = None
        token = bearer_token(facts)
        if token is not None:
            self.tokens[token] = None

    def add_head(self, moment: Moment) -> None:
        """Remember the head of a response."""
        exchange, facts = moment.exchange, moment.facts
        exchange.response = facts
        if exchange is self.opening:
            self.is_initialized, self.opening = True, None
        status, posts = facts.status, exchange.posted.requests.values()
        if exchange.is_ok:
            if exchange.posted.frames and exchange.path is not None and self.endpoint is None:
                self.endpoint = exchange.path.rstrip("/")
            if exchange.request is not None and bearer_token(exchange.request) is not None:
                self.is_trusted = True
            self._end_session(exchange)
        elif status in _REDIRECTS and (location := facts.header("location")):
            self.detours[path_of(location)] = None
        if status == 401 and (challenge := bearer_challenge(facts)) is not None:
            self.is_challenged = True
            if "resource_metadata" in challenge:
                self.metadata_paths[path_of(challenge["resource_metadata"])] = None
        assigned = facts.header(SESSION)
        if assigned is not None and exchange.is_ok and self.revision.handshake:
            if _INITIALIZE in posts:
                self.sessions.clear()
                self.losses = 0
            self.sessions[assigned] = None
        if status == LOST and exchange.request is not None:
            self.losses += exchange.request.header(SESSION) in self.sessions

    def _end_session(self, exchange: RecordedExchange) -> None:
        if exchange.method == "DELETE" and exchange.request is not None:
            session = exchange.request.header(SESSION)
            if session in self.sessions:
                self.ended[session] = None  # type: ignore[index]  # it is in the sessions

    def add_event(self, moment: Moment) -> None:
        """Remember an event of a stream."""
        exchange, facts = moment.exchange, moment.facts
        exchange.events += 1
        if facts.retry is not None:
            exchange.retry = facts.retry
        if facts.id is not None:
            exchange.last = facts.id
            mark = hash(bytes(moment.record.message or b""))
            if facts.id not in self.event_ids:
                self.event_ids[facts.id] = (exchange.stream or "", mark)
        if facts.event == "endpoint" and facts.data is not None and self.place is None:
            is_whole = facts.data.startswith("/") or "://" in facts.data
            if is_whole or exchange.path is not None:
                self.place = _resolve(exchange.path or "/", facts.data)

    def add_message(self, moment: Moment) -> None:
        """Remember a message of the server."""
        exchange, frame, id = moment.exchange, moment.frame, moment.answered_id
        exchange.messages += 1
        if frame is None or id is None:
            return
        exchange.open.discard(id)
        if len(exchange.answered) < KEPT:
            exchange.answered.add(id)
        asked = self.requests.get(id)
        if asked is None:
            return
        asked.open.discard(id)
        if asked.posted.requests.get(id) == _INITIALIZE and frame.kind == RESULT:
            # The client has the answer once it has the head of the response.
            self.is_initialized = asked.key is None or asked.response is not None
            self.opening = None if self.is_initialized else asked
            result = as_object(parse(bytes(frame.result)))  # type: ignore[arg-type]  # a result has one
            version = result.get("protocolVersion")
            self.negotiated = version if version in REVISIONS else self.revision.id


def as_object(value: object) -> dict[str, Any]:
    """Return an object as it is; empty for anything else."""
    return value if isinstance(value, dict) else {}


def bearer_token(facts: HttpFacts) -> str | None:
    """Return the token of an Authorization header."""
    scheme, _, token = (facts.header("authorization") or "").strip().partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def bearer_challenge(facts: HttpFacts) -> dict[str, str] | None:
    """Return the parameters of a challenge for a bearer token; None without one."""
    text = facts.header("www-authenticate")
    if text is None:
        return None
    found = _BEARER.search(text)
    if found is None:
        return None
    pairs = _PARAM.findall(text, found.end())
    return {name.lower(): quoted or plain for name, quoted, plain in reversed(pairs)}


def _resolve(base: str, place: str) -> tuple[str, str] | None:
    try:
        return split_place(urljoin(base, place))
    except ValueError:
        return None  # sse.connect.endpoint-event: it is not a URI


def path_of(url: str) -> str:
    """Return the path of a URL, or of a part of one."""
    return split_place(url)[0]


def split_place(url: str) -> tuple[str, str]:
    """Return path and query of a URL, or of a part of one."""
    rest = url.partition("://")[2]
    place = f"/{rest.partition('/')[2]}" if rest else url
    path, _, query = place.partition("#")[0].partition("?")
    return path, query
