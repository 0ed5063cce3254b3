"""Several processes share one backend."""

import asyncio

import pytest

from accord.errors import Conflict, Fenced
from accord.sharing import Backend, StoredRecord
from support.store_process import OtherProcess
from support.store_times import until_true, wait_until
from support.waiting import until


async def test_processes_see_what_the_others_wrote(backend: Backend, other: OtherProcess):
    version = await backend.put("a", b"one", ttl=60)
    assert await other.call("get", "a") == StoredRecord(b"one", version)
    newer = await other.call("put", "a", b"two", ttl=60, expect=version)
    assert await backend.get("a") == StoredRecord(b"two", newer)
    with pytest.raises(Conflict) as caught:
        await other.call("put", "a", b"three", ttl=60, expect=version)
    assert caught.value.record == StoredRecord(b"two", newer)


async def test_processes_agree_about_the_time(backend: Backend, other: OtherProcess):
    first = await backend.now()
    second = await other.call("now")
    assert first <= second <= await backend.now()
    await other.call("put", "a", b"one", ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.get("a") is None
    assert await other.call("get", "a") is None


async def test_appends_of_two_processes_are_numbered_without_gaps(
    backend: Backend, other: OtherProcess
):
    calls = [(("l", [b"other %d" % number]), {"ttl": 60}) for number in range(200)]
    theirs = asyncio.ensure_future(other.call("repeat", "append", calls))
    ours = [await backend.append("l", [b"own %d" % number], ttl=60) for number in range(200)]
    assert sorted(ours + await theirs) == list(range(1, 401))
    page = await backend.read("l")
    assert page is not None
    assert [page.items[number - 1] for number in theirs.result()] == [
        b"other %d" % number for number in range(200)
    ]


async def test_of_two_processes_one_creates_each_record(backend: Backend, other: OtherProcess):
    names = [f"k{number}" for number in range(100)]
    calls = [((name, b"other"), {"ttl": 60, "expect": 0}) for name in names]
    theirs = asyncio.ensure_future(other.call("repeat", "put", calls))
    ours = []
    for name in reversed(names):
        try:
            ours.append((name, await backend.put(name, b"own", ttl=60, expect=0)))
        except Conflict:
            continue
    results = await theirs
    won = [name for name, result in zip(names, results, strict=True) if isinstance(result, int)]
    assert sorted([*won, *(name for name, _ in ours)]) == sorted(names)
    for name, version in ours:
        assert await other.call("get", name) == StoredRecord(b"own", version)


async def test_of_two_processes_one_seizes_each_log(backend: Backend, other: OtherProcess):
    names = [f"l{number}" for number in range(100)]
    for name in names:
        await backend.append(name, [b"one"], ttl=60)
    theirs = asyncio.ensure_future(
        other.call("repeat", "seize", [((name,), {"fence": 0}) for name in names])
    )
    ours = {name: await backend.seize(name, fence=0) for name in reversed(names)}
    for name, was_theirs in zip(names, await theirs, strict=True):
        assert ours[name] != was_theirs


async def test_a_process_is_fenced_by_another(backend: Backend, other: OtherProcess):
    await other.call("append", "l", [b"one"], ttl=60, fence=0)
    assert await backend.seize("l", fence=0)
    with pytest.raises(Fenced):
        await other.call("append", "l", [b"late"], ttl=60, fence=0)
    assert await backend.append("l", [b"two"], ttl=60, fence=1) == 2


async def test_notifications_reach_other_processes(backend: Backend, other: OtherProcess):
    await other.call("follow", "there")
    heard: list[int] = []
    await backend.follow("here", lambda: heard.append(1))
    for number in range(1, 4):
        await backend.append("l", [b"one"], ttl=60, notify=["there"])
        await until_true(lambda number=number: _has_heard(other, number))
        await other.call("notify", "here")
        await until(lambda number=number: len(heard) >= number)


async def _has_heard(other: OtherProcess, count: int) -> bool:
    return await other.call("heard", "there") >= count


async def test_a_bucket_is_shared_by_processes(backend: Backend, other: OtherProcess):
    calls = [(("b",), {"cost": 1, "rate": 1e-6, "burst": 50})] * 60
    theirs = asyncio.ensure_future(other.call("repeat", "take", calls))
    ours = [await backend.take("b", cost=1, rate=1e-6, burst=50) for _ in range(60)]
    assert sum(each.is_granted for each in [*ours, *await theirs]) == 50


async def test_an_index_is_shared_by_processes(backend: Backend, other: OtherProcess):
    await other.call("add", "i", ["a", "b"], ttl=60)
    await backend.add("i", ["b", "c"], ttl=60)
    assert await other.call("remove", "i", ["c", "d"]) == 1
    assert sorted(await backend.members("i")) == ["a", "b"]


async def test_the_death_of_a_process_harms_no_other(backend: Backend, other: OtherProcess):
    heard: list[int] = []
    await backend.follow("t", lambda: heard.append(1))
    await other.call("follow", "t")
    calls = [(("l", [b"x" * 1000] * 5), {"ttl": 60, "notify": ["t"]})] * 10_000
    theirs = asyncio.ensure_future(other.call("repeat", "append", calls))
    await until(lambda: heard)
    other.kill()
    assert isinstance((await asyncio.gather(theirs, return_exceptions=True))[0], EOFError)
    page = await backend.read("l", limit=100_000)
    assert page is not None
    assert len(page.items) == page.last
    assert page.last % 5 == 0
    assert await backend.append("l", [b"more"], ttl=60, after=page.last, notify=["t"])
    heard.clear()
    await backend.notify("t")
    await until(lambda: heard)


async def test_namespaces_do_not_see_each_other(backend: Backend, stranger: Backend):
    heard: list[int] = []
    await stranger.follow("t", lambda: heard.append(1))
    await backend.put("a", b"one", ttl=60)
    await backend.append("l", [b"one"], ttl=60, notify=["t"])
    await backend.add("i", ["a"], ttl=60)
    await backend.take("b", cost=1, rate=1e-6, burst=1)
    await backend.notify("t")
    assert await stranger.get("a") is None
    assert await stranger.read("l") is None
    assert await stranger.members("i") == []
    assert (await stranger.take("b", cost=1, rate=1e-6, burst=1)).is_granted
    await stranger.drop("l")
    await stranger.delete("a")
    assert await backend.get("a") is not None
    assert await backend.read("l") is not None
    await stranger.follow("u", lambda: heard.append(2))
    await stranger.notify("u")
    await until(lambda: 2 in heard)
    assert 1 not in heard
