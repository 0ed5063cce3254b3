"""Recordings that name neither the headers they keep nor the exchange of a response."""

import pytest
from msgspec.structs import replace

import protocol.rules.http_mutants_later  # noqa: F401  # registers mutants
from accord.protocol.rules.http import HTTP_RULES
from accord_tools.check.trace_check import replay
from check.sessions import opening, records_of, request, result
from protocol.rules.http_mutants import MUTANTS
from protocol.rules.http_sessions import (
    HANDSHAKE_OVER_HTTP,
    locked,
    resumed,
    stateless,
    streamable,
)
from support.tables import cases

HTTP = frozenset(rule.requirement for rule in HTTP_RULES)
POST = {
    "method": "POST",
    "headers": {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    },
}
VERSION = {"MCP-Protocol-Version": "2025-06-18"}
AS_JSON = {"status": 200, "headers": {"Content-Type": "application/json"}}


def without_marks(session, *, left_out=()):
    """Return a session as other tools record it, without some headers."""
    found = []
    for record in session.values():
        http = record.http
        if http is not None:
            kept = {name: text for name, text in http.headers.items() if name not in left_out}
            http = replace(http, recorded=(), exchange=None, stream=None, headers=kept)
        found.append(replace(record, http=http))
    return found


def broken(records):
    report = replay(records, target="a session")
    return {each.violation.requirement for each in report.violations}


def over_http(*lines):
    """Return records of an opened session and these further lines."""
    first = [
        {**line, "transport": "http", "http": facts}
        for line, facts in zip(opening(), (POST, AS_JSON, with_headers(VERSION)), strict=True)
    ]
    accepted = {"from": "server", "transport": "http", "message": None, "http": {"status": 202}}
    return list(records_of([*first, accepted, *lines]))


def with_headers(more):
    return {**POST, "headers": POST["headers"] | more}


def posted(line, **facts):
    return {**line, "transport": "http", "http": {**with_headers(VERSION), **facts}}


def answered(line, **facts):
    return {**line, "transport": "http", "http": {**AS_JSON, **facts}}


CLEAN = {
    "stateless": stateless,
    "stateless as JSON": lambda: stateless(is_streamed=False),
    **{each: lambda each=each: streamable(each) for each in HANDSHAKE_OVER_HTTP},
    **{
        f"{each} as JSON": lambda each=each: streamable(each, is_streamed=False)
        for each in HANDSHAKE_OVER_HTTP
    },
    **{
        f"{each} with a token": lambda each=each: streamable(each, token="masked-3")
        for each in HANDSHAKE_OVER_HTTP
    },
    **{f"{each} locked": lambda each=each: locked(each) for each in HANDSHAKE_OVER_HTTP},
    **{f"{each} resumed": lambda each=each: resumed(each) for each in HANDSHAKE_OVER_HTTP},
}


@cases(
    "left_out",
    [(), ("host",), ("authorization",), ("mcp-session-id",), ("authorization", "mcp-session-id")],
)
@cases("name", CLEAN)
def test_a_session_that_keeps_the_rules_raises_no_alarm(name, left_out):
    assert broken(without_marks(CLEAN[name](), left_out=left_out)) == set()


@pytest.mark.parametrize("row", sorted({each.requirement for each in MUTANTS}))
def test_a_mutant_is_accused_of_its_own_breach_or_of_none(row):
    for mutant in [each for each in MUTANTS if each.requirement == row][:4]:
        session = mutant.session()
        before = broken(without_marks(session))
        mutant.spoil(session)
        fresh = broken(without_marks(session)) & HTTP - before
        assert fresh <= {row} | mutant.also, mutant


@pytest.mark.requirement("http.client.protocol-version-header")
def test_a_head_with_accept_and_content_type_shows_that_the_version_is_missing():
    line = {**request(2, "ping"), "transport": "http", "http": POST}
    assert broken(over_http(line)) == {"http.client.protocol-version-header"}


@pytest.mark.requirement("http.client.protocol-version-header")
def test_a_header_that_was_recorded_before_is_missed_later():
    http = {"method": "POST", "headers": {"Content-Type": "application/json"}}
    line = {**request(2, "ping"), "transport": "http", "http": http}
    assert "http.client.protocol-version-header" in broken(over_http(line))


@pytest.mark.parametrize("headers", [None, {}, {"X-Trace": "7"}])
def test_headers_that_a_recording_leaves_out_accuse_no_party(headers):
    http = {"method": "POST"} | ({} if headers is None else {"headers": headers})
    lines = [
        {**line, "transport": "http", "http": http if line["from"] == "client" else {"status": 200}}
        for line in [*opening(), request(2, "ping"), result(2)]
    ]
    lines.insert(3, {"from": "server", "transport": "http", "http": {"status": 202}})
    assert broken(records_of(lines)) == set()


@pytest.mark.requirement("http.post.accepted-202")
def test_a_status_belongs_to_the_only_request_without_one():
    note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    told = posted({"from": "client", "message": note})
    status = {"from": "server", "transport": "http", "message": None, "http": {"status": 200}}
    assert "http.post.accepted-202" in broken(over_http(told, status))
    # With a second request under way it may be the status of either.
    assert "http.post.accepted-202" not in broken(
        over_http(posted(request(2, "ping")), told, status)
    )


@pytest.mark.requirement("http.post.response-content-type")
def test_an_answer_belongs_to_the_request_of_its_id():
    lines = [posted(request(2, "ping")), posted(request(3, "ping"))]
    plain = {"Content-Type": "text/plain"}
    lines += [answered(result(3), headers=plain), answered(result(2))]
    assert broken(over_http(*lines)) == {"http.post.response-content-type"}


def test_a_recording_that_names_exchanges_is_taken_at_its_word():
    note = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}
    told = posted({"from": "client", "message": note}, exchange="a")
    status = {"from": "server", "transport": "http", "message": None, "http": {"status": 200}}
    assert "http.post.accepted-202" not in broken(over_http(told, status))


def test_batches_and_text_are_related_to_no_other_request():
    batch = posted({"from": "client", "message": [request(2, "ping")["message"]]})
    text = {"from": "server", "transport": "http", "message": None, "raw": "oops", "http": AS_JSON}
    found = broken(over_http(batch, text))
    assert "http.post.accepted-202" not in found


def test_many_requests_without_a_response_are_not_all_remembered():
    lines = [posted(request(number, "ping")) for number in range(2, 400)]
    status = {"from": "server", "transport": "http", "message": None, "http": {"status": 200}}
    assert broken(over_http(*lines, status)) == set()
