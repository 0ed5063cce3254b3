"""The stages up to the authorization server: network, challenge, metadata, endpoints.

`accord doctor` prints their steps, the page of the inspector draws the stages.
"""

import asyncio
import contextlib
import re
from typing import Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.discovery import (
    ResourceMetadata,
    ServerMetadata,
    UnreadableMetadata,
    discover,
    find_authorization_server,
    find_resource_metadata,
)
from accord.errors import AccordError, FlowFailed
from accord.http.client.guarded import HttpRequest, HttpResponse, NoResponse
from accord.http.rules.headers import ACCEPT_BOTH, media_type
from accord.http.rules.responses import bearer_challenge, explain, quote_url
from accord.protocol.revisions import HANDSHAKE, REVISIONS, in_order
from accord_tools.diagnosis.facts import AuthorizationFacts
from accord_tools.diagnosis.stages import (
    CHALLENGE_PARAMETERS,
    RESOURCE_MEMBERS,
    SERVER_MEMBERS,
    ShownExchange,
    Stage,
    StageFailed,
)
from accord_tools.diagnosis.steps import (
    DiagnosisStep,
    OpeningExchange,
    check_tls,
    open_port,
    post_initialize,
    resolve_host,
    shown_reason,
)

_REVISION: Final = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_NEWEST: Final = [*HANDSHAKE][-1]


async def check_network(facts: AuthorizationFacts, stage: Stage) -> None:
    """Resolve the host, connect, and look at the certificate."""
    parts = urlsplit(facts.url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    stage.asked = f"{host} port {port}"
    resolved, addresses = await resolve_host(host, port, facts.seconds)
    _take(resolved, stage)
    _take(await open_port(addresses, port, facts.seconds), stage)
    if is_secure:
        _take(await check_tls(host, port, facts.seconds), stage)


def _take(step: DiagnosisStep, stage: Stage) -> None:
    if step.verdict == "failed":
        stage.stop(step.name, asked=step.asked, came=step.came, change=step.change)
    stage.take(step)
    stage.explain(step.name.upper(), step.came, step.asked)


async def ask_without_token(facts: AuthorizationFacts, stage: Stage) -> None:
    """Send `initialize` without a token, and read the challenge in the answer."""
    asked = stage.asked = f"POST {quote_url(facts.url)} initialize, without a token"
    headers = {
        name: value for name, value in facts.headers.items() if name.lower() != "authorization"
    }
    try:
        async with asyncio.timeout(facts.seconds):
            answer = await post_initialize(facts.url, headers, client=facts.client_name)
    except (OSError, TimeoutError, ValueError, AccordError) as error:
        change = "check the URL: this may not be an HTTP server"
        stage.stop("http", asked=asked, came=shown_reason(error), change=change)
    stage.exchanges.append(_describe_exchange(facts, answer))
    status, kind = answer.status, media_type(answer.headers.get("Content-Type"))
    facts.status = status
    if status == 401:
        stage.judge("auth.server.401-when-required", is_kept=True)
        stage.add("http", "ok", asked=asked, came="HTTP 401: protected")
        await _read_challenge(facts, stage, answer.headers.getall("WWW-Authenticate", []))
    elif status >= 300:
        stage.judge("auth.server.401-when-required", is_kept=False)
        await _explain_refusal(facts, stage, answer, explain(status, kind, answer.body))
    elif kind in ACCEPT_BOTH.split(", "):
        stage.add("http", "ok", asked=asked, came=f"HTTP {status} {kind}: open to every caller")
    else:
        change = "check the URL: MCP servers often end in /mcp"
        came = f"HTTP {status} {kind}".strip()
        stage.add("http", "warning", asked=asked, came=came, change=change)


async def _explain_refusal(
    facts: AuthorizationFacts, stage: Stage, answer: OpeningExchange, came: str
) -> None:
    status, spoken = answer.status, _named_revisions(answer.body)
    newer = [each for each in spoken if each in REVISIONS and each not in HANDSHAKE]
    if newer:
        came = f"HTTP {status}: no handshake, the server speaks {', '.join(newer)}"
        stage.add("http", "ok", asked=stage.asked, came=came)
    elif status in (404, 405) and await facts.is_older_form(
        facts.url, facts.headers, facts.seconds
    ):
        came = f"HTTP {status} to POST, events to GET: HTTP with SSE, the older form"
        stage.add("http", "ok", asked=stage.asked, came=came)
    elif status in (404, 405):
        change = "check the path; servers often use /mcp"
        stage.add("http", "warning", asked=stage.asked, came=came, change=change)
    elif status < 400:
        place = quote_url(answer.headers.get("Location", ""), facts.url)
        change = f"use the URL that it redirects to, {place}"
        stage.add("http", "warning", asked=stage.asked, came=came, change=change)
    else:
        change = "see the log of the server"
        if spoken:
            change = (
                f"the server names {', '.join(spoken)}; accord speaks {', '.join(REVISIONS)}: let "
                "the server speak one of these, or use a client for the revision that it names"
            )
        stage.add("http", "failed", asked=stage.asked, came=came, change=change)


class _ErrorResponse(msgspec.Struct):
    """The body of a refusal that is a JSON-RPC error."""

    error: dict[str, object]


def _named_revisions(body: bytes) -> list[str]:
    """Return the revisions that the error in a body names, besides the one asked for."""
    named: set[str] = set()
    with contextlib.suppress(ValueError, RecursionError):
        named = {*_REVISION.findall(str(msgspec.json.decode(body, type=_ErrorResponse).error))}
    return in_order(named - {_NEWEST})


def _describe_exchange(facts: AuthorizationFacts, answer: OpeningExchange) -> ShownExchange:
    request = HttpRequest(
        method="POST", url=facts.url, headers=answer.sent_headers, body=answer.sent_body
    )
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    response = HttpResponse(status=answer.status, headers=headers, body=answer.body)
    private = frozenset(name.lower() for name in facts.headers)
    return ShownExchange(
        facts.secrets.request_text(request, private), facts.secrets.response_text(response)
    )


async def find_obstacles(facts: AuthorizationFacts) -> list[DiagnosisStep]:
    """Take the first steps to a server; return those that are not ok."""
    found: list[DiagnosisStep] = []

    def keep(step: DiagnosisStep) -> None:
        if step.verdict in ("warning", "failed"):
            found.append(step)

    with contextlib.suppress(StageFailed):
        await check_network(facts, Stage("network", report=keep))
        await ask_without_token(facts, Stage("challenge", report=keep))
    return found


async def _read_challenge(facts: AuthorizationFacts, stage: Stage, values: list[str]) -> None:
    stage.judge("auth.challenge.www-authenticate", is_kept=bool(values))
    asked = "WWW-Authenticate of that answer"
    challenge = facts.challenge = bearer_challenge(values)
    if challenge is None:
        came = f"WWW-Authenticate: {values[0][:200] if values else 'absent'}"
        change = 'send WWW-Authenticate: Bearer resource_metadata="..."'
        return stage.add("challenge", "warning", asked=asked, came=came, change=change)
    for name, value in challenge.params.items():
        stage.explain(name, value[:400], CHALLENGE_PARAMETERS.get(name, "clients do not use it"))
    came = ", ".join(f"{name}={value[:100]}" for name, value in challenge.params.items())
    came = came or "Bearer"
    stage.judge("auth.scope.challenge-has-scope", is_kept=bool(challenge.scopes))
    if challenge.resource_metadata is not None:
        stage.judge("auth.prm.one-mechanism", is_kept=True)
    elif not await _has_fixed_tokens(facts):
        change = "name the metadata of the resource in resource_metadata"
        return stage.add("challenge", "warning", asked=asked, came=came, change=change)
    return stage.add("challenge", "ok", asked=asked, came=came)


async def _has_fixed_tokens(facts: AuthorizationFacts) -> bool:
    """Find out whether nothing says how to obtain a token, and none is to be obtained."""
    if facts.obtains_token:
        return False
    try:
        found = await facts.send(discover(facts.url))
    except FlowFailed:
        return False
    facts.has_fixed_tokens = found.server.is_assumed
    return facts.has_fixed_tokens


async def find_resource(facts: AuthorizationFacts, stage: Stage) -> None:
    """Find the metadata of the protected resource."""
    name, named = "resource metadata", None
    if facts.challenge is not None:
        named = facts.challenge.resource_metadata
    asked = stage.asked = f"the metadata of {facts.resource_uri}"
    try:
        found = await facts.send(find_resource_metadata(facts.url, named=named), stage)
    except UnreadableMetadata as error:
        # Clients go on without metadata that the server did not announce.
        facts.unreadable, stage.asked = error, error.asked
        stage.judge("auth.prm.server", is_kept=False)
        return stage.add(name, "warning", asked=error.asked, came=error.came, change=error.hint)
    except FlowFailed as error:
        stage.stop(name, asked=error.asked, came=error.came, change=error.hint)
    finally:
        stage.judge("auth.discovery.protocol-version-header", is_kept=True)
    stage.judge("auth.prm.server", is_kept=found is not None)
    facts.resource = found
    if found is None:
        came = f"none at {len(stage.exchanges)} places"
        change = "publish it (RFC 9728); clients fall back to the rules of 2025-03-26"
        return stage.add(name, "warning", asked=asked, came=came, change=change)
    return _judge_resource(facts, stage, found)


def _judge_resource(facts: AuthorizationFacts, stage: Stage, found: ResourceMetadata) -> None:
    name, asked = "resource metadata", f"GET {quote_url(found.url)}"
    said = msgspec.to_builtins(found)
    facts.explain_members(stage, {**said, "url": found.url}, RESOURCE_MEMBERS)
    stage.judge("auth.prm.lists-as", is_kept=bool(found.authorization_servers))
    if not found.authorization_servers:
        came = "metadata without authorization servers"
        change = "name at least one in authorization_servers"
        stage.stop(name, asked=asked, came=came, change=change)
    came = f"{found.resource}, protected by {', '.join(found.authorization_servers)}"
    if "offline_access" in (found.scopes_supported or ()):
        stage.judge("auth.refresh.server-no-offline-access", is_kept=False)
        change = "leave offline_access out of scopes_supported of the resource"
        return stage.add(name, "warning", asked=asked, came=came, change=change)
    return stage.add(name, "ok", asked=asked, came=came)


async def find_server(facts: AuthorizationFacts, stage: Stage) -> None:
    """Find the metadata of the authorization server, and make sure that it may be trusted."""
    name, settings = "authorization server", facts.settings
    offered = () if facts.resource is None else facts.resource.authorization_servers
    stage.asked = f"the metadata of {offered[0] if offered else quote_url(facts.url)}"
    preferred = [settings.issuer] if settings.issuer else []
    flow = find_authorization_server(facts.url, facts.resource, preferred=preferred)
    try:
        server = await facts.send(flow, stage)
        if facts.unreadable is not None and server.is_assumed:
            raise facts.unreadable
        settings.check_issuer(server)
        await settings.check_binding(facts.url, server)
    except FlowFailed as error:
        stage.stop(name, asked=error.asked, came=error.came, change=error.hint)
    facts.server = server
    stage.judge("auth.as.discovery-either", is_kept=not server.is_assumed)
    if server.is_assumed:
        came = f"no metadata; default paths such as {server.token_endpoint}"
        change = "publish authorization server metadata (RFC 8414)"
        return stage.add(name, "warning", asked=server.issuer, came=came, change=change)
    stage.judge("auth.asm.issuer-identical", is_kept=True)
    stage.judge("auth.iss.record-issuer", is_kept=True)
    if len(offered) > 1:
        stage.explain("authorization_servers", ", ".join(offered), "the first is used")
    stage.explain("issuer", server.issuer, SERVER_MEMBERS["issuer"])
    asked = f"GET {quote_url(server.url)}"
    return stage.add(name, "ok", asked=asked, came=f"issuer {server.issuer}")


async def check_endpoints(facts: AuthorizationFacts, stage: Stage) -> None:
    """Make sure that the endpoints may be used and that PKCE is supported."""
    server = facts.server
    assert server is not None
    stage.asked = quote_url(server.url) if server.url else server.issuer
    said = {
        name: value
        for name, value in msgspec.to_builtins(server).items()
        if value is not None and name != "issuer"
    }
    facts.explain_members(stage, said, SERVER_MEMBERS)
    needed = {"token_endpoint": server.token_endpoint}
    if facts.uses_code:
        needed = {"authorization_endpoint": server.authorization_endpoint, **needed}
    for name, endpoint in needed.items():
        _check_endpoint(facts, stage, name, endpoint)
    if all(urlsplit(each or "").scheme == "https" for each in needed.values()):
        # Plain HTTP on loopback is let pass: it is how people develop.
        stage.judge("auth.https.endpoints", is_kept=True)
    _check_registration(facts, stage, server)
    if facts.uses_code:
        _check_pkce(facts, stage, server)


def _check_endpoint(
    facts: AuthorizationFacts, stage: Stage, name: str, endpoint: str | None
) -> None:
    if endpoint is None:
        came, change = f"metadata without {name}", f"publish {name} in the metadata"
        stage.stop("endpoints", asked=stage.asked, came=came, change=change)
    try:
        facts.policy.check_url(endpoint)
    except NoResponse as error:
        stage.judge("auth.https.endpoints", is_kept=False)
        came = f"{name} must not be used: {error.reason}"
        change = error.hint or f"serve {name} over https"
        stage.stop("endpoints", asked=stage.asked, came=came, change=change)


def _check_registration(facts: AuthorizationFacts, stage: Stage, server: ServerMetadata) -> None:
    settings, asked = facts.settings, stage.asked
    if settings.client_id is not None:
        came = f"the client is registered as {settings.client_id}"
    elif server.registration_endpoint is not None:
        came = server.registration_endpoint
    elif server.client_id_metadata_document_supported:
        came = "clients may use the URL of their metadata as client ID"
    else:
        came = "no registration_endpoint"
        change = "clients need OAuth(client_id=...) or --client-id, registered by hand"
        return stage.add("registration", "warning", asked=asked, came=came, change=change)
    return stage.add("registration", "ok", asked=asked, came=came)


def _check_pkce(facts: AuthorizationFacts, stage: Stage, server: ServerMetadata) -> None:
    asked, methods = stage.asked, server.code_challenge_methods_supported
    stage.judge("auth.pkce.verify-support", is_kept=True)
    if server.refuses_pkce:
        shown = ", ".join(methods or ()) or "an empty list"
        came = f"code_challenge_methods_supported without S256: {shown}"
        stage.stop("pkce", asked=asked, came=came, change="support PKCE with S256")
    if not server.omits_pkce:
        came = ", ".join(methods) if methods else "not stated"
        return stage.add("pkce", "ok", asked=asked, came=came)
    came = "metadata without code_challenge_methods_supported"
    if facts.obtains_token and facts.settings.pkce != "assume":
        change = (
            "it has to name S256; if you know that the authorization server checks PKCE all the "
            "same, pass OAuth(pkce='assume')"
        )
        stage.stop("pkce", asked=asked, came=came, change=change)
    change = "publish code_challenge_methods_supported: some clients refuse servers without it"
    return stage.add("pkce", "warning", asked=asked, came=came, change=change)
