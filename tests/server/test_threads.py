import asyncio
import gc
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from accord.errors import InternalError
from accord.server.threads import OutOfTime, Workers, is_working, run_in_thread, wait_until_idle
from support.leftovers import Leftovers
from support.waiting import LONG, run, until, until_sync


@pytest.fixture
def one_thread() -> Any:
    workers = Workers(1)
    yield workers
    workers.shutdown()


@pytest.mark.parametrize("timeout", [None, LONG])
def test_work_returns_its_value_from_another_thread(one_thread, timeout) -> None:
    async def main() -> None:
        ident = await run_in_thread(one_thread, threading.get_ident, timeout=timeout)
        assert ident != threading.get_ident()

    run(main())


@pytest.mark.parametrize("timeout", [None, LONG])
def test_work_that_fails_raises_here(one_thread, timeout) -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="its own") as caught:
            await run_in_thread(one_thread, fail, timeout=timeout)
        assert not isinstance(caught.value, OutOfTime)

    run(main())


def test_work_that_takes_too_long_is_stopped_and_the_thread_serves_on(one_thread) -> None:
    cleaned = []

    def endless() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            cleaned.append(True)

    async def main() -> None:
        with pytest.raises(OutOfTime):
            await run_in_thread(one_thread, endless, timeout=0.02)
        assert await run_in_thread(one_thread, lambda: "next", timeout=LONG) == "next"
        assert cleaned == [True]
        assert await wait_until_idle(LONG)

    run(main())


def test_work_that_catches_everything_is_left_alone(one_thread) -> None:
    caught = []

    def stubborn() -> None:
        while not caught:
            try:
                time.sleep(0.001)
            except BaseException as error:
                caught.append(type(error).__name__)

    async def main() -> None:
        with pytest.raises(OutOfTime):
            await run_in_thread(one_thread, stubborn, timeout=0.02)
        assert await run_in_thread(one_thread, lambda: "next", timeout=LONG) == "next"

    run(main())
    assert caught == ["_StopWork"]


def test_work_that_never_began_never_begins(one_thread) -> None:
    begun = []

    async def main() -> None:
        gate = threading.Event()
        first = asyncio.ensure_future(run_in_thread(one_thread, gate.wait, timeout=None))
        await until(is_working)
        with pytest.raises(OutOfTime):
            await run_in_thread(one_thread, lambda: begun.append("late"), timeout=0.01)
        waiting = asyncio.ensure_future(
            run_in_thread(one_thread, lambda: begun.append("cancelled"), timeout=LONG)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        gate.set()
        await first
        assert await run_in_thread(one_thread, lambda: "next", timeout=None) == "next"

    run(main())
    assert begun == []


def test_a_stop_at_the_very_end_of_the_work_does_not_reach_the_next_work(one_thread) -> None:
    async def main() -> None:
        for turn in range(60):
            with suppress(OutOfTime):
                await run_in_thread(
                    one_thread, lambda: time.sleep(0.002), timeout=0.0015 + turn / 5e4
                )
            value = await run_in_thread(one_thread, lambda: sum(range(1000)), timeout=LONG)
            assert value == 499500
        assert await wait_until_idle(LONG)

    run(main())


def test_cancelled_work_goes_on_and_counts_as_working(one_thread) -> None:
    async def main() -> None:
        gate = threading.Event()
        waiting = asyncio.ensure_future(run_in_thread(one_thread, gate.wait, timeout=None))
        await until(is_working)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert is_working()
        assert not await wait_until_idle(0.02)
        gate.set()
        assert await wait_until_idle(LONG)
        assert not is_working()

    run(main())


# -- threads that are held


def test_a_call_that_finds_no_thread_is_refused_with_the_names_of_those_that_hold_them(
    caplog,
) -> None:
    gate = threading.Event()

    async def main() -> None:
        workers = Workers(2, wait=0.2)
        held = [
            asyncio.ensure_future(run_in_thread(workers, gate.wait, name=f"tool {name}"))
            for name in ("slow", "slower")
        ]
        await until(lambda: len(workers._working) == 2)
        with pytest.raises(InternalError) as caught:
            await run_in_thread(workers, lambda: None, name="tool quick")
        gate.set()
        await asyncio.gather(*held)
        assert await run_in_thread(workers, lambda: "served", name="tool quick") == "served"
        text = caught.value.message
        assert "tool slow (1 calls), tool slower (1 calls)" in text
        assert "(thread_wait)" in text
        assert "2 (threads)" in text
        workers.shutdown()

    run(main())
    assert "1 calls wait because all 2 threads are held by tool slow (1 calls)" in caplog.text


def test_a_queue_that_moves_is_waited_for() -> None:
    async def main() -> None:
        workers = Workers(1, wait=3)
        calls = [run_in_thread(workers, lambda: time.sleep(0.4), name="tool") for _ in range(12)]
        await asyncio.gather(*calls)
        workers.shutdown()

    run(main())


def test_threads_that_cancelled_calls_hold_are_replaced_and_given_back(caplog) -> None:
    gate = threading.Event()

    async def main() -> None:
        workers = Workers(2)
        for turn in range(1, 4):
            held = [
                asyncio.ensure_future(run_in_thread(workers, gate.wait, name="tool stuck"))
                for _ in range(2)
            ]
            await until(lambda turn=turn: len(workers._working) == 2 * turn)
            for each in held:
                each.cancel()
            await asyncio.wait(held)
        assert await run_in_thread(workers, lambda: "served", name="tool quick") == "served"
        assert workers._threads > 2
        gate.set()
        await until(lambda: workers._threads <= 2)
        assert await run_in_thread(workers, lambda: "served", name="tool quick") == "served"
        workers.shutdown()

    run(main())
    assert "a cancelled call still holds: tool stuck" in caplog.text


def test_the_number_of_replaced_threads_is_bounded(monkeypatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("accord.server.threads._REPLACED_MOST", 2)
    monkeypatch.setattr("accord.server.threads._REPLACE_AFTER", 0.0)

    async def main() -> None:
        workers = Workers(1, wait=0.2)
        refused = 0
        for _ in range(5):
            held = asyncio.ensure_future(run_in_thread(workers, gate.wait, name="tool stuck"))
            begun = len(workers._working)
            await until(lambda held=held, begun=begun: held.done() or len(workers._working) > begun)
            held.cancel()
            await asyncio.wait([held])
            refused += not held.cancelled()
        assert workers._threads == 3
        assert refused == 2
        gate.set()
        workers.shutdown()

    run(main())


def test_threads_of_unused_workers_end() -> None:
    left = Leftovers()

    async def main() -> None:
        workers = Workers(4)
        await asyncio.gather(*(run_in_thread(workers, lambda: None) for _ in range(4)))
        assert left.threads()

    run(main())
    gc.collect()
    until_sync(lambda: not left.threads())


def test_outcomes_that_the_loop_has_not_taken_yet_are_bounded() -> None:
    made: list[int] = []

    async def main() -> None:
        workers = Workers(2)
        calls = [
            asyncio.ensure_future(run_in_thread(workers, lambda number=number: made.append(number)))
            for number in range(50)
        ]
        await asyncio.sleep(0)
        time.sleep(0.2)  # the loop is busy, and takes nothing meanwhile
        assert len(made) <= 4
        await asyncio.gather(*calls)
        workers.shutdown()

    run(main())
    assert len(made) == 50
