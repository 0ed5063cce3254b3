"""Access tokens of this authorization server: the keys that sign them, and their verifier."""

import asyncio
import json
import logging
import time
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import msgspec

from accord.auth.authorization_server.models import AuthorizationServerSettings, StoredKey
from accord.auth.authorization_server.secrets import new_secret
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.threads import WorkPool
from accord.auth.jwks import require_jwt
from accord.auth.jwt_verifier import principal_from_claims
from accord.auth.urls import is_loopback_url, is_same_resource
from accord.auth.verifiers import TokenMemory, token_digest
from accord.errors import AuthError, StoreError
from accord.principal import Principal
from accord.types import JsonObject

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    PrivateKey: TypeAlias = EllipticCurvePrivateKey | RSAPrivateKey
    from collections.abc import Callable

    from accord.auth.authorization_server.endpoints import Endpoints
    from accord.auth.authorization_server.upstream.sessions import UpstreamAccounts
    from accord.sharing.backends.backend import Backend

log = logging.getLogger("accord.auth")

# Longer than a verifier's tolerance for clocks that differ.
_SKEW: Final = 120.0
_RSA_BITS: Final = 2048
# Seconds until a revocation by another process that shares the store is noticed.
_REREAD: Final = 1.0
# Seconds for which the known revocations count while the store does not answer.
_STALE_MOST: Final = 30.0
_REMEMBERED: Final = 300.0
_CLAIMS: Final = ("iss", "sub", "aud", "exp", "iat", "client_id", "grant")
# Calls wait for these: not behind anything else that blocks.
_READERS: Final = WorkPool("accord-tokens", threads=4)


class SigningKeys:
    """Signs and verifies with the keys of a store.

    A key is published as long as the last token that it signed may be valid.
    """

    def __init__(self, store: AuthorizationStore, settings: AuthorizationServerSettings) -> None:
        self._store = store
        self._algorithm = settings.algorithm
        self._rotate_after = settings.key_ttl
        self._kept_for = settings.access_ttl + _SKEW
        self._jwt = require_jwt("an authorization server")
        self._loaded: dict[str, PrivateKey] = {}

    def sign(self, claims: JsonObject, now: float) -> str:
        key = self._current(now)
        token: str = self._jwt.encode(
            claims,
            self._private(key),
            algorithm=key.algorithm,
            headers={"kid": key.key_id, "typ": "at+jwt"},
        )
        return token

    def read(self, token: str, now: float) -> JsonObject | None:
        """Return the claims of a token that a key of ours signed, expired or not; else None."""
        try:
            head = self._jwt.get_unverified_header(token)
            key = next(
                (each for each in self._live_keys(now) if each.key_id == head.get("kid")), None
            )
            if key is None or head.get("typ") != "at+jwt":
                return None
            claims: JsonObject = self._jwt.decode(
                token,
                self._private(key).public_key(),
                algorithms=[key.algorithm],
                # Audience and times are compared by the caller: the clock is passed in.
                options={"verify_aud": False, "verify_exp": False, "verify_iat": False},
            )
        except self._jwt.PyJWTError:
            return None
        return claims

    def rotate(self, now: float) -> None:
        made = self._make_key(now)
        while not self._store.add_key(made, replaces=_key_id(self._newest())):
            pass  # another process has made one meanwhile, which is replaced, too

    def jwks(self, now: float) -> JsonObject:
        """Return the public keys of tokens that may still be valid."""
        self._current(now)
        return {"keys": [self._public_jwk(key) for key in self._live_keys(now)]}

    def swept_before(self, now: float) -> float:
        """Return the time before which a retired key is not needed any more."""
        return now - self._kept_for

    def _live_keys(self, now: float) -> list[StoredKey]:
        return [
            key
            for key in self._store.signing_keys()
            if key.retired_at is None or key.retired_at > self.swept_before(now)
        ]

    def _current(self, now: float) -> StoredKey:
        while True:
            newest = self._newest()
            if newest is not None and now - newest.created_at < self._rotate_after:
                return newest
            made = self._make_key(now)
            if self._store.add_key(made, replaces=_key_id(newest)):
                return made
            # Another process has made one meanwhile.

    def _newest(self) -> StoredKey | None:
        """Return the newest key of the algorithm, usable or not."""
        for key in self._store.signing_keys():
            if key.retired_at is None and key.algorithm == self._algorithm:
                return key
        return None

    def _make_key(self, now: float) -> StoredKey:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        made: PrivateKey
        if self._algorithm == "ES256":
            made = ec.generate_private_key(ec.SECP256R1())
        else:
            made = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
        pem = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return StoredKey(new_secret(12), self._algorithm, pem, now)

    def _private(self, key: StoredKey) -> "PrivateKey":
        loaded = self._loaded.get(key.key_id)
        if loaded is None:
            from cryptography.hazmat.primitives.serialization import load_pem_private_key

            loaded = cast("PrivateKey", load_pem_private_key(key.pem, None))
            self._loaded[key.key_id] = loaded
        return loaded

    def _public_jwk(self, key: StoredKey) -> JsonObject:
        public = self._private(key).public_key()
        made: JsonObject = json.loads(self._jwt.get_algorithm_by_name(key.algorithm).to_jwk(public))
        return made | {"kid": key.key_id, "use": "sig", "alg": key.algorithm}


def _key_id(key: StoredKey | None) -> str | None:
    return None if key is None else key.key_id


class OwnTokenVerifier:
    """Verifies the tokens of one authorization server, for its audiences.

    `endpoints` opens the store when it is first called; `issuer` is None for any name of loopback.
    """

    def __init__(
        self,
        endpoints: "Callable[[], Endpoints]",
        *,
        issuer: str | None,
        audiences: tuple[str, ...],
        revoked: "RevokedGrants",
        accounts: "UpstreamAccounts | None" = None,
        use_backend: "Callable[[Backend], None] | None" = None,
    ) -> None:
        self._accounts = accounts
        self._endpoints = endpoints
        self.issuer = issuer
        self._audiences = audiences
        self._revoked = revoked
        self._use_backend = use_backend
        self._memory = TokenMemory()

    def use_backend(self, backend: "Backend") -> None:
        """Let the authorization server share its state with other workers by their store."""
        if self._use_backend is not None:
            self._use_backend(backend)

    def for_audience(self, audience: str) -> "OwnTokenVerifier":
        return OwnTokenVerifier(
            self._endpoints,
            issuer=self.issuer,
            audiences=(audience,),
            revoked=self._revoked,
            accounts=self._accounts,
            use_backend=self._use_backend,
        )

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid token."""
        digest = token_digest(token)
        known = self._memory.find(digest)
        principal = None if known is None else known[0]
        if principal is None:
            principal, seconds = await self._read(token)
            if principal is None:
                return None
            self._memory.keep(digest, principal, min(seconds, _REMEMBERED))
        return None if await self._revoked.has(principal.claims["grant"]) else principal

    async def _read(self, token: str) -> tuple[Principal | None, float]:
        """Return the principal of a token, and how many seconds the token is valid."""
        try:
            return await _READERS.run(lambda: self._read_lifetime(token))
        except StoreError as error:
            raise _unverifiable(error) from None

    def _read_lifetime(self, token: str) -> tuple[Principal | None, float]:
        # By the clock of the store, which issued it.
        now = self._endpoints().store.now()
        found = self.read_principal(token, now)
        return found, 0.0 if found is None else (found.expires_at or now) - now

    def read_principal(self, token: str, now: float) -> Principal | None:
        """Return the principal of a token, revoked or not. Blocks."""
        claims = self._endpoints().keys.read(token, now)
        if claims is None or any(claims.get(name) is None for name in _CLAIMS):
            return None
        if not self._is_mine(claims) or claims["exp"] <= now:
            return None
        principal = principal_from_claims(claims)
        if self._accounts is None or principal.subject == principal.client_id:
            return principal
        account = self._accounts.account(claims["grant"])
        # Without its sign-in the grant of a user is void.
        return None if account is None else msgspec.structs.replace(principal, upstream=account)

    def _is_mine(self, claims: JsonObject) -> bool:
        issuer, audience = claims["iss"], claims["aud"]
        if issuer != self.issuer and (self.issuer is not None or not is_loopback_url(issuer)):
            return False
        return isinstance(audience, str) and any(
            is_same_resource(each, audience) for each in self._audiences
        )


class RevokedGrants:
    """The revoked grants; read again every second, since processes may share a store.

    While the store does not answer, what was read last counts for some more seconds: no process can
    revoke anything meanwhile, unless this one alone is cut off.
    """

    def __init__(self, endpoints: "Callable[[], Endpoints]") -> None:
        self._endpoints = endpoints
        self._known: frozenset[str] = frozenset()
        self._read_at = self._checked_at = float("-inf")
        self._changes = 0
        self._reading: asyncio.Task[frozenset[str]] | None = None
        self._changes_read = 0

    async def has(self, grant_id: str) -> bool:
        """Whether a grant is revoked.

        Raises:
            AuthError: the store does not answer for too long.
        """
        if time.monotonic() - self._checked_at < _REREAD:
            return grant_id in self._known
        loop, task = asyncio.get_running_loop(), self._reading
        is_fit = task is not None and not task.done() and self._changes_read == self._changes
        if task is None or not is_fit or task.get_loop() is not loop:
            # One for all requests meanwhile; a change during a read may be missing in its result.
            self._changes_read = self._changes
            task = self._reading = loop.create_task(self._read(), name="accord-revoked")
        return grant_id in await asyncio.shield(task)

    async def _read(self) -> frozenset[str]:
        changes, now = self._changes, time.monotonic()
        try:
            known = await _READERS.run(lambda: self._endpoints().store.grants.read_revoked())
        except StoreError as error:
            if now - self._read_at > _STALE_MOST:
                raise _unverifiable(error) from None
            log.warning("the revoked grants cannot be read, those known before count: %s", error)
            self._checked_at = time.monotonic()
            return self._known
        if changes == self._changes:
            self._known, self._read_at, self._checked_at = known, now, now
        return known

    def forget(self) -> None:
        """Read the store again at the next check: a grant may have been revoked here."""
        self._changes += 1
        self._read_at = self._checked_at = float("-inf")


def _unverifiable(error: StoreError) -> AuthError:
    return AuthError(f"the store of the authorization server cannot be used: {error}")
