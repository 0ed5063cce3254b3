"""Tasks in a file of SQLite, so that they outlive the process and are shared by several."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from accord.private_files import make_file
from accord.server.tasks.task_store import Change, TaskRecord, fail_lost, is_expired

__all__ = ["SqliteTaskStore"]

Value = TypeVar("Value")

_BYTES: Final = 1024 * 1024 * 1024
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, owner TEXT NOT NULL,
    revision TEXT NOT NULL, worker TEXT NOT NULL, is_finished INTEGER NOT NULL, expires_at REAL,
    size INTEGER NOT NULL, record BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS tasks_by_owner ON tasks (owner, number);
CREATE TABLE IF NOT EXISTS workers (id TEXT PRIMARY KEY, seen REAL NOT NULL);
"""


class SqliteTaskStore:
    """Keeps tasks in a file, which several processes may share and which outlives them.

    The file is used in a thread of its own. It is made readable for its user alone.

    Args:
        path: the file; it is made if it does not exist.
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
        self._path = os.fspath(path)
        self._limit = bytes
        self.lease = lease
        self.now = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accord-tasks")
        self._opened: sqlite3.Connection | None = None

    async def add(self, record: TaskRecord, *, unfinished: int, kept: int) -> bool:
        """Keep a new task; False if the owner has as many unfinished ones as it may have."""

        def add(db: sqlite3.Connection) -> bool:
            self._sweep(db)
            rows = db.execute(
                "SELECT id, is_finished FROM tasks WHERE owner = ? ORDER BY number", (record.owner,)
            ).fetchall()
            finished = [id for id, is_finished in rows if is_finished]
            if len(rows) - len(finished) >= unfinished:
                return False
            dropped = finished[: max(0, len(rows) + 1 - kept)]
            db.executemany("DELETE FROM tasks WHERE id = ?", [(id,) for id in dropped])
            db.execute(
                "INSERT INTO tasks (id, owner, revision, worker, is_finished, expires_at, size, "
                "record) VALUES (?, ?, ?, ?, 0, ?, ?, ?)",
                (
                    record.id,
                    record.owner,
                    record.revision,
                    record.worker,
                    record.expires_at,
                    record.size,
                    msgspec.msgpack.encode(record),
                ),
            )
            return True

        return await self._run(add)

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task."""
        return await self._run(lambda db: self._read(db, id))

    async def change(self, id: str, change: Change) -> TaskRecord | None:
        """Change a task that is not finished. The function is called in another thread."""

        def apply(db: sqlite3.Connection) -> TaskRecord | None:
            record = self._read(db, id)
            changed = None if record is None or record.is_finished else change(record)
            if changed is not None:
                self._write(db, changed)
            return changed

        return await self._run(apply)

    async def page(
        self, owner: str, revision: str, *, after: int, count: int
    ) -> list[tuple[int, TaskRecord]]:
        """Return the tasks of an owner, oldest first."""

        def read(db: sqlite3.Connection) -> list[tuple[int, TaskRecord]]:
            rows = db.execute(
                "SELECT number, id FROM tasks WHERE owner = ? AND revision = ? AND number > ? AND "
                "(expires_at IS NULL OR expires_at > ?) ORDER BY number LIMIT ?",
                (owner, revision, after, self.now(), count),
            ).fetchall()
            found = [(number, self._read(db, id)) for number, id in rows]
            return [(number, record) for number, record in found if record is not None]

        return await self._run(read)

    async def beat(self, worker: str) -> None:
        """Note that a worker is alive, and forget what has expired."""

        def beat(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO workers VALUES (?, ?)", (worker, self.now()))
            self._sweep(db)

        await self._run(beat)

    async def close(self) -> None:
        """Close the file; the next use opens it again."""

        def close() -> None:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()

        await asyncio.get_running_loop().run_in_executor(self._thread, close)

    # -- in the thread

    async def _run(self, work: Callable[[sqlite3.Connection], Value]) -> Value:
        def run() -> Value:
            db = self._open()
            db.execute("BEGIN IMMEDIATE")
            try:
                value = work(db)
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")
            return value

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self) -> sqlite3.Connection:
        if self._opened is None:
            make_file(self._path)
            db = sqlite3.connect(self._path, isolation_level=None, timeout=10)
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(_SCHEMA)
            self._opened = db
        return self._opened

    def _read(self, db: sqlite3.Connection, id: str) -> TaskRecord | None:
        """Return a task; one whose worker is dead is failed first."""
        row = db.execute(
            "SELECT record, seen FROM tasks LEFT JOIN workers ON workers.id = worker "
            "WHERE tasks.id = ?",
            (id,),
        ).fetchone()
        if row is None:
            return None
        record = msgspec.msgpack.decode(row[0], type=TaskRecord)
        now = self.now()
        if is_expired(record, now):
            return None
        if not record.is_finished and (row[1] is None or row[1] < now - self.lease):
            record = fail_lost(record, now)
            self._write(db, record)
        return record

    def _write(self, db: sqlite3.Connection, record: TaskRecord) -> None:
        db.execute(
            "UPDATE tasks SET is_finished = ?, size = ?, record = ? WHERE id = ?",
            (record.is_finished, record.size, msgspec.msgpack.encode(record), record.id),
        )

    def _sweep(self, db: sqlite3.Connection) -> None:
        now = self.now()
        db.execute("DELETE FROM tasks WHERE expires_at <= ?", (now,))
        # A worker is needed as long as it has an unfinished task.
        db.execute(
            "DELETE FROM workers WHERE seen < ? AND id NOT IN "
            "(SELECT worker FROM tasks WHERE is_finished = 0)",
            (now - self.lease,),
        )
        (size,) = db.execute("SELECT COALESCE(SUM(size), 0) FROM tasks").fetchone()
        while size > self._limit:
            oldest = db.execute(
                "SELECT number, size FROM tasks WHERE is_finished = 1 ORDER BY number LIMIT 1"
            ).fetchone()
            if oldest is None:
                return
            db.execute("DELETE FROM tasks WHERE number = ?", oldest[:1])
            size -= oldest[1]
