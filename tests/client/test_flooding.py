"""A server that asks and asks without reading costs its client little."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import connect
from accord.transports.pipes import ANSWERS_MOST, ThreadedPipes
from support.waiting import LONG, run, until

ASKING = Path(__file__).parents[1] / "transports" / "servers" / "asking.py"
SIZE = 20_000
COUNT = 3_000


@pytest.mark.parametrize("pipes", ["polled", "threaded"])
def test_answers_that_a_server_does_not_read_are_bounded(pipes: str, monkeypatch: Any) -> None:
    if pipes == "threaded":

        def attach(*given: Any) -> ThreadedPipes:
            return ThreadedPipes(asyncio.get_running_loop(), *given)

        monkeypatch.setattr("accord.transports.process.attach", attach)
    asked: list[str] = []

    async def main() -> None:
        command = [sys.executable, str(ASKING), str(COUNT), str(SIZE)]
        async with connect(command, timeout=5 * LONG, stderr=asked.append) as client:
            wire: Any = client._link.wire
            answer = asyncio.ensure_future(client.ping())
            # The server is blocked once its pipe is full, and reads only when it has asked all.
            await until(lambda: wire._resuming is not None)
            most, steady, before = 0, 0, -1
            while steady < 30:
                most = max(most, wire._pipes.unsent)
                steady = steady + 1 if len(asked) == before else 0
                before = len(asked)
                await asyncio.sleep(0.01)
            assert len(asked) < COUNT
            assert most < ANSWERS_MOST + 4 * 1024 * 1024
            answer.cancel()

    run(main())


def test_a_server_that_catches_up_is_read_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("accord.transports.process.ANSWERS_MOST", 64 * 1024)

    async def main() -> None:
        # So few that the server comes to its end although it is not read for a while.
        command = [sys.executable, str(ASKING), "40", "5000"]
        async with connect(command, timeout=5 * LONG) as client:
            wire: Any = client._link.wire
            await client.ping()
            await until(lambda: wire._resuming is None)
            assert wire._queued > 40 * 5_000

    run(main())
