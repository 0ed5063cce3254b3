"""The file with the calls of a person: SQLite, bounded, shared by several inspectors."""

import os
import sqlite3
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from accord_tools.inspector.history.call_record import CallRecord, MaskedText

ENTRIES_MOST: Final = 10_000
"""The calls that are kept; beyond it the oldest ones leave, except pinned ones."""
BYTES_MOST: Final = 256 * 1024 * 1024
"""The characters of arguments and responses that are kept together."""
NOTE_MOST: Final = 2_000
"""The longest note of a person on a call."""
# Seconds to wait for another inspector that writes at the same moment.
_BUSY: Final = 3.0
_ATTEMPTS: Final = 60
_APPLICATION_ID: Final = 0x61636669
_VERSION: Final = 1
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS call (
        id INTEGER PRIMARY KEY AUTOINCREMENT, target TEXT NOT NULL, title TEXT NOT NULL,
        revision TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, started REAL NOT NULL,
        seconds REAL NOT NULL, outcome TEXT NOT NULL, is_error INTEGER NOT NULL,
        size INTEGER NOT NULL, kept INTEGER NOT NULL, pinned INTEGER NOT NULL DEFAULT 0,
        note TEXT NOT NULL DEFAULT '', masked TEXT NOT NULL, cut TEXT NOT NULL,
        arguments TEXT NOT NULL, response TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS call_by_name ON call (target, kind, name, id)",
    "CREATE INDEX IF NOT EXISTS call_by_size ON call (pinned, id, kept)",
)
_COLUMNS: Final = (
    "id, target, title, revision, kind, name, started, seconds, outcome, is_error, size, pinned, "
    "note, masked, cut"
)


def default_history_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file in which the inspector keeps calls of this user; it may not exist yet.

    Args:
        environ: the variables that may name its folder; those of this process by default.
    """
    environ = os.environ if environ is None else environ
    if sys.platform == "win32":
        base = environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    else:
        base = environ.get("XDG_STATE_HOME", "")
        # A relative path in the variable has to be ignored.
        if not os.path.isabs(base):
            base = str(Path(environ.get("HOME") or Path.home()) / ".local" / "state")
    return Path(base) / "accord" / "inspect.sqlite"


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A call in the history.

    Attributes:
        masked: JSON pointers of the arguments that were masked.
        cut: which of "arguments" and "response" are not complete.
        arguments: JSON text; empty in a list.
        response: JSON text; empty in a list.
    """

    id: int
    target: str
    title: str
    revision: str
    kind: str
    name: str
    at: float
    seconds: float
    outcome: str
    is_error: bool
    size: int
    pinned: bool
    note: str
    masked: list[str]
    cut: list[str]
    arguments: str = ""
    response: str = ""


class HistoryStore:
    """Keeps calls. All methods are called in one thread, one after another.

    A file that cannot be used is left alone: from then on calls are kept in memory, and `note` says
    why.

    Args:
        path: the file; None keeps calls in memory.

    Attributes:
        note: why calls are not kept in the file; empty if they are.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.note = ""
        self._db: sqlite3.Connection | None = None

    @property
    def is_kept(self) -> bool:
        """Whether calls outlive the process."""
        return self.path is not None and not self.note

    # -- the database

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            if self.path is not None and not self.note:
                try:
                    self._db = _open_file(self.path)
                except (sqlite3.Error, OSError) as error:
                    self._give_up(error)
            if self._db is None:
                self._db = _prepare(sqlite3.connect(":memory:", **_HOW))
        return self._db

    def _give_up(self, error: Exception) -> None:
        """Keep further calls in memory."""
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None
        if self.path is not None and not self.note:
            self.note = f"calls are kept in memory only: {self.path}: {_describe(error)}"

    def _run(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run a statement; if the file fails, in memory."""
        try:
            return self._open().execute(statement, values)
        except sqlite3.Error as error:
            if self.note or self.path is None:
                raise
            self._give_up(error)
            return self._open().execute(statement, values)

    def close(self) -> None:
        """Close the file."""
        if self._db is not None:
            self._db.close()
            self._db = None

    # -- calls

    def add(self, record: CallRecord, arguments: MaskedText, response: MaskedText) -> int:
        """Keep a call, whose texts are masked and cut already; return its id."""
        cut = [
            name for name, text in (("arguments", arguments), ("response", response)) if text.is_cut
        ]
        row: dict[str, Any] = {
            "target": record.target,
            "title": record.title,
            "revision": record.revision,
            "kind": record.kind,
            "name": record.name,
            "started": record.started,
            "seconds": record.seconds,
            "outcome": record.outcome,
            "is_error": record.is_error,
            "size": len(record.response),
            "kept": len(arguments.text) + len(response.text),
            "masked": msgspec.json.encode(arguments.masked).decode(),
            "cut": msgspec.json.encode(cut).decode(),
            "arguments": arguments.text,
            "response": response.text,
        }
        marks = ", ".join("?" * len(row))
        statement = f"INSERT INTO call ({', '.join(row)}) VALUES ({marks})"  # noqa: S608
        # Halves of surrogate pairs cannot be stored.
        values = [_storable(each) if isinstance(each, str) else each for each in row.values()]
        added = self._run(statement, values).lastrowid
        self._prune()
        return int(added or 0)

    def _prune(self) -> None:
        entries, kept = self._run("SELECT count(*), coalesce(sum(kept), 0) FROM call").fetchone()
        while entries > ENTRIES_MOST or kept > BYTES_MOST:
            oldest = self._run(
                "SELECT id, kept FROM call WHERE pinned = 0 ORDER BY id LIMIT 1"
            ).fetchone()
            if oldest is None:
                return
            self._run("DELETE FROM call WHERE id = ?", (oldest[0],))
            entries, kept = entries - 1, kept - oldest[1]

    def entries(
        self, *, target: str | None, text: str = "", pinned: bool = False, count: int = 100
    ) -> list[HistoryEntry]:
        """Return calls without their texts, the newest first.

        Args:
            target: the key of a server; None for all.
            text: occurs in the name, the note or the arguments, in any case.
            pinned: whether only pinned ones are returned, in their order.
            count: the most.
        """
        where, values = ["1"], list[object]()
        if target is not None:
            where.append("target = ?")
            values.append(target)
        if pinned:
            where.append("pinned = 1")
        if text:
            where.append("instr(lower(name || ' ' || note || ' ' || arguments), lower(?))")
            values.append(_storable(text))
        rows = self._run(
            f"SELECT {_COLUMNS}, '' AS arguments, '' AS response FROM call "  # noqa: S608
            f"WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?",
            (*values, count),
        )
        return [_entry(row) for row in rows]

    def entry(self, id: int) -> HistoryEntry | None:
        """Return a call with its texts."""
        row = self._run(
            f"SELECT {_COLUMNS}, arguments, response FROM call WHERE id = ?",  # noqa: S608
            (id,),
        ).fetchone()
        return None if row is None else _entry(row)

    def recent(self, target: str, kind: str, name: str, count: int) -> list[HistoryEntry]:
        """Return the newest calls of one tool, prompt, resource or method, with their texts."""
        rows = self._run(
            f"SELECT {_COLUMNS}, arguments, '' AS response FROM call "  # noqa: S608
            "WHERE target = ? AND kind = ? AND name = ? ORDER BY id DESC LIMIT ?",
            (target, kind, _storable(name), count),
        )
        return [_entry(row) for row in rows]

    def pin(self, id: int, *, on: bool) -> bool:
        """Pin a call, so that it stays; return whether it is there."""
        return self._run("UPDATE call SET pinned = ? WHERE id = ?", (on, id)).rowcount > 0

    def write_note(self, id: int, note: str) -> bool:
        """Set the note of a call; return whether it is there."""
        values = (_storable(note[:NOTE_MOST]), id)
        return self._run("UPDATE call SET note = ? WHERE id = ?", values).rowcount > 0

    def delete(self, id: int) -> bool:
        """Remove a call; return whether it was there."""
        return self._run("DELETE FROM call WHERE id = ?", (id,)).rowcount > 0

    def delete_all(self, target: str) -> int:
        """Remove all calls of a server; return how many."""
        return self._run("DELETE FROM call WHERE target = ?", (target,)).rowcount


_HOW: Final[dict[str, Any]] = {
    "isolation_level": None,
    "check_same_thread": False,
    "timeout": _BUSY,
}


def _open_file(path: Path) -> sqlite3.Connection:
    """Open the file; a new one, and a new folder, can be read by their owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if sys.platform != "win32":
        path.chmod(0o600)
    db = sqlite3.connect(path, **_HOW)
    try:
        # Functions that a file names are not called.
        db.execute("PRAGMA trusted_schema = OFF")
        _demand_own(db)
        _write_ahead(db)
        db.execute("PRAGMA synchronous = NORMAL")
        return _prepare(db)
    except BaseException:
        db.close()
        raise


def _write_ahead(db: sqlite3.Connection) -> None:
    """Choose the journal that lets an inspector read while another one writes."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            # SQLite does not wait for this change as it does for all others.
            if "locked" not in str(error) or attempt == _ATTEMPTS:
                raise
            time.sleep(_BUSY / _ATTEMPTS)
        else:
            return


def _demand_own(db: sqlite3.Connection) -> None:
    """Check that the file is a history of the inspector, and not of a newer one."""
    (count,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not count:
        return
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if mark != _APPLICATION_ID:
        raise sqlite3.DatabaseError("it is a database of another program")
    if version > _VERSION:
        raise sqlite3.DatabaseError("a newer accord wrote it; upgrade accord")
    (triggers,) = db.execute(
        "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')"
    ).fetchone()
    if triggers:
        raise sqlite3.DatabaseError("it has triggers or views, which accord did not make")


def _prepare(db: sqlite3.Connection) -> sqlite3.Connection:
    (mark,) = db.execute("PRAGMA application_id").fetchone()
    if mark != _APPLICATION_ID:
        db.execute("BEGIN IMMEDIATE")
        for statement in _TABLES:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute("COMMIT")
    db.row_factory = sqlite3.Row
    return db


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _entry(row: sqlite3.Row) -> HistoryEntry:
    values = dict(row)
    values["at"] = values.pop("started")
    values["is_error"], values["pinned"] = bool(values["is_error"]), bool(values["pinned"])
    for name in ("masked", "cut"):
        values[name] = msgspec.json.decode(values[name], type=list[str])
    return HistoryEntry(**values)


def _describe(error: Exception) -> str:
    said = str(error)
    plain = said.lower()
    if isinstance(error, OSError):
        return error.strerror or said
    if "locked" in plain or "busy" in plain:
        return f"another program has been writing to it for {_BUSY:.0f} seconds"
    if "not a database" in plain:
        return "it is not a SQLite database"
    if "readonly" in plain or "unable to open" in plain:
        return "it cannot be written"
    return said
