"""The client as an authorization server knows it: how it registers, and how it proves itself.

Ids are given in advance, or are metadata documents, or come from RFC 7591. Proofs are secrets, keys
and, for the exchange of a code, PKCE (RFC 7636) with S256 alone.

Tokens may be bound to a key of the client (DPoP, RFC 9449), and are useless to a thief without it.
Every request that carries such a token also carries a proof, a JWT for this one request. Servers
may want their own nonce in it; the last one of each origin is remembered.
"""

import hashlib
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote_plus, urlsplit, urlunsplit

import msgspec

from accord.auth.discovery import ServerMetadata, send_request
from accord.auth.jwks import require_jwt
from accord.auth.urls import is_loopback_url, redirect_fault, root_url
from accord.errors import FlowFailed
from accord.http.client.guarded import Flow, HttpRequest, HttpResponse, form_request

AuthMethod: TypeAlias = Literal[
    "client_secret_basic", "client_secret_post", "none", "private_key_jwt"
]
METHODS: Final[tuple[AuthMethod, ...]] = ("client_secret_basic", "client_secret_post", "none")
"""The methods that registration can choose; a key has to be known to the server in advance."""
_REGISTRATION: Final = "registration"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Sent at once and used once; two minutes allow for clocks that differ.
_LIFETIME: Final = 120
_ELLIPTIC: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

NONCE: Final = "DPoP-Nonce"
_PROOF: Final = "DPoP"
_NONCES_MOST: Final = 100
# RFC 9449, section 8.1: any characters of a token; usual ones have some dozen.
_NONCE_MOST: Final = 1_000
# The members of a key that its thumbprint is computed from (RFC 7638, section 3.2; RFC 8037).
_THUMBPRINT: Final = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}
_OTHER_THUMBPRINT: Final = ("crv", "kty", "x")


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

    def is_usable_for(self, uri: str, scopes: Iterable[str]) -> bool:
        """Whether it can be used for a request; otherwise another has to be registered."""
        # One without scopes was registered for no scopes in particular.
        may_ask = not self.scopes or set(scopes) <= set(self.scopes)
        return not self.is_registered or (uri in self.redirect_uris and may_ask)


# -- registration


class ClientDescription(msgspec.Struct, frozen=True, kw_only=True):
    """How the client describes itself.

    Attributes:
        name: the name that the user reads on the consent page.
        client_id: given by the authorization server in advance.
        client_secret: given by the authorization server in advance.
        method: how a client with a given id authenticates; None for the server's default.
        metadata_url: the URL of the client's metadata document, which is then its id.
    """

    name: str = "accord"
    client_id: str | None = None
    client_secret: str | None = None
    method: AuthMethod | None = None
    metadata_url: str | None = None

    def __repr__(self) -> str:
        return f"ClientDescription(name={self.name!r}, client_id={self.client_id!r})"


def preregistered_client(
    server: ServerMetadata, description: ClientDescription
) -> ClientIdentity | None:
    """Return the client if it need not register, otherwise None."""
    if description.client_id is not None:
        supported = choose_method(server, has_secret=description.client_secret is not None)
        return ClientIdentity(
            client_id=description.client_id,
            client_secret=description.client_secret,
            method=description.method or supported,
        )
    if description.metadata_url is not None and server.client_id_metadata_document_supported:
        return ClientIdentity(
            client_id=description.metadata_url, method=description.method or "none"
        )
    return None


def register(
    server: ServerMetadata,
    description: ClientDescription,
    *,
    redirect_uris: Sequence[str],
    grants: Sequence[str] = ("authorization_code", "refresh_token"),
    scopes: Sequence[str] = (),
) -> Flow[ClientIdentity]:
    """Register the client.

    Raises:
        FlowFailed: the server does not offer registration, or refuses it.
    """
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise FlowFailed(
            _REGISTRATION,
            asked=server.url or server.issuer,
            came="metadata without a registration_endpoint",
            hint=_manual_hint(redirect_uris),
        )
    for uri in redirect_uris:
        check_redirect_uri(uri)
    document: dict[str, Any] = {
        "client_name": description.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": _supported_grants(grants, server.grant_types_supported),
        "token_endpoint_auth_method": _preferred_method(server),
        "application_type": _application_type(redirect_uris),  # auth.dcr.application-type
    }
    if "authorization_code" in grants:
        document["response_types"] = ["code"]
    if scopes:
        document["scope"] = " ".join(scopes)
    request = HttpRequest(
        method="POST",
        url=endpoint,
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=msgspec.json.encode(document),
    )
    response = yield from send_request(request, _REGISTRATION)
    said = response.object()
    if not response.is_ok or said is None or not isinstance(said.get("client_id"), str):
        hint = _manual_hint(redirect_uris)
        if said is not None and said.get("error") == "invalid_redirect_uri":
            # auth.dcr.handles-refusal: some servers take one name of loopback and not the other.
            hint = f"try OAuth(redirect_uri='http://localhost/callback'), or {hint}"
        if server.is_assumed:
            # No metadata was found at all.
            hint = (
                "the server names no authorization server, so its operator may have to give you a "
                'token: pass auth="..."'
            )
        raise FlowFailed(_REGISTRATION, asked=request.summary, came=response.summary, hint=hint)
    return _read_registration(said, redirect_uris, scopes)


def client_document(
    url: str,
    description: ClientDescription,
    *,
    redirect_uris: Sequence[str],
    key: "ClientKey | None" = None,
) -> dict[str, Any]:
    """Return the document that a client publishes at a URL, which is then its id."""
    document: dict[str, Any] = {
        "client_id": url,  # auth.cimd.id-equals-url
        "client_name": description.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": _application_type(redirect_uris),
    }
    if key is not None:
        document |= {
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_signing_alg": key.algorithm,
            "jwks": {"keys": [key.public_jwk]},
        }
    return document


def _application_type(redirect_uris: Sequence[str]) -> Literal["native", "web"]:
    """Return "native" for a program on the user's device: it is redirected to, or needs no URI."""
    return "native" if all(map(is_loopback_url, redirect_uris)) else "web"


def _manual_hint(redirect_uris: Sequence[str]) -> str:
    hint = "register the client by hand and pass OAuth(client_id=...)"
    if not redirect_uris:
        return hint
    uri = redirect_uris[0]
    return f"{hint}, with redirect URI {uri}, and OAuth(redirect_port={urlsplit(uri).port})"


def _supported_grants(wanted: Sequence[str], offered: Sequence[str] | None) -> list[str]:
    """Return the grants that the server supports, and always the first."""
    if offered is None:
        return list(wanted)
    return [each for each in wanted if each in offered or each == wanted[0]]


def _preferred_method(server: ServerMetadata) -> AuthMethod:
    """Return the method to register for: "none" if possible, for lack of a safe secret."""
    offered = server.token_endpoint_auth_methods_supported
    if offered is None:
        # RFC 8414: metadata that leaves it out means basic; without metadata nothing is known.
        return "none" if server.is_assumed else "client_secret_basic"
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if method in offered:
            return method
    return "none"


def _read_registration(
    said: Mapping[str, Any], redirect_uris: Sequence[str], scopes: Sequence[str]
) -> ClientIdentity:
    secret = said.get("client_secret")
    secret = secret if isinstance(secret, str) and secret else None
    named = said.get("token_endpoint_auth_method")
    method: AuthMethod = next((each for each in METHODS if each == named), "client_secret_basic")
    expires = said.get("client_secret_expires_at")
    return ClientIdentity(
        client_id=said["client_id"],
        client_secret=secret,
        method=method if secret else "none",
        redirect_uris=tuple(redirect_uris),
        scopes=tuple(scopes),
        secret_expires_at=float(expires) if isinstance(expires, int | float) else 0,
        is_registered=True,
    )


def check_redirect_uri(uri: str) -> None:
    """Make sure that a code can only be returned over TLS or on this machine.

    Raises:
        ValueError: the URI is neither https nor on loopback.
    """
    fault = redirect_fault(uri)
    if fault is not None:  # auth.redirect.localhost-or-https
        raise ValueError(f"the redirect URI {uri[:200]!r} {fault}")


# -- authentication


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
    url: str,
    fields: Mapping[str, str],
    client: ClientIdentity,
    *,
    issuer: str,
    key: "ClientKey | None" = None,
    now: float = 0.0,
) -> HttpRequest:
    """Make a request to the token endpoint, authenticated as the server wants it.

    Raises:
        FlowFailed: the client needs a key, and has none.
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
    if client.method == "private_key_jwt":
        if key is None:
            raise FlowFailed(
                "client authentication",
                asked=f"a key of client {client.client_id[:100]!r}",
                came="none",
                hint="pass OAuth(client_key=ClientKey(...)), as when the token was obtained",
            )
        proof = key.assertion(client.client_id, issuer=issuer, endpoint=url, now=now)
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
        self._key = load_private_key(private_key)
        self.id = id
        self.algorithm = algorithm or usual_algorithm(self._key)
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

    @property
    def public_jwk(self) -> dict[str, str]:
        """The public half, as authorization servers want to know it."""
        named = {} if self.id is None else {"kid": self.id}
        return {**public_jwk(self._jwt, self._key, self.algorithm), **named}

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


def load_private_key(private_key: str | bytes) -> Any:
    """Load a key.

    Raises:
        ValueError: it is not PEM, or has a password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    given = private_key.encode() if isinstance(private_key, str) else private_key
    try:
        return load_pem_private_key(given, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        # The text may be part of a secret, so it is not shown.
        raise ValueError("invalid private key: expected PEM without a password") from None


def public_jwk(jwt: Any, key: Any, algorithm: str) -> dict[str, str]:
    """Return the public half of a private key as a JWK."""
    signer = jwt.get_algorithm_by_name(algorithm)
    found: dict[str, str] = signer.to_jwk(key.public_key(), as_dict=True)
    return {name: value for name, value in found.items() if name != "key_ops"}


def usual_algorithm(key: Any) -> str:
    """Return the usual algorithm of signatures with a key."""
    curve = getattr(key, "curve", None)
    if curve is not None:
        return _ELLIPTIC.get(curve.name, "ES256")
    return "RS256" if hasattr(key, "private_numbers") else "EdDSA"


# -- PKCE


class Pkce(msgspec.Struct, frozen=True):
    """A secret verifier, and its challenge, which is public."""

    verifier: str
    challenge: str

    def __repr__(self) -> str:
        return f"Pkce(challenge={self.challenge!r})"


def new_pkce() -> Pkce:
    """Return a random verifier with its challenge."""
    verifier = secrets.token_urlsafe(48)
    return Pkce(verifier, challenge_of(verifier))


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


# -- tokens that are bound to a key


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
