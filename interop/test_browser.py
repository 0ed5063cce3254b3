"""A page of another origin uses our server with the browser's own `fetch`, as far as it may."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from aiohttp import web
from browser import Page, browser

from accord import Context, Server

PATIENCE = 30.0
# What a page can learn of an answer: the status, a header, the text as it comes.
ASK = """
const ask = async (method, message, headers = {}) => {
  const answer = await fetch(URL, {
    method,
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: message && JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  let text = '';
  let parts = 0;
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (let part; reader && !(part = await reader.read()).done; parts += 1) text += part.value;
  const kind = answer.headers.get('Content-Type');
  const session = answer.headers.get('Mcp-Session-Id');
  return { status: answer.status, session, kind, text, parts };
};
const opening = {
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'page', version: '1' },
  },
};
"""
TALK = """
const opened = await ask('POST', opening);
const own = { 'Mcp-Session-Id': opened.session, 'MCP-Protocol-Version': '2025-06-18' };
const call = (id, name, args, meta = {}) =>
  ask('POST', { id, method: 'tools/call', params: { name, arguments: args, _meta: meta } }, own);
const ready = await ask('POST', { method: 'notifications/initialized' }, own);
const added = await call(2, 'add', { a: 1, b: 2 });
const counted = await call(3, 'count', { to: 3 }, { progressToken: 'p' });
const ended = await ask('DELETE', null, own);
const late = await call(4, 'add', { a: 1, b: 2 });
return { opened, ready, added, counted, ended, late };
"""
server = Server("browsed")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def count(ctx: Context[Any], to: int) -> str:
    """Count, telling how far it is."""
    for step in range(1, to + 1):
        ctx.progress(step, to)
        await asyncio.sleep(0.05)
    return f"counted to {to}"


def listening() -> tuple[socket.socket, int]:
    bound = socket.create_server(("127.0.0.1", 0))
    return bound, bound.getsockname()[1]


@contextmanager
def serving(**options: Any) -> Iterator[str]:
    """Serve over HTTP, in a thread; yields the URL."""
    bound, port = listening()
    config = uvicorn.Config(server.asgi(**options), log_level="critical", ws="none")
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, args=([bound],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        serving.should_exit = True
        thread.join(PATIENCE)


@asynccontextmanager
async def pages() -> AsyncIterator[int]:
    """Serve an empty page under every name; yields the port."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="<!doctype html><title>page</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    bound, port = listening()
    await web.SockSite(runner, bound).start()
    try:
        yield port
    finally:
        await runner.cleanup()


async def browsed(name: str, script: str, *, port: int, url: str) -> Any:
    """Run a script in a page of this name; URL stands for the server."""
    async with browser() as chromium:
        page: Page = await chromium.open(f"http://{name}:{port}/")
        return await page.run(f"const URL = {url!r}; {ASK} {script}")


def play(script: str, *, at: str = "page.test", **options: Any) -> Any:
    """Serve with these options, allow the origin of page.test, and run a script in a page."""

    async def playing() -> Any:
        async with pages() as port:
            with serving(allowed_origins=[f"http://page.test:{port}"], **options) as url:
                return await browsed(at, script, port=port, url=url)

    return asyncio.run(playing())


@pytest.mark.parametrize("answers", ["auto", "stream", "json"])
def test_a_page_of_an_allowed_origin_uses_the_server(answers: str) -> None:
    told = play(TALK, cors=True, answers=answers)
    assert told["opened"]["status"] == 200
    assert told["opened"]["session"]
    assert told["ready"]["status"] == 202
    assert '"structuredContent":{"result":3}' in told["added"]["text"]
    assert "counted to 3" in told["counted"]["text"]
    assert told["ended"]["status"] in (200, 204)
    assert told["late"]["status"] == 404


def test_a_page_reads_a_stream_while_it_grows() -> None:
    told = play(TALK, cors=True)
    assert told["added"]["kind"] == "application/json"
    assert told["counted"]["kind"].startswith("text/event-stream")
    assert told["counted"]["text"].count("notifications/progress") == 3
    assert told["counted"]["parts"] >= 3


def test_a_page_reads_why_it_was_refused() -> None:
    told = play("return ask('POST', { id: 1, method: 'tools/list' })", cors=True)
    assert told["status"] == 400
    assert "session" in told["text"].lower()


@pytest.mark.parametrize(
    ("at", "cors"),
    [("stranger.test", True), ("stranger.test", False), ("page.test", False)],
    ids=["stranger", "stranger-without-cors", "without-cors"],
)
def test_a_page_that_is_not_allowed_reads_nothing(at: str, cors: bool) -> None:  # noqa: FBT001
    script = "return ask('POST', opening).then(() => 'read', (error) => String(error))"
    assert play(script, at=at, cors=cors) == "TypeError: Failed to fetch"


def test_a_browser_shows_what_a_page_looks_like(tmp_path: Path) -> None:
    async def looking() -> None:
        page = "data:text/html,<h1>hello</h1><button onclick=\"this.innerText = 'pressed'\">press"
        async with browser() as chromium:
            shown = await chromium.open(page)
            assert await shown.text("h1") == "hello"
            await shown.click("button")
            assert await shown.text("button") == "pressed"
            await shown.screenshot(tmp_path / "page.png")

    asyncio.run(looking())
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
