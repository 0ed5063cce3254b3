"""Our client and a server protected with the official Python SDK, which is its own authorization
server as well.
"""

import asyncio
import secrets
import socket
import threading
import time
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from accord import connect
from accord.auth import MemoryStore, OAuth
from accord.errors import Unauthorized

PATIENCE = 30.0
SCOPES = ["notes:read", "notes:write"]


class Provider:
    """Keeps everything in memory, and accepts every user; refresh tokens are good once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.renewals: dict[str, RefreshToken] = {}
        self.asked: list[AuthorizationParams] = []
        self.refreshed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        self.asked.append(params)
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=str(client.client_id),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._granted(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.renewals[refresh_token.token]
        self.refreshed += 1
        return self._granted(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.access.pop(token.token, None)

    def _granted(
        self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        access, renewal = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        known: dict[str, Any] = {"client_id": str(client.client_id), "scopes": scopes}
        self.access[access] = AccessToken(token=access, resource=resource, **known)
        self.renewals[renewal] = RefreshToken(token=renewal, resource=resource, **known)
        return OAuthToken(
            access_token=access, refresh_token=renewal, expires_in=3600, scope=" ".join(scopes)
        )


@contextmanager
def protected() -> Iterator[tuple[str, Provider]]:
    """Serve a protected server of the official SDK, in a thread; yields its URL."""
    bound = socket.create_server(("127.0.0.1", 0))
    root = f"http://127.0.0.1:{bound.getsockname()[1]}"
    provider = Provider()
    settings = AuthSettings.model_validate(
        {
            "issuer_url": root,
            "resource_server_url": f"{root}/mcp",
            "required_scopes": ["notes:read"],
            "validate_token_resource": True,
            "client_registration_options": ClientRegistrationOptions(
                enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES
            ),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = MCPServer("foreign", auth_server_provider=provider, auth=settings)
    server.tool(name="echo")(echo)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical", ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([bound],), daemon=True)
    thread.start()
    try:
        yield f"{root}/mcp", provider
    finally:
        running.should_exit = True
        thread.join(PATIENCE)


def echo(text: str) -> str:
    """Say it again."""
    return text


def agree(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(url, timeout=PATIENCE).read()


def oauth(**more: Any) -> OAuth:
    return OAuth(store=MemoryStore(), open_browser=agree, timeout=PATIENCE, **more)


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 2 * PATIENCE))


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_our_client_is_let_in_and_renews_what_it_got(revision: Any) -> None:
    async def work(url: str, provider: Provider) -> None:
        async with connect(url, revision=revision, auth=oauth()) as client:
            result = await client.call_tool("echo", {"text": "one"}, result_type=str)
            assert result == "one"
            assert [str(each.resource) for each in provider.asked] == [url]
            provider.access.clear()
            assert await client.call_tool("echo", {"text": "two"}, result_type=str) == "two"
            assert provider.refreshed >= 1
            assert len(provider.asked) == 1
            provider.access.clear()
            provider.renewals.clear()
            assert await client.call_tool("echo", {"text": "three"}, result_type=str) == "three"
            assert len(provider.asked) == 2
            assert len(provider.clients) == 1

    with protected() as (url, provider):
        run(work(url, provider))


def test_without_a_token_it_says_what_to_do() -> None:
    async def work(url: str) -> None:
        with pytest.raises(Unauthorized, match='auth="oauth"') as caught:
            await connect(url)
        assert "resource_metadata" in caught.value.challenge

    with protected() as (url, _):
        run(work(url))
