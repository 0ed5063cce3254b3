"""Tools: time-outs, logs and other effects that a client does not see."""

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import Any

import msgspec
import pytest

from accord import Context, Server, ToolError, connect
from accord.errors import InternalError, InvalidParams
from accord.server.entries.tools import failure
from accord.types import CallToolResult, TextContent
from support.waiting import in_loop, run, until


def text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def called(server: Server[Any], name: str) -> CallToolResult:
    async with connect(server) as client:
        return await client.call_tool(name)


@pytest.mark.parametrize("kind", ["plain", "inline", "async"])
def test_a_tool_that_exits_has_failed(kind: str, caplog: Any) -> None:
    server = Server("desk")

    def leave() -> str:
        raise SystemExit(2)

    async def leave_later() -> str:
        raise SystemExit(2)

    if kind == "async":
        server.add_tool(leave_later, name="leave")
    else:
        server.add_tool(leave, inline=kind == "inline")
    with caplog.at_level(logging.ERROR):
        result = run(called(server, "leave"))
    assert result.is_error
    assert "tool leave failed (reference" in caplog.text


def test_an_unknown_tool_is_answered_with_the_one_that_was_meant_if_the_caller_may_see_it() -> None:
    server = Server("desk")
    server.add_tool(lambda: "x", name="find_city", description="Find a city.")
    server.add_tool(lambda: "x", name="reset_desk", description="Reset.", scopes=["admin"])
    server.add_tool(lambda: "x", name="open_vault", description="Open it.")
    server.hide("open_vault")

    async def answer(name: str) -> str:
        async with connect(server) as client:
            with pytest.raises(InvalidParams) as caught:
                await client.call_tool(name)
            assert caught.value.data == {"name": name}
            return caught.value.message

    assert run(answer("findCity")) == "unknown tool 'findCity'; did you mean 'find_city'?"
    assert run(answer("reset_desc")) == "unknown tool 'reset_desc'"
    assert run(answer("open_vaults")) == "unknown tool 'open_vaults'"
    assert run(answer("open_vault")) == "unknown tool 'open_vault'"


@pytest.mark.parametrize("data", [{"city": "Oslo", "tried": 2}, None])
@in_loop
async def test_the_data_of_a_tool_error_reaches_programs(data: Any) -> None:
    server = Server("desk")

    @server.tool
    async def find() -> int:
        """Find."""
        raise ToolError("no such city", data=data)

    async with connect(server) as client:
        result = await client.call_tool("find")
        shown = ["no such city"] if data is None else ["no such city", '{"city":"Oslo","tried":2}']
        assert result.is_error
        assert [block.text for block in result.content] == shown  # type: ignore[union-attr]  # texts
        assert result.structured_content == (msgspec.UNSET if data is None else data)
        with pytest.raises(ToolError, match=r"^no such city$") as caught:
            await client.call_tool("find", result_type=int)
        assert caught.value.data == data


def test_data_of_a_tool_error_that_is_not_json_is_logged_and_left_out(caplog: Any) -> None:
    server = Server("desk")

    @server.tool
    async def find() -> str:
        """Find."""
        raise ToolError("no such city", data={"city": object()})

    result = run(called(server, "find"))
    assert text(result) == "no such city"
    assert result.structured_content is msgspec.UNSET
    assert "the data of ToolError('no such city') is left out" in caplog.text


@pytest.mark.parametrize("inline", [False, True])
def test_a_result_of_another_type_is_logged_with_its_tool_and_no_traceback(
    inline: bool, caplog: Any
) -> None:
    server = Server("desk")

    @server.tool(inline=inline)
    def count() -> int:
        """Count."""
        return "many"  # type: ignore[return-value]  # the mistake

    with caplog.at_level(logging.ERROR):
        result = run(called(server, "count"))
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("tool count, at ")
    assert "test_tools.py:" in said
    assert 'the result: expected an integer, got a string ("many") (reference ' in said
    assert record.exc_info is None
    assert text(result).startswith("tool count failed: its result cannot be sent (reference ")


@pytest.mark.parametrize(
    "value",
    [
        "caf\xe9 \udce9",
        [TextContent("fine"), TextContent("\udce9")],
        CallToolResult([TextContent("\udce9")]),
        {"name": "\udce9"},
    ],
    ids=["text", "blocks", "result", "value"],
)
@pytest.mark.parametrize("returns", [str, dict[str, str]], ids=["untyped", "typed"])
def test_a_result_with_half_a_character_is_a_failed_tool(value, returns, caplog: Any) -> None:
    def look() -> Any:
        if returns is not str and isinstance(value, CallToolResult):
            return CallToolResult(value.content, structured_content={"name": "fine"})
        return value

    look.__annotations__["return"] = returns
    server = Server("desk")
    server.add_tool(look)
    server.add_tool(lambda: "caf\xe9", name="fine")

    async def both() -> tuple[CallToolResult, CallToolResult]:
        async with connect(server) as client:
            return await client.call_tool("look"), await client.call_tool("fine")

    result, other = run(both())
    assert result.is_error
    assert text(result).startswith("tool look failed: its result cannot be sent (reference ")
    assert "surrogates not allowed" in caplog.text
    assert text(other) == "caf\xe9"


def test_half_a_character_in_the_text_of_an_error_is_spelled_out() -> None:
    def look() -> str:
        raise ToolError("no file caf\xe9 \udce9")

    server = Server("desk")
    server.add_tool(look)
    assert text(run(called(server, "look"))) == "no file caf\xe9 \\udce9"


def test_the_one_error_in_a_group_of_tasks_reaches_the_caller() -> None:
    server = Server("desk")

    async def ask(what: str) -> None:
        raise ToolError(f"no {what}")

    async def both() -> None:
        raise ExceptionGroup("two", [ToolError("one"), ToolError("two")])

    @server.tool
    async def one() -> str:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask("city"))
        return "found"

    server.add_tool(both)
    assert text(run(called(server, "one"))) == "no city"
    assert text(run(called(server, "both"))).startswith("tool both failed (reference ")


def test_a_plain_function_may_hand_on_an_async_one() -> None:
    async def dig() -> int:
        return 3

    async def endless() -> int:
        await asyncio.Event().wait()
        return 0

    def digits() -> Any:
        return (digit for digit in "12")

    server = Server("desk", debug=True)
    server.add_tool(digits)
    reported = run(called(server, "digits")).content[0].text  # type: ignore[union-attr]
    assert "generator cannot be written as JSON" in reported
    server.add_tool(lambda: dig(), name="dig")
    server.add_tool(lambda: endless(), name="endless", timeout=0.01)
    assert run(called(server, "dig")).content[0].text == "3"  # type: ignore[union-attr]
    late = run(called(server, "endless"))
    assert late.content[0].text == "tool endless did not finish within 0.01 s (timeout)"  # type: ignore[union-attr]


def test_a_coroutine_of_a_plain_function_is_cancelled_with_its_call() -> None:
    seen: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def endless() -> None:
            seen.append(Context.current().method)
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                seen.append("cleaned up")

        server = Server("desk")
        server.add_tool(lambda: endless(), name="endless")
        async with connect(server) as client:
            calling = asyncio.ensure_future(client.call_tool("endless"))
            await begun.wait()
            calling.cancel()
            await until(lambda: len(seen) == 2)

    run(main())
    assert seen == ["tools/call", "cleaned up"]


def test_a_plain_function_may_hand_on_what_cancels_itself() -> None:
    async def stop() -> None:
        raise asyncio.CancelledError

    server = Server("desk")
    server.add_tool(lambda: stop(), name="stop")
    with pytest.raises(InternalError, match="the work was cancelled"):
        run(called(server, "stop"))


def test_a_forgotten_await_is_named_in_the_log(caplog: Any) -> None:
    async def dig() -> int:
        return 3

    async def hasty() -> Any:
        return dig()

    server = Server("desk")
    server.add_tool(hasty)
    with caplog.at_level(logging.ERROR):
        assert run(called(server, "hasty")).is_error
    assert "the result is a coroutine; an await is missing" in caplog.text


def test_an_error_of_another_server_is_a_failure_of_the_tool_not_of_its_call() -> None:
    other = Server("other")
    other.add_tool(lambda: "x", name="x")

    async def forward() -> str:
        async with connect(other) as client:
            return str(await client.call_tool("missing"))

    server = Server("desk")
    server.add_tool(forward)
    result = run(called(server, "forward"))
    assert result.is_error
    reported = result.content[0].text  # type: ignore[union-attr]
    assert reported == "tool forward failed: unknown tool 'missing'"


def test_a_failure_is_text_with_a_flag() -> None:
    result = failure("no")
    assert result.is_error
    assert result.content[0].text == "no"  # type: ignore[union-attr]


def test_an_async_tool_carries_its_name_as_a_task() -> None:
    names: list[str] = []

    async def dig(ctx: Context) -> str:
        task = asyncio.current_task()
        assert task is not None
        names.append(task.get_name())
        return "x"

    server = Server("desk")
    server.add_tool(dig)
    run(called(server, "dig"))
    assert names == ["tool dig"]


def test_the_current_context_is_set_during_an_inline_tool_and_reset_afterwards() -> None:
    found: list[Any] = []

    def look() -> str:
        found.extend([Context.current().method, threading.get_ident()])
        return "x"

    async def main() -> None:
        server = Server("desk")
        server.add_tool(look, inline=True)
        await called(server, "look")
        with pytest.raises(LookupError):
            Context.current()

    run(main())
    assert found == ["tools/call", threading.get_ident()]


SEEN: ContextVar[int] = ContextVar("SEEN", default=0)


@pytest.mark.parametrize("kind", ["inline", "brief", "async"])
def test_context_variables_of_one_call_do_not_reach_the_next(kind: str) -> None:
    def note() -> int:
        SEEN.set(SEEN.get() + 1)
        return SEEN.get()

    async def note_at_once() -> int:
        return note()

    async def note_later() -> int:
        await asyncio.sleep(0)
        return note()

    server = Server("desk")
    function = {"inline": note, "brief": note_at_once, "async": note_later}[kind]
    server.add_tool(function, name="note", inline=kind == "inline")

    async def main() -> list[str]:
        async with connect(server) as client:
            return [text(await client.call_tool("note")) for _ in range(3)]

    assert run(main()) == ["1", "1", "1"]
