"""The endpoints of an app that several workers serve: any of them may get any request.

A request whose session is cached here is served as by a single process. Otherwise the session is
read first; and an answer or a cancellation goes to the worker that waits for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from accord.errors import InternalError, StoreError, StoreUnavailable
from accord.http.rules import gate, sse
from accord.http.rules.stateless import VERSION_KEY
from accord.http.server.endpoint import (
    MESSAGES,
    HttpEndpoint,
    TwoEndpointForm,
    not_allowed,
)
from accord.http.server.exchange import (
    LAST_EVENT,
    SESSION,
    HttpExchange,
    expiry_check,
)
from accord.http.server.session import PostResponse
from accord.http.server.state import AppState, Bodies
from accord.protocol.exchange import Event, NotificationReceived, RequestReceived
from accord.protocol.jsonrpc import Frame, MalformedMessage
from accord.sharing.sessions.routing import AnsweredTwice, MessageRouter
from accord.sharing.sessions.session import SharedResponse, SharedSession
from accord.sharing.sessions.sessions import AWAY, SharedSessions
from accord.sharing.sessions.streams import FollowedStream, OutboxStream
from accord.sharing.workers import names
from accord.sharing.workers.event_logs import parse_outbox_event, parse_stream_event

if TYPE_CHECKING:
    from accord.http.server.stream import Stream

log = logging.getLogger("accord.http")

_PAGE: Final = 256


class SharedEndpoint(HttpEndpoint):
    """The endpoint of Streamable HTTP, as one of several workers serves it."""

    response_type = SharedResponse
    _sessions: SharedSessions

    def __init__(
        self, state: AppState, sessions: SharedSessions, bodies: Bodies, router: MessageRouter
    ) -> None:
        super().__init__(state, sessions, bodies)
        self._router = router

    # -- POST

    def _take(
        self, exchange: HttpExchange, verdict: gate.HeadVerdict, body: bytes
    ) -> Awaitable[None]:
        key = exchange.headers.get(SESSION)
        if key is None or self._lacks_sessions:
            return super()._take(exchange, verdict, body)
        session = self._sessions.find_here(key, exchange)
        if session is None or type(verdict.revision) is gate.HttpRefusal:
            return self._take_shared(exchange, verdict, body)
        if self._state.is_draining or (self._has_stateless and VERSION_KEY in body):
            return super()._take(exchange, verdict, body)
        try:
            frame = self._router.decode(body)
        except MalformedMessage:
            return super()._take(exchange, verdict, body)
        if frame.__class__ is not Frame or frame.method is UNSET or frame.id is UNSET:
            return self._take_shared(exchange, verdict, body)
        post = SharedResponse(exchange, session, verdict.form)
        return self._conclude(post, session.session.dispatcher.receive_request(frame, post))

    async def _take_shared(
        self, exchange: HttpExchange, verdict: gate.HeadVerdict, body: bytes
    ) -> None:
        """Serve a POST whose session has to be read, or that may concern another worker."""
        if isinstance(verdict.revision, gate.HttpRefusal):
            await super()._take(exchange, verdict, body)
            return
        session = await self._load(exchange)
        if isinstance(session, gate.HttpRefusal):
            await exchange.refuse(session)
            return
        try:
            left = await self._router.route(session, body)
        except StoreUnavailable as error:
            self._sessions.worker.note_silence(error)
            await exchange.refuse(AWAY)
            return
        except AnsweredTwice as error:
            await exchange.refuse(gate.HttpRefusal(400, str(error)))  # gate.post.refused-status
            return
        if left is None:
            await exchange.empty(202)  # gate.post.accepted-202
        else:
            await super()._take(exchange, verdict, left)

    async def _load(self, exchange: HttpExchange) -> SharedSession | gate.HttpRefusal:
        key = exchange.headers.get(SESSION)
        if key is None:
            return gate.HttpRefusal(400, "Mcp-Session-Id is missing")
        peer = exchange.scope.get("client")
        session = await self._sessions.load(key, exchange.principal, peer)
        if isinstance(session, SharedSession):
            session.used = self._state.now()
        return session

    def _has_requests(self, post: PostResponse, events: Sequence[Event]) -> bool:
        if isinstance(post, SharedResponse):
            found = (each for each in events if isinstance(each, RequestReceived))
            post.batch_ids = tuple(each.exchange.id for each in found)
        return super()._has_requests(post, events)

    def _accept(self, post: PostResponse, events: Sequence[Event]) -> Awaitable[None]:
        owner = post.owner
        if isinstance(owner, SharedSession) and owner.is_kept:
            if any(isinstance(event, NotificationReceived) for event in events):
                self._sessions.sharing.note_opening(owner.session)
            if self._sessions.sharing.is_changed(owner.session):
                return self._save_and_accept(owner, post, events)
        return super()._accept(post, events)

    async def _save_and_accept(
        self, session: SharedSession, post: PostResponse, events: Sequence[Event]
    ) -> None:
        try:
            await session.save()
        except (StoreError, InternalError) as error:
            log.warning("a session cannot be saved: %s", error)
            await post.exchange.refuse(AWAY)
        else:
            await super()._accept(post, events)

    def _answer_ready(self, post: PostResponse) -> None:
        del self.waiting[post]
        if post.owner.is_kept:
            self._answer(post)
        else:
            self._sessions.spawn(_wait_for(self._answer_first(post)))

    def _answer_first(self, post: PostResponse) -> Awaitable[None]:
        session = post.owner
        is_open = session.session.is_begun and session.session.dispatcher.closed is None
        if isinstance(session, SharedSession) and session.key and is_open:
            return self._open_and_answer(session, post)
        return super()._answer_first(post)

    async def _open_and_answer(self, session: SharedSession, post: PostResponse) -> None:
        """Keep a new session before its client learns of it."""
        refusal = await self._sessions.open(session)
        if refusal is None:
            await self._answer(post, session.id)
        else:
            session.let_go()
            await post.exchange.refuse(refusal)

    def _answer(self, post: PostResponse, new_session: str | None = None) -> Awaitable[None]:
        is_whole = post.stream is None and post.reply is not None and post.form == "stream"
        if is_whole and post.is_primed and post.exchange.denial is None:
            # Clients can resume it; so it is stored before they see it.
            stream = post.open_stream()
            assert post.reply is not None
            stream.append(post.reply)
            post.owner.end_stream(stream)
            if not stream.is_ended:
                return self._follow(post, stream, new_session)
        return super()._answer(post, new_session)

    # -- GET and DELETE

    def _get(self, exchange: HttpExchange) -> Awaitable[None]:
        return self._get_shared(exchange)

    async def _get_shared(self, exchange: HttpExchange) -> None:
        session = await self._load(exchange)
        if isinstance(session, gate.HttpRefusal):
            await exchange.refuse(session)
            return
        last = exchange.header(LAST_EVENT)
        try:
            stream = await self._open_stream(session, last)
        except StoreUnavailable as error:
            self._sessions.worker.note_silence(error)
            stream = AWAY
        except StoreError as error:
            stream = gate.HttpRefusal(500, str(error), -32603)
        if isinstance(stream, gate.HttpRefusal):
            await exchange.refuse(stream)
            return
        state = self._state
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        reader.on_end = partial(self._end_listening, session, stream)
        if isinstance(stream, OutboxStream):
            if session.session.endpoint.revision.priming_event and last is None:
                stream.prime()
            # The client comes back with its next token, and resumes the stream.
            reader.is_due = expiry_check(exchange.expiry(state.now()))
            reader.is_admitted = exchange.is_admitted
        state.listening += 1
        stream.attach(reader)
        exchange.expect_silence()
        await reader.follow()

    def _end_listening(self, session: SharedSession, stream: "Stream") -> None:
        self._state.listening -= 1
        session.used = self._state.now()
        if isinstance(stream, OutboxStream):
            self._sessions.spawn(self._sessions.standing.stop(session, stream))
        elif isinstance(stream, FollowedStream):
            self._sessions.end_resumed(session, stream)

    async def _open_stream(
        self, session: SharedSession, last: str | None
    ) -> "FollowedStream | OutboxStream | gate.HttpRefusal":
        has_ids, standing = session.is_resumable, self._sessions.standing
        if last is None:
            return await standing.listen(session, after=None, has_ids=has_ids)
        positions = parse_outbox_event(last)
        backend = self._sessions.worker.backend
        if positions is not None:
            page = await backend.read(session.outbox_name, after=positions[0], limit=1)
            if page is not None and page.first > positions[0] + 1:
                return _lost_events(last)
            return await standing.listen(session, after=positions, has_ids=has_ids)
        found = parse_stream_event(last)
        if found is None:
            return _lost_events(last)
        label, number = found
        name = names.stream_of(session.sid, label)
        page = await backend.read(name, after=number, limit=_PAGE)
        if page is None or page.first > number + 1 or number > page.last:
            return _lost_events(last)
        if page.is_closed and not page.items:
            # As in one process: clients that get a stream would ask over and over.
            why = f"no event follows Last-Event-ID {last[:80]!r}: the stream has ended"
            return gate.HttpRefusal(405, why, headers=(("allow", self._allowed),))
        stream = FollowedStream(self._sessions.worker, name, label, page, after=number)
        self._sessions.replace_response(session, label, stream)
        return stream

    def _delete(self, exchange: HttpExchange) -> Awaitable[None]:
        return self._delete_shared(exchange)

    async def _delete_shared(self, exchange: HttpExchange) -> None:
        session = await self._load(exchange)
        if isinstance(session, SharedSession):
            try:
                await self._sessions.end_everywhere(session)
            except StoreUnavailable as error:
                self._sessions.worker.note_silence(error)
                await exchange.refuse(AWAY)
            else:
                await exchange.empty(204)
        else:
            await exchange.refuse(session)


class SharedTwoEndpointForm(TwoEndpointForm):
    """The form with two endpoints: the worker with the stream sends what any worker answers."""

    _sessions: SharedSessions

    def __init__(
        self, state: AppState, sessions: SharedSessions, bodies: Bodies, router: MessageRouter
    ) -> None:
        super().__init__(state, sessions, bodies)
        self._router = router

    def serve_stream(self, exchange: HttpExchange, verdict: gate.HeadVerdict) -> Awaitable[None]:
        if exchange.method == "OPTIONS":
            return exchange.preflight("GET, OPTIONS")
        if exchange.method != "GET":
            return exchange.refuse(not_allowed("connect with GET", "GET, OPTIONS"))
        if verdict.refusal is not None:
            return exchange.refuse(verdict.refusal)
        return self._serve_shared(exchange)

    async def _serve_shared(self, exchange: HttpExchange) -> None:
        state, sessions = self._state, self._sessions
        session = sessions.begin(exchange)
        if isinstance(session, gate.HttpRefusal):
            await exchange.refuse(session)
            return
        session.write_to_outbox()
        stream = await self._open_stream(session)
        if isinstance(stream, gate.HttpRefusal):
            await exchange.refuse(stream)
            return
        url = f"{self._base_path(exchange.scope)}{MESSAGES}?session_id={session.id}"
        stream.put(sse.encode(url.encode(), name="endpoint"))  # sse.connect.endpoint-event
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        session.ends_at = exchange.expiry(state.now())
        session.admits = exchange.is_admitted
        reader.is_due = session.is_due
        reader.is_admitted = session.is_admitted
        state.listening += 1
        reader.on_end = partial(self._leave, session, stream)
        stream.attach(reader)
        await reader.follow()

    async def _open_stream(self, session: SharedSession) -> OutboxStream | gate.HttpRefusal:
        sessions = self._sessions
        try:
            refusal = await sessions.open(session, is_older_form=True)
            if refusal is not None:
                return refusal
            await sessions.worker.keep_recovery_record(f"session/{session.sid}/")
            return await sessions.standing.listen(session, after=None, has_ids=False)
        except StoreError as error:
            log.warning("a session cannot be opened: %s", error)
            sessions.spawn(self._end_everywhere(session))
            return AWAY
        except asyncio.CancelledError:
            sessions.spawn(self._end_everywhere(session))
            raise

    def _leave(self, session: SharedSession, stream: OutboxStream) -> None:
        self._state.listening -= 1
        session.followed = ()
        self._sessions.spawn(self._end_everywhere(session, stream))

    async def _end_everywhere(
        self, session: SharedSession, stream: OutboxStream | None = None
    ) -> None:
        self._sessions.end(session)  # nothing that runs here has a place to be answered

        async def end() -> None:
            await self._sessions.end_everywhere(session)
            await self._sessions.worker.drop_recovery_record(f"session/{session.sid}/")

        await self._sessions.standing.persist(end)
        if stream is not None:
            await self._sessions.standing.stop(session, stream)

    async def _find(self, exchange: HttpExchange, key: bytes) -> SharedSession | gate.HttpRefusal:
        return await self._sessions.load(key, exchange.principal, exchange.scope.get("client"))

    async def _take(self, exchange: HttpExchange, session: SharedSession, body: bytes) -> None:
        try:
            left = await self._router.route(session, body)
            if left is None:
                await exchange.empty(202)
                return
            post = SharedResponse(exchange, session, "stream")
            events = session.session.dispatcher.receive(left, post)
            if any(isinstance(event, NotificationReceived) for event in events):
                self._sessions.sharing.note_opening(session.session)
                await session.save()
            await self._conclude(post, events)
        except AnsweredTwice as error:
            await exchange.refuse(gate.HttpRefusal(400, str(error)))
        except StoreError as error:
            log.warning("a message cannot be served: %s", error)
            await exchange.refuse(AWAY)


def _lost_events(last: str) -> gate.HttpRefusal:
    why = f"Last-Event-ID {last[:80]!r} is unknown, or later events are no longer kept"
    return gate.HttpRefusal(400, why)


async def _wait_for(work: Awaitable[None]) -> None:
    await work
