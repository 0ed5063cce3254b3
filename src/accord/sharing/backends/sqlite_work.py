"""The operations of a SQLite backend, as they run in the thread of its file.

Each either raises before it has written anything, or succeeds; so several share a transaction.
"""

import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from accord.sharing.backends.backend import Allowance, LogPage, StoredRecord
from accord.sharing.backends.engine import (
    check_append,
    check_items,
    check_version,
    draw,
    fill,
    time_to_fill,
)
from accord.sharing.backends.sqlite_connection import find_slot
from accord.sharing.backends.sqlite_thread import StoreBatch

__all__ = [
    "add_members",
    "append_entries",
    "count_members",
    "delete_record",
    "describe_file",
    "drop_log",
    "extend_log",
    "find_members",
    "find_record",
    "put_record",
    "read_log",
    "remove_members",
    "seize_log",
    "take_from_bucket",
    "touch_record",
]

# Entries that do not count any more are deleted when they are so many: to delete each one by itself
# would cost as much as to add it.
_TRIM: Final = 64

_PAGE: Final = """
SELECT last, fence, is_closed, number, value FROM logs LEFT JOIN log_entries
    ON log = id AND number > max(?, first - 1)
WHERE name = ? AND expires > ? ORDER BY number LIMIT ?
"""
_COUNTS: Final = {
    "records": "SELECT count(*) FROM records WHERE name GLOB :names AND expires > :now",
    "indexes": """SELECT count(DISTINCT name) FROM index_members
        WHERE name GLOB :names AND expires > :now""",
    "index_members": """SELECT count(*) FROM index_members
        WHERE name GLOB :names AND expires > :now""",
    "logs": "SELECT count(*) FROM logs WHERE name GLOB :names AND expires > :now",
    "log_entries": """SELECT COALESCE(SUM(last - first + 1), 0) FROM logs
        WHERE name GLOB :names AND expires > :now""",
    "buckets": "SELECT count(*) FROM buckets WHERE name GLOB :names AND expires > :now",
    "follows": "SELECT count(*) FROM follows WHERE topic GLOB :names",
}


# -- records


def find_record(batch: StoreBatch, key: str) -> StoredRecord | None:
    """Return a record that has not expired."""
    row = batch.db.execute(
        "SELECT value, version FROM records WHERE name = ? AND expires > ?",
        (batch.prefix + key, time.time()),
    ).fetchone()
    return None if row is None else StoredRecord(*row)


def put_record(
    batch: StoreBatch, key: str, value: bytes, *, ttl: float, expect: int | None = None
) -> int:
    """Write a record; return its version."""
    now = time.time()
    expires = now + ttl
    if expect:
        version = batch.next_version()
        changed = batch.db.execute(
            "UPDATE records SET value = ?, version = ?, expires = ?, slot = ? "
            "WHERE name = ? AND version = ? AND expires > ?",
            (value, version, expires, find_slot(expires), batch.prefix + key, expect, now),
        )
        if changed.rowcount:
            return version
    if expect is not None:
        check_version(key, expect, find_record(batch, key))
    version = batch.next_version()
    batch.db.execute(
        "INSERT INTO records (name, value, version, expires, slot) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value, version = excluded.version, "
        "expires = excluded.expires, slot = excluded.slot",
        (batch.prefix + key, value, version, expires, find_slot(expires)),
    )
    return version


def delete_record(batch: StoreBatch, key: str, *, expect: int | None = None) -> bool:
    """Delete a record; return whether there was one."""
    found = find_record(batch, key)
    if found is None:
        return False
    check_version(key, expect, found)
    batch.db.execute("DELETE FROM records WHERE name = ?", (batch.prefix + key,))
    return True


def touch_record(batch: StoreBatch, key: str, *, ttl: float) -> bool:
    """Let a record live for this long; return whether there is one."""
    now = time.time()
    changed = batch.db.execute(
        "UPDATE records SET expires = ?, slot = ? WHERE name = ? AND expires > ?",
        (now + ttl, find_slot(now + ttl), batch.prefix + key, now),
    )
    return changed.rowcount > 0


# -- indexes


def add_members(batch: StoreBatch, index: str, members: Sequence[str], ttl: float) -> None:
    """Add names to an index."""
    expires = time.time() + ttl
    name, slot = batch.prefix + index, find_slot(expires)
    batch.db.executemany(
        "INSERT INTO index_members VALUES (?, ?, ?, ?) ON CONFLICT (name, member) "
        "DO UPDATE SET expires = excluded.expires, slot = excluded.slot",
        [(name, member, expires, slot) for member in members],
    )


def remove_members(batch: StoreBatch, index: str, members: Sequence[str]) -> int:
    """Remove names from an index; return how many of them had not expired."""
    now, name, removed = time.time(), batch.prefix + index, 0
    for member in members:
        key = (name, member)
        row = batch.db.execute(
            "SELECT expires FROM index_members WHERE name = ? AND member = ?", key
        ).fetchone()
        if row is not None:
            removed += row[0] > now
            batch.db.execute("DELETE FROM index_members WHERE name = ? AND member = ?", key)
    return removed


def find_members(batch: StoreBatch, index: str, *, limit: int = 1000) -> list[str]:
    """Return names of an index that have not expired."""
    rows = batch.db.execute(
        "SELECT member FROM index_members WHERE name = ? AND expires > ? LIMIT ?",
        (batch.prefix + index, time.time(), limit),
    )
    return [member for (member,) in rows]


def count_members(batch: StoreBatch, index: str) -> int:
    """Return how many names of an index have not expired."""
    (count,) = batch.db.execute(
        "SELECT count(*) FROM index_members WHERE name = ? AND expires > ?",
        (batch.prefix + index, time.time()),
    ).fetchone()
    return int(count)


# -- logs


class _LogRow(msgspec.Struct, gc=False):
    """A row of the table of logs, besides its name; see its schema."""

    id: int = 0
    last: int = 0
    first: int = 1
    held: int = 1
    fence: int = 0
    is_closed: int = 0
    expires: float = 0.0
    slot: int = 0


def append_entries(  # noqa: PLR0913  # those of `Backend.append`
    batch: StoreBatch,
    log: str,
    items: Sequence[bytes],
    *,
    ttl: float,
    fence: int | None = None,
    after: int | None = None,
    final: bool = False,
    keep: int = 0,
    notify: Sequence[str] = (),
) -> int:
    """Add entries to a log; return the number of the last one."""
    check_items(items, final=final)
    now = time.time()
    found = batch.db.execute(
        "SELECT id, last, first, held, fence, is_closed, expires, slot FROM logs WHERE name = ?",
        (batch.prefix + log,),
    ).fetchone()
    row = _LogRow(*found) if found is not None and found[6] > now else _LogRow()
    row.fence = check_append(
        log,
        last=row.last,
        held=row.fence,
        is_closed=bool(row.is_closed),
        fence=fence,
        after=after,
    )
    if found is not None and not row.id:  # it has expired, and another one begins
        drop_log(batch, log)
    number = row.last
    row.last += len(items)
    row.is_closed = int(final)
    row.expires = now + ttl
    if keep:
        row.first = max(row.first, row.last - keep + 1)
    _write_log(batch, log, row)
    rows = [(row.id, number + place, item) for place, item in enumerate(items, 1)]
    statement = "INSERT INTO log_entries VALUES (?, ?, ?)"
    if len(rows) == 1:
        batch.db.execute(statement, rows[0])
    elif rows:
        batch.db.executemany(statement, rows)
    if notify:
        batch.notify(notify)
    return row.last


def _write_log(batch: StoreBatch, name: str, log: _LogRow) -> None:
    """Write the row of a log; delete entries that do not count any more, if they are many."""
    if log.id and log.first - log.held >= _TRIM:
        log.held = log.first
        batch.db.execute("DELETE FROM log_entries WHERE log = ? AND number < ?", (log.id, log.held))
    slot = find_slot(log.expires)
    values = (log.last, log.first, log.held, log.fence, log.is_closed, log.expires)
    if not log.id:
        added = batch.db.execute(
            "INSERT INTO logs (last, first, held, fence, is_closed, expires, slot, name) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, slot, batch.prefix + name),
        )
        log.id = added.lastrowid or 0
        return
    batch.db.execute(
        "UPDATE logs SET last = ?, first = ?, held = ?, fence = ?, is_closed = ?, expires = ? "
        "WHERE id = ?",
        (*values, log.id),
    )
    if slot != log.slot:
        batch.db.execute("UPDATE logs SET slot = ? WHERE id = ?", (slot, log.id))


def read_log(batch: StoreBatch, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
    """Return the entries after a number; one statement, so that they belong together."""
    rows = batch.db.execute(
        _PAGE, (after, batch.prefix + log, time.time(), max(1, limit))
    ).fetchall()
    if not rows:
        return None
    last, fence, is_closed, number, _ = rows[0]
    items = [row[4] for row in rows] if number is not None and limit > 0 else []
    return LogPage(
        items=items,
        first=number if items else last + 1,
        last=last,
        is_closed=bool(is_closed),
        fence=fence,
    )


def seize_log(batch: StoreBatch, log: str, *, fence: int) -> bool:
    """Raise the fence of an open log, if it is this one."""
    changed = batch.db.execute(
        "UPDATE logs SET fence = fence + 1 "
        "WHERE name = ? AND fence = ? AND NOT is_closed AND expires > ?",
        (batch.prefix + log, fence, time.time()),
    )
    return changed.rowcount > 0


def extend_log(batch: StoreBatch, log: str, *, ttl: float) -> bool:
    """Let a log live for this long; return whether there is one."""
    now = time.time()
    changed = batch.db.execute(
        "UPDATE logs SET expires = ?, slot = ? WHERE name = ? AND expires > ?",
        (now + ttl, find_slot(now + ttl), batch.prefix + log, now),
    )
    return changed.rowcount > 0


def drop_log(batch: StoreBatch, log: str) -> None:
    """Forget a log; its entries are swept later."""
    batch.db.execute("UPDATE logs SET name = NULL, slot = 0 WHERE name = ?", (batch.prefix + log,))


# -- buckets


def take_from_bucket(
    batch: StoreBatch, bucket: str, *, cost: float, rate: float, burst: float
) -> Allowance:
    """Take from a bucket; all of the cost, or nothing."""
    name, now = batch.prefix + bucket, time.time()
    row = batch.db.execute(
        "SELECT level, at FROM buckets WHERE name = ? AND expires > ?", (name, now)
    ).fetchone()
    level = burst if row is None else fill(row[0], now - row[1], rate=rate, burst=burst)
    allowance = draw(level, cost=cost, rate=rate, burst=burst)
    if allowance.is_granted:
        level = max(0.0, level - cost)
        expires = now + time_to_fill(level, rate=rate, burst=burst)
        batch.db.execute(
            "INSERT OR REPLACE INTO buckets VALUES (?, ?, ?, ?, ?)",
            (name, level, now, expires, find_slot(expires)),
        )
    return allowance


# -- operation


def describe_file(batch: StoreBatch, path: str) -> dict[str, str | int | float]:
    """Return facts about the file, and how much of this namespace is in it."""
    # A pattern with a fixed beginning uses the index over names.
    terms: dict[str, Any] = {"names": f"{batch.prefix}*", "now": time.time()}
    sizes = [path, f"{path}-wal"]
    return {
        "engine": "SQLite",
        "version": sqlite3.sqlite_version,
        "file": path,
        "file_bytes": sum(os.path.getsize(each) for each in sizes if os.path.exists(each)),
        **{
            name: batch.db.execute(statement, terms).fetchone()[0]
            for name, statement in _COUNTS.items()
        },
    }
