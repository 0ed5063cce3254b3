"""What the page gets of the log: rows, the details of one, a summary; the actions on it."""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from accord.client.server_spec import ServerSpec
from accord.protocol.revisions import BEFORE_HANDSHAKE
from accord.protocol.verdict import excerpt_of
from accord.trace import HttpFacts
from accord.types import JsonObject, RevisionId
from accord_tools.check.trace_check import decidable
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.log.log_entry import LogEntry, RowBreach
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.row_filter import LogFilters, RowFilter
from accord_tools.inspector.log.timeline import LANES_MOST, show_timeline
from accord_tools.inspector.log.trace_session import open_trace
from accord_tools.reports.clauses import clause_of

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


# Bytes of a message that the page gets.
TEXT_MOST: Final = 2 * 1024 * 1024
_OTHERS_MOST: Final = 20
_RELATED_MOST: Final = 200


def show_row(log: InspectedLog, entry: LogEntry) -> JsonObject:
    """Return a row for the list."""
    return {
        "n": entry.number,
        "at": entry.at,
        "t": 0.0 if entry.t is None else round(entry.t - log.t_start, 6),
        "from": entry.sender,
        "conversation": entry.conversation,
        "kind": entry.kind,
        "method": entry.method,
        "id": entry.id,
        "size": entry.size,
        "took": entry.took,
        "pair": entry.pair or None,
        "call": entry.call,
        "severity": entry.severity,
        "breaches": len(entry.breaches),
        "kept": len(entry.kept_clauses),
        "status": None if entry.http is None else entry.http.status,
        "brief": entry.brief,
        "rule": entry.rule or None,
    }


def show_detail(log: InspectedLog, entry: LogEntry, *, reveal: bool) -> JsonObject:
    """Return everything about one row.

    Args:
        log: that has the row.
        entry: the row.
        reveal: whether secrets are shown.

    Raises:
        ActionRefused: secrets are not to be shown.
    """
    if reveal and not log.options.shows_secrets:
        raise ActionRefused("secrets are not shown: the inspector was started so", field="reveal")
    body, facts = entry.body, entry.http
    if reveal:
        body = body if entry.original is None else entry.original
        facts = entry.original_http or facts
    if not body and facts is not None and facts.data is not None:
        body = facts.data.encode(errors="replace")
    main = log.main
    revision = BEFORE_HANDSHAKE.id if main is None else main.judged_by
    is_cut = len(body) > TEXT_MOST
    return {
        "row": show_row(log, entry),
        "text": body[:TEXT_MOST].decode(errors="replace"),
        "is_json": entry.is_json,
        "is_cut": is_cut,
        "http": None if facts is None else {"lines": http_lines(facts)},
        "breaches": [_show_breach(log, entry, each, revision) for each in entry.breaches],
        "kept": [_show_kept(each, revision) for each in entry.kept_clauses],
        "related": log.find_related(entry, _RELATED_MOST),
        "is_masked": not reveal and _has_masks(entry),
    }


def _has_masks(entry: LogEntry) -> bool:
    """Whether a mask stands in place of a secret, whether or not the secret is still known."""
    if entry.original is not None or entry.original_http is not None:
        return True
    return b"masked-" in entry.body


def _show_breach(
    log: InspectedLog, entry: LogEntry, breach: RowBreach, revision: RevisionId
) -> JsonObject:
    others = log.requirements.get(breach.requirement, log.first_kept, _OTHERS_MOST + 1)
    return {
        "requirement": breach.requirement,
        "severity": breach.severity,
        "party": breach.party,
        "why": breach.why,
        "place": _existing_place(entry, breach.place),
        **_show_clause(breach.requirement, revision),
        "others": [each for each in others if each != entry.number][:_OTHERS_MOST],
    }


def _existing_place(entry: LogEntry, place: str | None) -> str | None:
    """Return a place if the shown text has it; a malformed message may lack it."""
    if place is None or not entry.is_json or len(entry.body) > TEXT_MOST:
        return None
    if place == "":
        return place
    return None if excerpt_of(entry.to_record(), place).mark is None else place


def _show_kept(requirement: str, revision: RevisionId) -> JsonObject:
    shown = {"requirement": requirement, "party": clause_of(requirement, revision).party}
    shown |= _show_clause(requirement, revision)
    del shown["mend"]
    return shown


def _show_clause(requirement: str, revision: RevisionId) -> JsonObject:
    clause = clause_of(requirement, revision)
    return {
        "level": clause.level,
        "clause": clause.text,
        "mend": clause.mend,
        "source": clause.anchor or "",
        "url": clause.page,
    }


def http_lines(facts: HttpFacts) -> list[tuple[str, str]]:
    """Return what HTTP said as names and values: the request line, the status, headers, events."""
    lines: list[tuple[str, str]] = []
    if facts.method is not None:
        query = f"?{facts.query}" if facts.query else ""
        lines.append(("method", f"{facts.method} {facts.path or ''}{query}".rstrip()))
    if facts.status is not None:
        lines.append(("status", str(facts.status)))
    lines += facts.headers.items()
    for name, value in (
        ("event", facts.event),
        ("event id", facts.id),
        ("retry", facts.retry),
        ("stream", facts.stream),
        ("exchange", facts.exchange),
        ("size", facts.size),
        ("ended by", facts.ended),
    ):
        if value is not None:
            lines.append((name, str(value)))
    return lines


def show_counters(log: InspectedLog) -> JsonObject:
    """Return what the log has counted."""
    counters = log.counters
    return {
        "messages": counters.messages,
        "fail": counters.fail,
        "warn": counters.warn,
        "stderr": counters.stderr,
        "dropped": counters.dropped,
        "missed": counters.missed,
    }


def show_summary(log: InspectedLog) -> JsonObject:
    """Return the verdicts of the session so far, failures first."""
    main = log.main
    revision = BEFORE_HANDSHAKE.id if main is None else main.judged_by
    broken = sorted(log.broken.values(), key=lambda each: (each.severity != "fail", each.first))
    held = log.held.difference(log.broken)
    return {
        "counters": show_counters(log),
        "breaches": [
            {
                "requirement": each.requirement,
                "severity": each.severity,
                "party": each.party,
                "count": each.count,
                "first": each.first,
                "why": each.why,
                **_show_clause(each.requirement, revision),
            }
            for each in broken
        ],
        "clauses": {
            "held": len(held),
            "broken": len(broken),
            "untried": len(_decidable(revision).difference(held, log.broken)),
        },
        "record": log.record_name,
        "trouble": log.trouble,
    }


@lru_cache(16)
def _decidable(revision: RevisionId) -> frozenset[str]:
    return frozenset(decidable(revision))


_COUNT_MOST: Final = 1_000
_ALL_ROWS: Final = RowFilter()
_NAME_MOST: Final = 80


@action("log.rows", kinds=READ)
async def list_rows(
    session: "InspectedSession",
    *,
    start: int = -1,
    count: int = 100,
    filter: RowFilter = _ALL_ROWS,
) -> JsonObject:
    """Return rows; a negative start means the last ones."""
    log = session.part(InspectedLog)
    if not 0 <= count <= _COUNT_MOST:
        raise ActionRefused(f"count is {count}, expected 0 to {_COUNT_MOST}", field="count")
    numbers, is_complete = session.part(LogFilters).find(filter)
    total = len(numbers)
    start = max(0, total - count) if start < 0 else min(start, total)
    rows = (log.get(number) for number in numbers[start : start + count])
    if not is_complete:
        # The page asks again, and the search goes on.
        session.mark("log")
    return {
        "total": total,
        "start": start,
        "first_kept": log.first_kept,
        "last": log.last,
        "rows": [show_row(log, each) for each in rows if each is not None],
        "counters": show_counters(log),
        "is_complete": is_complete,
    }


@action("log.timeline", kinds=READ)
async def get_timeline(
    session: "InspectedSession",
    *,
    start: int = -1,
    count: int = LANES_MOST,
    filter: RowFilter = _ALL_ROWS,
) -> JsonObject:
    """Return requests as lanes on a time axis."""
    log = session.part(InspectedLog)
    if not 0 <= count <= LANES_MOST:
        raise ActionRefused(f"count is {count}, expected 0 to {LANES_MOST}", field="count")
    chosen = msgspec.structs.replace(filter, kinds=("request", "batch"))
    numbers, is_complete = session.part(LogFilters).find(chosen)
    total = len(numbers)
    start = max(0, total - count) if start < 0 else min(start, total)
    if not is_complete:
        session.mark("log")
    shown = show_timeline(log, numbers[start : start + count])
    return {**shown, "total": total, "start": start, "is_complete": is_complete}


@action("log.detail", kinds=READ)
async def get_detail(session: "InspectedSession", *, n: int, reveal: bool = False) -> JsonObject:
    """Return everything about one row."""
    log = session.part(InspectedLog)
    entry = log.get(n)
    if entry is None:
        has_left = 0 < n < log.first_kept
        why = "has left the log, which keeps the newest rows" if has_left else "does not exist"
        raise ActionRefused(f"row {n} {why}", field="n")
    return show_detail(log, entry, reveal=reveal)


@action("log.summary", kinds=READ)
async def get_summary(session: "InspectedSession") -> JsonObject:
    """Return the verdicts so far."""
    return show_summary(session.part(InspectedLog))


@action("log.clear", kinds=("live", "watch"))
async def clear_log(session: "InspectedSession") -> None:
    """Forget all rows."""
    session.part(InspectedLog).clear()


@action("trace.open", kinds=READ)
async def open_recording(session: "InspectedSession", *, name: str, text: str) -> JsonObject:
    """Show a recording in a session of its own."""
    if not text.strip():
        raise ActionRefused("the recording is empty", field="text")
    title = name[:_NAME_MOST] or "a recording"
    made = session.add_session(ServerSpec(name=title), "trace")
    made.spawn(open_trace(made, text.encode(errors="replace")))
    return {"target": made.index}
