"""One client over HTTP: its protocol session, its streams, and the POSTs that wait for answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final

from accord.bindings import http, sse
from accord.bindings.facts import RequestFacts, readable
from accord.protocol.events import Event
from accord.protocol.exchange import Exchange
from accord.transports.http_exchange import HttpExchange
from accord.transports.streams import Reader, Stream
from accord.types import RevisionId

__all__ = ["HttpSession", "Post"]

log = logging.getLogger("accord.http")

# A client of the older form that leaves this much unread will not read it any more.
_UNREAD_MOST: Final = 32 * 1024 * 1024


class HttpSession:
    """One client over HTTP: its protocol session and its streams.

    Args:
        app: the app that serves it.
        id: what the client names it by; empty where it lives for one message only.
        principal: who opened it.
        caller: whose quota it counts in.
        revision: that of a single message; without it, an opening is expected.
    """

    __slots__ = (
        "_names",
        "_open",
        "_standing",
        "admits",
        "app",
        "caller",
        "ends_at",
        "id",
        "is_kept",
        "is_opened",
        "only_stream",
        "principal",
        "session",
        "streams",
        "used",
    )

    def __init__(
        self,
        app: Any,
        id: str = "",
        *,
        principal: Hashable = None,
        caller: Hashable = None,
        revision: RevisionId | None = None,
    ) -> None:
        self.app = app
        self.id = id
        self.principal = principal
        self.caller = caller
        self.used: float = app.now()
        self.ends_at = inf
        self.admits: Callable[[], Awaitable[bool]] | None = None
        self.is_kept = False
        self.is_opened = False
        self.only_stream: Stream | None = None
        # An idle session owns no lists.
        self.streams: dict[int, Stream] | None = None
        self._standing: tuple[Stream, ...] = ()
        self._names = 0
        if revision is None:
            self.session = app.server.session(self.write, app.state, is_lasting=bool(id))
        else:
            self.session = app.server.singles.begin(self.write, app.state, revision)
        self._open: dict[Any, Exchange] = self.session.client.open

    # -- streams

    def stream(self, *, is_lossy: bool = False) -> Stream:
        """Make a stream."""
        options = self.app.options
        if not self.id or not options.resumable:
            return Stream(is_lossy=is_lossy)
        self._names += 1
        stream = Stream(
            self._names,
            session=self.id,
            store=self.app.events,
            retry=options.retry,
            is_lossy=is_lossy,
        )
        if self.streams is None:
            self.streams = {}
        self.streams[stream.name] = stream
        return stream

    def find_stream(self, name: int) -> Stream | None:
        """Return a stream that can be resumed."""
        return None if self.streams is None else self.streams.get(name)

    def forget_stream(self, name: int) -> None:
        """Let go of a stream that nobody will come back for."""
        if self.streams is not None:
            self.streams.pop(name, None)
            if not self.streams:
                self.streams = None
        self._forget(name)

    def _forget(self, stream: int | None = None) -> None:
        try:
            self.app.events.forget(self.id, stream)
        except Exception:  # a store may be anybody's
            log.exception("the event store failed")

    def listen(self) -> Stream | http.Refusal:
        """Return the stream for a client that listens: one that nobody follows, or another."""
        for stream in reversed(self._standing):
            if stream.reader is None and not stream.is_ended:
                stream.skip_lost()
                return stream
        most = self.app.options.listeners
        if len(self._standing) >= most:
            return http.Refusal(
                429, f"{most} streams of this session are open (listeners)", code=-32000
            )
        return self._stand()

    def _stand(self) -> Stream:
        stream = self.stream(is_lossy=True)
        self._standing = (*self._standing, stream)
        return stream

    def has_standing(self, stream: Stream) -> bool:
        """Whether a stream is for those who listen, and not for the answer to a request."""
        return stream in self._standing

    def readers(self) -> Iterator[Stream]:
        """Return the streams that somebody follows."""
        streams = (*(self.streams or {}).values(), *self._standing, self.only_stream)
        return (each for each in streams if each is not None and each.reader is not None)

    def is_idle(self, before: float) -> bool:
        """Whether nobody has used the session since then and nothing is under way."""
        if self.used >= before or self.session.dispatcher.running:
            return False
        return next(self.readers(), None) is None

    def is_due(self, now: float) -> bool:
        """Whether the last token that was shown is over, and nothing is under way."""
        return now >= self.ends_at and not self.session.dispatcher.running

    async def is_admitted(self) -> bool:
        """Whether the last token that was shown is still good, or something is under way."""
        return bool(self.admits is None or self.session.dispatcher.running or await self.admits())

    def has_open(self, post: "Post") -> bool:
        """Whether requests of a POST still wait for their answer."""
        return any(each.origin is post for each in self._open.values())

    # -- what the server says

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        """Put a message on the one stream it belongs to."""
        post: Post | None = None if exchange is None else exchange.origin
        if exchange is None or post is None or self.only_stream is not None:
            self._say_alone(data)
        elif self._is_answer(data, exchange, post):
            post.answer(data)
        elif post.is_over:
            self._say_alone(data)
        elif not exchange.cancelled:
            post.say(data)

    def _is_answer(self, data: bytes, exchange: Exchange, post: "Post") -> bool:
        if exchange.batch is not None:
            return data.startswith(b"[")
        if post.is_over or exchange.cancelled:
            return False
        # An exchange is closed before its answer is written, and no sooner.
        return self._open.get(exchange.id) is not exchange

    def _say_alone(self, data: bytes) -> None:
        if self.only_stream is not None:
            self.only_stream.append(data)
            if self.only_stream.unread > _UNREAD_MOST:
                self.app.end(self)
        elif self.id:
            self._standing_stream().append(data)

    def _standing_stream(self) -> Stream:
        """Choose the one stream for messages that stand alone: of those followed, the newest."""
        chosen = None
        for stream in self._standing:
            if chosen is None or stream.reader is not None or chosen.reader is None:
                chosen = stream
        return chosen or self._stand()

    # -- ending

    def end_standing(self) -> None:
        """Let clients that only listen go; they come back."""
        for stream in self._standing:
            if stream.reader is not None:
                stream.reader.end()
        older = self.only_stream
        if older is not None and older.reader is not None and not self.session.dispatcher.running:
            older.reader.end()

    def let_go(self) -> None:
        """End a session that nobody can come back to; work that goes on is not cancelled."""
        self.app.server.singles.end(self.session)

    def close(self) -> None:
        """End the session and its streams."""
        self.session.close()
        for stream in (*(self.streams or {}).values(), *self._standing, self.only_stream):
            if stream is not None:
                stream.end()
        if self.streams is not None:
            self._forget()


class Post(HttpExchange):
    """One POST: what is said during its requests, and their answer."""

    owner: HttpSession
    form: http.Form
    can_ask = True
    is_batch = False
    is_over = False
    is_received = False
    refusal: bytes | None = None
    reply: bytes | None = None
    stream: Stream | None = None
    _waiter: asyncio.Future[None] | None = None

    def begin(self, owner: HttpSession, form: http.Form, body: bytes) -> Sequence[Event]:
        """Let a session take in the body; what is said meanwhile and the answer come here."""
        self.owner = owner
        self.form = form
        if form == "json":
            self.can_ask = False
        if owner.only_stream is not None:
            # Nothing is said here, and nothing is waited for.
            self.stream, self.is_over = owner.only_stream, True
        events: Sequence[Event] = owner.session.dispatcher.receive(body, self)
        self.is_received = True
        return events

    # -- what a dispatcher and a context ask of it

    def say(self, data: bytes) -> None:
        """Send something before the answer: from now on this is an event stream."""
        if self.form != "json":
            self.open_stream().append(data)

    def answer(self, data: bytes) -> None:
        """Send the answer."""
        self.is_over = True
        self.reply = data
        if self.stream is not None:
            self.stream.append(data)
            self._end_stream(self.stream)
        self._wake()

    def reject(self, reply: bytes) -> None:
        """Take the answer to what was no request; several, as to a refused batch, become one."""
        if self.refusal is not None:
            parts = self.refusal.removeprefix(b"[").removesuffix(b"]")
            reply = b"[%b,%b]" % (parts, reply)
        self.refusal = reply

    def left(self) -> None:
        """Take note that work has ended; without an answer, if none came."""
        if self.is_over or not self.is_received:
            return
        if not self.is_batch or not self.owner.has_open(self):
            self.give_up()

    def give_up(self) -> None:
        """Expect no answer any more."""
        self.is_over = True
        if self.stream is not None:
            self._end_stream(self.stream)
        self._wake()

    @property
    def backlog(self) -> int:
        """How many bytes are unread."""
        return 0 if self.stream is None else self.stream.unread

    @property
    def is_congested(self) -> bool:
        """Whether that is a lot."""
        return self.stream is not None and self.stream.is_congested

    async def writable(self) -> None:
        """Wait until the client has read enough, or does not read at all."""
        if self.stream is not None:
            await self.stream.writable()

    @property
    def principal(self) -> Hashable:
        """Who sends it."""
        found: Hashable = self.app.sessions.principal(self)
        return found

    @property
    def facts(self) -> RequestFacts:
        """What is known of it beside its messages."""
        scope = self.scope
        client = scope.get("client")
        return RequestFacts(
            headers=readable(self.headers.items(), with_secrets="accord.principal" not in scope),
            # Some servers tell the port as text.
            peer=None if client is None else (client[0], int(client[1] or 0)),
            session_id=self.owner.id or None,
            url_path=scope["path"],
            query=scope.get("query_string", b"").decode("latin-1"),
        )

    def forbid(self, scopes: Iterable[str]) -> None:
        """Answer with what a guard around us says of missing scopes, unless it is too late."""
        challenge = self.scope.get("accord.challenge")
        if challenge is not None and not self.is_over and self.stream is None:
            self.denial = challenge(scopes)

    # -- streams

    def open_stream(self) -> Stream:
        """Return the stream of this POST, opened if it was not."""
        if self.stream is None:
            self.stream = self.owner.stream()
            if self.is_primed:
                self.stream.prime()
            self._wake()
        return self.stream

    @property
    def is_primed(self) -> bool:
        """Whether clients can resume its stream before anything was said on it."""
        return bool(self.owner.session.endpoint.revision.priming_event)

    def _end_stream(self, stream: Stream) -> None:
        stream.end()
        if stream.name:
            self.app.retire(self.owner, stream)

    def events(self) -> bytes:
        """Return the whole of a stream that has come to its end before anything was sent."""
        if self.stream is None and self.reply is not None:
            if not self.is_primed:
                # Without an earlier event there is nothing to resume from, and so nothing to keep.
                return sse.encode(self.reply, name="message")
            stream = self.open_stream()
            stream.append(self.reply)
            self._end_stream(stream)
        return b"" if self.stream is None else self.stream.take_all()

    # -- waiting

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def settled(self) -> None:
        """Wait until there is an answer, something to say before it, or none to come."""
        waiting: dict[Post, float | None] = self.app.waiting
        self._waiter = self.owner.session.loop.create_future()
        waiting[self] = None
        try:
            await self._waiter
        finally:
            self._waiter = None
            del waiting[self]

    def read(self, session: str | None = None) -> Reader:
        """Answer with the stream, from now on."""
        assert self.stream is not None
        reader = Reader(self.stream, self.send, self.stream_head(session), self.app.readers)
        self.stream.attach(reader)
        return reader
