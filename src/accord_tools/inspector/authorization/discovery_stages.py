"""The steps up to the authorization server: network, challenge, metadata, endpoints."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.discovery import (
    UnreadableMetadata,
    find_authorization_server,
    find_resource_metadata,
)
from accord.errors import AccordError
from accord.http.client.guarded import HttpRequest, HttpResponse, NoResponse
from accord.http.rules.headers import media_type
from accord.http.rules.responses import bearer_challenge, explain, quote_url
from accord_tools.diagnosis.steps import (
    DoctorStep,
    OpeningExchange,
    check_tls,
    open_port,
    post_initialize,
    resolve_host,
    shown_reason,
)
from accord_tools.inspector.authorization.walk_context import CLIENT_NAME, WalkContext
from accord_tools.inspector.authorization.walk_step import (
    CHALLENGE_PARAMETERS,
    RESOURCE_MEMBERS,
    SERVER_MEMBERS,
    ShownExchange,
    StepFailed,
    WalkStep,
)

_NETWORK_SECONDS: Final = 10.0


async def check_network(context: WalkContext, step: WalkStep) -> None:
    """Resolve the host, connect, and look at the certificate."""
    parts = urlsplit(context.url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    step.asked = f"{host} port {port}"
    came: list[str] = []
    resolved, addresses = await resolve_host(host, port, _NETWORK_SECONDS)
    _take(resolved, step, came)
    _take(await open_port(addresses, port, _NETWORK_SECONDS), step, came)
    if is_secure:
        _take(await check_tls(host, port, _NETWORK_SECONDS), step, came)
    step.came = "; ".join(came)


def _take(found: DoctorStep, step: WalkStep, came: list[str]) -> None:
    if found.verdict == "failed":
        raise StepFailed(asked=found.asked, came=found.came, change=found.change)
    if found.verdict == "warning":
        step.warn(found.change)
    came.append(found.came)
    step.explain(found.name.upper(), found.came, found.asked)


async def ask_without_token(context: WalkContext, step: WalkStep) -> None:
    """Send `initialize` without a token, and read the challenge in the answer."""
    step.asked = f"POST {quote_url(context.url)} initialize, without a token"
    headers = {
        name: value for name, value in context.headers.items() if name.lower() != "authorization"
    }
    try:
        async with asyncio.timeout(_NETWORK_SECONDS):
            answer = await post_initialize(context.url, headers, client=CLIENT_NAME)
    except (OSError, TimeoutError, ValueError, AccordError) as error:
        change = "check the URL: this may not be an HTTP server"
        raise StepFailed(came=shown_reason(error), change=change) from None
    step.exchanges.append(_describe_exchange(context, answer))
    kind = media_type(answer.headers.get("Content-Type"))
    if answer.status < 300:
        context.is_open = True
        step.came = f"HTTP {answer.status} {kind}: open to every caller".replace(" :", ":")
        return
    context.is_open = False
    if answer.status != 401:
        step.judge("auth.server.401-when-required", is_kept=False)
        raise StepFailed(
            came=explain(answer.status, kind, answer.body),
            change="a protected server answers 401; any other status does not begin authorization: "
            "check the URL (servers often use /mcp), and the log of the server",
        )
    step.judge("auth.server.401-when-required", is_kept=True)
    _read_challenge(context, step, answer.headers.getall("WWW-Authenticate", []))


def _describe_exchange(context: WalkContext, answer: OpeningExchange) -> ShownExchange:
    request = HttpRequest(
        method="POST", url=context.url, headers=answer.sent_headers, body=answer.sent_body
    )
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    response = HttpResponse(status=answer.status, headers=headers, body=answer.body)
    private = frozenset(name.lower() for name in context.headers)
    return ShownExchange(
        context.secrets.request_text(request, private), context.secrets.response_text(response)
    )


def _read_challenge(context: WalkContext, step: WalkStep, values: list[str]) -> None:
    step.judge("auth.challenge.www-authenticate", is_kept=bool(values))
    context.challenge = bearer_challenge(values)
    if context.challenge is None:
        step.came = f"HTTP 401, WWW-Authenticate: {values[0][:200] if values else 'absent'}"
        step.warn('send WWW-Authenticate: Bearer resource_metadata="..."')
        return
    params = context.challenge.params
    step.came = f"HTTP 401 with a challenge: {', '.join(params) or 'no parameters'}"
    for name, value in params.items():
        meaning = CHALLENGE_PARAMETERS.get(name, "clients do not use it")
        step.explain(name, value[:400], meaning)
    step.judge("auth.scope.challenge-has-scope", is_kept=bool(context.challenge.scopes))
    if context.challenge.resource_metadata is None:
        step.warn("name the metadata of the resource in resource_metadata")
    else:
        step.judge("auth.prm.one-mechanism", is_kept=True)


async def find_resource(context: WalkContext, step: WalkStep) -> None:
    """Find the metadata of the protected resource."""
    named = None if context.challenge is None else context.challenge.resource_metadata
    step.asked = f"the metadata of {context.resource_uri}"
    try:
        found = await context.send(find_resource_metadata(context.url, named=named), step)
    except UnreadableMetadata as error:
        # Clients go on without metadata that the server did not announce.
        step.asked, step.came = error.asked, error.came
        step.judge("auth.prm.server", is_kept=False)
        return step.warn(error.hint)
    finally:
        step.judge("auth.discovery.protocol-version-header", is_kept=True)
    step.judge("auth.prm.server", is_kept=found is not None)
    context.resource = found
    if found is None:
        step.came = f"none at {len(step.exchanges)} places"
        return step.warn("publish it (RFC 9728); clients fall back to the rules of 2025-03-26")
    said = msgspec.to_builtins(found)
    context.explain_members(step, {**said, "url": found.url}, RESOURCE_MEMBERS)
    step.judge("auth.prm.lists-as", is_kept=bool(found.authorization_servers))
    if not found.authorization_servers:
        raise StepFailed(
            asked=f"GET {quote_url(found.url)}",
            came="metadata without authorization servers",
            change="name at least one in authorization_servers",
        )
    if "offline_access" in (found.scopes_supported or ()):
        step.judge("auth.refresh.server-no-offline-access", is_kept=False)
        step.warn("leave offline_access out of scopes_supported of the resource")
    step.came = f"{quote_url(found.url)}: protected by {', '.join(found.authorization_servers)}"
    return None


async def find_server(context: WalkContext, step: WalkStep) -> None:
    """Find the metadata of the authorization server, and make sure that it may be trusted."""
    settings = context.settings
    offered = () if context.resource is None else context.resource.authorization_servers
    step.asked = (
        f"the metadata of {offered[0]}" if offered else f"metadata at {quote_url(context.url)}"
    )
    preferred = [settings.issuer] if settings.issuer else []
    flow = find_authorization_server(context.url, context.resource, preferred=preferred)
    server = await context.send(flow, step)
    settings.check_issuer(server)
    await settings.check_binding(context.url, server)
    context.server = server
    if server.is_assumed:
        step.came = f"no metadata; default paths such as {server.token_endpoint}"
        step.judge("auth.as.discovery-either", is_kept=False)
        return step.warn("publish authorization server metadata (RFC 8414)")
    step.judge("auth.as.discovery-either", is_kept=True)
    step.judge("auth.asm.issuer-identical", is_kept=True)
    step.judge("auth.iss.record-issuer", is_kept=True)
    step.came = f"{quote_url(server.url)}: issuer {server.issuer}"
    if len(offered) > 1:
        step.explain("authorization_servers", ", ".join(offered), "the first is used")
    step.explain("issuer", server.issuer, SERVER_MEMBERS["issuer"])
    return None


async def check_endpoints(context: WalkContext, step: WalkStep) -> None:
    """Make sure that the endpoints may be used and that PKCE is supported."""
    server = context.server
    assert server is not None
    step.asked = quote_url(server.url) if server.url else server.issuer
    said = {
        name: value
        for name, value in msgspec.to_builtins(server).items()
        if value is not None and name != "issuer"
    }
    context.explain_members(step, said, SERVER_MEMBERS)
    needed = {"token_endpoint": server.token_endpoint}
    if context.uses_code:
        needed = {"authorization_endpoint": server.authorization_endpoint, **needed}
    for name, endpoint in needed.items():
        _check_endpoint(context, step, name, endpoint)
    if all(urlsplit(each or "").scheme == "https" for each in needed.values()):
        # Plain HTTP on loopback is let pass: it is how people develop.
        step.judge("auth.https.endpoints", is_kept=True)
    methods = server.code_challenge_methods_supported
    if context.uses_code:
        step.judge("auth.pkce.verify-support", is_kept=True)
    if context.uses_code and server.refuses_pkce:
        shown = ", ".join(methods or ()) or "an empty list"
        raise StepFailed(
            came=f"code_challenge_methods_supported without S256: {shown}",
            change="the authorization server has to support PKCE with S256",
        )
    if context.uses_code and server.omits_pkce:
        if context.settings.pkce != "assume":
            raise StepFailed(
                came="metadata without code_challenge_methods_supported",
                change="it has to name S256; if you know that the authorization server checks "
                "PKCE all the same, pass OAuth(pkce='assume')",
            )
        step.warn("publish code_challenge_methods_supported: some clients refuse to go on")
    pkce = ", ".join(methods) if methods else "not stated"
    step.came = f"endpoints usable, PKCE: {pkce}"


def _check_endpoint(context: WalkContext, step: WalkStep, name: str, endpoint: str | None) -> None:
    if endpoint is None:
        raise StepFailed(came=f"metadata without {name}", change=f"publish {name} in the metadata")
    try:
        context.policy.check_url(endpoint)
    except NoResponse as error:
        step.judge("auth.https.endpoints", is_kept=False)
        raise StepFailed(
            came=f"{name} must not be used: {error.reason}",
            change=error.hint or f"serve {name} over https",
        ) from None
