"""The grants of OAuth 2.1 as pure functions and generator flows: no network, clock or browser.

By a code, by the client's own credentials, and by another device (RFC 8628), on which the user
authorizes while this one polls.
"""

import hmac
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from accord.auth.client_identity import (
    ClientIdentity,
    ClientKey,
    DpopKey,
    Pkce,
    send_with_proof,
    token_request,
)
from accord.auth.discovery import DiscoveryResult, send_request
from accord.auth.tokens import TokenGrant
from accord.errors import FlowFailed
from accord.http.client.guarded import Flow, HttpRequest, HttpResponse
from accord.http.rules.responses import quote_text, quote_url

STEP_AUTHORIZATION: Final = "authorization"
STEP_EXCHANGE: Final = "token"
_TOKEN_MOST: Final = 16 * 1024
DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
STEP_DEVICE: Final = "device authorization"
# The defaults of RFC 8628, sections 3.2 and 3.5.
_INTERVAL: Final = 5.0
_SLOWER: Final = 5.0
_LIFETIME: Final = 600.0
_LONGEST: Final = 500


class TokenRefused(FlowFailed):
    """The token endpoint answered with an error; `error` is its code.

    `is_temporary` says that the same request may succeed later.
    """

    def __init__(
        self, step: str, *, asked: str, came: str, hint: str, error: str, is_temporary: bool = False
    ) -> None:
        super().__init__(step, asked=asked, came=came, hint=hint)
        self.error = error
        self.is_temporary = is_temporary


class ResourceRejected(FlowFailed):
    """The authorization server does not accept the parameter `resource`."""


class ForgedResponse(FlowFailed):
    """An authorization response that answers another request, or is from another server.

    Nothing in it is used or shown.
    """


class GrantRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part that all requests for one grant share: the server, the client and the scopes."""

    found: DiscoveryResult
    client: ClientIdentity
    key: ClientKey | None = None
    dpop: DpopKey | None = None
    scopes: tuple[str, ...] = ()
    names_resource: bool = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(client={self.client!r}, scopes={self.scopes})"


class AuthorizationRequest(GrantRequest, frozen=True, kw_only=True):
    """An authorization request, with the values that its response is compared with."""

    redirect_uri: str
    pkce: Pkce
    state: str
    assumes_pkce: bool = False

    def is_from_issuer(self, params: Mapping[str, str]) -> bool:
        """Whether a response may be from the server that was asked (RFC 9207), compared exactly."""
        iss, server = params.get("iss"), self.found.server
        if iss is None:  # auth.iss.reject-absent-when-advertised
            return not server.authorization_response_iss_parameter_supported
        return iss == server.issuer  # auth.iss.exact-string


# -- scopes


def choose_scopes(
    found: DiscoveryResult,
    *,
    wanted: Iterable[str] | None,
    challenged: Iterable[str] = (),
    held: Iterable[str] = (),
    offline: bool = True,
) -> tuple[str, ...]:
    """Choose the scopes to ask for: those of the challenge, or all that the resource supports.

    Args:
        found: the result of discovery.
        wanted: the scopes of the settings, in place of those that the resource supports.
        challenged: the scopes of the challenge.
        held: the scopes of the last request, which are kept.
        offline: whether to ask for a refresh token if there is a scope for that.
    """
    scopes = [*(wanted or ()), *challenged]
    if not scopes and found.resource_metadata is not None:
        scopes = list(found.resource_metadata.scopes_supported or ())
    scopes = [*held, *scopes]
    # Alone it would replace the default scopes of the server.
    if offline and scopes and "offline_access" in (found.server.scopes_supported or ()):
        scopes.append("offline_access")
    return tuple(dict.fromkeys(scopes))


# -- the authorization request and its response


def authorization_url(request: AuthorizationRequest) -> str:
    """Return the URL that the user has to visit.

    Raises:
        FlowFailed: the server has no authorization endpoint, or does not support PKCE.
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
    if server.omits_pkce and not request.assumes_pkce:  # auth.pkce.refuse-without-methods
        raise FlowFailed(
            STEP_AUTHORIZATION,
            asked=server.url,
            came="metadata without code_challenge_methods_supported",
            hint="it has to name S256; if you know that the authorization server checks PKCE all "
            "the same, pass OAuth(pkce='assume')",
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
    if request.dpop is not None:
        fields["dpop_jkt"] = request.dpop.thumbprint  # the code is bound to the key as well
    parts = urlsplit(endpoint)
    kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in fields]
    query = urlencode([*kept, *fields.items()])
    # The URL is printed in terminals, where other characters may be commands.
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def read_authorization_response(params: Mapping[str, str], request: AuthorizationRequest) -> str:
    """Return the code of an authorization response, if it answers this request.

    Raises:
        ResourceRejected: the response is an error about the parameter `resource`.
        ForgedResponse: the state or the issuer is wrong.
        FlowFailed: it is another error, or has no code.
    """
    server = request.found.server
    asked = quote_url(server.authorization_endpoint or "")
    if not hmac.compare_digest(params.get("state", "").encode(), request.state.encode()):
        came = "a response with another state"  # auth.state.verified
        hint = "start again; the response may be forged"
        raise ForgedResponse(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
    if not request.is_from_issuer(params):  # auth.iss.compare-present, auth.iss.errors-too
        iss = params.get("iss")
        came = "a response without iss" if iss is None else f"a response from issuer {iss[:200]!r}"
        hint = f"expected iss={server.issuer}; another server may be impersonating it"
        raise ForgedResponse(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
    error = params.get("error")
    if error:
        error, about = quote_text(error), quote_text(params.get("error_description", ""))
        came = f"{error[:100]}: {about}" if about else error[:100]
        if request.names_resource and _is_about_resource(error, about):
            hint = "the server does not accept the parameter resource: OAuth(resource='omit')"
            raise ResourceRejected(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
        hint = _HINTS.get(error, _TRY_LATER if error in _TEMPORARY_ERRORS else "")
        raise FlowFailed(STEP_AUTHORIZATION, asked=asked, came=came, hint=hint)
    code = params.get("code")
    if not code:
        raise FlowFailed(STEP_AUTHORIZATION, asked=asked, came="a response without a code")
    return code


# -- the token endpoint


def exchange_code(code: str, request: AuthorizationRequest, now: float) -> Flow[TokenGrant]:
    """Redeem a code.

    Raises:
        TokenRefused: the server does not accept it.
        ResourceRejected: it does not accept the parameter `resource`.
        FlowFailed: the response has no valid token.
    """
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": request.redirect_uri,
        "code_verifier": request.pkce.verifier,
    }
    return (yield from _request_token(request, fields, now))


def request_client_credentials(asked: GrantRequest, now: float) -> Flow[TokenGrant]:
    """Obtain a token for the client itself.

    Raises:
        TokenRefused: the server does not grant one.
        FlowFailed: the response has no valid token.
    """
    fields = {"grant_type": "client_credentials"}
    if asked.scopes:
        fields["scope"] = " ".join(asked.scopes)
    return (yield from _request_token(asked, fields, now))


def request_with_assertion(asked: GrantRequest, assertion: str, now: float) -> Flow[TokenGrant]:
    """Obtain a token by the assertion of another authority (RFC 7523).

    Raises:
        TokenRefused: the server does not accept it.
        FlowFailed: the response has no valid token.
    """
    fields = {"grant_type": ASSERTION_GRANT, "assertion": assertion}
    if asked.scopes:
        fields["scope"] = " ".join(asked.scopes)
    return (yield from _request_token(asked, fields, now))


def _request_token(asked: GrantRequest, fields: Mapping[str, str], now: float) -> Flow[TokenGrant]:
    """Ask the token endpoint for a token, with the form fields of a grant."""
    server = asked.found.server
    if server.token_endpoint is None:
        came = "metadata without a token_endpoint"
        raise FlowFailed(STEP_EXCHANGE, asked=server.url, came=came)
    wanted = TokenGrant(
        issuer=server.issuer,
        resource=asked.found.resource,
        client=asked.client,
        token_endpoint=server.token_endpoint,
        access_token="",
        scopes=asked.scopes,
        asked=asked.scopes,
        names_resource=asked.names_resource,
        thumbprint="" if asked.dpop is None else asked.dpop.thumbprint,
    )
    return (yield from _fill(wanted, fields, STEP_EXCHANGE, now, asked.key, asked.dpop))


def refresh(
    grant: TokenGrant, now: float, *, key: ClientKey | None = None, dpop: DpopKey | None = None
) -> Flow[TokenGrant]:
    """Renew a token; the refresh token is kept if the response has none.

    Raises:
        TokenRefused: the server does not accept the refresh token.
        FlowFailed: the server cannot be reached, or the response has no valid token.
    """
    fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token or ""}
    return (yield from _fill(grant, fields, "refresh", now, key, dpop))


def _fill(
    grant: TokenGrant,
    fields: Mapping[str, str],
    step: str,
    now: float,
    key: ClientKey | None,
    dpop: DpopKey | None,
) -> Flow[TokenGrant]:
    """Ask the token endpoint of a grant for a token, and return the grant with it."""
    if grant.names_resource:  # auth.resource.both-requests
        fields = {**fields, "resource": grant.resource}
    request = token_request(
        grant.token_endpoint, fields, grant.client, issuer=grant.issuer, key=key, now=now
    )
    response = yield from send_with_proof(request, step, dpop, now)
    said = _read_token_response(response, request, step, grant)
    return _with_response(grant, said, now)


def _read_token_response(
    response: HttpResponse, request: HttpRequest, step: str, grant: TokenGrant
) -> Mapping[str, Any]:
    said = response.object() or {}
    error = said.get("error")
    if not response.is_ok or isinstance(error, str):
        code = error if isinstance(error, str) else ""
        about = str(said.get("error_description", ""))
        asked, came = request.summary, _without_secrets(response.summary, request)
        if grant.names_resource and _is_about_resource(code, about):
            hint = "the server does not accept the parameter resource: OAuth(resource='omit')"
            raise ResourceRejected(step, asked=asked, came=came, hint=hint)
        # A response without an OAuth error may come from a proxy.
        is_temporary = code in _TEMPORARY_ERRORS or not (code or response.status in (400, 401))
        hint = _HINTS.get(code, _TRY_LATER if is_temporary else "")
        if not code and response.status in range(402, 429):
            hint = (
                "check that token_endpoint in its metadata is right, and that no proxy interferes"
            )
        raise TokenRefused(
            step, asked=asked, came=came, hint=hint, error=code, is_temporary=is_temporary
        )
    token, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(token, str) or not token or len(token) > _TOKEN_MOST or not token.isascii():
        came = f"{response.summary}, without an access_token"
        hint = "its token_endpoint has to answer with the JSON object of RFC 6749, section 5.1"
        raise FlowFailed(step, asked=request.summary, came=came, hint=hint)
    if any(char.isspace() or not char.isprintable() for char in token):
        raise FlowFailed(step, asked=request.summary, came="a token with spaces in it")
    wanted = "dpop" if grant.thumbprint else "bearer"
    if not isinstance(kind, str) or kind.lower() != wanted:
        came = f"a token of type {str(kind)[:40]!r}"
        hint = (
            "the authorization server does not bind tokens to a key: leave OAuth(dpop=...) out"
            if grant.thumbprint
            else "only bearer tokens, and with OAuth(dpop=...) bound ones, are supported"
        )
        raise FlowFailed(step, asked=request.summary, came=came, hint=hint)
    return said


def _without_secrets(text: str, request: HttpRequest) -> str:
    """Remove the secrets of the request: some servers repeat them in their errors."""
    from accord.secrets.filter import SecretFilter
    from accord.secrets.recognition import is_oauth_secret

    fields = parse_qsl((request.body or b"").decode())
    secrets = [value for name, value in fields if is_oauth_secret(name) and len(value) > 3]
    return SecretFilter(secrets).hide(text)


def _with_response(grant: TokenGrant, said: Mapping[str, Any], now: float) -> TokenGrant:
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
    """Read a lifetime, which some servers write as text; None if it is missing or invalid."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12:
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
        return float(value)
    return None


def _is_about_resource(error: str, about: str) -> bool:
    """Whether an error is explicitly about `resource`; a guess would hide other mistakes."""
    return error == "invalid_target" or (error == "invalid_request" and "resource" in about.lower())


_TRY_LATER: Final = "try again later"
_TEMPORARY_ERRORS: Final = frozenset({"server_error", "slow_down", "temporarily_unavailable"})
_HINTS: Final = {
    "access_denied": "the user declined; authorize again to change that",
    "invalid_client": "the server does not know the client, its secret or key is wrong, or has to "
    "be sent in another way: OAuth(authenticate=...), ClientKey(audience=...)",
    "invalid_grant": "authorize again: the code or the refresh token was used before or revoked",
    "invalid_scope": "ask for other scopes with OAuth(scopes=[...])",
    "unauthorized_client": "the client may not use this grant",
    "unsupported_grant_type": "use another grant, as in OAuth(grant='client_credentials')",
}


# -- another device


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """The codes of a device authorization; `repr` does not show them."""

    device_code: str
    user_code: str
    verification_uri: str
    interval: float = _INTERVAL
    expires_in: float = _LIFETIME

    def __repr__(self) -> str:
        return f"DeviceCode({self.verification_uri!r})"

    @property
    def instructions(self) -> str:
        return f"open {_printable(self.verification_uri)} and enter the code {self.user_code}"


def start_device(asked: GrantRequest, now: float) -> Flow[DeviceCode]:
    """Ask for a code that the user can enter.

    Raises:
        FlowFailed: the server has no such grant, or refuses.
    """
    server = asked.found.server
    endpoint = server.device_authorization_endpoint
    if endpoint is None:
        came = "metadata without a device_authorization_endpoint"
        hint = "use another grant: the server does not offer this one"
        raise FlowFailed(STEP_DEVICE, asked=server.url, came=came, hint=hint)
    fields = {"scope": " ".join(asked.scopes)} if asked.scopes else {}
    if asked.names_resource:
        fields["resource"] = asked.found.resource
    request = token_request(
        endpoint, fields, asked.client, issuer=server.issuer, key=asked.key, now=now
    )
    response = yield from send_request(request, STEP_DEVICE)
    said = response.object() or {}
    texts = [said.get(name) for name in ("device_code", "user_code", "verification_uri")]
    if not response.is_ok or not all(isinstance(each, str) and each for each in texts):
        raise FlowFailed(STEP_DEVICE, asked=request.summary, came=response.summary)
    return DeviceCode(
        device_code=said["device_code"],
        user_code=_printable(said["user_code"]),
        verification_uri=said["verification_uri"][:_LONGEST],
        interval=_number(said.get("interval"), _INTERVAL),
        expires_in=_number(said.get("expires_in"), _LIFETIME),
    )


def poll_device(code: DeviceCode, asked: GrantRequest, now: float) -> Flow[TokenGrant | float]:
    """Ask once whether the user has authorized; return the next interval if not.

    Raises:
        FlowFailed: the user declined, or the code has expired.
    """
    fields = {"grant_type": DEVICE_GRANT, "device_code": code.device_code}
    try:
        return (yield from _request_token(asked, fields, now))
    except TokenRefused as error:
        if error.error == "authorization_pending":
            return code.interval
        if error.error == "slow_down" or error.is_temporary:
            return code.interval + _SLOWER
        raise


def _number(value: object, usual: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 86_400 else usual  # type: ignore[operator,arg-type]  # a number


def _printable(text: str) -> str:
    return "".join(char for char in text if char.isprintable())[:_LONGEST]
