"""The response to one POST: messages while its requests are served, and their answer."""

import asyncio
from collections.abc import Hashable, Iterable

from accord.bindings import http, sse
from accord.bindings.headers import RequestFacts, decode_headers
from accord.transports.http.server.exchange import HttpExchange
from accord.transports.http.server.session import HttpSession
from accord.transports.http.server.stream import CONGESTED, Stream


class PostResponse:
    """The response to one POST; the origin of its requests, as a dispatcher sees it.

    It is made as a stream once there is a message before the answer, else as one JSON message.

    Args:
        exchange: the HTTP request.
        owner: the session that it belongs to.
        form: how the client accepts the response.

    Attributes:
        can_ask: whether it can carry requests of the server.
        is_batch: whether the POST holds more than one message.
        is_over: whether the answer is there, or will not come.
        is_received: whether the session has received the body.
        refusals: the errors for messages that were not accepted as requests.
        reply: the answer.
        stream: the stream, once it is opened.
    """

    can_ask = True
    is_batch = False
    is_over = False
    is_received = False
    refusals: tuple[bytes, ...] = ()
    reply: bytes | None = None
    stream: Stream | None = None
    _waiter: asyncio.Future[None] | None = None

    def __init__(self, exchange: HttpExchange, owner: HttpSession, form: http.Form) -> None:
        self.exchange = exchange
        self.owner = owner
        self.form = form
        if form == "json":
            self.can_ask = False
        if owner.only_stream is not None:
            # In the older form every message goes to the one stream.
            self.stream, self.is_over = owner.only_stream, True

    # -- messages of the server

    def say(self, data: bytes) -> None:
        """Send a message before the answer: from now on the response is a stream."""
        if self.form != "json":
            (self.stream or self.open_stream()).append(data)

    def answer(self, data: bytes) -> None:
        """Send the answer."""
        self.is_over = True
        self.reply = data
        if self.stream is not None:
            self.stream.append(data)
            self.owner.end_stream(self.stream)
        if self._waiter is not None:
            self._wake(self._waiter)

    def give_up(self) -> None:
        """Expect no answer any more."""
        self.is_over = True
        if self.stream is not None:
            self.owner.end_stream(self.stream)
        if self._waiter is not None:
            self._wake(self._waiter)

    # -- what a dispatcher and a context ask of it

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
        if self.is_over or not self.is_received:
            return
        if not self.is_batch or not self.owner.has_open(self):
            self.give_up()

    @property
    def backlog(self) -> int:
        """How many bytes are unread."""
        return 0 if self.stream is None else self.stream.unread

    @property
    def is_congested(self) -> bool:
        """Whether so much is unread that handlers have to wait."""
        return self.stream is not None and self.stream.unread > CONGESTED

    async def writable(self) -> None:
        """Wait until the client has read enough, or is gone."""
        if self.stream is not None:
            await self.stream.writable()

    @property
    def principal(self) -> Hashable:
        """The caller."""
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
            if self._waiter is not None:
                self._wake(self._waiter)
        return self.stream

    @property
    def is_primed(self) -> bool:
        """Whether clients can resume the stream before its first message."""
        return self.owner.session.endpoint.revision.priming_event

    def complete_stream(self) -> bytes:
        """Return all events of a response that has ended before any was sent."""
        if self.stream is None and self.reply is not None:
            if not self.is_primed:
                # Without an earlier event the client cannot resume; so nothing is stored.
                return sse.encode(self.reply, name="message")
            stream = self.open_stream()
            stream.append(self.reply)
            self.owner.end_stream(stream)
        return b"" if self.stream is None else self.stream.take_all()

    # -- waiting

    def _wake(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the answer, for a message before it, or until none will come."""
        self._waiter = self.owner.session.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
