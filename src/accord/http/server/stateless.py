"""Requests that stand on their own: each is served by a session of one message.

They share nothing with the sessions of the same app. A client that disconnects cancels its request,
since it cannot come back for the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from accord.errors import HeaderMismatch, InternalError, InvalidRequest, RequestError
from accord.http.rules import sse, stateless
from accord.http.rules.gate import HeadVerdict
from accord.http.server.exchange import (
    VERSION,
    HttpExchange,
    expiry_check,
    wait_for_disconnect,
)
from accord.http.server.session import HttpSession, PostResponse
from accord.http.server.sessions import caller_key
from accord.http.server.state import DRAINING, AppState, Bodies
from accord.http.server.stream import Stream
from accord.protocol import codec
from accord.protocol.exchange import Exchange, RequestReceived
from accord.protocol.jsonrpc import Batch, ErrorBody, Frame, MalformedMessage
from accord.protocol.mirroring import NAME_MEMBERS, MirroredArgument
from accord.protocol.revisions import Revision
from accord.runtime.handlers import DONE
from accord.types import RevisionId

log = logging.getLogger("accord.http")

# The attribute of the params that `Mcp-Name` repeats.
_NAMED: Final = {
    method: {"taskId": "task_id"}.get(member, member) for method, member in NAME_MEMBERS.items()
}
# As many sessions as are in use at one time under high load.
_SPARE_MOST: Final = 64
# Seconds after which the client of a request that is not answered is watched.
_SOON: Final = 0.1
_ONE_MESSAGE: Final = "a POST of this revision has one request or one notification"


class StatelessSession(HttpSession):
    """The session of one request that stands on its own."""

    __slots__ = ()

    def __init__(self, state: AppState, revision: RevisionId) -> None:
        # Of what sessions have, it needs nothing else.
        self._state = state
        self.key = b""
        self.only_stream = None
        begin = state.server.stateless_sessions.begin
        self.session = begin(self, state.lifespan, revision)

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        """Put a message on the response to the request that it belongs to."""
        if exchange is None or exchange.cancelled or exchange.origin.is_over:
            return
        # An exchange is closed before its answer is written, and no sooner.
        if self.session.endpoint.conversation.client.open.get(exchange.id) is exchange:
            exchange.origin.say(data)
        else:
            exchange.origin.answer(data)

    __call__ = write


class StatelessResponse(PostResponse):
    """The response to a request that stands on its own.

    Args:
        exchange: the HTTP request.
        owner: the session of one message that serves it.
        verdict: what its head says: the revision, and how the client accepts the response.
        requests: those under way.

    Attributes:
        listens_for: the caller that it counts for, if it is open for a request that only listens.
        is_left: whether its client is gone.
        status: that of an error, where its code alone does not say.
        end: answers a request that only listens.
        watcher: waits for the client to leave.
    """

    listens_for: Hashable = None
    is_left = False
    status: int | None = None
    end: Callable[[], None] | None = None
    watcher: asyncio.Task[None] | None = None

    def __init__(
        self,
        exchange: HttpExchange,
        owner: HttpSession,
        verdict: HeadVerdict,
        requests: "StatelessRequests",
    ) -> None:
        self.exchange = exchange
        self.owner = owner
        self.form = verdict.form
        self._revision = verdict.stateless
        self._requests = requests

    # -- what the server asks of it

    def check(self, exchange: Exchange, params: Any) -> None:
        """Compare the headers with the request that they repeat.

        Raises:
            HeaderMismatch: they differ.
        """
        given, method = self.exchange, exchange.name
        attribute = _NAMED.get(method)
        name = None if attribute is None else getattr(params, attribute)
        if (
            exchange.revision is self._revision
            and not given.repeated
            and stateless.repeats(given.headers, method, name)
        ):
            return
        why = stateless.find_header_mismatch(
            given.headers, exchange.revision.id, method, name, given.repeated
        )
        if why is not None:
            raise HeaderMismatch(why)

    def check_arguments(
        self, mirrored: tuple[MirroredArgument, ...], arguments: Raw | UnsetType
    ) -> None:
        """Compare the headers with the arguments of a call that they repeat.

        Raises:
            HeaderMismatch: they differ.
        """
        given = None if arguments is UNSET else msgspec.json.decode(arguments)
        exchange = self.exchange
        why = stateless.find_argument_mismatch(mirrored, given, exchange.headers, exchange.repeated)
        if why is not None:
            raise HeaderMismatch(why)

    def listen(self, end: Callable[[], None]) -> None:
        """Keep the response open for a request that only listens: messages leave at once.

        Raises:
            InvalidRequest: the client does not accept a stream, or the server sends none.
            InternalError: the caller has too many of them.
        """
        if self.form == "json":
            self.status = 406
            raise InvalidRequest(
                "the answer is an event stream: Accept must list text/event-stream, and the "
                "server must not be limited to JSON (answers)"
            )
        self._requests.add_listener(self)
        self.end = end
        self.open_stream()

    def end_listening(self) -> None:
        """Let a request that only listens be answered; once."""
        end, self.end = self.end, None
        if end is not None:
            end()

    def open_stream(self) -> Stream:
        if self.stream is None:
            # A client that listens but does not read is disconnected: it may listen anew.
            self.stream = self.owner.make_stream(is_lossy=self.end is not None)
            self._wake()
        return self.stream

    # -- waiting

    def watch(self) -> None:
        """Wake once the client is gone."""
        if self.watcher is None:
            self.watcher = self.owner.session.loop.create_task(self._watch())

    async def _watch(self) -> None:
        try:
            await wait_for_disconnect(self.exchange.receive)
        except Exception as error:  # an app in between may raise anything
            log.debug("a client is gone: %r", error)
        self.is_left = True
        self._wake()

    async def stop_watching(self) -> None:
        """Let others wait for the disconnect."""
        watcher, self.watcher = self.watcher, None
        if watcher is not None and not watcher.done():
            watcher.cancel()
            await asyncio.wait((watcher,))

    def abandon(self, request: Exchange) -> None:
        """Cancel a request whose client is gone."""
        self.is_over = True
        session = self.owner.session
        if session.dispatcher.closed is None:
            session.dispatcher.abandon(request)  # http.cancel.disconnect-is-cancel
            session.request_cancelled(request)


class StatelessRequests:
    """The requests to one app that stand on their own.

    Args:
        state: of the app.
        bodies: reads the bodies of its requests.
        waiting: the responses that wait for their answer, of all POSTs.

    Attributes:
        open: those that were not answered at once.
    """

    def __init__(
        self, state: AppState, bodies: Bodies, waiting: MutableMapping[PostResponse, Any]
    ) -> None:
        self._state = state
        self._bodies = bodies
        self._waiting = waiting
        self._decode = codec.codec_for(state.server.limits).decode
        self._listeners: dict[Hashable, int] = {}
        self._spare: list[StatelessSession] = []
        self._watch_timer: asyncio.TimerHandle | None = None
        self.open: set[StatelessResponse] = set()

    # -- one request

    def serve(self, exchange: HttpExchange, verdict: HeadVerdict) -> Awaitable[None]:
        """Serve a POST whose header names a revision without sessions."""
        read = self._bodies.read(exchange)
        if isinstance(read, bytes):
            return self._take(exchange, verdict, read)
        return self._take_later(exchange, verdict, read)

    async def _take_later(
        self, exchange: HttpExchange, verdict: HeadVerdict, read: Awaitable[bytes | None]
    ) -> None:
        body = await read
        if body is not None:
            await self._take(exchange, verdict, body)

    def _take(self, exchange: HttpExchange, verdict: HeadVerdict, body: bytes) -> Awaitable[None]:
        """Serve a POST whose body has arrived; nothing is left to await if it is answered."""
        if self._state.is_draining:
            return exchange.refuse(DRAINING)
        assert verdict.stateless is not None
        if self._state.options.principal is not None:
            _ = exchange.principal  # a caller without an identity is refused, whatever it asks for
        session = self._session_for(verdict.stateless)
        post = StatelessResponse(exchange, session, verdict, self)
        events = session.session.dispatcher.receive(body, post)
        event = events[0]
        if event.__class__ is not RequestReceived or len(events) > 1:
            session.let_go()
            return self._refuse(exchange, body, post.refusals)
        post.is_received = True
        request: Exchange = event.exchange
        if post.is_over:
            self._put_back(session)
            return self._answer(post, request)
        self.open.add(post)
        if post.stream is not None:
            return self._answer(post, request, on_end=partial(self._leave, post, request))
        if not exchange.is_on_listener:
            return self._answer_later(post, request)
        self._waiting[post] = None
        exchange.on_left = partial(self._client_left, post, request)
        post.call_when_ready(partial(self._answer_ready, request))
        return DONE

    def _answer_ready(self, request: Exchange, post: StatelessResponse) -> None:
        del self._waiting[post]
        post.exchange.on_left = None
        leave = partial(self._leave, post, request)
        is_followed = post.stream is not None and not post.stream.is_ended
        try:
            self._answer(post, request, on_end=leave)
        except BaseException:
            leave()
            raise
        if not is_followed:
            leave()

    def _client_left(self, post: StatelessResponse, request: Exchange) -> None:
        self._waiting.pop(post, None)
        post.call_when_ready(None)
        post.is_left = True
        self._leave(post, request)

    async def _answer_later(self, post: StatelessResponse, request: Exchange) -> None:
        self._waiting[post] = None
        if self._watch_timer is None:
            self._watch_timer = post.owner.session.loop.call_later(_SOON, self._watch)
        is_followed = False
        try:
            try:
                await post.wait()
            finally:
                del self._waiting[post]
                if post.watcher is not None:
                    await post.stop_watching()
            if not post.is_left:
                is_followed = post.stream is not None and not post.stream.is_ended
                await self._answer(post, request, on_end=partial(self._leave, post, request))
        finally:
            if not is_followed:
                self._leave(post, request)

    def _leave(self, post: StatelessResponse, request: Exchange) -> None:
        """End a request that was not answered at once, with its answer or without it; once."""
        if post not in self.open:
            return
        self.open.remove(post)
        session = post.owner
        assert isinstance(session, StatelessSession)
        if post.listens_for is not None:
            self._remove_listener(post.listens_for)
        if post.is_over:
            self._put_back(session)
        else:
            post.abandon(request)
            session.let_go()

    def _session_for(self, revision: Revision) -> StatelessSession:
        """Return a session that no other request uses, and of which no handler knows."""
        while self._spare:
            session = self._spare.pop()
            if session.session.is_spare and session.session.endpoint.revision is revision:
                return session
            session.let_go()
        return StatelessSession(self._state, revision.id)

    def _put_back(self, session: StatelessSession) -> None:
        if len(self._spare) < _SPARE_MOST:
            self._spare.append(session)
        else:
            session.let_go()

    def _watch(self) -> None:
        """Watch the clients of requests that are not answered at once.

        One timer serves all: most requests are answered before it goes off, and cost nothing.
        """
        self._watch_timer = None
        for post in self._waiting:
            if isinstance(post, StatelessResponse) and not post.exchange.is_on_listener:
                post.watch()

    def _answer(
        self,
        post: StatelessResponse,
        request: Exchange,
        on_end: Callable[[], None] | None = None,
    ) -> Awaitable[None]:
        """Respond with what there is; a stream that goes on calls `on_end` at its end."""
        stream, reply, exchange = post.stream, post.reply, post.exchange
        if stream is not None:
            if stream.is_ended:
                return exchange.whole_stream(stream.take_all())
            return self._follow(post, stream, on_end)
        if reply is None:
            return exchange.refuse(DRAINING)
        status = post.status or stateless.status_of(request.fault)
        if post.form == "stream" and status == 200 and exchange.denial is None:
            return exchange.whole_stream(sse.encode(reply, name="message"))
        return exchange.json(reply, status=status)

    def _follow(
        self, post: StatelessResponse, stream: Stream, on_end: Callable[[], None] | None
    ) -> Awaitable[None]:
        state, exchange = self._state, post.exchange
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        reader.on_end = on_end
        if post.end is not None:
            reader.is_due = expiry_check(exchange.expiry(state.now()))
            reader.is_admitted = exchange.is_admitted
            reader.on_due = post.end_listening
            state.listening += 1
            reader.on_end = partial(self._stop_listening, on_end)
        stream.attach(reader)
        return reader.follow()

    def _stop_listening(self, on_end: Callable[[], None] | None) -> None:
        self._state.listening -= 1
        if on_end is not None:
            on_end()

    # -- refusals

    def refuse_misplaced(self, exchange: HttpExchange, body: bytes) -> Awaitable[None] | None:
        """Refuse a POST that stands on its own, but whose header names none of our revisions.

        Returns:
            None if it belongs to a session.
        """
        message = self._read(body)
        try:
            if stateless.classify(message, self._version(exchange), self._revisions) == "session":
                return None
        except RequestError as error:
            return self._fail(exchange, message, error)
        return self._refuse(exchange, body, ())

    def _refuse(
        self, exchange: HttpExchange, body: bytes, refusals: tuple[bytes, ...]
    ) -> Awaitable[None]:
        """Respond to a POST that holds no request, or one that cannot be served."""
        message = self._read(body)
        fault: RequestError | None = None
        try:
            stateless.classify(message, self._version(exchange), self._revisions)
        except RequestError as error:
            fault = error
        if fault is None:
            fault = self._find_fault(exchange, message)
        if fault is not None:
            return self._fail(exchange, message, fault)
        if refusals:
            status = stateless.status_of_refusal(stateless.code_in(refusals[0]))
            return exchange.json(refusals[0], status=status)
        return exchange.empty(202)

    def _find_fault(
        self, exchange: HttpExchange, message: Frame | Batch | MalformedMessage
    ) -> RequestError | None:
        if isinstance(message, MalformedMessage):
            return RequestError(str(message), code=message.code)
        if isinstance(message, Batch) or message.method is UNSET:
            return InvalidRequest(_ONE_MESSAGE)
        headers, repeated = exchange.headers, exchange.repeated
        return stateless.find_fault(message, headers, self._revisions, repeated)

    def _fail(
        self,
        exchange: HttpExchange,
        message: Frame | Batch | MalformedMessage,
        error: RequestError,
    ) -> Awaitable[None]:
        data = UNSET if error.data is None else error.data
        body = ErrorBody(error.code, error.message, data)
        reply = codec.encode_error(stateless.id_of(message), body)
        return exchange.json(reply, status=stateless.status_of_refusal(error.code))

    def _read(self, body: bytes) -> Frame | Batch | MalformedMessage:
        try:
            return self._decode(body)
        except MalformedMessage as malformed:
            return malformed

    def _version(self, exchange: HttpExchange) -> str | None:
        return exchange.header(VERSION)

    @property
    def _revisions(self) -> tuple[str, ...]:
        return self._state.server.revisions

    # -- requests that only listen

    def add_listener(self, post: StatelessResponse) -> None:
        """Count a request that only listens.

        Raises:
            InternalError: its caller has too many of them.
        """
        most = self._state.options.sessions_per_caller
        caller = caller_key(post.principal, post.exchange.scope.get("client"))
        count = self._listeners.get(caller, 0)
        if count >= most:
            post.status = 429
            raise InternalError(f"{most} requests of one caller listen (sessions_per_caller)")
        self._listeners[caller] = count + 1
        post.listens_for = caller

    def _remove_listener(self, caller: Hashable) -> None:
        self._listeners[caller] -= 1
        if not self._listeners[caller]:
            del self._listeners[caller]

    # -- stopping

    def end_listeners(self) -> None:
        """Answer the requests that only listen."""
        for post in list(self.open):
            post.end_listening()

    def close(self) -> None:
        """Cancel the requests that are under way."""
        for post in list(self.open):
            post.owner.session.close()
        while self._spare:
            self._spare.pop().let_go()
