"""The authorization of a server in the page of the inspector, in a real browser."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from browser import Chromium
from inspector_pages import InspectorPage, open_inspector

from accord.auth import MemoryStore, OAuth
from accord.client import ServerSpec
from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.web.serving import serve_inspection

TESTS = Path(__file__).parents[1] / "tests"
HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m"
LINKS = "[...document.querySelectorAll('main a')].map((each) => [each.href, each.rel])"
Look = Callable[[Callable[[Chromium], Awaitable[Any]]], Any]


@pytest.fixture
def look(in_browser: Any) -> Look:
    return in_browser


@asynccontextmanager
async def inspected_server(
    chromium: Chromium, *, width: int = 1280, auth: Any = None, **behaviour: Any
) -> AsyncIterator[tuple[Any, InspectorPage]]:
    """Run a protected server, and open its authorization in the page."""
    # The servers are those of the other tests.
    sys.path.insert(0, str(TESTS))
    try:
        from support.scripted_authorization import scripted
    finally:
        sys.path.remove(str(TESTS))
    async with scripted(**behaviour) as script:
        inspection = Inspection()
        inspection.add(ServerSpec(name="protected", url=script.url, auth=auth))
        async with serve_inspection(inspection) as url:
            page = await open_inspector(chromium, url, width=width)
            await page.page.run("location.hash = '#/t/0/authorization'")
            await page.sees("Next: Network")
            yield script, page


def test_a_person_obtains_a_token_by_the_keyboard_alone(look: Look) -> None:
    async def at(chromium: Chromium) -> None:
        async with inspected_server(chromium, prm={"scopes_supported": ["read"]}) as (script, page):
            await page.use("button", "Next: Network")
            await page.sees("Next: Request without a token")
            # The focus stays on the button: the next press makes the next step.
            await page.press("Enter")
            await page.sees("Next: Protected resource metadata")
            await page.use("button", "Run all")
            await page.sees("Open the sign-in page")
            await page.go_to("link", "Open the sign-in page.*")
            address = await page.page.run("return document.activeElement.href")
            rel = await page.page.run("return document.activeElement.rel")
            assert rel == "noopener noreferrer"
            signed_in = await chromium.open(address)
            assert "Authorization is complete" in await signed_in.text("h1")
            await page.sees("All steps are made")
            await page.use("button", "Redo from here")
            await page.sees("Next: Request without a token")
            text = await page.page.run("return document.documentElement.outerHTML")
            secrets = [
                *script.good,
                *script.refreshable,
                script.forms("/token")[0]["code_verifier"],
            ]
            assert [each for each in secrets if each in text] == []
            assert await page.troubles() == []
            assert await page.faults() == []

    look(at)


def test_a_connection_that_waits_for_a_sign_in_says_so_in_every_pane(look: Look) -> None:
    async def at(chromium: Chromium) -> None:
        auth = OAuth(store=MemoryStore())
        async with inspected_server(chromium, auth=auth) as (_, page):
            for pane in ("overview", "tools"):
                await page.page.run(f"location.hash = '#/t/0/{pane}'")
                await page.sees("the connection waits for it", where="main")
            await page.use("link", "Sign in")
            await page.go_to("link", "Open the address.*")
            address = await page.page.run("return document.activeElement.href")
            signed_in = await chromium.open(address)
            assert "Authorization is complete" in await signed_in.text("h1")
            await page.sees("\u2713 connected")
            await page.lacks("the connection waits for it")
            assert await page.troubles() == []

    look(at)


def test_a_server_that_wants_a_token_leads_to_the_steps(look: Look) -> None:
    async def at(chromium: Chromium) -> None:
        async with inspected_server(chromium) as (_, page):
            await page.page.run("location.hash = '#/t/0/overview'")
            await page.sees("The server wants a token", where="main")
            await page.use("link", "Authorization")
            await page.sees("Next: Network")

    look(at)


def test_hostile_metadata_becomes_text_and_never_a_link(look: Look) -> None:
    def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": HOSTILE, "error_description": HOSTILE}, status=400)

    async def at(chromium: Chromium) -> None:
        script_url = "javascript:document.title='taken'//"
        metadata = {"authorization_endpoint": script_url, "scopes_supported": [HOSTILE]}
        async with inspected_server(chromium, width=320, metadata=metadata) as (script, page):
            script.overrides["/register"] = refuse
            await page.use("button", "Run all")
            await page.sees("Try again: Endpoints and PKCE")
            await page.sees("is not an http(s) URL")
            script.metadata = {}
            await page.use("button", "Run all")
            await page.sees("Try again: Client registration")
            links = await page.page.run(f"return {LINKS}")
            assert all(href.startswith(("http:", "https:")) for href, _ in links)
            assert await page.page.run("return document.querySelector('main img')") is None
            assert "taken" not in await page.page.run("return document.title")
            assert await page.page.run("return document.documentElement.scrollWidth") <= 320
            assert await page.troubles() == []

    look(at)
