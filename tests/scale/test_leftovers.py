"""When all sessions have ended and retention has passed, nothing is left (invariant I6)."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scale.fleet import REVISIONS, Fleet, Scenario, in_thread, running_fleet
from support.scale.stores import KINDS
from support.waiting import LONG, in_loop, until

pytestmark = pytest.mark.integration

WORKERS = 2
STANDING = 1 + 3 * WORKERS
"""What two workers keep at all times: the epoch, and of each its lease, its counts and its name."""


@pytest.fixture(params=KINDS)
def brief_fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Workers that keep ended streams for a second, and what else they note for a few."""
    options = {"retention": 1.0, "session_idle": 2.5}
    with running_fleet(request.param, tmp_path, workers=WORKERS, **options) as fleet:
        yield fleet


async def count_tasks(scenario: Scenario) -> list[int]:
    """Return how many asyncio tasks each worker has while it serves one call."""
    client = scenario.modern()
    counts = []
    for worker in range(WORKERS):
        call = await client.call_once("inventory", f"{client.name}/{worker}", worker=worker)
        counts.append(json.loads(call.text)["tasks"])
    return counts


async def warm_up(scenario: Scenario) -> None:
    """Let workers make what they make once, such as sockets for notifications."""
    client = await scenario.open()
    for worker in range(WORKERS):
        listener = client.listen(worker=worker)
        await until(lambda listener=listener: listener.is_open.is_set())
        for other in range(WORKERS):
            await client.call("stream", f"{client.name}/{worker}{other}", worker=other)
    await client.delete()
    await count_tasks(scenario)


async def use_everything(scenario: Scenario) -> None:
    """Open sessions, leave streams behind in each state, and end the sessions."""
    for number in range(9):
        client = await scenario.open(REVISIONS[number % 3])
        listener = client.listen()
        await until(lambda listener=listener: listener.is_open.is_set())
        key = f"{client.name}/"
        await client.call("stream", f"{key}s", steps=20, pause=0.0)
        await client.call("ask", f"{key}a", kind="sample", times=2)
        await client.call("count", f"{key}c")
        await client.request("resources/subscribe", {"uri": f"note://{client.name}"})
        left = client.begin("stream", f"{key}l", steps=10_000)
        await until(lambda left=left: left.view.marks)
        client.calls.remove(left)
        await client.delete()
        assert left.task is not None
        await left.task
        await until(lambda listener=listener: listener.is_over)
    older = scenario.older()
    await older.open()
    await older.call("repeatable", f"{older.name}/r")
    await older.end_tasks()
    modern = scenario.modern()
    listening = modern.listen({"toolsListChanged": True})
    await until(lambda: listening.is_acknowledged)
    listening.cut()
    await modern.call("stream", f"{modern.name}/s")


@in_loop
async def test_nothing_is_left_of_sessions_that_have_ended(brief_fleet: Fleet) -> None:
    fleet = brief_fleet
    processes, store = fleet.processes, fleet.store
    async with fleet.scenario() as scenario:
        await warm_up(scenario)
        tasks = await count_tasks(scenario)
        before = STANDING
        sockets = [processes.descriptors(number) for number in range(WORKERS)]
        await use_everything(scenario)
        assert await in_thread(store.entries) > before
        end = asyncio.get_running_loop().time() + LONG
        while True:
            left = (
                await in_thread(store.entries) - before,
                [now - then for now, then in zip(await count_tasks(scenario), tasks, strict=True)],
                [processes.descriptors(n) - then for n, then in enumerate(sockets)],
            )
            if left[0] <= 0 and max(left[1]) <= 0 and max(left[2]) <= 0:
                break
            assert asyncio.get_running_loop().time() < end, (
                f"left: {left[0]} entries of the store, {left[1]} tasks, {left[2]} descriptors"
            )
            await asyncio.sleep(0.2)
