"""The claims of a token, to explain why a server refuses it; they are not verified."""

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from accord.auth.discovery import ResourceMetadata
from accord.auth.resource import is_for
from accord.auth.urls import is_same_issuer


class TokenFacts(NamedTuple):
    """A description of a token, and the reasons why it does not fit the server."""

    description: str
    faults: tuple[str, ...] = ()


def token_facts(token: str, about: ResourceMetadata | None, now: float) -> TokenFacts:
    """Describe a token, and the claims of a JWT; `about` is the metadata of the server."""
    claims = _claims(token)
    if claims is None:
        return TokenFacts(f"{len(token)} characters that only its issuer can read")
    issuer, audience, ends = (claims.get(name) for name in ("iss", "aud", "exp"))
    left = ends - now if isinstance(ends, int | float) else None
    faults: list[str] = []
    if left is not None and left <= 0:
        faults.append(f"it expired {-left:.0f} s ago: obtain another")
    if about is not None and not is_for(audience, [about.resource]):
        faults.append(f"it is not meant for {about.resource}: obtain it with that as resource")
    issuers = () if about is None else about.authorization_servers
    if issuers and not any(is_same_issuer(issuer, each) for each in issuers):
        faults.append(f"the server is protected by {', '.join(issuers)}: obtain it there")
    scopes = claims.get("scope", claims.get("scp"))
    ending = "no end" if left is None else f"{max(left, 0):.0f} s left"
    description = (
        f"a JWT of {issuer!r:.200} for {audience!r:.200}, {ending}, scopes {scopes!r:.200}"
    )
    return TokenFacts(description, tuple(faults))


def decode_jwt(token: str) -> tuple[str, str] | None:
    """Return the header and the claims of a JWT as they are written, unverified; None for others.

    Both are texts of JSON objects.
    """
    head, _, rest = token.partition(".")
    body, _, signature = rest.partition(".")
    if not (head and body and signature):
        return None
    try:
        header, claims = _decode_part(head), _decode_part(body)
    except (ValueError, RecursionError):
        return None
    return header, claims


def _decode_part(part: str) -> str:
    decoded = base64.urlsafe_b64decode(f"{part}{'=' * (-len(part) % 4)}")
    msgspec.json.decode(decoded, type=dict[str, Any])
    return decoded.decode()


def _claims(token: str) -> Mapping[str, Any] | None:
    found = decode_jwt(token)
    return None if found is None else msgspec.json.decode(found[1], type=dict[str, Any])
