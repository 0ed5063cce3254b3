import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from accord.server.threads import OutOfTime, Workers, finished, in_thread, is_working
from support.waiting import LONG, run, until


@pytest.fixture
def one_thread() -> Any:
    workers = Workers(1)
    yield workers
    workers.shutdown()


@pytest.mark.parametrize("timeout", [None, LONG])
def test_work_returns_its_value_from_another_thread(one_thread, timeout) -> None:
    async def main() -> None:
        ident = await in_thread(one_thread, threading.get_ident, timeout=timeout)
        assert ident != threading.get_ident()

    run(main())


@pytest.mark.parametrize("timeout", [None, LONG])
def test_work_that_fails_raises_here(one_thread, timeout) -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    async def main() -> None:
        with pytest.raises(TimeoutError, match="its own") as caught:
            await in_thread(one_thread, fail, timeout=timeout)
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
            await in_thread(one_thread, endless, timeout=0.02)
        assert await in_thread(one_thread, lambda: "next", timeout=LONG) == "next"
        assert cleaned == [True]
        assert await finished(LONG)

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
            await in_thread(one_thread, stubborn, timeout=0.02)
        assert await in_thread(one_thread, lambda: "next", timeout=LONG) == "next"

    run(main())
    assert caught == ["_Stopped"]


def test_work_that_never_began_never_begins(one_thread) -> None:
    begun = []

    async def main() -> None:
        gate = threading.Event()
        first = asyncio.ensure_future(in_thread(one_thread, gate.wait, timeout=None))
        await until(is_working)
        with pytest.raises(OutOfTime):
            await in_thread(one_thread, lambda: begun.append("late"), timeout=0.01)
        waiting = asyncio.ensure_future(
            in_thread(one_thread, lambda: begun.append("cancelled"), timeout=LONG)
        )
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        gate.set()
        await first
        assert await in_thread(one_thread, lambda: "next", timeout=None) == "next"

    run(main())
    assert begun == []


def test_a_stop_at_the_very_end_of_the_work_harms_nobody(one_thread) -> None:
    async def main() -> None:
        for turn in range(60):
            with suppress(OutOfTime):
                await in_thread(one_thread, lambda: time.sleep(0.002), timeout=0.0015 + turn / 5e4)
            value = await in_thread(one_thread, lambda: sum(range(1000)), timeout=LONG)
            assert value == 499500
        assert await finished(LONG)

    run(main())


def test_cancelled_work_goes_on_and_is_known_to(one_thread) -> None:
    async def main() -> None:
        gate = threading.Event()
        waiting = asyncio.ensure_future(in_thread(one_thread, gate.wait, timeout=None))
        await until(is_working)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert is_working()
        assert not await finished(0.02)
        gate.set()
        assert await finished(LONG)
        assert not is_working()

    run(main())
