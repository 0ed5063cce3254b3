"""Records: values with versions, which expire."""

import asyncio

import pytest

from accord.errors import Conflict, StoreError
from accord.sharing import Backend, StoredRecord
from support.store_times import before_expiry, wait_until

ODD_NAMES = [
    "with blanks in it",
    "{tag}:part",
    "a:b/c.d-e_f",
    "*?[a-z]%_",
    "'quoted' \"twice\" `and` \\ more; --",
    "größe 日本語 🙂",
    "x" * 200,
    "ü" * 200,
    "",
]


async def test_a_record_that_was_not_put_does_not_exist(backend: Backend):
    assert await backend.get("a") is None


async def test_a_record_comes_back_with_its_version(backend: Backend):
    version = await backend.put("a", b"one", ttl=60)
    assert version > 0
    assert await backend.get("a") == StoredRecord(b"one", version)


async def test_another_client_sees_a_record_once_put_returns(backend: Backend, second: Backend):
    for number in range(20):
        version = await backend.put("a", b"%d" % number, ttl=60)
        assert await second.get("a") == StoredRecord(b"%d" % number, version)


async def test_the_version_grows_with_each_put(backend: Backend):
    versions = [await backend.put("a", b"same", ttl=60) for _ in range(20)]
    assert versions == sorted(set(versions))


async def test_a_put_that_expects_the_version_writes(backend: Backend):
    version = await backend.put("a", b"one", ttl=60)
    newer = await backend.put("a", b"two", ttl=60, expect=version)
    assert newer > version
    assert await backend.get("a") == StoredRecord(b"two", newer)


async def test_a_put_that_expects_another_version_conflicts_and_changes_nothing(backend: Backend):
    old = await backend.put("a", b"one", ttl=60)
    kept = StoredRecord(b"two", await backend.put("a", b"two", ttl=60))
    with pytest.raises(Conflict) as caught:
        await backend.put("a", b"three", ttl=60, expect=old)
    assert caught.value.record == kept
    assert await backend.get("a") == kept


async def test_a_put_that_expects_a_record_conflicts_without_one(backend: Backend):
    with pytest.raises(Conflict) as caught:
        await backend.put("a", b"one", ttl=60, expect=7)
    assert caught.value.record is None
    assert await backend.get("a") is None


async def test_a_put_that_expects_nothing_creates_a_record_once(backend: Backend, second: Backend):
    version = await backend.put("a", b"one", ttl=60, expect=0)
    with pytest.raises(Conflict) as caught:
        await second.put("a", b"two", ttl=60, expect=0)
    assert caught.value.record == StoredRecord(b"one", version)


async def test_a_version_is_not_used_again_after_a_delete(backend: Backend):
    seen = set()
    for _ in range(10):
        version = await backend.put("a", b"one", ttl=60, expect=0)
        assert version not in seen
        seen.add(version)
        assert await backend.delete("a")
    with pytest.raises(Conflict):
        await backend.put("a", b"two", ttl=60, expect=max(seen))


async def test_a_version_is_not_used_again_after_the_record_expired(backend: Backend):
    old = await backend.put("a", b"one", ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.put("a", b"two", ttl=60, expect=0) > old


async def test_a_record_that_has_expired_is_gone_for_every_operation(backend: Backend):
    for key in ("a", "b", "c"):
        version = await backend.put(key, b"one", ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.get("a") is None
    assert not await backend.delete("b")
    assert not await backend.touch("c", ttl=60)
    assert await backend.get("c") is None
    with pytest.raises(Conflict) as caught:
        await backend.put("c", b"two", ttl=60, expect=version)
    assert caught.value.record is None


async def test_a_touched_record_lives_longer_with_the_same_version(backend: Backend):
    async def touch(key: str, ttl: float) -> None:
        await backend.put(key, b"one", ttl=ttl)
        assert await backend.touch(key, ttl=600)

    key, end = await before_expiry(backend, touch)
    before = await backend.get(key)
    await wait_until(backend, end)
    assert before is not None
    assert await backend.get(key) == before


async def test_a_touch_can_shorten_a_life(backend: Backend):
    await backend.put("a", b"one", ttl=600)
    assert await backend.touch("a", ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.get("a") is None


async def test_a_put_gives_a_record_a_new_life(backend: Backend):
    async def put_twice(key: str, ttl: float) -> None:
        await backend.put(key, b"one", ttl=ttl)
        await backend.put(key, b"two", ttl=600)

    key, end = await before_expiry(backend, put_twice)
    await wait_until(backend, end)
    found = await backend.get(key)
    assert found is not None
    assert found.value == b"two"


async def test_a_record_is_deleted_once(backend: Backend):
    await backend.put("a", b"one", ttl=60)
    assert await backend.delete("a")
    assert await backend.get("a") is None
    assert not await backend.delete("a")


async def test_a_delete_that_expects_the_version_deletes(backend: Backend):
    version = await backend.put("a", b"one", ttl=60)
    assert await backend.delete("a", expect=version)
    assert await backend.get("a") is None


async def test_a_delete_that_expects_another_version_conflicts(backend: Backend):
    old = await backend.put("a", b"one", ttl=60)
    kept = StoredRecord(b"two", await backend.put("a", b"two", ttl=60))
    with pytest.raises(Conflict) as caught:
        await backend.delete("a", expect=old)
    assert caught.value.record == kept
    assert await backend.get("a") == kept


async def test_a_delete_that_expects_a_version_finds_nothing_without_a_record(backend: Backend):
    assert not await backend.delete("a", expect=7)


@pytest.mark.parametrize(
    "value", [b"", b"\0", bytes(range(256)), b"x" * 1024 * 1024], ids=["none", "0", "all", "1 MB"]
)
async def test_a_value_is_any_bytes(backend: Backend, second: Backend, value: bytes):
    await backend.put("a", value, ttl=60)
    found = await second.get("a")
    assert found is not None
    assert found.value == value


async def test_names_are_any_text(backend: Backend, second: Backend):
    for number, name in enumerate(ODD_NAMES):
        await backend.put(name, b"%d" % number, ttl=60)
        await backend.append(name, [b"%d" % number], ttl=60)
        await backend.add(name, ODD_NAMES, ttl=60)
        assert (await backend.take(name, cost=1, rate=0.001, burst=1)).is_granted
    for number, name in enumerate(ODD_NAMES):
        found, page = await second.get(name), await second.read(name)
        assert found is not None
        assert page is not None
        assert [found.value, *page.items] == [b"%d" % number] * 2
        assert sorted(await second.members(name)) == sorted(ODD_NAMES)
        assert not (await second.take(name, cost=1, rate=0.001, burst=1)).is_granted


async def test_names_differ_by_case_and_by_their_end(backend: Backend):
    for name in ("a", "A", "ab", "a ", " a"):
        await backend.put(name, name.encode(), ttl=60)
    await backend.delete("a")
    for name in ("A", "ab", "a ", " a"):
        found = await backend.get(name)
        assert found is not None
        assert found.value == name.encode()


async def test_records_logs_indexes_and_buckets_have_separate_names(backend: Backend):
    version = await backend.put("a", b"one", ttl=60)
    await backend.append("a", [b"entry"], ttl=60)
    await backend.add("a", ["member"], ttl=60)
    await backend.take("a", cost=1, rate=1, burst=10)
    await backend.drop("a")
    assert await backend.get("a") == StoredRecord(b"one", version)
    assert await backend.members("a") == ["member"]
    await backend.delete("a")
    assert await backend.members("a") == ["member"]
    assert await backend.read("a") is None


async def test_of_concurrent_puts_with_the_same_expectation_one_wins(
    backend: Backend, second: Backend
):
    version = await backend.put("a", b"start", ttl=60)
    for _ in range(5):
        results = await asyncio.gather(
            *(
                client.put("a", b"%d" % number, ttl=60, expect=version)
                for number in range(10)
                for client in (backend, second)
            ),
            return_exceptions=True,
        )
        (version,) = [each for each in results if isinstance(each, int)]
        assert sum(isinstance(each, Conflict) for each in results) == 19
        found = await second.get("a")
        assert found is not None
        assert found.version == version


async def test_a_counter_in_a_record_loses_no_increment(backend: Backend, second: Backend):
    await backend.put("count", b"0", ttl=60)

    async def increment(client: Backend) -> None:
        while True:
            found = await client.get("count")
            assert found is not None
            try:
                value = b"%d" % (int(found.value) + 1)
                await client.put("count", value, ttl=60, expect=found.version)
            except Conflict:
                continue
            return

    await asyncio.gather(*(increment(client) for _ in range(10) for client in (backend, second)))
    found = await backend.get("count")
    assert found is not None
    assert found.value == b"20"


async def test_a_conflict_is_an_error_of_the_store(backend: Backend):
    with pytest.raises(StoreError, match="'a'"):
        await backend.put("a", b"one", ttl=60, expect=7)
