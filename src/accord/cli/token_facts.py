"""The claims of a token, to explain why a server refuses it.

Nothing is verified here, and the token itself is never shown.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from accord.auth.discovery import ResourceMetadata
from accord.auth.resource import is_for
from accord.auth.urls import is_same_issuer


class TokenFacts(msgspec.Struct, frozen=True):
    """A description of a token, and the reasons why it does not fit the server."""

    description: str
    faults: tuple[str, ...] = ()


def token_facts(token: str, about: ResourceMetadata | None, now: float) -> TokenFacts:
    """Describe a token; its claims only if it is a JWT.

    Args:
        token: an access token.
        about: the metadata of the server, if there is any.
        now: seconds since 1970.
    """
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


def _claims(token: str) -> Mapping[str, Any] | None:
    head, _, rest = token.partition(".")
    body, _, signature = rest.partition(".")
    if not (head and body and signature):
        return None
    try:
        decoded = base64.urlsafe_b64decode(f"{body}{'=' * (-len(body) % 4)}")
        return msgspec.json.decode(decoded, type=dict[str, Any])
    except (ValueError, RecursionError):
        return None
