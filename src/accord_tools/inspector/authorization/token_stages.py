"""The steps from the registration of the client to the first call with a token."""

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
from accord_tools.diagnosis.steps import ask_first_list
from accord_tools.inspector.authorization.walk_context import GrantedAuth, WalkContext, mask_of
from accord_tools.inspector.authorization.walk_step import (
    AUTHORIZATION_PARAMETERS,
    REDIRECT_PARAMETERS,
    REGISTRATION_MEMBERS,
    TOKEN_MEMBERS,
    ShownExchange,
    StepFailed,
    WalkStep,
)

if TYPE_CHECKING:
    from accord.auth.tokens import TokenGrant
    from accord.testing.recording import Recording

_MESSAGE_SHOWN: Final = 16 * 1024
_MESSAGES_MOST: Final = 20
_WITHOUT_RESOURCE: Final = (
    "the authorization server rejected the parameter resource, so it is left out"
)


def _discovery_of(context: WalkContext) -> DiscoveryResult:
    assert context.server is not None
    return DiscoveryResult(
        resource=context.resource_uri, server=context.server, resource_metadata=context.resource
    )


# -- the client


async def register_client(context: WalkContext, step: WalkStep) -> None:
    """Find out which client asks: a given one, a metadata document, or a new registration."""
    server, settings = _discovery_of(context).server, context.settings
    described = describe_client(settings)
    step.asked = f"a client ID at {server.issuer}"
    if context.uses_code:
        await context.stop_listening()
        context.listener = await listen_for_redirect(settings, None, context.listening)
    known = preregistered_client(server, described)
    if known is not None:
        context.client = known
        is_document = known.client_id == settings.client_metadata_url
        source = "its metadata document" if is_document else "the command line"
        step.came = f"client ID {known.client_id} of {source}; nothing is sent"
        step.explain("client_id", known.client_id, AUTHORIZATION_PARAMETERS["client_id"])
        step.explain("method", known.method, "how the client authenticates at the token endpoint")
    else:
        client: ClientIdentity = await context.send(_registration(context), step)
        context.client = client
        step.came = f"registered as {client.client_id}"
        step.judge("auth.dcr.application-type", is_kept=True)
        step.judge("auth.dcr.native", is_kept=True)
        _explain_registration(context, step, client)
    step.judge("auth.register.before-flow", is_kept=True)
    if server.client_id_metadata_document_supported:
        step.judge("auth.cimd.supported", is_kept=True)


def _registration(context: WalkContext) -> Any:
    server, described = _discovery_of(context).server, describe_client(context.settings)
    scopes = context.wanted_scopes()
    if context.listener is None:
        is_asserted = context.settings.grant == "jwt_bearer"
        grants = [ASSERTION_GRANT if is_asserted else "client_credentials"]
        return register(server, described, redirect_uris=(), grants=grants, scopes=scopes)
    # Scopes that may be asked for later are registered now: a change needs no other client.
    supported = () if context.resource is None else context.resource.scopes_supported or ()
    every = tuple(dict.fromkeys([*scopes, *supported]))
    return register(server, described, redirect_uris=[context.listener.uri], scopes=every)


def _explain_registration(context: WalkContext, step: WalkStep, client: ClientIdentity) -> None:
    said: dict[str, Any] = {
        "client_id": client.client_id,
        "token_endpoint_auth_method": client.method,
        "redirect_uris": client.redirect_uris,
        "scope": " ".join(client.scopes),
    }
    if client.client_secret is not None:
        context.secrets.add("client_secret", client.client_secret)
        said["client_secret"] = client.client_secret
        said["client_secret_expires_at"] = client.secret_expires_at
    context.explain_members(step, said, REGISTRATION_MEMBERS)


# -- the person signs in


async def make_url(context: WalkContext, step: WalkStep) -> None:
    """Make the URL that the person visits, and listen for the redirect."""
    found, settings, client = _discovery_of(context), context.settings, context.client
    assert client is not None
    step.asked = f"a URL at {quote_url(found.server.authorization_endpoint or '')}"
    before = context.listener
    await context.stop_listening()
    # On the same port: the client may be registered with it.
    bound = client
    if not client.redirect_uris and before is not None:
        bound = msgspec.structs.replace(client, redirect_uris=(before.uri,))
    context.listener = await listen_for_redirect(settings, bound, context.listening)
    if client.is_registered and context.listener.uri not in client.redirect_uris:
        raise StepFailed(
            came=f"another program uses the port of {client.redirect_uris[0]}",
            change="redo the client registration, which chooses another port",
        )
    request = AuthorizationRequest(
        found=found,
        client=client,
        key=settings.client_key,
        dpop=settings.dpop,
        redirect_uri=context.listener.uri,
        pkce=new_pkce(),
        state=secrets.token_urlsafe(24),
        scopes=context.wanted_scopes(),
        names_resource=context.names_resource,
        assumes_pkce=settings.pkce == "assume",
    )
    context.secrets.add("code_verifier", request.pkce.verifier)
    url = authorization_url(request)
    context.listener.state, context.listener.accepts = request.state, request.is_from_issuer
    context.request, context.sign_in_url = request, url
    step.came = f"a URL with {len(parse_qsl(urlsplit(url).query))} parameters"
    for name, value in parse_qsl(urlsplit(url).query):
        meaning = AUTHORIZATION_PARAMETERS.get(name, "a part of the authorization endpoint")
        if name == "scope":
            meaning = f"{meaning}: {context.scopes_origin()}"
        step.explain(name, value, meaning)
    step.explain(
        "code_verifier", mask_of("code_verifier"), "not in the URL: it is sent with the code alone"
    )
    if settings.grant == "device":
        step.explain("grant", "authorization_code", "the steps use a browser, not another device")
    for each in ("auth.pkce.implemented", "auth.pkce.s256", "auth.redirect.localhost-or-https"):
        step.judge(each, is_kept=True)
    if not request.names_resource:
        step.judge("auth.resource.both-requests", is_kept=False)
        step.warn(_WITHOUT_RESOURCE)


async def wait_for_redirect(context: WalkContext, step: WalkStep) -> None:
    """Wait until the person has signed in, and check the redirect."""
    request, listener = context.request, context.listener
    assert request is not None
    assert listener is not None
    step.asked = "sign in at the authorization URL; the browser then comes back to this machine"

    def on_ignored() -> None:
        step.came = "a redirect with another state came and was ignored; still waiting"
        step.change = "the authorization server has to return state as it was sent"
        context.mark()

    listener.on_ignored = on_ignored
    params = await _next_redirect(context, listener)
    step.came = step.change = ""
    step.exchanges.append(ShownExchange(context.secrets.redirect_text(listener.uri, params)))
    try:
        context.code = read_authorization_response(params, request)
    except ResourceRejected as error:
        context.names_resource = context.settings.resource != "auto"
        change = f"redo this step: {_WITHOUT_RESOURCE}"
        if context.names_resource:
            change = error.hint
        raise StepFailed(asked=error.asked, came=error.came, change=change) from None
    except ForgedResponse:
        # Nothing of a forged answer is shown.
        step.exchanges.clear()
        raise
    _judge_redirect(step, request, params)
    context.secrets.add("code", context.code)
    context.explain_members(step, params, REDIRECT_PARAMETERS)
    step.came = "a code, with the right state"


def _judge_redirect(
    step: WalkStep, request: AuthorizationRequest, params: Mapping[str, str]
) -> None:
    step.judge("auth.state.verified", is_kept=True)
    step.judge("auth.iss.as-sends", is_kept="iss" in params)
    if "iss" in params:
        step.judge("auth.iss.compare-present", is_kept=True)
    elif not request.found.server.authorization_response_iss_parameter_supported:
        step.judge("auth.iss.reject-absent-when-advertised", is_kept=True)


async def _next_redirect(context: WalkContext, listener: Any) -> dict[str, str]:
    """Return the parameters of the redirect, or of the URL that the person pasted."""
    seconds = context.settings.timeout
    request = context.request
    assert request is not None
    context.pasted = asyncio.get_running_loop().create_future()
    coming = asyncio.ensure_future(listener.wait_for_redirect())
    try:
        waiting = {coming, context.pasted}
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if coming in done:
            return dict(coming.result())
        if context.pasted in done:
            return parse_pasted(context.pasted.result(), request.state)
    finally:
        coming.cancel()
        context.pasted = None
    raise StepFailed(
        came=f"no redirect within {seconds:g} s",
        change="if the browser shows an error, it says why; the redirect URI has to be registered "
        f"as {listener.uri}. Without a browser on this machine, paste the URL that the browser "
        "ends up at",
    )


# -- the token


async def obtain_token(context: WalkContext, step: WalkStep) -> None:
    """Exchange the code, or what the grant needs, for a token."""
    server = _discovery_of(context).server
    step.asked = f"POST {quote_url(server.token_endpoint or '')}"
    try:
        grant = await context.send(await _token_flow(context), step)
    except ResourceRejected:
        if context.settings.resource != "auto":
            raise
        # The code is still good: the person need not be asked again.
        context.names_resource = False
        step.judge("auth.resource.both-requests", is_kept=False)
        grant = await context.send(await _token_flow(context), step)
        step.warn(_WITHOUT_RESOURCE)
    except TokenRefused as error:
        context.is_code_used = not error.is_temporary
        raise
    except FlowFailed:
        # Without an answer nothing is known about the code.
        context.is_code_used = bool(step.exchanges[-1].response)
        raise
    context.is_code_used = True
    context.grant = grant
    _explain_grant(context, step, grant)
    if context.names_resource:
        step.judge("auth.resource.both-requests", is_kept=True)
    step.judge("auth.tokens.stored-securely", is_kept=True)
    facts = token_description(context)
    step.came = facts[0]
    if facts[1]:
        step.warn("; ".join(facts[1]))


async def _token_flow(context: WalkContext) -> Any:
    now = time.time()
    if context.uses_code:
        assert context.request is not None
        assert context.code is not None
        request = msgspec.structs.replace(context.request, names_resource=context.names_resource)
        return exchange_code(context.code, request, now)
    assert context.client is not None
    asked = GrantRequest(
        found=_discovery_of(context),
        client=context.client,
        key=context.settings.client_key,
        dpop=context.settings.dpop,
        scopes=context.wanted_scopes(),
        names_resource=context.names_resource,
    )
    get_assertion = context.settings.assertion
    if get_assertion is None:
        return request_client_credentials(asked, now)
    wanted = AssertionRequest(
        issuer=asked.found.server.issuer, resource=asked.found.resource, scopes=asked.scopes
    )
    assertion = await get_assertion(wanted)
    context.secrets.add("assertion", assertion)
    return request_with_assertion(asked, assertion, now)


def _explain_grant(context: WalkContext, step: WalkStep, grant: "TokenGrant") -> None:
    context.secrets.add("access_token", grant.access_token)
    context.secrets.add("refresh_token", grant.refresh_token)
    said: dict[str, Any] = {
        "access_token": grant.access_token,
        "token_type": "DPoP" if grant.thumbprint else "Bearer",
        "expires_in": "not stated" if grant.expires_at is None else f"{grant.lifetime:g}",
        "scope": " ".join(grant.scopes) or "not stated",
    }
    if grant.refresh_token is not None:
        said["refresh_token"] = grant.refresh_token
    context.explain_members(step, said, TOKEN_MEMBERS)


def token_description(context: WalkContext) -> tuple[str, tuple[str, ...]]:
    """Return a description of the token, and the reasons why it may not fit the server."""
    from accord_tools.diagnosis.token_facts import token_facts

    assert context.grant is not None
    found = token_facts(context.grant.access_token, context.resource, time.time())
    return found.description, found.faults


async def refresh_token(context: WalkContext, step: WalkStep) -> None:
    """Exchange the refresh token for another token, if there is one."""
    before = context.grant
    assert before is not None
    step.asked = f"POST {quote_url(before.token_endpoint)}"
    if before.refresh_token is None:
        step.state, step.came = "skipped", "no refresh token came; the person signs in again later"
        return
    keys: Any = {"key": context.settings.client_key, "dpop": context.settings.dpop}
    try:
        grant = await context.send(refresh(before, time.time(), **keys), step)
    except FlowFailed as error:
        # The token that there is can still be used.
        step.came = error.came
        step.warn(error.hint or "the refresh token has to be exchanged for another token")
        return
    context.grant = grant
    _explain_grant(context, step, grant)
    is_rotated = grant.refresh_token != before.refresh_token
    if before.client.method == "none":
        step.judge("auth.tokens.refresh-rotated", is_kept=is_rotated)
        if not is_rotated:
            step.warn("give public clients another refresh token at each use")
    step.came = f"another token, {'another' if is_rotated else 'the same'} refresh token"


# -- the server


async def call_server(context: WalkContext, step: WalkStep) -> None:
    """Connect with the token, and ask for the first list."""
    from accord.testing.connection import connected
    from accord.testing.recording import Recording

    step.asked = f"initialize at {quote_url(context.url)}, with the token"
    recording = Recording(transport="http")
    options: dict[str, Any] = {
        "auth": GrantedAuth(context.settings, context.grant),
        "headers": dict(context.headers),
        "timeout": context.timeout,
        "connect_timeout": context.timeout,
    }
    if context.revision is not None:
        options["revision"] = context.revision
    try:
        async with connected(
            context.url,
            transport=context.transport or "memory",
            recording=recording,
            allow=("*",),
            **options,
        ) as client:
            info, revision = client.server_info, client.revision
            listed, came = await ask_first_list(client)
    except Unauthorized as error:
        raise StepFailed(
            came=f"token refused: {error}",
            change="the server has to take tokens of its authorization server: compare issuer, "
            "audience, signature and scopes of the token with what the server expects",
        ) from None
    except AccordError as error:
        raise StepFailed(came=str(error), change="see the log of the server") from None
    finally:
        step.exchanges += _messages(context, recording)
    for each in ("auth.token.bearer-header", "auth.token.not-in-query", "auth.every-request"):
        step.judge(each, is_kept=True)
    step.came = f"{info.name} {info.version}, revision {revision}; {listed}: {came}"


def _messages(context: WalkContext, recording: "Recording") -> list[ShownExchange]:
    """Return the messages of the connection, each request of the client with what followed."""
    shown: list[ShownExchange] = []
    scheme, mask = "Bearer" if context.settings.dpop is None else "DPoP", mask_of("access_token")
    for record in recording.records:
        if record.message is None:
            continue
        text = msgspec.json.format(bytes(record.message), indent=2).decode(errors="replace")
        text = context.secrets.hide(text[:_MESSAGE_SHOWN])
        if record.sender == "client":
            request = f"POST {quote_url(context.url)}\nAuthorization: {scheme} {mask}"
            shown.append(ShownExchange(f"{request}\n\n{text}"))
        elif shown:
            before = shown[-1].response
            shown[-1].response = f"{before}\n\n{text}" if before else text
    return shown[:_MESSAGES_MOST]
