"""Fences: of several workers, one at a time may write to a log."""

import asyncio

import pytest

from accord.errors import Conflict, Fenced, LogClosed
from accord.sharing import Backend, LogPage
from support.store_times import before_expiry, wait_until


async def fence_of(backend: Backend, log: str) -> int:
    page = await backend.read(log)
    assert page is not None
    return page.fence


async def test_a_log_begins_with_the_fence_of_its_first_append(backend: Backend):
    await backend.append("plain", [b"one"], ttl=60)
    await backend.append("given", [b"one"], ttl=60, fence=5)
    assert await fence_of(backend, "plain") == 0
    assert await fence_of(backend, "given") == 5


async def test_a_lower_fence_is_refused(backend: Backend, second: Backend):
    await backend.append("l", [b"one"], ttl=60, fence=5)
    with pytest.raises(Fenced, match="'l'"):
        await second.append("l", [b"late"], ttl=60, fence=4)
    assert await backend.read("l") == LogPage([b"one"], 1, 1, is_closed=False, fence=5)


async def test_a_higher_fence_becomes_that_of_the_log(backend: Backend):
    await backend.append("l", [b"one"], ttl=60, fence=5)
    await backend.append("l", [b"two"], ttl=60, fence=5)
    await backend.append("l", [b"three"], ttl=60, fence=9)
    assert await fence_of(backend, "l") == 9
    with pytest.raises(Fenced):
        await backend.append("l", [b"late"], ttl=60, fence=8)


async def test_an_append_without_a_fence_is_taken_whatever_the_fence_is(backend: Backend):
    await backend.append("l", [b"one"], ttl=60, fence=5)
    assert await backend.append("l", [b"two"], ttl=60) == 2
    assert await fence_of(backend, "l") == 5


async def test_a_refused_append_does_not_raise_the_fence(backend: Backend):
    await backend.append("l", [b"one"], ttl=60, fence=1)
    with pytest.raises(Conflict):
        await backend.append("l", [b"two"], ttl=60, fence=7, after=0)
    assert await fence_of(backend, "l") == 1
    await backend.append("l", [b"end"], ttl=60, fence=1, final=True)
    with pytest.raises(LogClosed):
        await backend.append("l", [b"late"], ttl=60, fence=7)
    assert await fence_of(backend, "l") == 1


async def test_a_lower_fence_is_refused_as_such_even_if_the_log_is_closed(backend: Backend):
    await backend.append("l", [b"end"], ttl=60, fence=5, final=True)
    with pytest.raises(Fenced):
        await backend.append("l", [b"late"], ttl=60, fence=4, after=0)


async def test_seize_raises_the_fence_by_one_and_keeps_the_entries(
    backend: Backend, second: Backend
):
    await backend.append("l", [b"one"], ttl=60, fence=5)
    assert await second.seize("l", fence=5)
    assert await backend.read("l") == LogPage([b"one"], 1, 1, is_closed=False, fence=6)


async def test_the_holder_before_is_refused_after_a_seize(backend: Backend, second: Backend):
    await backend.append("l", [b"one"], ttl=60, fence=0)
    assert await second.seize("l", fence=0)
    with pytest.raises(Fenced):
        await backend.append("l", [b"late"], ttl=60, fence=0, final=True)
    assert await second.append("l", [b"two"], ttl=60, fence=1, final=True) == 2
    assert await backend.read("l") == LogPage([b"one", b"two"], 1, 2, is_closed=True, fence=1)


async def test_seize_is_false_with_another_fence(backend: Backend):
    await backend.append("l", [b"one"], ttl=60, fence=5)
    assert not await backend.seize("l", fence=4)
    assert not await backend.seize("l", fence=6)
    assert await fence_of(backend, "l") == 5


async def test_seize_is_false_for_a_closed_log(backend: Backend):
    await backend.append("l", [b"end"], ttl=60, final=True)
    assert not await backend.seize("l", fence=0)
    assert await fence_of(backend, "l") == 0


async def test_seize_is_false_without_a_log(backend: Backend):
    assert not await backend.seize("l", fence=0)
    assert await backend.read("l") is None


async def test_seize_does_not_change_the_life_of_a_log(backend: Backend):
    async def seize(log: str, ttl: float) -> None:
        await backend.append(log, [b"one"], ttl=ttl)
        assert await backend.seize(log, fence=0)

    log, end = await before_expiry(backend, seize)
    await wait_until(backend, end)
    assert await backend.read(log) is None


async def test_of_concurrent_callers_with_the_same_fence_one_seizes(
    backend: Backend, second: Backend
):
    await backend.append("l", [b"one"], ttl=60)
    for fence in range(5):
        results = await asyncio.gather(
            *(client.seize("l", fence=fence) for _ in range(10) for client in (backend, second))
        )
        assert sum(results) == 1
    assert await fence_of(backend, "l") == 5


async def test_either_the_seize_or_the_final_entry_comes_first(backend: Backend, second: Backend):
    for number in range(20):
        log = f"l{number}"
        await backend.append(log, [b"one"], ttl=60, fence=0)
        ended, is_seized = await asyncio.gather(
            backend.append(log, [b"end"], ttl=60, fence=0, final=True),
            second.seize(log, fence=0),
            return_exceptions=True,
        )
        page = await backend.read(log)
        assert page is not None
        if is_seized:
            assert isinstance(ended, Fenced)
            assert (page.items, page.is_closed, page.fence) == ([b"one"], False, 1)
        else:
            assert ended == 2
            assert (page.items, page.is_closed, page.fence) == ([b"one", b"end"], True, 0)
