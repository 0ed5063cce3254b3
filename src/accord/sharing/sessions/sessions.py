"""The source of sessions that several workers serve: found in the store, cached here.

Any worker may get any request. One whose session is cached here is served as by a single process.
Otherwise the session is read first; and an answer or a cancellation goes to the worker that waits
for it.

A session that this worker has not seen before is begun from its sealed id and its record. While the
store does not answer, the id alone has to do.
"""

import asyncio
import logging
import os
from collections.abc import Coroutine, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from accord.errors import Conflict, InternalError, StoreError, StoreFull, StoreUnavailable
from accord.http.rules import gate
from accord.http.server.exchange import HttpExchange
from accord.http.server.session import HttpSession, PostResponse
from accord.http.server.sessions import (
    FoundKept,
    FoundStream,
    HttpSessions,
    Later,
    Refused,
    Routed,
    caller_key,
    refuse_ended,
    refuse_lost,
)
from accord.http.server.state import AppState
from accord.http.server.stream import Stream
from accord.principal import Principal
from accord.protocol.exchange import Event, NotificationReceived
from accord.protocol.jsonrpc import Frame, MalformedMessage
from accord.sharing.sessions.routing import AnsweredTwice, MessageRouter
from accord.sharing.sessions.session import ServedSharing, SharedSession, stream_recovery_record
from accord.sharing.sessions.standing_streams import (
    UNKNOWN,
    StandingStreams,
    listener_recovery_record,
)
from accord.sharing.sessions.streams import FollowedStream, OutboxStream
from accord.sharing.workers import names
from accord.sharing.workers.event_logs import parse_outbox_event, parse_stream_event
from accord.sharing.workers.questions import SharedQuestions
from accord.sharing.workers.session_records import (
    UNUSED_TTL,
    CachedRecord,
    SessionRecord,
    SessionRecords,
    StreamListener,
)
from accord.sharing.workers.session_tokens import (
    FORMAT,
    SessionToken,
    SessionTokens,
    identify_caller,
)

if TYPE_CHECKING:
    from accord.http.settings import HttpSettings
    from accord.sharing.backends.backend import Backend
    from accord.sharing.workers.event_logs import LogWriter
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.http")

_BUSY: Final = (("retry-after", "5"),)
_SID_BYTES: Final = 12
_RETRY_AFTER: Final = (("retry-after", "1"),)
AWAY: Final = gate.HttpRefusal(
    503, "sessions cannot be read: the store does not answer", -32000, _RETRY_AFTER
)
_FULL: Final = gate.HttpRefusal(
    503, "sessions cannot be written: the store is full", -32000, (("retry-after", "30"),)
)
_NEWER: Final = gate.HttpRefusal(
    503, "the session belongs to a later version of the server", -32000, _RETRY_AFTER
)
COPIES: Final = "copies"
"""The kind of the messages to all workers that say that their copies of records may be old."""
# Seconds beyond the time in which a question has to be answered.
_ASK_SLACK: Final = 60.0
# How often finished streams are taken from the list of what a lost worker leaves behind.
_CLEAN_EVERY: Final = 0.05
# How many entries of a stream are read at once.
_PAGE: Final = 256


def make_token(session: "SharedSession", record: SessionRecord, epoch: str) -> SessionToken:
    """Return what the id of a new session says."""
    peer = session.session.endpoint.peer
    info = None if peer is None else peer.info
    return SessionToken(
        FORMAT,
        session.sid,
        epoch,
        record.created,
        identify_caller(session.principal),
        record.revision,
        record.capabilities,
        ("", "") if info is None else (info.name, info.version),
        record.is_older_form,
    )


def make_record(
    token: SessionToken, principal: Principal | None, *, broadcasts: int = 0
) -> SessionRecord:
    """Return a record for a session of which only the id is left."""
    name, version = token.client
    client = msgspec.json.encode({"name": name, "version": version}) if name else b"null"
    return SessionRecord(
        created=token.issued,
        revision=token.revision,
        capabilities=token.capabilities,
        client=client,
        principal=describe_caller(principal),
        is_initialized=True,
        broadcasts=broadcasts,
    )


def describe_caller(principal: Principal | None) -> str:
    """Return the name of a caller, for operators."""
    return "" if principal is None else principal.subject


def mark_ended(record: SessionRecord) -> SessionRecord | None:
    """Return the record of a session that has ended; None if it says so already."""
    return None if record.is_ended else msgspec.structs.replace(record, is_ended=True)


class SessionIndex:
    """The index of the sessions that all workers serve together.

    Args:
        backend: the store.
        options: of the app; they limit the number of sessions.
    """

    def __init__(self, backend: "Backend", options: "HttpSettings") -> None:
        self._backend = backend
        self._options = options

    async def check_room(self, session: "SharedSession") -> gate.HttpRefusal | None:
        """Return why a new session is refused; None if there is room."""
        options = self._options
        if await self._backend.count(names.SESSIONS) >= options["sessions"]:
            why = f"{options['sessions']} sessions are open (sessions)"
            return gate.HttpRefusal(503, why, -32000, _BUSY)
        if await self._backend.count(_caller_index(session)) >= options["sessions_per_caller"]:
            each = options["sessions_per_caller"]
            why = f"{each} sessions of one caller are in use (sessions_per_caller)"
            return gate.HttpRefusal(503, why, -32000, _BUSY)
        return None

    async def add(self, session: "SharedSession") -> None:
        """Count a new session, until it is used for the first time."""
        ttl = min(self._options["session_idle"], UNUSED_TTL)
        await asyncio.gather(
            self._backend.add(names.SESSIONS, [session.sid], ttl=ttl),
            self._backend.add(_caller_index(session), [session.sid], ttl=ttl),
        )

    async def keep(self, used: "Sequence[SharedSession]") -> None:
        """Keep sessions that were used, with their records, for as long as one may be idle."""
        ttl = self._options["session_idle"]
        for session in used:
            await self._backend.touch(names.session_of(session.sid), ttl=ttl)
            await self._backend.add(_caller_index(session), [session.sid], ttl=ttl)
        if used:
            await self._backend.add(names.SESSIONS, [each.sid for each in used], ttl=ttl)

    async def remove(self, session: "SharedSession") -> None:
        """Count a session no more."""
        await asyncio.gather(
            self._backend.remove(names.SESSIONS, [session.sid]),
            self._backend.remove(_caller_index(session), [session.sid]),
        )


def _caller_index(session: "SharedSession") -> str:
    caller = identify_caller(session.principal) or str(session.caller).encode()
    return names.caller_index(caller.hex()[-60:])


class SharedSessions(HttpSessions):
    """The sessions of an app that several workers serve, as one of them has them.

    Args:
        state: of the app.
        worker: this one.
        sharing: puts sessions into records, and back.
        ask_timeout: seconds that handlers wait for the client's answer.

    Attributes:
        generation: rises when nothing that is cached can be relied on any more.
        records: reads and changes the records.
        standing: the connections on which clients listen.
        questions: the requests to clients that wait for their answers.
        writers: the logs that are being written here.
    """

    def __init__(
        self, state: AppState, worker: "Worker", sharing: ServedSharing, ask_timeout: float
    ) -> None:
        super().__init__(state)
        self.state = state
        self.worker = worker
        self.sharing = sharing
        self.questions = SharedQuestions(worker, ask_timeout + _ASK_SLACK)
        self.generation = 0
        idle = state.options["session_idle"]
        self._index = SessionIndex(worker.backend, state.options)
        self.standing = StandingStreams(self)
        self.records = SessionRecords(
            worker, ttl=idle, apply=self._apply, reach=self.standing.reach
        )
        self.writers: dict[LogWriter, None] = {}
        self._tokens: SessionTokens | None = None
        self._by_sid: dict[str, SharedSession] = {}
        # Those whose record can be relied on while the worker has its lease.
        self._fresh: dict[bytes, SharedSession] = {}
        # Sessions that are being read, each with the newest record that others have sent meanwhile.
        self._awaited: dict[str, CachedRecord | None] = {}
        self._now = state.now
        self._loading: dict[bytes, asyncio.Task[SharedSession | gate.HttpRefusal]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._done: dict[tuple[str, str], bool] = {}
        self._losses = 0
        # The responses to clients that came back, by session and stream.
        self._resumed: dict[tuple[str, str], FollowedStream] = {}
        self._router = MessageRouter(state, self)
        self.route = self._receive
        worker.on_late(self._distrust)
        worker.on_broadcast(COPIES, self._drop_copies)
        worker.broadcasts.on_gap(self._drop_copies)

    @property
    def tokens(self) -> SessionTokens:
        """Seals and opens the ids of sessions."""
        if self._tokens is None:
            self._tokens = SessionTokens(self.worker.keys)
        return self._tokens

    def __contains__(self, key: object) -> bool:
        """Whether a session is known here, or has an id that only a worker can have made."""
        return key in self._found or (isinstance(key, bytes) and self.tokens.open(key) is not None)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something by itself; its failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a session failed", exc_info=task.exception())

    # -- finding

    def find(self, key: bytes, exchange: HttpExchange) -> FoundKept:
        session = self._fresh.get(key)
        if session is not None:
            principal, now = exchange.principal, self._now()
            if now < self.worker.valid_until and (
                session.principal is principal or session.principal == principal
            ):
                session.used = now
                if session.after is None:
                    self.note_first_use(session)
                return session
        return Later(self._read(key, exchange))

    async def _read(self, key: bytes, exchange: HttpExchange) -> HttpSession | gate.HttpRefusal:
        session = await self.load(key, exchange.principal, exchange.scope.get("client"))
        if isinstance(session, SharedSession):
            session.used = self._now()
        return session

    def find_by_sid(self, sid: str) -> SharedSession | None:
        """Return a session that is cached here by its name in the store."""
        return self._by_sid.get(sid)

    async def load(
        self, key: bytes, principal: Principal | None, peer: Any = None
    ) -> SharedSession | gate.HttpRefusal:
        """Return a session, from here or from the store, if its caller has opened it."""
        token = self.tokens.open(key)
        if token is None or token.caller != identify_caller(principal):
            return UNKNOWN  # session.end.terminated-404
        session = self._fresh.get(key)
        if session is not None and self.worker.is_valid(self._now()):
            return session
        loading = self._loading.get(key)
        if loading is None:
            caller = caller_key(principal, peer)
            work = self._load(key, token, principal, caller)
            loading = self._loading[key] = asyncio.get_running_loop().create_task(work)
            loading.add_done_callback(lambda _: self._loading.pop(key, None))
        return await asyncio.shield(loading)

    async def _load(
        self, key: bytes, token: SessionToken, principal: Principal | None, caller: Hashable
    ) -> SharedSession | gate.HttpRefusal:
        try:
            if not self.worker.is_valid(self.state.now()):
                await self.worker.renew_lease()
            generation = self.generation
            self._awaited[token.sid] = None
            cached = await self.records.load(token.sid) or await self._rebuild(token, principal)
        except StoreUnavailable as error:
            self.worker.note_silence(error)
            return self._serve_without_store(key, token, principal, caller)
        finally:
            newer = self._awaited.pop(token.sid, None)
        if cached is not None and newer is not None and newer.version > cached.version:
            cached = newer  # another worker has changed it while it was read
        if cached is None or cached.record.is_ended:
            ended = self._by_sid.get(token.sid)
            if ended is not None:
                self.end(ended)
            return UNKNOWN
        if not cached.is_readable:
            return _NEWER
        session = self._by_sid.get(token.sid)
        if session is not None:
            session.apply_record(cached)
        else:
            session = self._adopt(key, token, principal, caller)
            session.take_record(cached)
        if generation == self.generation and self.worker.id in cached.record.holders:
            self._fresh[session.key] = session
        return session

    async def revive(self, session: SharedSession) -> bool:
        """Read a session again whose record is missing; return whether it goes on."""
        token = self.tokens.open(session.key)
        if token is None:
            return False
        return await self._load(session.key, token, session.principal, session.caller) is session

    def _adopt(
        self, key: bytes, token: SessionToken, principal: Principal | None, caller: Hashable
    ) -> SharedSession:
        session = SharedSession(self, token.sid, key, principal=principal, caller=caller)
        session.touched = 0.0  # the store learns that it is in use
        if token.is_older_form:
            session.write_to_outbox()
        session.is_kept = True
        self._keep_here(session)
        return session

    def _keep_here(self, session: SharedSession) -> None:
        self.make_room(session.caller)
        super().keep(session)
        self._by_sid[session.sid] = session

    async def _rebuild(
        self, token: SessionToken, principal: Principal | None
    ) -> CachedRecord | None:
        """Make the record of a session anew that the store has lost; None if it has expired.

        A record that was deleted by its client stays as a mark, and one that expires has not been
        used for a while. So one that is missing although its session is younger was lost. (Of an
        earlier epoch, all were lost when this one began.)
        """
        if token.is_older_form or not token.revision:
            return None
        is_same = token.epoch == await self.worker.renew_epoch()
        since = token.issued if is_same else self.worker.epoch_began
        if self.worker.now() - since >= self.state.options["session_idle"]:
            return None
        log.warning("the store has lost a session, which goes on without its state")
        record = make_record(token, principal, broadcasts=self.worker.broadcasts.position)
        try:
            return await self.records.create(token.sid, record)
        except Conflict:
            return await self.records.load(token.sid)

    def _serve_without_store(
        self, key: bytes, token: SessionToken, principal: Principal | None, caller: Hashable
    ) -> SharedSession | gate.HttpRefusal:
        """Serve plain requests by the sealed id alone, while the store does not answer."""
        if not token.revision or token.is_older_form:
            return AWAY
        session = self._by_sid.get(token.sid)
        if session is None:
            session = self._adopt(key, token, principal, caller)
            session.take_record(CachedRecord(make_record(token, principal), 0))
            session.session.is_unread = True
        self._fresh.pop(key, None)  # read anew as soon as the store answers
        return session

    # -- beginning

    def begin(self, exchange: HttpExchange) -> SharedSession | gate.HttpRefusal:
        state = self.state
        # A session outlives its worker, unlike the stream that opens one in the older form.
        if state.is_draining or (state.is_stopping and exchange.method == "GET"):
            return gate.HttpRefusal(503, "the server is stopping", -32000, (("retry-after", "5"),))
        principal = exchange.principal
        caller = caller_key(principal, exchange.scope.get("client"))
        sid = os.urandom(_SID_BYTES).hex()
        # The id says what `initialize` agrees on; until then any value will do.
        return SharedSession(self, sid, sid.encode(), principal=principal, caller=caller)

    def open(self, session: Any) -> Refused:
        return Later(self._open(session))

    async def _open(
        self, session: SharedSession, *, is_older_form: bool = False
    ) -> gate.HttpRefusal | None:
        """Keep a new session in the store, and give it its id; return why that is refused."""
        record = SessionRecord(
            created=self.worker.now(),
            principal=describe_caller(session.principal),
            is_older_form=is_older_form,
            broadcasts=self.worker.broadcasts.position,
        )
        record = self.sharing.describe(session.session, record)(record)
        try:
            refusal = await self._index.check_room(session)
            if refusal is not None:
                return refusal
            cached = await self.records.create(session.sid, record)
            await self._index.add(session)
        except StoreFull as error:
            self.worker.note_silence(error)
            return _FULL
        except StoreUnavailable as error:
            self.worker.note_silence(error)
            return AWAY
        session.key = self.tokens.seal(make_token(session, record, self.worker.epoch))
        session.session.is_shared = True
        session.cached = cached
        session.is_kept = True
        self._keep_here(session)
        self._fresh[session.key] = session
        return None

    # -- the older form

    def open_older(self, session: Any) -> FoundStream:
        session.write_to_outbox()
        return Later(self._open_older(session))

    async def _open_older(self, session: SharedSession) -> Stream | gate.HttpRefusal:
        try:
            refusal = await self._open(session, is_older_form=True)
            if refusal is not None:
                return refusal
            await self.worker.keep_recovery_record(f"session/{session.sid}/")
            return await self.standing.listen(session, after=None, has_ids=False)
        except StoreError as error:
            log.warning("a session cannot be opened: %s", error)
            self.spawn(self._end_older(session))
            return AWAY
        except asyncio.CancelledError:
            self.spawn(self._end_older(session))
            raise

    def end_older(self, session: Any, stream: Stream) -> None:
        session.followed = ()
        self.spawn(self._end_older(session, stream))

    async def _end_older(self, session: SharedSession, stream: Stream | None = None) -> None:
        self.end(session)  # nothing that runs here has a place to be answered

        async def end() -> None:
            await self.end_everywhere(session)
            await self.worker.drop_recovery_record(f"session/{session.sid}/")

        await self.standing.persist(end)
        if isinstance(stream, OutboxStream):
            await self.standing.stop(session, stream)

    # -- messages

    def _receive(self, post: PostResponse, body: bytes) -> Routed:
        """Let a session receive a request; any other message may concern another worker."""
        session, dispatcher = post.owner, post.owner.session.dispatcher
        if not isinstance(session, SharedSession) or not session.is_kept:
            return dispatcher.receive(body, post)
        try:
            frame = self._router.decode(body)
        except MalformedMessage:
            return dispatcher.receive(body, post)
        if frame.__class__ is Frame and frame.method is not UNSET and frame.id is not UNSET:
            return dispatcher.receive_request(frame, post)
        return Later(self._route(session, post, body))

    async def _route(
        self, session: SharedSession, post: PostResponse, body: bytes
    ) -> Sequence[Event] | gate.HttpRefusal | None:
        try:
            left = await self._router.route(session, body)
        except StoreUnavailable as error:
            self.worker.note_silence(error)
            return AWAY
        except StoreError as error:
            log.warning("a message cannot be served: %s", error)
            return AWAY
        except AnsweredTwice as error:
            return gate.HttpRefusal(400, str(error))  # gate.post.refused-status
        return None if left is None else session.session.dispatcher.receive(left, post)

    def settle(self, post: PostResponse, events: Sequence[Event]) -> Refused:
        """Save what messages have changed that have no answer."""
        session = post.owner
        if not isinstance(session, SharedSession) or not session.is_kept:
            return None
        has_notifications = any(isinstance(event, NotificationReceived) for event in events)
        if has_notifications:
            self.sharing.note_opening(session.session)
        elif session.only_stream is not None:
            return None  # the older form saves before it answers
        return Later(_save(session)) if self.sharing.is_changed(session.session) else None

    # -- changes of other workers

    def _apply(self, sid: str, cached: CachedRecord) -> bool:
        session = self._by_sid.get(sid)
        if sid in self._awaited:
            known = self._awaited[sid]
            if known is None or known.version < cached.version:
                self._awaited[sid] = cached
            if session is None:
                return self.worker.id in cached.record.holders
        if session is None:
            return False
        if cached.record.is_ended:
            self.end(session)
            return False
        if self.worker.id not in cached.record.holders:
            self._fresh.pop(session.key, None)
            return False
        session.apply_record(cached)
        return True

    def _drop_copies(self, body: bytes = b"") -> None:
        """Read every record anew before it is used."""
        self.generation += 1
        self._fresh.clear()

    def _distrust(self) -> None:
        """Read every record anew: the lease has run out, so that changes may have been missed."""
        self._drop_copies()
        if self._losses != self.worker.losses:
            self._losses = self.worker.losses
            for session in self._by_sid.values():
                session.cached.version = 0  # versions begin anew with the data
        self.spawn(self.standing.persist(self._look_again))

    async def _look_again(self) -> None:
        """End the streams here that another worker has taken over; keep on with the others."""
        for writer in [*self.writers]:
            await writer.check()
        for session in [*self._by_sid.values()]:
            for label in [*session.logged]:
                await self.worker.keep_recovery_record(stream_recovery_record(session.sid, label))
            for id in [*session.session.endpoint.conversation.server.open]:
                await self.questions.note_again(session.sid, id)
            if session.followed:
                await self._read_again(session)
            for stream in session.followed:
                listener = StreamListener(self.worker.id, stream.number)
                await self.worker.keep_recovery_record(
                    listener_recovery_record(session.sid, listener)
                )

    async def _read_again(self, session: SharedSession) -> None:
        """Find out whether messages still go to the connections of a session here."""
        if session.key not in self._fresh:
            await self.revive(session)
        for stream in session.followed:
            stream.wake()

    # -- clients that listen, or come back

    def stream(self, session: Any, last: str | None) -> FoundStream:
        return Later(self._find_stream(session, last))

    async def _find_stream(
        self, session: SharedSession, last: str | None
    ) -> Stream | gate.HttpRefusal:
        try:
            stream = await self._open_stream(session, last)
        except StoreUnavailable as error:
            self.worker.note_silence(error)
            return AWAY
        except StoreError as error:
            return gate.HttpRefusal(500, str(error), -32603)
        is_primed = session.session.endpoint.revision.priming_event and last is None
        if is_primed and isinstance(stream, OutboxStream):
            stream.prime()
        return stream

    async def _open_stream(
        self, session: SharedSession, last: str | None
    ) -> FollowedStream | OutboxStream | gate.HttpRefusal:
        has_ids, backend = session.is_resumable, self.worker.backend
        if last is None:
            return await self.standing.listen(session, after=None, has_ids=has_ids)
        positions = parse_outbox_event(last)
        if positions is not None:
            page = await backend.read(session.outbox_name, after=positions[0], limit=1)
            if page is not None and page.first > positions[0] + 1:
                return refuse_lost(last)
            return await self.standing.listen(session, after=positions, has_ids=has_ids)
        found = parse_stream_event(last)
        if found is None:
            return refuse_lost(last)
        label, number = found
        name = names.stream_of(session.sid, label)
        page = await backend.read(name, after=number, limit=_PAGE)
        if page is None or page.first > number + 1 or number > page.last:
            return refuse_lost(last)
        if page.is_closed and not page.items:
            return refuse_ended(last)
        stream = FollowedStream(self.worker, name, label, page, after=number)
        self._replace_response(session, label, stream)
        return stream

    def leave(self, session: Any, stream: Stream) -> None:
        super().leave(session, stream)
        if isinstance(stream, OutboxStream):
            self.spawn(self.standing.stop(session, stream))
        elif isinstance(stream, FollowedStream):
            self._end_resumed(session, stream)

    def _replace_response(self, session: SharedSession, label: str, stream: FollowedStream) -> None:
        """Note the response that follows a stream; an earlier one here ends, as its client left."""
        for earlier in (session.logged.get(label), self._resumed.get((session.sid, label))):
            if earlier is not None:
                earlier.dismiss()
        self._resumed[session.sid, label] = stream

    def _end_resumed(self, session: SharedSession, stream: FollowedStream) -> None:
        """Note that a response which follows a stream has ended."""
        place = session.sid, stream.label
        if self._resumed.get(place) is stream:
            del self._resumed[place]

    # -- ending

    def delete(self, session: Any) -> Refused:
        return Later(self._delete(session))

    async def _delete(self, session: SharedSession) -> gate.HttpRefusal | None:
        try:
            await self.end_everywhere(session)
        except StoreUnavailable as error:
            self.worker.note_silence(error)
            return AWAY
        return None

    async def end_everywhere(self, session: SharedSession) -> None:
        """End a session on all workers.

        Raises:
            StoreError: the store does not answer.
        """
        await self.records.change(session.sid, mark_ended)
        self.end(session)
        await self._index.remove(session)
        await self.worker.backend.drop(session.outbox_name)

    async def end_by_sid(self, sid: str) -> None:
        """End a session that is not cached here; raises as `end_everywhere`."""
        await self.records.change(sid, mark_ended)
        await self.worker.backend.remove(names.SESSIONS, [sid])
        await self.worker.backend.drop(names.outbox_of(sid))

    def end(self, session: Any) -> None:
        """End what this worker has of a session."""
        known = self._by_sid.get(session.sid)
        if known is not None and known is session:
            del self._by_sid[known.sid]
            self._fresh.pop(known.key, None)
        super().end(session)

    def clean_up(self, sid: str, label: str, *, is_over: bool) -> None:
        """Forget soon what was kept for the case that this worker is lost.

        Args:
            sid: the session.
            label: the stream.
            is_over: whether it has ended; else another worker goes on with it.
        """
        if not self._done:
            loop = asyncio.get_running_loop()
            loop.call_later(_CLEAN_EVERY, self._clean_up_soon)
        self._done[sid, label] = is_over

    def _clean_up_soon(self) -> None:
        if self._done:  # the end may have been faster
            self.spawn(self.standing.persist(self._clean_up))

    async def _clean_up(self) -> None:
        done, self._done = self._done, {}
        recovery = []
        try:
            for (sid, label), is_over in done.items():
                session = self._by_sid.get(sid)
                if session is None or label not in session.logged:
                    recovery.append(stream_recovery_record(sid, label))
                if is_over:
                    await self.worker.backend.delete(names.call_of(sid, label))
            await self.worker.drop_recovery_record(*recovery)
        except StoreUnavailable:
            self._done = {**done, **self._done}
            raise

    # -- time

    def sweep(self, now: float) -> None:
        """Keep the records of sessions in use, and drop what is cached of the others."""
        used: list[SharedSession] = []
        idle = self.state.options["session_idle"]
        for session in [*self._by_sid.values()]:
            if session.followed or session.session.dispatcher.running:
                session.used = now
            if session.used > session.touched:
                session.touched = session.used
                used.append(session)
            if session.is_idle(now - idle):
                self.end(session)
            else:
                session.release_tables()
        if used or self.writers:
            self.spawn(self._touch(used))

    async def _touch(self, used: list[SharedSession]) -> None:
        try:
            await self._index.keep(used)
            for writer in [*self.writers]:
                await writer.extend()
        except StoreUnavailable as error:
            self.worker.note_silence(error)

    def close(self) -> None:
        """End what runs here; other workers take over the streams that have no answer yet."""
        for writer in [*self.writers]:
            if writer.is_single and not writer.is_ending:
                writer.abandon()
                del self.writers[writer]
        super().close()

    async def flush(self, seconds: float) -> None:
        """Wait until what was sent is stored, but not for longer than this."""
        waiting = [asyncio.ensure_future(writer.flush()) for writer in [*self.writers]]
        pending = [*waiting, *self._tasks]
        if pending:
            await asyncio.wait(pending, timeout=seconds)
        for each in waiting:
            each.cancel()
        for writer in [*self.writers]:
            writer.abandon()
        with suppress(StoreError):
            if self._done:
                await self._clean_up()
        await self.records.close(0.0)
        for task in [*self._tasks]:
            task.cancel()


async def _save(session: SharedSession) -> gate.HttpRefusal | None:
    try:
        await session.save()
    except (StoreError, InternalError) as error:
        log.warning("a session cannot be saved: %s", error)
        return AWAY
    return None
