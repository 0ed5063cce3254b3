"""The log of a session as a file: a trace, JSON, HAR or text. Secrets in it are masked."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from accord.cli.terminal import escape_unprintable
from accord.types import JsonObject
from accord.version import __version__
from accord_tools.inspector.log.entry import LogEntry
from accord_tools.inspector.log.message_log import MAIN, InspectedLog, write_trace

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
        yield separator + json.dumps(_row(entry), ensure_ascii=False).encode(errors="replace")
        separator = b",\n"
    yield b"\n]}\n"


def _row(entry: LogEntry) -> JsonObject:
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
