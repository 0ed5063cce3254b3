"""The messages to one worker."""

import asyncio

import pytest

from accord.errors import StoreError
from accord.sharing.workers import names
from accord.sharing.workers.messages import encode_message
from support.bare_workers import Mate, pass_lease, working
from support.shared import eventually, in_virtual_time


def take_texts(mate: Mate) -> list[bytes]:
    taken: list[bytes] = []
    mate.on("text", taken.append)
    return taken


@in_virtual_time
async def test_messages_arrive_once_and_in_order():
    async with working() as (first, second):
        taken = take_texts(second)
        for number in range(50):
            await first.send(second.id, "text", b"%d" % number)
        await eventually(lambda: len(taken) >= 50)
        await pass_lease()
        assert taken == [b"%d" % number for number in range(50)]
        assert second.metrics.messages_received == 50
        assert first.metrics.messages_sent == 50


@in_virtual_time
async def test_a_message_to_itself_arrives():
    async with working(1) as (only,):
        taken = take_texts(only)
        await only.send(only.id, "text", b"a")
        await eventually(lambda: taken == [b"a"])


@in_virtual_time
async def test_a_message_whose_notification_is_lost_is_found_within_a_second():
    async with working() as (first, second):
        taken = take_texts(second)
        second.connection.store.backend._followers._by_topic.clear()
        before = asyncio.get_running_loop().time()
        await first.send(second.id, "text", b"a")
        await eventually(lambda: taken)
        assert asyncio.get_running_loop().time() - before <= 1.1


@in_virtual_time
async def test_missed_notifications_are_counted():
    # With a long lease, which is seldom renewed: that takes messages, too.
    async with working(lease=1000.0) as (first, second):
        taken = take_texts(second)
        await asyncio.sleep(1.5)
        second.connection.store.backend._followers._by_topic.clear()
        await first.send(second.id, "text", b"a")
        await eventually(lambda: taken)
        await eventually(lambda: second.metrics.missed_notifications == 1)


@in_virtual_time
async def test_messages_after_an_hour_of_silence_arrive():
    async with working() as (first, second):
        taken = take_texts(second)
        for _ in range(3):
            await first.send(second.id, "text", b"early")
        await eventually(lambda: len(taken) == 3)
        await first.backend.drop(names.inbox_of(second.id))  # as it expires after an hour
        await asyncio.sleep(1.5)
        await first.send(second.id, "text", b"late")
        await eventually(lambda: taken[3:] == [b"late"], seconds=5)


@pytest.mark.parametrize("earlier", [1, 3])
@in_virtual_time
async def test_messages_after_the_store_has_lost_its_data_arrive(earlier):
    async with working() as mates:
        first, second = mates
        taken = take_texts(second)
        for _ in range(earlier):
            await first.send(second.id, "text", b"early")
        await eventually(lambda: len(taken) == earlier)
        mates.store.lose_data()
        for _ in range(earlier):
            await first.send(second.id, "text", b"late")
        await eventually(lambda: taken[earlier:] == [b"late"] * earlier, seconds=5)


@in_virtual_time
async def test_a_message_of_an_unknown_kind_or_format_is_left_out():
    async with working() as (first, second):
        taken = take_texts(second)
        await first.send(second.id, "kind of a later version", b"a")
        inbox = names.inbox_of(second.id)
        for item in (b"\xc1", b"", encode_message("text", b"b")):
            await first.backend.append(inbox, [item], ttl=60, notify=(inbox,))
        await eventually(lambda: taken == [b"b"])


@in_virtual_time
async def test_a_message_that_fails_does_not_stop_those_behind_it(caplog):
    async with working() as (first, second):
        taken = take_texts(second)

        def fail(body):
            raise RuntimeError("at once")

        async def fail_later(body):
            raise RuntimeError("later")

        second.on("bad", fail)
        second.on("worse", fail_later)
        for kind in ("bad", "worse", "text"):
            await first.send(second.id, kind, b"a")
        await eventually(lambda: taken == [b"a"])
        await asyncio.sleep(0)
        assert "a message of kind bad failed" in caplog.text
        assert "RuntimeError: later" in caplog.text


@in_virtual_time
async def test_work_for_a_message_runs_beside_later_messages():
    async with working() as (first, second):
        gate, done = asyncio.Event(), []

        async def wait(body):
            await gate.wait()
            done.append(body)

        second.on("wait", wait)
        taken = take_texts(second)
        await first.send(second.id, "wait", b"first")
        await first.send(second.id, "text", b"second")
        await eventually(lambda: taken)
        assert done == []
        gate.set()
        await eventually(lambda: done == [b"first"])


@in_virtual_time
async def test_messages_wait_while_the_store_is_away():
    async with working() as (first, second):
        taken = take_texts(second)
        second.connection.cut()
        await first.send(second.id, "text", b"a")
        await asyncio.sleep(0.7)
        assert taken == []
        second.connection.mend()
        await eventually(lambda: taken == [b"a"], seconds=5)


@in_virtual_time
async def test_entries_that_do_not_open_are_left_out_and_caches_are_distrusted(caplog):
    async with working() as (first, second):
        taken = take_texts(second)
        late = second.late
        second.connection.fail(
            "read", names.inbox_of(second.id), error=StoreError("it does not open")
        )
        await first.send(second.id, "text", b"sealed with a key that is unknown here")
        await eventually(lambda: second.late > late)
        await first.send(second.id, "text", b"b")
        await eventually(lambda: b"b" in taken)
        assert "cannot be read, and are left out" in caplog.text


@in_virtual_time
async def test_a_lease_is_renewed_only_after_earlier_messages_are_taken():
    """Others wait for acknowledgements no longer than a lease, which must not outlast them."""
    async with working() as (first, second):
        taken = take_texts(second)
        inbox = names.inbox_of(second.id)
        second.connection.store.backend._followers._by_topic.clear()
        for _ in range(20):
            before = len(taken)
            await first.send(second.id, "text", b"a")
            was = second.valid_until
            await eventually(lambda was=was: second.valid_until > was)
            assert len(taken) == before + 1
        assert second.connection.times("read", inbox) >= 20
