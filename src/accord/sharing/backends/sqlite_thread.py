"""The thread that owns the connection to a SQLite file.

Operations are jobs in a queue. Those that wait together are committed together, which makes many
of them cheap. Reads take no lock, and do not wait for writes that wait for another process.
"""

import asyncio
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from accord.errors import StoreError, StoreUnavailable
from accord.sharing.backends.sqlite_connection import (
    disconnect,
    explain,
    file_id,
    is_busy,
    is_due,
    open_connection,
    sweep,
)
from accord.sharing.backends.sqlite_notifications import Notifications, Outgoing

__all__ = ["SqliteThread", "StoreBatch"]

# Jobs in one transaction: enough to share its cost, so few that others get their turn.
_JOBS: Final = 200
# Seconds between two looks at what has expired, and at notifications of others.
_CHORES: Final = 1.0
_POLL: Final = 0.05
# The longest pause between two attempts to get the lock. Transactions take less than a millisecond.
_BACKOFF: Final = 0.003
# Milliseconds that the end waits for the lock; without it others notice by themselves.
_LEAVE: Final = 1000
# Errors after which the connection is used further; after others it is opened anew.
_HARMLESS: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_CONSTRAINT,
    }
)


class StoreBatch:
    """What jobs that run together share: the connection, and in a transaction the next version."""

    __slots__ = ("_version", "db", "is_write", "notifications", "notified", "outgoing", "prefix")

    def __init__(
        self, db: sqlite3.Connection, notifications: Notifications, *, is_write: bool
    ) -> None:
        self.db = db
        self.is_write = is_write
        self.notified: dict[str, None] = {}
        self.outgoing: Outgoing = {}
        self.notifications = notifications
        self.prefix = notifications.prefix
        self._version = 0

    def next_version(self) -> int:
        """Return a number that no record of this file has had."""
        if not self._version:
            (self._version,) = self.db.execute(
                "SELECT value FROM counters WHERE name = 'version'"
            ).fetchone()
        self._version += 1
        return self._version

    def notify(self, topics: Iterable[str]) -> bool:
        """Ring when the batch is done; False if that needs a transaction, which this is not."""
        new = [topic for topic in topics if topic not in self.notified]
        polled = self.notifications.find(self.db, new, self.outgoing)
        if polled and not self.is_write:
            return False
        self.notified.update(dict.fromkeys(new))
        if polled:
            self.notifications.leave_for_polling(self.db, polled, time.time())
        return True

    def commit(self) -> None:
        """End the transaction."""
        if self._version:
            self.db.execute(
                "UPDATE counters SET value = ? WHERE name = 'version'", (self._version,)
            )
        self.db.execute("COMMIT")


Work: TypeAlias = Callable[[StoreBatch], Any]


class _Job:
    __slots__ = ("deadline", "future", "is_write", "work")

    def __init__(
        self, work: Work | None, future: asyncio.Future[Any], deadline: float, *, is_write: bool
    ) -> None:
        self.work = work  # None: the last job
        self.future = future
        self.deadline = deadline
        self.is_write = is_write


_Result: TypeAlias = tuple[_Job, Any, BaseException | None]


class SqliteThread:
    """Runs jobs on a connection of its own. Its public methods are called on the loop.

    Args:
        path: the file.
        timeout: seconds to wait for a lock of other processes.
        notifications: of this process.
        hear: called on the loop with topics that were notified; None for all of them.
    """

    def __init__(
        self,
        path: str,
        *,
        timeout: float,
        notifications: Notifications,
        hear: Callable[[Iterable[str] | None], None],
    ) -> None:
        self._path = path
        self._timeout = timeout
        self._notifications = notifications
        self._hear = hear
        self.loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        # Of the loop: jobs without a result, oldest first, and the timer that looks at them.
        self._pending: deque[_Job] = deque()
        self._timer: asyncio.TimerHandle | None = None
        # Of the thread.
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._was_open = False
        self._chores_at = 0.0
        self._thread = threading.Thread(target=self._run, name="accord-sqlite", daemon=True)
        self._thread.start()

    # -- on the loop

    @property
    def is_alive(self) -> bool:
        """Whether it takes jobs; not in a process that was forked later."""
        return self._thread.is_alive()

    def submit(self, work: Work | None, *, is_write: bool) -> asyncio.Future[Any]:
        """Let the thread do something; work that fails must not have changed anything.

        A StoreError has to be raised before anything is written. After other errors the work is
        undone, and the jobs that were run together with it are run again, each by itself.
        """
        if not self._thread.is_alive():
            raise StoreUnavailable(f"{self._path} is not open in this process")
        future: asyncio.Future[Any] = self.loop.create_future()
        job = _Job(work, future, time.monotonic() + self._timeout, is_write=is_write)
        self._pending.append(job)
        if self._timer is None:
            self._timer = self.loop.call_later(self._timeout + 1, self._give_up)
        self._jobs.put(job)
        return future

    async def stop(self) -> None:
        """End the thread, after the jobs before."""
        if self._thread.is_alive():
            with suppress(StoreUnavailable):  # it hangs in the file system, and ends later
                await self.submit(None, is_write=False)
                self._thread.join()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """Fail jobs that the thread does not come to, since the file system does not answer."""
        now = time.monotonic()
        self._timer = None
        for job in self._pending:
            if not job.future.done() and job.deadline + 1 <= now:
                job.future.set_exception(
                    StoreUnavailable(f"{self._path} did not answer within {self._timeout:g} s")
                )
        self._forget_done()
        if self._pending:
            delay = max(0.05, self._pending[0].deadline + 1 - now)
            self._timer = self.loop.call_later(delay, self._give_up)

    def _forget_done(self) -> None:
        while self._pending and self._pending[0].future.done():
            self._pending.popleft()

    def _take_results(self, results: list[_Result], topics: Iterable[str] | None) -> None:
        for job, value, error in results:
            if job.future.done():
                continue
            if error is None:
                job.future.set_result(value)
            else:
                job.future.set_exception(error)
        self._forget_done()
        if topics is None or topics:
            self._hear(topics)

    # -- in the thread

    def _run(self) -> None:
        waiting: list[_Job] = []
        last: _Job | None = None
        while last is None and not self.loop.is_closed():
            arrived = self._collect(self._find_pause(waiting))
            if arrived and arrived[-1].work is None:
                last = arrived.pop()
            jobs = [*waiting, *arrived]
            waiting.clear()
            try:
                self._turn(jobs, waiting)
            except Exception as error:  # a mistake here must not leave callers waiting
                waiting.clear()
                self._post([(job, None, error) for job in jobs])
                self._disconnect()
        gone = "was closed before its turn came"
        results = [self._fail(job, f"{self._path} {gone}") for job in waiting]
        self._leave()
        self._post([*results, *([(last, None, None)] if last else [])])

    def _find_pause(self, waiting: list[_Job]) -> float:
        """Return for how long to wait for jobs."""
        if waiting:
            return random.uniform(0.0002, _BACKOFF)  # noqa: S311, so that processes take turns
        pause = self._chores_at - time.monotonic()
        if self._notifications.is_polling and self._notifications.topics:
            pause = min(pause, _POLL)
        return max(0.0, pause)

    def _collect(self, pause: float) -> list[_Job]:
        """Return the jobs that wait; the last one of all is the last of the list."""
        try:
            found = [self._jobs.get(timeout=pause)]
        except Empty:
            return []
        while found[-1].work is not None and len(found) < _JOBS and not self._jobs.empty():
            found.append(self._jobs.get_nowait())
        return found

    def _turn(self, jobs: list[_Job], waiting: list[_Job]) -> None:
        """Run jobs; put those into `waiting` for which another process holds the lock."""
        if jobs:
            try:
                db = self._db or self._connect()
            except StoreUnavailable as error:
                self._post([(job, None, type(error)(str(error))) for job in jobs])
            else:
                self._run_jobs(db, [job for job in jobs if not job.future.cancelled()], waiting)
        try:
            self._do_chores()
        except StoreUnavailable:
            self._chores_at = time.monotonic() + _CHORES
        except sqlite3.Error as error:
            self._chores_at = time.monotonic() + (_POLL if is_busy(error) else _CHORES)
            self._roll_back(error)

    def _run_jobs(self, db: sqlite3.Connection, jobs: list[_Job], waiting: list[_Job]) -> None:
        writes = [job for job in jobs if job.is_write]
        if len(writes) < len(jobs):
            reads = StoreBatch(db, self._notifications, is_write=False)
            results = [self._read(job, reads) for job in jobs if not job.is_write]
            self._finish(reads, results, waiting)
        if writes:
            self._write(writes, waiting)
        if waiting:
            now = time.monotonic()
            late = [job for job in waiting if job.deadline <= now]
            waiting[:] = [job for job in waiting if job.deadline > now]
            text = f"{self._path} was locked by another process for {self._timeout:g} s"
            self._post([self._fail(job, text) for job in late])

    def _read(self, job: _Job, batch: StoreBatch) -> _Result:
        assert job.work is not None
        if self._db is None:  # lost by a job before
            return self._fail(job, f"the connection to {self._path} was lost")
        try:
            return job, job.work(batch), None
        except sqlite3.Error as error:
            self._roll_back(error)
            return job, None, error
        except Exception as error:
            return job, None, error

    def _write(self, jobs: list[_Job], waiting: list[_Job]) -> None:
        """Run jobs in one transaction; if that fails, each in one of its own."""
        if self._db is None:  # lost by a job before
            text = f"the connection to {self._path} was lost"
            self._post([self._fail(job, text) for job in jobs])
            return
        results: list[_Result] = []
        batch = StoreBatch(self._db, self._notifications, is_write=True)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for job in jobs:
                assert job.work is not None
                try:
                    results.append((job, job.work(batch), None))
                except StoreError as error:
                    results.append((job, None, error))
            batch.commit()
        except Exception as error:
            self._roll_back(error)
            if len(jobs) == 1 or is_busy(error) or self._db is None:
                self._finish(None, [(job, None, error) for job in jobs], waiting)
            else:
                for job in jobs:
                    self._write([job], waiting)
        else:
            self._finish(batch, results, waiting)

    def _finish(
        self, batch: StoreBatch | None, results: list[_Result], waiting: list[_Job]
    ) -> None:
        """Hand out results and notifications."""
        final: list[_Result] = []
        for job, value, error in results:
            if isinstance(error, sqlite3.Error):
                if is_busy(error):
                    waiting.append(job)
                    continue
                error = explain(error, self._path, timeout=self._timeout)
            final.append((job, value, error))
        self._post(final, batch.notified if batch is not None else ())
        if batch is not None and batch.outgoing:
            self._notifications.send(batch.outgoing)

    def _fail(self, job: _Job, text: str) -> _Result:
        return job, None, StoreUnavailable(text)

    def _post(self, results: list[_Result], topics: Iterable[str] | None = ()) -> None:
        if results or topics is None or topics:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._take_results, results, topics)

    # -- the connection

    def _connect(self) -> sqlite3.Connection:
        self._db = open_connection(self._path, timeout=self._timeout)
        self._file = file_id(self._path)
        if self._was_open and self._notifications.topics:
            self._notifications.restart()
            self._chores_at = 0.0
        self._was_open = True
        return self._db

    def _roll_back(self, error: BaseException) -> None:
        """Undo what was not committed; let go of a connection that does not work."""
        if self._db is None:
            return
        code = getattr(error, "sqlite_errorcode", None)
        if self._db.in_transaction:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
        if (code is not None and code & 0xFF not in _HARMLESS) or self._db.in_transaction:
            self._disconnect()

    def _disconnect(self) -> None:
        if self._db is not None:
            disconnect(self._db)
            self._db = None

    def _leave(self) -> None:
        if self._db is not None and self._notifications.topics:
            with suppress(sqlite3.Error):
                self._db.execute(f"PRAGMA busy_timeout = {_LEAVE}")
                self._db.execute("BEGIN IMMEDIATE")
                self._notifications.leave(self._db)
                self._db.execute("COMMIT")
        self._notifications.close()
        self._disconnect()

    # -- from time to time

    def _do_chores(self) -> None:
        if self._db is not None and self._notifications.is_polling and self._notifications.topics:
            self._post([], self._notifications.poll(self._db))
        is_unsent = self._notifications.send_again()
        if time.monotonic() < self._chores_at:
            if is_unsent:
                self._chores_at = min(self._chores_at, time.monotonic() + _POLL)
            return
        self._chores_at = time.monotonic() + _CHORES
        if self._db is not None and file_id(self._path) != self._file:
            # It was deleted or replaced. Processes that start now use the new one.
            self._disconnect()
        if self._db is None and not self._notifications.topics:
            return
        db = self._db or self._connect()
        now = time.time()
        if not (self._notifications.is_due(db, now) or is_due(db, now)):
            return
        db.execute("BEGIN IMMEDIATE")
        is_lost = self._notifications.refresh(db, now)
        has_more = sweep(db, now)
        db.execute("COMMIT")
        if is_lost:
            self._post([], None)
        if has_more:
            self._chores_at = 0.0
