"""Signing in with a certified OpenID provider: discovery, PKCE, `iss`, userinfo, rotation."""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from re import findall
from typing import Any
from urllib.parse import urljoin

import aiohttp
import uvicorn
from desk import PATIENCE, listening
from sessions import NODE, PEERS

from accord import Context, Server, connect
from accord.auth import AuthorizationServer, MemoryStore, OAuth, Upstream

SCRIPT = str(PEERS / "openid_provider.js")


def free_port() -> int:
    bound, port = listening()
    bound.close()
    return port


@contextmanager
def openid_provider(redirect_uri: str) -> Iterator[str]:
    """Run the provider; yields its URL."""
    port = free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([NODE, SCRIPT, str(port), redirect_uri], **quiet)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


async def until_up(url: str) -> None:
    ends = time.monotonic() + PATIENCE
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"{url}/.well-known/openid-configuration"):
                    return
            except aiohttp.ClientError:
                assert time.monotonic() < ends, "the provider does not start"
                await asyncio.sleep(0.05)


class Person:
    """A user that fills in every form on the way, of the provider and of ours."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    async def allow(self, url: str) -> str:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            sent: dict[str, Any] = {"method": "GET", "url": url}
            for _ in range(30):
                async with session.request(**sent, allow_redirects=False) as answer:
                    text = await answer.text()
                if answer.status in (302, 303):
                    place = urljoin(str(answer.url), answer.headers["location"])
                    if "/callback?" in place and "/upstream/" not in place:
                        return place
                    sent = {"method": "GET", "url": place}
                    continue
                self.titles += findall(r"<title>(.*?)</title>", text)
                form = text.partition("<form")[2].partition("</form>")[0]
                assert form, text
                hidden = findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
                fields = {name: unescape(value) for name, value in hidden}
                fields |= {"login": "ada", "password": "x", "decision": "allow"}
                action = unescape(findall(r'action="([^"]*)"', form)[0])
                place = urljoin(str(answer.url), action)
                sent = {"method": "POST", "url": place, "data": fields}
        raise AssertionError(self.titles)


def desk(issuer: str) -> Server:
    upstream = Upstream(
        name="company",
        issuer=issuer,
        client_id="desk",
        client_secret="a secret of the desk, long enough",
        allow=["@example.com"],
    )
    server = Server("desk", auth=AuthorizationServer(upstream=upstream, store=None))

    @server.tool
    async def profile(ctx: Context[Any], renewals: int = 0) -> dict[str, Any]:
        """Ask the provider about the user."""
        assert ctx.principal is not None
        account = ctx.principal.upstream
        assert account is not None
        token = await account.token()
        for _ in range(renewals):
            token = await account.token(refused=token)
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{issuer}/me", headers=headers) as answer,
        ):
            said = await answer.json()
        return {"subject": ctx.principal.subject, "email": said["email"], "token": token}

    return server


async def ask(port: int, issuer: str) -> None:
    await until_up(issuer)
    config = uvicorn.Config(desk(issuer).asgi(), port=port, log_level="critical", ws="none")
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    person = Person()
    auth = OAuth(store=MemoryStore(), open_browser=person.allow, timeout=PATIENCE)
    try:
        while not running.started:
            await asyncio.sleep(0.02)
        async with connect(f"http://127.0.0.1:{port}/mcp", auth=auth) as client:
            first: Any = (await client.call_tool("profile")).structured_content
            assert (first["subject"], first["email"]) == ("company:ada", "ada@example.com")
            # Each refresh token is accepted once: two renewals need the rotated one.
            second: Any = (await client.call_tool("profile", {"renewals": 2})).structured_content
            assert second["email"] == "ada@example.com"
            assert second["token"] != first["token"]
        assert person.titles[-1].startswith("Allow ")
    finally:
        running.should_exit = True
        await task


def test_a_tool_calls_the_api_of_a_certified_provider() -> None:
    port = free_port()
    with openid_provider(f"http://127.0.0.1:{port}/upstream/company/callback") as issuer:
        asyncio.run(ask(port, issuer))
