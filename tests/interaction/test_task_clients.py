"""Clients and tasks of the extension, and calls that become tasks by themselves."""

import asyncio
import itertools
from typing import Any

import pytest

from accord import Principal, Server, connect
from accord.client import blocking
from accord.errors import InvalidParams, LocalProtocolError, RemoteProtocolError, RequestError
from accord.testing import connected
from accord.types import CreateMessageResult, TextContent
from interaction import test_task_extension, test_task_questions
from support.raw import RawServer
from support.running import answer_with, in_virtual_time, on_a_loop

ID = "io.modelcontextprotocol/tasks"


def make(**settings: Any) -> Server[Any]:
    return test_task_extension.make(**settings)


def link(server: Any, **options: Any) -> Any:
    return connected(server, revision="2026-07-28", **options)


@pytest.mark.requirement(
    "tasks-ext.capability.client-per-request",
    "tasks-ext.create.client-handles-both",
    "tasks-ext.client.poll-until-terminal",
    "tasks-ext.client.poll-interval",
)
@in_virtual_time
async def test_a_call_waits_for_the_task_that_the_server_makes_of_it() -> None:
    async with link(make(poll_interval=4)) as client:
        assert (await client.call_tool("compute")).text == "42"
        # It takes 10 s, and waiting adds a tenth at most.
        assert 10 <= asyncio.get_running_loop().time() <= 11.2
        assert (await client.call_tool("greet", {"name": "Ann"})).text == "Hello, Ann!"
        assert (await client.call_tool("fail")).is_error


@in_virtual_time
async def test_a_task_of_the_extension_is_started_and_found_again() -> None:
    server = make()
    async with link(server) as client:
        task = await client.start_tool("compute")
        assert task.status == "working"
        assert task.ttl == 3600
    async with link(server) as client:
        again = await client.task(task.id)
        assert [update.status async for update in again] == ["working", "completed"]
        assert await again.result(result_type=str) == "42"
        await again.cancel()
        with pytest.raises(InvalidParams, match="there is no task"):
            await client.task("unknown")
        with pytest.raises(LocalProtocolError, match="tasks/list is not part of revision"):
            _ = [each async for each in client.tasks()]


@pytest.mark.requirement("tasks-ext.create.client-handles-both")
@in_virtual_time
async def test_a_call_that_is_answered_at_once_is_a_finished_task() -> None:
    async with link(make()) as client:
        task = await client.start_tool("greet", {"name": "Ann"})
        assert task.is_finished
        assert (await task.result()).text == "Hello, Ann!"
        assert [update.status async for update in task] == ["completed"]
        await task.cancel()


@in_virtual_time
async def test_an_error_of_the_task_is_the_error_of_the_call() -> None:
    async with link(make()) as client:
        with pytest.raises(RequestError, match="the disk is full") as caught:
            await client.call_tool("break_down")
        assert caught.value.code == -32050


@pytest.mark.requirement("tasks-ext.cancel.not-by-notification")
@in_virtual_time
async def test_a_task_of_the_extension_is_cancelled() -> None:
    server = make()
    async with link(server) as client:
        task = await client.start_tool("compute")
        await task.cancel()
        with pytest.raises(RequestError, match="was cancelled and has no result"):
            await task.result()
        assert task.status == "cancelled"
        call = asyncio.ensure_future(client.call_tool("compute"))
        await asyncio.sleep(1)
        call.cancel()
        await asyncio.sleep(0.1)
        assert not server._core.tasks.running


@pytest.mark.requirement(
    "tasks-ext.client.inspects-input-requests",
    "tasks-ext.client.same-trust",
    "tasks-ext.client.dedupe-keys",
    "tasks-ext.update.keys-outstanding",
)
@in_virtual_time
async def test_questions_of_a_task_reach_the_callbacks_once() -> None:
    asked: list[str] = []

    async def answer(params: Any) -> dict[str, Any]:
        asked.append(params.message)
        await asyncio.sleep(30 if params.message == "Name?" else 1)
        return {"value": "Ann" if params.message == "Name?" else 41}

    async with link(make(), on_elicit=answer) as client:
        assert (await client.call_tool("survey")).text == "Ann is 41"
        assert sorted(asked) == ["Age?", "Name?"]


@in_virtual_time
async def test_every_kind_of_question_is_answered_in_a_task() -> None:
    async def sample(params: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent("hello"), "tiny")

    options: Any = {"on_elicit": answer_with("Ann"), "roots": ["file:///w"]}
    async with link(test_task_questions.make(), on_sample=sample, **options) as client:
        assert (await client.call_tool("survey")).text == "Ann hello 1"


@in_virtual_time
async def test_a_tool_that_asks_first_is_called_as_any_other() -> None:
    async def answer(params: Any) -> dict[str, Any]:
        return {"value": "Ann" if params.message == "Name?" else True}

    async with link(make(), on_elicit=answer) as client:
        assert (await client.call_tool("plan")).text == "Ann: True"
        task = await client.start_tool("plan")
        assert [update.status async for update in task][-1] == "completed"


@in_virtual_time
async def test_a_question_that_the_user_cannot_answer_ends_the_call() -> None:
    server = test_task_questions.make()

    async def refuse(params: Any) -> None:
        return None

    options: Any = {"on_elicit": answer_with("Ann"), "roots": ["file:///w"]}
    async with link(server, on_sample=refuse, **options) as client:
        with pytest.raises(RequestError, match="the user refused"):
            await client.call_tool("survey")
        await asyncio.sleep(0.1)
        assert not server._core.tasks.running


@pytest.mark.requirement("tasks-ext.http.mcp-name", "tasks.http.any-stream")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@on_a_loop
async def test_a_task_over_http(revision: str) -> None:
    server = make(poll_interval=0.05)

    async def answer(params: Any) -> dict[str, Any]:
        return {"value": True}

    async with connected(server, transport="http", revision=revision, on_elicit=answer) as client:
        task = await client.start_tool("confirm", {"name": "c"})
        assert (await task.result()).text == "c: True"
        other = await client.start_tool("compute")
        await other.cancel()
        assert (await (await client.task(task.id)).refresh()).status == "completed"


# -- servers that break the rules

DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "extensions": {ID: {}}},
    "ttlMs": 0,
    "cacheScope": "private",
}
HANDLE = {
    "resultType": "task",
    "taskId": "t",
    "status": "working",
    "createdAt": "2026-11-16T00:00:00Z",
    "lastUpdatedAt": "2026-11-16T00:00:00Z",
    "ttlMs": None,
    "pollIntervalMs": 1,
}


@pytest.mark.requirement("tasks-ext.create.only-tools-call")
@in_virtual_time
async def test_a_task_in_place_of_a_list_is_refused() -> None:
    server = RawServer({"server/discover": DISCOVERED, "tools/list": HANDLE})
    async with connect(server, revision="2026-07-28") as client:
        with pytest.raises(RemoteProtocolError, match="resultType 'task' is unknown"):
            await client.list_tools()


@pytest.mark.parametrize(
    ("report", "why"),
    [
        ({"status": "completed", "result": {"content": 5}}, "is not that of a tool"),
        ({"status": "completed", "result": 5}, "is not that of a tool"),
        ({"status": "completed"}, "has no result"),
        ({"status": "failed", "error": {"code": "x"}}, "reports a malformed error"),
    ],
)
@in_virtual_time
async def test_an_outcome_that_cannot_be_read_is_an_error(report: Any, why: str) -> None:
    found = {**HANDLE, "resultType": "complete", **report}
    server = RawServer({"server/discover": DISCOVERED, "tools/call": HANDLE, "tasks/get": found})
    async with connect(server, revision="2026-07-28") as client:
        with pytest.raises((RemoteProtocolError, RequestError), match=why):
            await client.call_tool("x")


@in_virtual_time
async def test_a_server_that_is_asked_to_poll_at_once_is_not_flooded() -> None:
    asked: list[float] = []

    def report(server: Any, message: Any) -> None:
        asked.append(asyncio.get_running_loop().time())
        status = "completed" if len(asked) == 5 else "working"
        result = {**HANDLE, "resultType": "complete", "status": status, "result": {"content": []}}
        server.put(id=message["id"], result=result)

    server = RawServer({"server/discover": DISCOVERED, "tools/call": HANDLE, "tasks/get": report})
    async with connect(server, revision="2026-07-28") as client:
        await client.call_tool("x")
    pauses = [later - before for before, later in itertools.pairwise(asked)]
    assert min(pauses) >= 0.05


# -- without asyncio


@in_virtual_time
async def test_nothing_of_finished_tasks_runs_on_after_the_connection() -> None:
    async with link(make()) as client:
        await client.call_tool("compute")
    await asyncio.sleep(0)
    assert "accord-tasks" not in {task.get_name() for task in asyncio.all_tasks()}


def test_the_blocking_client_follows_tasks() -> None:
    server = make(poll_interval=0.05)
    acting: Any = server.acting_as(Principal("ann"))
    with blocking.connect(acting, revision="2025-11-25") as client:
        task = client.start_tool("compute", {"seconds": 0.1}, ttl=50)
        assert (task.tool, task.ttl, task.is_finished) == ("compute", 50, False)
        assert task.poll_interval == 0.05
        assert repr(task).endswith("of compute: working>")
        again = client.task(task.id)
        assert again.refresh().status == again.status == "working"
        assert [update.status for update in task][-1] == "completed"
        assert task.message is None
        assert task.result().text == "42"
        assert again.result(result_type=str) == "42"
        assert [each.id for each in client.tasks()] == [task.id]
        long = client.start_tool("compute")
        long.cancel()
        assert long.status == "cancelled"
