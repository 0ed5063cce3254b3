"""Streams of events as logs: written in order, each entry once, by one worker at a time."""

import asyncio
from typing import Any

import pytest

from accord.errors import StoreError
from accord.http.rules.sse import Decoder
from accord.sharing.workers.event_logs import (
    LogLimits,
    LogWriter,
    encode_event,
    make_label,
    parse_outbox_event,
    parse_stream_event,
)
from support.bare_workers import Mate, pass_lease, working
from support.shared import eventually, in_virtual_time
from support.tables import cases

LOG = "{5e55}l0123456789"
LIMITS = LogLimits(ttl=3600.0, retention=300.0, entries=1000)


class Written(LogWriter):
    """A writer that notes what it reports."""

    def __init__(self, worker: Mate, **options: Any) -> None:
        self.stored: list[tuple[int, bytes | None]] = []
        self.losses = 0
        options = {"fence": 1, "limits": LIMITS, **options}
        super().__init__(
            worker,
            LOG,
            on_stored=lambda number, entry: self.stored.append((number, entry)),
            on_lost=self._count_loss,
            **options,
        )

    def _count_loss(self) -> None:
        self.losses += 1


async def entries(mate: Mate) -> list[bytes]:
    page = await mate.connection.store.backend.read(LOG)
    return [] if page is None else page.items


# -- event ids


@cases("id", ["", "1-0", "0123456789-", "0123456789", "012345678g-1", "o1b2", "x"])
def test_an_invalid_event_id_names_no_stream(id):
    assert parse_stream_event(id) is None


def test_event_ids_name_the_stream_and_the_number():
    label = make_label()
    assert parse_stream_event(f"{label}-17") == (label, 17)
    assert len({make_label() for _ in range(1000)}) == 1000
    assert parse_outbox_event("o17b203") == (17, 203)
    assert parse_outbox_event("o17b203p0a1b") == (17, 203)


@cases("id", ["", "o1", "b1", "o1b", "ob1", "o-1b1", "o1b1x", "o1b" + "9" * 99])
def test_an_invalid_event_id_names_no_positions(id):
    assert parse_outbox_event(id) is None


def test_entries_become_events():
    decoder = Decoder(with_empty=True)
    (message,) = decoder.feed(encode_event(b'm{"a":1}', "x-1", retry=5))
    assert (message.name, message.data, message.id) == ("message", b'{"a":1}', "x-1")
    assert decoder.retry == 5
    (primed,) = decoder.feed(encode_event(b"p", "x-2"))
    assert (primed.data, primed.id) == (b"", "x-2")
    (asked,) = decoder.feed(encode_event(b"r2500", "x-3"))
    assert (asked.data, asked.id, decoder.retry) == (b"", "x-3", 2500)


# -- writing


@in_virtual_time
async def test_entries_are_stored_in_order_and_reported_afterwards():
    async with working(1) as (mate,):
        writer = Written(mate)
        for number in range(20):
            writer.append(b"%d" % number)
            assert writer.stored == [(n + 1, b"%d" % n) for n in range(len(writer.stored))]
            await asyncio.sleep(0.001 * (number % 3))
        writer.finish()
        await writer.flush()
        assert writer.stored == [*((n + 1, b"%d" % n) for n in range(20)), (20, None)]
        page = await mate.backend.read(LOG)
        assert (page.items, page.is_closed) == ([b"%d" % n for n in range(20)], True)
        assert writer.is_over
        assert not writer.is_busy


@in_virtual_time
async def test_nothing_is_reported_before_the_store_has_it():
    async with working(1) as (mate,):
        writer = Written(mate)
        mate.connection.stall()
        writer.append(b"a")
        await asyncio.sleep(0.5)
        assert writer.stored == []
        mate.connection.move_on()
        await writer.flush()
        assert writer.stored == [(1, b"a")]


@in_virtual_time
async def test_entries_that_wait_are_written_together():
    async with working(1) as (mate,):
        writer = Written(mate)
        for number in range(100):
            writer.append(b"%d" % number)
        writer.finish()
        await writer.flush()
        assert mate.connection.times("append", LOG) == 1


@in_virtual_time
async def test_a_writer_begins_once_and_before_its_first_entry():
    async with working(1) as (mate,):
        begun = []

        async def begin():
            begun.append(await entries(mate))

        writer = Written(mate, begin=begin)
        for _ in range(3):
            writer.append(b"a")
            await writer.flush()
        assert begun == [[]]


@in_virtual_time
async def test_preparations_of_an_entry_are_awaited_before_it_is_stored():
    async with working(1) as (mate,):
        seen = []

        async def prepare():
            await asyncio.sleep(0.1)
            seen.append(await entries(mate))

        writer = Written(mate)
        writer.append(b"a")
        await writer.flush()
        writer.append(b"b", prepare)
        writer.append(b"c")
        await writer.flush()
        assert seen == [[b"a"]]
        assert await entries(mate) == [b"a", b"b", b"c"]


@in_virtual_time
async def test_an_ended_writer_takes_nothing_more():
    async with working(1) as (mate,):
        writer = Written(mate)
        writer.append(b"a")
        writer.finish()
        writer.finish()
        await writer.flush()
        writer.append(b"b")
        writer.finish()
        await writer.flush()
        assert await entries(mate) == [b"a"]
        assert writer.stored == [(1, b"a"), (1, None)]


@in_virtual_time
async def test_only_the_newest_entries_are_kept():
    async with working(1) as (mate,):
        writer = Written(mate, limits=LogLimits(60.0, 60.0, 5))
        for number in range(12):
            writer.append(b"%d" % number)
            await writer.flush()
        page = await mate.backend.read(LOG)
        assert (page.first, page.items) == (8, [b"7", b"8", b"9", b"10", b"11"])
        assert len(writer.stored) == 12


@in_virtual_time
async def test_a_shared_log_keeps_no_more_while_the_store_is_away_than_it_would_keep_later():
    async with working(1) as (mate,):
        writer = Written(mate, fence=None, limits=LogLimits(60.0, 60.0, 5))
        mate.connection.stall()
        for number in range(1000):
            writer.append(b"%d" % number)
        assert len(writer._pending) == 5
        mate.connection.move_on()
        await writer.flush()
        assert await entries(mate) == [b"995", b"996", b"997", b"998", b"999"]


@in_virtual_time
async def test_an_open_log_lives_as_long_as_its_writer_extends_it():
    async with working(1) as (mate,):
        writer = Written(mate, limits=LogLimits(90.0, 10.0, 100))
        writer.append(b"a")
        await writer.flush()
        for _ in range(20):
            await asyncio.sleep(20)
            await writer.extend()
        assert await entries(mate) == [b"a"]
        assert mate.connection.times("extend", LOG) <= 10
        writer.finish()
        await writer.flush()
        await asyncio.sleep(11)
        assert await mate.backend.read(LOG) is None


# -- a store that fails


@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("times", [1, 3])
@in_virtual_time
async def test_an_append_whose_answer_was_lost_is_not_doubled(is_final, times):
    async with working(1) as (mate,):
        writer = Written(mate)
        writer.append(b"a")
        await writer.flush()
        mate.connection.fail("append", LOG, times=times, is_carried_out=True)
        # Only the first one is carried out; the others find that it was.
        writer.append(b"b")
        writer.append(b"c")
        if is_final:
            writer.finish()
        await writer.flush()
        assert await entries(mate) == [b"a", b"b", b"c"]
        expected = [(1, b"a"), (2, b"b"), (3, b"c"), *([(3, None)] if is_final else [])]
        assert writer.stored == expected
        assert writer.losses == 0
        assert mate.metrics.fenced_appends == 0
        writer.append(b"d")
        await writer.flush()
        assert await entries(mate) == [b"a", b"b", b"c", *([] if is_final else [b"d"])]


@in_virtual_time
async def test_entries_wait_for_a_store_that_is_away_however_long():
    async with working(1) as (mate,):
        writer = Written(mate)
        writer.append(b"a")
        await writer.flush()
        mate.connection.cut()
        writer.append(b"b")
        await asyncio.sleep(1000)
        writer.append(b"c")
        assert len(writer.stored) == 1
        mate.connection.mend()
        await writer.flush()
        assert await entries(mate) == [b"a", b"b", b"c"]
        assert writer.losses == 0


@in_virtual_time
async def test_the_look_after_a_lost_answer_may_fail_too():
    async with working(1) as (mate,):
        writer = Written(mate)
        mate.connection.fail("append", LOG, is_carried_out=True)
        mate.connection.fail("read", LOG, times=2)
        writer.append(b"a")
        await writer.flush()
        assert await entries(mate) == [b"a"]
        assert writer.stored == [(1, b"a")]


@in_virtual_time
async def test_a_store_that_refuses_for_good_ends_the_stream(caplog):
    async with working(1) as (mate,):
        writer = Written(mate)
        mate.connection.fail("append", LOG, error=StoreError("too large"))
        writer.append(b"a")
        await writer.flush()
        assert writer.losses == 1
        assert writer.is_over
        assert "a stream cannot be written" in caplog.text


@in_virtual_time
async def test_a_report_that_fails_ends_the_stream_and_not_the_worker(caplog):
    async with working(1) as (mate,):
        writer = Written(mate)

        def fail(number, entry):
            raise RuntimeError("of a stream")

        writer._on_stored = fail
        writer.append(b"a")
        await writer.flush()
        assert writer.losses == 1
        assert "of a stream" in caplog.text


@in_virtual_time
async def test_a_log_that_the_store_has_lost_ends_the_stream():
    async with working(1) as mates:
        (mate,) = mates
        writer = Written(mate)
        writer.append(b"a")
        await writer.flush()
        mates.store.lose_data()
        writer.append(b"b")
        await writer.flush()
        assert writer.losses == 1
        assert await entries(mate) == []


# -- fences


@in_virtual_time
async def test_entries_of_a_worker_that_was_taken_over_are_refused():
    async with working(2) as (first, second):
        writer = Written(first)
        writer.append(b"a")
        await writer.flush()
        assert await second.backend.seize(LOG, fence=1)
        successor = Written(second, fence=2, last=1)
        writer.append(b"late")
        successor.append(b"b")
        await writer.flush()
        await successor.flush()
        successor.finish()
        await successor.flush()
        assert await entries(second) == [b"a", b"b"]
        assert writer.stored == [(1, b"a")]
        assert successor.stored == [(2, b"b"), (2, None)]
        assert (writer.losses, successor.losses) == (1, 0)
        assert first.metrics.fenced_appends == 1


@in_virtual_time
async def test_an_append_that_was_on_its_way_when_its_worker_was_taken_over_is_refused():
    async with working(2) as (first, second):
        writer = Written(first)
        writer.append(b"a")
        await writer.flush()
        first.connection.stall()
        writer.append(b"late")
        await asyncio.sleep(0.1)
        assert await second.backend.seize(LOG, fence=1)
        await second.backend.append(LOG, [b"b"], ttl=60, fence=2, final=True)
        first.connection.move_on()
        await writer.flush()
        assert await entries(second) == [b"a", b"b"]
        assert writer.losses == 1


@in_virtual_time
async def test_a_lost_answer_of_a_worker_that_was_taken_over_is_not_taken_for_success():
    async with working(2) as (first, second):
        writer = Written(first)
        first.connection.fail("append", LOG, is_carried_out=True)
        writer.append(b"a")
        await asyncio.sleep(0.1)
        assert await second.backend.seize(LOG, fence=1)
        await writer.flush()
        assert writer.losses == 1
        assert writer.stored == []
        assert await entries(second) == [b"a"]


@pytest.mark.parametrize("how", ["seized", "closed"])
@in_virtual_time
async def test_a_late_worker_finds_out_without_writing_that_it_was_taken_over(how):
    async with working(2) as (first, second):
        writer = Written(first)
        writer.append(b"a")
        await writer.flush()
        await writer.check()
        assert writer.losses == 0
        if how == "seized":
            assert await second.backend.seize(LOG, fence=1)
        else:
            await second.backend.append(LOG, [], ttl=60, final=True)
        await writer.check()
        await writer.check()
        assert writer.losses == 1


@in_virtual_time
async def test_a_shared_log_takes_the_entries_of_several_workers():
    async with working(3) as mates:
        writers = [Written(mate, fence=None) for mate in mates]
        for number in range(30):
            writers[number % 3].append(b"%d" % number)
            await asyncio.sleep(0)
        for writer in writers:
            await writer.flush()
        assert sorted(await entries(mates[0]), key=int) == [b"%d" % number for number in range(30)]
        assert all(not writer.is_single for writer in writers)


@in_virtual_time
async def test_an_abandoned_writer_writes_nothing_more():
    async with working(1) as (mate,):
        writer = Written(mate)
        mate.connection.stall()
        writer.append(b"a")
        await asyncio.sleep(0.01)
        writer.abandon()
        mate.connection.move_on()
        await writer.flush()
        await pass_lease()
        assert await entries(mate) == []
        assert writer.stored == []
        assert writer.losses == 0
        await eventually(lambda: not writer.is_busy)
