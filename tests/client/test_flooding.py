"""A server that asks and asks without reading costs its client little."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.stdio.client import ANSWERS_MOST
from accord.stdio.pipes import ThreadedPipes
from accord.types import CreateMessageResult, TextContent
from support.waiting import LONG, in_loop, run, until

ASKING = Path(__file__).parents[1] / "stdio" / "servers" / "asking.py"
SIZE = 20_000
COUNT = 3_000


@pytest.mark.parametrize("pipes", ["polled", "threaded"])
@in_loop
async def test_answers_that_a_server_does_not_read_are_bounded(
    pipes: str, monkeypatch: Any
) -> None:
    if pipes == "threaded":

        def attach(*given: Any) -> ThreadedPipes:
            return ThreadedPipes(asyncio.get_running_loop(), *given)

        monkeypatch.setattr("accord.stdio.child.attach", attach)
    asked: list[str] = []
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


@in_loop
async def test_a_server_that_catches_up_is_read_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("accord.stdio.client.ANSWERS_MOST", 64 * 1024)
    # So few that the server comes to its end although it is not read for a while.
    command = [sys.executable, str(ASKING), "40", "5000"]
    async with connect(command, timeout=5 * LONG) as client:
        wire: Any = client._link.wire
        await client.ping()
        await until(lambda: wire._resuming is None)
        assert wire._queued > 40 * 5_000


def test_questions_that_wait_for_answers_are_bounded_in_bytes(monkeypatch: Any) -> None:
    monkeypatch.setattr("accord.client.callbacks._QUESTIONS_MOST", 100_000)
    server = Server("curious")

    @server.tool
    async def ask_often(ctx: Context) -> list[str]:
        """Ask for ten answers at once."""
        asked = (ctx.sample("x" * 30_000, max_tokens=5) for _ in range(10))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        return [str(outcome) if isinstance(outcome, Exception) else "" for outcome in outcomes]

    async def main() -> None:
        waiting, answered = 0, asyncio.Event()

        async def think(params: Any) -> CreateMessageResult:
            nonlocal waiting
            waiting += 1
            await answered.wait()
            return CreateMessageResult("assistant", TextContent("y"), "slow")

        async with connect(server, revision="2025-11-25", on_sample=think, timeout=LONG) as client:
            call = asyncio.ensure_future(client.call_tool("ask_often", result_type=list[str]))
            await until(lambda: waiting == 3)
            answered.set()
            said = await call
            assert said.count("") == 3
            assert all("bytes of questions wait for answers" in each for each in said if each)
            # Once they are answered, there is room again.
            again = await client.call_tool("ask_often", result_type=list[str])
            assert again.count("") >= 3

    run(main())
