"""The authorization request of a client, checked. Pure.

Until the redirect URI is known to be the client's own, a fault is shown to the user; after that the
browser carries it to the client.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    AuthorizationServerSettings,
    OAuthRefusal,
    RegisteredClient,
)
from accord.auth.urls import is_loopback_url, is_same_redirect, is_same_resource, with_query

_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# Asks for a refresh token; it does not permit anything by itself.
_OFFLINE: Final = "offline_access"


class ConsentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks the user to consent to."""

    client: RegisteredClient
    redirect_uri: str
    state: str | None
    scopes: tuple[str, ...]
    resource: str
    challenge: str
    is_silent: bool = False


class RedirectedRefusal(Exception):
    """A request that is refused by sending the browser back with an error.

    `is_trusted` says that the browser may go there without asking the user.
    """

    def __init__(self, refusal: OAuthRefusal, location: str, *, is_trusted: bool) -> None:
        super().__init__(location)
        self.refusal = refusal
        self.location = location
        self.is_trusted = is_trusted


def read_authorization(
    given: Mapping[str, str],
    *,
    client: Callable[[str], RegisteredClient | None],
    settings: AuthorizationServerSettings,
    resources: tuple[str, ...],
    issuer: str,
) -> ConsentRequest:
    """Check an authorization request.

    Raises:
        OAuthRefusal: the reason is shown to the user; the browser is not redirected.
        RedirectedRefusal: the reason is sent to the client.
    """
    asking, redirect_uri = _find_client(given, client)
    try:
        _check_response(given)
        _check_pkce(given)
        if AUTHORIZATION_CODE not in asking.grant_types:
            raise OAuthRefusal("unauthorized_client", "the client is not registered for this grant")
        return ConsentRequest(
            client=asking,
            redirect_uri=redirect_uri,
            state=given.get("state"),
            scopes=choose_scopes(given.get("scope"), asking, settings),
            resource=choose_resource(given.get("resource"), resources),
            challenge=given["code_challenge"],
            is_silent="none" in given.get("prompt", "").split(),
        )
    except OAuthRefusal as refusal:
        location = redirect_location(
            redirect_uri,
            issuer,
            given.get("state"),
            error=refusal.error,
            error_description=refusal.description,
        )
        is_trusted = is_trusted_redirect(redirect_uri, asking, settings)
        raise RedirectedRefusal(refusal, location, is_trusted=is_trusted) from None


def is_trusted_redirect(
    redirect_uri: str, client: RegisteredClient, settings: AuthorizationServerSettings
) -> bool:
    """Whether a browser may be redirected before the user has decided anything.

    Any program can register any URI: an open redirector would lead there.
    """
    return client.client_id in settings.clients or is_loopback_url(redirect_uri)


def redirect_location(redirect_uri: str, issuer: str, state: str | None, **values: str) -> str:
    """Return the URL that carries the response to the client; it always names the issuer."""
    return with_query(redirect_uri, **values, state=state, iss=issuer)  # auth.iss.as-sends


def _find_client(
    given: Mapping[str, str], client: Callable[[str], RegisteredClient | None]
) -> tuple[RegisteredClient, str]:
    client_id = given.get("client_id")
    if client_id is None:
        raise OAuthRefusal("invalid_request", "the program sent no client_id")
    found = client(client_id)
    if found is None:
        raise OAuthRefusal(
            "invalid_client",
            "the program is not registered here; start it again, so that it registers anew",
        )
    asked = given.get("redirect_uri")
    if asked is None:
        if len(found.redirect_uris) == 1:
            return found, found.redirect_uris[0]
        raise OAuthRefusal("invalid_request", "the program sent no redirect_uri")
    if not any(is_same_redirect(each, asked) for each in found.redirect_uris):
        raise OAuthRefusal(
            "invalid_request", "the redirect_uri of the program is not one that it registered"
        )
    return found, asked


def _check_response(given: Mapping[str, str]) -> None:
    for name in ("request", "request_uri"):
        if name in given:
            raise OAuthRefusal(f"{name}_not_supported", f"{name} is not supported")
    kind = given.get("response_type")
    if kind is None:
        raise OAuthRefusal("invalid_request", "response_type is missing")
    if kind != "code":
        raise OAuthRefusal("unsupported_response_type", "response_type must be code")
    if given.get("response_mode", "query") != "query":
        raise OAuthRefusal("invalid_request", "response_mode must be query")


def _check_pkce(given: Mapping[str, str]) -> None:
    challenge = given.get("code_challenge")
    if challenge is None:
        raise OAuthRefusal("invalid_request", "code_challenge is missing: PKCE is required")
    # The default is plain, which shows the verifier to all programs that see the request.
    if given.get("code_challenge_method") != "S256":
        raise OAuthRefusal("invalid_request", "code_challenge_method must be S256")
    if not _CHALLENGE.fullmatch(challenge):
        raise OAuthRefusal("invalid_request", "code_challenge must be 43 characters of base64url")


def choose_scopes(
    asked: str | None, client: RegisteredClient, settings: AuthorizationServerSettings
) -> tuple[str, ...]:
    """Return those of the requested scopes that may be granted.

    Raises:
        OAuthRefusal: none of them may be granted.
    """
    allowed = allowed_scopes(client, settings)
    wanted = [each for each in dict.fromkeys((asked or "").split()) if each != _OFFLINE]
    if not wanted:
        return tuple(each for each in settings.default_scopes if each in allowed)
    found = tuple(each for each in wanted if each in allowed)
    if not found and settings.scopes:
        raise OAuthRefusal(
            "invalid_scope", f"none of these scopes was requested: {' '.join(allowed)}"
        )
    return found


def allowed_scopes(
    client: RegisteredClient, settings: AuthorizationServerSettings
) -> tuple[str, ...]:
    """Return all scopes that a client may ask for."""
    may = client.scopes
    return tuple(each for each in settings.scopes if may is None or each in may)


def choose_resource(asked: str | None, resources: tuple[str, ...]) -> str:
    """Return the resource that a token will be for.

    Raises:
        OAuthRefusal: the resource is unknown, or there are several and the request names none.
    """
    if asked is None:
        if len(resources) == 1:
            return resources[0]
        raise OAuthRefusal("invalid_target", "resource must say what the token is for")
    for known in resources:
        if is_same_resource(known, asked):
            return known
    raise OAuthRefusal("invalid_target", f"resource {asked[:200]!r} is not known here")
