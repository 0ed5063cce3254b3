import asyncio
import time
from typing import Any

import pytest

from accord import Server
from accord.testing import connected, run_in_virtual_time


def test_sleeping_takes_no_time_but_the_clock_advances() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.sleep(3600)
        return loop.time() - started

    real = time.monotonic()
    assert run_in_virtual_time(main()) == pytest.approx(3600, abs=1)
    assert time.monotonic() - real < 60


def test_timers_fire_in_their_order() -> None:
    fired = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append(seconds)

    async def main() -> None:
        await asyncio.gather(sleeper(30), sleeper(10), sleeper(20))

    run_in_virtual_time(main())
    assert fired == [10, 20, 30]


def test_deadlines_expire() -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_in_virtual_time(main())


def test_other_threads_are_still_heard() -> None:
    async def main() -> str:
        return await asyncio.to_thread(lambda: "heard")

    assert run_in_virtual_time(main()) == "heard"


def test_a_deadline_far_ahead_does_not_expire_while_a_thread_works() -> None:
    server: Server[Any] = Server("threads")

    @server.tool
    def wait_a_little() -> str:
        """Work in a thread for some real time."""
        time.sleep(0.01)
        return "done"

    async def main() -> str:
        async with connected(server, timeout=60) as client:
            return str((await client.call_tool("wait_a_little")).text)

    assert run_in_virtual_time(main()) == "done"
