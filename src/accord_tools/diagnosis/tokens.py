"""The stages from the registration of the client to the first call with a token."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from accord.auth.authorization import AssertionRequest, describe_client, listen_for_redirect
from accord.auth.browser import parse_pasted
from accord.auth.client_identity import ClientIdentity, new_pkce, preregistered_client, register
from accord.auth.discovery import DiscoveryResult
from accord.auth.flow import (
    ASSERTION_GRANT,
    AuthorizationRequest,
    ForgedResponse,
    GrantRequest,
    ResourceRejected,
    TokenRefused,
    authorization_url,
    exchange_code,
    read_authorization_response,
    refresh,
    request_client_credentials,
    request_with_assertion,
)
from accord.errors import AccordError, FlowFailed, Unauthorized
from accord.http.rules.responses import quote_url
from accord_tools.diagnosis.facts import AuthorizationFacts, GrantedAuth
from accord_tools.diagnosis.stages import (
    AUTHORIZATION_PARAMETERS,
    REDIRECT_PARAMETERS,
    REGISTRATION_MEMBERS,
    TOKEN_MEMBERS,
    ShownExchange,
    Stage,
    StageFailed,
)
from accord_tools.diagnosis.steps import ask_first_list
from accord_tools.diagnosis.token_facts import token_facts

if TYPE_CHECKING:
    from accord.auth.tokens import TokenGrant
    from accord.testing.recording import Recording

_MESSAGE_SHOWN: Final = 16 * 1024
_MESSAGES_MOST: Final = 20
_WITHOUT_RESOURCE: Final = (
    "the authorization server rejected the parameter resource, so it is left out"
)


def _discovery_of(facts: AuthorizationFacts) -> DiscoveryResult:
    assert facts.server is not None
    return DiscoveryResult(
        resource=facts.resource_uri, server=facts.server, resource_metadata=facts.resource
    )


# -- the client


async def register_client(facts: AuthorizationFacts, stage: Stage) -> None:
    """Find out which client asks: a given one, a metadata document, or a new registration."""
    server, settings = _discovery_of(facts).server, facts.settings
    described = describe_client(settings)
    stage.asked = f"a client ID at {server.issuer}"
    if facts.uses_code:
        await facts.stop_listening()
        facts.listener = await listen_for_redirect(settings, None, facts.listening)
    known = preregistered_client(server, described)
    if known is not None:
        facts.client = known
        is_document = known.client_id == settings.client_metadata_url
        source = "its metadata document" if is_document else "the command line"
        stage.came = f"client ID {known.client_id} of {source}; nothing is sent"
        stage.explain("client_id", known.client_id, AUTHORIZATION_PARAMETERS["client_id"])
        stage.explain("method", known.method, "how the client authenticates at the token endpoint")
    else:
        client: ClientIdentity = await facts.send(_registration(facts), stage)
        facts.client = client
        stage.came = f"registered as {client.client_id}"
        stage.judge("auth.dcr.application-type", is_kept=True)
        stage.judge("auth.dcr.native", is_kept=True)
        _explain_registration(facts, stage, client)
    stage.judge("auth.register.before-flow", is_kept=True)
    if server.client_id_metadata_document_supported:
        stage.judge("auth.cimd.supported", is_kept=True)


def _registration(facts: AuthorizationFacts) -> Any:
    server, described = _discovery_of(facts).server, describe_client(facts.settings)
    scopes = facts.wanted_scopes()
    if facts.listener is None:
        is_asserted = facts.settings.grant == "jwt_bearer"
        grants = [ASSERTION_GRANT if is_asserted else "client_credentials"]
        return register(server, described, redirect_uris=(), grants=grants, scopes=scopes)
    # Scopes that may be asked for later are registered now: a change needs no other client.
    supported = () if facts.resource is None else facts.resource.scopes_supported or ()
    every = tuple(dict.fromkeys([*scopes, *supported]))
    return register(server, described, redirect_uris=[facts.listener.uri], scopes=every)


def _explain_registration(facts: AuthorizationFacts, stage: Stage, client: ClientIdentity) -> None:
    said: dict[str, Any] = {
        "client_id": client.client_id,
        "token_endpoint_auth_method": client.method,
        "redirect_uris": client.redirect_uris,
        "scope": " ".join(client.scopes),
    }
    if client.client_secret is not None:
        facts.secrets.learn(client.client_secret)
        said["client_secret"] = client.client_secret
        said["client_secret_expires_at"] = client.secret_expires_at
    facts.explain_members(stage, said, REGISTRATION_MEMBERS)


# -- the person signs in


async def make_url(facts: AuthorizationFacts, stage: Stage) -> None:
    """Make the URL that the person visits, and listen for the redirect."""
    found, settings, client = _discovery_of(facts), facts.settings, facts.client
    assert client is not None
    stage.asked = f"a URL at {quote_url(found.server.authorization_endpoint or '')}"
    before = facts.listener
    await facts.stop_listening()
    # On the same port: the client may be registered with it.
    bound = client
    if not client.redirect_uris and before is not None:
        bound = msgspec.structs.replace(client, redirect_uris=(before.uri,))
    facts.listener = await listen_for_redirect(settings, bound, facts.listening)
    if client.is_registered and facts.listener.uri not in client.redirect_uris:
        raise StageFailed(
            came=f"another program uses the port of {client.redirect_uris[0]}",
            change="redo the client registration, which chooses another port",
        )
    request = AuthorizationRequest(
        found=found,
        client=client,
        key=settings.client_key,
        dpop=settings.dpop,
        redirect_uri=facts.listener.uri,
        pkce=new_pkce(),
        state=secrets.token_urlsafe(24),
        scopes=facts.wanted_scopes(),
        names_resource=facts.names_resource,
        assumes_pkce=settings.pkce == "assume",
    )
    verifier = facts.secrets.learn(request.pkce.verifier)
    url = authorization_url(request)
    facts.listener.state, facts.listener.accepts = request.state, request.is_from_issuer
    facts.request, facts.sign_in_url = request, url
    stage.came = f"a URL with {len(parse_qsl(urlsplit(url).query))} parameters"
    for name, value in parse_qsl(urlsplit(url).query):
        meaning = AUTHORIZATION_PARAMETERS.get(name, "a part of the authorization endpoint")
        if name == "scope":
            meaning = f"{meaning}: {facts.scopes_origin()}"
        stage.explain(name, value, meaning)
    stage.explain("code_verifier", verifier, "not in the URL: it is sent with the code alone")
    if settings.grant == "device":
        stage.explain("grant", "authorization_code", "the steps use a browser, not another device")
    for each in ("auth.pkce.implemented", "auth.pkce.s256", "auth.redirect.localhost-or-https"):
        stage.judge(each, is_kept=True)
    if not request.names_resource:
        stage.judge("auth.resource.both-requests", is_kept=False)
        stage.warn(_WITHOUT_RESOURCE)


async def wait_for_redirect(facts: AuthorizationFacts, stage: Stage) -> None:
    """Wait until the person has signed in, and check the redirect."""
    request, listener = facts.request, facts.listener
    assert request is not None
    assert listener is not None
    stage.asked = "sign in at the authorization URL; the browser then comes back to this machine"

    def on_ignored() -> None:
        stage.came = "a redirect with another state came and was ignored; still waiting"
        stage.change = "the authorization server has to return state as it was sent"
        facts.mark()

    listener.on_ignored = on_ignored
    params = await _next_redirect(facts, listener)
    stage.came = stage.change = ""
    stage.exchanges.append(ShownExchange(facts.secrets.redirect_text(listener.uri, params)))
    try:
        facts.code = read_authorization_response(params, request)
    except ResourceRejected as error:
        facts.names_resource = facts.settings.resource != "auto"
        change = f"redo this step: {_WITHOUT_RESOURCE}"
        if facts.names_resource:
            change = error.hint
        raise StageFailed(asked=error.asked, came=error.came, change=change) from None
    except ForgedResponse:
        # Nothing of a forged answer is shown.
        stage.exchanges.clear()
        raise
    _judge_redirect(stage, request, params)
    facts.secrets.learn(facts.code)
    facts.explain_members(stage, params, REDIRECT_PARAMETERS)
    stage.came = "a code, with the right state"


def _judge_redirect(stage: Stage, request: AuthorizationRequest, params: Mapping[str, str]) -> None:
    stage.judge("auth.state.verified", is_kept=True)
    stage.judge("auth.iss.as-sends", is_kept="iss" in params)
    if "iss" in params:
        stage.judge("auth.iss.compare-present", is_kept=True)
    elif not request.found.server.authorization_response_iss_parameter_supported:
        stage.judge("auth.iss.reject-absent-when-advertised", is_kept=True)


async def _next_redirect(facts: AuthorizationFacts, listener: Any) -> dict[str, str]:
    """Return the parameters of the redirect, or of the URL that the person pasted."""
    seconds = facts.settings.timeout
    request = facts.request
    assert request is not None
    facts.pasted = asyncio.get_running_loop().create_future()
    coming = asyncio.ensure_future(listener.wait_for_redirect())
    try:
        waiting = {coming, facts.pasted}
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if coming in done:
            return dict(coming.result())
        if facts.pasted in done:
            return parse_pasted(facts.pasted.result(), request.state)
    finally:
        coming.cancel()
        facts.pasted = None
    raise StageFailed(
        came=f"no redirect within {seconds:g} s",
        change="if the browser shows an error, it says why; the redirect URI has to be registered "
        f"as {listener.uri}. Without a browser on this machine, paste the URL that the browser "
        "ends up at",
    )


# -- the token


async def obtain_token(facts: AuthorizationFacts, stage: Stage) -> None:
    """Exchange the code, or what the grant needs, for a token."""
    server = _discovery_of(facts).server
    stage.asked = f"POST {quote_url(server.token_endpoint or '')}"
    try:
        grant = await facts.send(await _token_flow(facts), stage)
    except ResourceRejected:
        if facts.settings.resource != "auto":
            raise
        # The code is still good: the person need not be asked again.
        facts.names_resource = False
        stage.judge("auth.resource.both-requests", is_kept=False)
        grant = await facts.send(await _token_flow(facts), stage)
        stage.warn(_WITHOUT_RESOURCE)
    except TokenRefused as error:
        facts.is_code_used = not error.is_temporary
        raise
    except FlowFailed:
        # Without an answer nothing is known about the code.
        facts.is_code_used = bool(stage.exchanges[-1].response)
        raise
    facts.is_code_used = True
    facts.grant = grant
    _explain_grant(facts, stage, grant)
    if facts.names_resource:
        stage.judge("auth.resource.both-requests", is_kept=True)
    stage.judge("auth.tokens.stored-securely", is_kept=True)
    found = token_facts(grant.access_token, facts.resource, time.time())
    stage.came = found.description
    if found.faults:
        stage.warn("; ".join(found.faults))


async def _token_flow(facts: AuthorizationFacts) -> Any:
    now = time.time()
    if facts.uses_code:
        assert facts.request is not None
        assert facts.code is not None
        request = msgspec.structs.replace(facts.request, names_resource=facts.names_resource)
        return exchange_code(facts.code, request, now)
    assert facts.client is not None
    asked = GrantRequest(
        found=_discovery_of(facts),
        client=facts.client,
        key=facts.settings.client_key,
        dpop=facts.settings.dpop,
        scopes=facts.wanted_scopes(),
        names_resource=facts.names_resource,
    )
    get_assertion = facts.settings.assertion
    if get_assertion is None:
        return request_client_credentials(asked, now)
    wanted = AssertionRequest(
        issuer=asked.found.server.issuer, resource=asked.found.resource, scopes=asked.scopes
    )
    assertion = await get_assertion(wanted)
    facts.secrets.learn(assertion)
    return request_with_assertion(asked, assertion, now)


def _explain_grant(facts: AuthorizationFacts, stage: Stage, grant: "TokenGrant") -> None:
    facts.secrets.learn(grant.access_token)
    facts.secrets.learn(grant.refresh_token)
    said: dict[str, Any] = {
        "access_token": grant.access_token,
        "token_type": "DPoP" if grant.thumbprint else "Bearer",
        "expires_in": "not stated" if grant.expires_at is None else f"{grant.lifetime:g}",
        "scope": " ".join(grant.scopes) or "not stated",
    }
    if grant.refresh_token is not None:
        said["refresh_token"] = grant.refresh_token
    facts.explain_members(stage, said, TOKEN_MEMBERS)


async def refresh_token(facts: AuthorizationFacts, stage: Stage) -> None:
    """Exchange the refresh token for another token, if there is one."""
    before = facts.grant
    assert before is not None
    stage.asked = f"POST {quote_url(before.token_endpoint)}"
    if before.refresh_token is None:
        stage.state = "skipped"
        stage.came = "no refresh token came; the person signs in again later"
        return
    keys: Any = {"key": facts.settings.client_key, "dpop": facts.settings.dpop}
    try:
        grant = await facts.send(refresh(before, time.time(), **keys), stage)
    except FlowFailed as error:
        # The token that there is can still be used.
        stage.came = error.came
        stage.warn(error.hint or "the refresh token has to be exchanged for another token")
        return
    facts.grant = grant
    _explain_grant(facts, stage, grant)
    is_rotated = grant.refresh_token != before.refresh_token
    if before.client.method == "none":
        stage.judge("auth.tokens.refresh-rotated", is_kept=is_rotated)
        if not is_rotated:
            stage.warn("give public clients another refresh token at each use")
    stage.came = f"another token, {'another' if is_rotated else 'the same'} refresh token"


# -- the server


async def call_server(facts: AuthorizationFacts, stage: Stage) -> None:
    """Connect with the token, and ask for the first list."""
    from accord.testing.connection import connected
    from accord.testing.recording import Recording

    stage.asked = f"initialize at {quote_url(facts.url)}, with the token"
    recording = Recording(transport="http")
    options: dict[str, Any] = {
        "auth": GrantedAuth(facts.settings, facts.grant),
        "headers": dict(facts.headers),
        "timeout": facts.timeout,
        "connect_timeout": facts.timeout,
    }
    if facts.revision is not None:
        options["revision"] = facts.revision
    try:
        async with connected(
            facts.url,
            transport=facts.transport or "memory",
            recording=recording,
            allow=("*",),
            **options,
        ) as client:
            info, revision = client.server_info, client.revision
            listed, came = await ask_first_list(client)
    except Unauthorized as error:
        raise StageFailed(
            came=f"token refused: {error}",
            change="the server has to take tokens of its authorization server: compare issuer, "
            "audience, signature and scopes of the token with what the server expects",
        ) from None
    except AccordError as error:
        raise StageFailed(came=str(error), change="see the log of the server") from None
    finally:
        stage.exchanges += _messages(facts, recording)
    for each in ("auth.token.bearer-header", "auth.token.not-in-query", "auth.every-request"):
        stage.judge(each, is_kept=True)
    stage.came = f"{info.name} {info.version}, revision {revision}; {listed}: {came}"


def _messages(facts: AuthorizationFacts, recording: "Recording") -> list[ShownExchange]:
    """Return the messages of the connection, each request of the client with what followed."""
    shown: list[ShownExchange] = []
    scheme = "Bearer" if facts.settings.dpop is None else "DPoP"
    mask = facts.secrets.learn(None if facts.grant is None else facts.grant.access_token)
    for record in recording.records:
        if record.message is None:
            continue
        text = msgspec.json.format(bytes(record.message), indent=2).decode(errors="replace")
        text = facts.secrets.mask_text(text[:_MESSAGE_SHOWN])
        if record.sender == "client":
            request = f"POST {quote_url(facts.url)}\nAuthorization: {scheme} {mask}"
            shown.append(ShownExchange(f"{request}\n\n{text}"))
        elif shown:
            before = shown[-1].response
            shown[-1].response = f"{before}\n\n{text}" if before else text
    return shown[:_MESSAGES_MOST]
