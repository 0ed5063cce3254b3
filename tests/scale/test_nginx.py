"""The same scenarios with nginx between clients and workers."""

import asyncio
from pathlib import Path

import pytest

from support.scale.fleet import REVISIONS, WORKERS, Fleet, in_thread
from support.scale.nginx import running_nginx
from support.waiting import run, until

pytestmark = pytest.mark.integration


def test_calls_and_questions_pass_nginx_without_affinity(fleet: Fleet, tmp_path: Path) -> None:
    async def scenario(front: int) -> None:
        async with fleet.scenario(front=front) as scenario:
            for revision in REVISIONS:
                client = await scenario.open(revision)
                listener = client.listen()
                await until(lambda listener=listener: listener.is_open.is_set())
                for number in range(4):
                    key = f"{client.name}/{number}"
                    await client.call("stream", f"{key}s")
                    await client.call("ask", f"{key}a", kind="sample", times=2)
                    counted = await client.call("count", f"{key}c")
                    assert counted.text == str(number + 1)
                await client.call("change", f"{client.name}/l")
                await until(lambda listener=listener: listener.methods)
                served = {each.worker for each in client.attempts}
                assert served == set(range(WORKERS)), served

    with running_nginx(tmp_path, fleet.ports) as front:
        run(scenario(front))


@pytest.mark.thorough
def test_calls_survive_a_killed_worker_behind_nginx(fleet: Fleet, tmp_path: Path) -> None:
    async def scenario(front: int) -> None:
        async with fleet.scenario(front=front, has_faults=True) as scenario:
            client = await scenario.open()
            calls = [
                client.begin(
                    ("repeatable", "stream")[number % 2],
                    f"{client.name}/{number}",
                    steps=40,
                    pause=0.05,
                )
                for number in range(12)
            ]
            await until(lambda: all(call.view.last_id for call in calls))
            await in_thread(fleet.processes.kill, 0)
            await asyncio.gather(*(call.task for call in calls if call.task is not None))
            for call in calls:
                assert call.outcome == "answered", call.excerpt()
                if call.tool == "repeatable":
                    assert call.reason is None, call.excerpt()

    with running_nginx(tmp_path, fleet.ports) as front:
        run(scenario(front))
