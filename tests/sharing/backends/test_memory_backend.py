"""What is special to the backend in memory: its clock, and that it forgets what has expired."""

import asyncio
import math
from typing import Any

import pytest

from accord.errors import Conflict
from accord.sharing import MemoryBackend
from support.waiting import in_loop, run


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(clock: Clock) -> MemoryBackend:
    return MemoryBackend(clock=clock)


def sizes(backend: MemoryBackend) -> list[int]:
    """How much it holds, without making it forget anything."""
    return [
        len(backend._records),
        len(backend._indexes),
        backend._members,
        len(backend._logs),
        len(backend._buckets),
    ]


async def fill(backend: MemoryBackend, count: int, *, ttl: float) -> None:
    for number in range(count):
        await backend.put(f"k{number}", b"x", ttl=ttl)
        await backend.append(f"l{number}", [b"x"], ttl=ttl)
        await backend.add(f"i{number % 5}", [f"m{number}"], ttl=ttl)
        await backend.take(f"b{number}", cost=1, rate=1 / ttl, burst=1)


@in_loop
async def test_things_expire_exactly_when_the_clock_says_so(backend: MemoryBackend, clock: Clock):
    await fill(backend, 1, ttl=10)
    clock.now += 9.999
    assert await backend.get("k0") is not None
    assert await backend.read("l0") is not None
    assert await backend.count("i0") == 1
    assert not (await backend.take("b0", cost=1, rate=0.1, burst=1)).is_granted
    clock.now += 0.001
    assert await backend.get("k0") is None
    assert await backend.read("l0") is None
    assert await backend.members("i0") == []
    assert (await backend.take("b0", cost=1, rate=0.1, burst=1)).is_granted


@in_loop
async def test_each_operation_forgets_a_few_of_the_things_that_expired(
    backend: MemoryBackend, clock: Clock
):
    await fill(backend, 100, ttl=10)
    clock.now += 10
    before = sum(sizes(backend)) - 5
    await backend.get("k50")
    assert before - 16 <= sum(sizes(backend)) - 5 < before
    # All the same, no operation sees them.
    assert await backend.get("k99") is None
    assert await backend.read("l99") is None
    assert await backend.count("i4") == 0
    assert await backend.members("i4") == []
    assert await backend.remove("i4", ["m99", "m94"]) == 0
    assert not await backend.delete("k98")
    assert not await backend.touch("k97", ttl=60)
    assert not await backend.seize("l98", fence=0)
    assert not await backend.extend("l97", ttl=60)
    assert await backend.append("l96", [b"new"], ttl=60, after=0) == 1
    assert (await backend.take("b99", cost=1, rate=0.001, burst=1)).is_granted
    for _ in range(50):
        await backend.get("k0")
    assert sizes(backend) == [0, 0, 0, 1, 1]


@in_loop
async def test_things_that_live_longer_than_at_first_are_kept(backend: MemoryBackend, clock: Clock):
    await fill(backend, 3, ttl=10)
    for _ in range(20):
        clock.now += 6
        await backend.touch("k1", ttl=10)
        await backend.extend("l1", ttl=10)
        await backend.add("i1", ["m1"], ttl=10)
    assert sizes(backend) == [1, 1, 1, 1, 0]
    clock.now += 10
    assert (await backend.describe())["index_members"] == 0
    assert sizes(backend) == [0, 0, 0, 0, 0]


@in_loop
async def test_things_that_live_shorter_than_at_first_are_forgotten(
    backend: MemoryBackend, clock: Clock
):
    await fill(backend, 3, ttl=1_000_000)
    for number in range(3):
        await backend.touch(f"k{number}", ttl=5)
        await backend.append(f"l{number}", [], ttl=5, final=True)
        await backend.add(f"i{number}", [f"m{number}"], ttl=5)
    clock.now += 5
    await backend.now()
    await backend.get("k0")
    assert sizes(backend) == [0, 0, 0, 0, 3]


@in_loop
async def test_deleted_things_leave_nothing_behind(backend: MemoryBackend, clock: Clock):
    for number in range(5_000):
        await backend.put(f"k{number}", b"x", ttl=1_000_000)
        await backend.append(f"l{number}", [b"x"], ttl=1_000_000)
        await backend.add(f"i{number}", ["a"], ttl=1_000_000)
        await backend.delete(f"k{number}")
        await backend.drop(f"l{number}")
        assert await backend.remove(f"i{number}", ["a"]) == 1
    assert sizes(backend) == [0, 0, 0, 0, 0]
    assert len(backend._queue) < 100


@in_loop
async def test_things_expire_after_the_queue_was_rebuilt(backend: MemoryBackend, clock: Clock):
    await fill(backend, 5, ttl=10)
    for number in range(1_000):
        await backend.put(f"gone{number}", b"x", ttl=1_000_000)
        await backend.delete(f"gone{number}")
    assert sizes(backend) == [5, 5, 5, 5, 5]
    clock.now += 10
    for _ in range(5):
        await backend.get("k0")
    assert sizes(backend) == [0, 0, 0, 0, 0]


@in_loop
async def test_a_record_without_end_is_kept(backend: MemoryBackend, clock: Clock):
    await backend.put("a", b"x", ttl=math.inf)
    clock.now += 1e12
    assert await backend.get("a") is not None


@in_loop
async def test_a_clock_that_is_set_back_fills_no_bucket(backend: MemoryBackend, clock: Clock):
    assert (await backend.take("b", cost=2, rate=1, burst=2)).is_granted
    clock.now -= 100
    refused = await backend.take("b", cost=1, rate=1, burst=2)
    assert refused.wait == pytest.approx(1)


@in_loop
async def test_a_bucket_without_inflow_is_forgotten_after_a_day(
    backend: MemoryBackend, clock: Clock
):
    assert (await backend.take("b", cost=1, rate=0, burst=1)).is_granted
    assert (await backend.take("b", cost=1, rate=0, burst=1)).wait == math.inf
    clock.now += 86_400
    assert (await backend.take("b", cost=1, rate=0, burst=1)).is_granted


def test_it_serves_one_loop_after_another_even_if_a_notification_was_not_heard(
    backend: MemoryBackend,
):
    heard: list[int] = []

    async def follow_and_ring() -> None:
        await backend.follow("t", lambda: heard.append(1))
        await backend.notify("t")

    async def notify() -> None:
        await backend.notify("t")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(follow_and_ring())
    loop.close()
    run(notify())
    assert heard


@in_loop
async def test_rings_of_one_turn_are_joined(backend: MemoryBackend):
    heard: list[str] = []
    await backend.follow("t", lambda: heard.append("t"))
    for _ in range(10):
        await backend.notify("t", "t", "u")
    assert heard == []
    await asyncio.sleep(0)
    assert heard == ["t"]


@in_loop
async def test_a_follower_may_unfollow_one_that_would_be_called_next(backend: MemoryBackend):
    heard: list[str] = []
    tasks: list[Any] = []

    def second() -> None:
        heard.append("second")

    def first() -> None:
        heard.append("first")
        coroutine = backend.unfollow("t", second)
        with pytest.raises(StopIteration):
            coroutine.send(None)  # it does not wait for anything

    await backend.follow("t", first)
    await backend.follow("t", second)
    await backend.notify("t")
    await asyncio.sleep(0)
    assert heard == ["first"]
    assert tasks == []


@in_loop
async def test_a_conflict_says_what_was_found_and_expected(backend: MemoryBackend):
    await backend.put("a", b"x", ttl=60)
    with pytest.raises(Conflict, match="'a' has version 1, expected version 0"):
        await backend.put("a", b"x", ttl=60, expect=0)
    with pytest.raises(Conflict, match="'b' does not exist, expected version 3"):
        await backend.put("b", b"x", ttl=60, expect=3)
