"""Writes runs to the database."""

from typing import Final

import msgspec

from accord_tools.fleet.history.database import HistoryDatabase
from accord_tools.fleet.history.documents import StoredRun, pack, pack_report, pack_result
from accord_tools.fleet.results import FleetView, ServerDocuments, ServerResult

# How many reports of each server are kept, beside the first one of each month.
KEPT_REPORTS: Final = 20
# Columns with the attribute of the same name.
_OF_RUN: Final = ("fleet", "file", "started", "seconds", "accord", "exit")
_OF_RESULT: Final = (
    *("owner", "state", "score", "failures", "warnings", "exercised", "applicable", "seconds"),
    *("server_version", "cache_key", "reused_from"),
)


def add_run(
    db: HistoryDatabase, view: FleetView, rules: tuple[str, ...], *, is_finished: bool
) -> int:
    """Store a run with its results; return its id, which is new unless the run has one.

    Raises:
        UnicodeEncodeError: a text has halves of characters; nothing was stored then.
        FleetError: it cannot be written; says why.
    """
    run, compared = view.run, view.comparison
    bare = msgspec.structs.replace(run, results=())
    columns = {
        "id": run.id or None,
        **{name: getattr(run, name) for name in _OF_RUN},
        "rules": run.rules.version,
        "rules_digest": run.rules.digest,
        "git_commit": run.origin.git_commit,
        "git_branch": run.origin.git_branch,
        "is_dirty": run.origin.is_dirty,
        "left_out": msgspec.json.encode(run.left_out).decode(),
        "is_finished": is_finished,
        "regressions": None if compared is None else len(compared.regressions),
        "document": pack(StoredRun(run=bare, rules=rules, comparison=compared)),
    }
    documents = [view.documents.get(each.name, ServerDocuments()) for each in run.results]
    results = [
        _result_columns(each, rules, given)
        for each, given in zip(run.results, documents, strict=True)
    ]
    with db.transaction():
        id = db.insert("runs", **columns)
        for each in results:
            earlier = db.value(
                "SELECT first_seen FROM results WHERE server = ? ORDER BY run DESC LIMIT 1",
                each["server"],
            )
            db.insert("results", run=id, first_seen=earlier or run.started, **each)
            if each["report"] is not None:
                _drop_old_reports(db, each["server"])
    return id


def _result_columns(
    result: ServerResult, rules: tuple[str, ...], documents: ServerDocuments
) -> dict[str, object]:
    start, catalog = result.timing.start, result.catalog
    # A result that was reused has the report of an earlier one.
    is_new = documents.report and not result.reused_from
    return {
        "server": result.name,
        **{name: getattr(result, name) for name in _OF_RESULT},
        "start": None if start is None else round(start, 3),
        "breaches": " ".join(each.requirement for each in result.breaches),
        "catalog": "" if catalog is None else catalog.digest,
        "document": pack_result(result, rules, documents.catalog),
        "report": pack_report(documents.report) if is_new else None,
    }


def _drop_old_reports(db: HistoryDatabase, server: object) -> None:
    """Forget all reports of a server but the newest, and the first of each month."""
    db.execute(
        """WITH kept AS (
            SELECT results.id, row_number() OVER (ORDER BY run DESC) AS age,
                row_number() OVER (PARTITION BY substr(started, 1, 7) ORDER BY run) AS place
            FROM results JOIN runs ON runs.id = run WHERE server = ? AND report IS NOT NULL
        )
        UPDATE results SET report = NULL
        WHERE id IN (SELECT id FROM kept WHERE age > ? AND place > 1)""",
        server,
        KEPT_REPORTS,
    )
