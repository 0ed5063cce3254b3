"""Authorization servers of servers under check: their metadata, and what they issued."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

from accord.http.client.guarded import (
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
)
from accord.http.rules.addresses import is_loopback
from accord_tools.check.probing.authorization import Granted, Published, quote_value
from accord_tools.check.probing.probe import Probe

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
