"""Threads for one kind of work: how much of it runs, waits and is refused."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest

from accord.auth.authorization_server.threads import DirectCalls, PoolFull, WorkPool
from support.waiting import run, until


class Held:
    """Work that ends when the test says so."""

    def __init__(self):
        self.running = 0
        self.done = 0
        self.go = threading.Event()

    def __call__(self):
        self.running += 1
        assert self.go.wait(60)
        self.done += 1
        return self.done


def test_work_beyond_the_queue_is_refused_and_the_rest_is_done():
    async def main():
        held = Held()
        pool = WorkPool("test", threads=1, waiting=2)
        tasks = [asyncio.ensure_future(pool.run(held)) for _ in range(3)]
        await until(lambda: held.running == 1)
        with pytest.raises(PoolFull):
            await pool.run(held)
        held.go.set()
        assert await asyncio.gather(*tasks) == [1, 2, 3]
        assert await pool.run(lambda: "free again") == "free again"

    run(main())


def test_work_that_nothing_awaits_any_more_keeps_its_place_until_it_ends():
    async def main():
        held = Held()
        pool = WorkPool("test", threads=1, waiting=0)
        task = asyncio.ensure_future(pool.run(held))
        await until(lambda: held.running == 1)
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(PoolFull):
            await pool.run(held)
        held.go.set()
        await until(lambda: held.done == 1)
        found = None
        while found is None:
            try:
                found = await pool.run(lambda: "free")
            except PoolFull:  # the thread is about to give its place back
                await asyncio.sleep(0.01)
        assert found == "free"

    run(main())


def test_an_error_of_the_work_is_raised_and_frees_its_place():
    async def main():
        pool = WorkPool("test", threads=1, waiting=0)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await pool.run(lambda: 1 / 0)
            await asyncio.sleep(0)
        assert await pool.run(threading.get_ident) != threading.get_ident()

    run(main())


FORKS = """
import asyncio, os
from accord.auth.authorization_server.threads import WorkPool

pool = WorkPool("test", threads=1)
assert asyncio.run(pool.run(os.getpid)) == os.getpid()
child = os.fork()
if child == 0:
    found = asyncio.run(asyncio.wait_for(pool.run(os.getpid), 60))
    os._exit(0 if found == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_is_forked_has_threads_of_its_own():
    # Newer versions of Python warn of forks beside threads.
    command = [sys.executable, "-W", "ignore", "-c", FORKS]
    subprocess.run(command, check=True, timeout=120)


def test_direct_calls_run_one_at_a_time_and_never_wait():
    lock = threading.RLock()
    calls = DirectCalls(lock)

    async def is_excluding_others():
        return lock._is_owned()

    async def both():
        return await calls.gather(is_excluding_others(), is_excluding_others())

    assert calls.run(both()) == [True, True]
    with calls.transaction():
        assert lock._is_owned()
    with pytest.raises(RuntimeError, match="needs an event loop"):
        calls.run(asyncio.sleep(0))
