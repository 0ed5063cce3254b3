"""Packed runs and their parts as rows of the database."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec

from accord_tools.fleet.history.database import PART_TABLES, HistoryDatabase
from accord_tools.fleet.history.packing import (
    TRAVELLING,
    CatalogPart,
    FindingPart,
    PackedResult,
    PackedRun,
    Part,
    ReportPart,
    RuleSetPart,
    TestPart,
    TravellingPart,
    VerdictPart,
    WordingPart,
)
from accord_tools.fleet.results import CatalogFinding, RequirementBreach, RunOrigin

Value = TypeVar("Value")

_TABLES: Final[dict[type, str]] = {
    RuleSetPart: "rule_set",
    VerdictPart: "verdict_list",
    FindingPart: "finding_list",
    TestPart: "test_list",
    CatalogPart: "surface",
    WordingPart: "wording",
    ReportPart: "report",
}
# Attributes of a result that name a part, and the table of it; their columns hold its id.
_PARTS: Final = {
    "verdicts": "verdict_list",
    "findings": "finding_list",
    "tests": "test_list",
    "catalog": "surface",
    "report": "report",
}
_RESULT: Final = tuple(
    name
    for name in PackedResult.__struct_fields__
    if name not in _PARTS and name not in ("name", "tags")
)
# The column of each attribute of a result.
_COLUMNS: Final = dict(
    zip(PackedResult.__struct_fields__, PackedResult.__struct_encode_fields__, strict=True)
)
_ORIGIN: Final = RunOrigin.__struct_fields__
_RUN: Final = (
    *("fleet", "file", "file_digest", "started", "seconds", "accord", "rules_version"),
    *("jobs", "exit", "is_finished", "regressions", "comparison"),
)
# How many reports of each server are kept, beside the first one of each month.
KEPT_REPORTS: Final = 20

_JOINS: Final = " ".join(
    f"LEFT JOIN {table} ON {table}.id = result.{_COLUMNS[name]}" for name, table in _PARTS.items()
)
_READ_RESULT: Final = f"""
SELECT {", ".join(f"result.{name}" for name in _RESULT)}, result.tags, server.name AS name,
    {", ".join(f"coalesce({table}.digest, '') AS {name}" for name, table in _PARTS.items())}
FROM result JOIN server ON server.id = result.server
    {_JOINS}
"""  # noqa: S608  # our names


class RunStorage:
    """Writes packed runs and their parts to the database, and reads them."""

    def __init__(self, db: HistoryDatabase) -> None:
        self._db = db

    # -- parts

    def has_part(self, part: Part) -> bool:
        """Return whether a part is stored already, and as completely."""
        row = self._db.row(
            f"SELECT * FROM {_TABLES[type(part)]} WHERE digest = ?",  # noqa: S608  # our names
            part.digest,
        )
        if row is None:
            return False
        return not (isinstance(part, CatalogPart) and part.body and not row["body"])

    def add_part(self, part: Part) -> None:
        """Store a part, unless it is stored already."""
        if self.has_part(part):
            return
        table, db = _TABLES[type(part)], self._db
        columns: dict[str, Any] = {
            name: getattr(part, name)
            for name in part.__struct_fields__
            if name not in ("rules", "wording", "breaches", "findings")
        }
        if isinstance(part, CatalogPart):
            # Where only the digests were known, the body follows.
            db.execute("UPDATE surface SET body = ? WHERE digest = ?", part.body, part.digest)
            if self._id(table, part.digest) is not None:
                return
        if isinstance(part, VerdictPart):
            columns["rules"] = self._id("rule_set", part.rules)
        if isinstance(part, ReportPart):
            columns["wording"] = self._id("wording", part.wording)
        id = db.insert(table, **columns)
        if isinstance(part, VerdictPart):
            db.insert_all("verdict", 10, _rows_of_breaches(id, part.breaches))
        if isinstance(part, FindingPart):
            db.insert_all("finding", 9, _rows_of_findings(id, part.findings))

    def _id(self, table: str, digest: str) -> int | None:
        if not digest:
            return None
        found: int | None = self._db.value(
            f"SELECT id FROM {table} WHERE digest = ?",  # noqa: S608  # our names
            digest,
        )
        return found

    def part(self, digest: str, kind: type[Value]) -> Value | None:
        """Return a part; None if it is not stored."""
        row = self._db.row(
            f"SELECT * FROM {_TABLES[kind]} WHERE digest = ?",  # noqa: S608  # our names
            digest,
        )
        if row is None:
            return None
        columns: dict[str, Any] = {name: row[name] for name in row.keys() if name != "id"}  # noqa: SIM118
        if kind is VerdictPart:
            columns["rules"] = self._db.value(
                "SELECT digest FROM rule_set WHERE id = ?", row["rules"]
            )
            columns["breaches"] = self._breaches(row["id"])
        elif kind is FindingPart:
            columns["findings"] = self._findings(row["id"])
        elif kind is ReportPart:
            columns["wording"] = self._db.value(
                "SELECT digest FROM wording WHERE id = ?", row["wording"]
            )
        return kind(**columns)

    def travelling_parts(self) -> Iterator[TravellingPart]:
        """Yield all parts but reports, those first that others refer to."""
        for kind in TRAVELLING:
            query = f"SELECT digest FROM {_TABLES[kind]} ORDER BY id"  # noqa: S608  # our names
            for row in self._db.rows(query):
                found = self.part(row["digest"], kind)
                if found is not None:
                    yield found

    def _breaches(self, list: int) -> tuple[RequirementBreach, ...]:
        rows = self._db.rows("SELECT * FROM verdict WHERE list = ? ORDER BY position", list)
        return tuple(
            RequirementBreach(
                **{
                    name: row[name]
                    for name in ("requirement", "verdict", "level", "message", "evidence")
                },
                accepted=row["accepted"],
                revisions=tuple(row["revisions"].split()),
                is_pending=bool(row["pending"]),
            )
            for row in rows
        )

    def _findings(self, list: int) -> tuple[CatalogFinding, ...]:
        names = ", ".join(CatalogFinding.__struct_fields__)
        query = f"SELECT {names} FROM finding WHERE list = ? ORDER BY position"  # noqa: S608
        return tuple(CatalogFinding(**dict(row)) for row in self._db.rows(query, list))

    # -- runs

    def has_parts_of(self, line: PackedRun | TravellingPart) -> bool:
        """Return whether everything is stored that a run or a part refers to."""
        if isinstance(line, VerdictPart):
            return self._id("rule_set", line.rules) is not None
        if not isinstance(line, PackedRun):
            return True
        wanted = {("rule_set", line.rules), ("finding_list", line.findings)}
        for each in line.results:
            wanted |= {(table, getattr(each, name)) for name, table in _PARTS.items()}
        return all(self._id(table, digest) is not None for table, digest in wanted if digest)

    def add_run(self, run: PackedRun) -> int:
        """Store a run whose parts are stored; return its id."""
        db = self._db
        id = db.insert(
            "run",
            id=run.id or None,
            **{name: getattr(run, name) for name in _RUN},
            **{name: getattr(run.origin, name) for name in _ORIGIN},
            rules=self._id("rule_set", run.rules),
            findings=self._id("finding_list", run.findings),
            notes=msgspec.json.encode(run.notes).decode(),
            left_out=msgspec.json.encode(run.left_out).decode(),
        )
        for each in run.results:
            db.insert(
                "result",
                run=id,
                server=self._server(each, run.started),
                tags=msgspec.json.encode(each.tags).decode(),
                **{name: getattr(each, name) for name in _RESULT},
                **{
                    _COLUMNS[name]: self._id(table, getattr(each, name))
                    for name, table in _PARTS.items()
                },
            )
            if each.report:
                self._drop_old_reports(each.name)
        self.drop_orphans("report", "wording")
        return id

    def _server(self, result: PackedResult, started: str) -> int:
        """Return the id of a server, with its newest owner and tags."""
        tags = msgspec.json.encode(result.tags).decode()
        found: int | None = self._db.value("SELECT id FROM server WHERE name = ?", result.name)
        if found is None:
            return self._db.insert(
                "server", name=result.name, first_seen=started, owner=result.owner, tags=tags
            )
        self._db.execute(
            "UPDATE server SET owner = ?, tags = ? WHERE id = ?", result.owner, tags, found
        )
        return found

    def _drop_old_reports(self, server: str) -> None:
        """Forget all reports of a server but the newest, and the first of each month."""
        rows = self._db.rows(
            """SELECT result.report, substr(min(run.started), 1, 7) AS month FROM result
            JOIN run ON run.id = result.run JOIN server ON server.id = result.server
            WHERE server.name = ? AND report IS NOT NULL
            GROUP BY report ORDER BY max(run.id) DESC""",
            server,
        )
        first = {row["month"]: row["report"] for row in rows}
        for row in rows[KEPT_REPORTS:]:
            if first[row["month"]] != row["report"]:
                self._db.execute("UPDATE result SET report = NULL WHERE report = ?", row["report"])

    def run(self, id: int) -> PackedRun | None:
        """Return a run; None if it is not stored."""
        row = self._db.row(
            """SELECT run.*, rule_set.digest AS rules_digest,
                coalesce(finding_list.digest, '') AS findings_digest
            FROM run JOIN rule_set ON rule_set.id = run.rules
                LEFT JOIN finding_list ON finding_list.id = run.findings
            WHERE run.id = ?""",
            id,
        )
        if row is None:
            return None
        results = self._db.rows(f"{_READ_RESULT} WHERE result.run = ? ORDER BY result.id", id)
        columns: dict[str, Any] = {name: row[name] for name in _RUN}
        return PackedRun(
            id=id,
            **columns | {"is_finished": bool(row["is_finished"])},
            origin=RunOrigin(
                **{name: row[name] for name in _ORIGIN if name != "is_dirty"},
                is_dirty=bool(row["is_dirty"]),
            ),
            rules=row["rules_digest"],
            findings=row["findings_digest"],
            notes=msgspec.json.decode(row["notes"], type=tuple[str, ...]),
            left_out=msgspec.json.decode(row["left_out"], type=tuple[str, ...]),
            results=tuple(map(_as_result, results)),
        )

    def results(
        self, server: str, where: str = "1", *values: object
    ) -> Iterable[tuple[int, PackedResult]]:
        """Yield the results of a server with the ids of their runs, the newest first.

        Args:
            server: its name.
            where: a condition on the tables `result` and `run`, with `?` for each value.
            values: for the condition.
        """
        ids = self._db.rows(
            f"""SELECT result.id, result.run FROM result JOIN run ON run.id = result.run
            WHERE result.server = (SELECT id FROM server WHERE name = ?) AND {where}
            ORDER BY result.run DESC""",  # noqa: S608  # conditions are ours
            server,
            *values,
        )
        for row in ids:
            found = self._db.row(f"{_READ_RESULT} WHERE result.id = ?", row["id"])
            if found is not None:
                yield row["run"], _as_result(found)

    # -- removal

    def drop_orphans(self, *tables: str) -> None:
        """Remove parts to which nothing refers any more, from all tables unless some are named."""
        for table in tables or PART_TABLES:
            uses = " UNION ".join(
                f"SELECT {column} FROM {user} WHERE {column} IS NOT NULL"  # noqa: S608
                for user, column in PART_TABLES[table]
            )
            self._db.execute(f"DELETE FROM {table} WHERE id NOT IN ({uses})")  # noqa: S608


def _as_result(row: sqlite3.Row) -> PackedResult:
    columns: dict[str, Any] = {name: row[name] for name in (*_RESULT, *_PARTS, "name")}
    return PackedResult(**columns, tags=msgspec.json.decode(row["tags"], type=tuple[str, ...]))


def _rows_of_breaches(
    list: int, breaches: Iterable[RequirementBreach]
) -> Iterator[tuple[object, ...]]:
    for position, each in enumerate(breaches):
        yield (
            *(list, position, each.requirement, each.verdict, each.level, each.message),
            *(" ".join(each.revisions), each.evidence, each.accepted, each.is_pending),
        )


def _rows_of_findings(
    list: int, findings: Iterable[CatalogFinding]
) -> Iterator[tuple[object, ...]]:
    for position, each in enumerate(findings):
        yield (
            *(list, position, each.id, each.severity, each.subject, each.text),
            *(each.server, each.source, each.accepted),
        )
