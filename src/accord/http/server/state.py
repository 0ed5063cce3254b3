"""What all requests to one app share: its options, the server behind it, streams, bodies."""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractAsyncContextManager
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from accord.http.rules import gate
from accord.http.server.exchange import LENGTH, SESSION, VERSION, HttpExchange, Message
from accord.http.server.stream import EventStore, MemoryEventStore, RetiredStreams
from accord.http.settings import HttpSettings
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
    from accord.sharing.workers.worker import Worker

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
        self, server: ServedServer, options: HttpSettings, now: Callable[[], float]
    ) -> None:
        self.server = server
        self.options = options
        self.now = now
        self.lifespan: object = None
        self.events: EventStore = options["events"] or MemoryEventStore()
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
        self._options = state.options
        self._limits = limits = state.options["limits"]
        self._patience = _LENIENCY * limits.body_timeout
        why = f"bodies of {limits.bodies_bytes} bytes are being read (bodies_bytes)"
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
        limit, least = self._state.server.limits.message_bytes, self._limits.opening_bytes
        has_session = exchange.has_session or self._options["sessions"] is False
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
            task, now, now + self._patience, now + self._limits.request_timeout
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
        body.deadline = min(body.deadline + size / self._limits.body_rate, now + self._patience)
        self.size += size
        while self.size > self._limits.bodies_bytes:
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
            if now - body.last_arrival >= self._limits.body_timeout:
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
