"""Servers written with the library as targets: in memory, and from a file."""

import asyncio
import gc
from contextlib import asynccontextmanager

import msgspec
import pytest

from accord import Context, Server, connect
from accord.client import blocking
from accord.errors import ConnectionClosed, RequestTimeout
from accord.types import ElicitParams, TextContent
from support.running import to_the_end

DESK = '''
from accord import Server

server = Server("desk", version="3")
print("printed while importing")

@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


class Seat(msgspec.Struct):
    name: str


def desk():
    server = Server("desk", version="3")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def wait() -> str:
        """Wait for ever."""
        await asyncio.sleep(60)
        return "never"

    @server.tool
    async def advance(ctx: Context) -> str:
        """Report progress."""
        for step in range(3):
            await ctx.progress(step, 3)
        return "done"

    return server


@to_the_end
async def test_a_misspelt_oauth_is_not_sent_as_a_token():
    for auth in ("oath", "OAuth", "oauth2"):
        with pytest.raises(ValueError, match='would be sent as a token; did you mean "oauth"'):
            await connect("http://127.0.0.1:9/mcp", auth=auth)


@to_the_end
async def test_a_server_object_is_connected_in_memory():
    async with connect(desk()) as client:
        assert client.server_info.name == "desk"
        assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
        assert [tool.name async for tool in client.tools()] == ["add", "wait", "advance"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@to_the_end
async def test_the_revision_can_be_pinned_in_memory(revision):
    async with connect(desk(), revision=revision) as client:
        assert client.revision == revision
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.content == [TextContent("3")]
        assert await client.call_tool("add", {"a": 2, "b": 2}, result_type=int) == 4


def test_progress_and_deadlines_work_in_memory(run):
    heard = []

    async def main():
        async with connect(desk()) as client:
            await client.call_tool("advance", on_progress=heard.append)
            with pytest.raises(RequestTimeout):
                await client.call_tool("wait", timeout=0.05)

    run(main())
    assert [report.progress for report in heard] == [0, 1, 2]


@to_the_end
async def test_questions_of_a_server_in_memory_reach_the_callbacks():
    server = Server("asking")

    @server.tool
    async def pick(ctx: Context) -> str:
        """Ask for a seat."""
        return (await ctx.elicit("which seat?", Seat)).name

    async def on_elicit(params: ElicitParams):
        assert list(params.requested_schema["properties"]) == ["name"]
        return Seat("aisle")

    async with connect(server, on_elicit=on_elicit) as client:
        assert await client.call_tool("pick", result_type=str) == "aisle"


@to_the_end
async def test_calls_under_way_fail_when_a_client_in_memory_closes():
    client = await connect(desk())
    call = asyncio.ensure_future(client.call_tool("wait"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ConnectionClosed):
        await call


def test_a_lifespan_begins_and_ends_in_one_task_for_any_task_that_connects_and_closes(run):
    tasks = []

    @asynccontextmanager
    async def lifespan(server):
        async with asyncio.TaskGroup(), asyncio.timeout(60):
            tasks.append(asyncio.current_task())
            yield
            tasks.append(asyncio.current_task())

    async def main():
        server = Server("living", lifespan=lifespan)
        client = await asyncio.create_task(_connected(server))
        await asyncio.create_task(client.close())

    run(main())
    assert len(tasks) == 2
    assert tasks[0] is tasks[1]


async def _connected(target):
    return await connect(target)


def test_a_lifespan_that_fails_raises_its_own_error(run):
    @asynccontextmanager
    async def lifespan(server):
        raise ZeroDivisionError
        yield

    async def main():
        with pytest.raises(ZeroDivisionError):
            await connect(Server("stillborn", lifespan=lifespan))

    run(main())


def test_a_forgotten_client_in_memory_is_ended(run, caplog):
    ended = []

    @asynccontextmanager
    async def lifespan(server):
        yield
        ended.append(True)

    async def main():
        client = await connect(Server("living", lifespan=lifespan))
        del client
        gc.collect()
        while not ended:
            await asyncio.sleep(0)

    run(main())


def test_the_blocking_client_takes_a_server_object_too():
    with blocking.connect(desk()) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3


@to_the_end
async def test_a_python_file_is_run_as_a_server(tmp_path):
    file = tmp_path / "desk.py"
    file.write_text(DESK)
    for target in (file, str(file)):
        async with connect(target) as client:
            assert client.server_info.version == "3"
            assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3


@to_the_end
async def test_a_file_is_found_from_here_wherever_it_runs(tmp_path, monkeypatch):
    (tmp_path / "desk.py").write_text(DESK)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with connect("desk.py", cwd=tmp_path / "elsewhere") as client:
        assert client.server_info.name == "desk"
