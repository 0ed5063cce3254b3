"""Verifies the tokens of an authorization server of our own: no network between the two."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from accord.auth.urls import is_loopback_url, is_same_resource
from accord.auth.verifiers import TokenMemory, digest_of
from accord.principal import Principal
from accord.types import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.auth.authorization_server.endpoints import Endpoints

# How soon a revocation by another process that shares the store is seen.
_REREAD: Final = 1.0
_REMEMBERED: Final = 300.0
_CLAIMS: Final = ("iss", "sub", "aud", "exp", "iat", "client_id", "grant")


class OwnTokenVerifier:
    """Takes the tokens of one authorization server, for one audience.

    Args:
        endpoints: gives what answers requests, once somebody needs it.
        issuer: whose tokens are taken; None for any name of loopback.
        audiences: for what they must be.
        revoked: the grants that are revoked, as far as they are known.
    """

    def __init__(
        self,
        endpoints: "Callable[[], Endpoints]",
        *,
        issuer: str | None,
        audiences: tuple[str, ...],
        revoked: "RevokedGrants",
    ) -> None:
        self._endpoints = endpoints
        self.issuer = issuer
        self._audiences = audiences
        self._revoked = revoked
        self._memory = TokenMemory()

    def for_audience(self, audience: str) -> "OwnTokenVerifier":
        """Return the same for an audience."""
        return OwnTokenVerifier(
            self._endpoints, issuer=self.issuer, audiences=(audience,), revoked=self._revoked
        )

    async def verify(self, token: str) -> Principal | None:
        """Return whom a token stands for; None where it is not good."""
        digest = digest_of(token)
        known = self._memory.find(digest)
        if known is None:
            principal = await asyncio.to_thread(self.verified, token, time.time())
            if principal is None:
                return None
            self._memory.keep(digest, principal, _REMEMBERED)
        else:
            principal = known[0]
        if principal is None:
            return None
        return None if await self._revoked.has(principal.claims["grant"]) else principal

    def verified(self, token: str, now: float) -> Principal | None:
        """Return whom a token stands for, revoked or not. Blocks."""
        claims = self._endpoints().keys.read(token, now)
        if claims is None or any(claims.get(name) is None for name in _CLAIMS):
            return None
        if not self._is_mine(claims) or claims["exp"] <= now:
            return None
        return Principal(
            subject=claims["sub"],
            client_id=claims["client_id"],
            scopes=frozenset(claims.get("scope", "").split()),
            issuer=claims["iss"],
            expires_at=float(claims["exp"]),
            claims=claims,
        )

    def _is_mine(self, claims: JsonObject) -> bool:
        issuer, audience = claims["iss"], claims["aud"]
        if issuer != self.issuer and (self.issuer is not None or not is_loopback_url(issuer)):
            return False
        return isinstance(audience, str) and any(
            is_same_resource(each, audience) for each in self._audiences
        )


class RevokedGrants:
    """The grants that are revoked; read anew now and then, since processes may share a store."""

    def __init__(self, endpoints: "Callable[[], Endpoints]") -> None:
        self._endpoints = endpoints
        self._known: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._changes = 0

    async def has(self, grant_id: str) -> bool:
        """Tell whether a grant is revoked."""
        now = time.monotonic()
        if now - self._read_at < _REREAD:
            return grant_id in self._known
        changes = self._changes
        known = await asyncio.to_thread(self._read)
        # What changed while it was read may not be in it.
        if changes == self._changes:
            self._known, self._read_at = known, now
        return grant_id in known

    def forget(self) -> None:
        """Read anew before the next answer: something may have been revoked here."""
        self._changes += 1
        self._read_at = float("-inf")

    def _read(self) -> frozenset[str]:
        return self._endpoints().store.revoked()
