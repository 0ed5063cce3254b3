"""The HTTP of a session as an archive of the format HAR 1.2."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from accord.trace import HttpFacts
from accord.types import JsonObject
from accord.version import __version__
from accord_tools.inspector.exports.session_files import iso_time, rows_of
from accord_tools.inspector.log.entry import LogEntry
from accord_tools.inspector.log.message_log import InspectedLog


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
    for each in _exchanges(log):
        entry = json.dumps(_entry(each, url), ensure_ascii=False)
        yield separator + entry.encode(errors="replace")
        separator = b",\n"
    yield b"\n]}}\n"


def _exchanges(log: InspectedLog) -> list[_HttpExchange]:
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


def _entry(exchange: _HttpExchange, url: str) -> JsonObject:
    request, answers = exchange.request, exchange.answers
    facts = request.http or HttpFacts()
    milliseconds = _milliseconds(request, answers[-1:])
    wait = _milliseconds(request, answers[:1])
    at = iso_time(request.at or 0.0)
    return {
        "startedDateTime": at,
        "time": round(milliseconds, 3),
        "request": _request(request, facts, url),
        "response": _response(answers),
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


def _request(row: LogEntry, facts: HttpFacts, url: str) -> JsonObject:
    parts = urlsplit(url)
    query = f"?{facts.query}" if facts.query else ""
    made: JsonObject = {
        "method": facts.method or "POST",
        "url": f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{facts.path or '/'}{query}",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(facts),
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


def _response(rows: list[LogEntry]) -> JsonObject:
    head = next((row.http for row in rows if row.http is not None and row.http.headers), None)
    head = head or next((row.http for row in rows if row.http is not None), HttpFacts())
    status = head.status or 0
    text = "".join(_body(row) for row in rows)
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
        "headers": _headers(head),
        "content": content,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }


def _body(row: LogEntry) -> str:
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


def _headers(facts: HttpFacts) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in facts.headers.items()]


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
