"""What all requests to one app share: its options, the server behind it, streams, bodies."""

import asyncio
import sys
import warnings
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Container, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from accord.http.rules import gate
from accord.http.server.exchange import LENGTH, SESSION, VERSION, HttpExchange, Message
from accord.http.server.stream import EventStore, MemoryEventStore, RetiredStreams
from accord.protocol.codec import Limits
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import Exchange
from accord.protocol.party import PartyState
from accord.protocol.revisions import HANDSHAKE
from accord.runtime.dispatcher import Dispatcher
from accord.runtime.handlers import Write
from accord.runtime.tasks import Resumed
from accord.types import RevisionId

if TYPE_CHECKING:
    from accord.http.server.stream import Reader
    from accord.sharing.backends.backend import Backend
    from accord.sharing.workers.worker import Worker

FindPrincipal: TypeAlias = Callable[[Mapping[str, Any]], Hashable]
"""Returns the caller of a request from its ASGI scope; None for an anonymous caller."""

_SESSIONS: Final = 10_000
# A body that has received nothing for this long makes room for one that still receives.
_STUCK: Final = 1.0
# How many times `body_timeout` a body may stay below `body_rate`: the speed of connections varies.
_LENIENCY: Final = 3
# Shorter bodies are within any sensible limit.
BRIEF: Final = 4096
# A request that has not begun can be sent to another server, or later.
DRAINING: Final = gate.HttpRefusal(503, "the server is stopping", -32000, (("retry-after", "1"),))
_SILENT: Final = gate.HttpRefusal(408, "the body did not arrive in time (body_timeout)")
_LATE: Final = gate.HttpRefusal(408, "the request takes too long to arrive (request_timeout)")
_SLOW: Final = gate.HttpRefusal(408, "the body arrives too slowly (body_rate)")


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached over HTTP.

    Attributes:
        path: path of the endpoint, below the path where the app is mounted.
        answers: "json" or "stream" for one form always; "auto" sends JSON unless progress, logs or
            requests precede the answer.
        sse: whether the older two-endpoint form is served too, at `/sse` and `/messages`.
        public_url: the URL that clients use, if not on loopback.
        allowed_hosts: further Host headers that are served; "*" for all.
        allowed_origins: further Origin headers that are served; "*" for all.
        cors: whether web pages of allowed origins may read responses.
        principal: returns the caller of a request: a `Principal`, or what identifies the user, as
            text, a number, bytes, a UUID or a tuple of these. A session serves only the caller that
            opened it.
        resumable: whether streams can be resumed.
        events: keeps what was sent on resumable streams; in memory by default.
        retry: milliseconds after which clients should reconnect when a stream is closed.
        sessions: how many may be open; beyond that the longest idle one ends, a caller's own first.
            False for none: every request is served alone.
        sessions_per_caller: how many of them one caller may have: one principal, or one address for
            requests without a principal. As many requests of one caller may only listen.
        session_idle: seconds after which an unused session ends.
        connections: how many requests and streams may be open.
        connections_per_address: how many connections one address may have; proxies that are trusted
            may have any number.
        listeners: how many streams opened with GET one session may have.
        keep_alive: seconds of silence after which a comment is sent on a stream; as often, the
            tokens of listening clients are verified again.
        body_timeout: seconds without a byte after which an incomplete request is refused; its head
            must be complete within them.
        body_rate: bytes a second that a body must arrive at; it may be slower for three times
            `body_timeout`.
        request_timeout: seconds within which the body of a request must be complete, however
            steadily it arrives.
        bodies_bytes: how many bytes of incomplete bodies are kept, of all requests together.
        opening_bytes: how many bytes a message may have before its client has a session; a request
            that stands on its own, as in 2026-07-28, may have as many as any message.
        write_timeout: seconds after which a client that reads nothing is disconnected.
        unread_bytes: how many bytes all clients together may leave unread; beyond that, those that
            have not read for the longest time are disconnected at once.
        grace: seconds that calls get to finish when the server stops.
        access_log: whether each request is logged to the logger `accord.access`; "json" for lines
            that programs read.
        metrics: whether counts are served at `/metrics`, in the text format of Prometheus, to
            everyone that reaches the server; no token is needed.
        store: where several workers keep what they share, such as "sqlite:////run/desk.db" or
            "redis://host:6379/0", or a `Backend`; by default everything stays in this process.
        store_keys: seal what is written to the store: the first key seals, all of them open. "none"
            writes it as it is.
        store_patience: seconds that streams wait for a store that does not answer.
        lease: seconds of silence after which a worker counts as lost.
        stream_entries: how many entries of one stream the store keeps, the newest.
        retention: seconds that a stream can be resumed after its end, with a store.
        stateless: the former way to say `sessions=False`.
    """

    path: str = "/mcp"
    answers: gate.Form = "auto"
    sse: bool = False
    public_url: str | None = None
    allowed_hosts: Iterable[str] = ()
    allowed_origins: Iterable[str] = ()
    cors: bool = False
    principal: FindPrincipal | None = None
    resumable: bool = True
    events: EventStore | None = None
    retry: int = 1000
    sessions: int | bool = _SESSIONS
    sessions_per_caller: int = 5_000
    session_idle: float = 1800.0
    connections: int = 10_000
    connections_per_address: int = 2_000
    listeners: int = 8
    keep_alive: float = 15.0
    body_timeout: float = 10.0
    body_rate: int = 1024
    request_timeout: float = 600.0
    bodies_bytes: int = 40 * 1024 * 1024
    opening_bytes: int = 1024 * 1024
    write_timeout: float = 60.0
    unread_bytes: int = 32 * 1024 * 1024
    grace: float = 5.0
    access_log: bool | Literal["text", "json"] = False
    metrics: bool = False
    store: "str | Backend | None" = None
    store_keys: Sequence[str | bytes] | None = None
    store_patience: float = 5.0
    lease: float = 5.0
    stream_entries: int = 10_000
    retention: float = 300.0
    stateless: bool | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or "?" in self.path or "#" in self.path:
            raise ValueError(f"path is {self.path!r}, expected a path that begins with /, no query")
        if self.answers not in ("auto", "json", "stream"):
            raise ValueError(f"answers is {self.answers!r}, expected 'auto', 'json' or 'stream'")
        for name in ("allowed_hosts", "allowed_origins"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a string, expected a list of strings")  # noqa: TRY004
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        if self.cors not in (True, False):  # in other frameworks it is a list of origins
            why = "expected True or False; list the origins in allowed_origins"
            raise ValueError(f"cors is {self.cors!r}, {why}")
        if self.access_log not in (True, False, "text", "json"):
            why = "expected True, False, 'text' or 'json'"
            raise ValueError(f"access_log is {self.access_log!r}, {why}")
        self._read_sessions()
        for name in _NUMBERS:
            value, may_be_zero = getattr(self, name), name in _MAY_BE_ZERO
            if not (value >= 0 if may_be_zero else value > 0):
                expected = "0 or more" if may_be_zero else "more than 0"
                raise ValueError(f"{name} is {value!r}, expected {expected}")
        if self.sse and not self.has_sessions:
            raise ValueError("sse needs sessions, which sessions=False turns off")
        self._check_store()

    @property
    def has_sessions(self) -> bool:
        """Whether clients of revisions with a handshake get a session."""
        return self.sessions is not False

    def _read_sessions(self) -> None:
        if self.stateless is not None:
            said = f"stateless={self.stateless} is now sessions={not self.stateless}"
            warnings.warn(said, DeprecationWarning, stacklevel=_level_of_user())
            if self.stateless:
                msgspec.structs.force_setattr(self, "sessions", False)
        if self.sessions is True:
            msgspec.structs.force_setattr(self, "sessions", _SESSIONS)
        if self.sessions is not False and not self.sessions > 0:
            why = "expected more than 0, or False for none"
            raise ValueError(f"sessions is {self.sessions!r}, {why}")

    def _check_store(self) -> None:
        keys = self.store_keys
        if isinstance(keys, str | bytes) and keys != "none":
            # A text is a sequence of texts too: each letter would be taken for a key.
            raise ValueError("store_keys is one text, expected a list of keys, or 'none'")
        if self.store is None:
            if keys is not None:
                raise ValueError("store_keys seals what is written to a store; name that too")
            return
        if self.events is not None:
            raise ValueError("events and store both keep streams; leave one of them out")


def _level_of_user() -> int:
    """Return the stack level, for the caller's warnings, of the code that uses this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("accord."):
        frame, level = frame.f_back, level + 1
    return level


_MAY_BE_ZERO: Final = ("retry", "grace")
_NUMBERS = [name for name, kind in HttpOptions.__annotations__.items() if kind in (int, float)]


class ServedSession(Protocol):
    """One client's protocol session, as the server behind the app has it."""

    dispatcher: Dispatcher
    endpoint: Endpoint
    loop: AbstractEventLoop
    is_shared: bool
    is_changed: bool
    is_unread: bool
    state_values: dict[str, Any] | None

    @property
    def client(self) -> PartyState:
        """The client's part of the conversation."""

    @property
    def is_spare(self) -> bool:
        """Whether it can serve another request that stands on its own."""

    @property
    def is_begun(self) -> bool:
        """Whether the client has sent `initialize`."""

    def request_cancelled(self, exchange: Exchange) -> None:
        """Note that the answer to a request is no longer wanted."""

    def list_in(self, group: Any) -> None:
        """Let the server find the session in a group of open sessions, which it holds weakly."""

    def close(self) -> None:
        """End the session."""


class ServedStatelessSessions(Protocol):
    """Sessions that serve one message each."""

    def begin(self, write: Write, state: Any, revision: RevisionId) -> ServedSession:
        """Begin one under a revision, without `initialize`."""

    def end(self, session: Any) -> None:
        """End one, unless its work goes on."""


class ServedServer(Protocol):
    """The server behind the app."""

    revisions: tuple[RevisionId, ...]
    limits: Limits

    @property
    def stateless_sessions(self) -> ServedStatelessSessions:
        """Its sessions of one message."""

    def join_lifespan(self) -> AbstractAsyncContextManager[object]:
        """Run its lifespan, unless the program runs it already on this loop."""

    @property
    def must_close(self) -> bool:
        """Whether something stays open unless its lifespan ends."""

    @property
    def ask_timeout(self) -> float:
        """Seconds that it waits for the answers of clients."""

    @property
    def session_sharing(self) -> Any:
        """Puts its sessions into records, for other workers; see `shared_sessions`."""

    def join_workers(self, worker: "Worker") -> None:
        """Share state with other workers from now on."""

    async def leave_workers(self) -> None:
        """Share state no more."""

    def session(
        self, write: Write, state: object = None, *, is_lasting: bool = True
    ) -> ServedSession:
        """Begin to serve one client."""


class AppState:
    """What all requests to one app share while it runs on one event loop.

    Attributes:
        lifespan: what the server's lifespan yielded.
        events: keeps what was sent on resumable streams.
        readers: the responses that follow a stream.
        retired: the streams that have ended and can be resumed for a while.
        listening: how many of the requests under way only listen.
        worker: this one, where several serve together.
        is_stopping: whether new sessions are refused.
        is_draining: whether new requests are refused.
    """

    def __init__(
        self, server: ServedServer, options: HttpOptions, now: Callable[[], float]
    ) -> None:
        self.server = server
        self.options = options
        self.now = now
        self.lifespan: object = None
        self.events: EventStore = options.events or MemoryEventStore()
        self.readers: set[Reader] = set()
        self.retired = RetiredStreams()
        self.listening = 0
        self.worker: Worker | None = None
        self.is_stopping = False
        self.is_draining = False


class Body(msgspec.Struct, eq=False):
    """A body that is being read."""

    task: asyncio.Task[object]
    last_arrival: float
    deadline: float
    end: float
    size: int = 0
    refusal: gate.HttpRefusal | None = None


class Bodies:
    """Reads bodies, and limits those that are being read.

    Reading stops when no byte has arrived for `body_timeout`, when bytes arrive more slowly than
    `body_rate` for longer than three times that, or after `request_timeout`. All bodies together
    hold no more than `bodies_bytes`: above that, those that are stuck make room, or else the newest
    is refused.
    """

    def __init__(self, state: AppState, sessions: Container[bytes | None]) -> None:
        self._state = state
        self._sessions = sessions
        self._options = options = state.options
        self._patience = _LENIENCY * options.body_timeout
        why = f"bodies of {options.bodies_bytes} bytes are being read (bodies_bytes)"
        self._full = gate.HttpRefusal(503, why, -32000, (("retry-after", "1"),))
        revisions = state.server.revisions
        self._stateless = frozenset(id.encode() for id in revisions if id not in HANDSHAKE)
        self._under_way: dict[asyncio.Task[object], Body] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._under_way)

    # -- reading

    def read(self, exchange: HttpExchange) -> bytes | Awaitable[bytes | None]:
        """Return the body if it is there, as small ones are; else what to await.

        That returns None when the request was refused or its client is gone.
        """
        body = exchange.body
        if body is not None:
            return self._check_size(exchange, body)
        length = exchange.headers.get(LENGTH)
        if length is not None and length.isdigit() and int(length[:20]) > BRIEF:
            limit, setting = self._limit(exchange)
            if int(length[:20]) > limit:
                return exchange.refuse(_too_large(limit, setting), close=True)
        waiting = exchange.receive()
        if type(waiting) is not CoroutineType:
            return self._wait(exchange, waiting)
        try:
            first = waiting.send(None)
        except StopIteration as done:
            message: Message = done.value
        else:
            return self._wait(exchange, Resumed(waiting, first))
        if message["type"] != "http.request" or message.get("more_body"):
            return self._wait(exchange, None, message)
        return self._check_size(exchange, bytes(message.get("body", b"")))

    def _check_size(self, exchange: HttpExchange, body: bytes) -> bytes | Awaitable[None]:
        if len(body) > BRIEF:
            limit, setting = self._limit(exchange)
            if len(body) > limit:
                return exchange.refuse(_too_large(limit, setting), close=True)
        return body

    def _limit(self, exchange: HttpExchange) -> tuple[int, str]:
        """Return how many bytes the body may have, and the setting that limits it."""
        limit, least = self._state.server.limits.message_bytes, self._options.opening_bytes
        has_session = exchange.has_session or not self._options.has_sessions
        if exchange.headers.get(VERSION) in self._stateless:
            # It has no session to open first; all bodies together are limited by `bodies_bytes`.
            return limit, "message_bytes"
        if has_session or limit <= least or exchange.headers.get(SESSION) in self._sessions:
            return limit, "message_bytes"
        return least, "opening_bytes, before there is a session"

    async def _wait(
        self,
        exchange: HttpExchange,
        waiting: Awaitable[Message] | None,
        message: Message | None = None,
    ) -> bytes | None:
        """Wait for a body within the limits: for its first message, or for what follows that."""
        task = asyncio.current_task()
        assert task is not None
        now = self._state.now()
        body = self._under_way[task] = Body(
            task, now, now + self._patience, now + self._options.request_timeout
        )
        try:
            if waiting is not None:
                message = await waiting
            if message is None or message["type"] != "http.request":
                return None
            limit, setting = self._limit(exchange)
            return await self._read_rest(exchange, message, body, limit, setting)
        except asyncio.CancelledError:
            if body.refusal is None:
                raise
            body.task.uncancel()
            await exchange.refuse(body.refusal, close=True)
            return None
        finally:
            self._end(body)

    async def _read_rest(
        self, exchange: HttpExchange, message: Message, body: Body, limit: int, setting: str
    ) -> bytes | None:
        chunks: list[bytes] = []
        while message["type"] == "http.request":
            chunk = message.get("body", b"")
            chunks.append(chunk)
            refusal = self._add(body, len(chunk))
            if body.size > limit:
                refusal = _too_large(limit, setting)
            if refusal is not None:
                chunks.clear()
                await exchange.refuse(refusal, close=True)
                return None
            if not message.get("more_body"):
                return b"".join(chunks)
            message = await exchange.receive()
        return None

    # -- limits

    def _add(self, body: Body, size: int) -> gate.HttpRefusal | None:
        """Count bytes that have arrived; return the refusal if they are too many."""
        now = self._state.now()
        body.last_arrival = now
        body.size += size
        body.deadline = min(body.deadline + size / self._options.body_rate, now + self._patience)
        self.size += size
        while self.size > self._options.bodies_bytes:
            others = (each for each in self._under_way.values() if each.size and each is not body)
            stuck = min(others, key=lambda each: each.last_arrival, default=None)
            if stuck is None or now - stuck.last_arrival < _STUCK:
                return self._full
            self._give_up(stuck, self._full)
        return None

    def _end(self, body: Body) -> None:
        self._under_way.pop(body.task, None)
        self.size -= body.size
        body.size = 0

    def tick(self, now: float) -> None:
        """Refuse bodies that take too long."""
        for body in list(self._under_way.values()):
            if now - body.last_arrival >= self._options.body_timeout:
                self._give_up(body, _SILENT)
            elif now >= body.deadline:
                self._give_up(body, _SLOW)
            elif now >= body.end:
                self._give_up(body, _LATE)

    def stop(self, refusal: gate.HttpRefusal) -> None:
        """Refuse all of them."""
        for body in list(self._under_way.values()):
            self._give_up(body, refusal)

    def _give_up(self, body: Body, refusal: gate.HttpRefusal) -> None:
        self._end(body)
        body.refusal = refusal
        body.task.cancel()


def _too_large(limit: int, setting: str) -> gate.HttpRefusal:
    return gate.HttpRefusal(413, f"body exceeds {limit} bytes ({setting})")
