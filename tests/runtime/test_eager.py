"""Tools that are coroutine functions and never wait run in one go, as if in a task."""

import asyncio
import logging
import sys
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from accord import Context, Server, ToolError, connect
from accord.runtime.eager import HAS_EAGER_TASKS, code_without_await, run_at_once
from support.tables import cases
from support.waiting import LONG, in_loop, run, until_sync

NUMBER: ContextVar[int] = ContextVar("NUMBER", default=0)


async def plain() -> int:
    return 1


async def waits() -> int:
    return await plain()


async def iterates() -> list[int]:
    return [each async for each in numbers()]


async def enters() -> None:
    async with asyncio.timeout(1):
        pass


async def numbers() -> Any:
    yield 1


def sync() -> int:
    return 1


class Shop:
    async def sell(self) -> int:
        return 1

    async def __call__(self) -> int:
        return 1


def call(function: Any, times: int = 1) -> list[Any]:
    """Call a function as a tool, several times on one connection; return the texts."""
    server: Server[None] = Server("brief", debug=True)
    server.add_tool(function, name="tool", description="Run.")

    async def main() -> list[Any]:
        async with connect(server, timeout=LONG) as client:
            results = [await client.call_tool("tool") for _ in range(times)]
            return [result.content[0].text for result in results]

    return run(main())


until_3_12 = pytest.mark.skipif(HAS_EAGER_TASKS, reason="Python has eager tasks")


@until_3_12
@pytest.mark.parametrize("function", [plain, Shop().sell])
def test_a_coroutine_function_without_await_is_brief(function: Any) -> None:
    assert code_without_await(function) is function.__code__


@cases("function", [waits, iterates, enters, numbers, sync, Shop(), print])
def test_other_functions_are_not_brief(function: Any) -> None:
    assert code_without_await(function) is None


@in_loop
async def test_a_brief_tool_is_answered_before_the_loop_turns() -> None:
    turns: list[int] = []
    server: Server[None] = Server("brief")
    server.add_tool(plain)
    async with connect(server) as client:
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await client.call_tool("plain")
        assert turns == []


def test_context_variables_do_not_reach_the_next_request() -> None:
    async def tool() -> int:
        NUMBER.set(NUMBER.get() + 1)
        return NUMBER.get()

    assert call(tool, 3) == ["1", "1", "1"]


@in_loop
async def test_the_caller_of_a_server_in_memory_keeps_its_context_and_its_task() -> None:
    server: Server[None] = Server("brief")

    @server.tool
    async def tool() -> bool:
        """Change a context variable."""
        NUMBER.set(7)
        return asyncio.current_task() is not None

    async with connect(server) as client:
        task = asyncio.current_task()
        await client.call_tool("tool")
        assert NUMBER.get() == 0
        assert asyncio.current_task() is task


def test_each_request_has_a_task_of_its_own_to_keep_values_by() -> None:
    kept: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
    seen: list[object] = []

    async def tool() -> int:
        task = asyncio.current_task()
        assert isinstance(task, asyncio.Task)
        seen.append(task)
        assert asyncio.current_task() is task
        kept[task] = kept.get(task, 0) + 1
        return kept[task]

    assert call(tool, 2) == ["1", "1"]
    assert len(set(seen)) == 2


def test_the_task_of_a_brief_tool_has_its_name_and_its_loop() -> None:
    async def tool() -> str:
        task = asyncio.current_task()
        assert task is not None
        assert task.get_loop() is asyncio.get_running_loop()
        assert not task.cancelling()
        return task.get_name()

    assert call(tool) == ["tool tool"]


def test_callbacks_of_the_task_of_a_brief_tool_are_called_after_it() -> None:
    seen: list[str] = []

    async def tool() -> str:
        task: Any = asyncio.current_task()
        task.note = "kept"
        task.add_done_callback(lambda done: seen.append(done.note))
        assert not seen
        return "done"

    async def main() -> None:
        server: Server[None] = Server("brief")
        server.add_tool(tool)
        async with connect(server) as client:
            await client.call_tool("tool")
            while not seen:
                await asyncio.sleep(0)

    run(main())
    assert seen == ["kept"]


@in_loop
async def test_the_task_of_a_brief_tool_can_be_awaited_later() -> None:
    kept: list[Any] = []

    async def tool() -> str:
        kept.append(asyncio.current_task())
        return "done"

    server: Server[None] = Server("brief")
    server.add_tool(tool)
    async with connect(server) as client:
        await client.call_tool("tool")
        await kept[0]


def test_a_brief_tool_that_cancels_its_task_is_answered() -> None:
    async def tool() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    assert call(tool, 2) == ["done", "done"]


@cases(
    ("error", "text"),
    [
        (ToolError("too hot"), "too hot"),
        (KeyError("x"), "tool tool failed: KeyError: 'x'"),
        (StopIteration(3), "tool tool failed: RuntimeError: coroutine raised StopIteration"),
        (SystemExit(2), "tool tool failed: SystemExit: 2"),
    ],
)
def test_an_exception_of_a_brief_tool_is_its_result(error: BaseException, text: str) -> None:
    async def tool() -> str:
        raise error

    assert call(tool) == [text]


def test_a_brief_tool_finds_its_context() -> None:
    async def tool(ctx: Context) -> bool:
        return Context.current() is ctx

    assert call(tool) == ["true"]


def test_a_brief_tool_may_start_tasks() -> None:
    done: list[int] = []

    async def later() -> None:
        done.append(NUMBER.get())

    async def tool() -> str:
        NUMBER.set(5)
        kept.append(asyncio.create_task(later()))
        return "started"

    kept: list[asyncio.Task[None]] = []
    assert call(tool) == ["started"]
    assert done == [5]


def test_a_brief_tool_that_blocks_the_loop_is_named_with_its_place(caplog) -> None:
    async def tool() -> str:
        until_sync(lambda: caplog.records)
        return "done"

    assert call(tool) == ["done"]
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert record.getMessage().startswith("tool tool has blocked the event loop for")
    assert "waiting.py" in record.getMessage()


def test_middleware_sees_the_context_variables_of_a_brief_tool() -> None:
    server: Server[None] = Server("brief")
    seen: list[int] = []

    @server.tool
    async def tool() -> str:
        """Change a context variable."""
        NUMBER.set(9)
        return "done"

    @server.middleware
    async def note(ctx: Any, proceed: Any) -> Any:
        result = await proceed()
        seen.append(NUMBER.get())
        return result

    async def main() -> None:
        async with connect(server) as client:
            await client.call_tool("tool")

    run(main())
    assert seen[-1] == 9


def test_a_tool_whose_code_is_replaced_may_wait() -> None:
    async def tool() -> str:
        return "old"

    async def replacement() -> str:
        await asyncio.sleep(0)
        return "new"

    server: Server[None] = Server("brief")
    server.add_tool(tool)
    tool.__code__ = replacement.__code__

    async def main() -> str:
        async with connect(server, timeout=LONG) as client:
            return (await client.call_tool("tool")).content[0].text

    assert run(main()) == "new"


@until_3_12
@in_loop
async def test_work_that_waits_cannot_run_at_once() -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    with pytest.raises(RuntimeError, match="waits although its code has no await"):
        run_at_once(asyncio.sleep(0), loop)
    assert asyncio.current_task() is task


@pytest.mark.skipif(sys.version_info < (3, 12), reason="log records name tasks since 3.12")
def test_log_records_of_a_brief_tool_name_it(caplog) -> None:
    async def tool() -> str:
        logging.getLogger("test").error("heard")
        return "done"

    call(tool)
    (record,) = [each for each in caplog.records if each.name == "test"]
    assert record.taskName == "tool tool"
