"""Our client, our protected server and our authorization server, on real sockets."""

import asyncio
import time
import urllib.request

import msgspec
import pytest

from accord import Context, Server, connect
from accord.auth import AuthorizationServer, KnownClient, MemoryStore, OAuth
from accord.auth.tokens import TokenGrant
from accord.errors import FlowFailed
from support.http_server import bounded
from support.waiting import run


def desk(auth, **options):
    server = Server("desk", auth=auth)

    @server.tool(scopes=["read"])
    def whoami(ctx: Context) -> str:
        """Say who asks."""
        return ctx.principal.subject

    @server.tool(scopes=["write"])
    def change(ctx: Context) -> str:
        """Change something."""
        return "changed"

    return server.asgi(**options)


def visitor():
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor()
    )


def oauth(**more):
    def browse(url):
        visitor().open(url, timeout=10).read()

    return OAuth(**({"store": MemoryStore(), "open_browser": browse, "timeout": 10.0} | more))


def talking(auth, work, **options):
    with bounded(desk(auth, **options)) as port:
        run(work(f"http://127.0.0.1:{port}"))


def unattended(**more):
    return AuthorizationServer(auto_approve="ada", scopes=["read", "write"], **more)


def text_of(result):
    return result.content[0].text


@pytest.mark.requirement("auth.http.oauth-flow", "auth.oauth21.implementations")
def test_a_person_is_known_by_name():
    async def work(url):
        async with connect(f"{url}/mcp", auth=oauth(scopes=["read"])) as client:
            assert text_of(await client.call_tool("whoami")) == "ada"

    talking(unattended(), work)


def test_a_call_that_needs_more_leads_to_more_consent():
    async def work(url):
        auth = oauth(scopes=["read"])
        async with connect(f"{url}/mcp", auth=auth) as client:
            assert text_of(await client.call_tool("whoami")) == "ada"
            assert text_of(await client.call_tool("change")) == "changed"
            assert text_of(await client.call_tool("whoami")) == "ada"

    talking(unattended(), work)


def test_short_tokens_are_renewed_without_a_person():
    opened = []

    def browse(url):
        opened.append(url)
        visitor().open(url, timeout=10).read()

    async def work(url):
        auth = oauth(open_browser=browse)
        async with connect(f"{url}/mcp", auth=auth) as client:
            known = auth._servers[f"{url}/mcp"]
            for _ in range(3):
                assert isinstance(known.grant, TokenGrant)
                before = known.grant.access_token
                known.grant = _aged(known.grant)
                await auth._store.write(known.grant.key, _encoded(known.grant))
                assert text_of(await client.call_tool("whoami")) == "ada"
                assert known.grant.access_token != before
        assert len(opened) == 1

    talking(unattended(), work)


def _aged(grant):
    return msgspec.structs.replace(grant, expires_at=time.time() - 1)


def _encoded(grant):
    return msgspec.json.encode(grant).decode()


def test_a_program_acts_for_itself():
    async def work(url):
        robot = {"grant": "client_credentials", "client_id": "robot", "issuer": url}
        auth = oauth(**robot, client_secret="s" * 32)
        async with connect(f"{url}/mcp", auth=auth) as client:
            assert "robot" in text_of(await client.call_tool("whoami"))
        wrong = oauth(**robot, client_secret="wrong")
        with pytest.raises(FlowFailed, match="invalid_client"):
            await connect(f"{url}/mcp", auth=wrong)

    talking(unattended(clients=[KnownClient(client_id="robot", secret="s" * 32)]), work)


@pytest.mark.parametrize("transport", ["sse", None], ids=["chosen", "found"])
def test_the_older_form_has_metadata_of_its_own(transport):
    async def work(url):
        auth = oauth(scopes=["read"])
        async with connect(f"{url}/sse", auth=auth, transport=transport) as client:
            assert text_of(await client.call_tool("whoami")) == "ada"
            known = auth._servers[f"{url}/sse"]
            known.grant = _aged(known.grant)
            await auth._store.write(known.grant.key, _encoded(known.grant))
            assert text_of(await client.call_tool("whoami")) == "ada"

    talking(unattended(), work, sse=True)


def test_many_clients_share_one_authorization():
    async def work(url):
        auth = oauth()

        async def once():
            async with connect(f"{url}/mcp", auth=auth) as client:
                return text_of(await client.call_tool("whoami"))

        assert await asyncio.gather(*(once() for _ in range(8))) == ["ada"] * 8

    talking(unattended(), work)
