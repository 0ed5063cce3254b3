"""Limits, pages, caches and tasks of real processes that share a file of SQLite."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from accord import connect
from accord.types import ElicitParams
from support.http_server import free_port
from support.waiting import LONG, in_loop, until, until_sync

pytestmark = pytest.mark.integration

COUNT = 3
SERVER = '''
import asyncio
import os
import sys
from pathlib import Path

from accord import Context, Server
from accord.middleware import cache, rate_limit

port, folder = int(sys.argv[1]), Path(sys.argv[2])
results = cache(1_000, by="all", tools=["quote"])
limit = rate_limit("30/hour", by=lambda ctx: "all" if ctx.params.name == "limited" else None)
server = Server("desk", middleware=[limit, results])


@server.tool
async def limited() -> str:
    """Return."""
    return "granted"


@server.tool
async def quote() -> str:
    """Return the price."""
    return (folder / "price").read_text()


@server.tool
async def forget() -> str:
    """Forget the prices that were kept."""
    results.clear()
    return "forgotten"


@server.tool
async def link(ctx: Context) -> str:
    """Wait until the user is done with a page."""
    page = await ctx.elicit_url("Link", "https://desk.example/{elicitation_id}")
    await page.wait()
    return "linked"


@server.tool
async def finish(id: str) -> list[bool]:
    """Complete a page, twice."""
    return [await server.complete_elicitation(id), await server.complete_elicitation(id)]


@server.tool(task="optional", idempotent=True)
async def count(ctx: Context) -> str:
    """Note each run, and wait for ever in the first one."""
    with (folder / "runs").open("a") as runs:
        runs.write(f"{os.getpid()}\\n")
    if len((folder / "runs").read_text().split()) == 1:
        await asyncio.sleep(100_000)
    return f"done by {os.getpid()}"


server.run("http", port=port, store=f"sqlite:///{folder / 'store.db'}", lease=2.0)
'''


class Processes:
    """The processes, and where they listen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "server.py").write_text(textwrap.dedent(SERVER))
        (folder / "price").write_text("1")
        self.ports = [free_port() for _ in range(COUNT)]
        self.started = [
            subprocess.Popen([sys.executable, folder / "server.py", str(port), folder])
            for port in self.ports
        ]

    def wait(self) -> None:
        for port, process in zip(self.ports, self.started, strict=True):
            until_sync(lambda port=port, process=process: self._is_ready(port, process))

    def _is_ready(self, port: int, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, "a process did not start"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=LONG):
                return True
        except (URLError, ConnectionError):
            return False

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            process.wait(LONG)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    started = Processes(tmp_path_factory.mktemp("processes"))
    try:
        started.wait()
        yield started
    finally:
        started.end()


async def connect_all(stack: AsyncExitStack, processes: Processes, **options: Any) -> list[Any]:
    urls = [f"http://127.0.0.1:{port}/mcp" for port in processes.ports]
    return [await stack.enter_async_context(connect(url, **options)) for url in urls]


@in_loop
async def test_processes_share_a_limit(processes: Processes) -> None:
    async with AsyncExitStack() as stack:
        clients = await connect_all(stack, processes)
        calls = [client.call_tool("limited") for client in clients for _ in range(20)]
        results = await asyncio.gather(*calls)
        assert sum(not result.is_error for result in results) == 30


@in_loop
async def test_a_page_is_completed_in_another_process(processes: Processes) -> None:
    shown: list[str] = []
    heard: list[str] = []

    def visit(params: ElicitParams) -> bool:
        shown.append(str(params.elicitation_id))
        return True

    options: Any = {"on_elicit_url": visit, "on_elicitation_complete": heard.append}
    async with AsyncExitStack() as stack:
        clients = await connect_all(stack, processes, revision="2025-11-25", **options)
        call = asyncio.ensure_future(clients[0].call_tool("link"))
        await until(lambda: shown)
        finished = await clients[1].call_tool("finish", {"id": shown[0]})
        assert finished.structured_content == {"result": [True, False]}
        assert (await call).text == "linked"
        await until(lambda: heard)
        assert heard == shown


@in_loop
async def test_results_are_forgotten_in_all_processes(processes: Processes) -> None:
    async with AsyncExitStack() as stack:
        clients = await connect_all(stack, processes)
        assert [(await client.call_tool("quote")).text for client in clients] == ["1"] * COUNT
        (processes.folder / "price").write_text("2")
        assert [(await client.call_tool("quote")).text for client in clients] == ["1"] * COUNT
        await clients[2].call_tool("forget")
        async with asyncio.timeout(LONG):
            while [(await client.call_tool("quote")).text for client in clients] != ["2"] * COUNT:
                await asyncio.sleep(0.05)


@in_loop
async def test_a_task_of_a_killed_process_runs_again_in_another(processes: Processes) -> None:
    runs = processes.folder / "runs"
    async with AsyncExitStack() as stack:
        clients = await connect_all(stack, processes)
        task = await clients[0].start_tool("count")
        first = int(await until(lambda: runs.exists() and runs.read_text().strip()))
        assert first == processes.started[0].pid
        os.kill(first, signal.SIGKILL)
        again = await clients[1].task(task.id)
        result = await again.result()
        (_, second) = runs.read_text().split()
        assert result.text == f"done by {second}"
        assert int(second) in [process.pid for process in processes.started[1:]]
