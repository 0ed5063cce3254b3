import pytest
from hypothesis import given
from hypothesis import strategies as some

from accord.server import EventStore, MemoryEventStore


def fill(store, session="s", stream=1, count=5, *, start=0, size=1):
    for number in range(start, start + count):
        store.append(session, stream, number, b"%d" % number * size)


def test_later_events_are_returned_in_order():
    store: EventStore = MemoryEventStore()
    fill(store)
    assert store.after("s", 1, 1) == [b"2", b"3", b"4"]
    assert store.after("s", 1, 4) == []
    assert store.after("s", 1, -1) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(("session", "stream", "number"), [("x", 1, 0), ("s", 9, 0), ("s", 1, 5)])
def test_unknown_sessions_and_events_give_none(session, stream, number):
    store = MemoryEventStore()
    fill(store)
    assert store.after(session, stream, number) is None


@pytest.mark.requirement("http.sse.no-foreign-replay")
def test_streams_and_sessions_are_kept_apart():
    store = MemoryEventStore()
    for session in ("a", "b"):
        for stream in (1, 2):
            store.append(session, stream, 0, f"{session}{stream}".encode())
            store.append(session, stream, 1, f"{session}{stream}".encode())
    assert store.after("b", 2, 0) == [b"b2"]
    assert store.after("a", 1, 0) == [b"a1"]


def test_a_session_loses_its_oldest_events_and_says_so():
    store = MemoryEventStore(session_bytes=650)
    fill(store, count=20)
    assert store.size <= 650
    assert store.after("s", 1, 0) is None
    assert store.after("s", 1, 17) == [b"18", b"19"]
    store.forget("s", 1)
    assert store.size == 0


def test_the_newest_event_stays_whatever_its_size():
    store = MemoryEventStore(session_bytes=100)
    fill(store, count=2, size=1_000)
    assert store.after("s", 1, 0) == [b"1" * 1_000]


def test_older_streams_make_room_first():
    store = MemoryEventStore(session_bytes=650)
    fill(store, stream=1, count=5)
    fill(store, stream=2, count=8)
    assert store.after("s", 1, 0) is None
    assert store.after("s", 2, 0) == [b"%d" % number for number in range(1, 8)]


def test_a_stream_goes_on_after_all_its_events_were_dropped():
    store = MemoryEventStore(session_bytes=200)
    fill(store, stream=1, count=2)
    fill(store, stream=2, count=9)
    assert (store.size, list(store._sessions["s"].logs)) == (195, [2])
    fill(store, stream=1, count=2, start=2)
    assert store.after("s", 1, 2) == [b"3"]
    assert store.after("s", 1, 0) is None


def test_all_sessions_together_are_limited_too():
    store = MemoryEventStore(bytes=1_000)
    for session in map(str, range(50)):
        fill(store, session, count=4)
    assert store.size <= 1_000
    assert store.after("49", 1, 0) == [b"1", b"2", b"3"]
    assert store.after("0", 1, 0) is None


def test_a_limit_that_is_just_met_is_kept():
    store = MemoryEventStore(session_bytes=195, bytes=260)
    fill(store, "a", count=3)
    fill(store, "b", count=1)
    assert store.after("a", 1, -1) == [b"0", b"1", b"2"]
    fill(store, "b", count=1, start=1)
    assert store.after("a", 1, -1) is None


def test_a_session_alone_may_be_larger_than_all_together():
    store = MemoryEventStore(bytes=100)
    fill(store, count=2, size=1_000)
    assert store.after("s", 1, -1) == [b"0" * 1_000, b"1" * 1_000]


def test_the_session_used_last_is_kept_before_others():
    store = MemoryEventStore(bytes=1_000)
    fill(store, "used", count=1)
    fill(store, "unused", count=1)
    for number, session in enumerate(map(str, range(14))):
        fill(store, session, count=1)
        if number == 5:
            store.append("used", 1, 1, b"x")
    assert store.after("unused", 1, -1) is None
    assert store.after("used", 1, 0) == [b"x"]


def test_streams_and_sessions_are_forgotten():
    store = MemoryEventStore()
    fill(store, stream=1)
    fill(store, stream=2)
    store.forget("s", 1)
    assert store.after("s", 1, 0) is None
    assert store.after("s", 2, 3) == [b"4"]
    store.forget("s", 1)
    store.forget("s")
    store.forget("s")
    assert (store.after("s", 2, 0), store.size) == (None, 0)


def test_a_session_without_streams_is_forgotten_as_well():
    store = MemoryEventStore()
    fill(store)
    store.forget("s", 1)
    assert store._sessions == {}


@given(
    some.lists(some.tuples(some.integers(0, 3), some.integers(0, 2), some.integers(1, 400))),
    some.integers(100, 2_000),
    some.integers(100, 4_000),
)
def test_replay_returns_all_later_events_or_none(steps, session_bytes, total):
    store = MemoryEventStore(session_bytes=session_bytes, bytes=total)
    sent: dict[tuple[str, int], list[bytes]] = {}
    for session, stream, size in steps:
        events = sent.setdefault((str(session), stream), [])
        event = b"%d" % len(events) + b"x" * size
        store.append(str(session), stream, len(events), event)
        events.append(event)
        for (owner, name), all_ in sent.items():
            for number in range(len(all_)):
                later = store.after(owner, name, number)
                assert later is None or later == all_[number + 1 :]
    assert store.size == sum(
        len(event) + 64
        for kept in store._sessions.values()
        for log in kept.logs.values()
        for event in log.events
    )
