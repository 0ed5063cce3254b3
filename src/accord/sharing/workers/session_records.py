"""The records of sessions, and what each worker has cached of them.

A record names the workers that hold a copy of it. A worker that changes a record sends the new one
to all of them, and waits until each has taken it, or has lost its lease. So a copy can be relied on
without asking the store, for as long as the worker has its lease.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from accord.errors import Conflict, StoreError, StoreUnavailable
from accord.sharing.workers import names
from accord.sharing.workers.messages import wait_for_notification

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker

__all__ = ["CachedRecord", "SessionRecord", "SessionRecords", "StreamListener"]

log = logging.getLogger("accord.sharing.workers")
Result = TypeVar("Result")

FORMAT: Final = 1
_ATTEMPTS: Final = 50
# Seconds after which a session ends that its client has never named after `initialize`.
UNUSED_TTL: Final = 60.0
# What workers since 0.2 call the message that answers an update.
_ACKNOWLEDGED: Final = "receipt"
# Seconds after which a holder that sends no acknowledgement is looked for, and again.
_SOON: Final = 0.02
_LATER: Final = 0.2
# Seconds between attempts to inform holders while the store does not answer.
_PAUSE_MOST: Final = 5.0


class StreamListener(msgspec.Struct, frozen=True):
    """A connection on which a client listens.

    Attributes:
        worker: where it is.
        number: unlike that of any other.
    """

    worker: str
    number: str


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as the store has it.

    A later version may add members; this one keeps those that it does not know.

    Attributes:
        needs: the lowest format that a worker must know to serve the session.
        created: when it began, in seconds since 1970.
        revision: the protocol revision that was agreed on; empty before `initialize`.
        capabilities: those of the client, as dotted paths.
        client: what the client says of itself, as JSON.
        extensions: its settings for extensions, as JSON.
        principal: the caller that opened it, for operators.
        is_older_form: whether it belongs to the form with two endpoints.
        is_initialized: whether the client has confirmed the opening.
        is_ended: whether it is over; the record stays until no id of it is valid any more.
        log_level: the level that the client has asked for; empty if it has not.
        subscriptions: the URIs that the client has subscribed to.
        state: what handlers keep in `session.state`: each value as MessagePack.
        visibility: the rules of `session.show` and `hide`, as MessagePack.
        holders: the workers that have a copy.
        listeners: the connections on which the client listens; the last one gets the messages.
        outbox: the last message outside of any request that was sent to a client.
        broadcasts: the last message to all workers that the session has heard of.
    """

    needs: int = FORMAT
    created: float
    revision: str = ""
    capabilities: tuple[str, ...] = ()
    client: bytes = b"null"
    principal: str = ""
    is_older_form: bool = False
    is_initialized: bool = False
    is_ended: bool = False
    log_level: str = ""
    subscriptions: frozenset[str] = frozenset()
    state: dict[str, bytes] = {}
    visibility: bytes = b""
    holders: tuple[str, ...] = ()
    listeners: tuple[StreamListener, ...] = ()
    outbox: int = 0
    broadcasts: int = 0
    extensions: bytes = b"{}"


class _RecordHead(msgspec.Struct):
    """What every format says of itself."""

    needs: int = FORMAT


_MEMBERS: Final = frozenset(SessionRecord.__struct_fields__)
_decode_head: Final = msgspec.msgpack.Decoder(_RecordHead).decode
_decode: Final = msgspec.msgpack.Decoder(SessionRecord).decode
_decode_members: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_replace: Final = msgspec.structs.replace


class CachedRecord(msgspec.Struct):
    """A record, its version, and the members that this version of accord does not know.

    Attributes:
        reached: the positions that connections of other workers had reached when they took it.
    """

    record: SessionRecord
    version: int
    unknown: Mapping[str, msgspec.Raw] = {}
    reached: tuple[int, int] = (0, 0)

    @property
    def is_readable(self) -> bool:
        """Whether this version of accord can serve the session."""
        return self.record.needs <= FORMAT


def decode_record(value: bytes, version: int) -> CachedRecord:
    """Return a record as it was stored.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        needs = _decode_head(value).needs
        # Of a later format, not even the members that we know need have their present form.
        record = _decode(value) if needs <= FORMAT else SessionRecord(needs=needs, created=0.0)
        members = _decode_members(value)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"the record of a session cannot be read: {error}") from None
    unknown = {name: each for name, each in members.items() if name not in _MEMBERS}
    return CachedRecord(record, version, unknown)


def encode_record(record: SessionRecord, unknown: Mapping[str, msgspec.Raw]) -> bytes:
    """Return a record as it is stored."""
    encoded = _encode(record)
    if not unknown:
        return encoded
    return _encode({**_decode_members(encoded), **unknown})


class _Update(msgspec.Struct, array_like=True):
    """A record that has changed: for the workers that hold a copy."""

    sid: str
    version: int
    value: bytes
    token: str
    sender: str


class _Acknowledgement(msgspec.Struct, array_like=True):
    """Says that a worker has taken an update, and whether it still holds a copy."""

    sid: str
    token: str
    worker: str
    is_held: bool
    outbox: int = 0
    broadcasts: int = 0


_decode_update: Final = msgspec.msgpack.Decoder(_Update).decode
_decode_acknowledgement: Final = msgspec.msgpack.Decoder(_Acknowledgement).decode

Change = Callable[[SessionRecord], SessionRecord | None]
"""Returns a record as it shall be; None leaves it as it is."""
Apply = Callable[[str, CachedRecord], bool]
"""Takes a changed record for the copy of a session; returns whether there is a copy."""
Reach = Callable[[str], tuple[int, int]]
"""Returns the positions in outbox and broadcasts that the connections of a session have reached."""


class SessionRecords:
    """Reads and changes the records of sessions.

    Args:
        worker: on whose part.
        ttl: seconds after its last use for which a record is kept.
        apply: called with the records that other workers have changed.
        reach: what acknowledgements say of the connections here.
    """

    def __init__(
        self, worker: "Worker", *, ttl: float, apply: Apply, reach: Reach = lambda sid: (0, 0)
    ) -> None:
        self._worker = worker
        self._ttl = ttl
        self._apply = apply
        self._reach = reach
        self._waiting: dict[str, _Awaited] = {}
        # Holders that were lost, or have given their copy up.
        self._left: dict[str, set[str]] = {}
        # Records that holders may not have: it is not known whether they were changed.
        self._doubts: dict[str, _Doubt] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        worker.on("session", self._take_update)
        worker.on(_ACKNOWLEDGED, self._take_acknowledgement)

    async def close(self, seconds: float) -> None:
        """Let changes that are under way take effect, but not for longer than this."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()

    async def create(self, sid: str, record: SessionRecord) -> CachedRecord:
        """Keep a new session; this worker holds a copy.

        Raises:
            Conflict: there is one already.
        """
        record = _replace(record, holders=(self._worker.id,))
        value = encode_record(record, {})
        # Until the session is used for the first time.
        ttl = min(self._ttl, UNUSED_TTL)
        version = await self._worker.backend.put(names.session_of(sid), value, ttl=ttl, expect=0)
        return CachedRecord(record, version)

    async def load(self, sid: str) -> CachedRecord | None:
        """Return the record of a session, and let this worker hold a copy; None if it is gone."""
        self._worker.metrics.sessions_loaded += 1
        key, own = names.session_of(sid), self._worker.id
        stored = await self._worker.backend.get(key)
        for _ in range(_ATTEMPTS):
            if stored is None:
                return None
            found = decode_record(stored.value, stored.version)
            if not found.is_readable or found.record.is_ended or own in found.record.holders:
                return found
            record = _replace(found.record, holders=(*found.record.holders, own))
            value = encode_record(record, found.unknown)
            try:
                version = await self._worker.backend.put(
                    key, value, ttl=self._ttl, expect=found.version
                )
            except Conflict as error:
                stored = error.record
            else:
                return CachedRecord(record, version, found.unknown)
        raise StoreError("the record of a session changes too often to be read")

    async def peek(self, sid: str) -> CachedRecord | None:
        """Return the record of a session without holding a copy."""
        stored = await self._worker.backend.get(names.session_of(sid))
        return None if stored is None else decode_record(stored.value, stored.version)

    async def change(
        self, sid: str, change: Change, *, known: CachedRecord | None = None
    ) -> CachedRecord | None:
        """Change a record; the workers that hold a copy have the new one when this returns.

        Args:
            sid: the session.
            change: makes the new record from the present one; may be called several times.
            known: what this worker holds, which saves reading it.

        Returns:
            The record after the change; None if the session has ended.
        """
        self._worker.metrics.sessions_saved += 1
        # In a task of its own: one that is cancelled on its way would leave holders uninformed.
        return await asyncio.shield(self._spawn(self._change(sid, change, known)))

    def _spawn(self, work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
        task = asyncio.get_running_loop().create_task(work, name="accord-record")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _change(
        self, sid: str, change: Change, known: CachedRecord | None
    ) -> CachedRecord | None:
        # One without a version is not from the store, and must not be written as a new one.
        found = known if known is not None and known.version else await self.peek(sid)
        for _ in range(_ATTEMPTS):
            if found is None:
                return None
            if not found.is_readable:
                raise StoreError("the session belongs to a later version of the server")
            changed = None if found.record.is_ended else change(found.record)
            if changed is None:
                if sid in self._doubts:
                    await self._inform(sid, found, ())
                return None if found.record.is_ended else found
            try:
                return await self._write(sid, found, changed)
            except Conflict as error:
                stored = error.record
                found = None if stored is None else decode_record(stored.value, stored.version)
        raise StoreError("the record of a session changes too often to be changed")

    async def _write(self, sid: str, found: CachedRecord, changed: SessionRecord) -> CachedRecord:
        """Put a changed record in the place of another one, and inform the holders of that."""
        # One that was late, or has given its copy up, may hold another one by now: so it is
        # informed, too, and drops that when it finds that it is not among the holders.
        informed = found.record.holders
        left = self._left.get(sid, ())
        changed = _replace(changed, holders=tuple(each for each in informed if each not in left))
        value = encode_record(changed, found.unknown)
        key = names.session_of(sid)
        try:
            version = await self._worker.backend.put(
                key, value, ttl=self._ttl, expect=found.version
            )
        except StoreUnavailable:
            self._doubt(sid, informed)
            raise
        self._left.pop(sid, None)
        written = CachedRecord(changed, version, found.unknown)
        await self._inform(sid, written, informed)
        return written

    def _doubt(self, sid: str, informed: Iterable[str]) -> None:
        """Inform workers later: what was written may have taken effect."""
        doubt = self._doubts.get(sid)
        if doubt is None:
            doubt = self._doubts[sid] = _Doubt()
            self._spawn(self._resolve(sid, doubt))
        doubt.workers.update(informed)
        doubt.count += 1

    async def _resolve(self, sid: str, doubt: "_Doubt") -> None:
        """Send a record to its holders as soon as the store answers."""
        pause = _LATER
        while doubt.count:
            await asyncio.sleep(pause)
            pause = min(_PAUSE_MOST, 2 * pause)
            count = doubt.count
            try:
                found = await self.peek(sid)
                if found is not None and found.is_readable:
                    self._apply(sid, found)
                    await self._inform(sid, found, ())
            except StoreUnavailable as error:
                self._worker.note_silence(error)
                continue
            except StoreError as error:
                log.warning("the holders of a session are not informed: %s", error)
            doubt.count -= count  # others may have come meanwhile
        del self._doubts[sid]

    # -- the copies of others

    async def _inform(self, sid: str, cached: CachedRecord, holders: Iterable[str]) -> None:
        """Send a record to the workers that hold a copy, and wait for their acknowledgements.

        Args:
            sid: the session.
            cached: the record.
            holders: those that may hold a copy, beside those that the record says do.
        """
        doubt = self._doubts.get(sid)
        others = {*holders, *cached.record.holders, *(() if doubt is None else doubt.workers)}
        others.discard(self._worker.id)
        if not others:
            return
        token = os.urandom(8).hex()
        awaited = self._waiting[token] = _Awaited(set(others), cached.record.holders)
        value = encode_record(cached.record, cached.unknown)
        update = _Update(sid, cached.version, value, token, self._worker.id)
        body = msgspec.msgpack.encode(update)
        try:
            await asyncio.gather(*(self._worker.send(each, "session", body) for each in others))
            await self._await_acknowledgements(sid, awaited)
        except StoreUnavailable:
            self._doubt(sid, others)
            raise
        finally:
            self._waiting.pop(token, None)
        cached.reached = (awaited.outbox, awaited.broadcasts)

    async def _await_acknowledgements(self, sid: str, awaited: "_Awaited") -> None:
        loop = asyncio.get_running_loop()
        # A copy is relied on for no longer than a lease after its worker was last heard of.
        deadline = loop.time() + self._worker.lease
        pause = _SOON
        while awaited.workers and loop.time() < deadline:
            await wait_for_notification(awaited.is_complete, pause)
            pause = _LATER
            for each in [*awaited.workers]:
                if each in awaited.workers and not await self._worker.is_alive(each):
                    self._note_left(sid, each)
                    awaited.note(each)

    def _note_left(self, sid: str, worker: str) -> None:
        self._left.setdefault(sid, set()).add(worker)
        if len(self._left) > 10_000:
            self._left.pop(next(iter(self._left)))

    async def _take_update(self, body: bytes) -> None:
        update = _decode_update(body)
        is_held = self._apply(update.sid, decode_record(update.value, update.version))
        reached = self._reach(update.sid)
        found = _Acknowledgement(update.sid, update.token, self._worker.id, is_held, *reached)
        try:
            await self._worker.send(update.sender, _ACKNOWLEDGED, msgspec.msgpack.encode(found))
        except StoreUnavailable as error:
            self._worker.note_silence(error)  # the sender waits for no longer than a lease

    def _take_acknowledgement(self, body: bytes) -> None:
        found = _decode_acknowledgement(body)
        awaited = self._waiting.get(found.token)
        if awaited is None:
            return
        if not found.is_held and found.worker in awaited.holders:
            self._note_left(found.sid, found.worker)
        awaited.outbox = max(awaited.outbox, found.outbox)
        awaited.broadcasts = max(awaited.broadcasts, found.broadcasts)
        awaited.note(found.worker)


class _Doubt:
    """Changes of one record that workers may not have heard of.

    Attributes:
        workers: those that may hold a copy from before.
        count: how many changes.
    """

    def __init__(self) -> None:
        self.workers: set[str] = set()
        self.count = 0


class _Awaited:
    """The acknowledgements of one record that are waited for.

    Args:
        workers: those that have sent none yet.
        holders: the workers that the record says hold a copy.
    """

    def __init__(self, workers: set[str], holders: tuple[str, ...]) -> None:
        self.workers = workers
        self.holders = holders
        self.outbox = self.broadcasts = 0
        self.is_complete = asyncio.Event()

    def note(self, worker: str) -> None:
        """Note that a worker has taken the record, or is lost."""
        self.workers.discard(worker)
        if not self.workers:
            self.is_complete.set()
