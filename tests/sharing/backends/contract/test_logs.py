"""Logs: numbered entries, one final entry, trimming, expiry."""

import asyncio
from itertools import chain

import pytest

from accord.errors import Conflict, LogClosed
from accord.sharing import Backend, LogPage
from support.store_times import before_expiry, wait_until


async def read(backend: Backend, log: str, **options: int) -> LogPage:
    page = await backend.read(log, **options)
    assert page is not None
    return page


async def read_all(backend: Backend, log: str, *, limit: int = 1000) -> list[bytes]:
    """Read a log page by page."""
    items: list[bytes] = []
    while True:
        page = await read(backend, log, after=len(items), limit=limit)
        if not page.items:
            return items
        assert page.first == len(items) + 1
        items += page.items


async def test_a_log_without_entries_does_not_exist(backend: Backend):
    assert await backend.read("l") is None


async def test_entries_are_numbered_from_one(backend: Backend):
    assert await backend.append("l", [b"one"], ttl=60) == 1
    assert await backend.append("l", [b"two", b"three"], ttl=60) == 3
    assert await backend.append("l", [b"four"], ttl=60) == 4
    assert await read(backend, "l") == LogPage(
        items=[b"one", b"two", b"three", b"four"], first=1, last=4, is_closed=False, fence=0
    )


async def test_another_client_sees_an_entry_once_append_returns(backend: Backend, second: Backend):
    for number in range(1, 21):
        await backend.append("l", [b"%d" % number], ttl=60)
        page = await read(second, "l", after=number - 1)
        assert (page.items, page.first, page.last) == ([b"%d" % number], number, number)


async def test_a_page_has_the_entries_after_a_number_up_to_a_limit(backend: Backend):
    await backend.append("l", [b"%d" % number for number in range(1, 11)], ttl=60)
    page = await read(backend, "l", after=3, limit=4)
    assert page == LogPage([b"4", b"5", b"6", b"7"], 4, 10, is_closed=False, fence=0)
    assert (await read(backend, "l", after=9, limit=4)).items == [b"10"]
    assert await read_all(backend, "l", limit=3) == [b"%d" % number for number in range(1, 11)]


@pytest.mark.parametrize("after", [2, 3, 1000])
async def test_a_page_without_entries_says_which_number_comes_next(backend: Backend, after: int):
    await backend.append("l", [b"one", b"two"], ttl=60)
    assert await read(backend, "l", after=after) == LogPage([], 3, 2, is_closed=False, fence=0)


@pytest.mark.parametrize("size", [0, 1, 1024 * 1024])
async def test_an_entry_is_any_bytes(backend: Backend, second: Backend, size: int):
    items = [b"\0" * size, b"", b"\xff" * size]
    await backend.append("l", items, ttl=60)
    assert (await read(second, "l")).items == items


async def test_an_append_of_nothing_is_refused_unless_it_is_final(backend: Backend):
    with pytest.raises(ValueError, match="final"):
        await backend.append("l", [], ttl=60)
    assert await backend.read("l") is None


async def test_a_log_of_ten_thousand_entries_is_read_whole(backend: Backend, second: Backend):
    items = [b"entry %d" % number for number in range(10_000)]
    for start in range(0, 10_000, 2_500):
        end = start + 2_500
        assert await backend.append("l", items[start:end], ttl=60) == end
    assert await read_all(second, "l") == items
    assert await backend.append("l", [b"more"], ttl=60, after=10_000) == 10_001


async def test_concurrent_appends_are_all_kept_in_the_order_of_each_client(
    backend: Backend, second: Backend
):
    async def write(client: Backend, name: bytes) -> list[int]:
        return [await client.append("l", [name + b"%03d" % number], ttl=60) for number in range(50)]

    clients = (backend, second, backend, second)
    writers = [write(client, b"%d" % place) for place, client in enumerate(clients)]
    numbers = await asyncio.gather(*writers)
    assert sorted(chain.from_iterable(numbers)) == list(range(1, 201))
    items = await read_all(backend, "l")
    for place, own in enumerate(numbers):
        assert own == sorted(own)
        assert [items[number - 1] for number in own] == [
            b"%d%03d" % (place, number) for number in range(50)
        ]


async def test_appends_that_are_sent_together_are_carried_out_in_order(backend: Backend):
    numbers = await asyncio.gather(
        *(backend.append("l", [b"%d" % number], ttl=60) for number in range(100))
    )
    assert numbers == list(range(1, 101))
    assert await read_all(backend, "l") == [b"%d" % number for number in range(100)]


async def test_a_reader_sees_all_entries_of_an_append_or_none(backend: Backend, second: Backend):
    async def write() -> None:
        for number in range(20):
            await backend.append("l", [b"%d" % number] * 50, ttl=60)

    writer = asyncio.ensure_future(write())
    while True:
        is_done = writer.done()
        page = await second.read("l", limit=10_000)
        if page is not None:
            assert len(page.items) % 50 == 0
            assert page.last == len(page.items)
        if is_done:
            break
        await asyncio.sleep(0)
    await writer
    assert page is not None
    assert page.last == 1000


# -- the final entry


async def test_the_final_entry_closes_a_log(backend: Backend, second: Backend):
    await backend.append("l", [b"one"], ttl=60)
    assert not (await read(backend, "l")).is_closed
    assert await backend.append("l", [b"two", b"end"], ttl=60, final=True) == 3
    page = await read(second, "l")
    assert (page.items, page.is_closed) == ([b"one", b"two", b"end"], True)


async def test_a_closed_log_takes_no_further_entry(backend: Backend, second: Backend):
    await backend.append("l", [b"end"], ttl=60, final=True)
    for options in ({}, {"fence": 0}, {"fence": 5}, {"after": 1}, {"after": 0}, {"final": True}):
        with pytest.raises(LogClosed, match="'l'"):
            await second.append("l", [b"late"], ttl=60, **options)
    assert await read(backend, "l") == LogPage([b"end"], 1, 1, is_closed=True, fence=0)


async def test_a_log_can_be_closed_without_an_entry(backend: Backend):
    await backend.append("l", [b"one"], ttl=60)
    assert await backend.append("l", [], ttl=60, final=True) == 1
    assert await read(backend, "l") == LogPage([b"one"], 1, 1, is_closed=True, fence=0)


async def test_a_log_can_begin_closed(backend: Backend):
    assert await backend.append("l", [], ttl=60, final=True, fence=2) == 0
    assert await read(backend, "l") == LogPage([], 1, 0, is_closed=True, fence=2)
    with pytest.raises(LogClosed):
        await backend.append("l", [b"one"], ttl=60)


async def test_of_concurrent_final_entries_one_is_taken(backend: Backend, second: Backend):
    for log in ("l1", "l2", "l3"):
        results = await asyncio.gather(
            *(
                client.append(log, [b"%d" % number], ttl=60, final=True)
                for number in range(10)
                for client in (backend, second)
            ),
            return_exceptions=True,
        )
        assert sorted(map(type, results), key=repr) == [LogClosed] * 19 + [int]
        page = await read(backend, log)
        assert (len(page.items), page.last, page.is_closed) == (1, 1, True)


# -- after


async def test_an_append_after_the_last_entry_is_taken(backend: Backend):
    assert await backend.append("l", [b"one"], ttl=60, after=0) == 1
    assert await backend.append("l", [b"two"], ttl=60, after=1) == 2


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_an_append_after_another_number_conflicts(backend: Backend, after: int):
    await backend.append("l", [b"one", b"two"], ttl=60)
    with pytest.raises(Conflict, match="'l'") as caught:
        await backend.append("l", [b"late"], ttl=60, after=after)
    assert caught.value.last == 2
    assert (await read(backend, "l")).items == [b"one", b"two"]


async def test_an_append_after_an_entry_conflicts_without_the_log(backend: Backend):
    with pytest.raises(Conflict) as caught:
        await backend.append("l", [b"two"], ttl=60, after=1)
    assert caught.value.last == 0
    assert await backend.read("l") is None


async def test_of_concurrent_appends_after_the_same_number_one_is_taken(
    backend: Backend, second: Backend
):
    for number in range(5):
        results = await asyncio.gather(
            *(
                client.append("l", [b"%d" % number], ttl=60, after=number)
                for _ in range(5)
                for client in (backend, second)
            ),
            return_exceptions=True,
        )
        assert sorted(map(type, results), key=repr) == [Conflict] * 9 + [int]
    assert await read_all(backend, "l") == [b"0", b"1", b"2", b"3", b"4"]


# -- trimming


async def test_a_log_keeps_as_many_entries_as_asked_for(backend: Backend):
    for number in range(1, 251):
        assert await backend.append("l", [b"%d" % number], ttl=60, keep=10) == number
        page = await read(backend, "l")
        kept = range(max(1, number - 9), number + 1)
        assert (page.first, page.last) == (kept[0], number)
        assert page.items == [b"%d" % each for each in kept]


async def test_reading_after_an_entry_that_was_dropped_shows_the_gap(backend: Backend):
    await backend.append("l", [b"%d" % number for number in range(1, 101)], ttl=60, keep=5)
    page = await read(backend, "l", after=50, limit=3)
    assert (page.items, page.first, page.last) == ([b"96", b"97", b"98"], 96, 100)
    page = await read(backend, "l", after=98)
    assert (page.items, page.first) == ([b"99", b"100"], 99)


async def test_entries_are_kept_until_an_append_says_how_many(backend: Backend):
    for number in range(1, 7):
        await backend.append("l", [b"%d" % number], ttl=60, keep=0)
    await backend.append("l", [b"7"], ttl=60, keep=100)
    assert (await read(backend, "l")).first == 1
    await backend.append("l", [b"8"], ttl=60, keep=3)
    assert (await read(backend, "l")).items == [b"6", b"7", b"8"]
    await backend.append("l", [b"9"], ttl=60, keep=5)
    assert (await read(backend, "l")).items == [b"6", b"7", b"8", b"9"]


async def test_closing_a_log_can_trim_it(backend: Backend):
    await backend.append("l", [b"one", b"two", b"three"], ttl=60)
    assert await backend.append("l", [], ttl=60, final=True, keep=1) == 3
    assert await read(backend, "l") == LogPage([b"three"], 3, 3, is_closed=True, fence=0)


# -- lives


async def test_a_log_expires_and_another_one_begins(backend: Backend):
    await backend.append("l", [b"one", b"two"], ttl=0.05, fence=3, final=True)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.read("l") is None
    assert not await backend.extend("l", ttl=60)
    assert not await backend.seize("l", fence=3)
    assert await backend.append("l", [b"new"], ttl=60, after=0) == 1
    assert await read(backend, "l") == LogPage([b"new"], 1, 1, is_closed=False, fence=0)


async def test_an_append_gives_a_log_a_new_life(backend: Backend):
    async def append_twice(log: str, ttl: float) -> None:
        await backend.append(log, [b"one"], ttl=ttl)
        assert await backend.append(log, [b"two"], ttl=600) == 2

    log, end = await before_expiry(backend, append_twice)
    await wait_until(backend, end)
    assert (await read(backend, log)).items == [b"one", b"two"]


async def test_an_append_can_shorten_the_life_of_a_log(backend: Backend):
    await backend.append("l", [b"one"], ttl=600)
    await backend.append("l", [b"two"], ttl=0.05, final=True)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.read("l") is None


async def test_a_refused_append_does_not_change_the_life_of_a_log(backend: Backend):
    async def append_in_vain(log: str, ttl: float) -> None:
        assert await backend.append(log, [b"one"], ttl=ttl, final=True) == 1
        with pytest.raises(LogClosed):
            await backend.append(log, [b"two"], ttl=600)

    log, end = await before_expiry(backend, append_in_vain)
    await wait_until(backend, end)
    assert await backend.read(log) is None


async def test_extend_gives_a_log_a_new_life_and_changes_nothing_else(backend: Backend):
    async def extend(log: str, ttl: float) -> None:
        await backend.append(log, [b"one"], ttl=ttl, fence=4)
        assert await backend.extend(log, ttl=600)

    log, end = await before_expiry(backend, extend)
    await wait_until(backend, end)
    assert await read(backend, log) == LogPage([b"one"], 1, 1, is_closed=False, fence=4)
    assert await backend.extend(log, ttl=0.05)
    await wait_until(backend, await backend.now() + 0.05)
    assert await backend.read(log) is None


async def test_extend_is_false_without_a_log(backend: Backend):
    assert not await backend.extend("l", ttl=60)
    assert await backend.read("l") is None


async def test_a_dropped_log_is_gone_and_begins_again(backend: Backend, second: Backend):
    await backend.append("l", [b"%d" % number for number in range(2000)], ttl=60, fence=7)
    await backend.append("m", [b"other"], ttl=60)
    await second.drop("l")
    assert await backend.read("l") is None
    assert await backend.append("l", [b"new"], ttl=60) == 1
    assert await read(second, "l") == LogPage([b"new"], 1, 1, is_closed=False, fence=0)
    assert (await read(second, "m")).items == [b"other"]
    await backend.drop("never")
