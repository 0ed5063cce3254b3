"""The grants of OAuth 2.1 as pure functions and generator flows: no network, clock or browser."""

import hmac
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from accord.auth.client_key import ClientKey, proof_of
from accord.auth.credentials import ClientIdentity, token_request
from accord.auth.discovery import Discovered, ServerMetadata
from accord.auth.pkce import Pkce
from accord.auth.tokens import Grant
from accord.bindings.shown import plain, shown_url
from accord.errors import FlowFailed
from accord.transports.http.client.requests import Flow, HttpRequest, HttpResponse, NoResponse

__all__ = [
    "AuthorizationRequest",
    "ResourceRejected",
    "TokenRefused",
    "authorization_url",
    "chosen_scopes",
    "code_in",
    "exchange_code",
    "refresh",
    "request_client_credentials",
    "request_token",
]

STEP_AUTHORIZATION: Final = "authorization"
STEP_EXCHANGE: Final = "token"
_LONGEST: Final = 16 * 1024


class TokenRefused(FlowFailed):
    """The token endpoint answered with an error; `error` is its code.

    `is_passing` says that the same may be asked again later.
    """

    def __init__(
        self, step: str, *, asked: str, came: str, hint: str, error: str, is_passing: bool = False
    ) -> None:
        super().__init__(step, asked=asked, came=came, hint=hint)
        self.error = error
        self.is_passing = is_passing


class ResourceRejected(FlowFailed):
    """The authorization server does not take the parameter `resource`."""


class AuthorizationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is asked for, and what the answer is compared with."""

    found: Discovered
    client: ClientIdentity
    key: ClientKey | None = None
    redirect_uri: str
    pkce: Pkce
    state: str
    scopes: tuple[str, ...] = ()
    names_resource: bool = True

    def __repr__(self) -> str:
        return f"AuthorizationRequest(client={self.client!r}, scopes={self.scopes})"


# -- scopes


def chosen_scopes(
    found: Discovered,
    *,
    wanted: Iterable[str] | None,
    challenged: Iterable[str] = (),
    held: Iterable[str] = (),
    offline: bool = True,
) -> tuple[str, ...]:
    """Choose the scopes to ask for: what the challenge names, else what the resource supports.

    Args:
        found: what was discovered.
        wanted: what the program asks for, in place of what the resource supports.
        challenged: what the challenge names.
        held: what was asked for before, and is not to be lost.
        offline: whether to ask to be remembered, where that is a scope of its own.
    """
    scopes = [*(wanted or ()), *challenged]
    if not scopes and found.resource_metadata is not None:
        scopes = list(found.resource_metadata.scopes_supported or ())
    scopes = [*held, *scopes]
    # Alone it would replace the scopes that are granted where none are named.
    if offline and scopes and "offline_access" in (found.server.scopes_supported or ()):
        scopes.append("offline_access")
    return tuple(dict.fromkeys(scopes))


# -- the authorization request and what comes back


def authorization_url(request: AuthorizationRequest) -> str:
    """Return the URL that a person has to visit.

    Raises:
        FlowFailed: the server has no such endpoint, or cannot keep the code safe.
    """
    server = request.found.server
    endpoint = server.authorization_endpoint
    if endpoint is None or urlsplit(endpoint).scheme not in ("http", "https"):
        came = "metadata without an authorization_endpoint"
        hint = "use another grant, such as OAuth(grant='client_credentials')"
        raise FlowFailed(STEP_AUTHORIZATION, asked=server.url, came=came, hint=hint)
    if server.refuses_pkce:  # auth.pkce.implemented
        raise FlowFailed(
            STEP_AUTHORIZATION,
            asked=server.url,
            came="code_challenge_methods_supported without S256",
            hint="the authorization server has to support PKCE with S256",
        )
    fields = {
        "response_type": "code",
        "client_id": request.client.client_id,
        "redirect_uri": request.redirect_uri,
        "state": request.state,
        "code_challenge": request.pkce.challenge,
        "code_challenge_method": "S256",
    }
    if request.scopes:
        fields["scope"] = " ".join(request.scopes)
    if request.names_resource:  # auth.resource.both-requests
        fields["resource"] = request.found.resource
    if "offline_access" in request.scopes:
        fields["prompt"] = "consent"  # without it OpenID Connect grants no refresh token
    parts = urlsplit(endpoint)
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in fields]
    query = urlencode([*kept, *fields.items()])
    # It is shown in terminals, where other characters may be commands.
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def code_in(params: Mapping[str, str], request: AuthorizationRequest) -> str:
    """Return the code of an authorization response, if it is the answer to our request.

    Raises:
        ResourceRejected: it is an error about the parameter `resource`.
        FlowFailed: it is another error, or the answer of another, or to another.
    """
    server, asked = (
        request.found.server,
        shown_url(request.found.server.authorization_endpoint or ""),
    )
    if not hmac.compare_digest(params.get("state", "").encode(), request.state.encode()):
        came = "a response whose state is not ours"  # auth.state.verified
        hint = "begin anew; the response may have been forged"
        raise FlowFailed(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
    _check_issuer(params.get("iss"), server, asked)
    error = params.get("error")
    if error:
        error, about = plain(error), plain(params.get("error_description", ""))
        came = f"{error[:100]}: {about}" if about else error[:100]
        if request.names_resource and _is_about_resource(error, about):
            hint = "the server does not take the parameter resource: OAuth(resource='omit')"
            raise ResourceRejected(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
        hint = _HINTS.get(error, _LATER if error in _PASSING_ERRORS else "")
        raise FlowFailed(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
    code = params.get("code")
    if not code:
        raise FlowFailed(STEP_AUTHORIZATION, asked=asked, came="a response without a code")
    return code


def _check_issuer(iss: str | None, server: ServerMetadata, asked: str) -> None:
    """Refuse the answer of another authorization server (RFC 9207), compared as it is written."""
    if iss is None and not server.authorization_response_iss_parameter_supported:
        return
    if iss != server.issuer:
        came = "a response without iss" if iss is None else f"a response of issuer {iss[:200]!r}"
        hint = f"it has to name {server.issuer}; another server may be trying to pose as it"
        raise FlowFailed(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)


# -- the token endpoint


def exchange_code(code: str, request: AuthorizationRequest, now: float) -> Flow[Grant]:
    """Redeem a code.

    Raises:
        TokenRefused: the server does not take it.
        ResourceRejected: it does not take the parameter `resource`.
        FlowFailed: what came is no token.
    """
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": request.redirect_uri,
        "code_verifier": request.pkce.verifier,
    }
    return (
        yield from request_token(
            request.found,
            request.client,
            fields,
            now,
            key=request.key,
            scopes=request.scopes,
            names_resource=request.names_resource,
        )
    )


def request_client_credentials(
    found: Discovered,
    client: ClientIdentity,
    now: float,
    *,
    key: ClientKey | None = None,
    scopes: tuple[str, ...] = (),
    names_resource: bool = True,
) -> Flow[Grant]:
    """Obtain a token for the client itself.

    Raises:
        TokenRefused: the server does not grant one.
        FlowFailed: what came is no token.
    """
    fields = {"grant_type": "client_credentials"}
    if scopes:
        fields["scope"] = " ".join(scopes)
    return (
        yield from request_token(
            found, client, fields, now, key=key, scopes=scopes, names_resource=names_resource
        )
    )


def request_token(
    found: Discovered,
    client: ClientIdentity,
    fields: Mapping[str, str],
    now: float,
    *,
    key: ClientKey | None = None,
    scopes: tuple[str, ...] = (),
    names_resource: bool = True,
) -> Flow[Grant]:
    """Ask the token endpoint for a token."""
    endpoint = found.server.token_endpoint
    if endpoint is None:
        came = "metadata without a token_endpoint"
        raise FlowFailed(STEP_EXCHANGE, asked=found.server.url, came=came)
    if names_resource:  # auth.resource.both-requests
        fields = {**fields, "resource": found.resource}
    proof = proof_of(client, key, issuer=found.server.issuer, endpoint=endpoint, now=now)
    request = token_request(endpoint, fields, client, proof=proof)
    response = yield from _answered(request, STEP_EXCHANGE)
    said = _token_in(response, request, STEP_EXCHANGE, names_resource=names_resource)
    return _granted(
        Grant(
            issuer=found.server.issuer,
            resource=found.resource,
            client=client,
            token_endpoint=endpoint,
            access_token="",
            scopes=scopes,
            asked=scopes,
            names_resource=names_resource,
        ),
        said,
        now,
    )


def refresh(grant: Grant, now: float, *, key: ClientKey | None = None) -> Flow[Grant]:
    """Renew a token; the refresh token is kept where no other comes back.

    Raises:
        TokenRefused: the server does not take the refresh token any more.
        FlowFailed: the server could not be asked, or what came is no token.
    """
    step = "refresh"
    fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token or ""}
    if grant.names_resource:
        fields["resource"] = grant.resource
    endpoint = grant.token_endpoint
    proof = proof_of(grant.client, key, issuer=grant.issuer, endpoint=endpoint, now=now)
    request = token_request(endpoint, fields, grant.client, proof=proof)
    response = yield from _answered(request, step)
    said = _token_in(response, request, step, names_resource=grant.names_resource)
    return _granted(grant, said, now)


def _answered(request: HttpRequest, step: str) -> Flow[HttpResponse]:
    try:
        return (yield request)
    except NoResponse as error:
        raise FlowFailed(step, asked=request.shown, came=error.reason, hint=error.hint) from None


def _token_in(
    response: HttpResponse, request: HttpRequest, step: str, *, names_resource: bool
) -> Mapping[str, Any]:
    said = response.object() or {}
    error = said.get("error")
    if not response.is_ok or isinstance(error, str):
        code = error if isinstance(error, str) else ""
        about = str(said.get("error_description", ""))
        asked, came = request.shown, _without_secrets(response.shown, request)
        if names_resource and _is_about_resource(code, about):
            hint = "the server does not take the parameter resource: OAuth(resource='omit')"
            raise ResourceRejected(step, asked=asked, came=came, hint=hint)
        # What says nothing in the words of OAuth may be somebody in between.
        is_passing = code in _PASSING_ERRORS or not (code or response.status in (400, 401))
        hint = _HINTS.get(code, _LATER if is_passing else "")
        if not code and response.status in range(402, 429):
            hint = (
                "see that token_endpoint in its metadata is right, and that nothing is in between"
            )
        raise TokenRefused(
            step, asked=asked, came=came, hint=hint, error=code, is_passing=is_passing
        )
    token, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(token, str) or not token or len(token) > _LONGEST or not token.isascii():
        came = f"{response.shown}, without an access_token"
        hint = "its token_endpoint has to answer with the JSON object of RFC 6749, section 5.1"
        raise FlowFailed(step, asked=request.shown, came=came, hint=hint)
    if any(char.isspace() or not char.isprintable() for char in token):
        raise FlowFailed(step, asked=request.shown, came="a token with spaces in it")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        came = f"a token of type {str(kind)[:40]!r}"
        raise FlowFailed(step, asked=request.shown, came=came, hint="only bearer tokens are known")
    return said


def _without_secrets(text: str, request: HttpRequest) -> str:
    """Strike out what we sent: some servers repeat it in their errors."""
    for name, value in parse_qsl((request.body or b"").decode()):
        if name in _SECRET_FIELDS and len(value) > 3:
            text = text.replace(value, f"<{name}>")
    return text


def _granted(grant: Grant, said: Mapping[str, Any], now: float) -> Grant:
    lifetime = _seconds(said.get("expires_in"))
    scope, renewed = said.get("scope"), said.get("refresh_token")
    return msgspec.structs.replace(
        grant,
        access_token=said["access_token"],
        refresh_token=renewed if isinstance(renewed, str) and renewed else grant.refresh_token,
        expires_at=None if lifetime is None else now + lifetime,
        lifetime=lifetime or 0,
        scopes=tuple(scope.split()) if isinstance(scope, str) else grant.scopes,
    )


def _seconds(value: object) -> float | None:
    """Read a lifetime, which some servers write as text; none at all means that it is unknown."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12:
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
        return float(value)
    return None


def _is_about_resource(error: str, about: str) -> bool:
    """Whether an error says that `resource` is the matter; a guess would hide other mistakes."""
    return error == "invalid_target" or (error == "invalid_request" and "resource" in about.lower())


_SECRET_FIELDS: Final = frozenset(
    {
        "client_assertion",
        "client_secret",
        "code",
        "code_verifier",
        "device_code",
        "refresh_token",
    }
)
_LATER: Final = "try again later"
_PASSING_ERRORS: Final = frozenset({"server_error", "slow_down", "temporarily_unavailable"})
_HINTS: Final = {
    "access_denied": "somebody declined; authorize again to change that",
    "invalid_client": "the server does not know the client, its secret or key is another, or is "
    "to be shown otherwise: OAuth(authenticate=...), ClientKey(audience=...)",
    "invalid_grant": "authorize again: the code or the refresh token is used up or was revoked",
    "invalid_scope": "ask for other scopes with OAuth(scopes=[...])",
    "unauthorized_client": "the client may not use this grant",
    "unsupported_grant_type": "use another grant, as in OAuth(grant='client_credentials')",
}
