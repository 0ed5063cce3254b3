"""`retry` and `ctx.failure`."""

from typing import Any

import pytest

from accord import Context, Server, ToolError
from accord.errors import RequestError
from accord.middleware import retry, time_limit
from accord.server import Proceed
from accord.testing import connected
from support.tables import cases
from support.waiting import in_loop


def make(*layers: Any, fails: int = 1, error: Exception | None = None) -> tuple[Server, list[str]]:
    server, calls = Server("desk", middleware=layers), []
    raised = error or ConnectionError("down")

    def attempt(name: str) -> str:
        calls.append(name)
        if calls.count(name) <= fails:
            raise raised
        return "done"

    @server.tool(annotations={"readOnlyHint": True})
    async def read() -> str:
        """Read."""
        return attempt("read")

    @server.tool(annotations={"idempotentHint": True})
    def put() -> str:
        """Put."""
        return attempt("put")

    @server.tool
    async def pay() -> str:
        """Pay."""
        return attempt("pay")

    @server.resource("note://today")
    async def today() -> str:
        return attempt("today")

    return server, calls


@in_loop
async def test_read_only_and_idempotent_tools_and_resources_are_tried_again() -> None:
    server, calls = make(retry(wait=0))
    async with connected(server) as client:
        assert (await client.call_tool("read")).text == "done"
        assert (await client.call_tool("put")).text == "done"
        await client.read_resource("note://today")
    assert calls == ["read", "read", "put", "put", "today", "today"]


@in_loop
async def test_a_tool_that_could_do_its_work_twice_is_called_once() -> None:
    server, calls = make(retry(wait=0))
    async with connected(server) as client:
        assert (await client.call_tool("pay")).is_error
    assert calls == ["pay"]


@in_loop
async def test_named_tools_are_tried_again_in_place_of_the_annotated_ones() -> None:
    server, calls = make(retry(wait=0, tools=["pay"]))
    async with connected(server) as client:
        assert (await client.call_tool("pay")).text == "done"
        assert (await client.call_tool("read")).is_error
    assert calls == ["pay", "pay", "read"]


@in_loop
async def test_the_last_failure_is_answered() -> None:
    server, calls = make(retry(3, wait=0), fails=9)
    async with connected(server) as client:
        assert "tool read failed" in (await client.call_tool("read")).text
        with pytest.raises(RequestError, match="internal error"):
            await client.read_resource("note://today")
    assert calls == ["read"] * 3 + ["today"] * 3


@pytest.mark.parametrize(
    ("on", "error", "attempts"),
    [
        ((ConnectionError,), ValueError("wrong"), 1),
        (ValueError, ValueError("wrong"), 2),
        (lambda error: "busy" in str(error), ToolError("busy"), 2),
        (lambda error: "busy" in str(error), ToolError("never"), 1),
    ],
)
@in_loop
async def test_only_errors_that_pass_are_tried_again(
    on: Any, error: Exception, attempts: int
) -> None:
    server, calls = make(retry(wait=0, on=on), error=error)
    async with connected(server) as client:
        await client.call_tool("read")
    assert calls == ["read"] * attempts


@in_loop
async def test_each_wait_is_longer_than_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    server, _ = make(retry(4, wait=0.5, factor=3), fails=9)
    async with connected(server) as client:
        monkeypatch.setattr("accord.middleware.retries.asyncio.sleep", note)
        await client.call_tool("read")
        monkeypatch.undo()
    assert waits == [0.5, 1.5, 4.5]


@in_loop
async def test_a_user_is_not_asked_the_same_again() -> None:
    server, calls = make(retry(wait=0))

    @server.tool(annotations={"readOnlyHint": True})
    async def ask(ctx: Context) -> str:
        """Ask."""
        await ctx.elicit("name?", {"type": "object", "properties": {}})
        calls.append("ask")
        raise ConnectionError("down")

    async def on_elicit(*_: Any) -> Any:
        return {}

    for revision in ("2025-11-25", "2026-07-28"):
        async with connected(server, revision=revision, on_elicit=on_elicit) as client:
            assert (await client.call_tool("ask")).is_error
    assert calls == ["ask", "ask"]


@in_loop
async def test_a_call_that_ran_into_a_time_limit_is_not_tried_again() -> None:
    server, calls = make(retry(wait=0), time_limit(0.02))

    @server.tool(annotations={"readOnlyHint": True})
    async def slow() -> str:
        """Wait."""
        import asyncio

        calls.append("slow")
        await asyncio.sleep(60)
        return ""

    async with connected(server) as client:
        assert "(time_limit)" in (await client.call_tool("slow")).text
    assert calls == ["slow"]


@in_loop
async def test_middleware_sees_the_exception_of_the_last_attempt_alone() -> None:
    seen = []

    async def look(ctx: Context, proceed: Proceed) -> Any:
        result = await proceed()
        seen.append(ctx.failure)
        return result

    server, _ = make(look, retry(wait=0))
    async with connected(server) as client:
        await client.call_tool("read")
        await client.call_tool("pay")
    assert seen[1] is None
    assert isinstance(seen[2], ConnectionError)


@cases(
    ("settings", "error", "message"),
    [
        ({"attempts": 0}, ValueError, "attempts is 0, expected 1 or more"),
        ({"wait": -1}, ValueError, "wait is -1"),
        ({"on": "ConnectionError"}, TypeError, "expected exception types or a function"),
        ({"on": (ValueError, 5)}, TypeError, "expected exception types"),
        ({"tools": [5]}, TypeError, "tools has 5, expected names of tools"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    settings: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        retry(**settings)
