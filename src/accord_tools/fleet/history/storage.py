"""Runs as rows of the database: columns for queries, and a compressed document of JSON each.

Verdicts are letters in the order of the set of rules, and reports have no texts that the catalogue
has as well: these two are most of the size.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from accord.protocol.catalogue import Requirement, catalogue
from accord.protocol.verdict import VerdictName
from accord.types import JsonObject
from accord_tools.fleet.history.database import HistoryDatabase
from accord_tools.fleet.results import (
    FleetRun,
    FleetView,
    RunComparison,
    ServerDocuments,
    ServerResult,
)

# -- documents

LETTERS: Final[Mapping[VerdictName, str]] = {
    "pass": "p",
    "fail": "f",
    "warn": "w",
    "not-applicable": "a",
    "not-exercised": "e",
    "not-recorded": "r",
}
"""One letter for each verdict."""
_NAMES: Final = {letter: name for name, letter in LETTERS.items()}
NOT_ASKED: Final = "."
"""Stands where there is no verdict."""
# No document is larger; a few bytes that someone else compressed may stand for more.
_LARGEST: Final = 96 * 1024 * 1024
# Texts of reports, and what the catalogue calls them.
_TEXTS: Final = {"clause": "text", "mend": "mend"}

Document = TypeVar("Document")


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        run: without its results.
        rules: the sorted ids of the set of rules.
        comparison: with an earlier run.
    """

    run: FleetRun
    rules: tuple[str, ...]
    comparison: RunComparison | None = None


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """A result.

    Attributes:
        result: its verdicts are only those on requirements outside of the set of rules.
        letters: a verdict for each rule of the set, or nothing at all.
    """

    result: ServerResult
    letters: str = ""

    def unpack(self, rules: tuple[str, ...]) -> ServerResult:
        """Return the result with all verdicts."""
        pairs = zip(rules, self.letters, strict=True) if self.letters else ()
        verdicts = {id: _NAMES[letter] for id, letter in pairs if letter != NOT_ASKED}
        return msgspec.structs.replace(self.result, verdicts={**verdicts, **self.result.verdicts})


class StoredCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The catalog in the document of a result; None if only its digests are known."""

    catalog: JsonObject | None = None


class _WholeResult(StoredResult, frozen=True, kw_only=True):
    catalog: JsonObject | None


def pack_result(result: ServerResult, rules: tuple[str, ...], catalog: JsonObject | None) -> bytes:
    """Return the document of a result."""
    rest = dict(result.verdicts)
    found = (rest.pop(id, None) for id in rules)
    letters = "".join(NOT_ASKED if each is None else LETTERS[each] for each in found)
    return pack(
        _WholeResult(
            result=msgspec.structs.replace(result, verdicts=rest),
            letters=letters if len(rest) < len(result.verdicts) else "",
            catalog=catalog,
        )
    )


def pack(document: object) -> bytes:
    """Return a document in its stored form."""
    return zlib.compress(msgspec.json.encode(document))


def unpack(stored: bytes, kind: type[Document]) -> Document:
    """Return a document, or those of its members that a type has.

    Raises:
        zlib.error: it is damaged.
        ValueError: likewise, or it expands without end, or another version of accord wrote it.
    """
    return msgspec.json.decode(expand(stored), type=kind)


def expand(stored: bytes, words: bytes = b"") -> bytes:
    """Return the text of a stored form, which may have been compressed with some words."""
    reader = zlib.decompressobj(zdict=words)
    text = reader.decompress(stored, _LARGEST)
    if reader.unconsumed_tail or not reader.eof:
        raise ValueError("a document is cut off or too large")
    return text


def pack_report(report: bytes) -> bytes:
    """Return a report, which is JSON, in its stored form."""
    return zlib.compress(_edit_report(report, _remove_texts))


def unpack_report(stored: bytes) -> bytes:
    """Return a report; texts of the catalogue are those of this accord."""
    return _edit_report(expand(stored), _add_texts)


def _edit_report(report: bytes, edit: Callable[[dict[str, Any], Requirement], None]) -> bytes:
    """Return a report with each requirement edited; one of another shape is left as it is."""
    known = catalogue()
    try:
        members = msgspec.json.decode(report, type=dict[str, Any])
        for each in members["results"]:
            if each["id"] in known:
                edit(each, known[each["id"]])
    except (msgspec.DecodeError, KeyError, TypeError):
        return report
    return msgspec.json.encode(members)


def _remove_texts(members: dict[str, Any], row: Requirement) -> None:
    for name, attribute in _TEXTS.items():
        if members.get(name) == getattr(row, attribute):
            members.pop(name, None)


def _add_texts(members: dict[str, Any], row: Requirement) -> None:
    for name, attribute in _TEXTS.items():
        members.setdefault(name, getattr(row, attribute))


# -- rows

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


def escape_surrogates(view: FleetView) -> FleetView:
    """Return the same with halves of characters, as names of files may have, escaped."""
    # Documents come from JSON, which has no such halves.
    bare = msgspec.structs.replace(view, documents={})
    found = msgspec.convert(_escape(msgspec.to_builtins(bare)), FleetView)
    return msgspec.structs.replace(found, documents=view.documents)


def _escape(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [_escape(each) for each in value]
    if isinstance(value, dict):
        return {_escape(name): _escape(each) for name, each in value.items()}
    return value
