"""Notifications: hints that something has changed."""

import asyncio
from typing import Any

import pytest

from accord.errors import Conflict, Fenced, LogClosed
from accord.sharing import Backend
from support.waiting import until


class Ears:
    """Counts how often a notification was heard."""

    def __init__(self) -> None:
        self.count = 0

    def hear(self) -> None:
        self.count += 1


async def until_quiet(backend: Backend, *clients: Backend) -> None:
    """Wait until the notifications of before have been heard by all clients, or never will be."""
    for client in clients or (backend,):
        ears = Ears()
        await client.follow("the last topic", ears.hear)
        await backend.notify("the last topic")
        await until(lambda ears=ears: ears.count)
        await client.unfollow("the last topic", ears.hear)


async def test_a_ring_is_heard_by_the_client_that_rings(backend: Backend):
    ears = Ears()
    await backend.follow("t", ears.hear)
    await backend.notify("t")
    await until(lambda: ears.count)


async def test_a_ring_is_heard_by_another_client(backend: Backend, second: Backend):
    ears = Ears()
    await second.follow("t", ears.hear)
    await backend.notify("t")
    await until(lambda: ears.count)


async def test_a_ring_without_followers_is_not_an_error(backend: Backend):
    await backend.notify("t")
    await backend.notify()
    await backend.append("l", [b"one"], ttl=60, notify=["t", "u"])


async def test_a_ring_before_follow_is_not_heard(backend: Backend, second: Backend):
    await backend.notify("t")
    await until_quiet(backend, second)
    ears = Ears()
    await second.follow("t", ears.hear)
    await until_quiet(backend, second)
    assert ears.count == 0


async def test_every_ring_after_a_pause_is_heard(backend: Backend, second: Backend):
    ears = Ears()
    await second.follow("t", ears.hear)
    for number in range(5):
        await backend.notify("t")
        await until(lambda number=number: ears.count > number)


async def test_rings_of_one_moment_may_be_joined_but_the_last_is_heard(
    backend: Backend, second: Backend
):
    ears, seen = Ears(), []

    def look() -> None:
        ears.hear()
        seen.append(asyncio.ensure_future(second.read("l", after=199)))

    await second.follow("t", look)
    await asyncio.gather(
        *(backend.append("l", [b"%d" % number], ttl=60, notify=["t"]) for number in range(200))
    )
    await until(lambda: seen and seen[-1].done() and seen[-1].result().items == [b"199"])
    assert 1 <= ears.count <= 200
    await asyncio.gather(*seen)


async def test_rings_of_one_turn_are_heard_once_in_the_same_process(backend: Backend):
    ears = Ears()
    await backend.follow("t", ears.hear)
    await backend.follow("u", ears.hear)
    await backend.notify(*(["t", "u"] * 50))
    await until_quiet(backend)
    assert 1 <= ears.count <= 100


async def test_a_follower_hears_nothing_after_unfollow(backend: Backend, second: Backend):
    ears, others = Ears(), Ears()
    await second.follow("t", ears.hear)
    await second.follow("t", others.hear)
    await second.unfollow("t", ears.hear)
    await backend.notify("t")
    await until(lambda: others.count)
    assert ears.count == 0
    await second.unfollow("t", others.hear)
    heard = others.count
    await backend.notify("t")
    await until_quiet(backend, second)
    assert others.count == heard


async def test_a_topic_can_be_followed_again(backend: Backend, second: Backend):
    for _ in range(5):
        ears = Ears()
        await second.follow("t", ears.hear)
        await backend.notify("t")
        await until(lambda ears=ears: ears.count)
        await second.unfollow("t", ears.hear)


async def test_unfollowing_something_unknown_is_not_an_error(backend: Backend):
    ears = Ears()
    await backend.unfollow("t", ears.hear)
    await backend.follow("t", ears.hear)
    await backend.unfollow("t", Ears().hear)
    await backend.notify("t")
    await until(lambda: ears.count)


async def test_topics_are_separate(backend: Backend, second: Backend):
    names = ["t", "T", "t2", "{t}", "größe 🙂", "a:b", "*", "?"]
    ears = {name: Ears() for name in names}
    for name in names:
        await second.follow(name, ears[name].hear)
    for name in names:
        await backend.notify(name)
        await until(lambda name=name: ears[name].count)
        await until_quiet(backend, second)
        assert [each for each in names if ears[each].count] == [name]
        ears[name].count = 0


async def test_several_topics_ring_at_once(backend: Backend, second: Backend):
    ears = [Ears(), Ears(), Ears()]
    for topic, each in zip("tuv", ears, strict=True):
        await second.follow(topic, each.hear)
    await backend.notify("t", "v")
    await until(lambda: ears[0].count and ears[2].count)
    await until_quiet(backend, second)
    assert ears[1].count == 0


async def test_an_append_rings_when_its_entries_can_be_read(backend: Backend, second: Backend):
    pages: asyncio.Queue[Any] = asyncio.Queue()

    async def read() -> None:
        pages.put_nowait(await second.read("l"))

    tasks = []
    await second.follow("t", lambda: tasks.append(asyncio.ensure_future(read())))
    await backend.append("l", [b"one", b"two"], ttl=60, notify=["t"])
    page = await pages.get()
    assert page.items == [b"one", b"two"]
    await asyncio.gather(*tasks)


async def test_a_refused_append_does_not_ring(backend: Backend, second: Backend):
    ears = Ears()
    await backend.append("l", [b"one"], ttl=60, fence=3)
    await second.follow("t", ears.hear)
    with pytest.raises(Fenced):
        await backend.append("l", [b"late"], ttl=60, fence=2, notify=["t"])
    with pytest.raises(Conflict):
        await backend.append("l", [b"late"], ttl=60, after=7, notify=["t"])
    await backend.append("l", [b"end"], ttl=60, final=True)
    with pytest.raises(LogClosed):
        await backend.append("l", [b"late"], ttl=60, notify=["t"])
    await until_quiet(backend, second)
    assert ears.count == 0


async def test_no_entry_is_missed_by_a_reader_that_follows_first(backend: Backend, second: Backend):
    notified = asyncio.Event()
    await second.follow("t", notified.set)

    async def write() -> None:
        for number in range(300):
            await backend.append("l", [b"%d" % number], ttl=60, notify=["t"])

    writer = asyncio.ensure_future(write())
    items: list[bytes] = []
    while len(items) < 300:
        await notified.wait()  # would wait for ever if the notification of the last entry got lost
        notified.clear()
        page = await second.read("l", after=len(items))
        assert page is not None
        items += page.items
    await writer
    assert items == [b"%d" % number for number in range(300)]


async def test_an_error_of_one_follower_does_not_keep_others_from_hearing(backend: Backend):
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
    ears = [Ears(), Ears()]

    def fail() -> None:
        raise ZeroDivisionError

    await backend.follow("t", ears[0].hear)
    await backend.follow("t", fail)
    await backend.follow("t", ears[1].hear)
    for number in (1, 2):
        await backend.notify("t")
        await until(lambda number=number: all(each.count >= number for each in ears))
    await until(lambda: faults)
    assert isinstance(faults[0]["exception"], ZeroDivisionError)


async def test_hundreds_of_topics_are_followed_at_once(backend: Backend, second: Backend):
    heard: set[int] = set()
    followed = [(f"topic {number}", number) for number in range(300)]
    await asyncio.gather(
        *(
            second.follow(topic, lambda number=number: heard.add(number))
            for topic, number in followed
        )
    )
    await backend.notify(*(topic for topic, _ in followed))
    await until(lambda: len(heard) == 300)
