"""Limits that all workers share (scenario 22)."""

import asyncio
import time

import pytest

from support.scale.fleet import WORKERS, Fleet
from support.scale.served_tools import BURST, RATE
from support.waiting import in_loop

pytestmark = pytest.mark.integration

CALLS = 80


@in_loop
async def test_workers_share_the_limit_of_a_caller(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.modern()
        group = client.name
        began = time.monotonic()
        calls = await asyncio.gather(
            *(
                client.call_once("limited", f"{group}/{n}", group=group, worker=n % WORKERS)
                for n in range(CALLS)
            )
        )
        elapsed = time.monotonic() - began
        served = [call for call in calls if not call.response["result"].get("isError")]
        assert BURST <= len(served) <= BURST + RATE * elapsed + 1, f"{len(served)} in {elapsed} s"
        assert {call.key for call in served} == {
            call.key for call in calls if fleet.ledger.has(call.key, "end")
        }
        # Another caller has a limit of its own.
        other = await client.call_once("limited", f"{group}/o", group=f"{group}-other")
        assert other.text == f"{group}/o"
