"""Authorization with foreign parts: clients of others and our servers, a browser and our pages,
our client and a server of others.
"""

import asyncio
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import httpx2
import pytest
from aiohttp import web
from browser import Page, browser
from desk import PATIENCE, listening, serving
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from sessions import NODE, PEERS

from accord import connect
from accord.auth import AuthorizationServer, KnownClient, MemoryStore, OAuth

SCOPES = {"notes:read": "Read your notes", "notes:write": "Change your notes"}
EXAMPLE = Path(__file__).parent / (
    "node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js"
)


class Storage:
    """What the official SDK remembers."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


async def redirected(url: str) -> str:
    """Open a URL as a browser without a person; return where it is sent."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        return answer.headers["location"]


def official(url: str, storage: Storage, method: str) -> OAuthClientProvider:
    """The official Python SDK's way to a token, without a person."""
    asked: list[str] = []

    async def redirect(where: str) -> None:
        asked.append(where)

    async def returned() -> AuthorizationCodeResult:
        values = dict(parse_qsl(urlsplit(await redirected(asked[-1])).query))
        return AuthorizationCodeResult(**values)

    metadata = OAuthClientMetadata(
        client_name="mcp-python",
        redirect_uris=["http://127.0.0.1:9/callback"],
        token_endpoint_auth_method=method,
    )
    return OAuthClientProvider(url, metadata, storage, redirect, returned)


async def who(url: str, auth: Any) -> str:
    """Ask a server who one is, with the official Python SDK."""
    async with (
        httpx2.AsyncClient(auth=auth, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool("whoami", {})
        return str(result.content[0].text)


@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_the_official_python_client_obtains_a_token_and_refreshes_it(method: str) -> None:
    storage = Storage()

    async def asking(url: str) -> None:
        provider = official(url, storage, method)
        assert await who(url, provider) == "ada"
        first = storage.tokens
        # As if its time were over: it is refreshed before the user is asked.
        provider.context.token_expiry_time = 1.0
        assert await who(url, provider) == "ada"
        assert storage.tokens.refresh_token not in (None, first.refresh_token)

    with serving(AuthorizationServer(auto_approve="ada", scopes=SCOPES)) as url:
        asyncio.run(asking(url))


def test_the_official_python_client_acts_for_itself() -> None:
    machine = KnownClient(client_id="machine", secret="long secret")
    with serving(AuthorizationServer(store=None, clients=[machine])) as url:
        provider = ClientCredentialsOAuthProvider(
            url,
            Storage(),
            client_id="machine",
            client_secret="long secret",
            issuer=url.removesuffix("/mcp"),
        )
        assert asyncio.run(who(url, provider)) == "machine"


@pytest.mark.parametrize("generation", ["1", "2"])
@pytest.mark.parametrize("method", ["none", "client_secret_post", "client_secret_basic"])
def test_the_typescript_clients_obtain_a_token_and_refresh_it(generation: str, method: str) -> None:
    with serving(AuthorizationServer(auto_approve="ada", scopes=SCOPES)) as url:
        done = subprocess.run(
            [NODE, str(PEERS / "authorized_client.js"), generation, url],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**os.environ, "METHOD": method},
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "refused": True,
        "state": "some-state",
        "who": "ada",
        "again": "ada",
        "isRotated": True,
        "asked": 1,
    }


# -- our client


def test_our_client_uses_our_server() -> None:
    async def asking(url: str) -> str:
        auth = OAuth(store=MemoryStore(), open_browser=redirected)
        async with connect(url, auth=auth) as client:
            return (await client.call_tool("whoami")).text

    with serving(AuthorizationServer(auto_approve="ada", scopes=SCOPES)) as url:
        assert asyncio.run(asking(url)) == "ada"


@contextmanager
def typescript_example() -> Iterator[str]:
    """Run the protected example server of the TypeScript SDK; yields the URL."""
    ports = []
    for _ in range(2):
        bound, port = listening()
        bound.close()
        ports.append(port)
    env = {**os.environ, "MCP_PORT": str(ports[0]), "MCP_AUTH_PORT": str(ports[1])}
    silent = subprocess.DEVNULL
    command = [NODE, str(EXAMPLE), "--oauth"]
    process = subprocess.Popen(command, stdout=silent, stderr=silent, env=env)
    try:
        for port in ports:
            await_port(port)
        yield f"http://localhost:{ports[0]}/mcp"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def await_port(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"nothing listens on port {port}")


def test_our_client_uses_the_typescript_example_server() -> None:
    async def asking(url: str) -> str:
        auth = OAuth(store=MemoryStore(), open_browser=redirected)
        async with connect(url, auth=auth) as client:
            return (await client.call_tool("greet", {"name": "Ada"})).text

    with typescript_example() as url:
        assert "Ada" in asyncio.run(asking(url))


# -- a person at a browser


@asynccontextmanager
async def program() -> Any:
    """A program that waits for the browser to come back; yields its redirect URI."""

    async def came(request: web.Request) -> web.Response:
        return web.Response(text="<h1>back</h1>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/callback", came)
    runner = web.AppRunner(app)
    await runner.setup()
    bound, port = listening()
    await web.SockSite(runner, bound).start()
    try:
        yield f"http://127.0.0.1:{port}/callback"
    finally:
        await runner.cleanup()


async def request_of(url: str, returns_to: str, name: str = "Notes for <you>") -> str:
    """Register a program; return where it sends the browser."""
    base = url.removesuffix("/mcp")
    about = {
        "client_name": name,
        "redirect_uris": [returns_to],
        "token_endpoint_auth_method": "none",
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{base}/register", json=about) as answer,
    ):
        client = (await answer.json())["client_id"]
    asked = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": returns_to,
        "state": "s",
        "code_challenge": "c" * 43,
        "code_challenge_method": "S256",
        "resource": url,
    }
    return f"{base}/authorize?{urlencode(asked)}"


async def typed(page: Page, *texts: str) -> None:
    """Type as a person does, from field to field with the tab key, and press enter."""
    for number, text in enumerate(texts):
        if number:
            await pressed(page, "Tab")
        await page.send("Input.insertText", text=text)
    await pressed(page, "Enter")


async def pressed(page: Page, key: str) -> None:
    codes = {"Tab": (9, "\t"), "Enter": (13, "\r"), " ": (32, " ")}
    code, text = codes[key]
    common = {"key": key, "windowsVirtualKeyCode": code}
    await page.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
    await page.send("Input.dispatchKeyEvent", type="keyUp", **common)


async def logged_in(page: Page) -> None:
    await page.wait_for("document.activeElement.id === 'name'")
    await typed(page, "ada", "lovelace")
    await page.wait_for("document.querySelector('button[value=allow]') !== null")


def looked_at(deciding: Any) -> Any:
    """Let a person log in and decide; return what the program gets."""

    async def looking(url: str) -> dict[str, str]:
        async with program() as returns_to, browser() as chromium:
            page = await chromium.open(await request_of(url, returns_to))
            await logged_in(page)
            await deciding(page)
            await page.wait_for("document.querySelector('h1')?.innerText === 'back'")
            where = await page.run("return location.href")
            assert where.startswith(returns_to)
            return dict(parse_qsl(urlsplit(where).query))

    with serving(AuthorizationServer({"ada": "lovelace"}, store=None, scopes=SCOPES)) as url:
        return asyncio.run(looking(url))


def test_a_person_logs_in_reads_and_allows_in_a_browser() -> None:
    async def allowing(page: Page) -> None:
        text = await page.text("main")
        for told in (
            "Notes for <you>",
            "It is not verified",
            "Read your notes",
            "Change your notes",
            "a program on this computer",
            "/mcp",
            "You are ada",
        ):
            assert told in text
        await page.click("button[value=allow]")

    returned = looked_at(allowing)
    assert returned["code"]
    assert returned["state"] == "s"
    assert returned["iss"].startswith("http://127.0.0.1:")


def test_a_person_denies_with_the_keyboard_alone() -> None:
    async def denying(page: Page) -> None:
        await pressed(page, "Tab")
        assert await page.run("return document.activeElement.value") == "allow"
        await pressed(page, "Tab")
        assert await page.run("return document.activeElement.value") == "deny"
        await pressed(page, "Enter")

    returned = looked_at(denying)
    assert returned["error"] == "access_denied"
    assert "code" not in returned


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_on_a_phone(scheme: str, tmp_path: Path) -> None:
    async def looking(page: Page) -> None:
        await page.send(
            "Emulation.setDeviceMetricsOverride",
            width=320,
            height=640,
            deviceScaleFactor=2,
            mobile=True,
        )
        feature = [{"name": "prefers-color-scheme", "value": scheme}]
        await page.send("Emulation.setEmulatedMedia", features=feature)
        assert await page.run("return document.documentElement.scrollWidth <= innerWidth")
        light = await page.run(
            "const seen = (where, what) => getComputedStyle(document.querySelector(where))[what]"
            ".match(/[0-9.]+/g).slice(0, 3).map((part) => {"
            " const value = part / 255;"
            " return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; })"
            ".reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);"
            "return [['h1', 'main'], ['.soft', 'main'], ['.act', '.act']].map(([ink, ground]) =>"
            " [seen(ink, 'color'), seen(ground, 'backgroundColor')])"
        )
        for pair in light:
            low, high = sorted(pair)
            assert (high + 0.05) / (low + 0.05) >= 4.5
        low_button = await page.run(
            "return Math.min(...[...document.querySelectorAll('.buttons button')]"
            ".map((each) => each.getBoundingClientRect().height))"
        )
        assert low_button >= 44
        await page.screenshot(os.environ.get("ACCORD_SHOTS", str(tmp_path)) + f"/{scheme}.png")
        await page.click("button[value=allow]")

    assert looked_at(looking)["code"]


def test_no_other_page_can_show_ours_in_a_frame() -> None:
    async def looking(url: str) -> bool:
        async with program() as returns_to, browser() as chromium:
            where = await request_of(url, returns_to)
            page = await chromium.open(returns_to)
            script = (
                "const frame = document.createElement('iframe');"
                f"frame.src = {where!r};"
                "const loaded = new Promise((done) => { frame.onload = done; });"
                "document.body.append(frame); await loaded;"
                "try { return frame.contentDocument !== null } catch { return null }"
            )
            await page.run(script)
            tree = await page.send("Page.getFrameTree")
            shown = tree["frameTree"]["childFrames"][0]["frame"]
            return bool(shown.get("unreachableUrl"))

    with serving(AuthorizationServer(store=None)) as url:
        assert asyncio.run(looking(url))
