"""The bounds of the log, and its filters: what leaves, what is found, and what a flood costs."""

import random
import tracemalloc

import pytest

from accord_tools.inspector.log import message_log, row_filter
from accord_tools.inspector.log.message_log import InspectedLog
from inspector.logged import answer, ask, call, make_session, message, opened, rows_of
from support.running import on_a_loop


def flood(conversation, count):
    """Let so many calls pass, each with progress; every tenth answer breaks a rule."""
    for id in range(1, count + 1):
        conversation.observe("client", call(id, _meta={"progressToken": id}))
        params = {"progressToken": id, "progress": 1}
        conversation.observe("server", message(method="notifications/progress", params=params))
        faulty = message(id=id, result={"content": [{"type": "text"}]})
        conversation.observe("server", faulty if id % 10 == 0 else answer(id))


@on_a_loop
async def test_the_oldest_rows_leave_with_all_that_is_known_of_them(monkeypatch):
    monkeypatch.setattr(message_log, "ROWS_MOST", 50)
    session = make_session()
    flood(opened(session), 100)
    log = session.part(InspectedLog)

    shown = await ask(session, "log.rows", start=0, count=1000)

    assert len(shown["rows"]) == 50
    assert (shown["first_kept"], shown["last"], shown["counters"]["dropped"]) == (254, 303, 253)
    assert [row["n"] for row in shown["rows"]] == list(range(254, 304))
    assert all(row["pair"] is None or row["pair"] >= 254 for row in shown["rows"])
    assert shown["counters"]["fail"] == 10  # all are counted
    broken = await rows_of(session, severity=True)
    detail = await ask(session, "log.detail", n=broken[0]["n"])
    assert [broken[0]["n"], *detail["breaches"][0]["others"]] == [row["n"] for row in broken]
    assert (await ask(session, "log.summary"))["breaches"][0]["first"] == 33
    assert len(log.roots) <= 50


@on_a_loop
async def test_bytes_bound_the_log_whatever_the_messages_are():
    session = make_session(keep_bytes=100_000)
    conversation = opened(session)
    conversation.observe("client", call(1))
    conversation.observe("server", answer(1, "x" * 500_000))
    assert len(await rows_of(session)) == 1  # the newest row stays

    session.part(InspectedLog).add_stderr("y" * 50_000)
    for _ in range(1000):
        session.part(InspectedLog).add_stderr("")

    log = session.part(InspectedLog)
    assert log.kept_bytes <= 100_000
    assert log.first_kept > 5


@on_a_loop
async def test_filters_find_what_a_look_at_all_rows_finds():
    session = make_session()
    log = session.part(InspectedLog)
    conversation = opened(session)
    chance = random.Random(0)
    chosen = [
        {"text": "TEXT"},
        {"text": '"id": 7'},
        {"text": "call"},
        {"method": "tools/call", "sender": "client"},
        {"method": "notifications/*"},
        {"kinds": ("result", "error")},
        {"severity": True, "sender": "server"},
        {"conversation": "main", "with_http": False},
    ]
    for _ in range(5):
        flood(conversation, chance.randint(1, 8))
        log.add_stderr("some text")
        for each in chosen:
            found = [row["n"] for row in await rows_of(session, 1000, **each)]
            made = row_filter.RowFilter(**{"with_http": True, "with_stderr": True, **each})
            assert found == list(row_filter.LogFilters(session).find(made)[0])
            looking = row_filter.MatchingRows(log, made)
            entries = map(log.get, range(log.first_kept, log.next_number))
            tests = looking._tests
            assert found == [row.number for row in entries if all(test(row) for test in tests)]
        assert (await rows_of(session, **chosen[0])) != []


@on_a_loop
async def test_a_search_that_takes_long_goes_on_with_the_next_request(monkeypatch):
    monkeypatch.setattr(row_filter, "_READING", -1.0)
    monkeypatch.setattr(row_filter, "_ROWS_PER_LOOK", 10)
    session = make_session()
    flood(opened(session), 20)
    totals = []
    for _ in range(20):
        shown = await ask(session, "log.rows", start=-1, count=5, filter={"text": "jsonrpc"})
        totals.append(shown["total"])
        if shown["is_complete"]:
            break

    assert totals == [10, 20, 30, 40, 50, 60, 63]
    assert [row["n"] for row in shown["rows"]] == [59, 60, 61, 62, 63]


@on_a_loop
async def test_a_negative_start_means_the_last_rows():
    session = make_session()
    flood(opened(session), 3)

    shown = await ask(session, "log.rows", start=-1, count=2)

    assert (shown["total"], shown["start"]) == (12, 10)
    assert [row["n"] for row in shown["rows"]] == [11, 12]


@on_a_loop
async def test_rules_of_late_rows_are_found_by_a_filter_that_was_used_before(monkeypatch):
    monkeypatch.setattr(message_log, "_LATE_MOST", 2)
    session = make_session()
    log = session.part(InspectedLog)
    conversation = log.conversation("main")
    for id in range(1, 6):
        conversation.observe("client", message(id=id, method="tools/list"))
    assert (await rows_of(session, severity=True)) == []
    conversation.close()

    assert [row["n"] for row in await rows_of(session, severity=True)] == [1, 2, 3, 4, 5]


def grown(keep_bytes, rounds, calls):
    """Return the bytes that a session takes after each round of messages."""
    session = make_session(keep_bytes=keep_bytes)
    conversation = opened(session)
    tracemalloc.start()
    sizes = []
    for each in range(rounds):
        for id in range(each * calls, (each + 1) * calls):
            conversation.observe("client", call(id + 1, _meta={"progressToken": id}))
            params = {"progressToken": id, "progress": 1}
            note = message(method="notifications/progress", params=params)
            conversation.observe("server", note)
            conversation.observe("server", answer(id + 1))
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return sizes


@on_a_loop
async def test_memory_is_bounded():
    sizes = grown(100_000, 4, 200)
    assert max(sizes) < 1_000_000
    assert sizes[3] - sizes[1] < 40_000


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@on_a_loop
async def test_memory_is_bounded_over_many_messages():
    sizes = grown(4_000_000, 34, 1_000)
    assert max(sizes) < 12_000_000
    assert sizes[33] - sizes[10] < 1_000_000
