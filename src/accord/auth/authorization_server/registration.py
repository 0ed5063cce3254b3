"""Dynamic registration (RFC 7591): what a program says about itself, checked field by field. Pure.

Fields that mean nothing here are dropped, as the standard has it; the answer says what was taken.
"""

import unicodedata
from typing import Any, Final

import msgspec

from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    REFRESH_TOKEN,
    ClientAuthentication,
    OAuthRefusal,
    RegisteredClient,
)
from accord.auth.authorization_server.secrets import digest, new_secret
from accord.auth.urls import redirect_fault

__all__ = ["BODY_MOST", "read_registration", "registered"]

# Honest registrations have some hundred bytes, one or two URIs and short names.
BODY_MOST: Final = 16 * 1024
_URIS_MOST: Final = 10
_NAME_MOST: Final = 100
_SCOPE_MOST: Final = 1_000
_GRANTS: Final = (AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE)
_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")


class _Registration(msgspec.Struct, kw_only=True):
    redirect_uris: list[str] = msgspec.field(default_factory=list)
    token_endpoint_auth_method: str = "client_secret_basic"  # noqa: S105  # the default of RFC 7591
    grant_types: list[str] = msgspec.field(
        default_factory=lambda: [AUTHORIZATION_CODE, REFRESH_TOKEN]
    )
    response_types: list[str] | None = None
    client_name: str = ""
    scope: str | None = None


def read_registration(
    body: bytes, *, now: float, known_scopes: frozenset[str]
) -> tuple[RegisteredClient, str | None]:
    """Read what a program says about itself; return it as a client, with its secret if it has one.

    Raises:
        Refusal: something cannot be registered.
    """
    if len(body) > BODY_MOST:
        raise OAuthRefusal(
            "invalid_client_metadata", f"a registration has at most {BODY_MOST} bytes", status=413
        )
    try:
        asked = msgspec.json.decode(body, type=_Registration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(f"the registration cannot be read: {str(error)[:200].lower()}") from None
    grants = _grant_types(asked)
    _check_response_types(asked, grants)
    secret = None if asked.token_endpoint_auth_method == "none" else new_secret()  # noqa: S105
    client = RegisteredClient(
        client_id=new_secret(16),
        name=_name(asked.client_name),
        redirect_uris=_redirect_uris(asked, grants),
        grant_types=grants,
        authentication=_authentication(asked.token_endpoint_auth_method),
        secret_hash=None if secret is None else digest(secret),
        scopes=_scopes(asked.scope, known_scopes),
        created_at=now,
    )
    return client, secret


def registered(client: RegisteredClient, secret: str | None) -> dict[str, Any]:
    """Return what a program is told about its registration."""
    document: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created_at),
        "redirect_uris": client.redirect_uris,
        "grant_types": client.grant_types,
        "response_types": ["code"] if AUTHORIZATION_CODE in client.grant_types else [],
        "token_endpoint_auth_method": client.authentication,
    }
    if secret is not None:
        document |= {"client_secret": secret, "client_secret_expires_at": 0}
    if client.name:
        document["client_name"] = client.name
    if client.scopes is not None:
        document["scope"] = " ".join(client.scopes)
    return document


def _refused(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client_metadata", why)


def _grant_types(asked: _Registration) -> tuple[str, ...]:
    grants = tuple(dict.fromkeys(asked.grant_types))
    if CLIENT_CREDENTIALS in grants:
        # Whoever may register could otherwise get in without any person's consent.
        raise _refused("client_credentials is for clients that the operator has set up")
    known = tuple(grant for grant in grants if grant in _GRANTS)
    if not {AUTHORIZATION_CODE, DEVICE_CODE} & set(known):
        raise _refused(f"grant_types must name {AUTHORIZATION_CODE} or {DEVICE_CODE}")
    return known


def _check_response_types(asked: _Registration, grants: tuple[str, ...]) -> None:
    if asked.response_types is None:
        return
    if AUTHORIZATION_CODE in grants and "code" not in asked.response_types:
        raise _refused("response_types must name code where grant_types has authorization_code")


def _redirect_uris(asked: _Registration, grants: tuple[str, ...]) -> tuple[str, ...]:
    uris = tuple(dict.fromkeys(asked.redirect_uris))
    if len(uris) > _URIS_MOST:
        raise OAuthRefusal("invalid_redirect_uri", f"at most {_URIS_MOST} redirect URIs are taken")
    if not uris and AUTHORIZATION_CODE in grants:
        raise OAuthRefusal("invalid_redirect_uri", "redirect_uris is missing")
    for uri in uris:
        fault = redirect_fault(uri)
        if fault is not None:
            raise OAuthRefusal("invalid_redirect_uri", f"redirect URI {uri[:200]!r} {fault}")
    return uris


def _authentication(method: str) -> ClientAuthentication:
    if method not in _METHODS:
        shown = ", ".join(_METHODS)
        raise _refused(f"token_endpoint_auth_method must be one of {shown}, not {method[:50]!r}")
    return method  # type: ignore[return-value]  # one of the three


def _name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > _NAME_MOST:
        raise _refused(f"client_name has at most {_NAME_MOST} characters")
    # Characters that are not seen, or that turn the direction of text, serve only to deceive.
    if any(unicodedata.category(each) in ("Cc", "Cf", "Co", "Cs") for each in name):
        raise _refused("client_name has characters that cannot be seen")
    return name


def _scopes(scope: str | None, known: frozenset[str]) -> tuple[str, ...] | None:
    if scope is None:
        return None
    if len(scope) > _SCOPE_MOST:
        raise _refused(f"scope has at most {_SCOPE_MOST} characters")
    kept = tuple(each for each in dict.fromkeys(scope.split()) if each in known)
    return kept or None
