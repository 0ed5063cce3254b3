"""Streamable HTTP: the one endpoint with POST, GET and DELETE."""

from collections.abc import Awaitable, Sequence
from typing import Any, Final

import msgspec

from accord.bindings import http
from accord.bindings.http import HeadVerdict
from accord.protocol.events import Event, Refused, RequestReceived
from accord.transports.http_exchange import LAST_EVENT, SESSION, HttpExchange
from accord.transports.http_session import HttpSession, Post
from accord.transports.streams import Reader, Stream, place_of

__all__ = ["DRAINING", "HttpEndpoint", "asks", "refused_by"]

_STATELESS: Final = "POST, OPTIONS"


# What has not begun yet can as well begin elsewhere, or later.
DRAINING: Final = http.HttpRefusal(503, "the server is stopping", -32000, (("retry-after", "1"),))


class _Peek(msgspec.Struct):
    method: str | None = None
    id: int | str | None = None


_peek: Final = msgspec.json.Decoder(_Peek).decode


class _Fault(msgspec.Struct):
    code: int


class _Outcome(msgspec.Struct):
    error: _Fault
    id: int | str | None = None


_read_outcomes: Final = msgspec.json.Decoder(_Outcome | list[_Outcome]).decode
# What comes of a message that is none, or not at this point.
_MALFORMED: Final = (-32700, -32600)


def _answers(refusal: bytes) -> bool:
    """Whether errors answer requests that could be read, and not a message that is wrong."""
    found = _read_outcomes(refusal)
    outcomes = found if isinstance(found, list) else [found]
    return any(each.id is not None and each.error.code not in _MALFORMED for each in outcomes)


def _opens(body: bytes) -> bool | None:
    """Whether a message is `initialize`; None where it cannot be read."""
    try:
        return _peek(body).method == "initialize"
    except (ValueError, RecursionError):
        return None


def asks(body: bytes) -> bool:
    """Whether a message is a request that could be read."""
    try:
        peek = _peek(body)
    except (ValueError, RecursionError):
        return False
    return peek.method is not None and peek.id is not None


class HttpEndpoint:
    """The endpoint of Streamable HTTP."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._is_stateless: bool = app.options.stateless
        self.allowed = _STATELESS if self._is_stateless else http.ALLOWED

    def serve(self, exchange: HttpExchange, verdict: HeadVerdict) -> Awaitable[None]:
        """Serve a request whose origin is allowed."""
        if type(exchange) is Post:
            if verdict.refusal is not None:
                return exchange.refuse(verdict.refusal)
            return self._post(exchange, verdict)
        method = exchange.method
        if method == "OPTIONS":
            return exchange.preflight(self.allowed)
        if method not in ("GET", "DELETE") or self._is_stateless:
            why = f"{method[:20]} is not allowed here"
            return exchange.refuse(http.HttpRefusal(405, why, headers=(("allow", self.allowed),)))
        refusal = verdict.refusal
        if refusal is None and isinstance(verdict.revision, http.HttpRefusal):
            refusal = verdict.revision
        if refusal is not None:
            return exchange.refuse(refusal)
        return self._get(exchange) if method == "GET" else self._delete(exchange)

    # -- POST

    async def _post(self, post: Post, verdict: HeadVerdict) -> None:
        read = post.body()
        body = read if isinstance(read, bytes) else await read
        if body is None:
            return None
        session = self._session_for(post, body, verdict)
        if type(session) is http.HttpRefusal:
            return await post.refuse(session)
        events = post.begin(session, verdict.form, body)
        if len(events) != 1:
            post.is_batch = True
            if not any(event.__class__ is RequestReceived for event in events):
                return await self._accept(post, events)
            if not post.is_over and not session.has_open(post):
                post.give_up()
        elif events[0].__class__ is not RequestReceived:
            return await self._accept(post, events)
        if not post.is_over and post.stream is None:
            await post.settled()
        if session.is_kept:
            return await self._answer(post)
        if session.id:
            return await self._answer_first(post)
        try:
            return await self._answer(post)
        finally:
            session.let_go()

    def _session_for(
        self, post: Post, body: bytes, verdict: HeadVerdict
    ) -> HttpSession | http.HttpRefusal:
        """Find the session of a request, or begin one for `initialize`."""
        app, revision = self._app, verdict.revision
        if app.is_draining and asks(body):
            return DRAINING
        named = None if self._is_stateless else post.headers.get(SESSION)
        if named is not None:
            if type(revision) is http.HttpRefusal:
                return revision
            found: HttpSession | http.HttpRefusal = app.sessions.find(named, post)
            return found
        opens = _opens(body)
        if opens and not self._is_stateless:
            # Which revision is spoken from now on is being negotiated.
            begun: HttpSession | http.HttpRefusal = app.sessions.begin(post)
            return begun
        if isinstance(revision, http.HttpRefusal):
            if opens is False:
                return revision
        elif self._is_stateless and not opens:
            return HttpSession(app, revision=revision.id)
        elif opens is False:  # session.id.missing-400
            return http.HttpRefusal(400, "Mcp-Session-Id is missing; only initialize goes without")
        # An opening that opens nothing, or what cannot be read: a session of its own says so.
        return HttpSession(app)

    async def _accept(self, post: Post, events: Sequence[Event]) -> None:
        """Answer a POST without requests."""
        if not post.owner.is_kept:
            post.owner.let_go()
        if post.refusal is not None:
            if not _answers(post.refusal):
                return await post.json(post.refusal, status=400)
            # Clients take an error status for a failure of the transport, and read no further.
            post.reply = post.refusal
            return await self._answer(post)
        why = refused_by(events)
        if why is not None and not self._is_stateless:  # http.post.refused-status
            return await post.refuse(http.HttpRefusal(400, why))
        return await post.empty(202)  # http.post.accepted-202

    async def _answer_first(self, post: Post) -> None:
        """Answer the first request of a session; only if it opened one, the session is kept."""
        session = post.owner
        if session.session.is_begun and session.session.dispatcher.closed is None:
            session.is_kept = True
            self._app.sessions.keep(session)
            await self._answer(post, session.id)
            return
        try:
            await self._answer(post)
        finally:
            session.let_go()

    def _answer(self, post: Post, new_session: str | None = None) -> Awaitable[None]:
        stream, reply = post.stream, post.reply
        if stream is not None and not stream.is_ended:
            return post.read(new_session).follow(post.receive)
        if stream is not None or (
            reply is not None and post.form == "stream" and post.denial is None
        ):
            return post.whole_stream(post.events(), session=new_session)
        if reply is not None:
            return post.json(reply, session=new_session)
        return self._unanswered(post)

    async def _unanswered(self, post: Post) -> None:
        """End a request that was cancelled, or whose session has ended."""
        if post.owner.session.dispatcher.closed is None:
            if post.form == "json":
                await post.empty(202)
            else:
                await post.whole_stream(b"")
        elif self._app.is_stopping:
            await post.refuse(http.HttpRefusal(503, "the server is stopping", code=-32000))
        else:
            await post.refuse(http.HttpRefusal(404, "the session has ended; initialize anew"))

    # -- GET and DELETE

    async def _get(self, exchange: HttpExchange) -> None:
        session = self._named(exchange)
        if isinstance(session, http.HttpRefusal):
            return await exchange.refuse(session)
        last = exchange.header(LAST_EVENT)
        stream = session.listen() if last is None else self._resumed(session, last)
        if isinstance(stream, http.HttpRefusal):
            return await exchange.refuse(stream)
        if stream.count == 0 and session.session.endpoint.revision.priming_event:
            stream.prime()
        reader = Reader(stream, exchange.send, exchange.stream_head(), self._app.readers)
        if session.has_standing(stream):
            # Whoever listens comes back with the next token, and goes on where this one ends.
            ends_at: float = self._app.sessions.lease(exchange)
            reader.is_due = lambda now: now >= ends_at
            reader.is_admitted = exchange.is_admitted
        stream.attach(reader)
        self._app.lasting += 1
        try:
            await reader.follow(exchange.receive)
        finally:
            self._app.lasting -= 1
            session.used = self._app.now()
        return None

    def _resumed(self, session: HttpSession, last: str) -> Stream | http.HttpRefusal:
        """Return the stream of an event, to be read from there on."""
        place = place_of(last)
        stream = None if place is None else session.find_stream(place[0])
        if place is None or stream is None or not stream.resume(place[1]):
            why = f"Last-Event-ID {last[:80]!r} is unknown, or what followed it is no longer kept"
            return http.HttpRefusal(400, why)
        if stream.is_ended and not stream.backlog:
            # A call that was cancelled has no answer. Some clients ask for it over and over, as
            # long as they get a stream; none is offered any more. (http.get.stream-or-405)
            why = f"nothing follows Last-Event-ID {last[:80]!r}: the stream has ended"
            return http.HttpRefusal(405, why, headers=(("allow", self.allowed),))
        return stream

    async def _delete(self, exchange: HttpExchange) -> None:
        session = self._named(exchange)
        if isinstance(session, http.HttpRefusal):
            return await exchange.refuse(session)
        self._app.sessions.end(session)
        return await exchange.empty(204)

    def _named(self, exchange: HttpExchange) -> HttpSession | http.HttpRefusal:
        named = exchange.headers.get(SESSION)
        if named is None:
            return http.HttpRefusal(400, "Mcp-Session-Id is missing")
        found: HttpSession | http.HttpRefusal = self._app.sessions.find(named, exchange)
        return found


def refused_by(events: Sequence[Event]) -> str | None:
    """Say why nothing of a message could be accepted; None where something could."""
    reasons = [each.why for each in events if isinstance(each, Refused) and not each.is_ignored]
    return reasons[0] if reasons and len(reasons) == len(events) else None
