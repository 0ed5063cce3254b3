"""`accord inspect` in Chromium with a server that means harm, and with pages of other origins."""

import json
import sys
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import quote, urlsplit

import pytest
from inspector_pages import InspectorPage, inspected, open_inspector

COMMAND: Final = ("--", sys.executable, "-I", "-S", "tests/inspector/hostile_server.py")
PANES: Final = (
    "overview",
    "tools",
    "resources",
    "prompts",
    "tasks",
    "questions",
    "roots",
    "notifications",
    "raw",
    "check",
    "authorization",
    "history",
    "exports",
)
TOOLS: Final = ("text", "svg", "links", "error")
SCHEMAS: Final = ("schema hostile", "schema deep", "schema wide", "schema bomb", "__proto__")
# Dialogs are noted, and actions are asked for in place of clicks where a click is not the point.
PREPARE: Final = """
window.alert = window.confirm = window.prompt = window.open = () => troubles.push('a dialog');
window.ask = async (name, params) => {
  const key = { 'X-Accord-Key': sessionStorage['accord-key'] };
  const headers = { ...key, 'Content-Type': 'application/json' };
  const body = JSON.stringify({ target: 0, ...params });
  return (await fetch('/api/' + name, { method: 'POST', headers, body })).json();
};
"""
# What must not be in the page: hidden characters, active elements, addresses that are scripts.
SCAN: Final = r"""
const hidden = new RegExp('[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad' +
  '\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]|[\\u{e0000}-\\u{e007f}]', 'u');
const found = [];
const walk = document.createTreeWalker(document.body, 5);
while (walk.nextNode()) {
  const node = walk.currentNode;
  if (node.nodeType === Node.TEXT_NODE) {
    if (hidden.test(node.data)) found.push('text ' + node.data.slice(0, 80));
    continue;
  }
  for (const { name, value } of node.attributes) {
    if (hidden.test(value)) found.push(`${name} of ${node.tagName}: ${value.slice(0, 80)}`);
    if (name.startsWith('on')) found.push(`${name} of ${node.tagName}`);
    if (/^(href|src|action|data)$/.test(name) && !/^([#/.]|blob:|https?:)/.test(value)) {
      found.push(`${name} of ${node.tagName}: ${value.slice(0, 80)}`);
    }
  }
  if (/^(script|iframe|object|embed|base|meta|svg|style)$/i.test(node.tagName)) {
    found.push(node.tagName);
  }
}
return found;
"""
Look = Callable[..., Any]
pytestmark = pytest.mark.xdist_group("inspect")


@pytest.fixture
def look(in_browser: Any) -> Look:
    """One browser for all tests: opens the hostile server there and does something."""

    async def do(chromium: Any, at: Callable[..., Awaitable[Any]], *ways: str) -> None:
        async with inspected(["--no-history", *COMMAND, *ways]) as url:
            page = await open_inspector(chromium, url)
            await page.sees("connected")
            await page.page.run(PREPARE)
            title = await page.page.run("return document.title.split(' - ').slice(1).join()")
            await at(page, chromium, url)
            assert title == await page.page.run(
                "return document.title.split(' - ').slice(1).join()"
            )
            assert await page.page.run("return location.host") == urlsplit(url).netloc
            assert await page.page.run("return ({}).polluted") is None
            assert await page.troubles() == []

    return lambda *args: in_browser(lambda chromium: do(chromium, *args))


async def go(page: InspectorPage, pane: str, name: str = "", shows: str = "") -> None:
    """Open a pane, wait until it is drawn, and look for what must not be there."""
    place = f"#/t/0/{pane}" + (f"/{quote(name, safe='')}" if name else "")
    await page.page.run(f"location.hash = {place!r}")
    await page.until("document.querySelector('main h1') !== null")
    if shows or name:
        await page.sees(shows or name, where="main")
    assert await page.page.run(SCAN) == [], place


async def run_tool(page: InspectorPage, name: str) -> None:
    """Run a tool, and look at each part of its result."""
    await go(page, "tools", name)
    button = "[...document.querySelectorAll('main button')].find(b => /^Run/.test(b.innerText))"
    await page.until(f"Boolean({button})")
    await page.page.run(f"{button}.click()")
    await page.until("document.querySelector('main .result, main [role=alert]') !== null")
    tabs = "document.querySelectorAll('main .result [role=tab]')"
    for index in range(await page.page.run(f"return {tabs}.length")):
        await page.page.run(f"{tabs}[{index}].click(); await new Promise(requestAnimationFrame)")
        assert await page.page.run(SCAN) == [], (name, index)


def test_texts_of_a_hostile_server_stay_texts(look: Look) -> None:
    async def at(page: InspectorPage, *_: Any) -> None:
        # A sound that cannot be played is an error of its element, not of the page.
        await page.page.run(
            "addEventListener('error', (e) => e.target !== window && troubles.pop(), true)"
        )
        for name in TOOLS:
            await run_tool(page, name)
        for name in ("progress", "ask"):
            await page.page.run(f"await ask('calls.tool', {{ name: {name!r}, confirmed: true }})")
        for name in SCHEMAS:
            await go(page, "tools", name)
        await go(page, "resources", "javascript:alert(document.domain)//")
        await go(page, "prompts", "prompt")
        await go(page, "questions", shows="The server asks")
        for pane in PANES:
            await go(page, pane)

    look(at)


async def flood(page: InspectorPage, count: int) -> None:
    """Have the server send notifications; the page answers in between."""
    arguments = json.dumps(json.dumps({"count": count}))
    started = f"ask('calls.tool', {{ name: 'flood', arguments: {arguments}, confirmed: true }})"
    await page.page.run(f"window.flood = (await {started}).id")
    panes = ("notifications", "tools", "overview")
    for turn in range(100):
        await go(page, panes[turn % 3])
        if await page.page.run("return (await ask('calls.get', { id: flood })).state") == "done":
            break
    await page.until("/[1-9][\\d,]{3,} messages/.test(document.body.innerText)")


def test_the_page_goes_on_while_notifications_pour_in(look: Look) -> None:
    async def at(page: InspectorPage, *_: Any) -> None:
        await page.page.run("location.hash = '#/t/0/tools/flood'")
        await flood(page, 5_000)

    look(at)


@pytest.mark.thorough
def test_the_page_goes_on_in_a_long_flood(look: Look) -> None:
    async def at(page: InspectorPage, *_: Any) -> None:
        await flood(page, 100_000)

    look(at)


@pytest.mark.thorough
def test_ten_thousand_tools_are_listed(look: Look) -> None:
    async def at(page: InspectorPage, *_: Any) -> None:
        await go(page, "tools", shows="tool 17")

    look(at, "many")


# -- pages of other origins

FOREIGN: Final = """<!doctype html><title>foreign</title><script>
window.tried = (async () => {
  const got = {};
  const url = URL_OF_THE_PAGE;
  const attempt = async (name, work) => {
    try { got[name] = await work(); } catch (error) { got[name] = 'blocked'; }
  };
  const json = { 'Content-Type': 'application/json', 'X-Accord-Key': KEY };
  await attempt('read', async () => (await fetch(url)).text());
  await attempt('feed', async () => (await fetch(url + 'feed', { headers: json })).text());
  await attempt('action', async () =>
    (await fetch(url + 'api/app.state', { method: 'POST', headers: json, body: '{}' })).text());
  await attempt('module', async () => Object.keys(await import(url + 'api.js')).join());
  await attempt('script', () => new Promise((done) => {
    const script = document.createElement('script');
    script.src = url + 'preact.js';
    script.onload = () => done('loaded');
    script.onerror = () => done('blocked');
    document.head.append(script);
  }));
  await attempt('frame', () => new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.src = url;
    frame.onload = () => {
      try { done(frame.contentDocument.title); } catch { done('blocked'); }
    };
    document.body.append(frame);
  }));
  return got;
})();
</script><body></body>"""


def test_pages_of_other_origins_read_nothing_even_with_the_key(look: Look) -> None:
    async def at(page: InspectorPage, chromium: Any, url: str) -> None:
        port, key = urlsplit(url).port, urlsplit(url).fragment.removeprefix("key=")
        for host in ("127.0.0.1", "localhost", "evil.test"):
            source = FOREIGN.replace("URL_OF_THE_PAGE", json.dumps(f"http://{host}:{port}/"))
            with ForeignSite(source.replace("KEY", json.dumps(key))) as own:
                for name in ("127.0.0.1", "evil.test"):
                    foreign = await chromium.open(f"http://{name}:{own}/")
                    got = await foreign.run("return await tried")
                    assert set(got.values()) == {"blocked"}, (host, name, got)

    look(at)


class ForeignSite:
    """Serves one page on another port."""

    def __init__(self, source: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(source.encode())

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> int:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_port)

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
