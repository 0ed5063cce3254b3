"""One client over HTTP: its protocol session, its streams and the responses to its POSTs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec import Raw, UnsetType

from accord.errors import InvalidRequest
from accord.http.rules import gate, sse
from accord.http.rules.headers import RequestFacts, decode_headers
from accord.http.server.exchange import HttpExchange
from accord.http.server.state import AppState, ServedSession
from accord.http.server.stream import CONGESTED, Stream
from accord.principal import Principal
from accord.protocol.exchange import Event, Exchange, RequestReceived
from accord.protocol.mirroring import MirroredArgument
from accord.protocol.party import NONE_OPEN
from accord.runtime.dispatcher import NONE_RUNNING
from accord.types import RevisionId

if TYPE_CHECKING:
    from accord.http.server.sessions import SessionPlace

log = logging.getLogger("accord.http")


class PostResponse:
    """The response to one POST; the origin of its requests, as a dispatcher sees it.

    It is made as a stream once there is a message before the answer, else as one JSON message.

    Args:
        exchange: the HTTP request.
        owner: the session that it belongs to.
        form: how the client accepts the response.

    Attributes:
        is_batch: whether the POST holds more than one message.
        is_held: whether the answer is there, but has to wait.
        is_hung_up: whether it ends before the answer.
        is_over: whether the answer is there, or will not come.
        is_received: whether the session has received the body.
        refusals: the errors for messages that were not accepted as requests.
        reply: the answer.
        request: the stateless request that has no answer yet.
        status: that of the response, unless its answer or a refusal says another.
        stream: the stream, once it is opened.
        is_stateless: whether it stands on its own, so that its client cannot come back for it.
        is_listening: whether it is kept open for a request that only listens.
        is_left: whether its client is gone.
        watcher: waits for the client of a stateless request to leave.
    """

    is_batch = False
    is_held = False
    is_hung_up = False
    is_over = False
    is_received = False
    is_left = False
    is_stateless = False
    is_listening = False
    status = 200
    request: Exchange | None = None
    refusals: tuple[bytes, ...] = ()
    reply: bytes | None = None
    stream: Stream | None = None
    watcher: asyncio.Task[None] | None = None
    _waiter: asyncio.Future[Any] | None = None
    _on_ready: "Callable[[Any], None] | None" = None

    def __init__(self, exchange: HttpExchange, owner: "RequestSession", form: gate.Form) -> None:
        self.exchange = exchange
        self.owner = owner
        self.form = form
        if owner.only_stream is not None:
            # In the older form every message goes to the one stream.
            self.stream, self.is_over = owner.only_stream, True

    # -- messages of the client

    def expects_answers(self, events: Sequence[Event]) -> bool:
        """Whether a batch has requests; if all are answered or refused, it need not wait."""
        if not any(event.__class__ is RequestReceived for event in events):
            return False
        self.is_batch = True
        if not self.is_over and not self.is_held and not self.owner.has_open(self):
            self.give_up()
        return True

    # -- messages of the server

    @property
    def can_ask(self) -> bool:
        """Whether it can carry requests of the server."""
        return self.form != "json"

    def say(self, data: bytes) -> None:
        """Send a message before the answer: from now on the response is a stream."""
        if self.form != "json":
            (self.stream or self.open_stream()).append(data)

    def answer(self, data: bytes) -> None:
        self.is_over = True
        self.reply = data
        if self.stream is not None:
            self.stream.append(data)
            self.owner.end_stream(self.stream)
        self._wake()

    def give_up(self) -> None:
        """Expect no answer any more."""
        self.is_over = True
        if self.stream is not None:
            self.owner.end_stream(self.stream)
        self._wake()

    # -- what a dispatcher and a context ask of it

    def check(self, exchange: Exchange, params: object) -> None:
        """Accept a request: in a session, headers repeat nothing of it."""

    def check_arguments(
        self, mirrored: tuple[MirroredArgument, ...], arguments: Raw | UnsetType
    ) -> None:
        """Accept the arguments of a call, as `check` does."""

    def listen(self, end: Callable[[], None]) -> None:
        """Refuse to keep a response open: a session listens with GET."""
        raise InvalidRequest("a session listens with GET")

    def reject(self, reply: bytes) -> None:
        """Take the error for a message that is not accepted as a request."""
        self.refusals = (*self.refusals, reply)

    @property
    def refusal(self) -> bytes:
        """The errors as one message; several, as for a refused batch, become an array."""
        only, *more = self.refusals
        return b"[%b]" % b",".join(self.refusals) if more else only

    def finish(self) -> None:
        """Give up once the work for its requests has ended without an answer."""
        owner = self.owner
        if owner.key:
            dispatcher = owner.session.dispatcher
            if not dispatcher.running:
                dispatcher.running = NONE_RUNNING  # as `release_tables` does, without the call
        if self.is_over or not self.is_received or self.is_held:
            return
        is_ended = owner.session.dispatcher.closed is not None
        if not self.is_batch or is_ended or not owner.has_open(self):
            self.give_up()

    @property
    def backlog(self) -> int:
        return 0 if self.stream is None else self.stream.unread

    @property
    def is_congested(self) -> bool:
        return self.stream is not None and self.stream.unread > CONGESTED

    async def writable(self) -> None:
        if self.stream is not None:
            await self.stream.writable()

    @property
    def principal(self) -> Principal | None:
        return self.exchange.principal

    @property
    def facts(self) -> RequestFacts:
        """The headers, the address and the path of the request."""
        scope, headers = self.exchange.scope, self.exchange.headers
        client = scope.get("client")
        return RequestFacts(
            headers=decode_headers(headers.items(), with_secrets="accord.principal" not in scope),
            # Some ASGI servers give the port as text.
            peer=None if client is None else (client[0], int(client[1] or 0)),
            session_id=self.owner.id or None,
            url_path=scope["path"],
            query=scope.get("query_string", b"").decode("latin-1"),
        )

    def forbid(self, scopes: Iterable[str]) -> None:
        """Respond with the guard's challenge for missing scopes, unless it is too late."""
        challenge = self.exchange.scope.get("accord.challenge")
        if challenge is not None and not self.is_over and self.stream is None:
            self.exchange.denial = challenge(scopes)

    # -- the stream

    def open_stream(self) -> Stream:
        """Return the stream; it is opened if it was not."""
        if self.stream is None:
            self.stream = self.owner.make_stream()
            if self.is_primed:
                self.stream.prime()
            self._wake()
        return self.stream

    @property
    def can_hang_up(self) -> bool:
        """Whether the client will come back for the answer if the response ends without it."""
        is_possible = self.form != "json" and not self.is_over
        return is_possible and self.is_primed and self.owner.is_resumable

    def hang_up(self, retry: int | None) -> None:
        """End the response before the answer, if the client will come back for that."""
        if self.can_hang_up:
            self.is_hung_up = True
            self.open_stream().hang_up(retry)  # gate.sse.retry-before-close

    @property
    def is_primed(self) -> bool:
        """Whether clients can resume the stream before its first message."""
        return self.owner.session.endpoint.revision.priming_event

    def complete_stream(self) -> bytes | None:
        """Return all events of a response that has ended before any was sent.

        None if they have to be stored before clients may see them; then the stream goes on.
        """
        if self.stream is None and self.reply is not None:
            if not self.is_primed:
                # Without an earlier event the client cannot resume; so nothing is stored.
                return sse.encode(self.reply, name="message")
            stream = self.open_stream()
            stream.append(self.reply)
            self.owner.end_stream(stream)
            if not stream.is_ended:
                return None
        return b"" if self.stream is None else self.stream.take_all()

    # -- ending

    def end_listening(self) -> None:
        """Let a request that only listens be answered."""

    def leave(self) -> None:
        """End what serves a request whose response has ended, or whose client is gone."""
        if not self.owner.is_kept:
            self.owner.let_go()

    # -- waiting

    def watch(self) -> None:
        """Wake once the client is gone, if the request ends then."""

    async def stop_watching(self) -> None:
        """Let others wait for the disconnect."""

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if self._on_ready is None:
            return
        if self.is_over:
            self._report_ready()
        else:
            # A handler that answers at once after this gets by with one write.
            self.owner.session.loop.call_soon(self._report_ready)

    def _report_ready(self) -> None:
        on_ready, self._on_ready = self._on_ready, None
        if on_ready is not None:
            try:
                on_ready(self)
            except Exception:  # it must not reach the handler
                log.exception("a response failed")
                self.exchange.fail()

    def call_when_ready(self, on_ready: Callable[[Any], None] | None) -> None:
        """Call something once, in place of `wait`, where a response needs no task."""
        self._on_ready = on_ready

    async def wait(self) -> None:
        """Wait for the answer, for a message before it, or until none will come."""
        if self.is_over or self.stream is not None:
            return
        self._waiter = self.owner.session.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


class RequestSession:
    """The protocol session of a request, or of one message, to which clients cannot come back.

    It is called with the messages of the server, which saves the reference to a method.

    Args:
        state: of the app that serves it.
        revision: that of the message; without it, `initialize` is expected.
        key: the value of the session header, if clients may come back to it after all.

    Attributes:
        session: the protocol session.
        key: the value of the session header; empty if clients cannot come back to it.
        is_kept: whether clients can come back to it.
        only_stream: the stream for all messages, of a session in the older form.
        response_type: makes the responses to its POSTs.
    """

    __slots__ = ("_state", "is_kept", "key", "only_stream", "session")

    response_type: type[PostResponse] = PostResponse

    def __init__(
        self, state: AppState, revision: RevisionId | None = None, *, key: bytes = b""
    ) -> None:
        self._state = state
        self.key = key
        self.is_kept = False
        self.only_stream: Stream | None = None
        server = state.server
        self.session: ServedSession
        if revision is None:
            self.session = server.session(self, state.lifespan, is_lasting=bool(key))
            self.session.endpoint.serve_session_only()
        else:
            self.session = server.stateless_sessions.begin(self, state.lifespan, revision)

    @property
    def id(self) -> str:
        """The value of the session header as text."""
        return self.key.decode()

    @property
    def is_resumable(self) -> bool:
        """Whether its streams can be resumed."""
        return False

    def make_stream(self, *, is_lossy: bool = False) -> Stream:
        """Make a stream, which can be resumed if the session lasts."""
        return Stream(is_lossy=is_lossy)

    def end_stream(self, stream: Stream) -> None:
        """End a stream; one that can be resumed is kept for a while."""
        stream.end()

    def has_open(self, response: object) -> bool:
        """Whether requests of a POST still wait for their answer."""
        return any(each.origin is response for each in self.session.client.open.values())

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        """Put a message of the server on the one stream that it belongs to."""
        if exchange is None or exchange.cancelled or exchange.origin.is_over:
            return
        # An exchange is closed before its answer is written, and no sooner.
        if self.session.endpoint.conversation.client.open.get(exchange.id) is exchange:
            exchange.origin.say(data)
        else:
            exchange.origin.answer(data)

    __call__ = write

    def release(self) -> None:
        """Let another request have the session, now that its own is answered; or end it."""
        self.let_go()

    def let_go(self) -> None:
        """End a session that clients cannot come back to; work that goes on is not cancelled."""
        self._state.server.stateless_sessions.end(self.session)


class HttpSession(RequestSession):
    """One client over HTTP: its protocol session and its streams.

    Args:
        state: of the app that serves it.
        key: the value of the session header; empty for a session of one message.
        principal: the caller that opened it.
        caller: the key of the quota that it counts in.
        revision: for a session of one message; without it, `initialize` is expected.

    Attributes:
        used: when a request last named it.
        placed: when it got its place among the sessions of its caller.
        before: its neighbour there, like `after`; None until it is named after `initialize`.
        ends_at: when the last token expires, of a session in the older form.
        admits: verifies that token again.
        streams: the streams that can be resumed, by name; None if empty.
    """

    __slots__ = (
        "_names",
        "_standing",
        "admits",
        "after",
        "before",
        "caller",
        "ends_at",
        "placed",
        "principal",
        "streams",
        "used",
    )

    def __init__(
        self,
        state: AppState,
        key: bytes = b"",
        *,
        principal: Principal | None = None,
        caller: Hashable = None,
        revision: RevisionId | None = None,
    ) -> None:
        super().__init__(state, revision, key=key)
        self.principal = principal
        self.caller = caller
        self.used = self.placed = state.now()
        self.before: SessionPlace | None = None
        self.after: SessionPlace | None = None
        self.ends_at = inf
        self.admits: Callable[[], Awaitable[bool]] | None = None
        # An idle session owns no lists.
        self.streams: dict[int, Stream] | None = None
        # The streams for messages outside of any POST.
        self._standing: tuple[Stream, ...] = ()
        self._names = 0

    @property
    def is_opened(self) -> bool:
        """Whether a request has named it since `initialize`."""
        return self.after is not None

    # -- streams

    @property
    def is_resumable(self) -> bool:
        return bool(self.key) and self._state.options["resumable"]

    def make_stream(self, *, is_lossy: bool = False) -> Stream:
        options = self._state.options
        if not self.is_resumable:
            return Stream(is_lossy=is_lossy)
        self._names += 1
        stream = Stream(
            self._names,
            session=self.id,
            store=self._state.events,
            retry=options["retry"],
            is_lossy=is_lossy,
        )
        if self.streams is None:
            self.streams = {}
        self.streams[stream.name] = stream
        return stream

    def find_stream(self, name: int) -> Stream | None:
        """Return a stream that can be resumed."""
        return None if self.streams is None else self.streams.get(name)

    def end_stream(self, stream: Stream) -> None:
        stream.end()
        if stream.name:
            self._state.retired.add(self._state.now(), stream, self.forget_stream)

    def forget_stream(self, name: int) -> None:
        """Drop a stream and its events."""
        if self.streams is not None:
            self.streams.pop(name, None)
            if not self.streams:
                self.streams = None
        self._forget_events(name)

    def _forget_events(self, stream: int | None = None) -> None:
        try:
            self._state.events.forget(self.id, stream)
        except Exception:  # the user's store may raise anything
            log.exception("the event store failed")

    def listen(self) -> Stream | gate.HttpRefusal:
        """Return a stream for a client that listens: one without a reader, or a new one."""
        for stream in reversed(self._standing):
            if stream.reader is None and not stream.is_ended:
                stream.skip_lost()
                return stream
        most = self._state.options["listeners"]
        if len(self._standing) >= most:
            return gate.HttpRefusal(
                429, f"{most} streams of this session are open (listeners)", code=-32000
            )
        return self._make_standing()

    def _make_standing(self) -> Stream:
        stream = self.make_stream(is_lossy=True)
        self._standing = (*self._standing, stream)
        return stream

    def is_standing(self, stream: Stream) -> bool:
        """Whether a stream is for messages outside of any POST."""
        return stream in self._standing

    def _all_streams(self) -> Iterator[Stream]:
        if self.streams is not None:
            yield from self.streams.values()
        yield from self._standing
        if self.only_stream is not None:
            yield self.only_stream

    # -- whether it is in use

    def is_idle(self, before: float) -> bool:
        """Whether no request has named the session since then, and nothing is under way."""
        if self.used >= before or self.session.dispatcher.running:
            return False
        return all(stream.reader is None for stream in self._all_streams())

    def is_due(self, now: float) -> bool:
        """Whether the last token has expired, and nothing is under way."""
        return now >= self.ends_at and not self.session.dispatcher.running

    async def is_admitted(self) -> bool:
        """Whether the last token is still accepted, or something is under way."""
        return bool(self.admits is None or self.session.dispatcher.running or await self.admits())

    # -- messages of the server

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        response: PostResponse | None = None if exchange is None else exchange.origin
        if exchange is None or response is None or self.only_stream is not None:
            self.write_outside(data)
        elif self._is_answer(data, exchange, response):
            response.answer(data)
        elif response.is_over:
            self.write_outside(data)
        elif not exchange.cancelled:
            response.say(data)

    __call__ = write

    def _is_answer(self, data: bytes, exchange: Exchange, response: "PostResponse") -> bool:
        if exchange.batch is not None:
            return data.startswith(b"[")
        if response.is_over or exchange.cancelled:
            return False
        client = self.session.endpoint.conversation.client
        if not client.open:
            client.open = NONE_OPEN  # as `release_tables` does, without the call
            return True
        # An exchange is closed before its answer is written, and no sooner.
        return client.open.get(exchange.id) is not exchange

    def write_outside(self, data: bytes) -> None:
        """Write a message outside of any POST."""
        if self.only_stream is not None:
            self.only_stream.append(data)
        elif self.key:
            self._choose_standing().append(data)

    def _choose_standing(self) -> Stream:
        """Choose the one stream for a message: of those with a reader, the newest."""
        chosen = None
        for stream in self._standing:
            if chosen is None or stream.reader is not None or chosen.reader is None:
                chosen = stream
        return chosen or self._make_standing()

    def release_tables(self) -> None:
        """Own no empty tables of requests: most sessions are idle most of the time."""
        self.session.dispatcher.release_tables()
        conversation = self.session.endpoint.conversation
        conversation.client.release_tables()
        conversation.server.release_tables()

    # -- ending

    def end_standing(self) -> None:
        """End the responses to clients that only listen; they come back."""
        for stream in self._standing:
            if stream.reader is not None:
                stream.reader.end()
        older = self.only_stream
        if older is not None and older.reader is not None and not self.session.dispatcher.running:
            older.reader.end()

    def close(self) -> None:
        """End the session and its streams."""
        self.session.close()
        for stream in self._all_streams():
            stream.end()
        if self.streams is not None:
            self._forget_events()
