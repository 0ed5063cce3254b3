"""Opening, closing, cancelling, and what an operator sees."""

import asyncio
import time
from typing import Any

from accord.sharing import Backend, StoredRecord
from support.waiting import run, until


async def test_the_clock_counts_seconds_since_1970_and_goes_on(backend: Backend):
    first = await backend.now()
    assert abs(first - time.time()) < 600
    end = time.monotonic() + 60
    while await backend.now() <= first:
        assert time.monotonic() < end


async def test_a_backend_says_how_it_is_reached(backend: Backend):
    assert isinstance(backend.url, str)
    assert ":" in backend.url
    assert isinstance(backend.is_shared, bool)
    assert isinstance(backend.is_remote, bool)
    assert backend.is_shared or not backend.is_remote


async def test_a_description_has_facts_for_an_operator(backend: Backend):
    await backend.put("a", b"one", ttl=60)
    facts = await backend.describe()
    assert facts["engine"]
    assert {type(name) for name in facts} == {str}
    assert {type(value) for value in facts.values()} <= {str, int, float}


async def test_data_stays_when_clients_are_closed_and_opened(backend: Backend, second: Backend):
    version = await backend.put("a", b"one", ttl=60)
    await backend.append("l", [b"one"], ttl=60, fence=2)
    for client in (backend, second):
        await client.close()
    for client in (second, backend):
        await client.open()
    assert await backend.get("a") == StoredRecord(b"one", version)
    assert await backend.append("l", [b"two"], ttl=60, fence=2) == 2
    assert await backend.put("a", b"two", ttl=60, expect=version) > version


async def test_a_client_hears_notifications_after_it_was_opened_again(
    backend: Backend, second: Backend
):
    heard: list[str] = []
    await backend.follow("t", lambda: heard.append("before"))
    await backend.close()
    await backend.open()
    await backend.follow("t", lambda: heard.append("after"))
    await second.notify("t")
    await until(lambda: "after" in heard)


async def test_closing_one_client_leaves_the_other_open(backend: Backend, second: Backend):
    heard: list[int] = []
    await second.follow("t", lambda: heard.append(1))
    await backend.put("a", b"one", ttl=60)
    await backend.close()
    try:
        assert await second.get("a") is not None
        await second.notify("t")
        await until(lambda: heard)
    finally:
        await backend.open()


async def test_closing_twice_is_not_an_error(store: Any):
    client = store.make()
    await client.open()
    await client.close()
    await client.close()


def test_a_client_serves_one_event_loop_after_another(store: Any):
    client = store.make()

    async def use(number: int) -> None:
        heard: list[int] = []
        await client.open()
        await client.follow("t", lambda: heard.append(number))
        assert await client.append("l", [b"%d" % number], ttl=60, notify=["t"]) == number
        await until(lambda: heard)
        await client.close()

    for number in (1, 2, 3):
        run(use(number))


async def test_a_cancelled_operation_leaves_the_client_usable(backend: Backend, second: Backend):
    for number in range(30):
        tasks = [
            asyncio.ensure_future(backend.append("l", [b"%d" % number], ttl=60)) for _ in range(5)
        ]
        if number % 3:
            await asyncio.sleep(0.0002 * (number % 3))
        for task in tasks[:4]:
            task.cancel()
        await asyncio.wait(tasks)
        last = tasks[4].result()
        page = await second.read("l", after=last - 1)
        assert page is not None
        assert page.items == [b"%d" % number]
    page = await second.read("l")
    assert page is not None
    assert len(page.items) == page.last
    assert 30 <= page.last <= 150


async def test_a_cancelled_follow_leaves_the_client_usable(backend: Backend, second: Backend):
    heard: list[int] = []
    for number in range(10):
        task = asyncio.ensure_future(second.follow("t", lambda: heard.append(1)))
        await asyncio.sleep(0.0003 * (number % 4))
        task.cancel()
        await asyncio.wait([task])
    others: list[int] = []
    await second.follow("t", lambda: others.append(1))
    await backend.notify("t")
    await until(lambda: others)


async def test_hundreds_of_operations_run_at_once(backend: Backend, second: Backend):
    async def work(number: int, client: Backend) -> None:
        key = f"k{number}"
        version = await client.put(key, b"one", ttl=60, expect=0)
        assert await client.append(key, [b"one"], ttl=60) == 1
        await client.add("i", [key], ttl=60)
        assert await client.get(key) == StoredRecord(b"one", version)
        assert await client.delete(key, expect=version)
        assert await client.append(key, [b"two"], ttl=60, after=1, final=True) == 2

    await asyncio.gather(
        *(work(number, second if number % 2 else backend) for number in range(300))
    )
    assert await backend.count("i") == 300
