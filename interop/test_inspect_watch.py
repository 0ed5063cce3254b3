"""`accord inspect --watch` between real clients and servers: unchanged, and all of it shown."""

import asyncio
import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from accord import connect
from accord.trace import read

ROOT: Final = Path(__file__).parents[1]
ACCORD: Final = [sys.executable, "-m", "accord"]
# It serves two tools of the same name, and a result that its own schema forbids.
FAULTY: Final = ["-I", "-S", str(ROOT / "tests/inspector/scripted_server.py"), "twice"]
ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+/#key=\S+")
BREACH: Final = re.compile(r"^(?:FAIL|WARN) (\S+)", re.MULTILINE)
PATIENCE: Final = 30
pytestmark = pytest.mark.xdist_group("inspect")


async def ask(url: str, action: str, **params: Any) -> Any:
    """Ask the page as a browser does."""
    base, _, key = url.partition("/#key=")
    headers = {"content-type": "application/json", "x-accord-key": key}
    body = json.dumps({"target": 0, **params}).encode()
    request = urllib.request.Request(f"{base}/api/{action}", body, headers)

    def send() -> Any:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    return await asyncio.to_thread(send)


async def read_address(said: Path) -> str:
    """Wait until the command has printed the address of its page."""
    async with asyncio.timeout(PATIENCE):
        while (found := ADDRESS.search(said.read_text())) is None:
            await asyncio.sleep(0.02)
    return found[0]


async def shown(url: str, count: int) -> tuple[Any, dict[str, int], list[tuple[str, str]]]:
    """Return facts, breaches and rows of a page when it has a number of messages."""
    async with asyncio.timeout(PATIENCE):
        while (await ask(url, "log.summary"))["counters"]["messages"] < count:
            await asyncio.sleep(0.02)
    breaches = (await ask(url, "log.summary"))["breaches"]
    rows = await ask(url, "log.rows", start=0, count=100, filter={})
    return (
        await ask(url, "session.get"),
        {each["requirement"]: each["count"] for each in breaches},
        [(row["from"], row["method"]) for row in rows["rows"]],
    )


@asynccontextmanager
async def foreign_session(words: list[str], said: Path) -> AsyncIterator[ClientSession]:
    """Launch a command as a host with the official client does."""
    command = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    with said.open("w") as errors:
        async with stdio_client(command, errlog=errors) as streams, ClientSession(*streams) as made:
            await made.initialize()
            yield made


async def use(session: ClientSession) -> list[Any]:
    listed = await session.list_tools()
    called = await session.call_tool("echo", {"n": 2**53 + 1})
    return [[each.name for each in listed.tools], called.content[0].text]  # type: ignore[union-attr]


def test_a_host_sees_the_same_server_and_the_page_what_watch_says(tmp_path: Path) -> None:
    server = [sys.executable, *FAULTY]
    recording, log = tmp_path / "it.jsonl", tmp_path / "watch.log"
    page = [*ACCORD, "inspect", "--watch", "--no-open", "--no-history", "--record", str(recording)]
    watch = [*ACCORD, "watch", "--log", str(log), "--", *server]

    async def play() -> tuple[list[Any], Any]:
        seen: list[Any] = []
        said = tmp_path / "said.txt"
        async with foreign_session(server, tmp_path / "none.txt") as session:
            seen.append(await use(session))
        async with foreign_session(watch, tmp_path / "none.txt") as session:
            seen.append(await use(session))
        async with foreign_session([*page, "--", *server], said) as session:
            seen.append(await use(session))
            found = await shown(await read_address(said), 7)
        # The page ends with the client.
        with pytest.raises(urllib.error.URLError):
            await ask(await read_address(said), "session.get")
        return seen, found

    seen, (facts, breaches, rows) = asyncio.run(play())
    assert seen[0] == seen[1] == seen[2]
    assert (facts["state"], facts["can_send"]) == ("ready", False)
    assert facts["server"]["name"] == "scripted"
    assert rows == [
        ("client", "initialize"),
        ("server", "initialize"),
        ("client", "notifications/initialized"),
        ("client", "tools/list"),
        ("server", "tools/list"),
        ("client", "tools/call"),
        ("server", "tools/call"),
    ]
    assert breaches == {"tools.name.unique": 1}
    assert BREACH.findall(log.read_text()) == list(breaches)
    assert len(list(read(recording))) == len(rows)


@asynccontextmanager
async def running(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command of accord until the end of the block; it ends by a signal."""
    process = await asyncio.create_subprocess_exec(
        *(*ACCORD, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


async def read_until(stream: asyncio.StreamReader | None, pattern: str) -> str:
    """Return the part of a line that a pattern names, when it has been printed."""
    assert stream is not None
    async with asyncio.timeout(PATIENCE):
        while line := (await stream.readline()).decode():
            if found := re.search(pattern, line):
                return found[1]
    raise AssertionError(f"{pattern} is never printed")


def test_clients_of_both_libraries_are_watched_over_http(tmp_path: Path) -> None:
    async def play(server: str) -> None:
        options = ("--no-history", "--json", "--record", str(tmp_path / "it.jsonl"))
        async with running("inspect", "--watch", *options, server) as page:
            url = await read_until(page.stdout, r'"url": "([^"]+)"')
            address = await read_until(page.stderr, r"point the client to (\S+)")
            async with (
                streamable_http_client(address) as streams,
                ClientSession(*streams[:2]) as theirs,
            ):
                await theirs.initialize()
                called = await theirs.call_tool("add", {"a": 1, "b": 2})
                assert called.content[0].text == "3"  # type: ignore[union-attr]
            async with connect(address) as ours:
                assert (await ours.call_tool("add", {"a": 2, "b": 2})).content[0].text == "4"
            _, breaches, rows = await shown(url, 8)
            assert breaches == {}
            assert rows.count(("client", "tools/call")) == 2
            conversations = (await ask(url, "log.rows", start=0, count=100, filter={}))["rows"]
            assert len({row["conversation"] for row in conversations}) == 2

    async def serve() -> None:
        file = str(ROOT / "examples" / "ten_lines.py")
        async with running("run", "--http", "--port", "0", file) as server:
            await play(await read_until(server.stderr, r"is served at (http\S+);"))

    asyncio.run(serve())
    assert len(list(tmp_path.iterdir())) == 2
