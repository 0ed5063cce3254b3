"""Who asks at the token endpoint: secrets in the header or the body, or none for public clients."""

from base64 import b64decode
from collections.abc import Callable, Mapping
from urllib.parse import unquote_plus

import msgspec

from accord.auth.authorization_server.models import OAuthRefusal, RegisteredClient
from accord.auth.authorization_server.secrets import digest, equal

__all__ = ["authenticated", "claimed_client"]


class _Claim(msgspec.Struct, frozen=True):
    """Who somebody says to be."""

    client_id: str
    secret: str | None


def authenticated(
    headers: Mapping[str, str],
    form: Mapping[str, str],
    client: Callable[[str], RegisteredClient | None],
) -> RegisteredClient:
    """Return the client that asks.

    Raises:
        Refusal: nobody is named, or it is not who it says to be.
    """
    claim = _claim(headers, form)
    found = client(claim.client_id)
    if found is None:
        raise _refused(f"client {claim.client_id[:100]!r} is not known here")
    if found.secret_hash is None:
        if claim.secret is not None:
            raise _refused("the client has no secret and must not send one")
        return found
    # What is compared has one length, whatever was sent.
    if claim.secret is None or not equal(digest(claim.secret), found.secret_hash):
        raise _refused("the client's secret is wrong or missing")
    return found


def claimed_client(headers: Mapping[str, str], form: Mapping[str, str]) -> str | None:
    """Return the id of the client that a request says to be from; None where it is unreadable."""
    try:
        return _claim(headers, form).client_id
    except OAuthRefusal:
        return None


def _claim(headers: Mapping[str, str], form: Mapping[str, str]) -> _Claim:
    header = headers.get("authorization")
    if header is None:
        client_id = form.get("client_id")
        if client_id is None:
            raise _refused("client_id is missing")
        return _Claim(client_id, form.get("client_secret"))
    if "client_secret" in form:
        raise OAuthRefusal("invalid_request", "the client's secret is there twice")
    claim = _basic(header)
    if form.get("client_id", claim.client_id) != claim.client_id:
        raise OAuthRefusal("invalid_request", "client_id is not that of the Authorization header")
    return claim


def _basic(header: str) -> _Claim:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        raise _refused("the Authorization header must be Basic")
    try:
        name, colon, secret = b64decode(value.strip(), validate=True).decode().partition(":")
    except ValueError:
        raise _refused("the Authorization header cannot be read") from None
    if not colon:
        raise _refused("the Authorization header has no colon")
    # RFC 6749, section 2.3.1: both parts are form-encoded before they are joined.
    return _Claim(unquote_plus(name), unquote_plus(secret) or None)


def _refused(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client", why, status=401)
