"""Few at once, fairly between sources."""

import asyncio

import pytest

from accord.auth.introspection import FairQueue, QueueFull
from support.waiting import run


class Work:
    """Work of sources that lasts until it is let go; notes the order in which they began."""

    def __init__(self, seconds=30.0, **limits):
        usual = {"most": 2, "share": 2, "waiting": 3, "waiting_in_all": 5}
        self.turns = FairQueue(**(usual | limits), seconds=seconds)
        self.began = []
        self.tasks = {}

    async def _do(self, name, done):
        async with self.turns.take(name[0]):
            self.began.append(name)
            await done.wait()

    async def start(self, *names):
        for name in names:
            done = asyncio.Event()
            self.tasks[name] = (asyncio.ensure_future(self._do(name, done)), done)
        await self.settle()

    async def end(self, *names):
        for name in names:
            task, done = self.tasks.pop(name)
            done.set()
            await task
        await self.settle()

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)


def test_free_places_go_round_between_the_sources_that_wait():
    async def main():
        work = Work()
        await work.start("a1", "a2", "a3", "a4", "b1", "c1")
        assert work.began == ["a1", "a2"]
        await work.end("a1", "a2")
        assert work.began[2:] == ["a3", "b1"]
        await work.end("a3", "b1")
        assert work.began[4:] == ["c1", "a4"]
        await work.end("c1", "a4")
        assert not work.turns._working
        assert not work.turns._queues

    run(main())


def test_a_source_has_no_more_than_its_share():
    async def main():
        work = Work(most=4, share=2)
        await work.start("a1", "a2", "a3", "b1")
        assert work.began == ["a1", "a2", "b1"]
        await work.end("a1")
        assert work.began[3:] == ["a3"]
        await work.end("a2", "a3", "b1")

    run(main())


def test_lines_are_bounded_for_each_source_and_in_all():
    async def main():
        work = Work(most=1, share=1)
        await work.start("a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3")
        refused = [name for name, (task, _) in work.tasks.items() if task.done()]
        assert refused == ["a5", "b3"]
        for name in refused:
            with pytest.raises(QueueFull):
                await work.tasks.pop(name)[0]
        await work.end("a1", "a2", "b1", "a3", "b2", "a4")

    run(main())


def test_a_turn_that_does_not_come_in_time_is_given_up():
    async def main():
        work = Work(most=1, share=1, seconds=0.01)
        await work.start("a1", "b1")
        with pytest.raises(QueueFull):
            await work.tasks.pop("b1")[0]
        assert not work.turns._queues
        await work.end("a1")
        await work.start("b2")
        assert work.began == ["a1", "b2"]
        await work.end("b2")

    run(main())


def test_a_turn_that_is_given_up_goes_to_the_next():
    async def main():
        work = Work(most=1, share=1)
        await work.start("a1", "b1", "c1")
        task, _ = work.tasks.pop("b1")
        task.cancel()
        await work.settle()
        await work.end("a1")
        assert work.began == ["a1", "c1"]
        # Given up in the moment in which it came.
        await work.start("d1", "e1")
        (ending, done), (given_up, _) = work.tasks.pop("c1"), work.tasks.pop("d1")
        done.set()
        while not work.turns._working["d"]:
            await asyncio.sleep(0)
        given_up.cancel()
        await work.settle()
        assert work.began == ["a1", "c1", "e1"]
        await ending
        await work.end("e1")
        assert not work.turns._working

    run(main())
