"""`log_requests`: one line per request."""

import asyncio
import json
import logging
from typing import Annotated, Any

import pytest

from accord import Choices, Context, Principal, Server, ToolError, connect
from accord.errors import RequestError
from accord.middleware import log_requests
from accord.server import Proceed
from accord.testing import connected
from accord.types import PromptReference
from support.waiting import in_loop, until


def make(**settings: Any) -> Server:
    server = Server("desk", middleware=[log_requests(**settings)])

    @server.tool
    async def add(a: int, note: str = "") -> int:
        """Add."""
        return a

    @server.tool
    async def refuse() -> str:
        """Refuse."""
        raise ToolError("not today")

    @server.resource("note://{name}")
    async def note(name: str) -> str:
        if name == "lost":
            raise ConnectionError("secret-host is down")
        return name

    @server.prompt
    async def greet(name: Annotated[str, Choices(["ada"])]) -> str:
        """Greet."""
        return name

    return server


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.set_level(logging.INFO, logger="accord.requests")

    class Lines(list[str]):
        def __iter__(self) -> Any:
            return (r.getMessage() for r in caplog.records if r.name == "accord.requests")

    return Lines()


@in_loop
async def test_a_line_names_method_target_outcome_and_time(lines: list[str]) -> None:
    async with connected(make()) as client:
        await client.call_tool("add", {"a": 1, "note": "secret"})
        await client.call_tool("refuse")
        await client.read_resource("note://today")
        for uri in ("note://lost", "x://unknown"):
            with pytest.raises(RequestError):
                await client.read_resource(uri)
        await client.list_tools()
        await client.complete(PromptReference("greet"), "name", "a")
    found = [line.split(" ms=")[0] for line in lines]
    assert [line.split(" id=")[0] for line in found[1:]] == [
        "tools/call add ok",
        "tools/call refuse error",
        "resources/read note://today ok",
        "resources/read note://lost failed",
        "resources/read x://unknown failed",
        "tools/list ok",
        "completion/complete greet ok",
    ]
    assert found[4].endswith("code=-32603 error=ConnectionError")
    assert "code=-32602" in found[5] or "code=-32002" in found[5]
    assert "secret" not in "".join(lines)


@in_loop
async def test_a_cancelled_request_is_logged(lines: list[str]) -> None:
    server = make()
    begun = asyncio.Event()

    @server.tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return ""

    async with connected(server) as client:
        call = asyncio.create_task(client.call_tool("wait"))
        await begun.wait()
        call.cancel()
        await until(lambda: any("tools/call wait cancelled" in line for line in lines))


@in_loop
async def test_json_lines_have_the_principal_and_the_arguments_if_asked(lines: list[str]) -> None:
    server = make(json=True, arguments=True)
    async with connect(server.acting_as(Principal("ada"))) as client:
        await client.call_tool("add", {"a": 1, "note": "x"})
        await client.call_tool("add", {"a": 2, "note": "y" * 5000})
    facts, long = [json.loads(line) for line in lines][-2:]
    assert (facts["method"], facts["name"], facts["outcome"]) == ("tools/call", "add", "ok")
    assert facts["subject"] == "ada"
    assert facts["arguments"] == {"a": 1, "note": "x"}
    assert {"time", "ms", "id"} <= set(facts)
    assert len(long["arguments"]) < 2100


@pytest.mark.parametrize("as_json", [True, False])
@in_loop
async def test_names_cannot_forge_lines_or_colours(lines: list[str], as_json: bool) -> None:
    evil = 'a\nok" \x1b[31m\x7f\u2028\u202e\U000e0001 ms=1'
    async with connected(make(json=as_json)) as client:
        with pytest.raises(RequestError):
            await client.call_tool(evil)
    line = [*lines][-1]
    assert line.isprintable()
    if as_json:
        assert json.loads(line)["name"] == evil
    else:
        assert line.startswith('tools/call "a\\nok\\" \\u001b[31m')


@in_loop
async def test_over_http_the_session_is_named_by_its_beginning(lines: list[str]) -> None:
    server, ids = make(), []

    @server.tool
    async def look(ctx: Context) -> str:
        """Look."""
        ids.append(ctx.request.session_id)
        return ""

    async with connected(server, transport="http", revision="2025-06-18") as client:
        await client.call_tool("look")
    line = next(line for line in lines if line.startswith("tools/call look"))
    assert f"session={ids[0][:8]} " in line
    assert ids[0] not in line


@in_loop
async def test_a_level_that_is_off_logs_nothing(lines: list[str]) -> None:
    async with connected(make(level="debug")) as client:
        await client.call_tool("add", {"a": 1})
    assert [*lines] == []


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match=r"log_requests\(\): there is no log level 'loud'"):
        log_requests(level="loud")


@in_loop
async def test_questions_and_tasks_are_outcomes_of_their_own(lines: list[str]) -> None:
    server = make(level=logging.INFO, arguments=True)

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        await ctx.elicit("name?", {"type": "object", "properties": {}})
        return ""

    @server.tool(task="required")
    async def work() -> str:
        """Work."""
        return "done"

    async def answer(params: Any) -> Any:
        return {}

    async with connected(server, revision="2026-07-28", on_elicit=answer) as client:
        await client.call_tool("ask")
        task = await client.start_tool("work")
        await task.result()
    calls = [line.split(" id=")[0] for line in lines if line.startswith("tools/call")]
    assert calls == ["tools/call ask input_required", "tools/call ask ok", "tools/call work task"]


@in_loop
async def test_an_answer_of_middleware_as_a_dictionary_is_understood(lines: list[str]) -> None:
    server = make()

    @server.middleware("tools/call")
    async def answer(ctx: Context, proceed: Proceed) -> Any:
        return {"content": [], "isError": True}

    async with connected(server, revision="2025-06-18") as client:
        assert (await client.call_tool("add", {"a": 1})).is_error
    assert [*lines][-1].startswith("tools/call add error")
