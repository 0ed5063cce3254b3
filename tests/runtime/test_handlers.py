"""Handlers whose work goes on elsewhere, without a task."""

import asyncio
import logging
from typing import Any

import pytest

from accord import types as t
from accord.errors import InvalidParams, RequestError
from accord.runtime.handlers import Deferred
from accord.runtime.tasks import call_in_batch, leave_for_end
from accord.runtime.watchdog import Watchdog
from support.waiting import in_loop, run, until

TEXT = t.CallToolResult([t.TextContent("done")])


class Work:
    """A handler that returns a Deferred, and what becomes of it."""

    def __init__(self) -> None:
        self.begun: list[Deferred] = []

    def __call__(self, params: Any) -> Deferred:
        self.begun.append(Deferred(asyncio.get_running_loop()))
        return self.begun[-1]


@pytest.fixture
def work() -> Work:
    return Work()


async def asking(client: Any, work: Work) -> tuple["asyncio.Task[Any]", Deferred]:
    asked = asyncio.ensure_future(client.request("tools/call", t.CallToolParams("any")))
    await until(lambda: work.begun)
    return asked, work.begun[-1]


@in_loop
async def test_an_outcome_is_answered_in_the_turn_in_which_it_is_known(party, join, work) -> None:
    side = party("server", tools_call=work)
    watchdog = Watchdog()
    client, server = await join(server=side, watchdog=watchdog)
    asked, deferred = await asking(client, work)
    assert list(server.running.values()) == [deferred]
    sent = len(side.sent)
    deferred.set_outcome(TEXT)
    assert len(side.sent) == sent + 1
    assert not server.running
    deferred.set_outcome(None)
    assert len(side.sent) == sent + 1
    assert await asked == TEXT


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidParams("no such city"), "no such city"),
        (ValueError("a secret"), "internal error"),
        (asyncio.CancelledError(), "the work was cancelled"),
    ],
)
@in_loop
async def test_a_failure_is_an_error_reply(party, join, work, error, message) -> None:
    client, server = await join(server=party("server", tools_call=work))
    asked, deferred = await asking(client, work)
    deferred.set_outcome(None, error)
    with pytest.raises(RequestError) as caught:
        await asked
    assert caught.value.message == message
    assert not server.running


@in_loop
async def test_work_that_its_caller_cancels_gets_no_answer(party, join, work) -> None:
    side = party("server", tools_call=work)
    client, server = await join(server=side)
    asked, deferred = await asking(client, work)
    sent = len(side.sent)
    asked.cancel()
    await until(deferred.cancelled)
    deferred.set_outcome(TEXT)
    assert len(side.sent) == sent
    assert not server.running
    assert await server.drain(0)


@in_loop
async def test_the_end_waits_for_work_and_then_cancels_it(party, join, work) -> None:
    client, server = await join(server=party("server", tools_call=work))
    asked, deferred = await asking(client, work)
    assert not await server.drain(0.01)
    server.close()
    assert await server.drain()
    assert deferred.cancelled()
    asked.cancel()


# -- batches


def test_a_batch_ends_with_what_was_left_for_its_end() -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def work(name: str) -> None:
            seen.append(name)
            if name == "outer":
                assert leave_for_end(loop, lambda: seen.append("end"))
                call_in_batch(loop, work, "inner")

        assert not leave_for_end(loop, lambda: seen.append("never"))
        call_in_batch(loop, work, "outer")
        assert not leave_for_end(loop, lambda: seen.append("never"))

    run(main())
    assert seen == ["outer", "inner", "end"]


def test_a_batch_that_fails_ends_all_the_same(caplog) -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            leave_for_end(loop, lambda: 1 // 0)
            leave_for_end(loop, lambda: seen.append("end"))
            raise ValueError("of the work")

        with pytest.raises(ValueError, match="of the work"):
            call_in_batch(loop, work)

    with caplog.at_level(logging.ERROR):
        run(main())
    assert seen == ["end"]
    assert "ZeroDivisionError" in caplog.text


def test_an_interrupt_at_the_end_of_a_batch_loses_nothing() -> None:
    seen: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            leave_for_end(loop, interrupt)
            leave_for_end(loop, lambda: seen.append("end"))

        with pytest.raises(KeyboardInterrupt):
            call_in_batch(loop, work)
        await asyncio.sleep(0)

    run(main())
    assert seen == ["end"]
