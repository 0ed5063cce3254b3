"""The SQLite database of a history: opened, brought up to date, never destroyed.

Every part that repeats (see `packing`) is a row of its own, found by its digest. Times are ISO 8601
in UTC. A query of your own, such as which server failed a requirement in which runs:

    SELECT run.started, server.name, verdict.message
    FROM verdict JOIN result ON result.verdicts = verdict.list
    JOIN server ON server.id = result.server JOIN run ON run.id = result.run
    WHERE verdict.requirement = 'tools.call.content-array'
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from time import sleep
from typing import Any, Final, TypeVar

import msgspec

from accord_tools.fleet.definition import FleetError

# -- tables

APPLICATION_ID: Final = 0x61636664
"""Marks the file as a history of a fleet; other programs' databases are left alone."""

_FIRST: Final = """
CREATE TABLE rule_set (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    version TEXT NOT NULL,
    ids BLOB NOT NULL
);
CREATE TABLE verdict_list (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    rules INTEGER NOT NULL REFERENCES rule_set,
    letters BLOB NOT NULL,
    others BLOB NOT NULL
);
CREATE TABLE verdict (
    list INTEGER NOT NULL REFERENCES verdict_list ON DELETE CASCADE,
    position INTEGER NOT NULL,
    requirement TEXT NOT NULL,
    verdict TEXT NOT NULL,
    level TEXT NOT NULL,
    message TEXT NOT NULL,
    revisions TEXT NOT NULL,
    evidence TEXT NOT NULL,
    accepted TEXT NOT NULL,
    pending INTEGER NOT NULL,
    PRIMARY KEY (list, position)
) WITHOUT ROWID;
CREATE TABLE finding_list (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE
);
CREATE TABLE finding (
    list INTEGER NOT NULL REFERENCES finding_list ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id TEXT NOT NULL,
    severity TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    server TEXT NOT NULL,
    source TEXT NOT NULL,
    accepted TEXT NOT NULL,
    PRIMARY KEY (list, position)
) WITHOUT ROWID;
CREATE TABLE test_list (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    names BLOB NOT NULL
);
CREATE TABLE surface (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    entries BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE wording (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    texts BLOB NOT NULL
);
CREATE TABLE report (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    wording INTEGER NOT NULL REFERENCES wording,
    body BLOB NOT NULL
);
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fleet TEXT NOT NULL,
    file TEXT NOT NULL,
    file_digest TEXT NOT NULL,
    started TEXT NOT NULL,
    seconds REAL NOT NULL,
    accord TEXT NOT NULL,
    rules INTEGER NOT NULL REFERENCES rule_set,
    rules_version TEXT NOT NULL,
    git_commit TEXT NOT NULL,
    git_branch TEXT NOT NULL,
    is_dirty INTEGER NOT NULL,
    ci_url TEXT NOT NULL,
    host TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    exit INTEGER NOT NULL,
    notes TEXT NOT NULL,
    left_out TEXT NOT NULL,
    findings INTEGER REFERENCES finding_list,
    is_finished INTEGER NOT NULL,
    regressions INTEGER,
    comparison BLOB NOT NULL
);
CREATE TABLE server (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    first_seen TEXT NOT NULL,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE result (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    server INTEGER NOT NULL REFERENCES server,
    state TEXT NOT NULL,
    revision TEXT,
    score REAL,
    exercised INTEGER NOT NULL,
    applicable INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    warnings INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    tests_passed INTEGER NOT NULL,
    tests_failed INTEGER NOT NULL,
    tests_skipped INTEGER NOT NULL,
    start_ms INTEGER,
    call_ms_median INTEGER,
    call_ms_95 INTEGER,
    seconds REAL NOT NULL,
    tools INTEGER NOT NULL,
    resources INTEGER NOT NULL,
    templates INTEGER NOT NULL,
    prompts INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    owner TEXT NOT NULL,
    tags TEXT NOT NULL,
    server_version TEXT NOT NULL,
    cache_key TEXT NOT NULL,
    reused_from TEXT NOT NULL,
    verdicts INTEGER REFERENCES verdict_list,
    findings INTEGER REFERENCES finding_list,
    tests INTEGER REFERENCES test_list,
    surface INTEGER REFERENCES surface,
    report INTEGER REFERENCES report,
    details BLOB NOT NULL,
    UNIQUE (run, server)
);
CREATE INDEX result_of_server ON result (server, run);
"""

STEPS: Final[tuple[str, ...]] = (_FIRST,)
"""The steps; `user_version` of a database says how many it has taken. Only ever append."""

TABLES: Final = tuple(re.findall(r"CREATE TABLE (\w+)", " ".join(STEPS)))
"""The names of all tables."""

# Tables of parts, with the columns that refer to them, in an order in which they can be emptied.
PART_TABLES: Final = {
    "verdict_list": (("result", "verdicts"),),
    "finding_list": (("result", "findings"), ("run", "findings")),
    "test_list": (("result", "tests"),),
    "surface": (("result", "surface"),),
    "report": (("result", "report"),),
    "wording": (("report", "wording"),),
    "rule_set": (("run", "rules"), ("verdict_list", "rules")),
    "server": (("result", "server"),),
}


# -- the database

# Seconds to wait for another run that writes at the same moment.
_BUSY: Final = 30.0
_ATTEMPTS: Final = 100
_OTHERWISE: Final = "name another file with --history, or use --no-history"


class HistoryDatabase:
    """A connection to the database; each change is one transaction.

    Args:
        path: the file, which is created if it is missing; None keeps everything in memory.
        steps: what brings the tables up to date, one step for each version.

    Raises:
        FleetError: the file cannot be used; says why, and what to do. It is left as it is.
    """

    def __init__(self, path: Path | None, steps: Sequence[str] = STEPS) -> None:
        self.path = path
        self._steps = steps
        if path is not None:
            _demand_place(path)
        with self.explain():
            self._db = sqlite3.connect(
                ":memory:" if path is None else str(path),
                isolation_level=None,
                check_same_thread=False,
                timeout=_BUSY,
            )
        try:
            with self.explain():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        # Functions that a file names are not called.
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._demand_own()
        if self.path is not None:
            self._choose_journal()
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA synchronous = NORMAL")
        if self._version() < len(self._steps):
            with self.transaction():
                # Another process may have done it in the meantime.
                self._demand_own()
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
        if version > len(self._steps):
            raise self._error(
                f"was written by a newer accord (format {version}, this one knows up to "
                f"{len(self._steps)})",
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
        marks = ", ".join("?" * len(TABLES))
        found = self.row(
            f"""SELECT type, name FROM sqlite_master WHERE type = 'trigger'
            OR (type = 'view' AND lower(name) IN ({marks}))""",  # noqa: S608  # only marks
            *TABLES,
        )
        return "" if found is None else f"{found['type']} {str(found['name'])[:80]}"

    def _version(self) -> int:
        return int(self.value("PRAGMA user_version"))

    def _upgrade(self) -> None:
        for number, step in enumerate(self._steps[self._version() :], self._version() + 1):
            # Not executescript, which would commit what was done before it.
            for statement in filter(str.strip, step.split(";")):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {number}")
        self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    # -- use

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one transaction: all of it is kept, or nothing.

        Raises:
            FleetError: the database cannot be written; says why.
        """
        with self.explain():
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
        with self.explain():
            cursor = self._db.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(query, values).fetchall()

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """Return the first row that a query finds."""
        found = self.rows(query, *values)
        return found[0] if found else None

    def value(self, query: str, *values: object) -> Any:
        """Return the first column of the first row; None without one."""
        found = self.row(query, *values)
        return None if found is None else found[0]

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement; return how many rows it changed."""
        with self.explain():
            return self._db.execute(statement, values).rowcount

    def insert(self, table: str, **columns: object) -> int:
        """Add a row; return its id."""
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        with self.explain():
            return int(self._db.execute(statement, tuple(columns.values())).lastrowid or 0)

    def insert_all(self, table: str, columns: int, rows: Iterable[Sequence[object]]) -> None:
        """Add rows, each with all columns of the table."""
        marks = ", ".join("?" * columns)
        with self.explain():
            self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608

    def shrink(self) -> None:
        """Give the space of removed rows back."""
        with self.explain():
            self._db.execute("VACUUM")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the connection; the last one also tidies up the files beside the database."""
        self._db.close()

    # -- errors

    @contextmanager
    def explain(self) -> Iterator[None]:
        """Turn errors of SQLite into a FleetError that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(*_describe(str(error))) from None

    def _error(self, cause: str, advice: str) -> FleetError:
        return FleetError(f"history {self.path or 'in memory'}: {cause}; {advice}")


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


# -- histories that others changed: errors say which file is damaged, and what to do

T = TypeVar("T", bound=type)

# What stored values of a wrong type, length or form lead to.
_DAMAGE: Final = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError),
    *(ValueError, msgspec.MsgspecError),
)
# They work on runs that are known to be whole.
_OTHERS: Final = frozenset({"close", "compare", "save_run"})


def explain_damage(kind: T) -> T:
    """Let the methods that read a history raise a FleetError that names the file."""
    for name, method in list(vars(kind).items()):
        is_read = name == "__init__" or not name.startswith("_")
        if callable(method) and is_read and name not in _OTHERS:
            setattr(kind, name, _with_explanation(method))
    return kind


def _with_explanation(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except FleetError:
            raise
        except _DAMAGE as error:
            raise FleetError(
                f"history {self.place}: is damaged ({type(error).__name__}: {str(error)[:200]}); "
                "restore it from a copy, or move it away to begin a new one"
            ) from error

    return call
