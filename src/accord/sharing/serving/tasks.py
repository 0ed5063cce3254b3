"""Tasks in the store that workers share: any of them reads and changes the tasks of all others.

A task is one record, which expires with the task. Two indexes of its owner hold its name: that of
all tasks, with a number by which they are listed, and that of the unfinished ones. The record is
written first and changed alone, so an index can only be behind: names without a record, or of a
finished one, are removed where they are found.

The tasks of a worker that is lost end in one state, or run again here. The record decides, by
compare-and-set: of several workers that find a lost one, one takes each of its tasks over, and a
worker that was only stalled finds that its own fence is too low.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar, cast

import msgspec

from accord.errors import Conflict, StoreError, StoreUnavailable
from accord.protocol import shape
from accord.protocol.revisions import REVISIONS
from accord.server.tasks.fields import core_fields
from accord.server.tasks.task_store import Change, TaskRecord, fail_lost
from accord.sharing.backends.backend import Backend, OnNotify
from accord.sharing.serving.session_sharing import notify_session
from accord.sharing.workers import names
from accord.types import TaskStatusParams

if TYPE_CHECKING:
    from accord.server.tasks.runner import TaskRunner
    from accord.types import RevisionId

log = logging.getLogger("accord.server")

Item = TypeVar("Item")
# The format of a record. A worker of another version that reads a higher one leaves it alone.
_FORMAT: Final = 1
# Everything in a backend expires; so long is as good as never.
_FOR_EVER: Final = 10 * 365 * 86_400.0
# How many records are read at the same time.
_AT_ONCE: Final = 25
# More names than an index can have: `kept` bounds it.
_ALL: Final = 1_000_000
# In seconds, after which a task is admitted or refused for good.
_ADMISSION_PAUSES: Final = (0.02, 0.08, 0.0)
_ID_CHARACTERS_MOST: Final = 100
# Names in an index are ordered as numbers, so these have as many digits as the highest one.
_DIGITS: Final = 19
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(TaskRecord).decode
_decode_members: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_KNOWN: Final = frozenset(TaskRecord.__struct_fields__)
_NOTHING: Final[Mapping[str, msgspec.Raw]] = MappingProxyType({})
# A call that ends its worker each time must not end all of them.
_RUNS_MOST: Final = 3
# For so long a worker that was seen alive is taken to be alive.
_ALIVE_SECONDS: Final = 1.0
_KNOWN_MOST: Final = 1_000
_PREFIX: Final = "task/"
STATUS: Final = "notifications/tasks/status"


class SharedTaskStore:
    """Keeps tasks in the store that workers share.

    It has no leases of its own: the worker says which others are lost.

    Args:
        backend: the store, which its owner opens and closes.
        clock: returns the seconds since 1970, by the clock of the store.
    """

    is_shared = True
    lease = inf

    def __init__(self, backend: Backend, *, clock: Callable[[], float] = time.time) -> None:
        self.backend = backend
        self.now = clock

    async def add(self, record: TaskRecord, *, unfinished: int, kept: int) -> bool:
        """Keep a new task; False if the owner has as many unfinished ones as it may have."""
        backend, owner, ttl = self.backend, _owner_part(record.owner), self._ttl(record)
        await backend.put(_key(record.id), _pack(record), ttl=ttl, expect=0)
        # The version of a record never repeats, so that it serves as the number of the next task.
        number = await backend.put(f"{owner}n", b"", ttl=_FOR_EVER)
        name = f"{number:0{_DIGITS}}:{record.revision}:{record.id}"
        if not await self._admit(record.id, owner, ttl, most=unfinished):
            await backend.delete(_key(record.id))
            return False
        await backend.add(f"{owner}a", [name], ttl=ttl)
        over = await backend.count(f"{owner}a") - kept
        if over > 0:
            await self._drop_finished(owner, over)
        return True

    async def _admit(self, id: str, owner: str, ttl: float, *, most: int) -> bool:
        """Add a task to the unfinished ones of its owner, if there may be one more.

        It is counted after it was added, so that the limit holds for workers that add at the same
        time. Those may get into each other's way, and try again.
        """
        for longest in _ADMISSION_PAUSES:
            await self.backend.add(f"{owner}u", [id], ttl=ttl)
            if await self._count_unfinished(owner, most=most) <= most:
                return True
            await self.backend.remove(f"{owner}u", [id])
            await asyncio.sleep(random.uniform(0.2, 1.0) * longest)  # noqa: S311  # only spreads
        return False

    async def _count_unfinished(self, owner: str, *, most: int) -> int:
        count = await self.backend.count(f"{owner}u")
        if count <= most:
            return count
        # A worker that was lost may have left names behind.
        ids = await self.backend.members(f"{owner}u", limit=_ALL)
        found = await self._read(ids)
        over = [id for id in ids if id not in found or found[id].is_finished]
        return count - (await self.backend.remove(f"{owner}u", over) if over else 0)

    async def _drop_finished(self, owner: str, count: int) -> None:
        """Drop the oldest finished tasks of an owner."""
        running = set(await self.backend.members(f"{owner}u", limit=_ALL))
        names = sorted(await self.backend.members(f"{owner}a", limit=_ALL))
        dropped = [name for name in names if _id_of(name) not in running][:count]
        for name in dropped:
            await self.backend.delete(_key(_id_of(name)))
        await self._forget(owner, dropped)

    async def _forget(self, owner: str, names: list[str]) -> None:
        if names:
            await self.backend.remove(f"{owner}a", names)
            await self.backend.remove(f"{owner}u", map(_id_of, names))

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""
        if not _is_id(id):
            return None
        found = await self.backend.get(_key(id))
        return None if found is None else _unpack(found.value)

    async def change(self, id: str, change: Change) -> TaskRecord | None:
        """Change a task that is not finished. The function is called again after a conflict."""
        if not _is_id(id):
            return None
        key = _key(id)
        found = await self.backend.get(key)
        while found is not None:
            record, unknown = _unpack(found.value), _find_unknown(found.value)
            changed = None if record.is_finished else change(record)
            if changed is None:
                return None
            changed = msgspec.structs.replace(changed, changes=record.changes + 1)
            try:
                packed = _pack(changed, unknown)
                await self.backend.put(key, packed, ttl=self._ttl(changed), expect=found.version)
            except Conflict as conflict:
                found = conflict.record
                continue
            await self._note(changed)
            return changed
        return None

    async def _note(self, record: TaskRecord) -> None:
        """Say that a task has changed, once it has; a follower that misses it looks later."""
        with suppress(StoreError):
            if record.is_finished:
                await self.backend.remove(f"{_owner_part(record.owner)}u", [record.id])
            await self.backend.notify(_topic(record.id))

    async def page(
        self, owner: str, revision: str, *, after: int, count: int
    ) -> list[tuple[int, TaskRecord]]:
        """Return the tasks of an owner, oldest first."""
        names = await self.backend.members(f"{_owner_part(owner)}a", limit=_ALL)
        split = [name.split(":", 2) for name in sorted(names)]
        wanted = [
            (int(number), id)
            for number, row, id in split
            if row == revision and int(number) > after
        ]
        page: list[tuple[int, TaskRecord]] = []
        for part in _split(wanted):
            found = await self._read(id for _, id in part)
            page += [(number, found[id]) for number, id in part if id in found]
            if len(page) >= count:
                break
        return page[:count]

    async def _read(self, ids: Iterable[str]) -> dict[str, TaskRecord]:
        found: dict[str, TaskRecord] = {}
        for part in _split(ids):
            records = await asyncio.gather(*map(self.get, part))
            found.update({record.id: record for record in records if record is not None})
        return found

    async def follow(self, id: str, on_notify: OnNotify) -> None:
        """Call something whenever a task was changed by any worker; hints may get lost."""
        await self.backend.follow(_topic(id), on_notify)

    async def unfollow(self, id: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        await self.backend.unfollow(_topic(id), on_notify)

    async def beat(self, worker: str) -> None:
        """Do nothing: what has expired is gone, and the worker has a lease of its own."""

    async def close(self) -> None:
        """Keep the store open: others use it."""

    def _ttl(self, record: TaskRecord) -> float:
        expires_at = record.expires_at
        return _FOR_EVER if expires_at is None else max(0.001, expires_at - self.now())


def _split(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Return items in parts that are read at the same time."""
    rest = iter(items)
    while part := list(islice(rest, _AT_ONCE)):
        yield part


def _key(id: str) -> str:
    return f"{{t{id}}}t"


def _topic(id: str) -> str:
    return f"{{t{id}}}b"


def _owner_part(owner: str) -> str:
    """Return the part in braces of what belongs to an owner, whose name may be long or private."""
    return f"{{o{sha256(owner.encode()).hexdigest()[:32]}}}"


def _id_of(name: str) -> str:
    return name.split(":", 2)[2]


def _is_id(id: str) -> bool:
    """Whether a text can be the id of a task; clients send any text."""
    return id.replace("-", "").isalnum() and id.isascii() and len(id) <= _ID_CHARACTERS_MOST


def _pack(record: TaskRecord, unknown: Mapping[str, msgspec.Raw] = _NOTHING) -> bytes:
    """Encode a record, with members that a later version has put into it."""
    if unknown:
        members = {name: getattr(record, name) for name in record.__struct_fields__}
        return bytes([_FORMAT]) + _encode({**members, **unknown})
    return bytes([_FORMAT]) + _encode(record)


def _unpack(value: bytes) -> TaskRecord:
    if value[:1] != bytes([_FORMAT]):
        raise StoreUnavailable("a task was written by a later version of accord")
    return _decode(memoryview(value)[1:])


def _find_unknown(value: bytes) -> Mapping[str, msgspec.Raw]:
    members = _decode_members(memoryview(value)[1:])
    if len(members) == len(TaskRecord.__struct_fields__):
        return _NOTHING
    return {name: each for name, each in members.items() if name not in _KNOWN}


class Takeover:
    """Takes over the tasks of lost workers."""

    def __init__(self, runner: "TaskRunner") -> None:
        self._runner = runner
        # By worker, until when it is taken to be alive.
        self._alive: dict[str, float] = {}
        self._announcing: set[asyncio.Task[None]] = set()

    @staticmethod
    def recovery_record_of(id: str) -> str:
        """Return the name of a task among the recovery records of a worker."""
        return f"{_PREFIX}{id}"

    async def take_over(self, lost: str) -> None:
        """Take over all tasks of a lost worker.

        Raises:
            StoreError: some of them are left.
        """
        worker = self._runner.worker
        if worker is None:
            return
        self._alive.pop(lost, None)
        for recovery in await worker.backend.members(
            names.recovery_records_of(lost), limit=100_000
        ):
            if recovery.startswith(_PREFIX):
                await self._take(recovery.removeprefix(_PREFIX), lost)
                await worker.drop_recovery_record(recovery, worker=lost)

    async def check(self, record: TaskRecord) -> TaskRecord | None:
        """Return an unfinished task as it is, or as it is after its worker was found to be gone.

        A lost worker is taken over by another one, which knows its tasks. This is for tasks that
        have no recovery record, such as those that are older than records are kept.
        """
        if self._runner.worker is None or not await self.is_gone(record.worker):
            return record
        return await self._take(record.id, record.worker) or await self._runner.store.get(record.id)

    async def is_gone(self, id: str) -> bool:
        """Whether a worker has left or was taken over; not while it is late or being taken over."""
        worker = self._runner.worker
        if worker is None:
            return False
        now = worker.now()
        if self._alive.get(id, 0.0) > now:
            return False
        is_gone = not await worker.is_alive(id) and id not in await worker.backend.members(
            names.WORKERS, limit=10_000
        )
        if not is_gone:
            if len(self._alive) >= _KNOWN_MOST:
                self._alive.clear()
            self._alive[id] = now + _ALIVE_SECONDS
        return is_gone

    async def _take(self, id: str, lost: str) -> TaskRecord | None:
        """End a task of a lost worker, or run it here; None if it is not one of its tasks."""
        from accord.server.tasks.calls import find_tool

        runner, worker = self._runner, self._runner.worker
        assert worker is not None

        def change(record: TaskRecord) -> TaskRecord | None:
            if record.worker != lost:
                return None
            is_repeated = record.call is not None and record.runs < _RUNS_MOST
            if not is_repeated or find_tool(runner, record.call or b"") is None:
                return self._fail(record)
            return msgspec.structs.replace(
                record,
                worker=worker.id,
                fence=record.fence + 1,
                runs=record.runs + 1,
                updated_at=record.time_of_change(runner.store.now()),
            )

        await worker.keep_recovery_record(self.recovery_record_of(id))
        record = await runner.store.change(id, change)
        if record is not None and not record.is_finished:
            try:
                await self._run_again(record)
            except Exception:
                log.exception("task %s could not run again", id[:8])
                record = await runner.store.change(id, self._fail)
            else:
                return record
        await worker.drop_recovery_record(self.recovery_record_of(id))
        if record is not None:
            log.warning("task %s has failed: its worker %s is lost", id[:8], lost)
            self.announce(record)
        return record

    def announce(self, record: TaskRecord) -> None:
        """Notify the client of a task that another worker had, through its session."""
        if record.session_id is not None and record.revision in REVISIONS:
            task = asyncio.get_running_loop().create_task(self._announce(record))
            self._announcing.add(task)
            task.add_done_callback(self._announcing.discard)

    async def _announce(self, record: TaskRecord) -> None:
        worker = self._runner.worker
        assert record.session_id is not None
        if worker is not None:
            params = TaskStatusParams(**core_fields(record))
            row = REVISIONS[cast("RevisionId", record.revision)].id
            try:
                await notify_session(worker, record.session_id, STATUS, shape.narrow(params, row))
            except StoreError as error:
                log.debug("a change of task %s is not announced: %s", record.id[:8], error)

    def _fail(self, record: TaskRecord) -> TaskRecord:
        return fail_lost(record, self._runner.store.now())

    async def _run_again(self, record: TaskRecord) -> None:
        from accord.server.tasks.calls import find_tool, run_again

        runner, found = self._runner, find_tool(self._runner, record.call or b"")
        assert found is not None  # it was there a moment ago
        task = run_again(runner, record, *found)
        log.warning("task %s of %s runs again", record.id[:8], task.label)
        await runner.follow(task)
        runner.start(task, record)
        if task.changes is not None:  # what came before it was followed
            task.changes.notify()
