"""Workers that one process starts on one port, with a store of their own making."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scale.audit import audit
from support.scale.balancer import Balancer
from support.scale.processes import LEASE, ServerProcesses
from support.scale.raw_client import RawClient
from support.waiting import in_loop, until

pytestmark = pytest.mark.integration

WORKERS = 3


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServerProcesses]:
    """One process that manages three workers; nothing is said about a store."""
    processes = ServerProcesses(tmp_path, workers=1, lease=LEASE)
    processes.own_options[0]["workers"] = WORKERS
    with processes:
        yield processes


def workers_seen(processes: ServerProcesses) -> set[int]:
    return {step.pid for steps in processes.ledger.by_key().values() for step in steps}


@in_loop
async def test_calls_survive_a_killed_worker_which_is_replaced(manager: ServerProcesses) -> None:
    # Each request is a connection of its own, for which the workers compete.
    async with Balancer(manager.ports) as balancer, RawClient(balancer.port, name="one") as client:
        await client.open()
        number = 0
        while len(workers_seen(manager)) < WORKERS:
            number += 1
            await client.call("stream", f"one/{number}", steps=3)
            assert number < 300, f"only {workers_seen(manager)} of {WORKERS} workers get requests"
        first = workers_seen(manager)
        assert manager.pid(0) not in first

        calls = [client.begin("repeatable", f"one/r{n}", steps=30, pause=0.05) for n in range(9)]
        await until(lambda: all(len(call.view.marks) > 3 for call in calls))
        victim = manager.ledger.steps("one/r0")[0].pid
        os.kill(victim, signal.SIGKILL)
        await asyncio.gather(*(call.task for call in calls if call.task is not None))
        for call in calls:
            assert call.text.startswith(call.key), call.excerpt()
        assert len({mark.run for mark in calls[0].view.marks}) == 2, calls[0].excerpt()
        while not workers_seen(manager) - first:  # the one that replaces it
            number += 1
            await client.call("quick", f"one/{number}")
            assert number < 3_000, "the worker was not replaced"
    audit(manager, [client], has_faults=True)
