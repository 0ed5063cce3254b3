"""Leases of workers, and what becomes of the work of those that are lost."""

import asyncio

import pytest

from accord.errors import StoreError, StoreUnavailable
from accord.sharing import KeyRing, MemoryBackend, SealedBackend
from accord.sharing.workers import names
from support.bare_workers import Mate, pass_lease, working
from support.shared import KEY, LEASE, eventually, in_virtual_time, loop_clock


def lost_ids(*mates):
    return sorted(id for mate in mates for id in set(mate.lost))


# -- joining and leaving


@in_virtual_time
async def test_workers_that_renew_their_leases_are_not_taken_over():
    async with working(4) as mates:
        await pass_lease(20)
        assert lost_ids(*mates) == []
        assert all([await mates[0].is_alive(mate.id) for mate in mates])
        assert {mate.late for mate in mates} == {0}
        assert len({mate.id for mate in mates}) == 4
        assert all(mate.metrics.lease_margin > 0 for mate in mates)


@in_virtual_time
async def test_a_worker_that_leaves_in_good_order_is_not_taken_over():
    async with working(3) as mates:
        gone = mates.pop()
        await gone.stop()
        await pass_lease()
        assert lost_ids(*mates) == []
        assert sorted(await mates[0].backend.members(names.WORKERS)) == sorted(
            mate.id for mate in mates
        )


@in_virtual_time
async def test_a_worker_that_leaves_with_recovery_records_is_taken_over_at_once():
    async with working(3) as mates:
        await pass_lease()
        gone = mates.pop()
        await gone.keep_recovery_record("stream/a/b")
        await gone.stop()
        began = asyncio.get_running_loop().time()
        await eventually(lambda: lost_ids(*mates) == [gone.id])
        assert asyncio.get_running_loop().time() - began < LEASE


@in_virtual_time
async def test_a_worker_that_has_left_may_join_again():
    async with working(1) as mates:
        (only,) = mates
        before = only.id
        await only.stop()
        assert only.unready_reason == "the worker has not started"
        await only.start()
        assert only.id != before
        assert only.unready_reason is None
        await pass_lease()
        assert only.is_connected


@in_virtual_time
async def test_a_worker_cannot_join_while_the_store_is_away():
    async with working(1) as mates:
        other = Mate(mates.store, keys=mates[0].keys, lease=LEASE)
        other.connection.cut()
        with pytest.raises(StoreUnavailable):
            await other.start()
        other.connection.mend()
        await other.start()
        mates.append(other)


@in_virtual_time
async def test_workers_leave_nothing_in_the_store():
    async with working(3) as mates:
        store = mates.store
        await pass_lease()
        await mates[0].send(mates[1].id, "text", b"a")
    facts = await store.backend.describe()
    # The epoch, and an inbox that expires by itself.
    assert facts["records"] == 1
    assert facts["index_members"] == 0
    assert facts["logs"] <= 1


@in_virtual_time
async def test_a_worker_that_stops_ends_its_tasks():
    before = asyncio.all_tasks()
    async with working(3) as mates:
        await mates[0].send(mates[1].id, "text", b"a")
        await pass_lease()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


# -- lost workers


@in_virtual_time
async def test_a_killed_worker_is_taken_over_by_one_other_within_lease_and_a_second():
    async with working(5) as mates:
        await pass_lease()
        killed = mates.pop(2)
        killed.kill()
        began = asyncio.get_running_loop().time()
        await eventually(lambda: any(mate.lost for mate in mates))
        assert asyncio.get_running_loop().time() - began < LEASE + 1
        await pass_lease(5)
        takers = [mate for mate in mates if mate.lost]
        assert len(takers) == 1
        assert set(takers[0].lost) == {killed.id}
        assert takers[0].metrics.takeovers == 1
        assert killed.id not in await mates[0].backend.members(names.WORKERS)
        assert not await mates[0].is_alive(killed.id)


@pytest.mark.parametrize("count", [2, 3, 6])
@in_virtual_time
async def test_one_survivor_takes_over_all_others(count):
    async with working(count) as mates:
        await pass_lease()
        survivor, *killed = mates
        for mate in killed:
            mate.kill()
        del mates[1:]
        await eventually(lambda: len(set(survivor.lost)) == len(killed))
        assert lost_ids(survivor) == sorted(mate.id for mate in killed)


@in_virtual_time
async def test_work_of_a_taker_that_is_lost_itself_is_taken_over_without_a_long_wait():
    async with working(3) as mates:
        await pass_lease()
        first = mates.pop(0)
        first.kill()

        def taker():
            return next((mate for mate in mates if first.id in mate.lost), None)

        second = await eventually(taker)
        second.kill()  # its takeover is not complete
        mates.remove(second)
        (third,) = mates
        began = asyncio.get_running_loop().time()
        await eventually(lambda: set(third.lost) == {first.id, second.id})
        assert asyncio.get_running_loop().time() - began < 2 * LEASE + 2


@in_virtual_time
async def test_a_takeover_that_the_store_interrupts_is_done_later():
    async with working(2) as mates:
        await pass_lease()
        killed = mates.pop(0)
        killed.kill()
        (other,) = mates
        attempts = []

        async def fail_once(id):
            attempts.append(id)
            if len(attempts) == 1:
                raise StoreUnavailable("in the middle")

        other.on_worker_lost(fail_once)
        await eventually(lambda: len(attempts) >= 2)
        await eventually(lambda: killed.id in other.lost)


@in_virtual_time
async def test_a_takeover_that_fails_ends_neither_the_worker_nor_other_takeovers(caplog):
    async with working(3) as mates:
        await pass_lease()
        survivor, *killed = mates
        del mates[1:]

        async def fail(id):
            if id == killed[0].id:
                raise RuntimeError("of a callback")

        survivor.on_worker_lost(fail)
        for mate in killed:
            mate.kill()
        await eventually(lambda: len(set(survivor.lost)) == 2)
        await pass_lease(5)
        assert survivor.is_valid(asyncio.get_running_loop().time())
        assert "could not be taken over" in caplog.text
        left = await survivor.backend.members(names.WORKERS)
        assert killed[1].id not in left


# -- workers that are late


@in_virtual_time
async def test_a_stalled_worker_that_was_taken_over_goes_on_under_a_new_id():
    async with working(2) as (first, second):
        await pass_lease()
        before = first.id
        first.connection.stall()
        await eventually(lambda: second.lost)
        first.connection.move_on()
        await eventually(lambda: first.id != before)
        assert first.late == 1
        await pass_lease(5)
        assert await second.is_alive(first.id)
        assert not await second.is_alive(before)
        assert set(second.lost) == {before}
        assert set(first.lost) == {before}


@in_virtual_time
async def test_a_worker_alone_keeps_its_id_however_long_it_was_stalled():
    async with working(1) as (only,):
        before = only.id
        only.connection.stall()
        await asyncio.sleep(20 * LEASE)
        only.connection.move_on()
        await eventually(lambda: only.late)
        assert only.id == before
        assert only.lost == []
        assert only.is_valid(asyncio.get_running_loop().time())


@in_virtual_time
async def test_messages_to_the_new_id_of_a_late_worker_arrive():
    async with working(2) as (first, second):
        taken = []
        first.on("text", taken.append)
        before = first.id
        first.connection.stall()
        await eventually(lambda: second.lost)
        first.connection.move_on()
        await eventually(lambda: first.id != before)
        await second.send(first.id, "text", b"a")
        await eventually(lambda: taken == [b"a"])


@in_virtual_time
async def test_nothing_is_relied_on_once_the_lease_has_run_out():
    async with working(1) as (only,):
        loop = asyncio.get_running_loop()
        assert only.is_valid(loop.time())
        only.connection.stall()
        await asyncio.sleep(1.01 * LEASE)
        assert not only.is_valid(loop.time())
        only.connection.move_on()
        await eventually(lambda: only.is_valid(loop.time()))


@in_virtual_time
async def test_a_renewal_whose_answer_is_lost_costs_nothing():
    async with working(2) as (first, second):
        before = first.id
        first.connection.fail("put", names.lease_of(before), times=3, is_carried_out=True)
        await pass_lease(4)
        assert first.id == before
        assert first.late == 0
        assert second.lost == []


@in_virtual_time
async def test_callers_at_the_same_time_share_one_renewal():
    async with working(1) as (only,):
        await asyncio.sleep(0.05 * LEASE)
        before = only.connection.times("put", names.lease_of(only.id))
        assert await asyncio.gather(*(only.renew_lease() for _ in range(5))) == [True] * 5
        assert only.connection.times("put", names.lease_of(only.id)) == before + 1


@in_virtual_time
async def test_a_caller_of_a_renewal_that_gives_up_does_not_end_it_for_others():
    async with working(1) as (only,):
        only.connection.stall()
        impatient = asyncio.create_task(only.renew_lease())
        patient = asyncio.create_task(only.renew_lease())
        await asyncio.sleep(0.01)
        impatient.cancel()
        await asyncio.sleep(0.01)
        only.connection.move_on()
        assert await patient is True
        assert impatient.cancelled()


@pytest.mark.parametrize("is_carried_out", [True, False])
@pytest.mark.parametrize("operation", ["follow", "unfollow", "add", "put", "delete", "get"])
@in_virtual_time
async def test_a_late_worker_whose_return_is_interrupted_hears_of_everything(
    operation, is_carried_out
):
    async with working(2) as (first, second):
        taken = []
        first.on("text", taken.append)
        before = first.id
        first.connection.stall()
        await eventually(lambda: second.lost)
        first.connection.fail(operation, is_carried_out=is_carried_out)
        first.connection.move_on()
        await eventually(lambda: first.id != before)
        await pass_lease(3)
        assert await second.is_alive(first.id)
        await second.send(first.id, "text", b"a")
        await eventually(lambda: taken == [b"a"], seconds=3)
        followed = [topic for topic, _ in first.connection.followed if topic.endswith("i")]
        assert followed == [names.inbox_of(first.id)]


@in_virtual_time
async def test_messages_to_the_former_id_of_a_late_worker_arrive():
    async with working(2) as (first, second):
        taken = []
        first.on("text", taken.append)
        before = first.id
        first.connection.stall()
        await eventually(lambda: second.lost)
        await second.send(before, "text", b"while it was stalled")
        first.connection.move_on()
        await eventually(lambda: first.id != before)
        await second.send(before, "text", b"before others knew")
        await eventually(lambda: len(taken) == 2, seconds=3)
        assert sorted(taken) == [b"before others knew", b"while it was stalled"]


@pytest.mark.parametrize("is_carried_out", [True, False])
@in_virtual_time
async def test_a_claim_whose_answer_was_lost_does_not_delay_the_takeover(is_carried_out):
    async with working(2) as mates:
        await pass_lease()
        killed = mates.pop(0)
        killed.kill()
        (other,) = mates
        other.connection.fail("put", names.takeover_of(killed.id), is_carried_out=is_carried_out)
        began = asyncio.get_running_loop().time()
        await eventually(lambda: other.lost)
        assert asyncio.get_running_loop().time() - began < 5 * LEASE


@in_virtual_time
async def test_a_taker_that_was_stalled_does_not_end_a_worker_that_has_come_back():
    async with working(3) as mates:
        await pass_lease()
        lost, other = mates[0], mates[1:]
        lost.connection.stall()
        taker = await eventually(lambda: next((each for each in other if each.lost), None))
        third = next(each for each in other if each is not taker)
        # The taker stands still in the middle of it; another one claims the lost worker.
        taker.connection.stall()
        await eventually(lambda: lost.id in third.lost or third.metrics.takeovers)
        lost.connection.move_on()
        taker.connection.move_on()
        await pass_lease(8)
        for mate in mates:
            assert await third.is_alive(mate.id)
            assert mate.id in await third.backend.members(names.WORKERS)


# -- a store that is away, or has lost its data


@in_virtual_time
async def test_workers_that_miss_a_store_for_long_do_not_take_each_other_over():
    async with working(4) as mates:
        await pass_lease()
        for mate in mates:
            mate.connection.cut()
        await asyncio.sleep(30 * LEASE)
        for mate in mates:
            mate.connection.mend()
        await pass_lease(10)
        assert lost_ids(*mates) == []
        assert all(mate.is_connected for mate in mates)


@in_virtual_time
async def test_a_silent_store_is_reported_once_the_patience_is_over(caplog):
    async with working(1) as (only,):
        assert only.unready_reason is None
        only.connection.cut()
        await eventually(lambda: not only.is_connected)
        assert only.unready_reason is None  # it may be back in a moment
        await asyncio.sleep(only.patience + LEASE)
        assert "does not answer" in str(only.unready_reason)
        only.connection.mend()
        await eventually(lambda: only.unready_reason is None)
        assert only.is_connected
        assert only.metrics.store_errors > 0
        assert caplog.text.count("the store does not answer") == 1
        assert caplog.text.count("the store answers again") == 1


@in_virtual_time
async def test_an_operation_that_takes_longer_than_the_patience_fails():
    async with working(1) as (only,):
        only.connection.fail("get", "slow", seconds=100.0)
        began = asyncio.get_running_loop().time()
        with pytest.raises(StoreUnavailable, match="did not answer within 5 s"):
            await only.backend.get("slow")
        assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)


@in_virtual_time
async def test_a_store_that_has_lost_its_data_has_another_epoch_for_all_workers():
    async with working(3) as mates:
        before = mates[0].epoch
        assert {mate.epoch for mate in mates} == {before}
        assert await mates[0].is_same_store()
        mates.store.lose_data()
        await eventually(lambda: all(mate.epoch != before for mate in mates), seconds=LEASE)
        assert len({mate.epoch for mate in mates}) == 1
        assert all(mate.late for mate in mates)
        await pass_lease(5)
        assert lost_ids(*mates) == []
        assert sorted(await mates[0].backend.members(names.WORKERS)) == sorted(
            mate.id for mate in mates
        )


@pytest.mark.parametrize("value", [b"", b"\xff\x00", b"no epoch", b"6b49d200-", b"{}"])
@in_virtual_time
async def test_a_damaged_epoch_is_replaced_so_that_workers_start(value, caplog):
    async with working(1) as mates:
        before = mates[0].epoch
        await mates.store.backend.put(names.EPOCH, value, ttl=60)
        joined = await mates.add()
        assert joined.epoch != before
        assert await mates[0].renew_epoch() == joined.epoch
        assert (await mates.add()).epoch == joined.epoch
        assert joined.epoch_began > 0
    assert "the record 'epoch' of the store is damaged; another epoch begins" in caplog.text


def flip(value):
    return value[:-1] + bytes([value[-1] ^ 1])


@pytest.mark.parametrize("damage", [flip, lambda value: value[:40], lambda value: b""])
@in_virtual_time
async def test_a_sealed_epoch_that_was_altered_is_replaced_so_that_workers_start(damage):
    inner = MemoryBackend(clock=loop_clock)
    async with working(0) as mates:
        mates.store.backend = SealedBackend(inner, KeyRing([KEY]))
        before = (await mates.add()).epoch
        await inner.put(names.EPOCH, damage((await inner.get(names.EPOCH)).value), ttl=60)
        joined = await mates.add()
        assert joined.epoch not in ("", before)
        assert await mates[0].renew_epoch() == joined.epoch


@pytest.mark.parametrize("other", [KeyRing(["another key of the same length, or longer"]), None])
@in_virtual_time
async def test_an_epoch_that_was_sealed_with_another_key_is_left_alone(other):
    inner = MemoryBackend(clock=loop_clock)
    async with working(0) as mates:
        mates.store.backend = SealedBackend(inner, KeyRing([KEY]))
        first = await mates.add()
        kept = await inner.get(names.EPOCH)
        mates.store.backend = inner if other is None else SealedBackend(inner, other)
        with pytest.raises(StoreError, match="key"):
            await mates.add()
        assert await inner.get(names.EPOCH) == kept
        mates.store.backend = SealedBackend(inner, KeyRing([KEY]))
        assert await first.renew_epoch() == first.epoch


@in_virtual_time
async def test_the_secret_of_workers_without_keys_survives_lost_data():
    async with working(2, has_key=False) as mates:
        before = mates[0].keys.derive("session id")
        assert mates[1].keys.derive("session id") == before
        mates.store.lose_data()
        await eventually(lambda: all(mate.late for mate in mates))
        joined = await mates.add(has_key=False)
        assert joined.keys.derive("session id") == before


# -- recovery records


@in_virtual_time
async def test_recovery_records_are_listed_under_the_worker_until_they_end():
    async with working(2) as (first, second):
        await first.keep_recovery_record("stream/a/1")
        await first.keep_recovery_record("stream/a/2")
        index = names.recovery_records_of(first.id)
        assert sorted(await second.backend.members(index)) == ["stream/a/1", "stream/a/2"]
        await first.drop_recovery_record("stream/a/1")
        await second.drop_recovery_record("stream/a/2", worker=first.id)
        assert await second.backend.members(index) == []


@in_virtual_time
async def test_an_operator_can_ask_a_worker_to_drain():
    async with working(2) as (first, second):
        await second.send(first.id, "drain", b"")
        await eventually(lambda: first.is_draining)
        assert first.unready_reason == "the worker is draining"


@in_virtual_time
async def test_the_time_of_the_store_is_known_without_asking_it():
    async with working(1) as (only,):
        before = only.connection.times("now")
        assert only.now() == pytest.approx(loop_clock(), abs=0.1)
        assert only.connection.times("now") == before


@in_virtual_time
async def test_a_part_that_fails_is_begun_again(caplog):
    async with working(1) as (only,):
        only.connection.fail("read", names.inbox_of(only.id), error=RuntimeError("odd"))
        taken = []
        only.on("text", taken.append)
        await eventually(lambda: "is begun again" in caplog.text)
        await only.send(only.id, "text", b"a")
        await eventually(lambda: taken == [b"a"])
