"""Progress and log messages while a tool works."""

from typing import Any

import pytest

from interaction.servers import reporting, working
from support.links import HTTP, IN_MEMORY, REVISIONS, STDIO, over, text
from support.raw import RawClient
from support.waiting import until

# The newest revision in memory alone: tests of its transports have logs, too.
pytestmark = over("memory", *STDIO, *HTTP, revisions=REVISIONS)


@pytest.mark.requirement(
    "progress.token.in-meta",
    "progress.token.unique",
    "progress.token.type",
    "progress.notification.token",
    "progress.notification.progress",
    "progress.notification.total",
    "progress.notification.message",
    "progress.notification.method-name",
    "progress.value.increases",
)
async def test_progress_reaches_the_caller(accord_link: Any, connect_to: Any) -> None:
    heard: list[Any] = []
    async with connect_to(working.make) as client:
        await client.call_tool("steps", {"values": [1, 2.5, 10]}, on_progress=heard.append)
    assert [(each.progress, each.total) for each in heard] == [(1, 10), (2.5, 10), (10, 10)]
    reported = ["at 1", "at 2.5", "at 10"] if accord_link.revision >= "2025-03-26" else [None] * 3
    assert [each.message for each in heard] == reported


async def test_progress_may_be_reported_from_threads(connect_to: Any) -> None:
    heard: list[float] = []
    async with connect_to(working.make) as client:
        result = await client.call_tool(
            "steps_in_thread",
            {"values": [1, 2, 3]},
            on_progress=lambda each: heard.append(each.progress),
        )
    assert text(result) == "done"
    assert heard == [1, 2, 3]


@pytest.mark.requirement("progress.value.increases")
async def test_only_rising_values_are_sent(connect_to: Any) -> None:
    heard: list[float] = []
    async with connect_to(working.make) as client:
        await client.call_tool(
            "steps",
            {"values": [3, 1, 3, 4, 4, 2, 5]},
            on_progress=lambda each: heard.append(each.progress),
        )
    assert heard == [3, 4, 5]


@pytest.mark.requirement("progress.stops-after-completion", "progress.notification.active-only")
async def test_no_progress_follows_the_answer(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        await client.call_tool("late", on_progress=lambda each: None)
        while "reported late" not in await client.call_tool("events", result_type=list[str]):
            pass
    recording = accord_link.connections[0].recording
    assert recording.messages("server", "notifications/progress") == []


@IN_MEMORY
async def test_without_a_token_no_progress_is_sent(accord_link: Any) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open(accord_link.revision)
        call = {"name": "steps", "arguments": {"values": [1, 2]}}
        assert (await raw.ask(1, "tools/call", call))["result"]["isError"] is False
        assert [each for each in raw.received if "method" in each] == []


# -- logging


@pytest.mark.requirement(
    "logging.capability.declared",
    "logging.set-level.method",
    "logging.levels.rfc5424",
    "logging.message.method",
    "logging.message.level-and-data",
    "logging.message.logger-optional",
    "logging.message.min-level",
    "logging.session-wide",
)
async def test_the_client_chooses_the_least_level(connect_to: Any) -> None:
    heard: list[Any] = []
    async with connect_to(working.make, on_log=heard.append) as client:
        await client.call_tool("speak")
        await until(lambda: len(heard) == 7)
        assert [each.level for each in heard] == [
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ]
        assert heard[0].data == {"rows": 3}
        assert (heard[1].data, heard[1].logger) == ("n", "shop")
        assert "class 'object'" in heard[-1].data
        heard.clear()
        await client.set_log_level("error")
        await client.call_tool("speak")
        await until(lambda: len(heard) == 4)
        assert [each.level for each in heard] == ["error", "critical", "alert", "emergency"]
        heard.clear()
        await client.set_log_level("debug")
        await client.call_tool("speak")
        await until(lambda: len(heard) == 8)
        assert heard[0].level == "debug"


async def test_standard_logging_can_be_passed_on(connect_to: Any) -> None:
    heard: list[Any] = []
    async with connect_to(working.make, on_log=heard.append) as client:
        await client.set_log_level("debug")
        await client.call_tool("bridge")
        await until(lambda: len(heard) >= 3)
        await client.ping()
    reported = [(each.level, each.data, each.logger) for each in heard]
    assert reported == [
        ("info", "opened 3 doors", "desk.work"),
        ("debug", "trifle", "desk.work"),
        ("critical", "fire", "desk.work"),
    ]


async def test_a_call_that_may_become_a_task_reports_as_any_other(connect_to: Any) -> None:
    heard: list[Any] = []
    logged: list[Any] = []
    async with connect_to(
        reporting.make, on_log=lambda message: logged.append(message.data["step"])
    ) as client:
        result = await client.call_tool("build", on_progress=heard.append)
        assert text(result) == "built"
        await until(lambda: len(logged) == 8)
    assert [(each.progress, each.total) for each in heard] == [(step, 8) for step in range(1, 9)]
    assert logged == [*range(1, 9)]
