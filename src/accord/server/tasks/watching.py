"""Which tasks are waited for in this process, and how their changes are noticed.

A store that notifies says at once that a task was changed, by any worker; another one that
processes share is looked at now and then. Notifications may get lost, so the first kind is looked
at as well, less often. A store of this process alone needs neither: the runner notifies by itself.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.errors import StoreError, StoreUnavailable
from accord.server.hub import ServerChange
from accord.server.tasks.fields import outcome_fields
from accord.server.tasks.task_store import TaskRecord
from accord.types import TaskParams

if TYPE_CHECKING:
    from accord.server.tasks.runner import TaskRunner

log = logging.getLogger("accord.server")

OnChange: TypeAlias = Callable[[], None]
CHANGED: Final = "notifications/tasks"

# How soon a change is noticed where the store does not notify, and where a
# notification was lost.
_LOOK: Final = 0.5
_SAFETY_LOOK: Final = 1.0
# So many tasks are looked at in one turn where the store notifies: each look is one
# operation of it.
_LOOKS_MOST: Final = 50


class TaskWatches:
    """The callbacks that wait for changes of tasks, by the ids of those."""

    def __init__(self, runner: "TaskRunner") -> None:
        self._runner = runner
        # The task that was looked at longest ago comes first.
        self._callbacks: dict[str, list[OnChange]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._unfollowing: set[asyncio.Task[None]] = set()

    async def follow(self, id: str, on_change: OnChange) -> None:
        """Call something whenever a task may have changed, until `unfollow`."""
        self._callbacks.setdefault(id, []).append(on_change)
        store = self._runner.store
        if store.is_shared and (self._looking is None or self._looking.done()):
            loop = asyncio.get_running_loop()
            self._looking = loop.create_task(self._look_forever(), name="accord-task-looks")
        follow = getattr(store, "follow", None)
        if follow is not None:
            try:
                await follow(id, on_change)
            except StoreError as error:  # it is looked at all the same
                log.debug("task %s cannot be followed: %s", id[:8], error)

    def unfollow(self, id: str, on_change: OnChange) -> None:
        """Call it no more."""
        callbacks = self._callbacks.get(id, [])
        if on_change in callbacks:
            callbacks.remove(on_change)
        if not callbacks:
            self._callbacks.pop(id, None)
        unfollow = getattr(self._runner.store, "unfollow", None)
        if unfollow is not None:
            # By itself: what waited may be cancelled, and must not wait once more.
            task = asyncio.get_running_loop().create_task(_suppress_store(unfollow(id, on_change)))
            self._unfollowing.add(task)
            task.add_done_callback(self._unfollowing.discard)

    @asynccontextmanager
    async def changes(self, id: str) -> AsyncIterator[asyncio.Event]:
        """Provide an event that is set whenever a task may have changed."""
        changed = asyncio.Event()
        await self.follow(id, changed.set)
        try:
            yield changed
        finally:
            self.unfollow(id, changed.set)

    def notify(self, id: str) -> None:
        """Say that a task has changed; a store that notifies has said so by itself."""
        if not hasattr(self._runner.store, "follow"):
            self._call(id)

    def _call(self, id: str) -> None:
        for callback in [*self._callbacks.get(id, ())]:
            callback()

    async def _look_forever(self) -> None:
        """Let everything look again, in case a change was not noticed."""
        store = self._runner.store
        is_notifying = hasattr(store, "follow")
        pause = _SAFETY_LOOK if is_notifying else min(_LOOK, store.lease / 3)
        while self._callbacks:
            await asyncio.sleep(pause)
            ids = [*self._callbacks][: _LOOKS_MOST if is_notifying else None]
            for id in ids:
                if id in self._callbacks:
                    self._callbacks[id] = self._callbacks.pop(id)
                    self._call(id)

    def stop(self) -> None:
        """Look no more; what still waits begins it again."""
        looking, self._looking = self._looking, None
        if looking is not None and looking.get_loop() is asyncio.get_running_loop():
            looking.cancel()


async def _suppress_store(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except StoreError as error:
        log.debug("a task cannot be unfollowed: %s", error)


class RungWork:
    """Does something after each notification; those that come while it is done are one.

    Args:
        work: what to do. A failure of the store is logged, and the next one tries again.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._is_rung = False

    def notify(self) -> None:
        """Do it, now or once more."""
        self._is_rung = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._is_rung:
                self._is_rung = False
                await self._work()
        except StoreUnavailable as error:
            log.debug("the store of tasks does not answer: %s", error)
        except Exception:
            log.exception("the store of tasks failed")
        finally:
            self._task = None

    def stop(self) -> None:
        """Do it no more."""
        if self._task is not None:
            self._task.cancel()


class TaskListener:
    """Informs a subscription of changes of one task, whichever worker makes them.

    Args:
        runner: that of the server.
        record: the task as it was found.
        hear: called with each change.
    """

    def __init__(
        self, runner: "TaskRunner", record: TaskRecord, hear: Callable[[ServerChange], None]
    ) -> None:
        self._runner = runner
        self._id = record.id
        self._seen = record.changes
        self._hear = hear
        self._notified = RungWork(self._look)

    async def begin(self) -> None:
        """Follow the task; what has changed since it was found is heard at once."""
        await self._runner.watches.follow(self._id, self._notified.notify)
        self._notified.notify()

    async def _look(self) -> None:
        record = await self._runner.store.get(self._id)
        if record is not None and record.changes > self._seen:
            self._seen = record.changes
            self._hear(task_change(record, self._runner.store.now()))

    def end(self) -> None:
        """Follow it no more."""
        self._runner.watches.unfollow(self._id, self._notified.notify)
        self._notified.stop()


def task_change(record: TaskRecord, now: float) -> ServerChange:
    """Return the change of a task, for those that listen to it."""
    # tasks-ext.notify.full-state
    return ServerChange(CHANGED, record.id, TaskParams(**outcome_fields(record, now)))
