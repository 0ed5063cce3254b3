"""What servers answer over Streamable HTTP: statuses, types of bodies, session ids."""

import re
from collections.abc import Callable
from typing import Final

from accord.protocol.jsonrpc import FAULT, INVALID_PARAMS, METHOD_NOT_FOUND, RESULT
from accord.protocol.revisions import REVISIONS
from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.http._rule import LINK, METHOD, PATH, STATUS, HttpJudge, asks, rule, says
from accord.protocol.rules.http.exchanges import (
    EVENT_STREAM,
    JSON,
    LOST,
    OK,
    SESSION,
    VERSION,
    HttpState,
    Moment,
    media_type,
)
from accord.protocol.rules.http.requests import opens

# A revision that a server may know and we do not.
_LATER: Final = re.compile(r"(?i)20(?:2[6-9]|[3-9]\d)-\d\d-\d\d|.*draft.*")
_ACCEPTED: Final = 202
_BAD_REQUEST: Final = 400
_NOT_ALLOWED: Final = 405
_NOTHING_THERE: Final = frozenset({404, 410, 501})
# Answers that come before a server looks at the session.
_BEFORE: Final = frozenset({401, 403, 405, 406, 413, 415, 429})


# -- what a POST is answered with


@rule("http.post.accepted-202", "head", needs=(LINK, STATUS))
def notices_are_accepted(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if exchange.method != "POST" or not exchange.posted.has_only_notices:
        return None
    if facts.status not in OK:
        return None  # it may refuse them, and redirect them
    if facts.status != _ACCEPTED:
        return f"answers {exchange.title} with status {facts.status}, expected 202"
    length = facts.size or facts.header("content-length") or "0"
    has_body = moment.record.message is not None or str(length).strip() != "0"
    return not has_body or f"answers {exchange.title} with status 202 and a body"


@rule("http.post.refused-status", "message", needs=(LINK, STATUS))
def refused_notice_has_an_error_status(moment: Moment, state: HttpState) -> Outcome:
    exchange, frame = moment.exchange, moment.frame
    if exchange.method != "POST" or not exchange.posted.has_only_notices:
        return None
    if frame is None or frame.kind != FAULT:
        return None
    return not exchange.is_ok or (
        f"refuses {exchange.title} with an error and status {exchange.status}"
    )


@rule("http.post.response-content-type", "head", needs=(LINK, STATUS, says("Content-Type")))
def request_is_answered_as_json_or_events(moment: Moment, state: HttpState) -> Outcome:
    exchange, kind = moment.exchange, media_type(moment.facts)
    if exchange.method != "POST" or not exchange.posted.requests or kind is None:
        return None
    if moment.facts.status not in OK:
        return None
    return kind in (JSON, EVENT_STREAM) or (
        f"answers {exchange.title} with status {moment.facts.status} and "
        + (f"Content-Type {kind[:60]}" if kind else "no Content-Type")
    )


# -- what a GET is answered with


@rule("http.get.stream-or-405", "head", needs=(LINK, STATUS, METHOD, PATH, says("Content-Type")))
def get_is_answered_with_events_or_405(moment: Moment, state: HttpState) -> Outcome:
    exchange, status = moment.exchange, moment.facts.status
    if exchange.method != "GET" or exchange.path is None or exchange.posted.frames:
        return None
    if not state.is_at_endpoint(exchange):
        return None
    if status == _NOT_ALLOWED:
        return True
    if status in OK:
        kind = media_type(moment.facts)
        if kind is None:
            return None
        return kind == EVENT_STREAM or f"answers GET with status {status} and {kind or 'no type'}"
    if status in _NOTHING_THERE:
        state.doubtful_get = moment
    return None


@rule(
    "http.endpoint.single-post-get",
    "head",
    needs=(LINK, STATUS, METHOD, PATH, asks("Mcp-Session-Id")),
)
def endpoint_handles_get(moment: Moment, state: HttpState) -> Outcome:
    """A 404 to a GET may mean the session; not if a later POST in the same session succeeds."""
    if moment.exchange.method == "GET" and state.is_at_endpoint(moment.exchange):
        return True if moment.facts.status in (200, _NOT_ALLOWED) else None
    if moment.exchange.method != "POST" or moment.facts.status not in OK:
        return None
    doubtful, state.doubtful_get = state.doubtful_get, None
    if doubtful is None or moment.exchange.request is None or opens(moment.exchange):
        return None
    asked, later = doubtful.exchange.request, moment.exchange.request
    if asked is None or not (asked.knows(SESSION) and later.knows(SESSION)):
        return None
    is_same = asked.header(SESSION) == later.header(SESSION)
    status = doubtful.facts.status
    return f"has nothing at its endpoint for GET (status {status})" if is_same else None


# -- sessions


@rule("session.id.visible-ascii", "head", needs=(says("Mcp-Session-Id"),))
def session_id_is_visible_ascii(moment: Moment, state: HttpState) -> Outcome:
    session = moment.facts.header(SESSION)
    if session is None:
        return None
    # A masked id has blanks where the real one has characters that are not allowed.
    is_visible = bool(session) and all("\x21" <= char <= "\x7e" for char in session)
    return is_visible or "assigns a session id with other characters than visible ASCII"


@rule("session.id.missing-400", "head", needs=(LINK, STATUS, asks("Mcp-Session-Id")))
def missing_session_is_refused_with_400(moment: Moment, state: HttpState) -> Outcome:
    exchange, status = moment.exchange, moment.facts.status
    if exchange.request is None or not exchange.posted.frames or opens(exchange):
        return None
    if not state.sessions or not exchange.request.lacks(SESSION) or status is None:
        return None
    if status < _BAD_REQUEST or status in _BEFORE:
        return None  # a server may do without the id
    return status == _BAD_REQUEST or (
        f"answers {exchange.title} without Mcp-Session-Id with status {status}, expected 400"
    )


@rule("session.end.terminated-404", "head", needs=(LINK, STATUS, METHOD, asks("Mcp-Session-Id")))
def ended_session_is_not_found(moment: Moment, state: HttpState) -> Outcome:
    exchange, status = moment.exchange, moment.facts.status
    if exchange.request is None or opens(exchange) or status is None or status in _BEFORE:
        return None
    if exchange.request.header(SESSION) not in state.ended:
        return None
    if status == LOST:
        return True
    if exchange.method == "DELETE" and status in OK:
        return None  # to end it twice is harmless
    is_wrong = status in OK or status == _BAD_REQUEST
    why = f"answers {exchange.title} in a session that was ended with status {status}, expected 404"
    return why if is_wrong else None


# -- the version header


@rule("http.version-header.bad-400", "head", needs=(LINK, STATUS, asks("MCP-Protocol-Version")))
def unknown_version_is_refused(moment: Moment, state: HttpState) -> Outcome:
    exchange, status = moment.exchange, moment.facts.status
    version = None if exchange.request is None else exchange.request.header(VERSION)
    if version is None or opens(exchange) or status is None or not state.is_initialized:
        return None
    # A header that is sent twice arrives as a list.
    odd = [each for each in map(str.strip, version.split(",")) if each not in REVISIONS]
    named = next((each for each in odd if _LATER.fullmatch(each) is None), None)
    if named is None or not state.is_at_endpoint(exchange):
        return None
    if status == _BAD_REQUEST:
        return True
    why = f"answers a request with MCP-Protocol-Version: {named[:40]} with status {status}"
    return f"{why}, expected 400" if status in OK else None


# -- statuses of requests without a session, by the error that answers them

_HEADER_MISMATCH: Final = -32020
_MISSING_FIELD: Final = "meta.request.missing-field-http-400"
_REJECTED: Final = {
    "http.version-header.mismatch-rejected": asks("MCP-Protocol-Version"),
    "http.headers.mismatch-rejected": asks("Mcp-Method"),
    "http.headers.required-missing-rejected": asks("Mcp-Method"),
    "http.param-headers.missing-with-value-rejected": asks("Mcp-Method"),
    "http.param-headers.match-validated": asks("Mcp-Method"),
}
"""By requirement, the header without which the fault of a request cannot be seen."""


def _answers_own_request(moment: Moment) -> bool:
    return (
        moment.exchange.method == "POST" and moment.answered_id in moment.exchange.posted.requests
    )


def _status_of(requirement: str, code: int, expected: int) -> HttpJudge:
    @rule(requirement, "message", needs=(LINK, STATUS))
    def error_has_its_status(moment: Moment, state: HttpState) -> Outcome:
        frame, status = moment.frame, moment.exchange.status
        if frame is None or frame.kind != FAULT or status is None:
            return None
        if frame.error.code != code or not _answers_own_request(moment):  # type: ignore[union-attr]  # a fault has one
            return None
        return status == expected or (
            f"answers {moment.exchange.title} with error {code} and status {status}, "
            f"expected {expected}"
        )

    return error_has_its_status


_status_of("http.method-not-found.404", METHOD_NOT_FOUND, 404)
_status_of("http.version-header.unsupported-400", -32022, 400)
_status_of("capability.missing-error-http-400", -32021, 400)


@rule(_MISSING_FIELD, "message", needs=(LINK, STATUS))
def missing_field_has_status_400(moment: Moment, state: HttpState) -> Outcome:
    frame, fault = moment.frame, moment.exchange.fault
    if fault is None or fault[0] != _MISSING_FIELD or frame is None or frame.kind != FAULT:
        return None
    if frame.error.code != INVALID_PARAMS or not _answers_own_request(moment):  # type: ignore[union-attr]  # a fault has one
        return None
    status = moment.exchange.status
    return status in (400, None) or (
        f"refuses {moment.exchange.title} {fault[1]} with status {status}, expected 400"
    )


def _rejects(requirement: str, header: str) -> Callable[[Moment, HttpState], Outcome]:
    @rule(requirement, "message", needs=(LINK, STATUS, header))
    def request_is_rejected(moment: Moment, state: HttpState) -> Outcome:
        frame, fault, status = moment.frame, moment.exchange.fault, moment.exchange.status
        if fault is None or fault[0] != requirement or frame is None or status is None:
            return None
        if not _answers_own_request(moment):
            return None
        what = f"{moment.exchange.title} {fault[1]}"
        if frame.kind == RESULT:
            return f"serves {what}, expected status 400 and error {_HEADER_MISMATCH}"
        if frame.error.code != _HEADER_MISMATCH:  # type: ignore[union-attr]  # a fault has one
            return None  # another reason may come first
        return status == 400 or f"refuses {what} with status {status}, expected 400"

    return request_is_rejected


for _requirement, _header in _REJECTED.items():
    _rejects(_requirement, _header)
