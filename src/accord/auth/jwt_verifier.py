"""Verifies JWT access tokens: header, signature and claims."""

import base64
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final

import msgspec

from accord.auth.jwks import (
    FAMILIES,
    FetchedKeys,
    FixedKeys,
    VerifyingKey,
    read_keys,
    read_pem,
    require_jwt,
)
from accord.auth.resource import is_for
from accord.auth.verifiers import TokenMemory, token_digest
from accord.http.client.guarded import operator_sender
from accord.principal import Principal

log = logging.getLogger("accord.auth")

_SYMMETRIC: Final = ("HS256", "HS384", "HS512")
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_SECRET_LEAST: Final = 32
_SCOPE_CLAIMS: Final = ("scope", "scp")
# Seconds that a token stays valid after its key was withdrawn.
_REMEMBERED: Final = 300.0
# Signed part, header, claims, signature.
_COMPACT: Final = re.compile(r"(([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+))\.([A-Za-z0-9_-]+)")
# How many keys are tried for a token without a key id.
_CANDIDATES_MOST: Final = 5


class JwtVerifier:
    """Accepts JWTs that an issuer signed for this server.

    Args:
        issuer: exactly as in the claim `iss`.
        audience: the accepted audiences; by default the URL of the server that uses the verifier.
        clients: ids of clients that exist for this server alone: their tokens are accepted also
            without an audience.
        jwks_url: the URL of the issuer's keys; by default from its metadata.
        keys: the keys themselves, in place of the URL: a JWKS, a list of JWKs, or public keys in
            PEM form.
        secret: a secret shared with the issuer, in place of keys; at least 32 bytes.
        algorithms: the accepted ones; only asymmetric ones without a secret.
        leeway: seconds by which clocks may differ.
        settings: `scope_claims` names the claims that hold scopes, by default scope and scp;
            `scope_prefix` is a prefix of scopes that tokens leave out;
            `send` sends requests for keys, `clock` returns seconds since 1970; further ones are
            those of `FetchedKeys`.

    Raises:
        ValueError: the keys do not fit the algorithms, or are missing.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str] | None = None,
        clients: Sequence[str] = (),
        jwks_url: str | None = None,
        keys: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | bytes | None = None,
        secret: str | bytes | None = None,
        algorithms: Sequence[str] | None = None,
        leeway: float = 60.0,
        **settings: Any,
    ) -> None:
        if sum(each is not None for each in (jwks_url, keys, secret)) > 1:
            raise ValueError("give only one of jwks_url, keys and secret")
        require_jwt()  # at once: it takes a moment
        self.issuer = issuer
        self.audience = as_tuple(audience)
        self.clients = frozenset(as_tuple(clients))
        self.leeway = leeway
        self.algorithms = _check_algorithms(algorithms, has_secret=secret is not None)
        self._secret = None if secret is None else _check_secret(secret)
        self._clock: Callable[[], float] = settings.get("clock", time.time)
        self._scope_claims = as_tuple(settings.pop("scope_claims", _SCOPE_CLAIMS))
        self._scope_prefix: str = settings.pop("scope_prefix", "")
        send = settings.pop("send", None)
        self._keys: FixedKeys | FetchedKeys
        if keys is None and secret is None:
            send = send or operator_sender(jwks_url or issuer)
            self._keys = FetchedKeys(issuer, jwks_url, send=send, **settings)
        else:
            settings.pop("clock", None)
            if settings:
                raise TypeError(f"settings for fetched keys: {', '.join(sorted(settings))}")
            self._keys = FixedKeys(_read_fixed(keys))
        self.memory = TokenMemory(clock=self._clock)

    def for_audience(self, audience: str) -> "JwtVerifier":
        """Return a verifier for an audience, with the same keys; itself if it has an audience."""
        if self.audience:
            return self
        bound = copy(self)
        bound.audience = (audience,)
        bound.memory = TokenMemory(clock=self._clock)
        return bound

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid token.

        Raises:
            AuthError: the issuer's keys could not be fetched.
        """
        digest = token_digest(token)
        known = self.memory.find(digest)
        if known is not None:
            return known[0]
        try:
            principal = await self.read(token)
        except InvalidToken as error:
            log.info("a token is refused: %s", error)
            return None
        self.memory.keep(digest, principal, _REMEMBERED)
        return principal

    async def read(self, token: str) -> Principal:
        """Return the principal of a token, without remembering it.

        Raises:
            InvalidToken: it is refused; says why.
            AuthError: the issuer's keys could not be fetched.
        """
        parts = _COMPACT.fullmatch(token)
        if parts is None:
            raise InvalidToken("it is not a JWT")
        header = _object(parts[2], "header")
        fault = header_fault(header, self.algorithms)
        if fault is not None:
            raise InvalidToken(fault)
        await self._check_signature(header, parts[1].encode(), _bytes(parts[4]))
        claims = _object(parts[3], "claims")
        fault = claims_fault(
            claims,
            issuer=self.issuer,
            audience=self.audience,
            clients=self.clients,
            now=self._clock(),
            leeway=self.leeway,
        )
        if fault is not None:
            raise InvalidToken(fault)
        return principal_from_claims(claims, self._scope_claims, self._scope_prefix)

    async def _check_signature(
        self, header: Mapping[str, Any], signed: bytes, signature: bytes
    ) -> None:
        algorithm: str = header["alg"]
        verify = require_jwt().get_algorithm_by_name(algorithm).verify
        if self._secret is not None:
            if not verify(signed, self._secret, signature):
                raise InvalidToken("its signature is wrong: it is not that of the shared secret")
            return
        id = header.get("kid")
        if not isinstance(id, str | None):
            raise InvalidToken("the id of its key is not a string")
        tried = 0
        # Only a second look finds a key that changed under the same id, or has no id.
        for find in (self._keys.candidates, self._keys.candidates_anew):
            found = await find(algorithm, id)
            tried += len(found)
            if any(verify(signed, each.key, signature) for each in found[:_CANDIDATES_MOST]):
                return
        if not tried:
            raise InvalidToken(f"the issuer has no key {_format_value(id)} for {algorithm}")
        raise InvalidToken(
            f"its signature is wrong: it is not that of the issuer's key {_format_value(id)}"
        )


class InvalidToken(Exception):
    """A token is refused; the message says why."""


def unverified_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT whose signature has not been checked.

    Raises:
        InvalidToken: it is not a JWT.
    """
    parts = _COMPACT.fullmatch(token)
    if parts is None:
        raise InvalidToken("it is not a JWT")
    return _object(parts[3], "claims")


def as_tuple(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one text, several or none as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given or ())


def _check_algorithms(asked: Sequence[str] | None, *, has_secret: bool) -> frozenset[str]:
    known = _SYMMETRIC if has_secret else tuple(FAMILIES)
    chosen = frozenset(asked or (("HS256",) if has_secret else known))
    unfit = sorted(chosen.difference(known))
    if unfit:
        needs = "go with a shared secret" if has_secret else "go with keys"
        raise ValueError(f"algorithms {', '.join(unfit)} do not {needs}: {', '.join(known)} do")
    return chosen


def _read_fixed(
    keys: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | bytes | None,
) -> Sequence[VerifyingKey]:
    if keys is None:
        return ()
    return read_pem(keys) if isinstance(keys, str | bytes) else read_keys(keys)


def _check_secret(secret: str | bytes) -> bytes:
    found = secret.encode() if isinstance(secret, str) else secret
    if len(found) < _SECRET_LEAST:
        raise ValueError(f"the secret has {len(found)} bytes, expected at least {_SECRET_LEAST}")
    if b"-----BEGIN" in found or found.startswith((b"ssh-", b"ecdsa-")):
        # A public key is public: with it as the secret, any client could sign tokens.
        raise ValueError("the secret is a key of a pair; give public keys as keys")
    return found


def header_fault(header: Mapping[str, object], algorithms: Iterable[str]) -> str | None:
    """Return why a token with this header is refused; None if it is accepted."""
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        return f"its algorithm is {str(algorithm)[:40]!r}"
    if "crit" in header:
        return "it has critical extensions"
    type = header.get("typ", "JWT")
    if not isinstance(type, str) or type.lower() not in _TYPES:
        return f"its type is {str(type)[:40]!r}"
    return None


def _bytes(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(f"{part}{'=' * (-len(part) % 4)}")
    except ValueError:
        raise InvalidToken("it is not a JWT") from None


def _object(part: str, name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_bytes(part), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidToken(f"its {name} is not a JSON object") from None


def claims_fault(
    claims: Mapping[str, object],
    *,
    issuer: str | None,
    audience: Sequence[str],
    clients: Collection[str] = (),
    now: float,
    leeway: float = 0.0,
) -> str | None:
    """Return why a token with these claims is refused; None if it is accepted.

    Args:
        claims: of the token.
        issuer: the accepted issuer; None if the issuer is already known.
        audience: the accepted audiences.
        clients: the ids of clients that may have a token without an audience.
        now: seconds since 1970.
        leeway: seconds by which clocks may differ.
    """
    if issuer is not None and claims.get("iss") != issuer:
        return f"its issuer is {_format_value(claims.get('iss'))}, expected {_format_value(issuer)}"
    if not is_for(claims.get("aud"), audience):  # auth.token.audience-validated
        client = _client(claims)
        if claims.get("aud") is not None or client is None or client not in clients:
            expected = " or ".join(map(_format_value, audience)) or "none"
            given = _format_value(claims.get("aud"))
            return f"its audience is {given}, expected {expected} (see audience=)"
    ends = _timestamp(claims, "exp")
    if ends is None:
        return "it does not say when it expires"
    if ends + leeway <= now:
        return f"it expired {now - ends:.0f} s ago"
    for name in ("nbf", "iat"):
        begins = _timestamp(claims, name)
        if name in claims and begins is None:
            return f"{name} is not a time"
        if begins is not None and begins - leeway > now:
            return (
                f"it is not valid for another {begins - now:.0f} s ({name}); do the clocks agree?"
            )
    if _subject(claims) is None:
        return "it has neither sub nor a client id"
    return None


def _format_value(value: object) -> str:
    """Format a value of a token for the log: short, and on one line."""
    return ascii(value)[:200]


def _timestamp(claims: Mapping[str, object], name: str) -> float | None:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) < _LAST_TIMESTAMP else None


# The year 10000: `datetime` ends before it.
_LAST_TIMESTAMP: Final = 253_402_300_800


def _subject(claims: Mapping[str, object]) -> str | None:
    found = claims.get("sub") or _client(claims)
    return found if isinstance(found, str) else None


def _client(claims: Mapping[str, object]) -> str | None:
    for name in ("client_id", "azp", "cid", "appid"):
        found = claims.get(name)
        if isinstance(found, str) and found:
            return found
    return None


def principal_from_claims(
    claims: Mapping[str, object], scope_claims: Iterable[str] = _SCOPE_CLAIMS, prefix: str = ""
) -> Principal:
    """Return the principal of claims that were checked.

    Args:
        claims: of the token.
        scope_claims: the names of the claims with scopes.
        prefix: of the scopes, which the token leaves out.
    """
    issuer = claims.get("iss")
    return Principal(
        subject=_subject(claims) or "",
        client_id=_client(claims),
        scopes=_scopes(claims, scope_claims, prefix),
        issuer=issuer if isinstance(issuer, str) else None,
        expires_at=_timestamp(claims, "exp"),
        claims=claims,
    )


def _scopes(claims: Mapping[str, object], names: Iterable[str], prefix: str) -> frozenset[str]:
    found: list[object] = []
    for name in names:
        given = claims.get(name)
        if isinstance(given, str | list):
            found += given.split() if isinstance(given, str) else given
    texts = [each for each in found if isinstance(each, str)]
    return frozenset(each if each.startswith(prefix) else f"{prefix}{each}" for each in texts)
