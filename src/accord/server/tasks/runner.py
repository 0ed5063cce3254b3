"""Runs tasks, and is the only place that changes their records.

A task belongs to the server, not to the connection that asked for it: it goes on when that is gone.
Where other processes share the store, their changes are looked for at intervals: they may cancel a
task of ours, or bring answers to its questions.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InternalError, InvalidParams, RequestError
from accord.protocol import shape
from accord.protocol.exchange import Exchange
from accord.protocol.jsonrpc import ErrorBody
from accord.runtime.tasks import is_writable
from accord.server.tasks.channel import RunningTask, owner_of
from accord.server.tasks.settings import TaskSettings
from accord.stores.tasks import Change, MemoryTaskStore, TaskRecord
from accord.types import CallToolResult

if TYPE_CHECKING:
    from accord.server.server import Server
    from accord.server.session import Session

log = logging.getLogger("accord.server")

# 192 bits: no caller can guess the id of another one's task (tasks.security.unguessable-ids).
_ID_BYTES: Final = 24
# How soon a change that another process made is noticed.
_LOOK: Final = 0.5
# What stands around a result in the largest message about it.
_ENVELOPE: Final = 4096
# How long work may take to notice that it is stopped.
_GRACE: Final = 5.0
_STOPPED: Final = "the server stopped before the task was finished"
_encode: Final = msgspec.json.Encoder().encode
_replace: Final = msgspec.structs.replace


class TaskRunner:
    """The tasks of one server."""

    def __init__(self, server: "Server[Any]", settings: TaskSettings | None = None) -> None:
        self.server = server
        self.settings = settings or TaskSettings()
        self.store = self.settings.store or MemoryTaskStore()
        self.running: dict[str, RunningTask] = {}
        self._worker = os.urandom(8).hex()
        self._watchers: dict[str, set[asyncio.Future[None]]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._forgotten: asyncio.Future[Any] | None = None
        is_shared, beats = self.store.is_shared, self.store.lease / 3
        self._look_interval = min(_LOOK, beats) if is_shared else None

    # -- finding

    async def find(self, session: "Session", exchange: Exchange, id: str) -> TaskRecord:
        """Return a task of the sender of a request.

        Raises:
            InvalidParams: it is unknown, has expired, or belongs to another principal.
        """
        record = await self.store.get(id)
        if (
            record is None
            or record.owner != owner_of(session.principal_of(exchange))
            or record.revision != exchange.revision.id
        ):
            raise InvalidParams(f"there is no task {id[:100]!r}, or it has expired")
        return record

    async def wait(self, session: "Session", exchange: Exchange, id: str) -> TaskRecord:
        """Return a task of the sender of a request once it is finished."""
        while True:
            changed = self._watch(id)
            try:
                record = await self.find(session, exchange, id)
                if record.is_finished:
                    return record
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed, self._look_interval)
            finally:
                self._unwatch(id, changed)

    def _watch(self, id: str) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.setdefault(id, set()).add(future)
        return future

    def _unwatch(self, id: str, future: asyncio.Future[None]) -> None:
        watchers = self._watchers.get(id)
        if watchers is not None:
            watchers.discard(future)
            if not watchers:
                self._watchers.pop(id)

    def _wake(self, id: str) -> None:
        for future in self._watchers.pop(id, ()):
            if not future.done():
                future.set_result(None)

    async def visible(self, session: "Session", exchange: Exchange, ids: list[str]) -> list[str]:
        """Return those of some ids that name a task of the sender of a request."""
        visible = []
        for id in ids:
            with suppress(InvalidParams):
                visible.append((await self.find(session, exchange, id)).id)
        return visible

    # -- beginning

    async def begin(self, task: RunningTask, ttl: int | None) -> TaskRecord:
        """Keep a task, then start its work in the next turn of the loop.

        Args:
            task: the task.
            ttl: milliseconds for which the client wants it to be kept.

        Raises:
            InternalError: its principal has as many unfinished tasks as it may have.
        """
        now = self.store.now()
        record = TaskRecord(
            id=task.id,
            owner=task.owner,
            revision=task.exchange.revision.id,
            worker=self._worker,
            created_at=now,
            updated_at=now,
            ttl=self.settings.clamp(ttl),
            poll_interval=round(self.settings.poll_interval * 1000),
        )
        await self.store.beat(self._worker)
        most = self.settings.unfinished
        try:
            is_kept = await self.store.add(record, unfinished=most, kept=self.settings.kept)
        except asyncio.CancelledError:
            # No client learns of the task, so it must not look as if it went on.
            self._forgotten = asyncio.ensure_future(self.cancel(task.id))
            raise
        if not is_kept:
            raise InternalError(f"busy: {most} tasks of this caller are unfinished")
        task.ttl = None if record.ttl is None else record.ttl / 1000
        log.info("task %s of %s began", task.id[:8], task.label)  # tasks.security.audit
        self.running[task.id] = task
        loop = asyncio.get_running_loop()
        task.supervisor = loop.create_task(self._run(task), name=task.label)
        if self._keeper is None or self._keeper.done():
            self._keeper = loop.create_task(self._keep(), name="accord-tasks")
        return record

    # -- running

    async def _run(self, task: RunningTask) -> None:
        watchdog = self.server.watchdog()
        watchdog.enter()
        outcome: Change | None = None
        try:
            async with asyncio.timeout(task.ttl):
                outcome = self._outcome_of(task, await task.work())
        except asyncio.CancelledError:
            if not task.is_stopped:
                is_own = _is_raised_by_handler()
                why = "the work was cancelled" if is_own else _STOPPED
                outcome = self._failure(InternalError(why))
                if not is_own:
                    raise
        except TimeoutError:
            log.info("task %s of %s expired before it was finished", task.id[:8], task.label)
        except BaseException as error:
            outcome = self._failure(error)
            if not isinstance(error, Exception):
                raise
        finally:
            watchdog.leave()
            self.running.pop(task.id, None)
            task.release()
            if outcome is not None:
                await self._finish(task, outcome)
            self._wake(task.id)

    async def _finish(self, task: RunningTask, outcome: Change) -> None:
        try:
            record = await self.store.change(task.id, outcome)
        except Exception:
            log.exception("the result of task %s of %s was lost", task.id[:8], task.label)
            return
        if record is not None:
            log.info("task %s of %s: %s", task.id[:8], task.label, record.status)
            self._announce(task, record)

    def _outcome_of(self, task: RunningTask, result: CallToolResult) -> Change:
        revision = task.exchange.revision
        encoded = _encode(shape.narrow(result, revision.id))
        limit = self.server.limits.message_bytes
        if len(encoded) > limit - _ENVELOPE:
            # It could never be sent, and the client would ask for it again and again.
            why = f"{task.label}: the result has {len(encoded)} bytes, too many for one message"
            return self._failure(InternalError(f"{why} of {limit} (message_bytes)"))
        # tasks.errors.tool-error-is-failed; tasks-ext.status.tool-error-is-completed
        is_failed = result.is_error and revision.tasks
        message = result.text[:500] or "the tool failed" if is_failed else None
        status = "failed" if is_failed else "completed"
        return self._change(
            status=status, message=message, result=encoded, questions={}, answers={}
        )

    def _failure(self, error: BaseException) -> Change:
        if not isinstance(error, RequestError) or not is_writable(error):
            log.error("a task failed", exc_info=error)
            error = InternalError("internal error")
        data = msgspec.UNSET if error.data is None else error.data
        try:
            body = _encode(ErrorBody(error.code, error.message, data))
        except (TypeError, ValueError):
            body = _encode(ErrorBody(error.code, error.message))
        return self._change(
            status="failed", message=error.message[:500], error=body, questions={}, answers={}
        )

    def _change(self, **fields: Any) -> Change:
        return lambda record: _replace(record, updated_at=self.store.now(), **fields)

    # -- changing

    async def report(self, task: RunningTask, **fields: Any) -> None:
        """Change what is known of a running task."""
        record = await self.store.change(task.id, self._change(**fields))
        if record is not None:
            self._announce(task, record)

    async def change(self, task: RunningTask, change: Change) -> None:
        """Change the record of a running task by a function."""
        now = self.store.now()

        def apply(record: TaskRecord) -> TaskRecord | None:
            changed = change(record)
            return None if changed is None else _replace(changed, updated_at=now)

        record = await self.store.change(task.id, apply)
        if record is not None:
            self._announce(task, record)

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
                status="input_required" if left else "working",
                updated_at=self.store.now(),
            )

        record = await self.store.change(id, take)
        task = self.running.get(id)
        if record is not None and task is not None:
            task.deliver(record.answers)
            self._announce(task, record)

    async def cancel(self, id: str) -> TaskRecord | None:
        """Cancel a task; None if it is finished."""
        change = self._change(
            status="cancelled", message="cancelled by the client", questions={}, answers={}
        )
        record = await self.store.change(id, change)
        if record is not None:
            log.info("task %s was cancelled", id[:8])
            task = self.running.get(id)
            if task is not None:
                task.stop()
                self._announce(task, record)
            self._wake(id)
        return record

    def _announce(self, task: RunningTask, record: TaskRecord) -> None:
        if record.is_finished:
            self._wake(record.id)
        task.announce(record)

    # -- living with other processes

    async def _keep(self) -> None:
        """Say that we are alive, and look for changes of other processes, while tasks run."""
        store, loop = self.store, asyncio.get_running_loop()
        pause = self._look_interval or store.lease / 3
        beat_at = loop.time() + store.lease / 3
        while self.running:
            await asyncio.sleep(pause)
            try:
                if loop.time() >= beat_at:
                    await store.beat(self._worker)
                    beat_at = loop.time() + store.lease / 3
                if store.is_shared:
                    await self._look()
            except Exception:
                log.exception("the store of tasks failed")

    async def _look(self) -> None:
        for task in list(self.running.values()):
            record = await self.store.get(task.id)
            if record is None:
                task.stop()
            elif record.is_finished:
                task.stop()
                self._announce(task, record)
            else:
                task.deliver(record.answers)

    async def release(self, *states: object) -> None:
        """Stop the tasks that use the state of a lifespan, and close the store if it is idle."""
        ending = [
            task.supervisor
            for task in list(self.running.values())
            if any(task.session.lifespan_state is each for each in states)
            and task.supervisor is not None
        ]
        for supervisor in ending:
            asyncio.get_running_loop().call_soon(supervisor.cancel)  # not before its first step
        if ending:
            await asyncio.wait(ending, timeout=_GRACE)
        if not self.running:
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
