"""Buckets: limits on how often something happens."""

import asyncio

import pytest

from accord.sharing import Allowance, Backend
from support.store_times import wait_until

# So slow that nothing flows in during a test.
SLOWLY = 1e-6
GRANTED = Allowance(is_granted=True, wait=0)


async def test_a_bucket_is_full_in_the_beginning_and_then_empty(backend: Backend):
    for _ in range(3):
        assert await backend.take("b", cost=1, rate=SLOWLY, burst=3) == GRANTED
    refused = await backend.take("b", cost=1, rate=SLOWLY, burst=3)
    assert not refused.is_granted
    assert 0 < refused.wait <= 1 / SLOWLY


async def test_a_cost_is_taken_as_a_whole_or_not_at_all(backend: Backend):
    assert (await backend.take("b", cost=2.5, rate=SLOWLY, burst=4)).is_granted
    assert not (await backend.take("b", cost=2.5, rate=SLOWLY, burst=4)).is_granted
    assert (await backend.take("b", cost=1.5, rate=SLOWLY, burst=4)).is_granted


async def test_the_wait_grows_with_what_is_missing(backend: Backend):
    await backend.take("b", cost=10, rate=0.01, burst=10)
    small = await backend.take("b", cost=1, rate=0.01, burst=10)
    large = await backend.take("b", cost=5, rate=0.01, burst=10)
    assert small.wait == pytest.approx(100, abs=60)
    assert large.wait == pytest.approx(500, abs=60)


async def test_the_cost_is_granted_after_the_wait(backend: Backend):
    await backend.take("b", cost=5, rate=20, burst=5)
    for _ in range(3):
        allowance = await backend.take("b", cost=2, rate=20, burst=5)
        if not allowance.is_granted:
            await wait_until(backend, await backend.now() + allowance.wait)
            assert (await backend.take("b", cost=2, rate=20, burst=5)).is_granted


async def test_a_bucket_never_holds_more_than_its_burst(backend: Backend):
    async def take_twice(bucket: str, ttl: float) -> None:
        rate = 3 / ttl
        await backend.take(bucket, cost=3, rate=rate, burst=3)
        await wait_until(backend, await backend.now() + 2 * ttl)  # enough for 6
        began = await backend.now()
        assert (await backend.take(bucket, cost=3, rate=rate, burst=3)).is_granted
        allowance = await backend.take(bucket, cost=3, rate=rate, burst=3)
        assert not allowance.is_granted or await backend.now() >= began + ttl

    for ttl in (0.05, 0.2):
        await take_twice(f"b{ttl}", ttl)


async def test_a_cost_above_the_burst_is_never_granted_and_takes_nothing(backend: Backend):
    refused = await backend.take("b", cost=5, rate=1000, burst=3)
    assert not refused.is_granted
    assert refused.wait == float("inf")
    assert (await backend.take("b", cost=3, rate=SLOWLY, burst=3)).is_granted


async def test_a_cost_of_nothing_is_always_granted(backend: Backend):
    await backend.take("b", cost=1, rate=SLOWLY, burst=1)
    assert await backend.take("b", cost=0, rate=SLOWLY, burst=1) == GRANTED


async def test_buckets_are_separate(backend: Backend):
    assert (await backend.take("b", cost=1, rate=SLOWLY, burst=1)).is_granted
    assert (await backend.take("c", cost=1, rate=SLOWLY, burst=1)).is_granted


async def test_concurrent_callers_get_what_is_in_the_bucket_and_not_more(
    backend: Backend, second: Backend
):
    allowances = await asyncio.gather(
        *(
            client.take("b", cost=1, rate=SLOWLY, burst=17)
            for _ in range(20)
            for client in (backend, second)
        )
    )
    assert sum(each.is_granted for each in allowances) == 17
