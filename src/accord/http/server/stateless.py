"""Requests that stand on their own: each is served by a session of one message.

They share nothing with the sessions of the same app. A client that disconnects cancels its request,
since it cannot come back for the answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from accord.errors import HeaderMismatch, InternalError, InvalidRequest, RequestError
from accord.http.rules import stateless
from accord.http.rules.gate import HeadVerdict
from accord.http.server.exchange import (
    VERSION,
    HttpExchange,
    wait_for_disconnect,
)
from accord.http.server.session import PostResponse, RequestSession
from accord.http.server.sessions import Found, caller_key
from accord.http.server.state import DRAINING, AppState
from accord.http.server.stream import Stream
from accord.protocol import codec
from accord.protocol.exchange import Event, Exchange
from accord.protocol.jsonrpc import Batch, ErrorBody, Frame, MalformedMessage
from accord.protocol.mirroring import NAME_MEMBERS, MirroredArgument
from accord.protocol.revisions import Revision

log = logging.getLogger("accord.http")

# The attribute of the params that `Mcp-Name` repeats.
_NAMED: Final = {
    method: {"taskId": "task_id"}.get(member, member) for method, member in NAME_MEMBERS.items()
}
# As many sessions as are in use at one time under high load.
_SPARE_MOST: Final = 64
_ONE_MESSAGE: Final = "a POST of this revision has one request or one notification"


class StatelessResponse(PostResponse):
    """The response to a request that stands on its own.

    Attributes:
        listens_for: the caller that it counts for, if it is open for a request that only listens.
        end: answers a request that only listens.
    """

    is_stateless = True
    # What handlers ask is part of the answer.
    can_ask = True
    listens_for: Hashable = None
    end: Callable[[], None] | None = None
    owner: "StatelessSession"
    _has_left = False

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
            exchange.revision is self.owner.revision
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
        most = self.owner.source.add_listener(self)
        if most is not None:
            self.status = 429
            raise InternalError(f"{most} requests of one caller listen (sessions_per_caller)")
        self.end = end
        self.is_listening = True
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

    def expects_answers(self, events: Sequence[Event]) -> bool:
        return False  # a batch is refused

    # -- waiting

    def watch(self) -> None:
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
        watcher, self.watcher = self.watcher, None
        if watcher is not None and not watcher.done():
            watcher.cancel()
            await asyncio.wait((watcher,))

    def leave(self) -> None:
        """End the request, with its answer or without it; once."""
        if self._has_left:
            return
        self._has_left = True
        owner, request = self.owner, self.request
        self.request = None  # whose origin this is: a circle would wait for the collector
        source, session = owner.source, owner.session
        source.open.discard(self)
        if self.listens_for is not None:
            source.remove_listener(self.listens_for)
        if self.is_over:
            owner.release()
            return
        self.is_over = True
        if session.dispatcher.closed is None and request is not None:
            session.dispatcher.abandon(request)  # http.cancel.disconnect-is-cancel
            session.request_cancelled(request)
        owner.let_go()


class StatelessSession(RequestSession):
    """The session of one request that stands on its own.

    Args:
        source: has made it.
        revision: that of the request.
    """

    __slots__ = ("revision", "source")

    response_type = StatelessResponse

    def __init__(self, source: "StatelessSource", revision: Revision) -> None:
        super().__init__(source.state, revision.id)
        self.source = source
        self.revision = revision

    def release(self) -> None:
        spare = self.source.spare
        if len(spare) < _SPARE_MOST:
            spare.append(self)
        else:
            self.let_go()


class StatelessSource:
    """The source of sessions for requests that stand on their own.

    Args:
        state: of the app.

    Attributes:
        state: of the app.
        open: the responses of requests that were not answered at once.
        spare: sessions whose request was answered, for another one.
    """

    def __init__(self, state: AppState) -> None:
        self.state = state
        self.route = None  # each message is received here
        self._decode = codec.codec_for(state.server.limits).decode
        self._listeners: dict[Hashable, int] = {}
        self.spare: list[StatelessSession] = []
        self.open: set[PostResponse] = set()

    # -- one request

    def choose(self, exchange: HttpExchange, verdict: HeadVerdict, body: bytes) -> Found:
        """Return a session that no other request uses, and of which no handler knows."""
        state, revision = self.state, verdict.stateless
        if state.is_draining:
            return DRAINING
        assert revision is not None
        if state.options["principal"] is not None:
            _ = exchange.principal  # a caller without an identity is refused, whatever it asks for
        while self.spare:
            session = self.spare.pop()
            if session.session.is_spare and session.session.endpoint.revision is revision:
                return session
            session.let_go()
        return StatelessSession(self, revision)

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
        return self.refuse(exchange, body, ())

    def refuse(
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
        return self.state.server.revisions

    # -- requests that only listen

    def add_listener(self, post: StatelessResponse) -> int | None:
        """Count a request that only listens; return how many may, if its caller has as many."""
        most = self.state.options["sessions_per_caller"]
        caller = caller_key(post.principal, post.exchange.scope.get("client"))
        count = self._listeners.get(caller, 0)
        if count >= most:
            return most
        self._listeners[caller] = count + 1
        post.listens_for = caller
        return None

    def remove_listener(self, caller: Hashable) -> None:
        """Count a request of a caller no more."""
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
        while self.spare:
            self.spare.pop().let_go()
