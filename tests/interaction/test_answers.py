"""Every request ends in exactly one answer, whatever its handler does."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import Server, connect
from accord.errors import RequestError
from accord.types import (
    CreateMessageResult,
    PromptReference,
    TextContent,
)
from interaction.servers import failing
from support.http_server import IS_UVICORN, bounded
from support.processes import Child, python
from support.tables import cases
from support.waiting import LONG, in_loop, run, until_sync

SERVER = Path(failing.__file__)
TRANSPORTS = ["stdio", "memory", "http"]
TOOLS = ["sync_tool", "async_tool", "eager_tool", "inline_tool", "timed_tool"]
NESTED = {"SystemExit", "KeyboardInterrupt"}
"""Exceptions that leave the loop from any task: only a server with its own loop can go on."""


@asynccontextmanager
async def client_of(transport: str, server: Server[Any] = failing.server, **options: Any) -> Any:
    """Connect to the server over one of the transports."""
    options = {"timeout": LONG, "env": {"PYTHONPATH": os.pathsep.join(sys.path)}, **options}
    if transport == "http":
        with bounded(server.asgi()) as port:
            async with connect(f"http://127.0.0.1:{port}/mcp", **options) as client:
                yield client
    else:
        target = server if transport == "memory" else [sys.executable, str(SERVER)]
        async with connect(target, **options) as client:
            yield client


async def outcome_of(work: Any) -> Any:
    """Return what a request ended with: a result, or an error that came as an answer."""
    try:
        return await work
    except RequestError as error:
        return error


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("transport", TRANSPORTS)
@in_loop
async def test_every_call_of_a_tool_is_answered(transport: str, tool: str) -> None:
    async with client_of(transport) as client:
        for way in failing.WAYS:
            outcome = await outcome_of(client.call_tool(tool, {"how": way}))
            assert isinstance(outcome, RequestError) or outcome.is_error, way
        await client.ping()


@pytest.mark.parametrize("transport", TRANSPORTS)
@in_loop
async def test_every_request_for_a_resource_prompt_or_completion_is_answered(
    transport: str,
) -> None:
    async with client_of(transport) as client:
        for way in failing.WAYS:
            for mode in ("sync", "async"):
                ref = PromptReference(f"{mode}_prompt")
                uri = f"{mode}://{way.replace(' ', '%20')}"
                for work in (
                    client.read_resource(uri),
                    client.get_prompt(ref.name, {"how": way}),
                    client.complete(ref, "how", way),
                ):
                    outcome = await outcome_of(work)
                    # A generator of texts is a list of suggestions as good as any.
                    assert isinstance(outcome, RequestError) or way == "a generator"
        await client.ping()


@cases("way", failing.FAILURES)
@cases("transport", ["memory", "http"])
@in_loop
async def test_middleware_that_fails_is_answered(transport: str, way: str) -> None:
    async with client_of(transport, failing.failing_middleware(way)) as client:
        assert isinstance(await outcome_of(client.list_tools()), RequestError)
        await client.ping()


# Under uvicorn the server ends with them.
@pytest.mark.parametrize("transport", ["stdio"] if IS_UVICORN else ["stdio", "http"])
@in_loop
async def test_tasks_of_a_handler_that_exit_end_nothing_but_its_call(transport: str) -> None:
    async with client_of(transport) as client:
        for way in failing.FAILURES:
            outcome = await outcome_of(client.call_tool("group_tool", {"how": way}))
            # A task that is cancelled does not fail its group.
            is_failure = isinstance(outcome, RequestError) or outcome.is_error
            assert is_failure == (way != "CancelledError"), way
        await client.ping()


@in_loop
async def test_failed_calls_do_not_count_as_in_flight() -> None:
    server = Server("narrow", in_flight=2)
    server.add_tool(failing.sync_tool)
    async with connect(server, timeout=LONG) as client:
        for way in failing.WAYS:
            for _ in range(3):
                outcome = await outcome_of(client.call_tool("sync_tool", {"how": way}))
                assert "busy" not in str(outcome), way
        (session,) = server._core.sessions
        assert not session.dispatcher.running


@cases("is_async", [False, True], ids=["sync", "async"])
@cases("way", failing.WAYS)
@in_loop
async def test_callbacks_of_a_client_that_fail_are_answered(way: str, is_async: bool) -> None:
    server: Server[None] = Server("asking", ask_timeout=LONG)

    @server.tool
    async def ask(ctx: failing.Context) -> str:
        """Ask for everything there is."""
        texts = []
        for work in (ctx.sample("hello", max_tokens=5), ctx.elicit("name", str), ctx.roots()):
            try:
                texts.append(str(await work))
            except RequestError as error:
                texts.append(f"refused {error.code}")
        return " | ".join(texts)

    def plain(*_: Any) -> Any:
        return failing.fail(way)

    async def later(*_: Any) -> Any:
        return failing.fail(way)

    callback = later if is_async else plain
    options: Any = {"on_sample": callback, "on_elicit": callback, "roots": callback}
    options["revision"] = "2025-11-25"
    async with connect(server, timeout=LONG, **options) as client:
        result = await client.call_tool("ask")
        expected = 2 if way == "a generator" else 3  # of folders, it is a list of roots
        assert result.content[0].text.count("refused -32603") == expected
        await client.ping()


@cases("is_async", [False, True], ids=["sync", "async"])
@cases("way", failing.WAYS)
@in_loop
async def test_in_rounds_a_callback_that_fails_ends_its_call_alone(
    way: str, is_async: bool
) -> None:
    server: Server[None] = Server("asking")

    @server.tool
    async def ask(ctx: failing.Context) -> str:
        """Ask the model."""
        return (await ctx.sample("hello", max_tokens=5)).text

    def plain(_: Any) -> Any:
        return failing.fail(way)

    async def later(_: Any) -> Any:
        return failing.fail(way)

    callback = later if is_async else plain
    async with connect(server, timeout=LONG, on_sample=callback) as client:
        assert client.revision == "2026-07-28"
        with pytest.raises(Exception) as caught:  # any, but none that ends tasks
            await client.call_tool("ask")
        assert not isinstance(caught.value, TimeoutError)
        await client.ping()


@cases("way", failing.FAILURES)
def test_failing_notification_callbacks_of_a_client_end_nothing(way: str) -> None:
    server: Server[None] = Server("telling")

    @server.tool
    async def tell(ctx: failing.Context) -> str:
        """Tell something twice."""
        ctx.info("one")
        await ctx.progress(1)
        ctx.info("two")
        return "reported"

    heard: list[Any] = []

    def note(news: Any) -> None:
        heard.append(news)
        failing.fail(way)

    async def main() -> None:
        async with connect(server, timeout=LONG, on_log=note) as client:
            result = await client.call_tool("tell", on_progress=note)
            assert result.content[0].text == "reported"
            await client.ping()

    run(main())
    assert len(heard) == 3


# -- forked children

FORKING = [
    ("tools/call", {"name": "fork_in_thread"}),
    ("tools/call", {"name": "fork_on_loop"}),
    ("tools/call", {"name": "fork_on_loop", "arguments": {"awaits": True}}),
    ("tools/call", {"name": "fork_inline"}),
    ("tools/call", {"name": "fork_and_raise"}),
    ("prompts/get", {"name": "fork_prompt"}),
    ("resources/read", {"uri": "fork://now"}),
]


def text_of(answer: Any) -> str:
    result = answer["result"]
    if "messages" in result:
        return str(result["messages"][0]["content"]["text"])
    return str((result.get("content") or result["contents"])[0]["text"])


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to take notice."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(("method", "params"), FORKING)
def test_a_forked_child_that_returns_writes_nothing_and_ends(method: str, params: Any) -> None:
    with Child(*python(SERVER), env={"PYTHONPATH": os.pathsep.join(sys.path)}) as child:
        child.open()
        # In one write: what follows the call in the same read must not be served twice.
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        child.send(call, *({"jsonrpc": "2.0", "id": id, "method": "ping"} for id in range(2, 20)))
        parent, forked = map(int, text_of(child.answer_to(1)).split())
        assert parent == child.process.pid
        until_sync(lambda: has_ended(forked))
        child.request(20, "ping")
        assert child.answer_to(20)["result"] == {}
        child.close_input()
        assert child.wait() == 0
        answers = Counter(
            line.partition(b'"id":')[2].partition(b",")[0]
            for line in child.output
            if b'"method"' not in line
        )
        assert set(answers.values()) == {1}
        reported = [line for line in child.output if b"reported by" in line]
        assert all(b"reported by %d" % parent in line for line in reported)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("tool", ["fork_in_thread", "fork_on_loop", "fork_inline"])
@in_loop
async def test_a_child_forked_by_an_http_server_ends(tool: str) -> None:
    async with client_of("http") as client:
        result = await client.call_tool(tool)
        parent, forked = map(int, result.content[0].text.split())
        assert parent == os.getpid()
        await asyncio.to_thread(os.waitpid, forked, 0)
        await client.ping()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@in_loop
async def test_a_child_forked_by_a_callback_of_a_client_ends(is_async: bool) -> None:
    server: Server[None] = Server("asking")
    children: list[int] = []

    @server.tool
    async def ask(ctx: failing.Context) -> str:
        """Ask the model."""
        return (await ctx.sample("hello", max_tokens=5)).content.text

    def fork(_: Any) -> CreateMessageResult:
        children.append(os.fork())
        return CreateMessageResult("assistant", TextContent("hi"), "model")

    async def fork_later(params: Any) -> CreateMessageResult:
        return fork(params)

    callback = fork_later if is_async else fork
    async with connect(server, timeout=LONG, on_sample=callback) as client:
        assert (await client.call_tool("ask")).content[0].text == "hi"
        await asyncio.to_thread(os.waitpid, children[0], 0)


# -- lifespans


@cases("way", [each for each in failing.FAILURES if each not in NESTED])
@cases("when", ["start", "end"])
def test_a_lifespan_that_fails_ends_the_connection_and_nothing_else(way: str, when: str) -> None:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        if when == "start":
            failing.fail(way)
        yield
        failing.fail(way)

    async def main() -> None:
        server = Server("short", lifespan=lifespan)
        if when == "end":
            async with connect(server, timeout=LONG) as client:
                await client.ping()
            return
        with pytest.raises(Exception) as caught:  # any, but none of tasks
            await connect(server, timeout=LONG)
        assert not isinstance(caught.value, TimeoutError)

    run(main())
