"""What a lost worker leaves behind, and how another one ends it or goes on with it.

A stream whose requests may run again is continued: the handler begins anew, its events follow those
that clients have. Any other stream ends with one error for each request that has no answer.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from accord.errors import StoreUnavailable
from accord.http.rules import gate
from accord.http.server.exchange import Headers, HttpExchange, Message
from accord.http.settings import HttpSettings
from accord.principal import Principal
from accord.protocol import codec
from accord.protocol.jsonrpc import ErrorBody
from accord.runtime.handlers import DONE
from accord.sharing.sessions.session import (
    CALL_FORMAT,
    SharedResponse,
    StreamCall,
    stream_recovery_record,
)
from accord.sharing.sessions.sessions import COPIES, SharedSessions
from accord.sharing.workers import names
from accord.sharing.workers.event_logs import MESSAGE
from accord.sharing.workers.messages import BEHIND
from accord.sharing.workers.session_records import SessionRecord
from accord.types import CancelledParams

log = logging.getLogger("accord.http")

_PAGE: Final = 1000
# More than any worker has.
_RECORDS_MOST: Final = 1_000_000
_DAY: Final = 86_400.0
_LOST: Final = ErrorBody(
    -32603,
    "the worker that served this request was lost before the answer; the request may have taken "
    "effect",
    {"reason": "worker-lost"},
)


class _Sent(msgspec.Struct):
    """What a message on a stream says of requests."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Progress(msgspec.Struct, rename="camel"):
    progress_token: int | str | None = None
    progress: float = 0.0


class _Cancelled(msgspec.Struct, rename="camel"):
    request_id: int | str | None = None


_decode_cancelled: Final = msgspec.json.Decoder(_Cancelled).decode
_decode_sent: Final = msgspec.json.Decoder(_Sent | list[_Sent]).decode
_decode_progress: Final = msgspec.json.Decoder(_Progress).decode
_decode_call: Final = msgspec.msgpack.Decoder(StreamCall).decode


class SentMessages:
    """What clients have seen of a stream: its answers, questions and progress."""

    def __init__(self) -> None:
        self.answered: set[int | str] = set()
        self.asked: list[int | str] = []
        self.withdrawn: set[int | str] = set()
        self.progress: dict[int | str, float] = {}

    def add(self, entry: bytes) -> None:
        """Note an entry of the log."""
        if entry[:1] != MESSAGE:
            return
        try:
            sent = _decode_sent(entry[1:])
        except (ValueError, RecursionError):
            return
        for each in sent if isinstance(sent, list) else [sent]:
            if each.method is None and each.id is not None:
                self.answered.add(each.id)
            elif each.id is not None:
                self.asked.append(each.id)
            elif each.method == "notifications/progress":
                self.is_new_progress(each.params)
            elif each.method == "notifications/cancelled":
                self._note_withdrawn(each.params)

    def _note_withdrawn(self, params: msgspec.Raw) -> None:
        with suppress(ValueError, RecursionError):
            found = _decode_cancelled(params).request_id
            if found is not None:
                self.withdrawn.add(found)

    def is_new_progress(self, params: msgspec.Raw) -> bool:
        """Note progress; return whether it is more than before."""
        try:
            found = _decode_progress(params)
        except (ValueError, RecursionError):
            return True
        token = found.progress_token
        if token is None:
            return True
        before = self.progress.get(token)
        if before is not None and found.progress <= before:
            return False
        self.progress[token] = found.progress
        return True


class DetachedExchange(HttpExchange):
    """The place of a request whose client is not connected here: it follows the log."""

    def __init__(self, options: HttpSettings, principal: Principal | None) -> None:
        self.options = options
        self.method = "POST"
        self.headers: Mapping[bytes, bytes] = {}
        self.scope = {"type": "http", "path": options["path"], "headers": [], "client": None}
        self._principal = principal

    @property
    def principal(self) -> Principal | None:
        return self._principal

    def receive(self) -> Awaitable[Message]:
        raise AssertionError("a request that goes on has no body")

    def respond(self, status: int, headers: Headers, body: bytes) -> Awaitable[None]:
        return DONE

    def make_reader(self, *args: Any) -> Any:
        raise AssertionError("the client of a request that goes on follows its log")

    def expect_silence(self) -> None:
        """Keep everything: there is no connection."""


class ResumedResponse(SharedResponse):
    """The response to requests that run again: its stream goes on behind what clients have."""

    sent: SentMessages

    def skips(self, data: bytes) -> bool:
        """Whether a message repeats progress that clients have seen (progress.value.increases)."""
        if b'"notifications/progress"' not in data:
            return False
        try:
            sent = _decode_sent(data)
        except (ValueError, RecursionError):
            return False
        if isinstance(sent, list) or sent.method != "notifications/progress":
            return False
        return not self.sent.is_new_progress(sent.params)


class StreamTakeover:
    """Takes over what lost workers leave behind.

    Args:
        sessions: those of the app.
    """

    def __init__(self, sessions: SharedSessions) -> None:
        self._sessions = sessions
        self._worker = sessions.worker
        self._kinds: dict[str, Callable[[str, str], Awaitable[None]]] = {
            "stream": self._take_stream,
            "listener": self._forget_listener,
            "session": self._end_session,
        }
        self._worker.on_worker_lost(self.take_over)

    async def take_over(self, lost: str) -> None:
        """End what a lost worker was doing, or go on with it."""
        # It may have changed records without informing those that hold copies.
        await self._worker.publish(COPIES, b"")
        # Recovery records of other kinds, such as tasks, belong to others.
        for recovery in await self._worker.backend.members(
            names.recovery_records_of(lost), limit=_RECORDS_MOST
        ):
            kind, _, rest = recovery.partition("/")
            take = self._kinds.get(kind)
            if take is None:
                continue
            sid, _, name = rest.partition("/")
            try:
                await take(sid, name)
            except StoreUnavailable:
                raise
            except Exception:
                log.exception("a %s of a lost worker cannot be taken over", kind)
            await self._worker.drop_recovery_record(recovery, worker=lost)

    # -- listeners and sessions of the older form

    async def _forget_listener(self, sid: str, number: str) -> None:
        def remove(record: SessionRecord) -> SessionRecord | None:
            left = tuple(each for each in record.listeners if each.number != number)
            if len(left) == len(record.listeners):
                return None
            return msgspec.structs.replace(record, listeners=left)

        changed = await self._sessions.records.change(sid, remove)
        session = self._sessions.find_by_sid(sid)
        if changed is not None and session is not None:
            session.apply_record(changed)

    async def _end_session(self, sid: str, _: str) -> None:
        """End a session of the older form: it lasts as long as its stream."""
        session = self._sessions.find_by_sid(sid)
        if session is not None:
            await self._sessions.end_everywhere(session)
        else:
            await self._sessions.end_by_sid(sid)

    # -- streams

    async def _take_stream(self, sid: str, label: str) -> None:
        backend, worker, recovery = (
            self._worker.backend,
            self._worker,
            stream_recovery_record(sid, label),
        )
        key, name = names.call_of(sid, label), names.stream_of(sid, label)
        session = self._sessions.find_by_sid(sid)
        if session is not None and label in session.logged:
            return  # it is this worker that goes on with it
        stored = await backend.get(key)
        if stored is None:
            await worker.drop_recovery_record(recovery)  # that of an attempt before
            return
        call = _decode_call(stored.value)
        page = await backend.read(name, limit=1)
        if page is None:
            # No client has seen anything of it. The lost worker must not begin it after all.
            begun = msgspec.structs.replace(call, fence=call.fence + 1)
            await self._close(name, begun, SentMessages())
        if page is None or page.is_closed:
            await backend.delete(key)
            await worker.drop_recovery_record(recovery)
            return
        await worker.keep_recovery_record(recovery)
        if not await backend.seize(name, fence=page.fence):
            # Another worker was faster; it must not be taken for this one's if this one is lost.
            await worker.drop_recovery_record(recovery)
            return
        call = msgspec.structs.replace(call, fence=page.fence + 1)
        await backend.put(key, msgspec.msgpack.encode(call), ttl=_DAY)
        sent = await self._read_all(name)
        await self._withdraw_questions(sid, name, call, sent)
        if call.needs <= CALL_FORMAT and call.frames and await self._resume(call, sid, label, sent):
            return
        await self._close(name, call, sent)
        await backend.delete(key)
        await worker.drop_recovery_record(recovery)

    async def _read_all(self, name: str) -> SentMessages:
        sent, last = SentMessages(), 0
        while True:
            page = await self._worker.backend.read(name, after=last, limit=_PAGE)
            if page is None or not page.items:
                return sent
            for entry in page.items:
                sent.add(entry)
            last = page.first + len(page.items) - 1

    async def _withdraw_questions(
        self, sid: str, name: str, call: StreamCall, sent: SentMessages
    ) -> None:
        """Cancel questions of the lost worker: their answers are not waited for any more."""
        backend = self._worker.backend
        questions = self._sessions.questions
        notices = []
        for id in sent.asked:
            # Not those that an earlier attempt to take the stream over has cancelled.
            if id not in sent.withdrawn and await questions.is_open(sid, id):
                params = CancelledParams(id, "the worker that asked was lost")
                notice = codec.encode_notification("notifications/cancelled", params)
                notices.append(MESSAGE + notice)
        if notices:
            await backend.append(name, notices, ttl=_DAY, fence=call.fence, notify=(name,))
        for id in sent.asked:
            await questions.forget(sid, id)

    async def _close(self, name: str, call: StreamCall, sent: SentMessages) -> None:
        """End a stream with an error for each request that has no answer."""
        missing = [id for id in call.ids if id not in sent.answered]
        entries = [MESSAGE + codec.encode_error(id, _LOST) for id in missing]
        await self._worker.backend.append(
            name,
            entries,
            ttl=self._sessions.state.options["retention"],
            fence=call.fence,
            final=True,
            notify=(name,),
        )

    async def _resume(self, call: StreamCall, sid: str, label: str, sent: SentMessages) -> bool:
        """Let the requests of a stream run again here; return whether they do."""
        session = await self._sessions.load(call.token, call.principal)
        if isinstance(session, gate.HttpRefusal):
            return False
        frames = [
            frame
            for id, frame in zip(call.ids, call.frames, strict=True)
            if id not in sent.answered
        ]
        if not frames or any(id in session.session.client.open for id in call.ids):
            return False
        page = await self._worker.backend.read(names.stream_of(sid, label), after=BEHIND, limit=1)
        if page is None:
            return False
        exchange = DetachedExchange(self._sessions.state.options, call.principal)
        response = ResumedResponse(exchange, session, "stream")
        response.sent, response.fence, response.last = sent, call.fence, page.last
        session.continue_stream(response, label)
        body = frames[0] if len(frames) == 1 else b"[%b]" % b",".join(frames)
        response.is_batch = len(frames) > 1
        log.warning("a request of a lost worker runs again")
        session.session.dispatcher.receive(body, response)
        response.is_received = True
        if response.refusals and response.stream is not None:
            for refusal in response.refusals:
                response.stream.append(refusal)
            response.give_up()
        return True
