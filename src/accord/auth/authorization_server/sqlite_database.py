"""The SQLite file of an authorization server: opened, checked, private; no tables.

Several processes may share a file.
"""

import errno
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from accord.auth.authorization_server.models import OAuthRefusal
from accord.errors import AuthError

MEMORY: Final = ":memory:"
"""The path of a store in memory."""

Record = TypeVar("Record")

# Seconds that a process waits for another one that writes.
_BUSY: Final = 10.0
_BUSY_PAUSE: Final = 0.01


class SqliteDatabase:
    """A SQLite file, or a database in memory. Blocks.

    Args:
        path: of the file, which only its owner may read; ":memory:" for none.
        tables: the statements that make them, if they do not exist.

    Raises:
        AuthError: the file cannot be used; says why. It is left as it is.
    """

    def __init__(self, path: str, tables: str) -> None:
        self.is_in_memory = path == MEMORY
        self._lock = threading.RLock()
        with report_path(path):
            if not self.is_in_memory:
                _keep_private(path)
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_BUSY
            )
            # Closed with the last reference, at the latest.
            self._closing = weakref.finalize(self, self._db.close)
            self._begin_log()
            self._db.execute("PRAGMA secure_delete=ON")
            self._db.executescript(tables)
            self._synchronous = int(self._db.execute("PRAGMA synchronous").fetchone()[0])

    def _begin_log(self) -> None:
        """Switch to a write-ahead log, which readers do not wait for."""
        ends = time.monotonic() + _BUSY
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                # SQLite does not wait here for another process that opens the new file, too.
                is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > ends:
                    raise
                time.sleep(_BUSY_PAUSE)
            else:
                return

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def leave_to_parent(self) -> None:
        """Never close it in this process: it belongs to the process that this one comes from."""
        self._closing.detach()

    @contextmanager
    def transaction(self, *, is_durable: bool = True) -> Iterator[None]:
        """Run a block as one exclusive transaction; a refusal commits, other errors roll back.

        Args:
            is_durable: whether it has to survive a loss of power. One that need not does not wait
                for the disk.
        """
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            if not is_durable:
                self._db.execute("PRAGMA synchronous=NORMAL")
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield
                except OAuthRefusal:
                    self._db.execute("COMMIT")
                    raise
                except BaseException:
                    with suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
                    raise
                self._db.execute("COMMIT")
            finally:
                if not is_durable:
                    self._db.execute(f"PRAGMA synchronous={self._synchronous}")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def text(self, query: str, *values: object) -> str | None:
        """Return the first column of the first row."""
        rows = self.rows(query, *values)
        return str(rows[0][0]) if rows else None

    def record(self, kind: type[Record], query: str, *values: object) -> Record | None:
        """Return the first column of the first row, decoded."""
        rows = self.rows(query, *values)
        return msgspec.json.decode(rows[0][0], type=kind) if rows else None

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        found: int = self.rows(f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608  # our names
        return found

    def execute(self, query: str, *values: object) -> int:
        """Run a statement; return how many rows it changed."""
        with self._lock:
            return self._db.execute(query, values).rowcount

    def put(self, table: str, *, verb: str = "INSERT", **columns: object) -> int:
        """Add a row; return how many rows were added."""
        marks = ", ".join("?" * len(columns))
        return self.execute(
            f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({marks})", *columns.values()
        )


def check_file(path: str) -> None:
    """Make sure that a store can be opened, read and written; a missing file is not created.

    Raises:
        AuthError: the store cannot be used; says why.
    """
    if path == MEMORY:
        return
    with report_path(path):
        if not os.path.exists(path):
            folder = os.path.dirname(os.path.abspath(path))
            if not os.path.isdir(folder):
                raise FileNotFoundError(errno.ENOENT, f"the folder {folder} does not exist")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, f"the folder {folder} is not writable")
            return
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        where = f"{Path(path).absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=_BUSY)) as db:
            found = [str(row[0]) for row in db.execute("PRAGMA quick_check(1)")]
            if found != ["ok"]:
                raise sqlite3.DatabaseError(f"the database is damaged: {'; '.join(found)[:200]}")
            db.execute("BEGIN IMMEDIATE")
            # SQLite finds a read-only file only when it writes.
            db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")
            db.execute("ROLLBACK")


@contextmanager
def report_path(path: str) -> Iterator[None]:
    """Turn errors of SQLite and the system into an AuthError that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AuthError(
            f"the store of the authorization server, {os.path.abspath(path)}, cannot be used: "
            f"{why}; repair, restore or move the file (users then have to allow their programs "
            "again), or name another one with AuthorizationServer(store=...)"
        ) from None


def _keep_private(path: str) -> None:
    """Create the file for its owner alone, before SQLite does; restrict one that exists."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform != "win32" and os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, 0o600)
    finally:
        os.close(handle)
