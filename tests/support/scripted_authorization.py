"""An authorization server and a protected MCP server on loopback that misbehave on demand.

One aiohttp application plays both; `Scripted` holds what they do and what they saw.
"""

import asyncio
import base64
import hashlib
import json
import secrets
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from support.waiting import LONG

REVISION = "2025-06-18"


@dataclass
class Scripted:
    """What the servers do; changed by tests before or while they run."""

    url: str = ""
    issuer: str = ""
    prm: dict[str, Any] | None = field(default_factory=dict)
    prm_paths: tuple[str, ...] = ("/.well-known/oauth-protected-resource/mcp",)
    metadata: dict[str, Any] | None = field(default_factory=dict)
    metadata_paths: tuple[str, ...] = ("/.well-known/oauth-authorization-server",)
    challenge: Callable[["Scripted"], str] | str | None = None
    redirect: dict[str, str | None] = field(default_factory=dict)
    registered: dict[str, Any] = field(default_factory=dict)
    token: dict[str, Any] = field(default_factory=dict)
    token_errors: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    rejects_resource: bool = False
    rotates: bool = True
    overrides: dict[str, Any] = field(default_factory=dict)
    is_open: bool = False
    scheme: str = "Bearer"

    seen: list[tuple[str, str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    good: dict[str, set[str]] = field(default_factory=dict)
    refreshable: dict[str, str] = field(default_factory=dict)
    reused: int = 0
    pending: int = 0

    def count(self, path: str) -> int:
        return Counter(path for _, path, _, _ in self.seen)[path]

    def forms(self, path: str) -> list[dict[str, Any]]:
        return [fields for _, each, fields, _ in self.seen if each == path]

    def heads(self, path: str) -> list[dict[str, str]]:
        return [head for _, each, _, head in self.seen if each == path]

    def grant(self, scope: str = "", **more: Any) -> dict[str, Any]:
        access, renewal = secrets.token_hex(8), secrets.token_hex(8)
        self.good[access] = set(scope.split())
        self.refreshable[renewal] = scope
        said = {"access_token": access, "token_type": "Bearer", "expires_in": 3600}
        said |= {"refresh_token": renewal, "scope": scope} | self.token | more
        return {key: value for key, value in said.items() if value is not None}

    def expire(self) -> None:
        """Take no token that was given until now."""
        self.good.clear()


def browse(url: str) -> None:
    """Visit a URL as a browser does whose user agrees."""
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=LONG).read()


@asynccontextmanager
async def scripted(**behaviour: Any) -> AsyncIterator[Scripted]:
    """Run the servers."""
    script = Scripted(**behaviour)
    app = web.Application()

    async def serve(request: web.Request) -> web.StreamResponse:
        return await _serve(script, request)

    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    script.issuer = script.issuer or f"http://127.0.0.1:{port}"
    script.url = f"http://127.0.0.1:{port}/mcp"
    try:
        yield script
    finally:
        await runner.cleanup()


async def _serve(script: Scripted, request: web.Request) -> web.StreamResponse:
    body = await request.read()
    kind = request.content_type
    fields: dict[str, Any] = dict(request.query)
    if kind == "application/x-www-form-urlencoded":
        fields |= dict(parse_qsl(body.decode()))
    elif kind == "application/json" and body:
        fields |= json.loads(body)
    script.seen.append((request.method, request.path, fields, dict(request.headers)))
    override = script.overrides.get(request.path)
    if override is not None:
        return (
            await override(request) if asyncio.iscoroutinefunction(override) else override(request)
        )
    root = script.url.removesuffix("/mcp")
    if request.path == "/mcp":
        return _mcp(script, request, fields)
    if request.path in script.prm_paths and script.prm is not None:
        usual = {"resource": script.url, "authorization_servers": [script.issuer]}
        return web.json_response(usual | script.prm)
    if request.path in script.metadata_paths and script.metadata is not None:
        return web.json_response(_metadata(script, root))
    name = request.path.rpartition("/")[2]
    serve = {"register": _register, "authorize": _authorize, "token": _token, "device": _device}
    return serve.get(name, _missing)(script, fields, request)


def _metadata(script: Scripted, root: str) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "issuer": script.issuer,
        "authorization_endpoint": f"{root}/authorize",
        "token_endpoint": f"{root}/token",
        "registration_endpoint": f"{root}/register",
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
    }
    found = usual | (script.metadata or {})
    return {key: value for key, value in found.items() if value is not None}


def _missing(script: Scripted, fields: dict[str, Any], request: web.Request) -> web.Response:
    return web.Response(status=404, text="nothing here")


def _register(script: Scripted, fields: dict[str, Any], request: web.Request) -> web.Response:
    id = f"client-{len(script.clients) + 1}"
    script.clients[id] = fields
    said = {"client_id": id, "redirect_uris": fields["redirect_uris"]} | script.registered
    return web.json_response(said, status=201)


def _authorize(script: Scripted, fields: dict[str, Any], request: web.Request) -> web.Response:
    if script.rejects_resource and "resource" in fields:
        answer: dict[str, str | None] = {"error": "invalid_target", "state": fields["state"]}
    else:
        code = secrets.token_hex(8)
        script.codes[code] = fields
        answer = {"code": code, "state": fields["state"]}
    answer |= script.redirect
    query = urlencode({key: value for key, value in answer.items() if value is not None})
    raise web.HTTPFound(f"{fields['redirect_uri']}?{query}")


def _device(script: Scripted, fields: dict[str, Any], request: web.Request) -> web.Response:
    script.codes["device-code"] = fields
    said = {"device_code": "device-code", "user_code": "ABCD-EFGH", "interval": 0.01}
    return web.json_response(said | {"verification_uri": f"{script.issuer}/enter"})


def _error(code: str, about: str = "", status: int = 400) -> web.Response:
    return web.json_response({"error": code, "error_description": about}, status=status)


def _token(script: Scripted, fields: dict[str, Any], request: web.Request) -> web.Response:
    if script.token_errors:
        status, said = script.token_errors.pop(0)
        return web.json_response(said, status=status)
    grant = fields.get("grant_type", "")
    if grant == "refresh_token":
        return _renew(script, fields)
    if grant == "client_credentials" or grant.endswith(":jwt-bearer"):
        return web.json_response(script.grant(fields.get("scope", ""), refresh_token=None))
    if grant.endswith("device_code"):
        script.pending -= 1
        if script.pending >= 0:
            return _error("authorization_pending")
        return web.json_response(script.grant(script.codes["device-code"].get("scope", "")))
    asked = script.codes.pop(fields.get("code", ""), None)
    if asked is None:
        return _error("invalid_grant", "no such code")
    digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if challenge != asked["code_challenge"] or fields["redirect_uri"] != asked["redirect_uri"]:
        return _error("invalid_grant", "not the one who asked")
    return web.json_response(script.grant(asked.get("scope", "")))


def _renew(script: Scripted, fields: dict[str, Any]) -> web.Response:
    scope = script.refreshable.get(fields["refresh_token"])
    if scope is None:
        script.reused += 1
        script.refreshable.clear()
        return _error("invalid_grant", "used before")
    if script.rotates:
        del script.refreshable[fields["refresh_token"]]
        return web.json_response(script.grant(scope))
    return web.json_response(script.grant(scope, refresh_token=None))


# -- the protected server


def _mcp(script: Scripted, request: web.Request, message: dict[str, Any]) -> web.Response:
    refusal = _refusal(script, request, message)
    if refusal is not None:
        return refusal
    if request.method != "POST":
        return web.Response(status=405)
    method, id = message.get("method"), message.get("id")
    if id is None:
        return web.Response(status=202)
    results: dict[Any, Any] = {
        "initialize": {
            "protocolVersion": REVISION,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
        },
        "tools/list": {"tools": []},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    said = {"jsonrpc": "2.0", "id": id, "result": results.get(method, {})}
    return web.json_response(said)


def _refusal(
    script: Scripted, request: web.Request, message: dict[str, Any]
) -> web.Response | None:
    if script.is_open:
        return None
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme != script.scheme or token not in script.good:
        return web.Response(status=401, headers=_challenged(script))
    needed = script.needed.get(message.get("method", request.method), "")
    if not set(needed.split()) <= script.good[token]:
        says = f'Bearer error="insufficient_scope", scope="{needed}"'
        return web.Response(status=403, headers={"WWW-Authenticate": says})
    return None


def _challenged(script: Scripted) -> dict[str, str]:
    challenge = script.challenge
    if callable(challenge):
        challenge = challenge(script)
    if challenge is None:
        root = script.url.removesuffix("/mcp")
        place = f"{root}/.well-known/oauth-protected-resource/mcp"
        challenge = f'Bearer resource_metadata="{place}"'
    return {"WWW-Authenticate": challenge} if challenge else {}
