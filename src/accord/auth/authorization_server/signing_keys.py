"""The keys that sign access tokens: made, kept in the store, rotated, published."""

import json
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from accord.auth.authorization_server.secrets import new_secret
from accord.auth.authorization_server.store import Store, StoredKey
from accord.auth.jwks import require_jwt
from accord.types import JsonObject

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    PrivateKey: TypeAlias = EllipticCurvePrivateKey | RSAPrivateKey

Algorithm: TypeAlias = Literal["ES256", "RS256"]

# Longer than a verifier's tolerance for clocks that differ.
_SKEW: Final = 120.0
_RSA_BITS: Final = 2048


class SigningKeys:
    """Signs and verifies with the keys of a store.

    Args:
        store: where they are kept.
        algorithm: of keys that are made from now on.
        rotate_after: seconds after which a key is replaced.
        access_ttl: seconds that a key is published after it signed its last token.
    """

    def __init__(
        self, store: Store, *, algorithm: Algorithm, rotate_after: float, access_ttl: float
    ) -> None:
        self._store = store
        self._algorithm = algorithm
        self._rotate_after = rotate_after
        self._kept_for = access_ttl + _SKEW
        self._jwt = require_jwt("an authorization server")
        self._loaded: dict[str, PrivateKey] = {}

    def sign(self, claims: JsonObject, now: float) -> str:
        """Return claims as a signed access token."""
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
        """Sign with a new key from now on."""
        with self._store.transaction():
            self._store.add_key(self._make_key(now))

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
        current = self._usable(now)
        if current is None:
            with self._store.transaction():
                # Another process may have made one meanwhile.
                current = self._usable(now)
                if current is None:
                    current = self._make_key(now)
                    self._store.add_key(current)
        return current

    def _usable(self, now: float) -> StoredKey | None:
        for key in self._store.signing_keys():
            if key.retired_at is None and key.algorithm == self._algorithm:
                return key if now - key.created_at < self._rotate_after else None
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
        return StoredKey(new_secret(12), self._algorithm, pem, now, None)

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
