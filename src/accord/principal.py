"""The sender of a request, as a verified token says."""

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

__all__ = ["Principal", "UpstreamAccess", "as_principal", "identity_text"]

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
        issuer: the authorization server that says so; "python:int" and the like for a caller that
            is known by a value of another type than text.
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


def as_principal(value: Hashable) -> Principal | None:
    """Return the principal that a value stands for; None stands for an anonymous caller.

    Text is the subject. Values of other types get an issuer of their own, so that no two callers
    are the same principal unless they have the same value of the same type.

    Raises:
        TypeError: the value has no identity that other processes would know it by.
    """
    if value is None or isinstance(value, Principal):
        return value
    plain = _plain(value)
    if isinstance(plain, str):
        return Principal(plain)
    kind = "uuid" if isinstance(plain, UUID) else type(plain).__name__
    text = str(plain) if isinstance(plain, int | UUID) else repr(plain)
    return Principal(text, issuer=f"python:{kind}")


def identity_text(principal: Principal | None) -> str:
    """Return what a principal is known by, as text; empty for an anonymous caller.

    Each part is quoted, so that none can pass for another one.
    """
    return "" if principal is None else repr(principal.identity)


def _plain(value: object) -> str | int | bytes | UUID | tuple[Any, ...]:
    """Return a value without what a subclass has added, such as a `__str__` of its own."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, UUID):
        return UUID(int=value.int)
    if isinstance(value, tuple):
        return tuple(None if each is None else _plain(each) for each in value)
    raise TypeError(
        f"a caller is named by a {type(value).__name__}: let `principal=` return a Principal, a "
        "str, an int, bytes, a UUID or a tuple of these, such as the id of the user"
    )
