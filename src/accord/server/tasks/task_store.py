"""Tasks: what is kept of them, where it is kept, the store in memory, and what a server allows."""

import time
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

import msgspec

from accord.errors import RegistrationError

__all__ = ["Change", "MemoryTaskStore", "TaskRecord", "TaskStore", "fail_lost", "is_expired"]

_BYTES: Final = 64 * 1024 * 1024
# What a task costs beside its bytes.
_OVERHEAD: Final = 64
_FINISHED: Final = frozenset({"completed", "failed", "cancelled"})
_LOST: Final = "the process that ran this task ended before the task did"


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it is kept. Times are seconds since 1970.

    Attributes:
        id: names the task; unguessable.
        owner: the principal that it belongs to; empty without authorization.
        revision: the protocol revision of the request that became the task.
        worker: the process that runs it.
        ttl: milliseconds after its creation in which it is kept; None for ever.
        poll_interval: milliseconds that clients should wait between two questions about it.
        result: the result as JSON, once there is one.
        error: the error as JSON, once there is one.
        questions: the questions that wait for an answer, by key, as JSON.
        answers: the answers that arrived while it runs, by key, as JSON.
        fence: grows whenever another worker takes the task over; what was begun under a lower one
            changes nothing any more.
        runs: how often its handler was begun.
        call: what is needed to run it again, encoded; None where it runs once.
        kept: the results of `ctx.once`, by key, as JSON; of tasks that may run again.
        asked: by the key of a question, the request on whose stream the client is being asked.
        changes: how often it was changed in a store that counts it.
        session_id: that of the client, where it has a session whose clients any worker reaches.
        notices: its latest progress and log messages, as JSON.
    """

    id: str
    owner: str
    revision: str
    worker: str
    created_at: float
    updated_at: float
    ttl: int | None
    poll_interval: int
    status: str = "working"
    message: str | None = None
    result: bytes | None = None
    error: bytes | None = None
    questions: dict[str, bytes] = {}
    answers: dict[str, bytes] = {}
    fence: int = 0
    runs: int = 1
    call: bytes | None = None
    kept: dict[str, bytes] = {}
    asked: dict[str, str] = {}
    changes: int = 0
    session_id: str | None = None
    notices: bytes | None = None

    def time_of_change(self, now: float) -> float:
        """Return the time of a change that happens now.

        It is later than that of the change before, also in milliseconds, as it is sent: reports of
        a task that arrive on several streams have an order by it.
        """
        return max(now, self.updated_at + 0.001)

    @property
    def is_finished(self) -> bool:
        """Whether it is over, and never changes again."""
        return self.status in _FINISHED

    @property
    def expires_at(self) -> float | None:
        """When it is forgotten."""
        return None if self.ttl is None else self.created_at + self.ttl / 1000

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        several = (self.questions, self.answers, self.kept)
        single = (self.result, self.error, self.call, self.notices)
        return (
            _OVERHEAD
            + sum(len(each) for values in several for each in values.values())
            + sum(len(each) for each in single if each is not None)
        )


Change = Callable[[TaskRecord], TaskRecord | None]
"""Returns a record as it shall be; None leaves it as it is."""


class TaskStore(Protocol):
    """Keeps tasks. A task that is finished never changes; one that has expired is not found.

    Attributes:
        is_shared: whether other processes may change the records.
        lease: seconds after its last `beat` from which a worker counts as dead. Its unfinished
            tasks are failed then.
    """

    is_shared: bool
    lease: float

    def now(self) -> float:
        """Return the time, in seconds since 1970."""

    async def add(self, record: TaskRecord, *, unfinished: int, kept: int) -> bool:
        """Keep a new task.

        Args:
            record: the task.
            unfinished: how many tasks of one owner may be unfinished.
            kept: how many tasks of one owner are kept; beyond it, the oldest finished are dropped.

        Returns:
            False if the owner has as many unfinished tasks as it may have.
        """

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""

    async def change(self, id: str, change: Change) -> TaskRecord | None:
        """Change a task that is not finished, as one step that nothing comes between.

        Returns:
            The task after the change; None if it is unknown or finished, or stays as it is.
        """

    async def page(
        self, owner: str, revision: str, *, after: int, count: int
    ) -> list[tuple[int, TaskRecord]]:
        """Return the tasks of an owner, oldest first, each with a number that only rises.

        Args:
            owner: whose tasks.
            revision: those of this protocol revision.
            after: only those with a higher number.
            count: how many at most.
        """

    async def beat(self, worker: str) -> None:
        """Note that a worker is alive."""

    async def close(self) -> None:
        """Let go of files and threads."""


class MemoryTaskStore:
    """Keeps tasks in this process.

    Args:
        bytes: how much results may take together; beyond it, the oldest finished tasks are dropped.
        clock: returns the seconds since 1970.
    """

    is_shared = False
    lease = 60.0

    def __init__(self, *, bytes: int = _BYTES, clock: Callable[[], float] = time.time) -> None:
        self._limit = bytes
        self.now = clock
        self._records: dict[str, tuple[int, TaskRecord]] = {}
        self._last = 0
        self.size = 0

    async def add(self, record: TaskRecord, *, unfinished: int, kept: int) -> bool:
        """Keep a new task; False if the owner has as many unfinished ones as it may have."""
        self._sweep()
        own = [each for _, each in self._records.values() if each.owner == record.owner]
        finished = [each.id for each in own if each.is_finished]
        if len(own) - len(finished) >= unfinished:
            return False
        for id in finished[: max(0, len(own) + 1 - kept)]:
            self._drop(id)
        self._last += 1
        self._records[record.id] = (self._last, record)
        self.size += record.size
        return True

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""
        found = self._records.get(id)
        if found is None or is_expired(found[1], self.now()):
            return None
        return found[1]

    async def change(self, id: str, change: Change) -> TaskRecord | None:
        """Change a task that is not finished."""
        record = await self.get(id)
        changed = None if record is None or record.is_finished else change(record)
        if record is None or changed is None:
            return None
        self._records[id] = (self._records[id][0], changed)
        self.size += changed.size - record.size
        if self.size > self._limit:
            self._shrink(changed)
        return changed

    async def page(
        self, owner: str, revision: str, *, after: int, count: int
    ) -> list[tuple[int, TaskRecord]]:
        """Return the tasks of an owner, oldest first."""
        now = self.now()
        found = (
            (number, record)
            for number, record in self._records.values()
            if number > after and record.owner == owner and record.revision == revision
        )
        return list(islice((each for each in found if not is_expired(each[1], now)), count))

    async def beat(self, worker: str) -> None:
        """Forget what has expired."""
        self._sweep()

    async def close(self) -> None:
        """Keep everything: there is nothing to let go of."""

    def _drop(self, id: str) -> None:
        self.size -= self._records.pop(id)[1].size

    def _sweep(self) -> None:
        now = self.now()
        for _, record in list(self._records.values()):
            if is_expired(record, now):
                self._drop(record.id)

    def _shrink(self, newest: TaskRecord) -> None:
        for _, record in list(self._records.values()):
            if self.size <= self._limit:
                return
            if record.is_finished and record is not newest:
                self._drop(record.id)


def fail_lost(record: TaskRecord, now: float) -> TaskRecord:
    """Return a task that has failed because the process that ran it is gone."""
    data = {"reason": "worker-lost"}
    return msgspec.structs.replace(
        record,
        status="failed",
        message=_LOST,
        error=msgspec.json.encode({"code": -32603, "message": _LOST, "data": data}),
        updated_at=record.time_of_change(now),
        questions={},
        answers={},
        asked={},
        kept={},
        call=None,
    )


def is_expired(record: TaskRecord, now: float) -> bool:
    """Whether the time is over for which a task is kept."""
    expires_at = record.expires_at
    return expires_at is not None and expires_at <= now


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the tasks of a server. Times are seconds.

    Attributes:
        store: keeps them; by default memory, or the store of the workers that serve together.
            `SqliteTaskStore` keeps them in a file.
        ttl: for how long after its creation a task is kept, where the client does not say. A task
            that still runs then is stopped.
        longest_ttl: the most that a client may ask for; None for no limit.
        poll_interval: how long clients should wait between two questions about a task, at most;
            about a young task of the extension they may ask sooner.
        grace: how long a call that may become a task (`task="optional"`) is waited for where the
            server decides: a result within that time is the answer, later it is a task.
        unfinished: how many unfinished tasks a principal may have. Callers without authorization
            share one number.
        kept: how many tasks of a principal are kept; beyond it, the oldest finished are dropped.
    """

    store: TaskStore | None = None
    ttl: float = 3600.0
    longest_ttl: float | None = 86_400.0
    poll_interval: float = 1.0
    grace: float = 1.0
    unfinished: int = 100
    kept: int = 1_000

    def __post_init__(self) -> None:
        for name in ("ttl", "poll_interval", "unfinished", "kept"):
            if not getattr(self, name) > 0:
                raise RegistrationError(f"tasks: {name} is {getattr(self, name)!r}, expected > 0")
        if not self.grace >= 0:
            raise RegistrationError(f"tasks: grace is {self.grace!r}, expected 0 or more")
        if self.longest_ttl is not None and self.longest_ttl < self.ttl:
            raise RegistrationError(
                f"tasks: longest_ttl is {self.longest_ttl:g}, less than ttl ({self.ttl:g})"
            )

    def clamp(self, asked: int | None) -> int:
        """Return the milliseconds for which a task is kept, by those that a client asked for."""
        wanted = round(self.ttl * 1000) if asked is None else max(1, asked)
        return wanted if self.longest_ttl is None else min(wanted, round(self.longest_ttl * 1000))
