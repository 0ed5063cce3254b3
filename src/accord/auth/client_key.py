"""A key that a client proves with who it is, in place of a secret: signed assertions (RFC 7523)."""

import secrets
from typing import Any, Final

from accord.auth.credentials import ClientIdentity
from accord.auth.jwks import require_jwt
from accord.errors import FlowFailed

__all__ = ["ClientKey", "proof_of"]

# Sent at once and used once; clocks may differ by this much.
_LIFETIME: Final = 120
_ELLIPTIC: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class ClientKey:
    """A private key whose public half the authorization server knows (`private_key_jwt`).

    Args:
        private_key: in PEM, without a password.
        id: by which the server tells it from others of the same client (`kid`).
        algorithm: of the signatures; by default what is usual for such a key.
        audience: to whom they are addressed: "issuer", "token_endpoint" for servers that want to
            see its URL, or what such a server wants to see instead, which needs OAuth(issuer=...).

    Raises:
        ValueError: there is no such key, or the algorithm does not go with it.
    """

    def __init__(
        self,
        private_key: str | bytes,
        *,
        id: str | None = None,
        algorithm: str | None = None,
        audience: str = "issuer",
    ) -> None:
        self._jwt = require_jwt("signing with a client's key")
        self._key = _loaded(private_key)
        self.id = id
        self.algorithm = algorithm or _usual_algorithm(self._key)
        self.audience = audience
        try:
            self._signed({})
        except (self._jwt.PyJWTError, NotImplementedError, TypeError, ValueError):
            raise ValueError(f"the key does not go with algorithm {self.algorithm!r}") from None

    def __repr__(self) -> str:
        return f"<ClientKey {self.id!r}, {self.algorithm}>"

    @property
    def has_fixed_audience(self) -> bool:
        """Whether it signs for the same audience whichever authorization server it is shown to."""
        return self.audience not in ("issuer", "token_endpoint")

    def assertion(self, client_id: str, *, issuer: str, endpoint: str, now: float) -> str:
        """Return what proves, once and for a short time, that we are a client."""
        known = {"issuer": issuer, "token_endpoint": endpoint}
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": known.get(self.audience, self.audience),
            "jti": secrets.token_urlsafe(16),
            "iat": int(now),
            "exp": int(now) + _LIFETIME,
        }
        return self._signed(claims)

    def _signed(self, claims: dict[str, Any]) -> str:
        headers = {} if self.id is None else {"kid": self.id}
        signed: str = self._jwt.encode(claims, self._key, algorithm=self.algorithm, headers=headers)
        return signed


def proof_of(
    client: ClientIdentity, key: ClientKey | None, *, issuer: str, endpoint: str, now: float
) -> str | None:
    """Return the assertion for a request to the token endpoint; None for other clients.

    Raises:
        FlowFailed: the client needs a key that is not here.
    """
    if client.method != "private_key_jwt":
        return None
    if key is None:
        raise FlowFailed(
            "client authentication",
            asked=f"a key of client {client.client_id[:100]!r}",
            came="none",
            hint="pass OAuth(client_key=ClientKey(...)), as when the token was obtained",
        )
    return key.assertion(client.client_id, issuer=issuer, endpoint=endpoint, now=now)


def _loaded(private_key: str | bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    given = private_key.encode() if isinstance(private_key, str) else private_key
    try:
        return load_pem_private_key(given, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        # What came may be half of a secret, so it is not shown.
        raise ValueError("no private key: expected PEM without a password") from None


def _usual_algorithm(key: Any) -> str:
    curve = getattr(key, "curve", None)
    if curve is not None:
        return _ELLIPTIC.get(curve.name, "ES256")
    return "RS256" if hasattr(key, "private_numbers") else "EdDSA"
