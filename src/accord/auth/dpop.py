"""Tokens that are bound to a key of the client (DPoP, RFC 9449): useless to a thief without it.

Every request that carries such a token also carries a proof, a JWT for this one request. Servers
may want their own nonce in it; the last one of each origin is remembered.
"""

import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from accord.auth.client_identity import load_private_key, public_jwk, usual_algorithm
from accord.auth.discovery import ServerMetadata, send_request
from accord.auth.jwks import require_jwt
from accord.auth.urls import root_url
from accord.errors import FlowFailed
from accord.http.client.guarded import Flow, HttpRequest, HttpResponse

NONCE: Final = "DPoP-Nonce"
_PROOF: Final = "DPoP"
_NONCES_MOST: Final = 100
# RFC 9449, section 8.1: any characters of a token; usual ones have some dozen.
_NONCE_MOST: Final = 1_000
# The members of a key that its thumbprint is computed from (RFC 7638, section 3.2; RFC 8037).
_THUMBPRINT: Final = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}
_OTHER_THUMBPRINT: Final = ("crv", "kty", "x")


class DpopKey:
    """A key that tokens are bound to.

    Args:
        private_key: in PEM, without a password; by default a new one, which ends with the process,
            and with it the tokens that are bound to it.
        algorithm: of the proofs; by default the usual one for the type of key.

    Raises:
        ValueError: the key cannot be read, or does not fit the algorithm.
        MissingExtra: the auth extra is not installed.
    """

    def __init__(
        self, private_key: str | bytes | None = None, *, algorithm: str | None = None
    ) -> None:
        self._jwt = require_jwt("tokens that are bound to a key")
        self._key = _new_key() if private_key is None else load_private_key(private_key)
        self.algorithm = algorithm or usual_algorithm(self._key)
        self._nonces: dict[str, str] = {}
        try:
            self._jwt.encode({}, self._key, algorithm=self.algorithm)
        except (self._jwt.PyJWTError, NotImplementedError, TypeError, ValueError):
            raise ValueError(f"the key does not fit algorithm {self.algorithm!r}") from None
        self._public = public_jwk(self._jwt, self._key, self.algorithm)

    def __repr__(self) -> str:
        return f"<DpopKey {self.thumbprint!r}, {self.algorithm}>"

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the public key (RFC 7638), which names it in tokens."""
        names = _THUMBPRINT.get(self._public["kty"], _OTHER_THUMBPRINT)
        return _digest(msgspec.json.encode({name: self._public[name] for name in names}))

    def proof(self, method: str, url: str, *, now: float, token: str | None = None) -> str:
        """Return the proof for one request.

        Args:
            method: of the request.
            url: of the request; the query is not part of a proof.
            now: seconds since 1970.
            token: the token that the request carries.
        """
        parts = urlsplit(url)
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
            "iat": int(now),
        }
        if token is not None:
            claims["ath"] = _digest(token.encode())
        nonce = self._nonces.get(root_url(url))
        if nonce is not None:
            claims["nonce"] = nonce
        return self._sign(claims)

    def headers(self, method: str, url: str, token: str) -> Mapping[str, str]:
        """Return the headers of a request with a token: the token, and the proof."""
        proof = self.proof(method, url, now=time.time(), token=token)
        return {"Authorization": f"{_PROOF} {token}", _PROOF: proof}

    def learn(self, url: str, nonce: str | None) -> bool:
        """Remember the nonce that the server at a URL wants; false if it is not a new one."""
        if not nonce or len(nonce) > _NONCE_MOST:
            return False
        origin = root_url(url)
        before = self._nonces.pop(origin, None)
        while len(self._nonces) >= _NONCES_MOST:
            del self._nonces[next(iter(self._nonces))]
        self._nonces[origin] = nonce
        return nonce != before

    def _sign(self, claims: dict[str, Any]) -> str:
        headers = {"typ": "dpop+jwt", "jwk": self._public}
        signed: str = self._jwt.encode(claims, self._key, algorithm=self.algorithm, headers=headers)
        return signed


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode("ascii")


def send_with_proof(
    request: HttpRequest, step: str, key: DpopKey | None, now: float
) -> Flow[HttpResponse]:
    """Send a request for a token, with a proof if there is a key; once more if a nonce is wanted.

    Raises:
        FlowFailed: there was no response.
    """
    if key is None:
        return (yield from send_request(request, step))
    response = yield from send_request(_with_proof(request, key, now), step)
    is_new = key.learn(request.url, response.headers.get(NONCE.lower()))
    if is_new and (response.object() or {}).get("error") == "use_dpop_nonce":
        response = yield from send_request(_with_proof(request, key, now), step)
        key.learn(request.url, response.headers.get(NONCE.lower()))
    return response


def _with_proof(request: HttpRequest, key: DpopKey, now: float) -> HttpRequest:
    proof = key.proof(request.method, request.url, now=now)
    return msgspec.structs.replace(request, headers={**request.headers, _PROOF: proof})


def check_offered(server: ServerMetadata, key: DpopKey, step: str) -> None:
    """Make sure that an authorization server accepts proofs of a key, as far as it says.

    Raises:
        FlowFailed: its metadata lists other algorithms.
    """
    offered = server.dpop_signing_alg_values_supported
    if offered is None or key.algorithm in offered:
        return
    raise FlowFailed(
        step,
        asked=server.url,
        came=f"dpop_signing_alg_values_supported without {key.algorithm}",
        hint=f"pass OAuth(dpop=DpopKey(...)) with a key for {', '.join(offered)[:100]}",
    )
