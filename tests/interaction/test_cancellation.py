"""Cancelling: by the caller, by its task, by time; and cancellations that are late or invalid."""

import asyncio
from typing import Any

import pytest

from accord import connect
from accord.errors import ConnectionClosed
from interaction.servers import working
from support.links import EVERYWHERE, IN_PROCESS, everywhere, is_stateless_http, over, text
from support.raw import RawClient, RawServer
from support.waiting import until

pytestmark = EVERYWHERE


async def events(client: Any, wanted: str) -> list[str]:
    """Ask what happened until something did."""
    while wanted not in (found := await client.call_tool("events", result_type=list[str])):
        pass
    return found


def called(recording: Any, tool: str) -> Any:
    calls = recording.messages("client", "tools/call")
    return next(each for each in calls if each["params"]["name"] == tool)


@pytest.mark.requirement(
    "cancellation.notification.either-party",
    "cancellation.request-id.present",
    "cancellation.request-id.previously-issued",
    "cancellation.reason.optional",
    "cancellation.receiver.stops",
    "cancellation.receiver.frees-and-silent",
    "cancellation.names-own-pending",
    "cancellation.request-id-required",
    "stdio.cancel.by-notification",
    "stdio.cancel.stop-work",
)
async def test_cancelling_the_task_cancels_the_call(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        waiting = asyncio.ensure_future(client.call_tool("wait", {"name": "a"}))
        await events(client, "waiting a")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await events(client, "left a")
    recording = accord_link.connections[0].recording
    call = called(recording, "wait")
    cancelled = recording.messages("client", "notifications/cancelled")
    if is_stateless_http(accord_link):
        assert cancelled == []  # the end of its connection cancels a request
    else:
        assert [each["params"]["requestId"] for each in cancelled] == [call["id"]]
        assert cancelled[0]["params"]["reason"]
    answers = [each for each in recording.messages("server") if each.get("id") == call["id"]]
    assert answers == []


@everywhere("2025-06-18", "2026-07-28")
async def test_a_tool_that_only_notifies_can_be_cancelled_too(connect_to: Any, caplog: Any) -> None:
    heard, found = asyncio.Event(), set[str]()
    async with connect_to(working.make) as client:
        waiting = asyncio.ensure_future(
            client.call_tool("chatter", {"times": 200_000}, on_progress=lambda _: heard.set())
        )
        await heard.wait()
        waiting.cancel()
        while not found:
            reported = await client.call_tool("events", result_type=list[str])
            found = {"silenced", "chattered"}.intersection(reported)
    assert found == {"silenced"}
    # An answer that crosses the cancellation is allowed.
    assert "skipped a message" not in caplog.text


async def test_work_in_a_thread_sees_a_flag(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        waiting = asyncio.ensure_future(client.call_tool("work"))
        await events(client, "working")
        waiting.cancel()
        await events(client, "noticed")
    recording = accord_link.connections[0].recording
    call = called(recording, "work")
    assert [each for each in recording.messages("server") if each.get("id") == call["id"]] == []


@everywhere("2025-06-18", "2025-11-25", "2026-07-28")
async def test_a_thread_that_waits_for_an_answer_is_freed(connect_to: Any) -> None:
    asked = asyncio.Event()

    async def never(params: Any) -> Any:
        asked.set()
        await asyncio.sleep(30)

    async with connect_to(working.make, on_elicit=never) as client:
        waiting = asyncio.ensure_future(client.call_tool("ask_and_work"))
        await asked.wait()
        waiting.cancel()
        await events(client, "asked")


@pytest.mark.requirement("cancellation.receiver.stops")
@everywhere("2025-06-18")
async def test_a_question_of_a_cancelled_tool_is_cancelled_too(
    accord_link: Any, connect_to: Any
) -> None:
    asked, stopped = asyncio.Event(), asyncio.Event()

    async def never(params: Any) -> Any:
        asked.set()
        try:
            await asyncio.sleep(30)
        finally:
            stopped.set()

    async with connect_to(working.make, on_elicit=never) as client:
        waiting = asyncio.ensure_future(client.call_tool("order"))
        await asked.wait()
        waiting.cancel()
        await stopped.wait()
    recording = accord_link.connections[0].recording
    assert len(recording.messages("server", "notifications/cancelled")) == 1
    assert len(recording.messages("client", "notifications/cancelled")) == 1


@pytest.mark.requirement("cancellation.races")
@IN_PROCESS
async def test_many_calls_cancelled_at_any_moment_leave_the_connection_usable(
    connect_to: Any,
) -> None:
    async with connect_to(working.make) as client:
        for turns in range(12):
            calls = [
                asyncio.ensure_future(client.call_tool("nap", {"seconds": 0})) for _ in range(4)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        assert text(await client.call_tool("nap", {"seconds": 0})) == "awake"


async def test_closing_ends_waiting_requests_on_both_sides(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        waiting = asyncio.ensure_future(client.call_tool("wait", {"name": "a"}))
        await events(client, "waiting a")
        await client.close()
        with pytest.raises(ConnectionClosed):
            await waiting


# -- by plain messages


@pytest.mark.requirement(
    "cancellation.invalid-ignored", "cancellation.receiver.may-ignore", "cancellation.races"
)
@pytest.mark.parametrize(
    "params",
    [
        {"requestId": 99},
        {"requestId": "open"},
        {"requestId": 1},
        {"requestId": None},
        {"requestId": {"a": 1}},
        {},
        None,
    ],
)
@over("memory", revisions=("2025-06-18",))
async def test_an_invalid_cancellation_is_ignored(accord_link: Any, params: Any) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open()
        await raw.ask(1, "ping")
        before = len(raw.received)
        raw.notify("notifications/cancelled", params)
        await raw.ask(2, "ping")
        assert len(raw.received) == before + 1


@over("memory", revisions=("2025-06-18",))
async def test_a_request_cancelled_in_the_same_write_is_not_answered(accord_link: Any) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open()
        raw.request(1, "tools/call", {"name": "wait", "arguments": {"name": "a"}})
        raw.notify("notifications/cancelled", {"requestId": 1})
        await raw.ask(2, "ping")
        await asyncio.sleep(0.01)  # clock: time in which a wrong answer would arrive
        assert raw.answers_to(1) == []


@pytest.mark.requirement("cancellation.sender.ignores-late", "cancellation.races")
@over("memory", revisions=("2025-06-18",))
async def test_an_answer_after_the_cancellation_is_ignored(accord_link: Any) -> None:
    server = RawServer({"ping": {}})
    async with connect(server, revision="2025-06-18") as client:
        waiting = asyncio.ensure_future(client.call_tool("slow"))
        call = await until(lambda: next((e for e in server.heard if e.get("id") == 1), None))
        waiting.cancel()
        await asyncio.wait([waiting])
        server.put(id=call["id"], result={"content": [], "isError": False})
        await client.ping()
    server.check()


@pytest.mark.requirement("cancellation.initialize.excluded")
@over("memory", revisions=("2025-06-18",))
async def test_the_opening_is_never_cancelled(accord_link: Any) -> None:
    server = RawServer({"initialize": lambda raw, message: None})
    opening = asyncio.ensure_future(connect(server, revision="2025-06-18").__aenter__())
    await until(lambda: server.heard)
    opening.cancel()
    await asyncio.wait([opening])
    assert [each["method"] for each in server.heard] == ["initialize"]
    assert server.is_closed
