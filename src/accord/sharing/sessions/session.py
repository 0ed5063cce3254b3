"""One client over HTTP whose session several workers serve.

Each worker that gets a request of the session has an `HttpSession` of its own. What they share is
in the store: the record of the session, the log of messages outside of any request, and a log for
each stream that answers a POST.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from accord.errors import ConnectionClosed, InternalError, StoreError, StoreUnavailable
from accord.http.server.session import HttpSession, PostResponse
from accord.http.server.stream import Stream
from accord.principal import Principal
from accord.protocol import codec
from accord.protocol.exchange import Event, Exchange, RequestReceived
from accord.protocol.jsonrpc import ErrorBody
from accord.sharing.sessions.streams import NONCE_BYTES, LoggedStream, OutboxStream
from accord.sharing.workers import names
from accord.sharing.workers.event_logs import LogLimits, LogWriter, make_label
from accord.sharing.workers.session_records import CachedRecord, SessionRecord

if TYPE_CHECKING:
    from accord.sharing.sessions.sessions import SharedSessions
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.http")

CALL_FORMAT: Final = 1
# Requests of the server are numbered from a random multiple of this, so that those of several
# workers differ. JavaScript reads integers below 2**53 exactly.
_BLOCK: Final = 2**20
_BLOCKS: Final = 2**32
# Seconds for which the log of an open stream is kept without a word of its worker.
_OPEN_TTL: Final = 3600.0
_LOOK: Final = 3.0
_LOOKS_A_SECOND: Final = 50
# Seconds between attempts while the store does not answer.
_PAUSE: Final = 0.1
_REQUEST: Final = b'{"jsonrpc":"2.0","id":'


class StreamCall(msgspec.Struct, frozen=True, kw_only=True):
    """What another worker needs to end the requests of a stream, or to go on with them.

    Attributes:
        needs: the lowest format that a worker must know for that.
        token: the value of the session header.
        ids: those of the requests that the stream answers.
        frames: the requests, where they may be served again; else empty.
        principal: the caller, as far as handlers may ask for it.
        fence: that of the log.
    """

    needs: int = CALL_FORMAT
    token: bytes
    ids: list[int | str]
    frames: list[bytes] = []
    principal: Principal | None = None
    fence: int = 1


class SharedResponse(PostResponse):
    """The response to one POST of a shared session.

    Attributes:
        fence: that of the log of its stream.
        last: how many entries the log has already.
        answered: a request whose answer is there, but has to wait.
        batch_ids: those of all requests of a batch, whose answers leave together.
    """

    answered: Exchange | None = None
    batch_ids: tuple[int | str, ...] = ()
    owner: "SharedSession"
    fence = 1
    last = 0

    @property
    def requests(self) -> list[Exchange]:
        """The requests of the POST whose answers clients do not have."""
        waiting = self.owner.session.client.open.values()
        found = [each for each in waiting if each.origin is self]
        return found if self.answered is None else [*found, self.answered]

    def expects_answers(self, events: Sequence[Event]) -> bool:
        found = (each for each in events if isinstance(each, RequestReceived))
        self.batch_ids = tuple(each.exchange.id for each in found)
        return super().expects_answers(events)

    def skips(self, data: bytes) -> bool:
        """Whether a message must not be sent."""
        return False

    def open_stream(self) -> Stream:
        if self.stream is None:
            self.stream = self.owner.open_logged(self)
            if self.is_primed and self.owner.is_kept:
                self.stream.prime()
            self._wake()
        return self.stream


def stream_recovery_record(sid: str, label: str) -> str:
    """Return the name of a stream among what its worker has to end."""
    return f"stream/{sid}/{label}"


class _RequestHead(msgspec.Struct):
    id: int | str
    method: str


class _AnswerHead(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None


_decode_head: Final = msgspec.json.Decoder(_RequestHead).decode
_decode_answers: Final = msgspec.json.Decoder(_AnswerHead | list[_AnswerHead]).decode


def _replace_answers(data: bytes, error: Exception) -> bytes:
    """Return an error in the place of an answer, or of each answer to a batch."""
    answers = _decode_answers(data)
    if not isinstance(answers, list) and answers.method is not None:
        return data  # it is something else
    why = "internal error"
    if isinstance(error, StoreUnavailable):
        why = "the session could not be saved: the store does not answer"
    elif isinstance(error, StoreError):
        why = str(error)
    body = ErrorBody(-32603, why)
    if isinstance(answers, list):
        return b"[%b]" % b",".join(codec.encode_error(each.id, body) for each in answers)
    return codec.encode_error(answers.id, body)


class SharedSession(HttpSession):
    """One client over HTTP, as one of several workers serves it.

    Args:
        sessions: those of the app.
        sid: names the session in the store.
        key: the value of the session header.
        principal: the caller that opened it.
        caller: the key of the quota that it counts in.

    Attributes:
        cached: the record of the session.
        outbox: writes messages outside of any request.
        followed: the responses here on which the client listens.
        logged: the streams that are written here, by their labels.
    """

    __slots__ = (
        "_is_saving",
        "_is_writing",
        "_outbox",
        "_sessions",
        "_unsaved",
        "cached",
        "followed",
        "logged",
        "sid",
        "touched",
        "worker",
    )

    response_type = SharedResponse

    def __init__(
        self,
        sessions: "SharedSessions",
        sid: str,
        key: bytes,
        *,
        principal: Principal | None,
        caller: Hashable,
    ) -> None:
        super().__init__(sessions.state, key, principal=principal, caller=caller)
        self._sessions = sessions
        self.worker: Worker = sessions.worker
        self.sid = sid
        self.cached = CachedRecord(SessionRecord(created=0.0), 0)
        self.followed: tuple[OutboxStream, ...] = ()
        self.logged: dict[str, LoggedStream] = {}
        self.touched = self.used
        self._outbox: LogWriter | None = None
        self._is_saving: asyncio.Lock | None = None
        # Messages of the older form that wait until the session is saved.
        self._unsaved = 0
        self._is_writing: asyncio.Lock | None = None
        self.session.endpoint.next_id = secrets.randbelow(_BLOCKS) * _BLOCK

    # -- the record

    @property
    def outbox_name(self) -> str:
        """The log of messages outside of any request."""
        return names.outbox_of(self.sid)

    @property
    def look_interval(self) -> float:
        """Seconds between two looks at the messages of a client that listens.

        A notification comes with each message, and few get lost. Many silent streams must not keep
        the store busy.
        """
        return max(_LOOK, self._state.listening / _LOOKS_A_SECOND)

    def take_record(self, cached: CachedRecord) -> None:
        """Begin with what the store says of the session."""
        self._sessions.sharing.restore(self.session, cached.record)
        self.cached = cached

    def apply_record(self, cached: CachedRecord) -> None:
        """Take over what another worker has changed."""
        if cached.version <= self.cached.version:
            return
        before, self.cached = self.cached, cached
        self.session.is_unread = False
        self._sessions.sharing.apply(self.session, before.record, cached.record)
        for stream in self.followed:
            stream.wake()

    async def save(self) -> None:
        """Put what has changed here into the record.

        Raises:
            StoreError: the store does not take it.
            InternalError: a value of `session.state` cannot be kept.
        """
        sharing = self._sessions.sharing
        if self._is_saving is None:
            self._is_saving = asyncio.Lock()
        async with self._is_saving:
            if not sharing.is_changed(self.session) or await self._save():
                return
            # The store may have lost its data; the session goes on then.
            if not await self._sessions.revive(self) or not await self._save():
                raise StoreError("the session has ended")

    async def _save(self) -> bool:
        """Put what has changed here into the record; return whether there is one."""
        base = self.cached
        put = self._sessions.sharing.merge(self.session, base.record)
        if put(base.record) is None:
            return True
        try:
            changed = await self._sessions.records.change(self.sid, put, known=base)
        except BaseException:
            self.session.is_changed = True
            raise
        if changed is None:
            self.session.is_changed = True
            return False
        # The base of later comparisons has what is saved, and what others had changed.
        self.apply_record(changed)
        return True

    async def _save_patiently(self) -> None:
        """Save, also if the store does not answer for a while; raises as `save`."""
        deadline = self._state.now() + self.worker.patience
        while True:
            try:
                return await self.save()
            except StoreUnavailable as error:
                self.worker.note_silence(error)
                if self._state.now() + _PAUSE > deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    # -- messages of the server

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        """Put a message on the one stream that it belongs to; changes are saved before answers."""
        response: PostResponse | None = None if exchange is None else exchange.origin
        if exchange is None or response is None or self.only_stream is not None:
            if self.only_stream is None:
                self.write_outside(data)
            else:
                self._write_in_order(data)
        elif self._is_answer(data, exchange, response):
            session = self.session
            if session.is_changed or session.state_values is not None:
                response.is_held = True
                if isinstance(response, SharedResponse):
                    response.answered = exchange
                self._sessions.spawn(self._save_and_answer(response, data))
            else:
                response.answer(data)
        elif response.is_over:
            self.write_outside(data)
        elif not exchange.cancelled:
            self._say(response, data)

    __call__ = write

    def _say(self, response: PostResponse, data: bytes) -> None:
        if response.form == "json" or (
            isinstance(response, SharedResponse) and response.skips(data)
        ):
            return
        stream = response.stream or response.open_stream()
        if not data.startswith(_REQUEST):
            stream.append(data)
        elif isinstance(stream, LoggedStream):
            stream.asked.append(data)
            stream.ask(data, partial(self._note_question, data))
        else:
            self._sessions.spawn(self._ask(stream, data))

    async def _ask(self, stream: Stream, data: bytes) -> None:
        """Send a request of ours on a stream that cannot be resumed."""
        await self._note_question(data)
        stream.append(data)

    async def _note_question(self, data: bytes) -> None:
        """Let any worker find out where the answer to a request of ours is waited for."""
        try:
            head = _decode_head(data)
        except (ValueError, RecursionError):
            return
        await self._sessions.questions.note(self.sid, head.id)

    async def _save_and_answer(self, response: PostResponse, data: bytes) -> None:
        try:
            await self._save_patiently()
        except (StoreError, InternalError) as error:
            data = _replace_answers(data, error)
        response.answer(data)

    def _write_in_order(self, data: bytes) -> None:
        """Write a message of the older form: none may overtake one that waits to be saved."""
        if self._unsaved == 0 and not self._sessions.sharing.is_changed(self.session):
            self.write_outside(data)
            return
        self._unsaved += 1
        self._sessions.spawn(self._save_and_write(data))

    async def _save_and_write(self, data: bytes) -> None:
        if self._is_writing is None:
            self._is_writing = asyncio.Lock()
        try:
            async with self._is_writing:
                try:
                    await self._save_patiently()
                except (StoreError, InternalError) as error:
                    data = _replace_answers(data, error)
                self.write_outside(data)
        finally:
            self._unsaved -= 1

    def write_outside(self, data: bytes) -> None:
        if not self.is_kept and self.only_stream is None:
            return
        writer = self._outbox
        if writer is None:
            options = self._state.options
            writer = self._outbox = LogWriter(
                self.worker,
                self.outbox_name,
                limits=LogLimits(
                    options["session_idle"] + options["retention"], 0.0, options["stream_entries"]
                ),
            )
            self._sessions.writers[writer] = None
        prepare = partial(self._note_question, data) if data.startswith(_REQUEST) else None
        # An attempt that seems to fail may be carried out twice: readers tell by these bytes.
        writer.append(os.urandom(NONCE_BYTES) + data, prepare)

    def write_to_outbox(self) -> None:
        """Write every message to the outbox, as the older form does."""
        self.only_stream = _OutboxWriter(self)

    def relay(self, kind: str, body: bytes) -> bytes | None:
        """Return the notification for a message to all workers; None if the client needs none."""
        return self._sessions.sharing.relay(self.session, body) if kind == "change" else None

    def relay_everything(self) -> list[bytes]:
        """Return notifications of everything that the client hears of."""
        return self._sessions.sharing.relay_everything(self.session)

    # -- streams of POSTs

    def open_logged(self, response: "SharedResponse") -> Stream:
        """Open the stream of a POST: as a log, if the client can come back to it."""
        if not self.is_resumable or not self.is_kept:
            return Stream()
        return self._make_logged(response, make_label())

    def continue_stream(self, response: "SharedResponse", label: str) -> None:
        """Go on with the stream of another worker."""
        response.stream = self._make_logged(response, label)
        response.stream.leave_to_log()

    def _make_logged(self, response: "SharedResponse", label: str) -> LoggedStream:
        options = self._state.options
        stream = LoggedStream(label, retry=options["retry"])
        stream.writer = LogWriter(
            self.worker,
            names.stream_of(self.sid, stream.label),
            on_stored=partial(self._note_stored, stream),
            on_lost=partial(self._lose_stream, stream, response),
            # What is noted of a stream that goes on has all that yet another worker would need.
            begin=None if response.last else partial(self._begin_log, stream.label, response),
            limits=LogLimits(_OPEN_TTL, options["retention"], options["stream_entries"]),
            fence=response.fence,
            last=response.last,
        )
        self._sessions.writers[stream.writer] = None
        self.logged[label] = stream
        return stream

    async def _begin_log(self, label: str, response: "SharedResponse") -> None:
        """Note what another worker has to end if this one is lost."""
        exchanges = response.requests
        principal = response.principal
        sharing = self._sessions.sharing
        frames: list[bytes] = []
        ids = [*dict.fromkeys((*(each.id for each in exchanges), *response.batch_ids))]
        if len(exchanges) == len(ids) and all(map(sharing.is_repeatable, exchanges)):
            frames = [codec.encode_request(e.id, e.name, e.raw) for e in exchanges]
        record = StreamCall(
            token=self.key,
            ids=ids,
            frames=frames,
            principal=None if principal is None else principal.storable(),
            fence=response.fence,
        )
        worker, recovery = self.worker, stream_recovery_record(self.sid, label)
        value = msgspec.msgpack.encode(record)
        key = names.call_of(self.sid, label)
        if not worker.is_valid(self._state.now()):  # it may be another worker's to begin anything
            await worker.renew_lease()
        id = worker.id
        await asyncio.gather(
            worker.keep_recovery_record(recovery), worker.backend.put(key, value, ttl=2 * _OPEN_TTL)
        )
        if worker.id != id:
            await worker.keep_recovery_record(recovery)

    def _note_stored(self, stream: LoggedStream, number: int, entry: bytes | None) -> None:
        stream.note_stored(number, entry)
        if entry is None:
            self._forget_writer(stream, is_over=True)

    def _forget_writer(self, stream: LoggedStream, *, is_over: bool) -> None:
        self._sessions.writers.pop(stream.writer, None)
        if self.logged.get(stream.label) is stream:
            del self.logged[stream.label]
        self._sessions.clean_up(self.sid, stream.label, is_over=is_over)

    def _lose_stream(self, stream: LoggedStream, response: "SharedResponse") -> None:
        """Stop what another worker has taken over."""
        self._forget_writer(stream, is_over=False)
        stream.note_lost()
        response.is_over = True
        session = self.session
        self._withdraw_questions(stream)
        for exchange in response.requests:
            if session.client.open.get(exchange.id) is exchange and not session.dispatcher.closed:
                session.dispatcher.abandon(exchange)
                session.request_cancelled(exchange)

    def _withdraw_questions(self, stream: LoggedStream) -> None:
        """Wait for no answers any more; the worker that takes over cancels what clients saw."""
        gone = ConnectionClosed("another worker takes the request over")
        for question in stream.asked:
            self.session.dispatcher.give_up(_decode_head(question).id, gone)

    def is_standing(self, stream: Stream) -> bool:
        return isinstance(stream, OutboxStream)

    def end_stream(self, stream: Stream) -> None:
        stream.end()

    # -- ending

    def end_standing(self) -> None:
        """End the responses to clients that come back, to any worker."""
        retry = self._state.options["retry"]
        if self.only_stream is None or not self.session.dispatcher.running:
            for stream in self.followed:
                stream.hang_up(retry)
        if self.session.endpoint.revision.priming_event:
            # Their calls go on here; clients follow the logs elsewhere, as
            # http.sse.retry-before-close allows.
            for logged in [*self.logged.values()]:
                if logged.reader is not None and not logged.reader.is_ending:
                    logged.hang_up(retry)

    def is_idle(self, before: float) -> bool:
        if self.followed or (self._outbox is not None and self._outbox.is_busy):
            return False
        return super().is_idle(before)

    def close(self) -> None:
        """End what runs here; whether the session itself has ended, the record says."""
        for logged in self.logged.values():
            self._withdraw_questions(logged)
        self.session.close()
        for stream in self.followed:
            stream.end()
        if self._outbox is not None:
            self._sessions.writers.pop(self._outbox, None)

    def let_go(self) -> None:
        if not self.is_kept:
            super().let_go()


class _OutboxWriter(Stream):
    """The one stream of a session in the older form: what is put here, another worker may send."""

    __slots__ = ("_owner",)

    def __init__(self, owner: SharedSession) -> None:
        super().__init__()
        self._owner = owner

    def append(self, data: bytes) -> None:
        self._owner.write_outside(data)


class ServedSharing(Protocol):
    """Puts the sessions of a server into records, and back; see `server.session_sharing`."""

    def restore(self, session: Any, record: SessionRecord) -> None:
        """Let a new session go on where another worker has left."""

    def apply(self, session: Any, base: SessionRecord, record: SessionRecord) -> None:
        """Take over what another worker has changed."""

    def is_changed(self, session: Any) -> bool:
        """Whether something may have changed here that the record should have."""

    def note_opening(self, session: Any) -> None:
        """Note that a message may have opened the session, or confirmed that."""

    def describe(
        self, session: Any, base: SessionRecord
    ) -> Callable[[SessionRecord], SessionRecord]:
        """Return what puts the present state of a session into a record."""

    def merge(
        self, session: Any, base: SessionRecord
    ) -> Callable[[SessionRecord], SessionRecord | None]:
        """Return what puts into a record what was changed here."""

    def relay(self, session: Any, body: bytes) -> bytes | None:
        """Return the notification of a change that another worker has published."""

    def relay_everything(self, session: Any) -> list[bytes]:
        """Return a notification of everything that the client hears of."""

    def is_repeatable(self, exchange: Exchange) -> bool:
        """Whether a request may be served again by another worker."""
