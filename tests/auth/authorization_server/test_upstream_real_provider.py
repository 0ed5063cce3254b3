"""Signing in with an OpenID provider that was not written here, in a process of its own."""

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from html import unescape
from urllib.parse import urlencode, urlsplit

import pytest

from accord import Context, Server, connect
from accord.auth import AuthorizationServer, MemoryStore, OAuth, Upstream
from accord.errors import FlowFailed
from support.http_server import bounded, free_port
from support.provider import Browser
from support.waiting import run, until_sync

pytestmark = pytest.mark.integration

ADA = {"sub": "ada", "name": "Ada", "email": "ada@example.com", "email_verified": True}


def fetch(url, token=None, data=None):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, data=data, headers=headers)
    with opener.open(request, timeout=30) as response:
        return response.read()


@contextmanager
def real_provider():
    """Run the provider; yield its URL."""
    port = free_port()
    command = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)]
    command += ["--require-nonce", "true", "--user-claims", json.dumps(ADA)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=os.environ | {"NO_COLOR": "1"}, **quiet)
    url = f"http://127.0.0.1:{port}"

    def is_up():
        assert process.poll() is None, "the provider does not start"
        try:
            return fetch(f"{url}/.well-known/openid-configuration")
        except OSError:
            return None

    try:
        until_sync(is_up)
        yield url
    finally:
        process.terminate()
        process.wait(30)


class Person(Browser):
    """A user that signs in at the page of the provider, and decides at ours."""

    def __init__(self, sub):
        super().__init__()
        self.sub = sub

    def allow(self, url):
        page = self.open(url)
        assert "/oauth2/authorize" in page.url, page.text
        kind = "application/x-www-form-urlencoded"
        back = self.send("POST", page.url, urlencode({"sub": self.sub}), content_type=kind)
        page = self.open(unescape(back.location))
        if "decision" not in page.text:
            raise FlowFailed("authorization", came=f"status {page.status}")
        assert "Ada (ada@example.com)" in page.text
        return self.submit(page, decision="allow").location


def desk(url):
    upstream = Upstream(
        issuer=url,
        name="company",
        client_id="desk",
        client_secret="a secret of the desk",
        allow=["@example.com"],
    )
    server = Server("desk", auth=AuthorizationServer(upstream=upstream, store=None))

    @server.tool
    async def profile(ctx: Context, renew: bool = False) -> dict[str, object]:
        """Ask the provider about the user."""
        account = ctx.principal.upstream
        token = await account.token()
        if renew:
            token = await account.token(refused=token)
        said = json.loads(fetch(f"{url}/userinfo", token))
        return {"subject": ctx.principal.subject, "said": said, "token": token}

    return server.asgi()


def test_a_tool_calls_the_api_of_the_provider_with_a_token_that_is_renewed():
    async def main(desk_url, provider_url):
        person = Person("ada")
        auth = OAuth(store=MemoryStore(), open_browser=person.allow, timeout=30.0)
        async with connect(f"{desk_url}/mcp", auth=auth) as client:

            async def profile(**given):
                result = await client.call_tool("profile", given)
                text = result.content[0].text
                return text if result.is_error else json.loads(text)

            first = await profile()
            assert first["subject"] == "company:ada"
            assert first["said"] == ADA
            second = await profile(renew=True)
            assert second["said"] == ADA
            assert second["token"] != first["token"]
            assert (await profile())["token"] == second["token"]
            # The provider takes everything back: the user is sent there again.
            fetch(f"{provider_url}/users/ada/revoke-tokens", data=b"")
            assert "sign in again" in await profile(renew=True)
            visits = len([each for each in person.visited if "/oauth2/authorize" in each])
            assert (await profile())["said"] == ADA
            again = len([each for each in person.visited if "/oauth2/authorize" in each])
            assert again > visits

    with real_provider() as url, bounded(desk(url)) as port:
        run(main(f"http://127.0.0.1:{port}", url))
        stranger = Person("eve")
        auth = OAuth(store=MemoryStore(), open_browser=stranger.allow, timeout=30.0)

        async def refused():
            async with connect(f"http://127.0.0.1:{port}/mcp", auth=auth) as client:
                await client.call_tool("profile")

        with pytest.raises(FlowFailed, match="status 403"):
            run(refused())
        assert urlsplit(stranger.visited[-1]).path == "/upstream/company/callback"
