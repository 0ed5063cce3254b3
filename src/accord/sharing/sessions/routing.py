"""Messages of clients that another worker waits for: answers, cancellations and progress."""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from accord.errors import Conflict, StoreUnavailable
from accord.http.server.state import AppState
from accord.protocol import codec
from accord.protocol.jsonrpc import Batch, Frame, MalformedMessage

if TYPE_CHECKING:
    from accord.sharing.sessions.session import SharedSession
    from accord.sharing.sessions.sessions import SharedSessions

log = logging.getLogger("accord.http")

_FRAME: Final = "frame"


class AnsweredTwice(Exception):
    """A client answers a request of the server that has its answer already."""

    def __init__(self, id: object) -> None:
        super().__init__(f"answers id {id!r:.100}, which no open request has")


class _ForwardedFrame(msgspec.Struct, array_like=True):
    """A message of a client that another worker has received."""

    sid: str
    data: bytes


_decode_frame: Final = msgspec.msgpack.Decoder(_ForwardedFrame).decode


class _Subject(msgspec.Struct, rename="camel"):
    """What a notification of a client is about."""

    request_id: Any = None
    progress_token: Any = None


class _Sender:
    """The place of a message that another worker has received: nothing can be answered there."""

    def reject(self, reply: bytes) -> None:
        log.debug("a message that another worker has received is refused")


_SENDER: Final = _Sender()


class MessageRouter:
    """Sends the messages of clients to the workers that wait for them.

    Args:
        state: of the app.
        sessions: those of the app.
    """

    def __init__(self, state: AppState, sessions: "SharedSessions") -> None:
        self._sessions = sessions
        self._worker = sessions.worker
        self.decode = codec.codec_for(state.server.limits).decode
        self._worker.on(_FRAME, self._take_frame)

    async def route(self, session: "SharedSession", body: bytes) -> bytes | None:
        """Send what concerns other workers to them.

        Returns:
            What is to be received here; None if nothing is left.
        """
        try:
            decoded = self.decode(body)
        except MalformedMessage:
            return body
        if isinstance(decoded, Frame):
            return None if await self._forward(session, decoded, body) else body
        return await self._route_batch(session, decoded, body)

    async def _route_batch(
        self, session: "SharedSession", batch: Batch, body: bytes
    ) -> bytes | None:
        left = [
            bytes(raw)
            for part, raw in batch.parts
            if not isinstance(part, Frame) or not await self._forward(session, part, bytes(raw))
        ]
        if len(left) == len(batch.parts):
            return body
        return b"[%b]" % b",".join(left) if left else None

    async def _forward(self, session: "SharedSession", frame: Frame, data: bytes) -> bool:
        """Send a message to another worker if that waits for it; return whether it was sent."""
        if frame.method is UNSET:
            return await self._forward_answer(session, frame.id, data)
        if frame.id is not UNSET or frame.params is UNSET:
            return False
        if frame.method not in ("notifications/cancelled", "notifications/progress"):
            return False
        try:
            about = msgspec.json.decode(frame.params, type=_Subject)
        except (ValueError, RecursionError):
            return False
        conversation = session.session.endpoint.conversation
        try:
            if about.request_id in conversation.client.open:
                return False
            if about.progress_token in conversation.server.tokens:
                return False
        except TypeError:  # it is neither text nor a number
            return False
        return await self._send_to_holders(session, data)

    async def _forward_answer(self, session: "SharedSession", id: Any, data: bytes) -> bool:
        """Send an answer to the worker that waits for it.

        Raises:
            AnsweredTwice: another answer was there first.
        """
        if not isinstance(id, int):  # as ours are
            return False
        is_here = id in session.session.endpoint.conversation.server.open
        questions = self._sessions.questions
        try:
            stored = await questions.find(session.sid, id)
        except StoreUnavailable:
            if is_here:
                return False  # it need not go anywhere
            raise
        if stored is None:
            if is_here and await self._worker.is_same_store():
                raise AnsweredTwice(id)
            return False
        try:
            asker = await questions.claim(session.sid, id, stored, data)
            is_here = is_here or asker == self._worker.id
            if not is_here:
                frame = msgspec.msgpack.encode(_ForwardedFrame(session.sid, data))
                await self._worker.send(asker, _FRAME, frame)
        except Conflict:
            raise AnsweredTwice(id) from None
        except StoreUnavailable:
            if not is_here:
                raise
        try:
            await questions.forget(session.sid, id)
        except StoreUnavailable:
            forget = partial(questions.forget, session.sid, id)
            self._sessions.spawn(self._sessions.standing.persist(forget))
        return not is_here

    async def _send_to_holders(self, session: "SharedSession", data: bytes) -> bool:
        cached = await self._sessions.records.peek(session.sid)
        holders = () if cached is None else cached.record.holders
        others = [each for each in holders if each != self._worker.id]
        frame = msgspec.msgpack.encode(_ForwardedFrame(session.sid, data))
        for each in others:
            await self._worker.send(each, _FRAME, frame)
        return bool(others)

    def _take_frame(self, body: bytes) -> None:
        frame = _decode_frame(body)
        session = self._sessions.find_by_sid(frame.sid)
        if session is not None and session.session.dispatcher.closed is None:
            sender: Any = _SENDER
            session.session.dispatcher.receive(frame.data, sender)
