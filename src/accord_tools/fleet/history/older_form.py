"""Reads histories of the older form, in which every part that repeats was a row of its own.

Accord wrote it before this form; `convert` moves its runs to the tables of today.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from accord_tools.fleet.history.database import OLDER_TABLES, HistoryDatabase
from accord_tools.fleet.history.storage import (
    LETTERS,
    NOT_ASKED,
    add_run,
    expand,
    pack_report,
)
from accord_tools.fleet.results import (
    FleetRun,
    FleetView,
    RunComparison,
    ServerDocuments,
    ServerResult,
)

# Begins every text that was compressed, so that even short ones became small.
_WORDS: Final = (
    b'","state":"reused","seconds":"text":"","state":"failed","state":"skipped","not_cached":"'
    b'","stderr":["","reasons":["","remarks":["","repeat":"","summary":"","failures":[{"name":"'
    b'"owner":"","tags":[""],"left_processes":[],"flaky":[],"repeated":{},"load_lag":0.0'
    b'"changes":[{"kind":"breaking","subject":"tool ","what":"","before":null,"after":null}],'
    b'"changed_since":"last run","transport":"stdio","transport":"http","target":"https://'
    b'"revisions":["2024-11-05","2025-03-26","2025-06-18","2025-11-25","2026-07-28"],'
    b'"stages":[{"name":"resolve","state":"passed","seconds":0.00},{"name":"start","state":"passed'
    b'","seconds":0.},{"name":"surface","state":"passed","seconds":0.0},{"name":"lint","state":'
    b'"passed","seconds":0.0},{"name":"check","state":"passed","seconds":1},{"name":"test","state"'
    b':"passed","seconds":2},{"name":"measure","state":"passed","seconds":0.},{"name":"stop",'
    b'"state":"passed","seconds":0.0}],"timing":{"start":0.,"ping_median":0.00,"ping_95":0.00,'
    b'"call_median":0.00,"call_95":0.00,"tool":""},"server_name":"'
)
_NAMES: Final = {letter: name for name, letter in LETTERS.items()}


def convert(db: HistoryDatabase) -> None:
    """Move all runs, results and reports to the tables of today, and remove the older tables."""
    reader = _OlderReader(db)
    for row in db.rows("SELECT * FROM run ORDER BY id"):
        view, rules = reader.read_run(row)
        add_run(db, view, rules, is_finished=bool(row["is_finished"]))
    for id, report in reader.read_reports():
        # Of results that share a report it was made for the first.
        db.execute("UPDATE results SET report = ? WHERE id = ?", pack_report(report), id)
    db.execute(
        """UPDATE results SET first_seen =
        (SELECT first_seen FROM server WHERE name = results.server)"""
    )
    for table in OLDER_TABLES:
        db.execute(f"DROP TABLE {table}")


class _OlderReader:
    """Reads runs; parts that several results refer to are read once."""

    def __init__(self, db: HistoryDatabase) -> None:
        self._db = db
        self._part = cache(self._read_part)
        self._rules = cache(self._read_rules)
        self._wording = cache(self._read_wording)

    def read_run(self, row: Any) -> tuple[FleetView, tuple[str, ...]]:
        """Return a run with the catalogs of its servers, and the ids of its rules."""
        rules = self._part("rule_set", row["rules"])
        results: list[ServerResult] = []
        documents: dict[str, ServerDocuments] = {}
        for each in self._db.rows(
            """SELECT result.*, server.name FROM result JOIN server ON server.id = result.server
            WHERE run = ? ORDER BY result.id""",
            row["id"],
        ):
            results.append(self._result(each))
            documents[each["name"]] = ServerDocuments(
                catalog=self._decode_part("surface", each["surface"], "body")
            )
        members = {
            **dict(row),
            "rules": {"version": row["rules_version"], "digest": rules["digest"]},
            "origin": {**dict(row), "is_dirty": bool(row["is_dirty"])},
            "findings": self._findings(row["findings"]),
            "notes": msgspec.json.decode(row["notes"]),
            "left_out": msgspec.json.decode(row["left_out"]),
            "results": results,
        }
        compared = row["comparison"]
        view = FleetView(
            run=msgspec.convert(members, FleetRun, from_attributes=True),
            documents=documents,
            comparison=_decode(compared, RunComparison) if compared else None,
        )
        return view, self._rules(row["rules"])

    def read_reports(self) -> Iterator[tuple[int, bytes]]:
        """Yield each report with the id of the result that had it first."""
        for row in self._db.rows(
            """SELECT min(results.id) AS id, result.report FROM result
            JOIN server ON server.id = result.server
            JOIN results ON results.run = result.run AND results.server = server.name
            WHERE result.report IS NOT NULL GROUP BY result.report"""
        ):
            part = self._read_part("report", row["report"])
            yield (
                row["id"],
                _add_texts(expand(part["body"], _WORDS), self._wording(part["wording"])),
            )

    def _read_part(self, table: str, id: int) -> Any:
        found = self._db.row(f"SELECT * FROM {table} WHERE id = ?", id)  # noqa: S608  # our names
        if found is None:
            raise LookupError(f"row {id} of {table} is missing")
        return found

    def _read_rules(self, id: int) -> tuple[str, ...]:
        return tuple(expand(self._part("rule_set", id)["ids"], _WORDS).decode().split())

    def _read_wording(self, id: int) -> dict[str, list[str | None]]:
        return _decode(self._part("wording", id)["texts"], dict[str, list[str | None]])

    def _result(self, row: Any) -> ServerResult:
        details = _decode(row["details"], dict[str, Any])
        verdicts, breaches = self._verdicts(row["verdicts"])
        # Columns have what the details lack.
        members = {
            **details,
            **dict(row),
            "tags": msgspec.json.decode(row["tags"]),
            "tests": {
                **{name: row[f"tests_{name}"] for name in ("passed", "failed", "skipped")},
                "no_time": details.get("tests_no_time", 0),
                "failures": details.get("failed_tests", ()),
                "names": self._decode_part("test_list", row["tests"], "names") or {},
            },
            "verdicts": verdicts,
            "breaches": breaches,
            "findings": self._findings(row["findings"]),
            "surface": self._summary(row),
        }
        return msgspec.convert(members, ServerResult)

    def _verdicts(self, id: int | None) -> tuple[dict[str, str], list[dict[str, Any]]]:
        if id is None:
            return {}, []
        part = self._part("verdict_list", id)
        letters = expand(part["letters"], _WORDS).decode()
        verdicts = {
            rule: _NAMES[letter]
            for rule, letter in zip(self._rules(part["rules"]), letters, strict=True)
            if letter != NOT_ASKED
        }
        others = _decode(part["others"], dict[str, Any]) if part["others"] else {}
        breaches = [
            {
                **dict(row),
                "revisions": row["revisions"].split(),
                "is_pending": bool(row["pending"]),
            }
            for row in self._rows_of("verdict", id)
        ]
        return {**verdicts, **others}, breaches

    def _rows_of(self, table: str, list: int) -> list[Any]:
        query = f"SELECT * FROM {table} WHERE list = ? ORDER BY position"  # noqa: S608  # ours
        return self._db.rows(query, list)

    def _findings(self, id: int | None) -> list[dict[str, Any]]:
        return [dict(row) for row in self._rows_of("finding", id)] if id is not None else []

    def _summary(self, row: Any) -> dict[str, Any] | None:
        if row["surface"] is None:
            return None
        digest = self._part("surface", row["surface"])["digest"]
        entries = self._decode_part("surface", row["surface"], "entries")
        return {**dict(row), "digest": digest, "entries": entries}

    def _decode_part(self, table: str, id: int | None, column: str) -> Any:
        """Return what a part has in a column; None if there is nothing."""
        stored = self._part(table, id)[column] if id is not None else b""
        return _decode(stored, dict[str, Any]) if stored else None


Value = TypeVar("Value")


def _decode(stored: bytes, kind: type[Value]) -> Value:
    return msgspec.json.decode(expand(stored, _WORDS), type=kind)


def _add_texts(body: bytes, texts: dict[str, list[str | None]]) -> bytes:
    """Return a report with the texts of the catalogue, which were apart from it."""
    if not texts:
        return body
    members = msgspec.json.decode(body)
    for each in members["results"]:
        found = zip(("clause", "mend", "anchor"), texts.get(each["id"], ()), strict=False)
        each |= {name: text for name, text in found if text is not None}
    return msgspec.json.encode(members)
