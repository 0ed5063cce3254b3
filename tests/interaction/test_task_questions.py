"""Questions of tasks, and tasks that several processes share."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from accord import Context, Server
from accord.errors import RequestError
from accord.server.tasks import SqliteTaskStore, TaskSettings, TaskStore
from accord.testing import Recording, connected
from accord.types import CreateMessageResult, ElicitParams, TaskResultParams, TextContent
from support.running import answer_with, in_virtual_time, on_a_loop

RELATED = "io.modelcontextprotocol/related-task"


def make(store: TaskStore | None = None, **settings: Any) -> Server[Any]:
    server: Server[Any] = Server("jobs", tasks=TaskSettings(store=store), **settings)

    @server.tool(task="optional")
    async def delete(ctx: Context, name: str) -> str:
        """Delete a file, if the user agrees."""
        sure = await ctx.elicit(f"Delete {name}?", bool)
        return f"{name}: {sure}"

    @server.tool(task="optional")
    async def survey(ctx: Context) -> str:
        """Ask three things at once."""
        name, model, roots = await asyncio.gather(
            ctx.elicit("Name?", str), ctx.sample("Hi"), ctx.roots()
        )
        return f"{name} {model.text} {len(roots)}"

    @server.tool(task="optional")
    async def wait_for_input(ctx: Context) -> str:
        """Ask, but not for long."""
        return str(await ctx.elicit("Quick!", str, timeout=5))

    @server.tool(task="optional")
    async def sleep(seconds: float) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return "awake"

    return server


def link(server: Server[Any], **options: Any) -> Any:
    return connected(server, revision="2025-11-25", **options)


@pytest.mark.requirement(
    "tasks.status.valid-transitions",
    "tasks.input.status-set",
    "tasks.input.related-task",
    "tasks.input.leaves-status",
    "tasks.input.requestor-calls-result",
    "tasks.related.everywhere",
)
@in_virtual_time
async def test_a_task_asks_the_user_and_goes_on() -> None:
    asked: list[ElicitParams] = []

    async def answer(params: ElicitParams) -> dict[str, bool]:
        asked.append(params)
        await asyncio.sleep(3)
        return {"value": True}

    async with link(make(), on_elicit=answer) as client:
        task = await client.start_tool("delete", {"name": "a.txt"})
        seen = [update.status async for update in task]
        assert (await task.result()).text == "a.txt: True"
    assert seen == ["working", "input_required", "working", "completed"]
    assert asked[0].meta == {RELATED: {"taskId": task.id}}


@in_virtual_time
async def test_a_task_asks_several_things_at_once() -> None:
    async def sample(params: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent("hello"), "tiny")

    options: Any = {"on_elicit": answer_with("Ann"), "roots": ["file:///w"]}
    async with link(make(), on_sample=sample, **options) as client:
        task = await client.start_tool("survey")
        assert (await task.result()).text == "Ann hello 1"


@in_virtual_time
async def test_a_question_of_a_task_waits_so_long_and_not_longer() -> None:
    async def never(params: Any) -> None:
        await asyncio.sleep(1_000)

    async with link(make(), on_elicit=never) as client:
        task = await client.start_tool("wait_for_input")
        result = await task.result()
        assert result.is_error
        assert asyncio.get_running_loop().time() < 10


@in_virtual_time
async def test_a_question_waits_for_a_client_that_comes_back() -> None:
    server = make()

    async def never(params: Any) -> None:
        await asyncio.sleep(1_000)

    async with link(server, on_elicit=never) as client:
        task = await client.start_tool("delete", {"name": "b"})
        async for update in task:
            if update.status == "input_required":
                break
    async with link(server, on_elicit=answer_with(False)) as client:
        again = await client.task(task.id)
        assert again.status == "input_required"
        assert (await again.result()).text == "b: False"


@pytest.mark.requirement("tasks.http.any-stream", "tasks.http.no-sse-for-get")
@pytest.mark.parametrize("transport", ["http", "http-stream"])
@on_a_loop
async def test_a_task_asks_over_http(transport: Any) -> None:
    recording = Recording()
    asked: list[Any] = []

    async def answer(params: Any) -> Any:
        asked.append(params)
        return {"value": True}

    async with link(make(), transport=transport, on_elicit=answer, recording=recording) as client:
        task = await client.start_tool("delete", {"name": "a"})
        assert (await task.result()).text == "a: True"
        assert task.status == "completed"
    assert len(asked) == 1


# -- several processes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def store(path: Path) -> SqliteTaskStore:
    # A clock that stands still: no worker is ever late. Others are looked at often.
    return SqliteTaskStore(path, lease=0.06, clock=lambda: 1_000.0)


@on_a_loop
async def test_a_server_started_again_knows_the_results_of_the_last(path: Path) -> None:
    before, after = store(path), store(path)
    async with link(make(before)) as client:
        task = await client.start_tool("sleep", {"seconds": 0})
        result = await task.result()
    await before.close()
    async with link(make(after)) as client:
        again = await client.task(task.id)
        assert again.status == "completed"
        assert await again.result() == result
    await after.close()


def test_tasks_of_a_loop_that_ends_are_failed(path: Path) -> None:
    async def begin() -> str:
        async with link(make(store(path))) as client:
            task = await client.start_tool("sleep", {"seconds": 100})
            return str(task.id)

    async def look(id: str) -> Any:
        async with link(make(store(path))) as client:
            return await client.task(id)

    task = asyncio.run(look(asyncio.run(begin())))
    assert task.status == "failed"
    assert task.message == "the server stopped before the task was finished"


@on_a_loop
async def test_another_process_waits_for_a_task_and_cancels_one(path: Path) -> None:
    ours, theirs = store(path), store(path)
    running, other = make(ours), make(theirs)
    async with link(running) as client, link(other) as elsewhere:
        short = await client.start_tool("sleep", {"seconds": 0.1})
        long = await client.start_tool("sleep", {"seconds": 100})
        result = await elsewhere._link.ask("tasks/result", TaskResultParams(short.id), {})
        assert result["content"][0]["text"] == "awake"
        await (await elsewhere.task(long.id)).cancel()
        with pytest.raises(RequestError, match="was cancelled"):
            await long.result()
        while running._core.tasks.running:
            await asyncio.sleep(0.01)
    await ours.close()
    await theirs.close()


@on_a_loop
async def test_cancelling_work_that_waits_for_the_file_keeps_it_from_beginning(path: Path) -> None:
    ours = store(path)
    await ours.get("none")
    busy = threading.Event()
    ours._thread.submit(busy.wait)
    waiting = asyncio.ensure_future(ours.get("none"))
    await asyncio.sleep(0)
    waiting.cancel()
    busy.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gc.collect()  # a coroutine that was made and not begun is reported here
    await ours.close()
