"""The records of sessions, and the copies that workers hold of them."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from accord.errors import Conflict, StoreError, StoreUnavailable
from accord.sharing.workers import names
from accord.sharing.workers.session_records import (
    FORMAT,
    CachedRecord,
    SessionRecord,
    SessionRecords,
    decode_record,
    encode_record,
)
from support.bare_workers import Mate, pass_lease, working
from support.shared import LEASE, eventually, in_virtual_time
from support.tables import cases

SID = "5e55"
NEW = SessionRecord(created=1.0, revision="2025-06-18")
replace = msgspec.structs.replace


class Copies(SessionRecords):
    """The records of one worker, and the copies that it holds."""

    def __init__(self, worker: Mate, ttl: float = 1000.0) -> None:
        super().__init__(worker, ttl=ttl, apply=self._take)
        self.worker = worker
        self.held: dict[str, CachedRecord] = {}
        self.taken: list[int] = []

    def _take(self, sid: str, cached: CachedRecord) -> bool:
        self.taken.append(cached.version)
        if sid not in self.held or self.worker.id not in cached.record.holders:
            self.held.pop(sid, None)
            return False
        if cached.version > self.held[sid].version:
            self.held[sid] = cached
        return True

    async def begin(self, record: SessionRecord = NEW) -> None:
        self.held[SID] = await self.create(SID, record)

    async def hold(self) -> SessionRecord:
        found = await self.load(SID)
        assert found is not None
        self.held[SID] = found
        return found.record

    async def refresh(self) -> None:
        """Hold the newest record: others that load it are added without a word."""
        self.held[SID] = await self.peek(SID)  # type: ignore[assignment]

    async def set_level(self, level: str) -> CachedRecord | None:
        known = self.held.get(SID)
        changed = await self.change(
            SID, lambda record: replace(record, log_level=level), known=known
        )
        if changed is not None and SID in self.held:
            self.held[SID] = changed
        return changed

    async def end(self) -> None:
        await self.change(SID, lambda record: replace(record, is_ended=True))

    @property
    def level(self) -> str | None:
        return self.held[SID].record.log_level if SID in self.held else None


@asynccontextmanager
async def copying(count: int = 3):
    async with working(count) as mates:
        yield [Copies(mate) for mate in mates]


async def holders(copies: Copies) -> tuple[str, ...]:
    found = await copies.peek(SID)
    assert found is not None
    return found.record.holders


# -- encoding


def test_a_record_is_read_as_it_was_written():
    record = replace(NEW, state={"a": b"\x01"}, subscriptions=frozenset({"note://a"}), outbox=7)
    read = decode_record(encode_record(record, {}), 5)
    assert (read.record, read.version, read.unknown) == (record, 5, {})
    assert read.is_readable


def test_unknown_members_survive_a_change():
    value = msgspec.msgpack.encode({"created": 1.0, "colour": "red", "later": {"deep": [1]}})
    read = decode_record(value, 1)
    assert read.is_readable
    written = encode_record(replace(read.record, log_level="info"), read.unknown)
    again = msgspec.msgpack.decode(written)
    assert (again["colour"], again["later"], again["log_level"]) == ("red", {"deep": [1]}, "info")


@cases("more", [{}, {"holders": 5}, {"listeners": "many"}, {"state": None}])
def test_a_record_of_a_later_format_is_known_as_such_whatever_it_looks_like(more):
    value = msgspec.msgpack.encode({"created": 1.0, "needs": FORMAT + 1, **more})
    assert not decode_record(value, 1).is_readable


@cases("value", [b"", b"\xc1", b"\x01", b"\x80", b"\x81\xa7created\xa1x"])
def test_a_record_that_cannot_be_read_is_an_error(value):
    with pytest.raises(StoreError, match="cannot be read"):
        decode_record(value, 1)


# -- holding copies


@in_virtual_time
async def test_workers_that_load_a_record_hold_a_copy():
    async with copying() as (first, second, third):
        await first.begin()
        await second.hold()
        await second.hold()
        assert await holders(first) == (first.worker.id, second.worker.id)
        assert await third.load("other") is None


@in_virtual_time
async def test_a_session_cannot_be_made_twice():
    async with copying(1) as (only,):
        await only.begin()
        with pytest.raises(Conflict):
            await only.begin()


@in_virtual_time
async def test_a_change_is_everywhere_when_it_returns():
    async with copying() as all_copies:
        first, second, third = all_copies
        await first.begin()
        await second.hold()
        await third.hold()
        for number, copies in enumerate([*all_copies, *all_copies]):
            await copies.set_level(str(number))
            assert {each.level for each in all_copies} == {str(number)}


@in_virtual_time
async def test_changes_at_the_same_time_are_all_kept():
    async with copying() as all_copies:
        await all_copies[0].begin()
        for each in all_copies[1:]:
            await each.hold()

        async def add(copies: Copies, key: str) -> None:
            def put(record: SessionRecord) -> SessionRecord:
                return replace(record, state={**record.state, key: b"\x01"})

            changed = await copies.change(SID, put, known=copies.held[SID])
            assert changed is not None
            copies._take(SID, changed)

        await asyncio.gather(
            *(add(each, f"{at}.{n}") for at, each in enumerate(all_copies) for n in range(10))
        )
        found = await all_copies[0].peek(SID)
        assert len(found.record.state) == 30
        assert [len(each.held[SID].record.state) for each in all_copies] == [30, 30, 30]


@in_virtual_time
async def test_a_change_of_nothing_writes_nothing():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        before = first.worker.connection.times("put")
        known = first.held[SID] = await first.peek(SID)
        found = await first.change(SID, lambda record: None, known=known)
        assert found == known
        assert first.worker.connection.times("put") == before
        assert second.taken == []


@in_virtual_time
async def test_a_change_without_other_holders_costs_one_operation():
    async with copying() as (first, *_):
        await first.begin()
        before = len(first.worker.connection.calls)
        await first.set_level("info")
        await first.set_level("error")
        assert [name for name, _ in first.worker.connection.calls[before:]] == ["put", "put"]


@in_virtual_time
async def test_a_holder_that_was_killed_delays_a_change_by_its_lease_at_most_and_once():
    async with copying() as (first, second, third):
        await first.begin()
        await second.hold()
        await third.hold()
        await pass_lease(1)
        second.worker.kill()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await first.set_level("info")
        assert loop.time() - began <= 1.3 * LEASE
        assert third.level == "info"
        began = loop.time()
        await first.set_level("error")  # which names it as a holder no more
        await first.set_level("debug")
        assert loop.time() - began < 0.5
        assert second.worker.id not in await holders(first)


@in_virtual_time
async def test_a_holder_that_gave_its_copy_up_is_forgotten():
    async with copying() as (first, second, third):
        await first.begin()
        await second.hold()
        await third.hold()
        del second.held[SID]  # evicted
        await first.set_level("info")
        await first.set_level("error")
        assert await holders(first) == (first.worker.id, third.worker.id)
        await second.hold()
        assert second.worker.id in await holders(first)
        await first.set_level("debug")
        assert second.level == "debug"


@in_virtual_time
async def test_a_holder_that_comes_back_while_it_is_being_forgotten_reads_anew():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        del second.held[SID]
        await first.set_level("info")  # the acknowledgement says that there is no copy
        await second.hold()  # it is among the holders still
        await first.set_level("error")
        # It was informed that it does not hold one any more.
        assert second.level is None
        assert (await second.hold()).log_level == "error"
        await first.set_level("debug")
        assert second.level == "debug"


@in_virtual_time
async def test_a_holder_that_takes_its_time_is_waited_for():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        second.worker.connection.fail("read", names.inbox_of(second.worker.id), seconds=0.5)
        await first.set_level("info")
        assert second.level == "info"


@in_virtual_time
async def test_a_stalled_holder_distrusts_its_copy_before_the_change_returns():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        second.worker.connection.stall()
        await first.set_level("info")
        assert not second.worker.is_valid(asyncio.get_running_loop().time())
        second.worker.connection.move_on()
        await eventually(lambda: second.worker.late)


# -- a store that fails in the middle


@pytest.mark.parametrize(
    ("operation", "part"),
    [("put", SID), ("append", "i"), ("get", "w")],
    ids=["the write", "the message to a holder", "the look for a holder"],
)
@pytest.mark.parametrize("is_carried_out", [True, False])
@in_virtual_time
async def test_holders_hear_of_a_change_that_seemed_to_fail(operation, part, is_carried_out):
    async with copying() as (first, second, third):
        await first.begin()
        await second.hold()
        await third.hold()
        if operation == "get":
            third.worker.connection.fail("read", names.inbox_of(third.worker.id), seconds=0.3)
        await first.refresh()
        first.worker.connection.fail(operation, part, is_carried_out=is_carried_out)
        with pytest.raises(StoreUnavailable):
            await first.set_level("info")
        await pass_lease(5)
        stored = (await third.peek(SID)).record.log_level
        assert stored == ("info" if operation != "put" or is_carried_out else "")
        assert {second.level, third.level} == {stored}


@in_virtual_time
async def test_a_change_that_is_repeated_after_a_lost_answer_is_everywhere_when_it_returns():
    async with copying() as (first, second, third):
        await first.begin()
        await second.hold()
        await third.hold()
        await first.refresh()
        first.worker.connection.fail("put", SID, is_carried_out=True)
        with pytest.raises(StoreUnavailable):
            await first.set_level("info")

        def put(record: SessionRecord) -> SessionRecord | None:
            return None if record.log_level == "info" else replace(record, log_level="info")

        await first.change(SID, put)
        assert second.level == third.level == "info"


@in_virtual_time
async def test_an_end_whose_answer_was_lost_is_known_everywhere():
    async with copying() as (first, second, third):
        await first.begin()
        await second.hold()
        await third.hold()
        await first.refresh()
        first.worker.connection.fail("put", SID, is_carried_out=True)
        with pytest.raises(StoreUnavailable):
            await first.end()
        await first.end()  # the client tries again
        assert len(second.taken) == len(third.taken) == 1
        assert await first.set_level("info") is None


@in_virtual_time
async def test_a_change_whose_caller_is_cancelled_is_everywhere_all_the_same():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        for turns in range(12):
            level = f"level {turns}"
            changing = asyncio.create_task(first.set_level(level))
            for _ in range(turns):
                await asyncio.sleep(0)
            changing.cancel()
            await asyncio.wait((changing,))
            await pass_lease(1)
            stored = (await second.peek(SID)).record.log_level
            assert second.level == stored
            await first.refresh()
        assert stored == "level 11"


@in_virtual_time
async def test_doubts_end_when_the_session_is_gone():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        first.worker.connection.fail("put", SID)
        with pytest.raises(StoreUnavailable):
            await first.set_level("info")
        await first.worker.backend.delete(names.session_of(SID))
        await pass_lease(2)
        assert not first._doubts
        assert not first._tasks


@in_virtual_time
async def test_doubts_wait_for_a_store_that_is_away():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        await first.refresh()
        first.worker.connection.fail("put", SID, is_carried_out=True)
        with pytest.raises(StoreUnavailable):
            await first.set_level("info")
        first.worker.connection.cut()
        await pass_lease(20)
        assert second.level == ""
        first.worker.connection.mend()
        await eventually(lambda: second.level == "info")


@in_virtual_time
async def test_changes_under_way_do_not_outlast_the_end():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        second.worker.connection.stall()
        changing = asyncio.create_task(first.set_level("info"))
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await first.close(0.2)
        assert asyncio.get_running_loop().time() - began <= 0.3
        await asyncio.wait((changing,))
        assert changing.cancelled()
        second.worker.connection.move_on()


# -- limits and other versions


@in_virtual_time
async def test_a_record_that_changes_all_the_time_is_given_up():
    async with copying(1) as (only,):
        await only.begin()
        backend = only.worker.connection.store.backend
        put = backend.put

        async def disturb(key, value, *, ttl, expect=None):
            if key == names.session_of(SID):
                await put(key, encode_record(NEW, {}), ttl=ttl)
            return await put(key, value, ttl=ttl, expect=expect)

        backend.put = disturb
        with pytest.raises(StoreError, match="too often to be changed"):
            await only.set_level("info")
        only.worker.id = "another"
        with pytest.raises(StoreError, match="too often to be read"):
            await only.load(SID)
        del backend.put


@in_virtual_time
async def test_a_record_of_a_later_format_is_neither_held_nor_changed():
    async with copying(1) as (only,):
        value = msgspec.msgpack.encode({"created": 1.0, "needs": FORMAT + 1, "holders": {"a": 1}})
        await only.worker.backend.put(names.session_of(SID), value, ttl=60)
        found = await only.load(SID)
        assert not found.is_readable
        with pytest.raises(StoreError, match="later version"):
            await only.set_level("info")
        assert (await only.worker.backend.get(names.session_of(SID))).value == value


@in_virtual_time
async def test_unknown_members_survive_changes_of_all_workers():
    async with copying() as (first, second, _):
        value = msgspec.msgpack.encode({"created": 1.0, "colour": "red"})
        await first.worker.backend.put(names.session_of(SID), value, ttl=60)
        await first.hold()
        await second.hold()
        await first.set_level("info")
        await second.set_level("error")
        stored = await first.worker.backend.get(names.session_of(SID))
        written = msgspec.msgpack.decode(stored.value)
        assert (written["colour"], written["log_level"]) == ("red", "error")


@in_virtual_time
async def test_an_ended_session_stays_ended_and_is_not_held():
    async with copying() as (first, second, _):
        await first.begin()
        await second.hold()
        await first.end()
        assert (await second.load(SID)).record.is_ended
        assert await second.set_level("info") is None
        assert (await second.peek(SID)).record.is_ended


@in_virtual_time
async def test_a_session_that_is_never_used_ends_within_a_minute_and_one_that_is_does_not():
    async with copying(1) as (only,):
        await only.begin()
        await asyncio.sleep(59)
        assert await only.peek(SID) is not None
        await only.set_level("info")
        await asyncio.sleep(900)
        assert await only.peek(SID) is not None
        await asyncio.sleep(101)
        assert await only.peek(SID) is None
