"""Deadlines, progress that extends them, and cancellation on both ends."""

import asyncio
import math
from datetime import timedelta

import pytest

from accord.client import connect
from accord.errors import RequestTimeout
from client.loopback import Loopback
from support.running import to_the_end

DONE = {"content": [], "isError": False}


async def cancellations(client):
    messages = (await client.call_tool("history")).structured_content["messages"]
    calls = [m["id"] for m in messages if m["method"] == "tools/call"]
    named = [m["params"] for m in messages if m["method"] == "notifications/cancelled"]
    return calls, named


@to_the_end
async def test_silence_beyond_the_deadline_cancels_the_request_on_the_server(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(RequestTimeout, match=r"tools/call: no answer within 0.1 s"):
            await client.call_tool("never", timeout=0.1)
        calls, named = await cancellations(client)
        assert [each["requestId"] for each in named] == calls[:1]


@pytest.mark.parametrize(
    ("how", "limit"),
    [
        ({"timeout": 0.1}, r"0.1 s of silence \(timeout\)"),
        ({"timeout": 0.1, "cap": 50}, r"0.1 s of silence \(timeout\)"),
        ({"timeout": 50, "cap": 0.1}, r"0.1 s in all \(cap\)"),
        ({"timeout": math.inf, "cap": 0.1}, r"0.1 s in all \(cap\)"),
    ],
)
@to_the_end
async def test_the_error_is_a_timeout_error_that_names_the_limit_that_ran_out(wayward, how, limit):
    async with connect(wayward()) as client:
        with pytest.raises(TimeoutError, match=rf"^tools/call: no answer within {limit}; it"):
            await client.call_tool("never", **how)


@pytest.mark.parametrize("wrong", ["3", True, timedelta(seconds=3)], ids=repr)
@to_the_end
async def test_a_time_other_than_a_number_is_refused_before_anything_is_sent(wrong, wayward):
    with pytest.raises(TypeError, match=r"timeout is .*, expected a number of seconds"):
        connect(wayward(), timeout=wrong)
    async with connect(wayward()) as client:
        for how in ("timeout", "cap"):
            with pytest.raises(TypeError, match=f"{how} is .*, expected a number of seconds"):
                await client.call_tool("never", **{how: wrong})
        calls, _ = await cancellations(client)
        assert len(calls) == 1


@to_the_end
async def test_the_deadline_of_the_connection_counts_where_a_call_has_none(wayward):
    async with connect(wayward(), timeout=0.1) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("never")
        result = await client.call_tool("late", {"seconds": 0.3}, timeout=20)
        assert result.content[0].text == "at last"


@to_the_end
async def test_progress_extends_the_deadline_even_without_a_callback(wayward):
    async with connect(wayward()) as client:
        result = await client.call_tool("advance", {"steps": 8, "pause": 0.3}, timeout=2)
        assert result.content[0].text == "done"


@to_the_end
async def test_the_cap_holds_whatever_progress_comes(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(RequestTimeout, match=r"0\.5 s in all"):
            await client.call_tool("advance", {"steps": 500, "pause": 0.05}, cap=0.5)
        _, named = await cancellations(client)
        assert len(named) == 1


@to_the_end
async def test_infinity_waits_as_long_as_it_takes(wayward):
    async with connect(wayward(), timeout=0.1, cap=0.1) as client:
        waiting = {"timeout": math.inf, "cap": math.inf}
        assert await client.call_tool("late", {"seconds": 0.3}, **waiting)


@to_the_end
async def test_a_late_answer_is_passed_over(wayward, caplog):
    async with connect(wayward()) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("late", {"seconds": 0.3}, timeout=0.1)
        await asyncio.sleep(0.4)  # clock: the answer comes after its time limit
        await client.ping()


@to_the_end
async def test_cancelling_the_caller_cancels_the_request_on_the_server(wayward):
    async with connect(wayward()) as client:
        call = asyncio.ensure_future(client.call_tool("never"))
        await client.ping()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        calls, named = await cancellations(client)
        assert [each["requestId"] for each in named] == calls[:1]


@to_the_end
async def test_a_timeout_around_a_call_cancels_it_as_well(wayward):
    async with connect(wayward()) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.call_tool("never")
        _, named = await cancellations(client)
        assert len(named) == 1


def test_initialize_is_never_cancelled(run):
    class Mute(Loopback):
        def write(self, data, exchange):
            self.sent.append(data)

    wire = Mute(None)

    async def main():
        connecting = asyncio.ensure_future(connect(wire))
        while not wire.sent:
            await asyncio.sleep(0)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    run(main())
    assert len(wire.sent) == 1
    assert wire.aborted


@to_the_end
async def test_cancelling_in_the_moment_of_the_answer_stays_a_cancellation():
    pending = []
    wire = Loopback(lambda _, message: pending.append(message["id"]))
    async with connect(wire) as client:
        call = asyncio.ensure_future(client.call_tool("any"))
        while not pending:
            await asyncio.sleep(0)
        wire.put(id=pending[0], result=DONE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert wire.sent[-1]["method"] == "tools/call"


# -- progress


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_progress_reaches_the_callback_of_its_call(asynchronous, wayward, run):
    heard = {1: [], 2: []}

    def listener(n):
        def sync(report):
            heard[n].append((report.progress, report.total, report.message))

        async def slow(report):
            sync(report)

        return slow if asynchronous else sync

    async def main():
        async with connect(wayward()) as client:
            await asyncio.gather(
                *(
                    client.call_tool("advance", {"steps": n + 1}, on_progress=listener(n))
                    for n in heard
                )
            )

    run(main())
    assert heard == {
        1: [(1, 2, "1"), (2, 2, "2")],
        2: [(1, 3, "1"), (2, 3, "2"), (3, 3, "3")],
    }


def test_one_callback_may_hear_the_progress_of_all_calls(wayward, run):
    heard = []

    async def main():
        async with connect(wayward(), on_progress=heard.append) as client:
            await client.call_tool("advance", {"steps": 2})
            await client.call_tool("advance", {"steps": 1})

    run(main())
    assert [report.progress for report in heard] == [1, 2, 1]


def test_tokens_differ_between_calls_under_way(run):
    async def main():
        waiting = []
        wire = Loopback(lambda _, message: waiting.append(message))
        async with connect(wire) as client:
            calls = [asyncio.ensure_future(client.call_tool("any")) for _ in range(20)]
            while len(waiting) < 20:
                await asyncio.sleep(0)
            tokens = {m["params"]["_meta"]["progressToken"] for m in waiting}
            for message in waiting:
                wire.put(id=message["id"], result=DONE)
            await asyncio.gather(*calls)
            return tokens

    assert len(run(main())) == 20
