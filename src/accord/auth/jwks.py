"""The signing keys of issuers: read from a JWKS, fetched when needed, kept if that fails."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from accord.auth.discovery import metadata_urls
from accord.errors import AuthError, MissingExtra
from accord.http.client.guarded import Flow, HttpRequest, NoResponse, Send, run_flow
from accord.http.rules.responses import quote_url

log = logging.getLogger("accord.auth")

# Real key sets have a few keys; more than this costs only time.
_KEYS_MOST: Final = 100
_RSA_BITS_LEAST: Final = 2048

# The type and curve of the keys of each algorithm; other keys are never tried.
FAMILIES: Final[dict[str, tuple[str, str | None]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}


class VerifyingKey(msgspec.Struct, frozen=True):
    """A public key, and the algorithms of the signatures that it can verify."""

    key: Any
    id: str | None
    algorithms: frozenset[str]


def read_keys(document: object) -> list[VerifyingKey]:
    """Read the keys of a JWKS that can verify signatures; others are left out.

    Raises:
        ValueError: the document is not a JWKS.
    """
    listed = document.get("keys") if isinstance(document, Mapping) else document
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        raise ValueError("invalid JWKS: expected an object with a list called keys")  # noqa: TRY004
    found = (_read_key(each) for each in listed[:_KEYS_MOST])
    return [key for key in found if key is not None]


def read_pem(text: str | bytes) -> list[VerifyingKey]:
    """Read public keys in PEM form, one or several after each other.

    Raises:
        ValueError: none can be read, or one cannot verify signatures.
    """
    found = []
    whole = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    for block in re.findall(r"-----BEGIN .*?-----END [^-]*-----", whole, re.DOTALL):
        if "PRIVATE KEY" in block:
            raise ValueError("keys: a private key was given; give its public key")
        key = _read_pem_block(block)
        if key is None:
            raise ValueError(
                "keys: a PEM key cannot verify signatures: its kind is not known, or weak"
            )
        found.append(key)
    if not found:
        raise ValueError(
            "keys: text without a PEM public key; expected PEM, a JWKS or a list of JWKs"
        )
    return found


def _read_pem_block(block: str) -> VerifyingKey | None:
    jwt = require_jwt()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    kinds: dict[type, str] = {
        rsa.RSAPublicKey: "RS256",
        ec.EllipticCurvePublicKey: "ES256",
        ed25519.Ed25519PublicKey: "EdDSA",
    }
    try:
        loaded = load_pem_public_key(block.encode())
        names = [name for kind, name in kinds.items() if isinstance(loaded, kind)]
        if not names:
            return None
        return _read_key(jwt.get_algorithm_by_name(names[0]).to_jwk(loaded, as_dict=True))
    except (ValueError, UnsupportedAlgorithm, jwt.PyJWTError) as error:
        raise ValueError(f"keys: a PEM public key cannot be read: {error}") from None


def _read_key(jwk: object) -> VerifyingKey | None:
    """Read a key; None for a key that is secret, weak, unknown or has another use."""
    jwt = require_jwt()
    if not isinstance(jwk, Mapping) or jwk.get("use", "sig") != "sig":
        return None
    operations = jwk.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    named, algorithm, kind = jwk.get("kid"), jwk.get("alg"), jwk.get("kty")
    family = (kind, None if kind == "RSA" else jwk.get("crv"))
    fitting = [name for name, keys in FAMILIES.items() if keys == family]
    if not fitting or not isinstance(named, str | None):
        return None
    # Only the public half, even if both are published.
    public = {name: value for name, value in jwk.items() if name in _PUBLIC_MEMBERS}
    try:
        key = jwt.PyJWK(public, algorithm=fitting[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        log.warning("a key of a JWKS cannot be read: %s", type(error).__name__)
        return None
    if kind == "RSA" and key.key_size < _RSA_BITS_LEAST:
        log.warning("a key of a JWKS is refused: RSA with %d bits", key.key_size)
        return None
    usable = fitting if algorithm is None else [each for each in fitting if each == algorithm]
    return VerifyingKey(key, named, frozenset(usable))


_PUBLIC_MEMBERS: Final = frozenset({"kty", "crv", "n", "e", "x", "y"})


def _choose(keys: Iterable[VerifyingKey], algorithm: str, id: str | None) -> list[VerifyingKey]:
    """Choose the key with the id of a token; for a token without an id, all that fit.

    A key without an id fits any token.
    """
    fitting = [key for key in keys if algorithm in key.algorithms]
    if id is None:
        return fitting
    named = [key for key in fitting if key.id == id]
    return named or [key for key in fitting if key.id is None]


class FixedKeys:
    """Keys that never change."""

    def __init__(self, keys: Iterable[VerifyingKey]) -> None:
        self._keys = tuple(keys)

    async def candidates(self, algorithm: str, id: str | None) -> Sequence[VerifyingKey]:
        """Return the keys that may have signed a token."""
        return _choose(self._keys, algorithm, id)

    async def candidates_anew(self, algorithm: str, id: str | None) -> Sequence[VerifyingKey]:
        """Return the keys that may have replaced the candidates: none, since they are fixed."""
        return ()


class FetchedKeys:
    """An issuer's keys: fetched once for all callers, and again when an unknown id appears.

    Args:
        issuer: the issuer.
        url: of the keys; None for the one in the issuer's metadata.
        send: sends requests.
        ttl: seconds after which keys are fetched again, while the old ones are still used.
        pause: seconds between two fetches, whatever key ids tokens have.
        keep: seconds for which keys are used at most if they cannot be fetched again.
        clock: returns seconds.
    """

    def __init__(
        self,
        issuer: str,
        url: str | None,
        *,
        send: Send,
        ttl: float = 3600.0,
        pause: float = 10.0,
        keep: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._url = url
        self._shown_url = quote_url(url or issuer)
        self._send = send
        self._ttl = ttl
        self._pause = pause
        self._keep = keep
        self._clock = clock
        self._keys: tuple[VerifyingKey, ...] | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._failure = "not yet"

    async def candidates(self, algorithm: str, id: str | None) -> Sequence[VerifyingKey]:
        """Return the keys that may have signed a token.

        Raises:
            AuthError: no keys could be fetched yet, or those at hand are too old.
        """
        age = self._clock() - self._fetched_at
        if self._keys is None or age > self._keep:
            self._keys = None
            await self._fetch()
        elif age > self._ttl:
            self._start_fetch()  # in the background
        keys: tuple[VerifyingKey, ...] | None = self._keys
        if keys is None:
            raise AuthError(f"no keys could be fetched from {self._shown_url}: {self._failure}")
        found = _choose(keys, algorithm, id)
        if not found and id is not None and not any(key.id == id for key in keys):
            await self._fetch()
            found = _choose(self._keys or (), algorithm, id)
        return found

    async def candidates_anew(self, algorithm: str, id: str | None) -> Sequence[VerifyingKey]:
        """Return the keys that may have replaced the current ones, unless just fetched."""
        before = self._keys
        await self._fetch()
        keys = self._keys
        return () if keys is None or keys is before else _choose(keys, algorithm, id)

    async def _fetch(self) -> None:
        """Wait for a fetch, started here or by another caller."""
        task = self._start_fetch()
        if task is not None:
            await asyncio.shield(task)

    def _start_fetch(self) -> "asyncio.Task[None] | None":
        loop = asyncio.get_running_loop()
        task = self._fetching
        if task is not None and not task.done() and task.get_loop() is loop:
            return task
        now = self._clock()
        if now - self._tried_at < self._pause:
            return None
        self._tried_at = now
        self._fetching = loop.create_task(self._fetch_now(), name="accord-jwks")
        return self._fetching

    async def _fetch_now(self) -> None:
        try:
            keys = await run_flow(fetch_keys(self._issuer, self._url), self._send)
        except (NoResponse, ValueError) as error:
            self._failure = str(error)
            if isinstance(error, NoResponse) and error.is_refused:
                # URLs of metadata are restricted; a URL of the operator may be at any address.
                self._failure += "; if the keys are there, say so with jwks_url"
            log.warning("keys could not be fetched from %s: %s", self._shown_url, self._failure)
            return
        self._keys = tuple(keys)
        self._fetched_at = self._clock()


def fetch_keys(issuer: str, url: str | None = None) -> Flow[list[VerifyingKey]]:
    """Find an issuer's keys, by its metadata unless their URL is known.

    Raises:
        ValueError: the response has no keys, or the metadata is another issuer's.
    """
    response = yield _get(url if url is not None else (yield from _find_url(issuer)))
    if response.status != 200:
        raise ValueError(f"{quote_url(response.url)} answered {response.summary}")
    keys = read_keys(response.object())
    if not keys:
        raise ValueError("none of the keys can verify a signature")
    return keys


def _find_url(issuer: str) -> Flow[str]:
    tried: list[str] = []
    for each in metadata_urls(issuer):
        try:
            response = yield _get(each)
        except NoResponse as error:
            tried.append(f"{quote_url(each)}: {error.reason}")
            continue
        said = response.object()
        if response.status != 200 or said is None:
            tried.append(f"{quote_url(each)}: {response.summary}")
            continue
        named = said.get("issuer")
        if named != issuer:
            came = f"the metadata at {quote_url(each)} is that of another issuer, {named!r:.200}"
            raise ValueError(f"{came}, expected exactly {issuer!r} (or give jwks_url)")
        found = said.get("jwks_uri")
        if isinstance(found, str):
            return found
        tried.append(f"{quote_url(each)}: no jwks_uri in it")
    urls = "; ".join(tried)
    raise ValueError(f"no jwks_uri in the issuer's metadata, give jwks_url; tried {urls}")


def _get(url: str) -> HttpRequest:
    return HttpRequest(method="GET", url=url, headers={"Accept": "application/json"})


def require_jwt(needed_for: str = "verifying JWTs") -> Any:
    """Import and return PyJWT.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import cryptography  # noqa: F401
        import jwt
    except ImportError:
        raise MissingExtra("auth", needed_for=needed_for) from None
    return jwt
