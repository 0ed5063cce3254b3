"""Verifies the tokens of the embedded authorization server, without a network."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from accord.auth.urls import is_loopback_url, is_same_resource
from accord.auth.verifiers import TokenMemory, token_digest
from accord.principal import Principal
from accord.types import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.auth.authorization_server.endpoints import Endpoints

# Seconds until a revocation by another process that shares the store is noticed.
_REREAD: Final = 1.0
_REMEMBERED: Final = 300.0
_CLAIMS: Final = ("iss", "sub", "aud", "exp", "iat", "client_id", "grant")


class OwnTokenVerifier:
    """Verifies the tokens of one authorization server, for one audience.

    Args:
        endpoints: returns the endpoints, which opens the store when it is first called.
        issuer: the accepted issuer; None for any name of loopback.
        audiences: the accepted audiences.
        revoked: the revoked grants.
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
        """Return a verifier for one audience."""
        return OwnTokenVerifier(
            self._endpoints, issuer=self.issuer, audiences=(audience,), revoked=self._revoked
        )

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid token."""
        digest = token_digest(token)
        known = self._memory.find(digest)
        if known is None:
            principal = await asyncio.to_thread(self.read_principal, token, time.time())
            if principal is None:
                return None
            self._memory.keep(digest, principal, _REMEMBERED)
        else:
            principal = known[0]
        if principal is None:
            return None
        return None if await self._revoked.has(principal.claims["grant"]) else principal

    def read_principal(self, token: str, now: float) -> Principal | None:
        """Return the principal of a token, revoked or not. Blocks."""
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
    """The revoked grants; read again every second, since processes may share a store."""

    def __init__(self, endpoints: "Callable[[], Endpoints]") -> None:
        self._endpoints = endpoints
        self._known: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._changes = 0

    async def has(self, grant_id: str) -> bool:
        """Whether a grant is revoked."""
        now = time.monotonic()
        if now - self._read_at < _REREAD:
            return grant_id in self._known
        changes = self._changes
        known = await asyncio.to_thread(self._read)
        # A change during the read may be missing in the result.
        if changes == self._changes:
            self._known, self._read_at = known, now
        return grant_id in known

    def forget(self) -> None:
        """Read the store again at the next check: a grant may have been revoked here."""
        self._changes += 1
        self._read_at = float("-inf")

    def _read(self) -> frozenset[str]:
        return self._endpoints().store.revoked_grants()
