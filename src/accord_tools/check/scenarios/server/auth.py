"""Authorization: answers without a token, metadata, checks of tokens; one user and another one.

Only servers that refuse a request without a token are judged. Each request has its own token, and
nothing of one user is given to another one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

import msgspec

from accord.http.client.guarded import GuardedSender, HttpRequest, HttpResponse, NoResponse
from accord.http.rules.addresses import is_loopback
from accord.http.rules.responses import AuthChallenge, bearer_challenge, parse_challenges
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.catalogue import catalogue
from accord.types import JsonObject
from accord_tools.check.probing.authorization import (
    Granted,
    Published,
    fetch_metadata,
    guarded_sender,
    is_oauth,
    quote_value,
)
from accord_tools.check.probing.http_exchange import RawResponse, exchange, post_message
from accord_tools.check.probing.messages import (
    EVERYTHING_STATELESS,
    INPUT_REQUIRED,
    Reply,
    answer_round,
    answer_to,
    input_requests_of,
    is_same_id,
    new_request,
    params_of,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.task_calls import NO_TASK, call_for_task, operate, task_id
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    LISTS,
    NO_AUTHORIZATION,
    OTHER_USER,
    OWN_UNJUDGED,
    UNINITIALIZED_UNJUDGED,
    bare_scenario,
    calls,
    complete_request,
    end_session,
    initialize,
    lacks_other_user,
    open_as_other,
    open_unjudged,
    scenario,
)
from accord_tools.check.verdicts import NO_PROBE

OF_SERVERS: Final = (
    "auth.as-metadata.server",
    "auth.as.discovery-either",
    "auth.asm.no-own-suffix",
    "auth.as.rfc8414-required",
    "auth.cimd.supported",
    "auth.dcr.authorization-server",
    "auth.dcr.implementations",
    "auth.https.endpoints",
    "auth.oauth21.authorization-server",
    "auth.oauth21.implementations",
    "auth.pkce.as-oidc-advertises",
)
"""The requirements that metadata of an authorization server decides."""

_GRANTED: Final = (
    "auth.iss.as-advertises",
    "auth.iss.as-sends",
    "auth.redirect.exact-match",
    "auth.token.short-lived",
    "auth.tokens.refresh-rotated",
)
_UNTRUSTED: Final = "https://accord-check.example/callback"
# The specification names no number; a token for more than a day is not short-lived.
_DAY: Final = 24 * 3600.0


def judge_servers(probe: Probe, published: Published) -> None:
    """Judge the metadata of the authorization server."""
    if not published.issuers and not published.metadata:
        probe.skip(OF_SERVERS, "the server names no authorization server")
    where = ", ".join(map(quote_value, published.issuers)) or "the server itself"
    has_rfc8414 = published.metadata is not None
    has_any = has_rfc8414 or published.openid is not None
    if not has_any and published.refused:
        probe.skip(OF_SERVERS, published.refused)
        return
    why = f"{where} publishes no metadata"
    probe.holds("auth.as-metadata.server", has_any, why)
    if not published.issuers and not has_rfc8414:
        return
    probe.holds("auth.as.discovery-either", has_any, why)
    probe.holds("auth.as.rfc8414-required", has_rfc8414, f"{where} publishes no RFC 8414 metadata")
    document = published.metadata or published.openid
    if document is None:
        return
    if has_rfc8414:
        probe.passes("auth.asm.no-own-suffix")
    _judge_metadata(probe, document, where)
    if published.openid is not None:
        methods = published.openid.get("code_challenge_methods_supported")
        why = f"{where} lists no code_challenge_methods_supported in its OpenID configuration"
        probe.holds("auth.pkce.as-oidc-advertises", methods, why)
    else:
        probe.not_applicable("auth.pkce.as-oidc-advertises", "it is not an OpenID provider")


def _judge_metadata(probe: Probe, document: Mapping[str, object], where: str) -> None:
    methods = document.get("code_challenge_methods_supported")
    for id in ("auth.oauth21.authorization-server", "auth.oauth21.implementations"):
        is_right = isinstance(methods, list) and "S256" in methods
        probe.holds(id, is_right, f"{where} does not say that it supports PKCE with S256")
    for id in ("auth.dcr.authorization-server", "auth.dcr.implementations"):
        has_endpoint = isinstance(document.get("registration_endpoint"), str)
        probe.holds(id, has_endpoint, f"{where} names no registration_endpoint")
    is_supported = document.get("client_id_metadata_document_supported") is True
    why = f"{where} does not support client id metadata documents"
    probe.holds("auth.cimd.supported", is_supported, why)
    bare = [
        f"{name} {quote_value(document[name])}"
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint")
        if isinstance(document.get(name), str) and not _is_safe(str(document[name]))
    ]
    probe.holds("auth.https.endpoints", not bare, f"{where} has endpoints without TLS: {bare[:1]}")


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    # Loopback connections cannot be overheard.
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


async def judge_grant(probe: Probe, sender: GuardedSender, published: Published) -> None:
    """Judge the token that was issued for the check, and the endpoint that asks for consent."""
    granted = probe.target.granted
    if granted is None:
        probe.skip(_GRANTED, "this needs the OAuth flow: give --oauth")
        return
    if granted.lifetime is not None:
        why = f"the authorization server issues tokens for {granted.lifetime:g} s"
        probe.holds("auth.token.short-lived", granted.lifetime <= _DAY, why)
    if granted.is_rotated is not None:
        why = "the authorization server accepts the same refresh token repeatedly"
        probe.holds("auth.tokens.refresh-rotated", granted.is_rotated, why)
    else:
        probe.not_applicable("auth.tokens.refresh-rotated", "no refresh token was issued")
    await _judge_redirect(probe, sender, published, granted)
    await _judge_iss(probe, sender, published, granted)


async def _ask_for_consent(
    sender: GuardedSender, published: Published, granted: Granted, **fields: str
) -> HttpResponse | str:
    """Send a request for consent, with some fields changed; return why there is no response."""
    document = published.metadata or published.openid or {}
    endpoint = document.get("authorization_endpoint")
    if not isinstance(endpoint, str):
        return "the authorization server has no authorization endpoint"
    usual = {
        "response_type": "code",
        "client_id": granted.client_id,
        "redirect_uri": granted.redirect_uri,
        "state": "accord-check",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "code_challenge_method": "S256",
    }
    glue = "&" if "?" in endpoint else "?"
    url = f"{endpoint}{glue}{urlencode(usual | fields)}"
    asked = HttpRequest(method="GET", url=url, headers={"accept": "text/html"})
    try:
        return await sender.send(asked)
    except NoResponse as error:
        return f"the authorization endpoint was not asked: {error}"


async def _judge_iss(
    probe: Probe, sender: GuardedSender, published: Published, granted: Granted
) -> None:
    """Judge the iss of an error, which comes without a user: the response type does not exist."""
    ids = ("auth.iss.as-sends", "auth.iss.as-advertises")
    if not granted.redirect_uri:
        probe.skip(ids, "this needs a client with a redirect URI")
        return
    came = await _ask_for_consent(sender, published, granted, response_type="accord-check")
    location = "" if isinstance(came, str) else came.headers.get("location", "")
    back = parse_qs(urlsplit(location).query)
    if not location.startswith(granted.redirect_uri) or "error" not in back:
        why = "only a user who logs in sees an authorization response"
        probe.skip(ids, came if isinstance(came, str) else why)
        return
    iss = back.get("iss", [""])[0]
    why = "the authorization server returns an error without iss"
    if not probe.holds(ids[0], iss, why):
        return
    document = published.metadata or published.openid or {}
    is_named = document.get("authorization_response_iss_parameter_supported") is True
    why = (
        f"the authorization server returns the iss {quote_value(iss)}, and does not set "
        "authorization_response_iss_parameter_supported to true"
    )
    probe.holds(ids[1], is_named, why)


async def _judge_redirect(
    probe: Probe, sender: GuardedSender, published: Published, granted: Granted
) -> None:
    id = "auth.redirect.exact-match"
    came = await _ask_for_consent(sender, published, granted, redirect_uri=_UNTRUSTED)
    if isinstance(came, str):
        probe.skip(id, came)
        return
    is_sent = came.headers.get("location", "").startswith(_UNTRUSTED)
    if not is_sent and came.status < 400:
        probe.skip(id, "only a user who logs in sees whether redirect URIs are compared")
        return
    why = "the authorization server redirects to a URI that was not registered"
    probe.holds(id, not is_sent, why)


_GARBAGE: Final = "accord-check-no-such-token"
_OUTSIDE: Final = (
    "auth.challenge.www-authenticate",
    "auth.http.oauth-flow",
    "auth.prm.lists-as",
    "auth.prm.one-mechanism",
    "auth.prm.server",
    "auth.refresh.server-no-offline-access",
    "auth.role.resource-server",
    "auth.scope.challenge-has-scope",
    "auth.server.401-when-required",
    "auth.status-codes",
    "auth.token.invalid-401",
    "auth.token.validated",
    "auth.tokens.validated-first",
    "tools.server.access-controlled",
)
_VERIFIED: Final = "session.requests.verified"
_BOUND: Final = "session.id.bound-to-user"
_ACCESS: Final = "tools.server.access-controlled"
_HAS_SCOPE: Final = "auth.scope.challenge-has-scope"
_OFFLINE: Final = "auth.refresh.server-no-offline-access"
_FOREIGN: Final = (
    "auth.server.own-tokens-only",
    "auth.token.audience-validated",
    "auth.token.foreign-rejected",
)
# Other scenarios decide these.
_ELSEWHERE: Final = (
    "auth.scope.insufficient-403",
    "auth.scope.insufficient-names-needed",
    "auth.stateless.each-request-authorized",
)
# These need a user who consents, or scopes that a check does not know.
_CONSENTED: Final = tuple(
    id
    for id, row in catalogue().items()
    if row.check == "auth-probe"
    and row.area == "auth"
    and id not in {*_OUTSIDE, *OF_SERVERS, *_FOREIGN, *_ELSEWHERE}
)


def _first_request(probe: Probe, connection: RawConnection) -> JsonObject:
    """Return the request that begins a conversation; it needs nothing before it."""
    if connection.be_stateless(probe.revision, {}):
        return complete_request(probe, "server/discover")
    return initialize(probe.revision)


def _plain(connection: RawConnection, message: object) -> dict[str, str]:
    """Return the headers of a request without those that the user gave."""
    given = {name.lower() for name in connection.carrier.headers}
    made: dict[str, str] = connection.carrier.heads(msgspec.json.encode(message))
    return {name: text for name, text in made.items() if name not in {*given, "mcp-session-id"}}


async def post_with_token(
    connection: RawConnection, message: object, *, token: str | None = None, **settings: Any
) -> RawResponse:
    """Post a message without a token, or with this one."""
    headers = _plain(connection, message)
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    heard = await post_message(connection, message, headers=headers, **settings)
    await end_session(connection, heard)
    return heard


def _challenges(heard: RawResponse) -> list[AuthChallenge]:
    value = heard.headers.get("www-authenticate")
    return [] if value is None else parse_challenges([value])


def _exclude_all(probe: Probe, why: str) -> None:
    ids = (*_OUTSIDE, *OF_SERVERS, _VERIFIED, _BOUND, *_FOREIGN, *_CONSENTED)
    probe.not_applicable(ids, why)


# -- without a token


@scenario(
    *_OUTSIDE,
    *OF_SERVERS,
    *_CONSENTED,
    opens=UNINITIALIZED_UNJUDGED,
    on=("http",),
    is_outside=True,
)
async def sends_requests_without_a_token(probe: Probe, connection: RawConnection) -> None:
    heard = await post_with_token(connection, _first_request(probe, connection))
    if heard.is_ok:
        _exclude_all(probe, NO_AUTHORIZATION)
        return
    # Otherwise it accepts the token and refuses the request for an unknown reason.
    if probe.facts.locked or probe.target.spec.headers:
        why = f"answers a request without a token with {heard}, expected 401"
        probe.holds("auth.server.401-when-required", heard.status == 401, why)
    if heard.status != 401:
        return
    challenges = _challenges(heard)
    sender = guarded_sender(probe.target.spec.url, connection.patience)
    published = await fetch_metadata(sender, connection, probe.target.spec.url, challenges)
    if not is_oauth(challenges, published):
        scheme = challenges[0].scheme if challenges else "something that it does not name"
        probe.fail("auth.http.oauth-flow", f"asks for {scheme}, not for OAuth")
        _exclude_all(probe, "the server does not use OAuth")
        return
    probe.passes("auth.http.oauth-flow")
    bearer = _bearer_in(heard)
    _judge_challenge(probe, bearer)
    _judge_resource(probe, published, bearer)
    judge_servers(probe, published)
    await _judge_tokens(probe, connection)
    await judge_grant(probe, sender, published)
    why = "this needs scopes, users or clients that a check does not have"
    probe.skip(_CONSENTED, f"{NO_PROBE}: {why}")


def _bearer_in(heard: RawResponse) -> AuthChallenge | None:
    return bearer_challenge([heard.headers.get("www-authenticate", "")])


def _judge_challenge(probe: Probe, bearer: AuthChallenge | None) -> None:
    is_named = bearer is not None and bearer.resource_metadata
    why = "answers 401 without a WWW-Authenticate header that names its resource_metadata"
    probe.holds("auth.challenge.www-authenticate", is_named, why)
    # A server without scopes has none to name: its metadata tells.
    if bearer is not None and bearer.scopes:
        probe.passes(_HAS_SCOPE)
        is_right = "offline_access" not in bearer.scopes
        probe.holds(_OFFLINE, is_right, "asks for offline_access in its challenge")


def _judge_resource(probe: Probe, published: Published, bearer: AuthChallenge | None) -> None:
    document = published.resource
    if document is None and published.refused:
        ids = ("auth.prm.one-mechanism", "auth.prm.server", "auth.prm.lists-as")
        probe.skip(ids, published.refused)
        return
    why = "names its metadata neither in WWW-Authenticate nor at a well-known URI"
    probe.holds("auth.prm.one-mechanism", document is not None, why)
    if document is None:
        probe.fail("auth.prm.server", "publishes no protected resource metadata")
        return
    resource = document.get("resource")
    why = f"publishes metadata of {quote_value(resource)}, not of itself"
    if not probe.holds("auth.prm.server", _is_same_place(resource, probe.target.spec.url), why):
        return
    why = "names no authorization_servers in its protected resource metadata"
    probe.holds("auth.prm.lists-as", published.issuers, why)
    scopes = document.get("scopes_supported")
    if isinstance(scopes, list) and scopes:
        is_right = "offline_access" not in scopes
        probe.holds(_OFFLINE, is_right, "lists offline_access in scopes_supported")
        own = [str(each) for each in scopes if each != "offline_access"]
        why = f"answers 401 without a scope, and has the scopes {' '.join(own)!s:.80}"
        if own:
            probe.holds(_HAS_SCOPE, bearer is None or bearer.scopes, why)
    else:
        for id in (_HAS_SCOPE, _OFFLINE):
            probe.not_applicable(id, "the server names no scopes")


def _is_same_place(resource: Any, url: str) -> bool:
    """Return whether a resource is the server at a URL, or contains it."""
    if not isinstance(resource, str):
        return False
    try:
        one, other = urlsplit(resource), urlsplit(url)
        if one.scheme.lower() != other.scheme.lower() or one.port != other.port:
            return False
    except ValueError:
        return False
    hosts = [one.hostname or "", other.hostname or ""]
    is_host = one.hostname == other.hostname or all(map(is_loopback, hosts))
    return is_host and other.path.startswith(one.path.rstrip("/"))


async def _judge_tokens(probe: Probe, connection: RawConnection) -> None:
    opening = _first_request(probe, connection)
    heard = await post_with_token(connection, opening, token=_GARBAGE)
    why = "accepts a token that was never issued"
    if probe.holds("auth.token.validated", not heard.is_ok, why):
        why = f"answers a token that was never issued with {heard}, expected 401"
        probe.holds("auth.token.invalid-401", heard.status == 401, why)
        unknown = complete_request(probe, "accord-check/no-such-method")
        heard = await post_with_token(connection, unknown, token=_GARBAGE)
        is_right = not heard.is_ok and heard.code not in (-32601, -32602)
        why = f"looks at a request before its token: answers {heard} to an unknown method"
        probe.holds("auth.tokens.validated-first", is_right, why)
    headers = _plain(connection, opening) | {"authorization": "Bearer"}
    heard = await post_message(connection, opening, headers=headers)
    await end_session(connection, heard)
    why = f"answers a malformed Authorization header with {heard}, expected 400 or 401"
    probe.holds("auth.status-codes", heard.status in (400, 401), why)
    listing = complete_request(probe, "tools/list")
    heard = await post_with_token(connection, listing)
    is_right = not heard.answers_to(listing["id"]) or heard.code is not None
    why = "lists its tools without a token, although it requires authorization"
    probe.holds(_ACCESS, is_right, why)
    await _judge_query(probe, connection, opening)


async def _judge_query(probe: Probe, connection: RawConnection, opening: JsonObject) -> None:
    """Judge whether the server accepts a token from the query of the URL.

    Logs keep URLs, so the user's token is sent there only if that is allowed. Otherwise an invalid
    token shows whether the server reads the query: it accepts any token; or it answers that this
    one is invalid, which it does not say to a request without a token; or it refuses the request
    as malformed (400, RFC 6750 section 3.1).
    """
    id = "auth.role.resource-server"
    bare = await post_with_token(connection, opening)
    heard = await post_with_token(
        connection, opening, url=_with_token(probe.target.spec.url, _GARBAGE)
    )
    if heard.is_ok:
        probe.fail(id, "accepts an invalid token from the query of the URL")
        return
    if _is_token_invalid(heard) and not _is_token_invalid(bare):
        probe.fail(id, "looks for a token in the query of the URL")
        return
    if heard.status == 400 and bare.status == 401:
        probe.passes(id)
        return
    token = probe.target.bearer
    if not token or not probe.target.allow_token_in_query:
        why = "this needs a valid token in a URL: give --bearer and --allow-token-in-query"
        probe.skip(id, why)
        return
    heard = await post_with_token(
        connection, opening, url=_with_token(probe.target.spec.url, token)
    )
    probe.holds(id, not heard.is_ok, "accepts a token from the query of the URL")


def _with_token(url: str, token: str) -> str:
    parts = urlsplit(url)
    query = "&".join(filter(None, [parts.query, urlencode({"access_token": token})]))
    return urlunsplit(parts._replace(query=query))


def _is_token_invalid(heard: RawResponse) -> bool:
    """Return whether a refusal says that the token is invalid (RFC 6750 section 3.1)."""
    bearer = _bearer_in(heard)
    return bearer is not None and bearer.error == "invalid_token"


# -- with a token


@scenario(_VERIFIED, _BOUND, opens=open_unjudged, on=("http",))
async def uses_a_session_without_its_token(probe: Probe, connection: RawConnection) -> None:
    bare = await post_with_token(connection, initialize(probe.revision))
    if bare.is_ok:
        _exclude_all(probe, NO_AUTHORIZATION)
        return
    session = connection.carrier.session
    if session is None:
        probe.not_applicable((_VERIFIED, _BOUND), "the server gives no session ids")
        return
    ping = new_request("ping")
    headers = _plain(connection, ping) | {"mcp-session-id": session}
    heard = await post_message(connection, ping, headers=headers)
    probe.holds(_VERIFIED, not heard.is_ok, f"accepts a session id in place of a token: {heard}")
    if probe.target.other_token is None:
        probe.skip(_BOUND, OTHER_USER)
        return
    headers["authorization"] = f"Bearer {probe.target.other_token}"
    heard = await post_message(connection, new_request("ping"), headers=headers)
    probe.holds(_BOUND, not heard.is_ok, f"serves a session to another user: {heard}")


@scenario(*_FOREIGN, opens=UNINITIALIZED_UNJUDGED, on=("http",), is_outside=True)
async def sends_a_token_for_another_server(probe: Probe, connection: RawConnection) -> None:
    opening = _first_request(probe, connection)
    if (await post_with_token(connection, opening)).is_ok:
        _exclude_all(probe, NO_AUTHORIZATION)
        return
    if probe.target.foreign_token is None:
        probe.skip(_FOREIGN, "this needs a token for another server: give --foreign-bearer")
        return
    heard = await post_with_token(connection, opening, token=probe.target.foreign_token)
    for id in _FOREIGN:
        probe.holds(id, not heard.is_ok, "accepts a token that was issued for another server")


@bare_scenario(_ACCESS, on=("sse",))
async def listens_without_a_token(probe: Probe) -> None:
    if not probe.target.spec.headers:
        probe.not_applicable(_ACCESS, NO_AUTHORIZATION)
        return
    async with (
        probe.open(is_judged=False, begins=False) as connection,
        exchange(connection, method="GET", headers={"accept": CONTENT_TYPE}) as heard,
    ):
        pass
    if heard.is_ok:
        probe.not_applicable(_ACCESS, NO_AUTHORIZATION)
    else:
        probe.passes(_ACCESS)


# -- users

_EACH: Final = "auth.stateless.each-request-authorized"
_CACHED: Final = "caching.server.access-control-independent"
_PRINCIPAL: Final = "mrtr.state.bind-principal"
_BINDS: Final = "elicitation.binds-user"
_IDENTIFIED: Final = "elicitation.state.user-from-credentials"
_TASKS: Final = "tasks-ext.security.authorize-each"
_NO_QUESTION: Final = "no tool that may be called asks the user something"
_ELICIT: Final = "elicitation/create"


# -- each request


def _is_refused(heard: RawResponse) -> bool:
    return heard.status in (401, 403)


def _results_in(heard: RawResponse) -> list[JsonObject]:
    found = [each.get("result") for each in heard.answers()] if heard.is_ok else []
    return [each for each in found if isinstance(each, dict)]


@scenario(_EACH, _CACHED, opens=open_unjudged, on=("http",), era="stateless")
async def leaves_out_the_token_after_requests_with_it(
    probe: Probe, connection: RawConnection
) -> None:
    if not probe.target.spec.headers:
        probe.not_applicable((_EACH, _CACHED), NO_AUTHORIZATION)
        return
    bare = await post_with_token(connection, _again(probe, "server/discover", {}))
    if not _is_refused(bare):
        probe.not_applicable((_EACH, _CACHED), NO_AUTHORIZATION)
        return
    # For each request that the token allows: whether its result is public, and needs the token.
    tried: list[tuple[str, bool, bool, Callable[[], Any] | None]] = []
    for method, params in _harmless_requests(probe):
        results = _results_in(await post_message(connection, _again(probe, method, params)))
        if results:
            is_public = any(each.get("cacheScope") == "public" for each in results)
            heard = await post_with_token(connection, _again(probe, method, params))
            tried.append((method, is_public, not _results_in(heard), connection.proof))
    if not tried:
        probe.skip((_EACH, _CACHED), "the server answers no request with the token either")
        return
    open_ones = [each for each in tried if not each[2]]
    # If only public results need no token, the scope of the cache decides about access.
    is_scope = all(is_public for _, is_public, _, _ in open_ones)
    for method, _, _, proof in [each for each in open_ones if is_scope or not each[1]][:1]:
        connection.proof = proof
        why = f"refuses requests without a token, but answers {method} without one"
        why += " because its result is public" if is_scope else ""
        probe.fail(_CACHED if is_scope else _EACH, why)
    probe.passes(_EACH)
    if any(is_public for _, is_public, _, _ in tried):
        probe.passes(_CACHED)
    probe.skip(_CACHED, "no result has the cacheScope public")


def _harmless_requests(probe: Probe) -> list[tuple[str, JsonObject]]:
    """Return requests that change nothing; another scenario lists tools without a token."""
    found: list[tuple[str, JsonObject]] = [("server/discover", {})]
    declared = [method for name, method in LISTS.items() if probe.facts.declares(name)]
    found += [(method, {}) for method in declared if method != LISTS["tools"]]
    uris = [each.get("uri") for each in probe.facts.resources[:2]]
    return found + [("resources/read", {"uri": uri}) for uri in uris if isinstance(uri, str)]


def _again(probe: Probe, method: str, params: Mapping[str, object]) -> JsonObject:
    return complete_request(probe, method, dict(params))


# -- too few scopes

_REFUSED: Final = "auth.scope.insufficient-403"
_NAMED: Final = "auth.scope.insufficient-names-needed"


@scenario(_REFUSED, _NAMED, opens=open_unjudged, on=("http",))
async def uses_what_another_user_may_not_use(probe: Probe, connection: RawConnection) -> None:
    ids = (_REFUSED, _NAMED)
    if lacks_other_user(probe, ids):
        return
    async with open_as_other(probe) as other:
        requests = [_again(probe, *each) for each in _harmless_requests(probe)[1:]]
        for message in [*requests, *calls(probe)]:
            heard = await post_message(other, message)
            bearer = bearer_challenge([heard.headers.get("www-authenticate", "")])
            # Other refusals have other reasons, such as what the user may do.
            if bearer is None or bearer.error != "insufficient_scope":
                continue
            connection.proof = other.proof
            name = message["method"]
            why = f"answers {name} with {heard} for want of a scope, expected 403"
            if probe.holds(_REFUSED, heard.status == 403, why):
                why = f"refuses {name} for want of a scope without naming its resource_metadata"
                probe.holds(_REFUSED, bearer.resource_metadata, why)
            why = f"refuses {name} for want of a scope, and does not name the scope"
            probe.holds(_NAMED, bearer.scopes, why)
    probe.skip(ids, "the other user has every scope that was needed")


# -- questions to one user, answered by another


@scenario(_PRINCIPAL, _BINDS, _IDENTIFIED, opens=OWN_UNJUDGED, on=("http",), era="stateless")
async def continues_the_request_of_another_user(probe: Probe, connection: RawConnection) -> None:
    ids = (_PRINCIPAL, _BINDS, _IDENTIFIED)
    if lacks_other_user(probe, ids):
        return
    connection.follows_rounds = False
    for tool in probe.facts.callable_tools():
        request = connection.request("tools/call", tool.params)
        reply = await connection.ask("tools/call", tool.params)
        again = answer_round(request, reply, EVERYTHING_STATELESS)
        if again is None or "requestState" not in params_of(again):
            continue
        asked = {each.get("method") for each in input_requests_of(reply.message).values()}
        async with open_as_other(probe) as other:
            other.follows_rounds = False
            await _judge_state(probe, connection, other, again, has_elicited=_ELICIT in asked)
    probe.skip(ids, f"{_NO_QUESTION}, and hands out a requestState")


async def _judge_state(
    probe: Probe,
    connection: RawConnection,
    other: RawConnection,
    again: JsonObject,
    *,
    has_elicited: bool,
) -> None:
    """Judge whether another user can go on with the state of a request."""
    params = {name: value for name, value in params_of(again).items() if name != "_meta"}
    ids = (_PRINCIPAL, *((_BINDS, _IDENTIFIED) if has_elicited else ()))
    bare = {name: value for name, value in params.items() if name != "requestState"}
    if _is_done(await other.ask("tools/call", bare)):
        probe.skip(ids, "the server needs no requestState to go on")
        return
    reply = await other.ask("tools/call", params)
    is_taken = _is_done(reply)
    connection.proof = other.proof
    if not is_taken and not _is_done(await connection.ask("tools/call", params)):
        probe.skip(ids, "the server does not go on for the user that it asked either")
        return
    why = f"goes on for another user with the requestState of a call of {params.get('name')}"
    for id in ids:
        probe.holds(id, not is_taken, why)


def _is_done(reply: Reply) -> bool:
    """Return whether an answer is the result of a request, not a failure or a question."""
    is_asking = reply.result.get("resultType") == INPUT_REQUIRED
    return not (reply.is_error or reply.is_failed_call or is_asking)


@scenario(_BINDS, _IDENTIFIED, opens=OWN_UNJUDGED, on=("http",), era="handshake")
async def answers_the_question_to_another_user(probe: Probe, connection: RawConnection) -> None:
    ids = (_BINDS, _IDENTIFIED)
    if lacks_other_user(probe, ids):
        return
    connection.respond = _leave_elicitations
    for tool in probe.facts.callable_tools() if probe.facts.is_asking else ():
        question, id = await _next_question(connection, tool)
        if question is None:
            continue
        async with open_as_other(probe) as other:
            await _judge_answers(probe, connection, other, question, id)
        if not _is_answered(connection, id):
            await connection.send(answer_to(question, connection.client_capabilities))
        break
    probe.skip(ids, _NO_QUESTION)


async def _leave_elicitations(connection: RawConnection, question: JsonObject) -> None:
    if question.get("method") != _ELICIT:
        await connection.send(answer_to(question, connection.client_capabilities))


async def _next_question(
    connection: RawConnection, tool: ToolCall
) -> tuple[JsonObject | None, object]:
    """Call a tool; return the question that it puts to the user, and the id of the call."""
    since = len(connection.received)
    id = await connection.start("tools/call", tool.params)

    def is_next(message: JsonObject) -> bool:
        is_answer = "method" not in message and is_same_id(message.get("id"), id)
        return is_answer or (message.get("method") == _ELICIT and "id" in message)

    try:
        found = await connection.until(is_next, f"an answer of {tool.name}", since=since)
    except MessageTimeout:
        return None, id
    return (found if "method" in found else None), id


def _is_answered(connection: RawConnection, id: object) -> bool:
    return any(
        "method" not in each and is_same_id(each.get("id"), id) for each in connection.received
    )


async def _judge_answers(
    probe: Probe, connection: RawConnection, other: RawConnection, question: JsonObject, id: object
) -> None:
    """Answer a question in the session of another user, then with the token of another user."""
    answer = answer_to(question, connection.client_capabilities)
    await post_message(other, answer)
    await connection.collect(probe.target.settling)
    proof = other.proof
    is_taken = _is_answered(connection, id)
    connection.proof = proof
    why = "goes on with a call of one user when another user answers its question"
    if not probe.holds(_BINDS, not is_taken, why):
        return
    if connection.carrier.session is None:
        probe.not_applicable(_IDENTIFIED, "the server gives no session ids")
        return
    token = f"Bearer {probe.target.other_token}"
    await post_message(connection, answer, authorization=token)
    proof = connection.proof
    await connection.collect(probe.target.settling)
    connection.proof = proof
    why = "takes the answer of another user, because it names the session of the first one"
    probe.holds(_IDENTIFIED, not _is_answered(connection, id), why)


# -- tasks


@scenario(_TASKS, opens=OWN_UNJUDGED, on=("http",), era="stateless")
async def asks_for_a_task_that_another_user_began(probe: Probe, connection: RawConnection) -> None:
    if lacks_other_user(probe, (_TASKS,)):
        return
    for tool in probe.facts.callable_tools():
        task = task_id(await call_for_task(connection, tool))
        if task is None:
            continue
        async with open_as_other(probe) as other:
            for method in ("tasks/get", "tasks/cancel"):
                heard = await operate(other, method, task)
                connection.proof = other.proof
                why = f"answers {method} of a task of another user with {heard}"
                probe.holds(_TASKS, heard.is_error, why)
        return
    probe.skip(_TASKS, NO_TASK)
