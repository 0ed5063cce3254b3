"""The sender of a request, as a verified token says."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec

__all__ = ["Principal", "UpstreamAccess"]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class UpstreamAccess(Protocol):
    """The account of a user at the identity provider that they signed in with."""

    @property
    def provider(self) -> str:
        """The name of the provider, such as "github"."""

    @property
    def claims(self) -> Mapping[str, Any]:
        """What the provider said of the user when they signed in."""

    async def token(self, *, refused: str | None = None) -> str:
        """Return an access token for the API of the provider, renewed if it is about to expire.

        Args:
            refused: a token that the API refused although it has not expired: another one is
                obtained.

        Raises:
            SignInRequired: the provider gives no token any more.
            UpstreamFailed: it gives none at the moment.
        """


class Principal(msgspec.Struct, frozen=True, eq=False):
    """The sender of a request.

    The same subject of the same issuer through the same client is the same principal, whatever its
    token allows at the moment.

    Attributes:
        subject: the user, or the client where it acts for itself.
        client_id: the program that acts for the user.
        scopes: what the token allows.
        issuer: the authorization server that says so.
        expires_at: when the token ends, in seconds since 1970.
        claims: all that the token says.
        upstream: the account at the identity provider that the user signed in with, if any.
    """

    subject: str
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    issuer: str | None = None
    expires_at: float | None = None
    claims: Mapping[str, Any] = _NOTHING
    upstream: UpstreamAccess | None = None

    @property
    def identity(self) -> tuple[str | None, str, str | None]:
        """What makes it the same principal: issuer, subject and client."""
        return self.issuer, self.subject, self.client_id

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Principal) and self.identity == other.identity

    def __ne__(self, other: object) -> bool:
        # Structs bring one of their own, which does not ask the other.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        # Claims may hold what does not belong in a log.
        scopes = " ".join(sorted(self.scopes))
        return f"<Principal {self.subject!r} of {self.issuer!r}, scopes {scopes!r}>"

    def storable(self) -> "Principal":
        """Return the same principal without what cannot be stored.

        That is the account elsewhere, and claims that have no form in MessagePack.
        """
        claims = dict(self.claims)
        try:
            msgspec.msgpack.encode(claims)
        except (TypeError, ValueError, OverflowError):  # a verifier may put anything there
            claims = {}
        return msgspec.structs.replace(self, claims=claims, upstream=None)
