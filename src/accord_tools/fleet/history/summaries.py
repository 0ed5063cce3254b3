"""Short answers of a history, and how fleets and times are compared."""

from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from accord_tools.fleet.results import FleetView, ServerDocuments, ServerResult


class ReusableResult(NamedTuple):
    """A stored result that may stand for a new one, and when it was made."""

    result: ServerResult
    documents: ServerDocuments
    started: str


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in one line.

    Attributes:
        as_expected: how many servers are.
        regressions: None if it was compared with nothing.
        is_finished: False if it was interrupted; it is never compared with then.
    """

    id: int
    fleet: str
    file: str
    started: str
    seconds: float
    accord: str
    rules: str
    git_commit: str
    git_branch: str
    is_dirty: bool
    servers: int
    as_expected: int
    regressions: int | None
    exit: int
    is_finished: bool


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a pruning removed, and the bytes of the file before and after it."""

    removed: int
    kept: int
    size_before: int
    size_after: int


def as_summary(row: Any) -> RunSummary:
    """Return a row of a run, with its numbers of servers, as a summary."""
    flags = {name: bool(row[name]) for name in ("is_dirty", "is_finished")}
    return msgspec.convert({**dict(row), **flags}, RunSummary)


def fleet_key(fleet: str, file: str) -> str:
    """Return what tells the fleets of one history apart: the name, or the name of the file."""
    return fleet or PurePath(file.replace("\\", "/")).name


def read_moment(text: str) -> datetime:
    """Return the moment of an ISO 8601 time; without a time zone it is in UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


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
