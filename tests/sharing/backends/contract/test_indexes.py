"""Indexes: sets of names, each of which expires by itself."""

import asyncio

from accord.sharing import Backend
from support.store_times import before_expiry, wait_until


async def test_an_index_that_was_not_filled_is_empty(backend: Backend):
    assert await backend.members("i") == []
    assert await backend.count("i") == 0
    assert await backend.remove("i", ["a"]) == 0


async def test_names_are_in_an_index_once(backend: Backend, second: Backend):
    await backend.add("i", ["a", "b"], ttl=60)
    await second.add("i", ["b", "c", "c"], ttl=60)
    assert sorted(await backend.members("i")) == ["a", "b", "c"]
    assert await second.count("i") == 3


async def test_adding_or_removing_nothing_changes_nothing(backend: Backend):
    await backend.add("i", [], ttl=60)
    assert await backend.count("i") == 0
    await backend.add("i", ["a"], ttl=60)
    assert await backend.remove("i", []) == 0
    assert await backend.members("i") == ["a"]


async def test_members_may_come_from_a_generator(backend: Backend):
    await backend.add("i", (name for name in "abc"), ttl=60)
    assert await backend.remove("i", (name for name in "bcd")) == 2
    assert await backend.members("i") == ["a"]


async def test_remove_counts_the_names_that_were_in(backend: Backend):
    await backend.add("i", ["a", "b", "c"], ttl=60)
    assert await backend.remove("i", ["a", "x", "c"]) == 2
    assert await backend.remove("i", ["a", "x", "c"]) == 0
    assert await backend.members("i") == ["b"]


async def test_a_member_expires_by_itself(backend: Backend):
    await backend.add("i", ["long"], ttl=600)
    await backend.add("i", ["short", "brief"], ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.members("i") == ["long"]
    assert await backend.count("i") == 1
    assert await backend.remove("i", ["short", "long"]) == 1


async def test_an_index_whose_members_have_expired_can_be_filled_again(backend: Backend):
    await backend.add("i", ["a", "b"], ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.count("i") == 0
    await backend.add("i", ["b"], ttl=600)
    assert await backend.members("i") == ["b"]


async def test_adding_a_member_again_prolongs_its_life(backend: Backend):
    async def add_twice(index: str, ttl: float) -> None:
        await backend.add(index, ["a", "b"], ttl=ttl)
        await backend.add(index, ["a"], ttl=600)

    index, end = await before_expiry(backend, add_twice)
    await wait_until(backend, end)
    assert await backend.members(index) == ["a"]


async def test_adding_a_member_again_can_shorten_its_life(backend: Backend):
    await backend.add("i", ["a", "b"], ttl=600)
    await backend.add("i", ["a"], ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.members("i") == ["b"]


async def test_members_are_limited_and_counted_beyond_the_limit(backend: Backend):
    names = [f"member {number}" for number in range(3000)]
    await backend.add("i", names, ttl=60)
    assert await backend.count("i") == 3000
    some = await backend.members("i", limit=10)
    assert len(set(some)) == 10
    assert set(some) < set(names)
    assert len(set(await backend.members("i"))) == 1000
    assert sorted(await backend.members("i", limit=5000)) == sorted(names)


async def test_indexes_do_not_share_members(backend: Backend):
    await backend.add("i", ["a"], ttl=60)
    await backend.add("i2", ["b"], ttl=60)
    assert await backend.members("i") == ["a"]
    assert await backend.remove("i", ["b"]) == 0


async def test_concurrent_changes_of_an_index_are_all_kept(backend: Backend, second: Backend):
    await asyncio.gather(
        *(
            client.add("i", [f"{number}", f"{number + 1}"], ttl=60)
            for number in range(20)
            for client in (backend, second)
        )
    )
    assert await backend.count("i") == 21
    removed = await asyncio.gather(
        *(client.remove("i", [f"{number}"]) for number in range(20) for client in (backend, second))
    )
    assert sum(removed) == 20
    assert await second.members("i") == ["20"]
