"""A connection to the SQLite file of a backend: schema, settings, errors, what has expired."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from accord.errors import StoreFull, StoreUnavailable
from accord.private_files import make_file

__all__ = [
    "SLOT",
    "disconnect",
    "explain",
    "file_id",
    "find_slot",
    "find_tables",
    "is_busy",
    "is_due",
    "open_connection",
    "read_version",
    "sweep",
]

# The number of the schema, in the file as `PRAGMA user_version`. A change that an older accord
# cannot live with gets the next one.
_SCHEMA_VERSION: Final = 1
# In the file as `PRAGMA application_id`, so that a file of another program is not changed.
_APPLICATION_ID: Final = 0x61636472
# Since 3.24 there is an INSERT that updates what is there.
_LEAST_VERSION: Final = (3, 24, 0)
# The file of changes that are not in the database yet is cut to this many bytes.
_JOURNAL_BYTES: Final = 16 * 1024 * 1024
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

SLOT: Final = 8
"""Seconds between two looks at what has expired.

Rows have the number of such a span of time, besides the exact time. The index over it finds what
has expired, and changes once in that many seconds, not with every append.
"""

_SCHEMA: Final = """
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('version', 0);

CREATE TABLE records (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, value BLOB NOT NULL,
    version INTEGER NOT NULL, expires REAL NOT NULL, slot INTEGER NOT NULL
);
CREATE INDEX records_by_slot ON records (slot);

CREATE TABLE index_members (
    name TEXT NOT NULL, member TEXT NOT NULL, expires REAL NOT NULL, slot INTEGER NOT NULL,
    PRIMARY KEY (name, member)
) WITHOUT ROWID;
CREATE INDEX index_members_by_slot ON index_members (slot);

-- A log without a name was dropped, and its entries are deleted little by little.
-- Entries before `first` do not count any more, but those from `held` on are still in the file.
CREATE TABLE logs (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE, last INTEGER NOT NULL, first INTEGER NOT NULL,
    held INTEGER NOT NULL, fence INTEGER NOT NULL, is_closed INTEGER NOT NULL,
    expires REAL NOT NULL, slot INTEGER NOT NULL
);
CREATE INDEX logs_by_slot ON logs (slot);
CREATE TABLE log_entries (
    log INTEGER NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (log, number)
) WITHOUT ROWID;

CREATE TABLE buckets (
    name TEXT PRIMARY KEY, level REAL NOT NULL, at REAL NOT NULL, expires REAL NOT NULL,
    slot INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX buckets_by_slot ON buckets (slot);

-- Processes that follow topics: by a socket, or without an address by polling the next table.
CREATE TABLE listeners (id INTEGER PRIMARY KEY, address TEXT NOT NULL, seen REAL NOT NULL);
CREATE TABLE follows (
    topic TEXT NOT NULL, listener INTEGER NOT NULL, PRIMARY KEY (topic, listener)
) WITHOUT ROWID;
CREATE INDEX follows_by_listener ON follows (listener);
CREATE TABLE rings (
    number INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, at REAL NOT NULL
);
"""


# Rows in one transaction; it takes about a millisecond, for which other processes have to wait.
_ROWS: Final = 500

_DUE: Final = """
SELECT EXISTS (SELECT 1 FROM records WHERE slot <= :slot)
    OR EXISTS (SELECT 1 FROM index_members WHERE slot <= :slot)
    OR EXISTS (SELECT 1 FROM logs WHERE slot <= :slot)
    OR EXISTS (SELECT 1 FROM buckets WHERE slot <= :slot)
"""
_DELETES: Final = (
    "DELETE FROM records WHERE id IN (SELECT id FROM records WHERE slot <= ? LIMIT ?)",
    """DELETE FROM index_members WHERE (name, member) IN
        (SELECT name, member FROM index_members WHERE slot <= ? LIMIT ?)""",
    "DELETE FROM buckets WHERE name IN (SELECT name FROM buckets WHERE slot <= ? LIMIT ?)",
)

# What this process has open, and the files that were open when it was forked. SQLite remembers
# in its memory which locks a process holds; a forked one would count on locks of its parent.
_open: dict[sqlite3.Connection, tuple[int, int] | None] = {}
_inherited: set[tuple[int, int] | None] = set()
_of_parent: list[sqlite3.Connection] = []


def _after_fork() -> None:
    _inherited.update(_open.values())
    _of_parent.extend(_open)  # so that they are not closed here
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def find_slot(expires: float) -> int:
    """Return the first slot at whose beginning something has expired."""
    return int(min(expires, 2.0**50) // SLOT) + 1


def file_id(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None if it does not exist."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def is_busy(error: BaseException) -> bool:
    """Return whether another connection holds the lock."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY


def explain(error: sqlite3.Error, path: str, *, timeout: float) -> Exception:
    """Return the error that callers get; those of wrong arguments stay as they are."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return error
    primary = code & 0xFF
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(f"there is no room in {path}: {error}")
    if primary in _BUSY:
        return StoreUnavailable(f"{path} was locked by another process for {timeout:g} s")
    if primary in _DAMAGED:
        return StoreUnavailable(f"{path} is not a SQLite database, or is damaged: {error}")
    return StoreUnavailable(f"{path} cannot be used: {error}")


def open_connection(
    path: str, *, timeout: float, adopts: Sequence[str] = (), after_fork: bool = False
) -> sqlite3.Connection:
    """Open the file, and make it if it does not exist.

    Args:
        path: the file.
        timeout: seconds to wait for locks of others.
        adopts: the tables of an older form; a file with one of them gets the schema beside that.
        after_fork: open it although the process that this one was forked from has it open. That
            one must not close it first.

    Raises:
        StoreUnavailable: it is not fit for this; says why.
    """
    if sqlite3.sqlite_version_info < _LEAST_VERSION:
        least = ".".join(map(str, _LEAST_VERSION))
        raise StoreUnavailable(f"SQLite {least} is needed; this is {sqlite3.sqlite_version}")
    make_file(path)
    if file_id(path) in _inherited and not after_fork:
        raise StoreUnavailable(
            f"{path} was open when this process was forked; open it after the fork only"
        )
    end = time.monotonic() + timeout
    while True:
        try:
            db = _connect(path, adopts)
        except sqlite3.Error as error:
            # Locks are waited for here, as changing the journal's kind does not wait by itself.
            if not is_busy(error) or time.monotonic() > end:
                raise explain(error, path, timeout=timeout) from error
            time.sleep(0.01)
        else:
            _open[db] = file_id(path)
            return db


def disconnect(db: sqlite3.Connection) -> None:
    """Close a connection that this process has opened; one of its parent is left to that."""
    if db in _open:
        del _open[db]
        with suppress(sqlite3.Error):
            db.close()


def find_tables(db: sqlite3.Connection, names: Sequence[str]) -> list[str]:
    """Return the tables with some names that a file has."""
    found = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return [name for name in names if name in found]


def _connect(path: str, adopts: Sequence[str]) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        _prepare(db, path, adopts)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: str, adopts: Sequence[str]) -> None:
    version = read_version(db, path, adopts)  # before anything is changed
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(
            f"{path} cannot be shared: SQLite offers the journal mode {mode!r} there, not 'wal'; "
            "use a file on a local disk"
        )
    # A process that is killed loses nothing; a power cut may lose the last moments.
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
    if version == 0:
        db.execute("BEGIN IMMEDIATE")
        if read_version(db, path, adopts) == 0:  # no other process was faster
            _create(db)
        db.execute("COMMIT")


def _create(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def read_version(db: sqlite3.Connection, path: str, adopts: Sequence[str]) -> int:
    """Return the number of the schema in a file; 0 for an empty one, and for an older form.

    Raises:
        StoreUnavailable: it is of another program, or of a newer version of accord.
    """
    is_begun = not db.in_transaction
    if is_begun:
        db.execute("BEGIN")  # another process may make the schema meanwhile
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        is_older = not application and not version and bool(find_tables(db, adopts))
    finally:
        if is_begun and db.in_transaction:
            db.execute("ROLLBACK")
    if application != _APPLICATION_ID and (version or application or tables) and not is_older:
        raise StoreUnavailable(f"{path} is a database of another program")
    if version > _SCHEMA_VERSION:
        raise StoreUnavailable(
            f"{path} was written by a newer version of accord: it has the schema {version}, and "
            f"this version knows those up to {_SCHEMA_VERSION}"
        )
    return int(version)


# -- what has expired, which is deleted little by little


def is_due(db: sqlite3.Connection, now: float) -> bool:
    """Return whether anything is to be deleted; takes no lock."""
    return bool(db.execute(_DUE, {"slot": int(now // SLOT)}).fetchone()[0])


def sweep(db: sqlite3.Connection, now: float) -> bool:
    """Delete some of what has expired, in a transaction; return whether there may be more."""
    slot = int(now // SLOT)
    left = _ROWS
    for statement in _DELETES:
        left -= db.execute(statement, (slot, left)).rowcount
    left -= _sweep_logs(db, slot, left)
    return left <= 0


def _sweep_logs(db: sqlite3.Connection, slot: int, limit: int) -> int:
    """Delete logs with their entries; return how many rows that were, or one more."""
    rows = db.execute(
        "SELECT id, held, last FROM logs WHERE slot <= ? LIMIT ?", (slot, limit)
    ).fetchall()
    deleted = 0
    for id, held, last in rows:
        end = min(last, held + limit - deleted)
        db.execute("DELETE FROM log_entries WHERE log = ? AND number <= ?", (id, end))
        deleted += end - held + 2
        if end == last:
            db.execute("DELETE FROM logs WHERE id = ?", (id,))
        else:
            db.execute("UPDATE logs SET name = NULL, held = ? WHERE id = ?", (end + 1, id))
        if deleted >= limit:
            break
    return deleted
