"""Protected servers under test, without a person."""

import asyncio

import pytest

from accord import Context, Server
from accord.auth import AuthorizationServer
from accord.errors import FlowFailed
from accord.testing import connected, unattended


def protected(auth: AuthorizationServer) -> Server:
    server = Server("desk", auth=auth)

    @server.tool
    def whoami(ctx: Context) -> str:
        """Say who asks."""
        assert ctx.principal is not None
        return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

    return server


async def who(server: Server, **options) -> str:
    async with connected(server, transport="http", auth=unattended(**options)) as client:
        return await client.call_tool("whoami", result_type=str)


def test_a_protected_server_is_tested_without_a_person():
    server = protected(AuthorizationServer(auto_approve="ada", scopes=["read", "write"]))
    assert asyncio.run(who(server)) == "ada read write"
    assert asyncio.run(who(server, scopes=["read"])) == "ada read"


def test_a_page_for_a_person_fails_where_a_redirect_is_expected():
    server = protected(AuthorizationServer("ada", store=None))
    with pytest.raises(FlowFailed, match=r"a page for a user.*auto_approve"):
        asyncio.run(who(server))


def test_a_refusal_is_reported_with_its_status():
    auth = AuthorizationServer(auto_approve="ada", registration=False)
    with pytest.raises(FlowFailed, match="regist"):
        asyncio.run(who(protected(auth)))
