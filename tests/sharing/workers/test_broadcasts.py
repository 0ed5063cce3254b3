"""Messages to all workers, in one order."""

import asyncio

import pytest

from accord.errors import StoreError
from accord.server.hub import ServerChange, list_change, resource_change
from accord.sharing.serving.store_bus import StoreBus
from accord.sharing.workers import names
from accord.sharing.workers.messages import Broadcasts
from support.bare_workers import Mate, working
from support.shared import eventually, in_virtual_time


def hear_texts(mate: Mate) -> list[bytes]:
    heard: list[bytes] = []
    mate.on_broadcast("text", heard.append)
    return heard


def count_gaps(mate: Mate) -> list[int]:
    gaps: list[int] = []
    mate.broadcasts.on_gap(lambda: gaps.append(mate.broadcasts.position))
    return gaps


@in_virtual_time
async def test_all_workers_hear_all_messages_in_one_order():
    async with working(3) as mates:
        heard = [hear_texts(mate) for mate in mates]
        await asyncio.gather(
            *(
                mate.publish("text", b"%d %d" % (at, number))
                for number in range(10)
                for at, mate in enumerate(mates)
            )
        )
        await eventually(lambda: all(len(each) == 30 for each in heard))
        assert heard[0] == heard[1] == heard[2]
        assert len(set(heard[0])) == 30


@in_virtual_time
async def test_a_worker_that_joins_hears_nothing_of_the_past_but_keeps_it_for_sessions():
    async with working(1) as mates:
        for number in range(5):
            await mates[0].publish("text", b"%d" % number)
        second = await mates.add()
        heard = hear_texts(second)
        await mates[0].publish("text", b"new")
        await eventually(lambda: heard == [b"new"])
        kept = second.broadcasts.after(3)
        assert [(each.number, each.body) for each in kept] == [(4, b"3"), (5, b"4"), (6, b"new")]


@pytest.mark.parametrize(
    ("after", "numbers"), [(0, [1, 2, 3]), (2, [3]), (3, []), (4, None), (1000, None)]
)
@in_virtual_time
async def test_messages_after_a_number_are_those_that_followed_it(after, numbers):
    async with working(1) as (only,):
        for _ in range(3):
            await only.publish("text", b"a")
        await eventually(lambda: only.broadcasts.position == 3)
        found = only.broadcasts.after(after)
        assert (None if found is None else [each.number for each in found]) == numbers


@in_virtual_time
async def test_messages_that_are_not_kept_any_more_are_reported_as_missed(monkeypatch):
    monkeypatch.setattr("accord.sharing.workers.messages._KEEP", 4)
    async with working() as (first, second):
        gaps, heard = count_gaps(second), hear_texts(second)
        second.connection.stall()
        for number in range(10):
            await first.publish("text", b"%d" % number)
        second.connection.move_on()
        await eventually(lambda: heard)
        await eventually(lambda: second.broadcasts.position == 10)
        assert gaps == [6]
        assert heard == [b"6", b"7", b"8", b"9"]
        assert second.broadcasts.after(5) is None
        assert len([*second.broadcasts.after(6)]) == 4


@pytest.mark.parametrize("later", [0, 1, 2, 5])
@in_virtual_time
async def test_lost_data_is_reported_however_much_was_published_since(later):
    async with working() as mates:
        first, second = mates
        heard, gaps = hear_texts(second), count_gaps(second)
        for _ in range(2):
            await first.publish("text", b"early")
        await eventually(lambda: len(heard) == 2)
        mates.store.lose_data()
        for _ in range(later):
            await first.publish("text", b"late")
        await eventually(lambda: gaps, seconds=5)
        await eventually(lambda: heard[2:].count(b"late") >= later, seconds=5)
        assert second.broadcasts.gaps == len(gaps) >= 1
        assert second.broadcasts.position == later


@in_virtual_time
async def test_messages_of_retired_keys_do_not_keep_a_worker_from_starting(caplog):
    async with working(1) as mates:
        for _ in range(3):
            await mates[0].publish("text", b"old")
        made = mates[0]
        second = Mate(mates.store, keys=made.keys, lease=1.0)
        # The first read finds the end of the log, the second one its entries.
        second.connection.fail("read", names.BROADCAST, seconds=0.0)
        second.connection.fail("read", names.BROADCAST, error=StoreError("it does not open"))
        await second.start()
        mates.append(second)
        heard = hear_texts(second)
        assert second.broadcasts.position == 3
        assert second.broadcasts.after(1) is None
        await made.publish("text", b"new")
        await eventually(lambda: heard == [b"new"])
        assert "older messages to all workers cannot be read" in caplog.text


@in_virtual_time
async def test_entries_that_do_not_open_are_a_gap(caplog):
    async with working() as (first, second):
        heard, gaps = hear_texts(second), count_gaps(second)
        second.connection.fail("read", names.BROADCAST, error=StoreError("it does not open"))
        await first.publish("text", b"unreadable")
        await eventually(lambda: gaps)
        await first.publish("text", b"new")
        await eventually(lambda: heard == [b"new"])


@in_virtual_time
async def test_a_hearer_that_fails_does_not_stop_others(caplog):
    async with working(1) as (only,):

        def fail(body):
            raise RuntimeError("of the hearer")

        def fail_at_gap():
            raise RuntimeError("at the gap")

        only.on_broadcast("bad", fail)
        only.broadcasts.on_gap(fail_at_gap)
        heard, gaps = hear_texts(only), count_gaps(only)
        await only.publish("bad", b"")
        await only.publish("text", b"a")
        await eventually(lambda: heard == [b"a"])
        only.broadcasts.begin_anew()
        assert gaps
        assert "of the hearer" in caplog.text
        assert "at the gap" in caplog.text


@in_virtual_time
async def test_the_log_of_messages_to_all_is_kept_in_a_long_silence():
    async with working(1, lease=0.3) as (only,):
        await only.publish("text", b"a")
        await asyncio.sleep(60)
        assert only.connection.times("extend", names.BROADCAST) >= 2
        assert only.broadcasts.gaps == 0


@in_virtual_time
async def test_followers_are_called_until_they_leave():
    async with working(1) as (only,):
        calls: list[int] = []

        def note():
            calls.append(only.broadcasts.position)

        only.broadcasts.follow(note)
        await only.publish("text", b"a")
        await eventually(lambda: calls == [1])
        only.broadcasts.unfollow(note)
        only.broadcasts.unfollow(note)
        await only.publish("text", b"b")
        await eventually(lambda: only.broadcasts.position == 2)
        assert calls == [1]


# -- changes that servers publish


def make_bus(mate: Mate) -> tuple[StoreBus, list[ServerChange]]:
    bus, heard = StoreBus(mate), []
    bus.subscribe(heard.append)
    return bus, heard


@in_virtual_time
async def test_changes_reach_all_workers_within_a_moment():
    async with working() as (first, second):
        bus, heard_here = make_bus(first)
        _, heard = make_bus(second)
        began = asyncio.get_running_loop().time()
        bus.publish(resource_change("note://a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # While the first one is on its way.
        bus.publish(resource_change("note://b"))
        bus.publish(list_change("tools"))
        await eventually(lambda: len(heard) == len(heard_here) == 3)
        assert {each.key for each in heard} == {"note://a", "note://b", None}
        assert asyncio.get_running_loop().time() - began < 0.2


@in_virtual_time
async def test_of_changes_that_wait_the_newest_of_a_topic_is_published():
    async with working() as (first, second):
        bus, _ = make_bus(first)
        _, heard = make_bus(second)
        first.connection.fail("append", names.BROADCAST, times=3)
        for _ in range(10):
            bus.publish(list_change("tools"))
            bus.publish(resource_change("note://a"))
        await eventually(lambda: len(heard) == 2)
        await asyncio.sleep(5)
        assert len(heard) == 2


@in_virtual_time
async def test_a_change_that_cannot_be_encoded_does_not_stop_later_ones(caplog):
    async with working() as (first, second):
        bus, _ = make_bus(first)
        _, heard = make_bus(second)
        bus.publish(ServerChange("notifications/odd", "x", object()))
        await asyncio.sleep(1)
        bus.publish(list_change("prompts"))
        await eventually(lambda: heard == [list_change("prompts")])
        assert "cannot be published: notifications/odd" in caplog.text


@in_virtual_time
async def test_a_gap_is_heard_as_a_change_of_each_list():
    async with working() as mates:
        _, heard = make_bus(mates[1])
        mates.store.lose_data()
        await eventually(lambda: heard, seconds=5)
        assert {each.name for each in heard} == {
            f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
        }


@in_virtual_time
async def test_a_change_of_a_later_version_is_left_out(caplog):
    async with working() as (first, second):
        _, heard = make_bus(second)
        await first.publish("change", b"\x93\xa1x\xc0\xc4\x02{}")
        await first.publish("change", b"\xc1")
        await first.publish("kind of a later version", b"")
        bus, _ = make_bus(first)
        bus.publish(list_change("tools"))
        await eventually(lambda: heard == [list_change("tools")])


@in_virtual_time
async def test_a_bus_that_closes_sends_what_waits():
    async with working() as (first, second):
        bus, _ = make_bus(first)
        _, heard = make_bus(second)
        bus.publish(list_change("tools"))
        await asyncio.sleep(0)
        await bus.close()
        await eventually(lambda: heard == [list_change("tools")])


def test_broadcasts_are_bounded():
    assert Broadcasts(None)._tail.maxlen == 10_000  # type: ignore[arg-type]
