import asyncio
import contextvars
import gc
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from accord.errors import InternalError
from accord.runtime.handlers import OutOfTime
from accord.runtime.tasks import is_thread_awaited
from accord.runtime.thread_jobs import Job, make_waker
from accord.runtime.threads import Workers, is_working, run_in_thread, wait_until_idle
from support.leftovers import Leftovers
from support.waiting import LONG, in_loop, run, until, until_sync


@pytest.fixture
def one_thread() -> Any:
    workers = Workers(1)
    yield workers
    workers.shutdown()


@pytest.mark.parametrize("timeout", [None, LONG])
@in_loop
async def test_work_returns_its_value_from_another_thread(one_thread, timeout) -> None:
    ident = await run_in_thread(one_thread, threading.get_ident, timeout=timeout)
    assert ident != threading.get_ident()


@pytest.mark.parametrize("timeout", [None, LONG])
@in_loop
async def test_work_that_fails_raises_here(one_thread, timeout) -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own") as caught:
        await run_in_thread(one_thread, fail, timeout=timeout)
    assert not isinstance(caught.value, OutOfTime)


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


@in_loop
async def test_a_stop_at_the_very_end_of_the_work_does_not_reach_the_next_work(one_thread) -> None:
    for turn in range(60):
        with suppress(OutOfTime):
            await run_in_thread(one_thread, lambda: time.sleep(0.002), timeout=0.0015 + turn / 5e4)
        value = await run_in_thread(one_thread, lambda: sum(range(1000)), timeout=LONG)
        assert value == 499500
    assert await wait_until_idle(LONG)


@in_loop
async def test_cancelled_work_goes_on_and_counts_as_working(one_thread) -> None:
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


@in_loop
async def test_a_queue_that_moves_is_waited_for() -> None:
    workers = Workers(1, wait=3)
    calls = [run_in_thread(workers, lambda: time.sleep(0.4), name="tool") for _ in range(12)]
    await asyncio.gather(*calls)
    workers.shutdown()


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


@in_loop
async def test_the_number_of_replaced_threads_is_bounded(monkeypatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("accord.runtime.threads._REPLACED_MOST", 2)
    monkeypatch.setattr("accord.runtime.threads._REPLACE_AFTER", 0.0)
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
        time.sleep(0.2)  # clock: the loop is busy, and takes nothing meanwhile
        assert len(made) <= 4
        await asyncio.gather(*calls)
        workers.shutdown()

    run(main())
    assert len(made) == 50


# -- short functions and functions that block


@in_loop
async def test_functions_that_block_run_side_by_side() -> None:
    workers = Workers(32)
    # None of them gets through before all of them run.
    barrier = threading.Barrier(32)
    calls = [run_in_thread(workers, lambda: barrier.wait(LONG)) for _ in range(32)]
    assert sorted(await asyncio.gather(*calls)) == list(range(32))
    workers.shutdown()


@in_loop
async def test_calls_behind_a_function_that_blocks_are_served_by_another_thread() -> None:
    workers = Workers(4)
    gates = [threading.Event() for _ in range(3)]
    held = [asyncio.ensure_future(run_in_thread(workers, gate.wait)) for gate in gates]
    opened = [run_in_thread(workers, gate.set) for gate in gates]
    await asyncio.gather(*held, *opened)
    workers.shutdown()


@in_loop
async def test_an_outcome_arrives_while_the_next_function_blocks() -> None:
    workers = Workers(2)
    gate = threading.Event()
    for _ in range(20):
        gate.clear()
        first = asyncio.ensure_future(run_in_thread(workers, lambda: "first"))
        second = asyncio.ensure_future(run_in_thread(workers, gate.wait))
        assert await first == "first"
        gate.set()
        await second
    workers.shutdown()


@in_loop
async def test_short_functions_need_few_threads() -> None:
    workers = Workers(32)
    for _ in range(4):
        calls = [run_in_thread(workers, lambda: None) for _ in range(64)]
        await asyncio.gather(*calls)
    assert workers._threads < 32
    workers.shutdown()


def test_loops_share_threads() -> None:
    workers = Workers(3)

    async def main() -> None:
        for count in (1, 2, 20, 1, 5):
            calls = [run_in_thread(workers, lambda: "value") for _ in range(count)]
            assert await asyncio.gather(*calls) == ["value"] * count

    threads = [threading.Thread(target=run, args=(main(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    workers.shutdown()


def test_work_of_a_closed_loop_holds_up_no_other_loop(one_thread) -> None:
    gate = threading.Event()

    class Call(Job):
        def work(self) -> None:
            gate.wait(LONG)

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(4):
            Call(one_thread, loop, contextvars.copy_context(), None, "tool", None).start()
        await until(is_working)

    async def main() -> None:
        gate.set()
        assert await run_in_thread(one_thread, lambda: "served") == "served"

    run(leave())
    run(main())
    assert not is_thread_awaited()


# -- how threads and loops are woken


@pytest.fixture
def without_descriptors(monkeypatch) -> None:
    monkeypatch.delattr("os.eventfd")


@pytest.mark.parametrize("has_descriptors", [True, False])
def test_each_call_of_a_waker_wakes_one_thread(has_descriptors, monkeypatch) -> None:
    if not has_descriptors:
        monkeypatch.delattr("os.eventfd")
    waker = make_waker()
    waker.wake()
    waker.wake()
    threads = [threading.Thread(target=waker.wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    until_sync(lambda: sum(thread.is_alive() for thread in threads) == 1)
    waker.wake()
    until_sync(lambda: not any(thread.is_alive() for thread in threads))


def test_systems_without_event_descriptors_are_served_too(without_descriptors) -> None:
    async def main() -> None:
        workers = Workers(3)
        for count in (1, 2, 64, 1):
            calls = [run_in_thread(workers, lambda: "value") for _ in range(count)]
            assert await asyncio.gather(*calls) == ["value"] * count
        workers.shutdown()

    left = Leftovers()
    run(main())
    until_sync(lambda: not left.threads())


def test_threads_without_event_descriptors_end_with_their_workers(without_descriptors) -> None:
    left = Leftovers()

    async def main() -> None:
        workers = Workers(4)
        await asyncio.gather(*(run_in_thread(workers, lambda: None) for _ in range(4)))

    run(main())
    gc.collect()
    until_sync(lambda: not left.threads())


@pytest.mark.parametrize("make_loop", ["asyncio", "uvloop"])
def test_descriptors_are_closed_with_the_loop_and_the_threads(make_loop) -> None:
    factory = pytest.importorskip("uvloop").new_event_loop if make_loop == "uvloop" else None

    async def main() -> None:
        workers = Workers(2)
        calls = [run_in_thread(workers, lambda: "value") for _ in range(8)]
        assert await asyncio.gather(*calls) == ["value"] * 8
        workers.shutdown()

    def serve() -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    def is_clean() -> bool:
        gc.collect()
        return not left

    serve()
    left = Leftovers()
    for _ in range(3):
        serve()
    until_sync(is_clean)


def test_an_outcome_that_cannot_be_delivered_holds_up_no_other() -> None:
    class Undeliverable(Job):
        def work(self) -> None:
            return None

        def conclude(self, value: object, failure: BaseException | None) -> None:
            raise RuntimeError("a bug")

    reported: list[Any] = []

    async def main() -> None:
        workers = Workers(1)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, said: reported.append(said["exception"]))
        gate = threading.Event()
        held = asyncio.ensure_future(run_in_thread(workers, gate.wait))
        await until(is_working)
        Undeliverable(workers, loop, contextvars.copy_context(), None, "bug", None).start()
        other = asyncio.ensure_future(run_in_thread(workers, lambda: "served"))
        await asyncio.sleep(0)
        gate.set()
        assert await other == "served"
        await held
        workers.shutdown()

    run(main())
    assert [str(error) for error in reported] == ["a bug"]
