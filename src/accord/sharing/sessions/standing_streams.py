"""Streams with what a session sends outside of any request, where several workers serve it.

Which connection gets the messages, and from where on. A session may have several connections, on
any workers. The record lists them; the newest one gets the messages. One that goes away leaves its
positions in the record, for those that follow.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import msgspec

from accord.errors import StoreError, StoreUnavailable
from accord.http.rules import gate
from accord.sharing.sessions.streams import OutboxStream
from accord.sharing.workers.session_records import SessionRecord, StreamListener

if TYPE_CHECKING:
    from accord.sharing.sessions.session import SharedSession
    from accord.sharing.sessions.sessions import SharedSessions

log = logging.getLogger("accord.http")

UNKNOWN: Final = gate.HttpRefusal(404, "the session is unknown or has ended; initialize anew")
# Seconds between attempts while the store does not answer.
_PAUSE: Final = 0.2
_PAUSE_MOST: Final = 5.0


class StandingStreams:
    """The connections of this worker on which clients listen.

    Args:
        sessions: those of the app.
    """

    def __init__(self, sessions: "SharedSessions") -> None:
        self._sessions = sessions
        self._worker = sessions.worker

    async def listen(
        self, session: "SharedSession", *, after: tuple[int, int] | None, has_ids: bool = True
    ) -> OutboxStream | gate.HttpRefusal:
        """Let a client listen: from some positions on, or from where it has last listened.

        Raises:
            StoreError: the store does not answer.
        """
        # In a task of its own: a connection that is listed must be taken from the list again.
        listening = asyncio.ensure_future(self._listen(session, after, has_ids=has_ids))
        try:
            return await asyncio.shield(listening)
        except asyncio.CancelledError:
            self._sessions.spawn(self._give_up(session, listening))
            raise

    async def _give_up(
        self, session: "SharedSession", listening: Awaitable[OutboxStream | gate.HttpRefusal]
    ) -> None:
        stream = await listening
        if isinstance(stream, OutboxStream):
            await self.stop(session, stream)

    async def _listen(
        self, session: "SharedSession", after: tuple[int, int] | None, *, has_ids: bool
    ) -> OutboxStream | gate.HttpRefusal:
        most, number = self._sessions.state.options["listeners"], os.urandom(8).hex()
        listener = StreamListener(self._worker.id, number)
        await self._worker.keep_recovery_record(listener_recovery_record(session.sid, listener))

        def add(record: SessionRecord) -> SessionRecord | None:
            if len(record.listeners) >= most:
                return None
            return with_listeners(record, (*record.listeners, listener))

        records = self._sessions.records
        try:
            changed = await records.change(session.sid, add, known=session.cached)
        except StoreUnavailable:
            # It may have been listed all the same.
            stream = OutboxStream(session, number, outbox=0, broadcasts=0)
            self._sessions.spawn(self.stop(session, stream, has_sent=False))
            raise
        if changed is None:
            await self._worker.drop_recovery_record(listener_recovery_record(session.sid, listener))
            return UNKNOWN
        reached = max_positions(changed.reached, self.reach(session.sid))
        session.apply_record(changed)
        if listener not in changed.record.listeners:
            await self._worker.drop_recovery_record(listener_recovery_record(session.sid, listener))
            why = f"{most} streams of this session are open (listeners)"
            return gate.HttpRefusal(429, why, code=-32000)
        record = changed.record
        outbox, broadcasts = after or max_positions(reached, (record.outbox, record.broadcasts))
        stream = OutboxStream(
            session,
            number,
            outbox=outbox,
            broadcasts=broadcasts,
            has_ids=has_ids,
            may_skip=after is None,
        )
        session.followed = (*session.followed, stream)
        return stream

    def reach(self, sid: str) -> tuple[int, int]:
        """Return the positions that the connections of a session here have reached."""
        session = self._sessions.find_by_sid(sid)
        reached = (0, 0)
        for stream in () if session is None else session.followed:
            reached = max_positions(reached, (stream.outbox, stream.broadcasts))
        return reached

    async def stop(
        self, session: "SharedSession", stream: OutboxStream, *, has_sent: bool = True
    ) -> None:
        """Note where a client has stopped listening, as soon as the store answers."""
        session.followed = tuple(each for each in session.followed if each is not stream)
        listener = StreamListener(self._worker.id, stream.number)

        def remove(record: SessionRecord) -> SessionRecord | None:
            if not any(each.number == stream.number for each in record.listeners):
                return None
            is_newest = record.listeners[-1].number == stream.number
            left = tuple(each for each in record.listeners if each.number != stream.number)
            positions = (stream.outbox, stream.broadcasts) if is_newest and has_sent else None
            return with_listeners(record, left, positions)

        async def forget() -> None:
            # What is known here may be from before it was listed.
            known = session.cached if has_sent else None
            changed = await self._sessions.records.change(session.sid, remove, known=known)
            if changed is not None:
                session.apply_record(changed)
            await self._worker.drop_recovery_record(listener_recovery_record(session.sid, listener))

        await self.persist(forget)

    async def persist(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something that clients do not wait for, as soon as the store answers."""
        pause = _PAUSE
        while True:
            try:
                return await work()
            except StoreUnavailable as error:
                self._worker.note_silence(error)
            except StoreError as error:
                log.warning("a session could not be changed: %s", error)
                return None
            await asyncio.sleep(pause)
            pause = min(_PAUSE_MOST, 2 * pause)


def listener_recovery_record(sid: str, listener: StreamListener) -> str:
    """Return the name of a connection among what its worker has to end."""
    return f"listener/{sid}/{listener.number}"


def with_listeners(
    record: SessionRecord,
    listeners: tuple[StreamListener, ...],
    positions: tuple[int, int] | None = None,
) -> SessionRecord:
    """Return a record with other connections, and where the client has last listened."""
    outbox, broadcasts = positions or (record.outbox, record.broadcasts)
    return msgspec.structs.replace(
        record, listeners=listeners, outbox=outbox, broadcasts=broadcasts
    )


def max_positions(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Return the later one of two positions, in each of both logs."""
    return max(first[0], second[0]), max(first[1], second[1])
