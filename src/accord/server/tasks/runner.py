"""Finds tasks for those that may see them, runs them, and alone changes their records.

A task belongs to the server, not to the connection that asked for it: it goes on when that is gone.
Where workers share the store, any of them may cancel a task of this one, or bring answers to its
questions; what this one changes is refused once another has taken the task over.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InternalError, InvalidParams, StoreError, StoreUnavailable
from accord.principal import identity_text
from accord.protocol.exchange import Exchange
from accord.protocol.party import Bounded
from accord.server.tasks.channel import RunningTask, change_of
from accord.server.tasks.fields import failure_fields, success_fields
from accord.server.tasks.task_store import (
    Change,
    MemoryTaskStore,
    TaskRecord,
    TaskSettings,
    TaskStore,
)
from accord.server.tasks.watching import RungWork, TaskWatches
from accord.types import CallToolResult

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.session import Session
    from accord.server.tasks.backend_task_store import BackendTaskStore
    from accord.sharing.serving.tasks import Takeover
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.server")

# 192 bits: no caller can guess the id of another one's task (tasks.security.unguessable-ids).
_ID_BYTES: Final = 24
# How long work may take to notice that it is stopped.
_GRACE: Final = 5.0
# How long a change waits for a store that does not answer, at first and at most.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
# Recovery records are kept for a day; those of tasks that run for longer are renewed.
_RENEWED_EVERY: Final = 6 * 3600.0
_REPORTED_MOST: Final = 1_000
_STOPPED: Final = "the server stopped before the task was finished"
_replace: Final = msgspec.structs.replace


class TaskRunner:
    """The tasks of one server.

    Attributes:
        running: those whose work goes on in this process.
        reported: finished ones whose clients were notified here; what was read of them before that
            is out of date.
    """

    def __init__(self, server: "ServerCore", settings: TaskSettings | None = None) -> None:
        self.server = server
        self.settings = settings = settings or TaskSettings()
        self.running: dict[str, RunningTask] = {}
        self.reported: Bounded[str, None] = Bounded(_REPORTED_MOST)
        self._own_store: TaskStore = settings.store or MemoryTaskStore()
        self._shared_store: BackendTaskStore | None = None
        self.watches = TaskWatches(self)
        self._own_name = os.urandom(8).hex()
        self._keeper: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._forgotten: asyncio.Future[Any] | None = None

    # -- finding tasks for those that may see them, wherever they are kept

    @cached_property
    def takeover(self) -> "Takeover":
        """Takes over the tasks of lost workers; for servers with a store."""
        takeover: Takeover = import_module("accord.sharing.serving.tasks").Takeover(self)
        return takeover

    @property
    def worker(self) -> "Worker | None":
        """The worker in whose store the tasks are; None where they are in a store of their own."""
        return self.server.worker if self.settings.store is None else None

    @property
    def store(self) -> TaskStore:
        """Where the tasks are kept."""
        worker = self.worker
        if worker is None:
            return self._own_store
        if self._shared_store is None or self._shared_store.backend is not worker.backend:
            # Few servers have tasks in a backend.
            from accord.server.tasks.backend_task_store import BackendTaskStore

            self._shared_store = BackendTaskStore(worker.backend, clock=worker.now)
        return self._shared_store

    async def find(self, session: "Session", exchange: Exchange, id: str) -> TaskRecord:
        """Return a task of the sender of a request.

        Raises:
            InvalidParams: it is unknown, has expired, or belongs to another principal.
            InternalError: the store does not answer.
        """
        try:
            record = await self.store.get(id)
            if (
                self.worker is not None
                and record is not None
                and not record.is_finished
                and record.id not in self.running
            ):
                record = await self.takeover.check(record)
            if record is not None and not record.is_finished and id in self.reported:
                record = await self.store.get(id)
        except StoreUnavailable as error:
            raise store_is_away(error) from error
        if (
            record is None
            or record.owner != identity_text(session.principal_of(exchange))
            or record.revision != exchange.revision.id
        ):
            raise InvalidParams(f"there is no task {id[:100]!r}, or it has expired")
        return record

    async def wait(
        self,
        session: "Session",
        exchange: Exchange,
        id: str,
        look: Callable[[TaskRecord], None] | None = None,
    ) -> TaskRecord:
        """Return a task of the sender of a request once it is finished.

        Args:
            session: the session of the request.
            exchange: the request.
            id: that of the task.
            look: called with the task at first, and when it has changed before it is finished.
        """
        async with self.watches.changes(id) as changed:
            while True:
                changed.clear()
                record = await self.find(session, exchange, id)
                if record.is_finished:
                    return record
                if look is not None:
                    look(record)
                await changed.wait()

    async def page(
        self, session: "Session", exchange: Exchange, *, after: int, count: int
    ) -> list[tuple[int, TaskRecord]]:
        """Return tasks of the sender of a request, oldest first, each with its number.

        Raises:
            InternalError: the store does not answer.
        """
        owner, row = identity_text(session.principal_of(exchange)), exchange.revision.id
        while True:
            try:
                page = await self.store.page(owner, row, after=after, count=count)
            except StoreUnavailable as error:
                raise store_is_away(error) from error
            if all(each.is_finished or each.id not in self.reported for _, each in page):
                return page

    async def visible(
        self, session: "Session", exchange: Exchange, ids: list[str]
    ) -> list[TaskRecord]:
        """Return the tasks of the sender of a request among those with some ids."""
        visible = []
        for id in ids:
            with suppress(InvalidParams):
                visible.append(await self.find(session, exchange, id))
        return visible

    # -- beginning

    async def begin(self, task: RunningTask, ttl: int | None, **more: Any) -> TaskRecord:
        """Keep a task, then start its work in the next turn of the loop.

        Args:
            task: the task.
            ttl: milliseconds for which the client wants it to be kept.
            more: further members of the record.

        Raises:
            InternalError: its principal has as many unfinished tasks as it may have, or the store
                does not answer.
        """
        now, worker, origin = self.store.now(), self.worker, task.exchange.origin
        task.worker = self._own_name if worker is None else worker.id
        if worker is not None and origin is not None and task.exchange.revision.tasks:
            more["session_id"] = origin.facts.session_id
        record = TaskRecord(
            id=task.id,
            owner=task.owner,
            revision=task.exchange.revision.id,
            worker=task.worker,
            created_at=now,
            updated_at=now,
            ttl=self.settings.clamp(ttl),
            poll_interval=round(self.settings.poll_interval * 1000),
            call=task.call,
            **more,
        )
        kept = {**task.kept}
        await self._keep_new(task, record)
        log.info("task %s of %s began", task.id[:8], task.label)  # tasks.security.audit
        self.start(task, record)
        # What its handler has said and kept in the meantime, if it runs already.
        for key in task.kept.keys() - kept.keys():
            await self.keep(task, key, task.kept[key])
        if task.message != record.message:
            await self.report(task, change_of(message=task.message))
        return record

    async def _keep_new(self, task: RunningTask, record: TaskRecord) -> None:
        most, is_kept = self.settings.unfinished, False
        # Before it is kept: from then on other workers may change it.
        await self.follow(task)
        try:
            if self.worker is not None:
                await self.worker.keep_recovery_record(self.takeover.recovery_record_of(task.id))
            await self.store.beat(self._own_name)
            is_kept = await self.store.add(record, unfinished=most, kept=self.settings.kept)
        except StoreUnavailable as error:
            raise store_is_away(error) from error
        except asyncio.CancelledError:
            # No client learns of the task, so it must not look as if it went on.
            self._forgotten = asyncio.ensure_future(self.cancel(task.id))
            raise
        finally:
            if not is_kept:
                self._unfollow(task)
        if not is_kept:
            await self._drop_recovery_record(task, self.worker)
            raise InternalError(f"busy: {most} tasks of this caller are unfinished (unfinished)")

    async def follow(self, task: RunningTask) -> None:
        """Take what other processes change in a task, from now on until its work is over."""
        if self.store.is_shared:
            task.changes = RungWork(partial(self._look_at, task))
            await self.watches.follow(task.id, task.changes.notify)

    def _unfollow(self, task: RunningTask) -> None:
        changes, task.changes = task.changes, None
        if changes is not None:
            self.watches.unfollow(task.id, changes.notify)
            changes.stop()

    def start(self, task: RunningTask, record: TaskRecord) -> None:
        """Start the work of a task that is kept and followed, in the next turn of the loop."""
        task.worker, task.fence = record.worker, record.fence
        expires_at = record.expires_at
        task.ttl = None if record.ttl is None else record.ttl / 1000
        task.time_left = None if expires_at is None else expires_at - self.store.now()
        self.running[task.id] = task
        task.is_kept = True
        task.begun.set_result(None)
        loop = asyncio.get_running_loop()
        task.supervisor = loop.create_task(self._run(task, self.worker), name=task.label)
        if self._keeper is None or self._keeper.done():
            self._keeper = loop.create_task(self._keep(), name="accord-tasks")

    # -- running

    async def _run(self, task: RunningTask, worker: "Worker | None") -> None:
        watchdog = self.server.watchdog()
        watchdog.enter()
        outcome: Change | None = None
        is_handed_over = False
        try:
            async with asyncio.timeout(task.time_left):
                result = await task.work()
            revision, limits = task.exchange.revision, self.server.limits
            ended = success_fields(result, task.label, revision, limits)
            outcome = self._end_with(**ended, notices=task.notices)
        except asyncio.CancelledError:
            if not task.is_stopped:
                is_own = _is_raised_by_handler()
                # What may run twice is left to another worker.
                is_handed_over = not is_own and worker is not None and task.call is not None
                error = InternalError("the work was cancelled" if is_own else _STOPPED)
                if not is_handed_over:
                    outcome = self._end_with(**failure_fields(error), notices=task.notices)
                if not is_own:
                    raise
        except TimeoutError:
            log.info("task %s of %s expired before it was finished", task.id[:8], task.label)
        except BaseException as raised:
            outcome = self._end_with(**failure_fields(raised), notices=task.notices)
            if not isinstance(raised, Exception):
                raise
        finally:
            watchdog.leave()
            self.running.pop(task.id, None)
            task.release()
            self._unfollow(task)
            await self._end(task, outcome, None if is_handed_over else worker)

    async def _end(
        self, task: RunningTask, outcome: Change | None, worker: "Worker | None"
    ) -> None:
        """Note the outcome of a task whose work is over, and that nothing is left to do for it."""
        supervisor = task.supervisor
        assert supervisor is not None
        self._ending.add(supervisor)
        try:
            if outcome is not None:
                await self._finish(task, outcome)
            self.watches.notify(task.id)
            await self._drop_recovery_record(task, worker)
        finally:
            self._ending.discard(supervisor)

    async def _drop_recovery_record(self, task: RunningTask, worker: "Worker | None") -> None:
        if worker is not None:
            try:
                await worker.drop_recovery_record(
                    self.takeover.recovery_record_of(task.id), worker=task.worker
                )
            except StoreError as error:  # another worker finds that there is nothing to do
                log.debug("task %s stays among the recovery records: %s", task.id[:8], error)

    async def _finish(self, task: RunningTask, outcome: Change) -> None:
        try:
            record = await self._change_patiently(task, outcome)
        except Exception:
            log.exception("the result of task %s of %s was lost", task.id[:8], task.label)
            return
        if record is not None:
            log.info("task %s of %s: %s", task.id[:8], task.label, record.status)
            self._announce(task, record)

    def _end_with(self, **fields: Any) -> Change:
        """Return the change after which nothing is left that only the handler needed."""
        nothing: dict[str, Any] = {"questions": {}, "answers": {}, "asked": {}, "kept": {}}
        return self._with_date(change_of(**nothing, call=None, **fields))

    def _with_date(self, change: Change) -> Change:
        now = self.store.now()

        def apply(record: TaskRecord) -> TaskRecord | None:
            changed = change(record)
            if changed is None:
                return None
            return _replace(changed, updated_at=record.time_of_change(now))

        return apply

    # -- changing

    async def _change_own(self, task: RunningTask, change: Change) -> TaskRecord | None:
        """Change a task that runs here; a task that another worker has taken over is stopped."""

        def apply(record: TaskRecord) -> TaskRecord | None:
            if not task.owns(record):
                task.is_lost = True
                return None
            return change(record)

        record = await self.store.change(task.id, apply)
        if task.is_lost and not task.is_stopped:
            log.warning("task %s of %s was taken over", task.id[:8], task.label)
            task.stop()
        return record

    async def _change_patiently(self, task: RunningTask, change: Change) -> TaskRecord | None:
        """Change a task that runs here, once the store answers."""
        pause, loop = _FIRST_PAUSE, asyncio.get_running_loop()
        ends_at = None if task.time_left is None else loop.time() + task.time_left
        while True:
            try:
                return await self._change_own(task, change)
            except StoreUnavailable as error:
                if ends_at is not None and loop.time() >= ends_at:
                    raise
                log.debug("the store of tasks does not answer: %s", error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def report(self, task: RunningTask, change: Change) -> None:
        """Change what is known of a running task; left out if the store does not answer."""
        try:
            record = await self._change_own(task, self._with_date(change))
        except StoreUnavailable as error:
            log.debug("task %s reports nothing: %s", task.id[:8], error)
            return
        if record is not None:
            self._announce(task, record)

    async def ask(self, task: RunningTask, change: Change) -> None:
        """Put a question into a running task; one that is answered already leaves it as it is."""
        record = await self._change_patiently(task, self._with_date(change))
        if record is not None:
            self._announce(task, record)
        else:
            await self._look_at(task)

    async def keep(self, task: RunningTask, key: str, result: bytes) -> None:
        """Keep a result of `ctx.once` for a task that may run again."""

        def keep(record: TaskRecord) -> TaskRecord:
            return _replace(record, kept=record.kept | {key: result})

        await self._change_patiently(task, keep)

    async def answer(self, id: str, answers: dict[str, bytes]) -> None:
        """Take the answers to questions of a task; those to other questions are left out."""

        def take(record: TaskRecord) -> TaskRecord | None:
            taken = {key: answers[key] for key in record.questions if key in answers}
            left = {key: value for key, value in record.questions.items() if key not in taken}
            if not taken:
                return None
            return _replace(
                record,
                questions=left,
                answers=record.answers | taken,
                asked={key: value for key, value in record.asked.items() if key in left},
                status="input_required" if left else "working",
                updated_at=record.time_of_change(self.store.now()),
            )

        try:
            record = await self.store.change(id, take)
        except StoreUnavailable as error:
            raise store_is_away(error) from error
        task = self.running.get(id)
        if record is not None and task is not None:
            task.deliver(record.answers)
            self._announce(task, record)

    async def cancel(self, id: str) -> TaskRecord | None:
        """Cancel a task; None if it is finished."""
        change = self._end_with(status="cancelled", message="cancelled by the client")
        try:
            record = await self.store.change(id, change)
        except StoreUnavailable as error:
            raise store_is_away(error) from error
        if record is not None:
            log.info("task %s was cancelled", id[:8])
            task = self.running.get(id)
            if task is not None:
                task.stop()
                self._announce(task, record)
            self.watches.notify(id)
        return record

    def _announce(self, task: RunningTask, record: TaskRecord) -> None:
        if record.is_finished and self.store.is_shared:
            self.reported[record.id] = None
        if record.is_finished or self.store.is_shared:
            self.watches.notify(record.id)
        task.announce(record)

    # -- living with other processes

    async def _keep(self) -> None:
        """Say that we are alive, while tasks run."""
        loop = asyncio.get_running_loop()
        renew_at = loop.time() + _RENEWED_EVERY
        while self.running:
            await asyncio.sleep(min(self.store.lease / 3, _RENEWED_EVERY))
            try:
                await self.store.beat(self._own_name)
                if self.worker is not None and loop.time() >= renew_at:
                    renew_at = loop.time() + _RENEWED_EVERY
                    for id in [*self.running]:
                        await self.worker.keep_recovery_record(self.takeover.recovery_record_of(id))
            except Exception:
                log.exception("the store of tasks failed")

    async def _look_at(self, task: RunningTask) -> None:
        """Take what other processes have changed in a task that runs here."""
        record = await self.store.get(task.id)
        if task.id not in self.running:
            return
        if record is None or not task.owns(record):
            task.stop()
        elif record.is_finished:
            task.stop()
            self._announce(task, record)
        else:
            task.deliver(record.answers)

    async def release(self, *states: object) -> None:
        """Stop the tasks that use the state of a lifespan, and close the store if it is idle.

        Where workers share the store, all tasks are stopped with the last lifespan: the worker is
        about to leave.
        """
        ending = {*self._ending}
        is_leaving = self.worker is not None and not self.server.scopes.running_states()
        for task in self.running.values():
            is_used = any(task.session.lifespan_state is each for each in states)
            if task.supervisor is not None and (is_used or is_leaving):
                # Not before its first step.
                asyncio.get_running_loop().call_soon(task.supervisor.cancel)
                ending.add(task.supervisor)
        if ending:
            await asyncio.wait(ending, timeout=_GRACE)
        if not self.running:
            self.watches.stop()
            keeper, self._keeper = self._keeper, None
            # It sleeps, and its loop may end sooner than it wakes.
            if keeper is not None and keeper.get_loop() is asyncio.get_running_loop():
                keeper.cancel()
            await self.store.close()


def _is_raised_by_handler() -> bool:
    """Whether something that the handler awaited was cancelled, rather than its task."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() == 0


def new_task(
    runner: TaskRunner,
    session: "Session",
    exchange: Exchange,
    label: str,
    work: Callable[[RunningTask], Awaitable[CallToolResult]],
) -> RunningTask:
    """Describe a task that a request is about to become."""
    id = os.urandom(_ID_BYTES).hex()
    return RunningTask(runner, session, exchange, id=id, label=label, work=work)


def store_is_away(error: StoreUnavailable) -> InternalError:
    """Return the error of a request for a task that cannot be reached now."""
    log.warning("the store of tasks does not answer: %s", error)
    data = {"reason": "store-unavailable"}
    return InternalError("the store of tasks does not answer; try again", data=data)
