"""Without a store nothing of `accord.sharing` is loaded: not by servers, and not by clients."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from accord.types import REVISION_IDS

LONG = 120

SERVER = '''
import sys

from accord import Context, Server
from accord.middleware import cache, log_requests, rate_limit, time_limit

MIDDLEWARE = [log_requests(), rate_limit(1000), time_limit(60), cache(60, tools=["subtract"])]
server = Server("desk", middleware=MIDDLEWARE)


@server.tool(task="optional")
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers, at length."""
    await ctx.info("adding")
    await ctx.progress(1, total=2)
    return a + b


@server.tool
def subtract(a: int, b: int) -> int:
    return a - b


@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("your name?", str)
    return str(answer.action)


@server.resource("note://1")
def note() -> str:
    return "a note"


@server.tool
def loaded() -> list[str]:
    return sorted(each for each in sys.modules if each.startswith("accord.sharing"))


if __name__ == "__main__":
    server.run(sys.argv[1], **({"port": 0} if sys.argv[1] == "http" else {}))
'''

CLIENT = """
import asyncio
import json
import sys

from accord.client import connect

ADDING = ("add", "subtract")
revision, *target = sys.argv[1:]


async def decline(params):
    return None


async def main():
    target_ = target[0] if target[0].startswith("http") else target
    async with connect(target_, revision=revision, on_elicit=decline) as client:
        both = {"a": 5, "b": 3}
        said = [await client.call_tool(each, both, result_type=int) for each in ADDING]
        if revision >= "2025-06-18":
            await client.call_tool("ask")
        if revision >= "2025-11-25":
            task = await client.start_tool("add", {"a": 1, "b": 2})
            await task.result()
        await client.read_resource("note://1")
        changes = client.listen(tools=True)
        async with changes:
            pass
        server = await client.call_tool("loaded", result_type=list[str])
    own = sorted(each for each in sys.modules if each.startswith("accord.sharing"))
    print(json.dumps({"said": said, "server": server, "client": own}))


asyncio.run(main())
"""


@pytest.fixture
def scripts(tmp_path: Path) -> tuple[Path, Path]:
    server, client = tmp_path / "desk.py", tmp_path / "client.py"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    return server, client


def talk(client: Path, *words: object) -> dict[str, list[object]]:
    command = [sys.executable, str(client), *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def serving(*command: object) -> Iterator[str]:
    """Run a server over HTTP in a process of its own; yield its URL."""
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://\S+?:\d+/mcp", line):
                yield found[0]
                break
    finally:
        process.terminate()
        process.communicate(timeout=LONG)


@pytest.mark.parametrize("revision", [REVISION_IDS[-2], REVISION_IDS[-1]])
def test_a_server_over_stdio_and_its_client_load_nothing_of_sharing(scripts, revision):
    server, client = scripts
    found = talk(client, revision, sys.executable, server, "stdio")
    assert found == {"said": [8, 2], "server": [], "client": []}


@pytest.mark.parametrize("revision", [REVISION_IDS[-2], REVISION_IDS[-1]])
@pytest.mark.parametrize("way", ["run", "command"])
def test_an_http_server_without_a_store_loads_nothing_of_sharing(scripts, revision, way):
    server, client = scripts
    by_command = ("-m", "accord", "run", server, "--http", "--port", "0")
    words = by_command if way == "command" else (server, "http")
    with serving(sys.executable, *words) as url:
        assert talk(client, revision, url) == {"said": [8, 2], "server": [], "client": []}


def test_a_server_with_a_store_loads_sharing(scripts):
    """So the tests above look for the right name."""
    server, client = scripts
    words = ("-m", "accord", "run", server, "--http", "--port", "0", "--store", "memory:")
    with serving(sys.executable, *words) as url:
        assert talk(client, REVISION_IDS[-2], url)["server"] != []
