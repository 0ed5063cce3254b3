"""Settings of well-known identity providers, for `AuthorizationServer(upstream=...)`.

Each row of `PROVIDERS` is data: how the issuer is spelled, the scopes that identify a user and give
a refresh token, the claims that identify them for ever, and what the provider does differently.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypedDict, Unpack
from urllib.parse import urlsplit

from accord.auth.authorization_server.upstream.settings import Allow, Upstream

__all__ = ["PROVIDERS", "UpstreamOptions", "auth0", "entra", "github", "google", "keycloak", "okta"]

_TENANT: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OPENID: Final = ("openid", "profile", "email")
_OFFLINE: Final = (*_OPENID, "offline_access")
_LOGIN: Final = MappingProxyType({"prompt": "login"})

PROVIDERS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "github": {
            "title": "GitHub",
            # Plain OAuth: no ID token. Tokens of OAuth apps do not expire, those of GitHub apps do.
            "authorization_endpoint": "https://github.com/login/oauth/authorize",
            "token_endpoint": "https://github.com/login/oauth/access_token",
            "userinfo_endpoint": "https://api.github.com/user",
            "emails_endpoint": "https://api.github.com/user/emails",
            "scopes": ("read:user", "user:email"),
            # The login name can be changed, and taken by another user.
            "subject_claims": ("id",),
            "authenticate": "post",
        },
        "google": {
            "title": "Google",
            "issuer": "https://accounts.google.com",
            "scopes": _OPENID,
            # A refresh token is given only in this way.
            "parameters": {"access_type": "offline", "prompt": "consent"},
            "switch_parameters": {"prompt": "select_account consent"},
            # Of other domains an address was verified once, and may belong to another user now.
            "email_domain_claim": "hd",
            "own_email_domains": ("gmail.com",),
            "authenticate": "post",
        },
        "entra": {
            "title": "Microsoft",
            "issuer": "https://login.microsoftonline.com/{tenant}/v2.0",
            "scopes": _OFFLINE,
            # `sub` differs from app to app; both of these stay.
            "subject_claims": ("tid", "oid"),
            # Administrators of any tenant can write any address into a token.
            "email_verified_claim": "xms_edov",
        },
        "auth0": {
            "title": "Auth0",
            # The slash is part of the issuer.
            "issuer": "https://{domain}/",
            "scopes": _OFFLINE,
            "switch_parameters": _LOGIN,
        },
        "okta": {
            "title": "Okta",
            "issuer": "https://{domain}",
            "scopes": _OFFLINE,
            "switch_parameters": _LOGIN,
        },
        "keycloak": {
            "title": "Keycloak",
            "issuer": "{url}/realms/{realm}",
            # With offline_access sessions of Keycloak would never end.
            "scopes": _OPENID,
            "switch_parameters": _LOGIN,
        },
    }
)
"""The settings of `Upstream` for each provider; the functions fill in the issuer."""


class UpstreamOptions(TypedDict, total=False):
    """The options that all providers have, explained in `Upstream`."""

    name: str
    title: str
    scopes: Sequence[str]
    parameters: Mapping[str, str]
    switch_parameters: Mapping[str, str]
    authenticate: Literal["basic", "post"] | None
    pkce: bool
    trust: Sequence[str]


def github(
    client_id: str, client_secret: str, *, allow: Allow, **options: Unpack[UpstreamOptions]
) -> Upstream:
    """Return GitHub: an OAuth app, or a GitHub app."""
    return _make("github", client_id, client_secret, allow, options)


def google(
    client_id: str, client_secret: str, *, allow: Allow, **options: Unpack[UpstreamOptions]
) -> Upstream:
    """Return Google."""
    return _make("google", client_id, client_secret, allow, options)


def entra(
    tenant: str,
    client_id: str,
    client_secret: str,
    *,
    allow: Allow,
    tenants: Iterable[str] = (),
    **options: Unpack[UpstreamOptions],
) -> Upstream:
    """Return Microsoft Entra ID.

    Args:
        tenant: the id of the tenant; "common" or "organizations" for several.
        client_id: of the app.
        client_secret: of the app.
        allow: the users that may enter.
        tenants: the ids of the tenants that may sign in, with "common" and "organizations".
        options: see `UpstreamOptions`.

    Raises:
        ValueError: the tenant is not an id, or several may sign in and are not listed.
    """
    listed = tuple(tenants)
    if tenant in ("common", "organizations"):
        if not listed:
            raise ValueError(
                f"tenant {tenant!r} lets users of every tenant in the world sign in: list those "
                "that may with tenants=[...]"
            )
    elif not _TENANT.fullmatch(tenant):
        raise ValueError(
            f"tenant is {tenant!r}, expected its id, such as 8eaef023-2b34-4da1-9baa-8bc8c9d6a490 "
            "(Entra admin center, Overview), or 'common' with tenants=[...]"
        )
    elif listed:
        raise ValueError("tenants goes with tenant 'common' or 'organizations'")
    else:
        tenant = tenant.lower()
    return _make(
        "entra", client_id, client_secret, allow, options, place={"tenant": tenant}, tenants=listed
    )


def auth0(
    domain: str,
    client_id: str,
    client_secret: str,
    *,
    allow: Allow,
    **options: Unpack[UpstreamOptions],
) -> Upstream:
    """Return Auth0, given the domain of the tenant, such as "notes.eu.auth0.com"."""
    place = {"domain": _domain(domain)}
    return _make("auth0", client_id, client_secret, allow, options, place=place)


def okta(
    domain: str,
    client_id: str,
    client_secret: str,
    *,
    allow: Allow,
    **options: Unpack[UpstreamOptions],
) -> Upstream:
    """Return Okta, given the domain, such as "corp.okta.com" or "corp.okta.com/oauth2/default"."""
    place = {"domain": _domain(domain, has_path=True)}
    return _make("okta", client_id, client_secret, allow, options, place=place)


def keycloak(
    url: str,
    realm: str,
    client_id: str,
    client_secret: str,
    *,
    allow: Allow,
    **options: Unpack[UpstreamOptions],
) -> Upstream:
    """Return a realm of Keycloak, given its URL, such as "https://id.example.com"."""
    if not realm or "/" in realm:
        raise ValueError(f"realm is {realm!r}, expected the name of a realm")
    place = {"url": url.rstrip("/"), "realm": realm}
    return _make("keycloak", client_id, client_secret, allow, options, place=place)


def _make(  # the parts of the settings
    provider: str,
    client_id: str,
    client_secret: str,
    allow: Allow,
    options: UpstreamOptions,
    *,
    place: Mapping[str, str] | None = None,
    tenants: tuple[str, ...] = (),
) -> Upstream:
    given: dict[str, Any] = {"name": provider, **PROVIDERS[provider], **options}
    if place is not None:
        given["issuer"] = given["issuer"].format(**place)
    return Upstream(
        client_id=client_id, client_secret=client_secret, allow=allow, tenants=tenants, **given
    )


def _domain(given: str, *, has_path: bool = False) -> str:
    """Return a domain, also if it was written as a URL."""
    text = given.removeprefix("https://").rstrip("/")
    parts = urlsplit(f"https://{text}")
    if not parts.hostname or "." not in parts.hostname or (parts.path and not has_path):
        raise ValueError(f"domain is {given!r}, expected a host such as tenant.example.com")
    return text
