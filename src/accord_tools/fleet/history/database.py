"""The SQLite database of a history: opened, brought up to date, never destroyed.

Times are ISO 8601 in UTC. A query of your own, such as which server broke a requirement when:

    SELECT runs.started, results.server FROM results JOIN runs ON runs.id = results.run
    WHERE ' ' || results.breaches || ' ' LIKE '% tools.call.content-array %'
"""

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import wraps
from pathlib import Path
from time import sleep
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from accord_tools.fleet.definition import FleetError

# -- tables

APPLICATION_ID: Final = 0x61636664
"""Marks the file as a history of a fleet; other programs' databases are left alone."""

# The documents are compressed JSON, see `storage`; the other columns are for queries.
_TABLES: Final = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fleet TEXT NOT NULL,
    file TEXT NOT NULL,
    started TEXT NOT NULL,
    seconds REAL NOT NULL,
    accord TEXT NOT NULL,
    rules TEXT NOT NULL,
    rules_digest TEXT NOT NULL,
    git_commit TEXT NOT NULL,
    git_branch TEXT NOT NULL,
    is_dirty INTEGER NOT NULL,
    left_out TEXT NOT NULL,
    exit INTEGER NOT NULL,
    is_finished INTEGER NOT NULL,
    regressions INTEGER,
    document BLOB NOT NULL
);
CREATE TABLE results (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    server TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    owner TEXT NOT NULL,
    state TEXT NOT NULL,
    score REAL,
    failures INTEGER NOT NULL,
    warnings INTEGER NOT NULL,
    exercised INTEGER NOT NULL,
    applicable INTEGER NOT NULL,
    start REAL,
    seconds REAL NOT NULL,
    server_version TEXT NOT NULL,
    breaches TEXT NOT NULL,
    catalog TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    reused_from TEXT NOT NULL,
    document BLOB NOT NULL,
    report BLOB,
    UNIQUE (run, server)
);
CREATE INDEX results_of_server ON results (server, run);
CREATE INDEX results_with_catalog ON results (catalog);
"""
FORMAT: Final = 2
"""The `user_version` of a database with these tables; 0 is an empty one, 1 the older form."""
_OLDER: Final = 1
OLDER_TABLES: Final = (
    *("verdict", "finding", "result", "run", "server", "verdict_list", "finding_list"),
    *("test_list", "surface", "report", "wording", "rule_set"),
)
"""The tables of the older form, in an order in which they can be removed."""


# -- the database

# Seconds to wait for another run that writes at the same moment.
_BUSY: Final = 30.0
_ATTEMPTS: Final = 100
_OTHERWISE: Final = "name another file with --history, or use --no-history"

Convert: TypeAlias = Callable[["HistoryDatabase"], None]


class HistoryDatabase:
    """A connection to the database; each change is one transaction.

    Args:
        path: the file, which is created if it is missing; None keeps everything in memory.
        convert: fills the tables from those of the older form, and removes these.

    Attributes:
        notes: remarks on the file, such as that it was converted.

    Raises:
        FleetError: the file cannot be used; says why, and what to do. It is left as it is.
    """

    def __init__(self, path: Path | None, convert: Convert) -> None:
        self.path = path
        self.notes: tuple[str, ...] = ()
        self._convert = convert
        if path is not None:
            _demand_place(path)
        with explain(self.place):
            self._db = self._connect()
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    @property
    def place(self) -> str:
        """The file, for people."""
        return str(self.path or "in memory")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            ":memory:" if self.path is None else str(self.path),
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY,
        )

    def _prepare(self) -> None:
        # Functions that a file names are not called.
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._demand_own()
        if self.path is not None:
            self._choose_journal()
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if self._version() < FORMAT:
            self._upgrade()

    def _choose_journal(self) -> None:
        """Write ahead, so that a run that saves does not stop others that read."""
        for _ in range(_ATTEMPTS):
            try:
                self._db.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                # SQLite does not wait for this change as it does for all others.
                if "locked" not in str(error):
                    raise
                sleep(_BUSY / _ATTEMPTS)
            else:
                return
        raise sqlite3.OperationalError("database is locked")

    def _demand_own(self) -> None:
        """Check that the file is a history, and not of a newer accord."""
        is_empty = self.value("SELECT count(*) FROM sqlite_master") == 0
        if not is_empty and self.value("PRAGMA application_id") != APPLICATION_ID:
            raise self._error("is a database of another program", _OTHERWISE)
        version = self._version()
        if version > FORMAT:
            raise self._error(
                f"was written by a newer accord (format {version}, this one knows up to {FORMAT})",
                f"upgrade accord, or {_OTHERWISE}",
            )
        foreign = self._foreign_schema()
        if foreign:
            raise self._error(f"has the {foreign}, which accord did not make", _OTHERWISE)
        if not is_empty:
            (found,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(str(found)[:200])

    def _foreign_schema(self) -> str:
        """Return what would run when we read or write: a trigger, or a view in place of a table."""
        names = ("runs", "results", *OLDER_TABLES)
        found = self.row(
            f"""SELECT type, name FROM sqlite_master WHERE type = 'trigger'
            OR (type = 'view' AND lower(name) IN ({", ".join("?" * len(names))}))""",  # noqa: S608  # only marks
            *names,
        )
        return "" if found is None else f"{found['type']} {str(found['name'])[:80]}"

    def _version(self) -> int:
        return int(self.value("PRAGMA user_version"))

    def _upgrade(self) -> None:
        copy: Path | None = None
        try:
            with self.transaction():
                # Another process may have done it in the meantime.
                self._demand_own()
                version = self._version()
                if version == FORMAT:
                    return
                # Not executescript, which would commit what was done before it.
                for statement in filter(str.strip, _TABLES.split(";")):
                    self._db.execute(statement)
                if version == _OLDER:
                    self._convert(self)
                    copy = self._copy_committed()
                self._db.execute(f"PRAGMA user_version = {FORMAT}")
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        except BaseException:
            if copy is not None:
                copy.unlink(missing_ok=True)
            raise
        if copy is not None:
            self.notes = (f"{self.path} has a new form now; {copy} is the file as it was",)
            with suppress(sqlite3.Error):  # such as a full disk: the file is whole all the same
                self.shrink()

    def _copy_committed(self) -> Path:
        """Write what other connections see, without the changes under way, to a file beside it."""
        assert self.path is not None  # a new database in memory has no older form
        places = (
            self.path.with_name(f"{self.path.name}.old{each}") for each in ("", *range(2, 99))
        )
        place = next(each for each in places if not each.exists())
        part = place.with_name(f"{place.name}.part")
        part.unlink(missing_ok=True)
        part.touch(self.path.stat().st_mode & 0o777)
        try:
            with closing(self._connect()) as source, closing(sqlite3.connect(part)) as target:
                source.backup(target)
            return part.rename(place)
        finally:
            part.unlink(missing_ok=True)

    # -- use

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction: all of it is kept, or nothing.

        Within another transaction it is a part of that one.

        Raises:
            FleetError: the database cannot be written; says why.
        """
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return the rows that a query finds."""
        return list(self.each_row(query, *values))

    def each_row(self, query: str, *values: object) -> Iterator[sqlite3.Row]:
        """Yield the rows that a query finds, each read when it is asked for."""
        cursor = self._db.cursor()
        cursor.row_factory = sqlite3.Row
        yield from cursor.execute(query, values)

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """Return the first row that a query finds; None without one."""
        return next(self.each_row(query, *values), None)

    def value(self, query: str, *values: object) -> Any:
        """Return the first column of the first row; None without one."""
        found = self.row(query, *values)
        return None if found is None else found[0]

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement; return how many rows it changed."""
        return self._db.execute(statement, values).rowcount

    def insert(self, table: str, **columns: object) -> int:
        """Add a row; return its id."""
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        return int(self._db.execute(statement, tuple(columns.values())).lastrowid or 0)

    def shrink(self) -> None:
        """Give the space of removed rows back."""
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the connection; the last one also tidies up the files beside the database."""
        self._db.close()

    def _error(self, cause: str, advice: str) -> FleetError:
        return FleetError(f"history {self.place}: {cause}; {advice}")


def _demand_place(path: Path) -> None:
    """Check what SQLite would only call "unable to open database file"."""
    if path.is_dir():
        raise FleetError(f"history {path}: is a folder; name a file in it with --history")
    if not path.parent.is_dir():
        raise FleetError(
            f"history {path}: there is no folder {path.parent}; create it, or {_OTHERWISE}"
        )


def _describe(said: str) -> tuple[str, str]:
    """Return the cause of an error of SQLite, and what to do about it."""
    plain = said.lower()
    if "not a database" in plain:
        return "is not a SQLite database", _OTHERWISE
    if "locked" in plain or "busy" in plain:
        return (
            f"another program has been writing to it for {_BUSY:.0f} seconds",
            f"try again when it has ended, or {_OTHERWISE}",
        )
    if "readonly" in plain or "unable to open" in plain:
        return (
            "the file or its folder cannot be written",
            f"change its permissions, or {_OTHERWISE}",
        )
    if "full" in plain:
        return "the disk is full", f"make room with accord fleet prune, or {_OTHERWISE}"
    if "malformed" in plain or "corrupt" in plain or "***" in plain or "tree " in plain:
        return (
            f"is damaged ({said})",
            f"restore it from a copy, or move it away to begin a new one, or {_OTHERWISE}",
        )
    return said, _OTHERWISE


# -- errors say which file is damaged or cannot be used, and what to do

T = TypeVar("T", bound=type)

# What stored values of a wrong type, length or form lead to.
_DAMAGE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError),
    *(ValueError, msgspec.MsgspecError, zlib.error),
)
# They work on runs that are known to be whole.
_WRITERS: Final = frozenset({"compare", "save_run"})


@contextmanager
def explain(place: str, *, is_reading: bool = True) -> Iterator[None]:
    """Turn errors of SQLite, and those of damaged values, into a FleetError that names the file."""
    try:
        yield
    except FleetError:
        raise
    except sqlite3.Error as error:
        cause, advice = _describe(str(error))
        raise FleetError(f"history {place}: {cause}; {advice}") from None
    except _DAMAGE as error:
        if not is_reading:
            raise
        raise FleetError(
            f"history {place}: is damaged ({type(error).__name__}: {str(error)[:200]}); "
            "restore it from a copy, or move it away to begin a new one"
        ) from error


def explain_errors(kind: T) -> T:
    """Let the methods of a class with a `place` raise a FleetError that names it."""
    for name, method in list(vars(kind).items()):
        if callable(method) and not name.startswith("_"):
            setattr(kind, name, _with_explanation(method))
    return kind


def _with_explanation(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        with explain(self.place, is_reading=method.__name__ not in _WRITERS):
            return method(self, *args, **options)

    return call
