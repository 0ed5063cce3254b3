"""Deletes what has expired from the SQLite file of a backend, little by little."""

import sqlite3
from typing import Final

from accord.sharing.backends.sqlite_connection import SLOT

__all__ = ["is_due", "sweep"]

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
