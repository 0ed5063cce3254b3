"""A monitor says which rules each record was held to and kept, and stays within bounds."""

import msgspec
from msgspec.structs import replace

from accord.protocol.monitor import _HALF_READ, Monitor
from accord.protocol.rules.body import _PAGE_NAMES_MOST
from accord.trace import HttpFacts, Record

REVISION = "2025-06-18"


def record(sender, number, **members):
    text = msgspec.json.encode({"jsonrpc": "2.0", **members})
    return Record(sender=sender, message=msgspec.Raw(text), number=number)


def opening():
    party = {"name": "a", "version": "1"}
    asked = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": party}
    said = {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": party}
    return [
        record("client", 1, id=0, method="initialize", params=asked),
        record("server", 2, id=0, result=said),
        record("client", 3, method="notifications/initialized"),
    ]


def test_rules_that_held_are_reported_with_their_record_in_order():
    heard = []
    monitor = Monitor(passed=lambda record, ids: heard.append((record.number, ids)))
    for each in opening():
        monitor.observe(each)

    assert [number for number, _ in heard] == [1, 2, 3]
    assert "jsonrpc.request.id-unique" in heard[0][1]


def test_the_counts_are_the_same_with_and_without_a_listener():
    heard = []
    listening, plain = Monitor(passed=lambda _, ids: heard.extend(ids)), Monitor()
    for each in [*opening(), record("client", 4, id=0, method="ping")]:
        assert listening.observe(each) == plain.observe(each)

    assert listening.verdicts() == plain.verdicts()
    passed = {each.id for each in plain.verdicts() if each.verdict == "pass"}
    assert set(heard) >= passed - {"jsonrpc.message.version-2-0"}


def test_malformed_requests_without_an_answer_are_forgotten():
    monitor = Monitor(revision=REVISION)
    for id in range(_HALF_READ + 10):
        monitor.observe(record("client", id + 1, id=id, method=5))

    assert len(monitor._half_read) == _HALF_READ


def test_a_list_without_end_does_not_fill_the_memory():
    monitor = Monitor(revision=REVISION)
    size = _PAGE_NAMES_MOST // 10
    for page in range(1, 15):
        monitor.observe(
            record("client", 1, id=page, method="tools/list", params={"cursor": f"{page}"})
        )
        tools = [{"name": f"{page}-{n}"} for n in range(size // 10)]
        answer = {"tools": tools, "nextCursor": f"{page + 1}"}
        monitor.observe(record("server", 1, id=page, result=answer))

    pages = monitor._memory.tool_pages
    assert sum(map(len, pages.values())) <= _PAGE_NAMES_MOST
    assert pages


def test_rules_on_http_are_reported_with_their_record():
    heard = []
    monitor = Monitor(passed=lambda record, ids: heard.append((record.number, ids)))
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    asked = HttpFacts(method="POST", headers=headers, recorded="all", exchange="1")
    said = HttpFacts(method="POST", status=200, recorded="all", exchange="1")
    for each, facts in zip(opening(), (asked, said, asked), strict=True):
        monitor.observe(replace(each, transport="http", http=facts))

    assert any(id.startswith("http.") for id in dict(heard)[1])
