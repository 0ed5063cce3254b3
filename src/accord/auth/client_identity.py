"""The client as an authorization server knows it, and how it authenticates: secret or key."""

import secrets
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote_plus

import msgspec

from accord.auth.discovery import ServerMetadata
from accord.auth.jwks import require_jwt
from accord.errors import FlowFailed
from accord.transports.http.client.guarded import HttpRequest, form_request

AuthMethod: TypeAlias = Literal[
    "client_secret_basic", "client_secret_post", "none", "private_key_jwt"
]
METHODS: Final[tuple[AuthMethod, ...]] = ("client_secret_basic", "client_secret_post", "none")
"""The methods that registration can choose; a key has to be known to the server in advance."""
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Sent at once and used once; two minutes allow for clocks that differ.
_LIFETIME: Final = 120
_ELLIPTIC: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A client as one authorization server knows it; `repr` does not show the secret.

    `is_registered` says that accord registered it, and may do so again.
    """

    client_id: str
    client_secret: str | None = None
    method: AuthMethod = "none"
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    secret_expires_at: float = 0
    is_registered: bool = False

    def __repr__(self) -> str:
        return f"ClientIdentity(client_id={self.client_id!r}, method={self.method!r})"

    def is_usable(self, now: float) -> bool:
        """Whether its secret, if any, has not expired."""
        return not 0 < self.secret_expires_at <= now

    def may_ask(self, scopes: Iterable[str]) -> bool:
        """Whether it was registered for these scopes, or for no scopes in particular."""
        return not self.scopes or set(scopes) <= set(self.scopes)


def choose_method(server: ServerMetadata, *, has_secret: bool) -> AuthMethod:
    """Choose a method of authentication that the server supports."""
    if not has_secret:
        return "none"
    supported = server.token_endpoint_auth_methods_supported
    if supported is not None and "client_secret_basic" not in supported:
        return "client_secret_post" if "client_secret_post" in supported else "client_secret_basic"
    return "client_secret_basic"


def basic_authorization(client_id: str, secret: str) -> str:
    """Return the Authorization header of a client: both parts form-encoded (RFC 6749, 2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {b64encode(pair.encode()).decode('ascii')}"


def token_request(
    url: str, fields: Mapping[str, str], client: ClientIdentity, *, proof: str | None = None
) -> HttpRequest:
    """Make a request to the token endpoint, authenticated as the server wants it.

    Args:
        url: of the endpoint.
        fields: of the form.
        client: the client that sends it.
        proof: the assertion of a client that has a key in place of a secret.
    """
    secret = client.client_secret
    # The id alone proves nothing and is allowed beside Basic; some servers look for it there.
    named = {**fields, "client_id": client.client_id}
    if client.method == "client_secret_basic" and secret is not None:
        return form_request(
            url, named, {"Authorization": basic_authorization(client.client_id, secret)}
        )
    if client.method == "client_secret_post" and secret is not None:
        named["client_secret"] = secret
    if proof is not None:
        named |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": proof}
    return form_request(url, named)


class ClientKey:
    """A private key whose public half the authorization server knows (`private_key_jwt`).

    Args:
        private_key: in PEM, without a password.
        id: of the key, among several keys of the same client (`kid`).
        algorithm: of the signatures; by default the usual one for the type of key.
        audience: of the assertions: "issuer", "token_endpoint" for servers that expect its URL, or
            a fixed text, which needs OAuth(issuer=...).

    Raises:
        ValueError: the key cannot be read, or does not fit the algorithm.
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
        self._key = _load_private_key(private_key)
        self.id = id
        self.algorithm = algorithm or _usual_algorithm(self._key)
        self.audience = audience
        try:
            self._sign({})
        except (self._jwt.PyJWTError, NotImplementedError, TypeError, ValueError):
            raise ValueError(f"the key does not fit algorithm {self.algorithm!r}") from None

    def __repr__(self) -> str:
        return f"<ClientKey {self.id!r}, {self.algorithm}>"

    @property
    def has_fixed_audience(self) -> bool:
        """Whether it signs for the same audience, whichever authorization server receives it."""
        return self.audience not in ("issuer", "token_endpoint")

    def assertion(self, client_id: str, *, issuer: str, endpoint: str, now: float) -> str:
        """Return an assertion that authenticates the client once, for a short time."""
        known = {"issuer": issuer, "token_endpoint": endpoint}
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": known.get(self.audience, self.audience),
            "jti": secrets.token_urlsafe(16),
            "iat": int(now),
            "exp": int(now) + _LIFETIME,
        }
        return self._sign(claims)

    def _sign(self, claims: dict[str, Any]) -> str:
        headers = {} if self.id is None else {"kid": self.id}
        signed: str = self._jwt.encode(claims, self._key, algorithm=self.algorithm, headers=headers)
        return signed


def client_assertion(
    client: ClientIdentity, key: ClientKey | None, *, issuer: str, endpoint: str, now: float
) -> str | None:
    """Return the assertion for a request to the token endpoint; None for other clients.

    Raises:
        FlowFailed: the client needs a key, and has none.
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


def _load_private_key(private_key: str | bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    given = private_key.encode() if isinstance(private_key, str) else private_key
    try:
        return load_pem_private_key(given, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        # The text may be part of a secret, so it is not shown.
        raise ValueError("invalid private key: expected PEM without a password") from None


def _usual_algorithm(key: Any) -> str:
    curve = getattr(key, "curve", None)
    if curve is not None:
        return _ELLIPTIC.get(curve.name, "ES256")
    return "RS256" if hasattr(key, "private_numbers") else "EdDSA"
