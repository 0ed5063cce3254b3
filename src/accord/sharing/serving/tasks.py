"""Tasks of lost workers, in the store that workers share.

They end in one state, or run again here. The record decides, by compare-and-set: of several workers
that find a lost one, one takes each of its tasks over, and a worker that was only stalled finds
that its own fence is too low.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

import msgspec

from accord.errors import StoreError
from accord.protocol import shape
from accord.protocol.revisions import REVISIONS
from accord.server.tasks.fields import core_fields
from accord.server.tasks.task_store import TaskRecord, fail_lost
from accord.sharing.serving.session_sharing import notify_session
from accord.sharing.workers import names
from accord.types import TaskStatusParams

if TYPE_CHECKING:
    from accord.server.tasks.runner import TaskRunner
    from accord.types import RevisionId

log = logging.getLogger("accord.server")

# A call that ends its worker each time must not end all of them.
_RUNS_MOST: Final = 3
# For so long a worker that was seen alive is taken to be alive.
_ALIVE_SECONDS: Final = 1.0
_KNOWN_MOST: Final = 1_000
_PREFIX: Final = "task/"
STATUS: Final = "notifications/tasks/status"


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
