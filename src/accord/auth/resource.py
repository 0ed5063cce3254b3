"""Pure decisions of a protected server: reading tokens, refusals, challenges, metadata.

Header values are those of a request; nothing here reads a clock or verifies a token.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from accord.auth.urls import canonical_url

# Several times what identity providers issue; longer ones only cost time.
TOKEN_MOST: Final = 16 * 1024

_SCHEME: Final = b"bearer"
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_UNQUOTABLE: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class AccessRefusal(msgspec.Struct, frozen=True):
    """Why a request is refused.

    Attributes:
        status: 400, 401, 403 or 503.
        error: the code of RFC 6750, in body and challenge; for a missing token in the body alone.
        message: what is wrong, for users.
        scopes: all scopes that are needed.
    """

    status: int
    error: str
    message: str
    scopes: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        """The body of the response."""
        said: dict[str, Any] = {"error": self.error, "error_description": self.message}
        if self.scopes:
            said["scope"] = " ".join(self.scopes)
        return msgspec.json.encode(said)


_MISSING: Final = "unauthorized"
_REALM: Final = 'realm="mcp"'


def is_for(audience: object, accepted: Iterable[str]) -> bool:
    """Whether an `aud` claim, one or several, names one of the accepted audiences.

    URIs are compared in their canonical spelling, anything else as it is.
    """
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list | tuple):
        return False
    known = {_comparable(each) for each in accepted}
    return any(isinstance(each, str) and _comparable(each) in known for each in named)


def _comparable(audience: str) -> str:
    try:
        return canonical_url(audience)
    except ValueError:
        return audience


# -- the token of a request


def is_token(text: str) -> bool:
    """Whether a text can be a bearer token."""
    return _TOKEN.fullmatch(text.encode()) is not None


def bearer_token(given: Sequence[bytes], query: bytes = b"") -> str | AccessRefusal | None:
    """Return the token of a request, why it is refused, or None for no token.

    Args:
        given: its Authorization headers.
        query: the query string; a token there is refused, whatever the headers say.
    """
    if query and _has_token(query):  # auth.token.not-in-query
        return _invalid_request(
            "a token in the query string is not accepted; use the Authorization header"
        )
    if len(given) > 1:
        return _invalid_request("there is more than one Authorization header")
    if not given:
        return None
    scheme, _, token = given[0].strip().partition(b" ")
    if scheme.lower() != _SCHEME:
        return None
    token = token.strip()
    if len(token) > TOKEN_MOST:
        return invalid_token(f"the token is longer than {TOKEN_MOST} bytes")
    if _TOKEN.fullmatch(token) is None:
        return _invalid_request("Authorization is malformed, expected: Bearer TOKEN")
    return token.decode("ascii")


def _has_token(query: bytes) -> bool:
    if b"oken" not in query.lower() and b"%" not in query:
        return False
    pairs = parse_qsl(query[:TOKEN_MOST].decode("latin-1"), keep_blank_values=True)
    return any(name.lower() == "access_token" for name, _ in pairs)


def _invalid_request(why: str) -> AccessRefusal:
    return AccessRefusal(400, "invalid_request", why)


# -- scopes


def sort_scopes(scopes: Iterable[str]) -> list[str]:
    """Return scopes to name to clients, in order.

    The one that asks for a refresh token is left out: it is a matter of the client and the
    authorization server (auth.refresh.server-no-offline-access).
    """
    return sorted(set(scopes) - {"offline_access"})


def widen_scopes(scopes: frozenset[str], implied: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return scopes with all that they imply, directly or by way of others.

    >>> implied = {"admin": frozenset({"write"}), "write": frozenset({"read"})}
    >>> sorted(widen_scopes(frozenset({"admin"}), implied))
    ['admin', 'read', 'write']
    """
    new = scopes
    while new := frozenset(each for one in new for each in implied.get(one, ())) - scopes:
        scopes |= new
    return scopes


# -- refusals


def missing_token(scopes: Sequence[str] = ()) -> AccessRefusal:
    """Return the refusal of a request without a token."""
    why = "a token is required; send it as: Authorization: Bearer TOKEN"
    return AccessRefusal(401, _MISSING, why, tuple(scopes))


def invalid_token(why: str = "", *, scopes: Sequence[str] = ()) -> AccessRefusal:
    """Return the refusal of a token; the exact reason is in the server's log."""
    usual = "the token is expired, revoked, or not meant for this server"
    return AccessRefusal(401, "invalid_token", why or usual, tuple(scopes))


def insufficient_scope(needed: Iterable[str]) -> AccessRefusal:
    """Return the refusal of a token that lacks scopes; it names all that are needed."""
    scopes = tuple(sort_scopes(needed))
    why = f"the token lacks scopes; needed are: {' '.join(scopes)}"
    return AccessRefusal(403, "insufficient_scope", why, scopes)


def unavailable() -> AccessRefusal:
    """Return the refusal for now of a token that cannot be verified."""
    why = "the token cannot be verified at the moment; try again"
    return AccessRefusal(503, "temporarily_unavailable", why)


def challenge(refusal: AccessRefusal, resource_metadata: str | None) -> str:
    """Make the WWW-Authenticate header of a refusal.

    Args:
        refusal: why.
        resource_metadata: the URL of the metadata; None without an authorization server, since
            then no metadata is published.

    >>> challenge(insufficient_scope(["write"]), "https://a.example/.well-known/x").split(", ")[1:3]
    ['error="insufficient_scope"', 'scope="write"']
    """
    said = [_REALM]  # RFC 6750, section 3: there has to be one parameter
    if resource_metadata is not None:
        said = [f'resource_metadata="{_quotable(resource_metadata)}"']
    if refusal.error != _MISSING:  # no error for a request without token: RFC 6750, 3.1
        said.append(f'error="{refusal.error}"')
    if refusal.scopes:
        said.append(f'scope="{_quotable(" ".join(refusal.scopes))}"')
    if refusal.error != _MISSING:
        said.append(f'error_description="{_quotable(refusal.message)}"')
    return f"Bearer {', '.join(said)}"


def _quotable(text: str) -> str:
    return _UNQUOTABLE.sub("", text)


# -- metadata


def resource_metadata(
    resource: str,
    authorization_servers: Sequence[str],
    *,
    scopes: Sequence[str] = (),
    name: str | None = None,
    documentation: str | None = None,
) -> bytes:
    """Make the protected resource metadata of RFC 9728."""
    document: dict[str, Any] = {
        "resource": resource,
        "authorization_servers": list(authorization_servers),  # auth.prm.lists-as
        "bearer_methods_supported": ["header"],
    }
    if scopes:
        document["scopes_supported"] = list(scopes)
    if name is not None:
        document["resource_name"] = name
    if documentation is not None:
        document["resource_documentation"] = documentation
    return msgspec.json.encode(document)
