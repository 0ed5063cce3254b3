"""Tasks of clients (2025-11-25): questions of the server that are answered later."""

import asyncio
from math import inf
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.errors import InvalidParams, RequestError
from accord.testing import connected
from accord.types import (
    CancelTaskParams,
    CreateMessageResult,
    ElicitParams,
    PageParams,
    TaskMetadata,
    TaskResultParams,
    TextContent,
)
from support.raw import RawClient
from support.running import in_virtual_time
from support.waiting import until

RELATED = "io.modelcontextprotocol/related-task"


def make() -> Server[Any]:
    server: Server[Any] = Server("asking", ask_timeout=100)

    @server.tool
    async def think(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("Hi", task=True)).text

    @server.tool(task="optional")
    async def order(ctx: Context, timeout: float = 60) -> str:
        """Ask the user."""
        return str(await ctx.elicit("How many?", int, task=True, timeout=timeout))

    return server


def link(server: Server[Any], **options: Any) -> Any:
    options.setdefault("revision", "2025-11-25")
    return connected(server, **options)


async def sample(params: Any) -> CreateMessageResult:
    await asyncio.sleep(30)
    return CreateMessageResult("assistant", TextContent("hello"), "tiny")


async def elicit(params: Any) -> dict[str, int]:
    await asyncio.sleep(30)
    return {"value": 3}


def declared(client: Any) -> Any:
    return client._link.callbacks.capabilities.tasks


@pytest.mark.requirement(
    "tasks.capability.declared",
    "tasks.create.returns-task",
    "tasks.result.blocks-until-terminal",
    "tasks.result.related-task",
)
@in_virtual_time
async def test_a_client_answers_questions_as_tasks() -> None:
    async with link(make(), on_sample=sample, on_elicit=elicit) as client:
        assert declared(client).requests.sampling is not None
        assert declared(client).requests.elicitation is not None
        assert (await client.call_tool("think")).text == "hello"
        assert (await client.call_tool("order")).text == "3"
        # A task of the server that asks by a task of the client.
        task = await client.start_tool("order")
        assert (await task.result()).text == "3"


@pytest.mark.requirement("tasks.capability.requestor-respects")
@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
@in_virtual_time
async def test_a_client_without_tasks_is_asked_plainly(revision: str) -> None:
    async with link(make(), on_sample=sample, on_elicit=elicit, revision=revision) as client:
        assert (await client.call_tool("think")).text == "hello"
        assert (await client.call_tool("order")).text == "3"


@in_virtual_time
async def test_a_client_declares_tasks_for_its_callbacks_alone() -> None:
    async with link(make()) as client:
        assert declared(client) is None
    async with link(make(), on_sample=sample) as client:
        assert declared(client).requests.elicitation is None


@pytest.mark.requirement("cancellation.not-for-tasks-2025", "tasks.cancel.attempt-stop")
@in_virtual_time
async def test_a_question_that_is_given_up_cancels_the_task_of_the_client() -> None:
    stopped: list[bool] = []

    async def never(params: Any) -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            stopped.append(True)

    async with link(make(), on_elicit=never) as client:
        result = await client.call_tool("order", {"timeout": 5})
        assert result.is_error
        await asyncio.sleep(1)
        assert stopped == [True]


@in_virtual_time
async def test_a_refusal_is_the_error_of_the_task() -> None:
    async def refuse(params: Any) -> None:
        return None

    async with link(make(), on_sample=refuse, on_elicit=elicit) as client:
        result = await client.call_tool("think")
        assert result.text == "tool think failed: the user refused the sampling request"


# -- the methods, one by one


class Asked:
    """A server's view of a client."""

    def __init__(self) -> None:
        self.server: Server[Any] = Server("asking")
        self.done = asyncio.Event()
        self.session: Any = None

        @self.server.tool
        async def hold(ctx: Context) -> str:
            """Hold the connection open for the test."""
            self.session = ctx._session
            await self.done.wait()
            return "done"

    async def ask(self, name: str, params: Any = None) -> Any:
        return await self.session.dispatcher.request(name, params)

    async def begin(self, ttl: int | None = None) -> Any:
        params = ElicitParams("?", requested_schema={"type": "object", "properties": {}})
        params.task = TaskMetadata(ttl)
        return (await self.ask("elicitation/create", params)).task


@pytest.mark.requirement(
    "tasks.id.receiver-generated",
    "tasks.status.starts-working",
    "tasks.list.consistent-with-get",
    "tasks.errors.unknown-id",
    "tasks.errors.bad-cursor",
    "tasks.cancel.terminal-32602",
    "tasks.ttl.in-get",
)
@in_virtual_time
async def test_a_client_serves_the_methods_of_tasks() -> None:
    asked = Asked()
    # The server makes up a cursor.
    allow = ("pagination.cursor.opaque",)
    async with link(asked.server, on_elicit=elicit, allow=allow, timeout=inf) as client:
        call = asyncio.ensure_future(client.call_tool("hold"))
        await asyncio.sleep(0)
        one, other = await asked.begin(), await asked.begin(60_000)
        assert one.status == "working"
        assert one.ttl == 3_600_000
        found = await asked.ask("tasks/get", TaskResultParams(other.task_id))
        assert (found.status, found.ttl) == ("working", 60_000)
        page = await asked.ask("tasks/list", PageParams())
        assert [each.task_id for each in page.tasks] == [one.task_id, other.task_id]
        cancelled = await asked.ask("tasks/cancel", CancelTaskParams(one.task_id))
        assert cancelled.status == "cancelled"
        with pytest.raises(RequestError) as caught:
            await asked.ask("tasks/cancel", CancelTaskParams(one.task_id))
        assert caught.value.code == InvalidParams.default_code
        with pytest.raises(RequestError, match="was cancelled and has no result"):
            await asked.ask("tasks/result", TaskResultParams(one.task_id))
        result = await asked.ask("tasks/result", TaskResultParams(other.task_id))
        assert result["action"] == "accept"
        assert result["_meta"] == {RELATED: {"taskId": other.task_id}}
        for name, params in (
            ("tasks/get", TaskResultParams("x")),
            ("tasks/list", PageParams("x")),
        ):
            with pytest.raises(RequestError) as caught:
                await asked.ask(name, params)
            assert caught.value.code == InvalidParams.default_code
        await asyncio.sleep(61)
        with pytest.raises(RequestError, match="has expired"):
            await asked.ask("tasks/get", TaskResultParams(other.task_id))
        asked.done.set()
        await call


@pytest.mark.requirement("tasks.security.limits")
@in_virtual_time
async def test_a_server_may_not_flood_a_client_with_tasks() -> None:
    asked = Asked()
    async with link(asked.server, on_elicit=elicit) as client:
        call = asyncio.ensure_future(client.call_tool("hold"))
        await asyncio.sleep(0)
        for _ in range(100):
            await asked.begin()
        with pytest.raises(RequestError, match="busy: 100 tasks are unfinished"):
            await asked.begin()
        asked.done.set()
        await call


@in_virtual_time
async def test_a_callback_that_fails_fails_its_task(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(params: Any) -> Any:
        raise ValueError("secret")

    asked = Asked()
    async with link(asked.server, on_elicit=fail) as client:
        call = asyncio.ensure_future(client.call_tool("hold"))
        await asyncio.sleep(0)
        task = await asked.begin()
        with pytest.raises(RequestError, match="internal error"):
            await asked.ask("tasks/result", TaskResultParams(task.task_id))
        found = await asked.ask("tasks/get", TaskResultParams(task.task_id))
        assert (found.status, found.status_message) == ("failed", "internal error")
        asked.done.set()
        await call
    assert "secret" in caplog.text


@in_virtual_time
async def test_a_client_that_is_closed_ends_its_tasks() -> None:
    stopped: list[bool] = []

    async def never(params: Any) -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            stopped.append(True)

    asked = Asked()
    client = await connect(asked.server, revision="2025-11-25", on_elicit=never)
    call = asyncio.ensure_future(client.call_tool("hold"))
    await asyncio.sleep(0)
    await asked.begin()
    await asyncio.sleep(0)
    call.cancel()
    await client.close()
    assert stopped == [True]


# -- clients that break the rules


@pytest.mark.parametrize(
    ("task_result", "why"),
    [({"action": "accept", "content": {"value": 4}}, "4"), ({"action": 5}, "failed")],
)
@pytest.mark.parametrize("is_task", [True, False])
@in_virtual_time
async def test_a_client_answers_as_a_task_or_at_once(
    task_result: Any, why: str, is_task: bool
) -> None:
    state = {"taskId": "t", "status": "working", "ttl": None}
    state |= {"createdAt": "2026-11-16T00:00:00Z", "lastUpdatedAt": "2026-11-16T00:00:00Z"}
    async with RawClient(make(), allow=("*",)) as raw:
        requests = {"elicitation": {"create": {}}}
        await raw.open("2025-11-25", elicitation={}, tasks={"requests": requests})
        raw.request("c", "tools/call", {"name": "order", "arguments": {}})
        asked = await until(lambda: questions(raw, "elicitation/create"))
        assert asked[0]["params"]["task"] == {}
        answer = {"task": state} if is_task else task_result
        raw.send({"jsonrpc": "2.0", "id": asked[0]["id"], "result": answer})
        if is_task:
            fetched = await until(lambda: questions(raw, "tasks/result"))
            raw.send({"jsonrpc": "2.0", "id": fetched[0]["id"], "result": task_result})
        result = (await raw.answer_to("c"))["result"]
        assert why in result["content"][0]["text"]


def questions(raw: RawClient, method: str) -> list[Any]:
    return [each for each in raw.received if each.get("method") == method]
