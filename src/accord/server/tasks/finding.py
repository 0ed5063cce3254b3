"""Finds tasks for those that may see them, wherever they are kept."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final

from accord.errors import InternalError, InvalidParams, StoreUnavailable
from accord.principal import identity_text
from accord.protocol.exchange import Exchange
from accord.protocol.party import Bounded
from accord.server.tasks.settings import TaskSettings
from accord.server.tasks.task_store import MemoryTaskStore, TaskRecord, TaskStore

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.session import Session
    from accord.server.tasks.channel import RunningTask
    from accord.server.tasks.watching import TaskWatches
    from accord.sharing.serving.tasks import SharedTaskStore, Takeover
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.server")

_REPORTED_MOST: Final = 1_000


class TaskFinder:
    """The tasks of one server, as requests find them.

    Attributes:
        running: those whose work goes on in this process.
        reported: finished ones whose clients were notified here; what was read of them before that
            is out of date.
    """

    watches: "TaskWatches"

    def __init__(self, server: "ServerCore", settings: TaskSettings) -> None:
        self.server = server
        self.settings = settings
        self.running: dict[str, RunningTask] = {}
        self.reported: Bounded[str, None] = Bounded(_REPORTED_MOST)
        self._own_store: TaskStore = settings.store or MemoryTaskStore()
        self._shared_store: SharedTaskStore | None = None

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
            stores = import_module("accord.sharing.serving.tasks")
            self._shared_store = stores.SharedTaskStore(worker.backend, clock=worker.now)
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


def store_is_away(error: StoreUnavailable) -> InternalError:
    """Return the error of a request for a task that cannot be reached now."""
    log.warning("the store of tasks does not answer: %s", error)
    data = {"reason": "store-unavailable"}
    return InternalError("the store of tasks does not answer; try again", data=data)
