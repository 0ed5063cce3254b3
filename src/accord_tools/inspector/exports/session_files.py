"""The log of a session as a file: a trace, JSON, HAR, text or a report. Secrets in it are masked.

Also the clauses that were broken as a text for an issue.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from accord.cli.terminal import escape_unprintable
from accord.errors import TraceError
from accord.testing.recording import create_next
from accord.trace import HttpFacts
from accord.types import JsonObject, RevisionId
from accord.version import __version__
from accord_tools.check.trace_check import replay
from accord_tools.inspector.log.log_entry import LogEntry
from accord_tools.inspector.log.message_log import (
    MAIN,
    BrokenClause,
    InspectedLog,
    trace_records,
    write_trace,
)
from accord_tools.inspector.session import InspectedSession
from accord_tools.reports.clauses import clause_of
from accord_tools.reports.html import as_html
from accord_tools.reports.markdown import code_span, escape_markdown

_SIGNS = {"client": "-->", "server": "<--", "stderr": "err"}


def rows_of(log: InspectedLog) -> Iterator[LogEntry]:
    """Yield the rows that are kept, the oldest first; rows may leave meanwhile."""
    for number in range(log.first_kept, log.next_number):
        entry = log.get(number)
        if entry is not None:
            yield entry


def session_as_trace(log: InspectedLog) -> Iterator[bytes]:
    """Yield the lines of a trace, which `accord check trace` reads."""
    main = log.main
    return write_trace(log, MAIN if main is None else main.name)


# -- JSON


def session_as_json(log: InspectedLog, about: JsonObject) -> Iterator[bytes]:
    """Yield a JSON document with all rows and their verdicts."""
    head = {"accord": __version__, **about}
    yield b"{" + json.dumps(head, ensure_ascii=False).encode()[1:-1] + b', "rows": ['
    separator = b"\n"
    for entry in rows_of(log):
        yield separator + json.dumps(_json_row(entry), ensure_ascii=False).encode(errors="replace")
        separator = b",\n"
    yield b"\n]}\n"


def _json_row(entry: LogEntry) -> JsonObject:
    row: JsonObject = {
        "n": entry.number,
        "at": None if entry.at is None else iso_time(entry.at),
        "from": entry.sender,
        "conversation": entry.conversation,
        "kind": entry.kind,
        "method": entry.method,
        # As text, so that no reader loses digits of its numbers.
        "text": entry.body.decode(errors="replace"),
        "breaches": [
            {
                "requirement": each.requirement,
                "severity": each.severity,
                "party": each.party,
                "why": each.why,
                "place": each.place,
            }
            for each in entry.breaches
        ],
        "kept": list(entry.kept_clauses),
    }
    if entry.http is not None:
        row["http"] = {
            "method": entry.http.method,
            "status": entry.http.status,
            "headers": dict(entry.http.headers),
        }
    return row


def iso_time(at: float) -> str:
    """Return a time as text; a recording may name one that no calendar has."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat(timespec="milliseconds")


# -- text


def session_as_text(log: InspectedLog) -> Iterator[bytes]:
    """Yield a line for each row, and below it the clauses that it breaks."""
    for entry in rows_of(log):
        where = "" if entry.conversation == MAIN else f" [{entry.conversation}]"
        what = " ".join(filter(None, [entry.method, entry.brief])) or entry.kind
        at = "" if entry.t is None else f"{entry.t:.3f}"
        line = f"{entry.number:>6} {at:>10} {_SIGNS[entry.sender]}{where} {what}"
        yield f"{escape_unprintable(line)}\n".encode(errors="replace")
        if entry.has_body and entry.body:
            body = escape_unprintable(entry.body.decode(errors="replace"))
            yield f"{'':>18}{body}\n".encode(errors="replace")
        for each in entry.breaches:
            said = escape_unprintable(f"{each.party} {each.why}")
            yield f"{'':>18}{each.severity.upper()} {each.requirement}: {said}\n".encode(
                errors="replace"
            )


def session_as_report(session: InspectedSession) -> bytes:
    """Return the report as a page. It takes a while: call it in a thread.

    Raises:
        TraceError: the log has no message of the newest connection.
    """
    log = session.part(InspectedLog)
    main = log.main
    # The report names the lines of the trace.
    records = (
        replace(record, number=number)
        for number, record in enumerate(trace_records(log, MAIN if main is None else main.name), 1)
    )
    report = replay(records, target=session.target.name)
    return as_html(report).encode(errors="replace")


def write_reports(sessions: Iterable[InspectedSession], path: Path) -> list[Path]:
    """Write a report for each session that has messages; returns the files.

    Args:
        sessions: what was inspected.
        path: of the first file, others are `name-2` and so on; one that exists is left alone.

    Raises:
        OSError: a file cannot be created or written.
    """
    written = []
    for session in sessions:
        try:
            page = session_as_report(session)
        except TraceError:
            continue  # nothing was said
        chosen, file = create_next(path)
        with file:
            file.write(page)
        written.append(chosen)
    return written


CLAUSES_MOST: Final = 100
"""The most clauses in one text."""
_EVIDENCE: Final = 600


def breaches_as_text(
    log: InspectedLog, title: str, revision: RevisionId, command: tuple[str, str] | None
) -> str:
    """Return the broken clauses, each with a message that breaks it, in Markdown.

    Args:
        log: of the session.
        title: of the server.
        revision: that is spoken.
        command: the command line that checks the server again, up to its options, and what follows
            them; None if the server cannot be reached again.
    """
    order = sorted(_find_broken(log), key=lambda each: (each.severity != "fail", each.first))
    lines = [f"# {escape_markdown(title)}: broken clauses of the Model Context Protocol", ""]
    lines.append(f"Revision {revision}. {_count_breaches(order)}")
    for clause in order[:CLAUSES_MOST]:
        lines += ["", *_describe_breach(log, clause, revision)]
        if command is not None and clause.party == "server":
            again = f"{command[0]} --only {clause.requirement} --revision {revision}{command[1]}"
            lines.append(f"- check again: {code_span(again)}")
    if len(order) > CLAUSES_MOST:
        lines += ["", f"And {len(order) - CLAUSES_MOST} more."]
    return "\n".join(lines) + "\n"


def _find_broken(log: InspectedLog) -> list[BrokenClause]:
    """Return the broken clauses without those that a person broke with a raw message."""
    found: dict[tuple[str, str], BrokenClause] = {}
    for row in rows_of(log):
        for each in row.breaches:
            if each.party == "client" and row.conversation.startswith("raw-"):
                continue
            key = (each.requirement, each.party)
            known = found.get(key)
            if known is None:
                found[key] = BrokenClause(
                    each.requirement, each.severity, each.party, 1, row.number, each.why
                )
            else:
                known.count += 1
    listed = {each.requirement for each in found.values()}
    # Of rows that left the log, the clauses are still known.
    left = (each for each in log.broken.values() if each.first < log.first_kept)
    return [*found.values(), *(each for each in left if each.requirement not in listed)]


def _count_breaches(order: list[BrokenClause]) -> str:
    if not order:
        return "No message broke a clause."
    failures = sum(each.severity == "fail" for each in order)
    return f"{failures} clauses fail, {len(order) - failures} warn."


def _describe_breach(
    log: InspectedLog, clause: BrokenClause, revision: RevisionId
) -> Iterator[str]:
    stated = clause_of(clause.requirement, revision)
    times = "once" if clause.count == 1 else f"{clause.count} times"
    yield f"## {clause.requirement} ({clause.severity})"
    yield ""
    yield f"- the {clause.party} {escape_markdown(clause.why)} ({times})"
    if stated.mend:
        yield f"- clause ({stated.level}): {escape_markdown(stated.text)}"
        if stated.page:
            yield f"- specification: {stated.page}"
        yield f"- to mend it: {escape_markdown(stated.mend)}"
    entry = log.get(clause.first)
    if entry is not None and entry.body:
        text = " ".join(entry.body.decode(errors="replace").split())
        shown = text if len(text) <= _EVIDENCE else f"{text[:_EVIDENCE]}..."
        yield f"- message {entry.number}, from the {entry.sender}: {code_span(shown)}"


class _HttpExchange:
    """A request and what was recorded of its response."""

    def __init__(self, request: LogEntry) -> None:
        self.request = request
        self.answers: list[LogEntry] = []


def session_as_har(log: InspectedLog, url: str) -> Iterator[bytes]:
    """Yield an archive of all HTTP exchanges in the log.

    Args:
        log: of a session over HTTP.
        url: of the server, without secrets; requests were recorded without their host.
    """
    yield b'{"log": {"version": "1.2", "creator": '
    yield json.dumps({"name": "accord", "version": __version__}).encode()
    yield b', "entries": ['
    separator = b"\n"
    for each in _http_exchanges(log):
        entry = json.dumps(_har_entry(each, url), ensure_ascii=False)
        yield separator + entry.encode(errors="replace")
        separator = b",\n"
    yield b"\n]}}\n"


def _http_exchanges(log: InspectedLog) -> list[_HttpExchange]:
    found: dict[tuple[str, int, str], _HttpExchange] = {}
    for row in rows_of(log):
        if row.http is None or row.http.exchange is None:
            continue
        key = (row.conversation, row.part, row.http.exchange)
        if row.http.status is None and row.sender == "client":
            found.setdefault(key, _HttpExchange(row))
        elif key in found:
            found[key].answers.append(row)
    return list(found.values())


def _har_entry(exchange: _HttpExchange, url: str) -> JsonObject:
    request, answers = exchange.request, exchange.answers
    facts = request.http or HttpFacts()
    milliseconds = _milliseconds(request, answers[-1:])
    wait = _milliseconds(request, answers[:1])
    at = iso_time(request.at or 0.0)
    return {
        "startedDateTime": at,
        "time": round(milliseconds, 3),
        "request": _har_request(request, facts, url),
        "response": _har_response(answers),
        "cache": {},
        "timings": {
            "send": 0,
            "wait": round(wait, 3),
            "receive": round(max(0.0, milliseconds - wait), 3),
        },
    }


def _milliseconds(request: LogEntry, answers: list[LogEntry]) -> float:
    """Return the time from a request to a part of its answer; 0 if a recording has no times."""
    came = answers[0].t if answers else None
    return 0.0 if came is None or request.t is None else max(0.0, (came - request.t) * 1000)


def _har_request(row: LogEntry, facts: HttpFacts, url: str) -> JsonObject:
    parts = urlsplit(url)
    query = f"?{facts.query}" if facts.query else ""
    made: JsonObject = {
        "method": facts.method or "POST",
        "url": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{facts.path or '/'}{query}",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _har_headers(facts),
        "queryString": [
            {"name": name, "value": value}
            for name, value in parse_qsl(facts.query or "", keep_blank_values=True)
        ],
        "headersSize": -1,
        "bodySize": facts.size if facts.size is not None else len(row.body),
    }
    if row.has_body and row.body:
        made["postData"] = {
            "mimeType": facts.headers.get("content-type", ""),
            "text": row.body.decode(errors="replace"),
        }
    return made


def _har_response(rows: list[LogEntry]) -> JsonObject:
    head = next((row.http for row in rows if row.http is not None and row.http.headers), None)
    head = head or next((row.http for row in rows if row.http is not None), HttpFacts())
    status = head.status or 0
    text = "".join(_har_body(row) for row in rows)
    content: dict[str, Any] = {
        "size": len(text.encode(errors="replace")),
        "mimeType": head.headers.get("content-type", ""),
    }
    if text:
        content["text"] = text
    return {
        "status": status,
        "statusText": _reason(status),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _har_headers(head),
        "content": content,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }


def _har_body(row: LogEntry) -> str:
    """Return a part of a body: an event of a stream, or all of it."""
    facts = row.http or HttpFacts()
    text = row.body.decode(errors="replace") if row.has_body else facts.data or ""
    if facts.event is None:
        return text
    lines = [f"event: {facts.event}"]
    if facts.id is not None:
        lines.append(f"id: {facts.id}")
    lines += [f"data: {line}" for line in text.splitlines() or [""]]
    return "\n".join(lines) + "\n\n"


def _har_headers(facts: HttpFacts) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in facts.headers.items()]


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
