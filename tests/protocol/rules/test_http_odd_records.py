"""Records of HTTP that are odd, but prove nothing: no party is accused, and nothing grows."""

from typing import Any

import msgspec
import pytest

from accord.protocol.monitor import Monitor
from accord.protocol.rules.http.exchanges import KEPT
from accord.trace import HttpFacts, Record
from protocol.rules.http_sessions import (
    HANDSHAKE_OVER_HTTP,
    Talk,
    error,
    initialize,
    older,
    opened,
    request,
    streamable,
)
from support.tables import cases

NEWEST = HANDSHAKE_OVER_HTTP[-1]


def record(sender: Any, message: Any, transport: Any = "http", **facts: Any) -> Record:
    raw = None if message is None else msgspec.Raw(msgspec.json.encode(message))
    http = HttpFacts(recorded="all", **facts)
    return Record(sender=sender, transport=transport, message=raw, http=http)


def broken(*records: Record, monitor: Monitor | None = None) -> set[str]:
    """Judge a clean session and further records; return what these break of HTTP."""
    judge = monitor or Monitor(revision=NEWEST)
    for each in streamable(NEWEST, session=None).values():
        judge.observe(each)
    found = [violation.requirement for each in records for violation in judge.observe(each)]
    return {id for id in found if id.startswith(("http.", "session.", "sse."))}


def test_a_monitor_of_one_party_counts_no_http_rule_of_the_other() -> None:
    monitor = Monitor(revision=NEWEST, judged="client")
    assert broken(monitor=monitor) == set()
    assert "http.post.accepted-202" not in monitor.tallies
    assert monitor.tallies["http.client.accept-both"].exercised


def test_a_cancellation_with_an_invalid_id_cancels_nothing() -> None:
    params = {"requestId": None}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    talk = Talk(NEWEST, session=None)
    talk.ask("cancel", "POST", message, mcp_protocol_version=NEWEST)
    talk.head("accepted", "cancel", 202, None)
    assert broken(*talk.records.values()) == set()


def test_a_failing_get_breaks_no_rule_on_streams() -> None:
    talk = Talk(NEWEST, session=None)
    talk.ask("listen", "GET", None, mcp_protocol_version=NEWEST)
    talk.head("failed", "listen", 500, "text/plain")
    assert "http.get.stream-or-405" not in broken(*talk.records.values())


def test_progress_without_a_token_is_not_compared_between_streams() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    sent = [
        record("server", message, status=200, method="GET", exchange=name, stream=name)
        for name in ("one", "two")
    ]
    assert "http.streams.no-broadcast" not in broken(*sent)


def test_a_relative_endpoint_without_a_path_names_no_place() -> None:
    monitor = Monitor(revision="2024-11-05")
    facts = {"method": "GET", "status": 200, "exchange": "x", "stream": "x", "event": "endpoint"}
    first = record("server", None, "sse", data="messages?id=1", **facts)
    found = [str(each) for each in monitor.observe(first)]
    for each in older().values():
        monitor.observe(each)
    assert found == []


def test_a_flood_of_answers_on_one_stream_is_judged_to_its_end() -> None:
    talk = Talk(NEWEST, session=None)
    request = {"jsonrpc": "2.0", "id": "call", "method": "ping"}
    talk.ask("ping", "POST", request, mcp_protocol_version=NEWEST)
    talk.head("head", "ping", 200, "text/event-stream")
    for number in range(KEPT + 2):
        answer = {"jsonrpc": "2.0", "id": f"unknown-{number}", "result": {}}
        talk.event(f"answer-{number}", "ping", answer)
    monitor = Monitor(revision=NEWEST)
    broken(*talk.records.values(), monitor=monitor)
    breaches = {id: tally.breaches for id, tally in monitor.tallies.items() if tally.breaches}
    assert max(breaches.values()) == KEPT + 2


# Requests that HTTP refused


def come_back(revision: str, status: int, body: Any = None, *, pause: float = 0.0) -> list[str]:
    """Judge a client whose first request is refused, and that sends it again with a token."""
    opening = initialize(revision)
    talk = Talk(revision)
    talk.ask("first", "POST", opening)
    challenge = 'Bearer resource_metadata="http://127.0.0.1/.well-known/any"'
    kind = None if body is None else "application/json"
    heads = {"www-authenticate": challenge} if status == 401 else {}
    talk.head("refusal", "first", status, kind, body, headers=heads)
    talk.ask("second", "POST", opening, authorization="Bearer masked-1")
    talk.head("opened", "second", 200, "application/json", opened(revision))
    monitor = Monitor(revision=revision)
    found = []
    for number, each in enumerate(talk.records.values()):
        later = msgspec.structs.replace(each, t=number * pause)
        found += [violation.requirement for violation in monitor.observe(later)]
    return found


@pytest.mark.requirement("jsonrpc.request.id-unique")
@cases("revision", HANDSHAKE_OVER_HTTP)
@cases("body", [None, error(None, -32001), error(0, -32001), {"error": "none"}])
def test_a_request_that_was_refused_with_401_may_be_sent_again(revision: str, body: Any) -> None:
    if body is not None and body.get("id") == 0:
        body = {**body, "id": initialize(revision)["id"]}
    assert come_back(revision, 401, body) == []


@pytest.mark.requirement("jsonrpc.request.id-unique")
@pytest.mark.parametrize(("status", "found"), [(400, ["jsonrpc.request.id-unique"]), (401, [])])
def test_only_the_id_of_a_request_that_was_refused_with_401_is_free_again(
    status: int, found: list[str]
) -> None:
    monitor = Monitor(revision=NEWEST)
    for each in streamable(NEWEST, session=None).values():
        monitor.observe(each)
    talk = Talk(NEWEST, session=None)
    for label in ("first", "second"):
        talk.ask(label, "POST", request(4711, "tools/list"), mcp_protocol_version=NEWEST)
        talk.head(f"{label}-answer", label, status, None)
    broken = [each for record in talk.records.values() for each in monitor.observe(record)]
    assert [e.requirement for e in broken if e.requirement.startswith("jsonrpc.")] == found


@pytest.mark.requirement("jsonrpc.request.answered")
def test_a_refusal_by_http_is_the_answer_to_a_request() -> None:
    assert come_back(NEWEST, 401, pause=200.0) == []


def test_a_refusal_without_its_request_answers_nothing() -> None:
    alone = record("server", None, status=401, method="POST", exchange="unknown")
    over_stdio = record("server", None, transport="stdio", status=401, exchange="unknown")
    assert broken(alone) == set()
    assert Monitor(revision=NEWEST).observe(over_stdio) == []
