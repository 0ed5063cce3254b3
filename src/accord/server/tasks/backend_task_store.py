"""Tasks in a backend: any process that shares it reads and changes the tasks of all others.

A task is one record, which expires with the task. Two indexes of its owner hold its name: that of
all tasks, with a number by which they are listed, and that of the unfinished ones. The record is
written first and changed alone, so an index can only be behind: names without a record, or of a
finished one, are removed where they are found.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial, wraps
from hashlib import sha256
from importlib import import_module
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from accord.errors import Conflict, StoreError, StoreUnavailable
from accord.runtime.tasks import run_without_loop
from accord.server.tasks.task_store import Change, TaskRecord, fail_lost, is_expired

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend, OnNotify

__all__ = ["BackendTaskStore", "SqliteTaskStore"]

Item = TypeVar("Item")
P = ParamSpec("P")
Value = TypeVar("Value")
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
_SIZES: Final = "{sizes}s"
"""The index of finished tasks, oldest first, with their sizes; kept where those are limited."""

_BYTES: Final = 1024 * 1024 * 1024
# A worker is remembered for so long after its lease: its tasks are unfinished at most as long.
_REMEMBERED: Final = 30 * 86_400.0
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(TaskRecord).decode
_decode_members: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_KNOWN: Final = frozenset(TaskRecord.__struct_fields__)
_NOTHING: Final[Mapping[str, msgspec.Raw]] = MappingProxyType({})


class BackendTaskStore:
    """Keeps tasks in a backend.

    Args:
        backend: the backend, which its owner opens and closes.
        clock: returns the seconds since 1970, by the clock of the backend.
        lease: seconds of silence after which a process counts as dead, and its tasks as failed. By
            default there are no leases here: the worker says which others are lost.
        bytes: how much results may take together; beyond it, the oldest finished tasks are dropped.
        is_exclusive: whether an operation is a transaction, which nothing comes between.
    """

    is_shared = True

    def __init__(
        self,
        backend: "Backend",
        *,
        clock: Callable[[], float] = time.time,
        lease: float = inf,
        bytes: int | None = None,
        is_exclusive: bool = False,
    ) -> None:
        self.backend = backend
        self.now = clock
        self.lease = lease
        self._limit = bytes
        # How much may be added before the sizes are added up again.
        self._room = 0
        self._is_exclusive = is_exclusive

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
        for longest in (0.0,) if self._is_exclusive else _ADMISSION_PAUSES:
            await self.backend.add(f"{owner}u", [id], ttl=ttl)
            if await self._count_unfinished(owner, most=most) <= most:
                return True
            await self.backend.remove(f"{owner}u", [id])
            if longest:
                pause = random.uniform(0.2, 1.0) * longest  # noqa: S311  # only spreads
                await asyncio.sleep(pause)
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
            record = None if self._limit is None else await self.get(_id_of(name))
            if record is not None:
                await self.backend.remove(_SIZES, [_size_name(record)])
            await self.backend.delete(_key(_id_of(name)))
        await self._forget(owner, dropped)

    async def _forget(self, owner: str, names: list[str]) -> None:
        if names:
            await self.backend.remove(f"{owner}a", names)
            await self.backend.remove(f"{owner}u", map(_id_of, names))

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; one whose process is dead is failed first."""
        if not _is_id(id):
            return None
        found = await self.backend.get(_key(id))
        if found is None:
            return None
        record, now = _unpack(found.value), self.now()
        if is_expired(record, now):
            return None
        if record.is_finished or self.lease == inf or await self._is_alive(record.worker):
            return record
        return await self._change(id, lambda found: fail_lost(found, now)) or record

    async def _is_alive(self, worker: str) -> bool:
        found = await self.backend.get(_worker_key(worker))
        return found is not None and float(found.value) >= self.now() - self.lease

    async def change(self, id: str, change: Change) -> TaskRecord | None:
        """Change a task that is not finished. The function is called again after a conflict."""
        if not _is_id(id) or (self.lease < inf and await self.get(id) is None):
            return None
        return await self._change(id, change)

    async def _change(self, id: str, change: Change) -> TaskRecord | None:
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
                await self._settle(record)
            if not self._is_exclusive:
                await self.backend.notify(_topic(record.id))

    async def _settle(self, record: TaskRecord) -> None:
        """Note that a task is finished."""
        await self.backend.remove(f"{_owner_part(record.owner)}u", [record.id])
        if self._limit is not None:
            await self.backend.add(_SIZES, [_size_name(record)], ttl=self._ttl(record))
            self._room -= record.size
            if self._room < 0:
                await self._shrink(self._limit)

    async def _shrink(self, limit: int) -> None:
        """Drop the oldest finished tasks, as long as all of them take too many bytes."""
        names = sorted(await self.backend.members(_SIZES, limit=_ALL))
        sizes = [int(name.split(":")[1]) for name in names]
        size, dropped = sum(sizes), 0
        while size > limit and dropped < len(names) - 1:
            # Its name in the index of its owner is found to be without a record.
            await self.backend.delete(_key(_id_of(names[dropped])))
            size -= sizes[dropped]
            dropped += 1
        await self.backend.remove(_SIZES, names[:dropped])
        # Other processes may add as much.
        self._room = (limit - size) // 2

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
            if self._is_exclusive:
                records = [await self.get(id) for id in part]
            else:
                records = await asyncio.gather(*map(self.get, part))
            found.update({record.id: record for record in records if record is not None})
        return found

    async def follow(self, id: str, on_notify: "OnNotify") -> None:
        """Call something whenever a task was changed by any worker; hints may get lost."""
        await self.backend.follow(_topic(id), on_notify)

    async def unfollow(self, id: str, on_notify: "OnNotify") -> None:
        """Call it no more."""
        await self.backend.unfollow(_topic(id), on_notify)

    async def beat(self, worker: str) -> None:
        """Note that a process is alive, if there are leases here; tasks expire by themselves."""
        if self.lease < inf:
            await self.keep_worker(worker, self.now())

    async def keep_worker(self, worker: str, seen: float) -> None:
        """Note when a process was seen."""
        ttl = self.lease + _REMEMBERED
        await self.backend.put(_worker_key(worker), str(seen).encode(), ttl=ttl)

    async def restore(self, record: TaskRecord) -> None:
        """Keep a task of an older form, whatever its owner has."""
        await self.add(record, unfinished=_ALL, kept=_ALL)
        if record.is_finished:
            await self._settle(record)

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


def _worker_key(id: str) -> str:
    return f"{{w{id}}}w"


def _topic(id: str) -> str:
    return f"{{t{id}}}b"


def _owner_part(owner: str) -> str:
    """Return the part in braces of what belongs to an owner, whose name may be long or private."""
    return f"{{o{sha256(owner.encode()).hexdigest()[:32]}}}"


def _size_name(record: TaskRecord) -> str:
    """Return the name of a finished task in the index of sizes, which orders them by age."""
    return f"{record.created_at:020.6f}:{record.size}:{record.id}"


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


# -- a file


def _in_thread(
    operation: Callable[Concatenate[BackendTaskStore, P], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate["SqliteTaskStore", P], Coroutine[Any, Any, Value]]:
    """Return an operation that is carried out in the thread of the file."""

    @wraps(operation)
    async def call(self: "SqliteTaskStore", /, *args: P.args, **keywords: P.kwargs) -> Value:
        # Made in the thread: what is cancelled while it waits for its turn is never begun.
        begin = partial(operation, self._tasks, *args, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, begin)

    return call


class SqliteTaskStore:
    """Keeps tasks in a file, which several processes may share and which outlives them.

    The file is used in a thread of its own. It is made readable for its user alone.

    Args:
        path: the file; it is made if it does not exist. A file of version 0.2 gets our form when it
            is used first, and a copy of it as it was is kept beside it.
        bytes: how much results may take together; beyond it, the oldest finished tasks are dropped.
        lease: seconds of silence after which a process counts as dead, and its tasks as failed.
        clock: returns the seconds since 1970.
    """

    is_shared = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        bytes: int = _BYTES,
        lease: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        backends = import_module("accord.sharing.backends.sqlite_backend")
        self._backend = backends.BlockingSqliteBackend(
            path, namespace="accord-tasks", older=("tasks", "workers")
        )
        self._tasks = BackendTaskStore(
            self._backend, clock=clock, lease=lease, bytes=bytes, is_exclusive=True
        )
        self.now = clock
        self.lease = lease
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accord-tasks")
        self._is_open = False

    add = _in_thread(BackendTaskStore.add)
    get = _in_thread(BackendTaskStore.get)
    change = _in_thread(BackendTaskStore.change)
    page = _in_thread(BackendTaskStore.page)
    beat = _in_thread(BackendTaskStore.beat)

    async def close(self) -> None:
        """Close the file; the next use opens it again."""

        def close() -> None:
            self._is_open = False
            run_without_loop(self._backend.close())

        await asyncio.get_running_loop().run_in_executor(self._thread, close)

    def _run(self, begin: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        if not self._is_open:
            run_without_loop(self._backend.open())
            self._backend.migrate(".before-0.3", self._take_over)
            self._is_open = True
        with self._backend.transaction():
            return run_without_loop(begin())

    def _take_over(self, read: Callable[..., list[Any]]) -> None:
        """Add the tasks of a file of version 0.2, in which each was a row."""
        for id, seen in read("workers", "id, seen"):
            run_without_loop(self._tasks.keep_worker(id, seen))
        for (packed,) in read("tasks", "record", "number"):
            record = _decode(packed)
            run_without_loop(self._tasks.restore(record))
