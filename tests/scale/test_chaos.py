"""Random traffic while workers and the store are lost, for a bounded time."""

import os
import random

import pytest

from support.scale.chaos import Chaos
from support.scale.fleet import Fleet
from support.waiting import LONG, run

pytestmark = pytest.mark.integration


def seed() -> int:
    """Another one in each run; a failure prints it, and ACCORD_SCALE_SEED repeats it."""
    return int(os.environ.get("ACCORD_SCALE_SEED") or random.SystemRandom().randrange(100_000))


def test_nothing_is_lost_while_workers_are_killed_stopped_and_replaced(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    chaos = Chaos(fleet, seed(), seconds=8.0)
    run(chaos.run(), seconds=4 * LONG)
    with capsys.disabled():
        print(f"\n{fleet.store.kind}: {chaos.summary()}")
    assert chaos.counts["sessions"] > 0
    assert chaos.counts["calls answered"] > 50
