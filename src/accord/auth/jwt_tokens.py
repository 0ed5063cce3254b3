"""JWT access tokens: which are good, as their header, signature and claims say."""

import base64
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from accord.auth.keys import FetchedKeys, FixedKeys, KeySource, read_keys, require_jwt
from accord.auth.resource import is_for
from accord.auth.verifiers import TokenMemory, digest_of
from accord.principal import Principal
from accord.transports.http.client.requests import Send

__all__ = ["ASYMMETRIC", "JwtVerifier", "claims_fault", "header_fault", "principal_of"]

log = logging.getLogger("accord.auth")

ASYMMETRIC: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
_SYMMETRIC: Final = ("HS256", "HS384", "HS512")
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_SECRET_LEAST: Final = 32
_SCOPE_CLAIMS: Final = ("scope", "scp")
# A token stays good for this long after its key was withdrawn.
_REMEMBERED: Final = 300.0
# What is signed, its two halves, and the signature.
_COMPACT: Final = re.compile(r"(([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+))\.([A-Za-z0-9_-]+)")
# Tokens that name no key are tried with so many.
_CANDIDATES_MOST: Final = 5


class JwtVerifier:
    """Takes JWTs that an issuer signed for this server.

    Args:
        issuer: as the claim `iss` has it, exactly.
        audience: whom tokens must be meant for; by default the URL of the server that uses the
            verifier.
        clients: ids of clients that are there for this server alone: their tokens are taken also
            where the issuer names no audience.
        jwks_url: where the issuer's keys are; by default where its metadata says.
        keys: the keys themselves, in place of the URL: a JWKS, or a list of JWKs.
        secret: a secret shared with the issuer, in place of keys; at least 32 bytes.
        algorithms: those that are accepted; only asymmetric ones unless there is a secret.
        leeway: seconds by which clocks may differ.
        settings: `scope_claims` names the claims that hold scopes, by default scope and scp;
            `scope_prefix` is what scopes begin with where they are asked for, but not in tokens;
            `send` carries requests for keys, `clock` tells seconds since 1970; further ones are
            those of `FetchedKeys`.

    Raises:
        ValueError: the keys do not fit the algorithms, or there are none.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str] | None = None,
        clients: Sequence[str] = (),
        jwks_url: str | None = None,
        keys: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        secret: str | bytes | None = None,
        algorithms: Sequence[str] | None = None,
        leeway: float = 60.0,
        **settings: Any,
    ) -> None:
        if sum(each is not None for each in (jwks_url, keys, secret)) > 1:
            raise ValueError("give only one of jwks_url, keys and secret")
        require_jwt()  # at once: it takes a moment
        self.issuer = issuer
        self.audience = _several(audience)
        self.clients = frozenset(_several(clients))
        self.leeway = leeway
        self.algorithms = _checked_algorithms(algorithms, has_secret=secret is not None)
        self._secret = None if secret is None else _checked_secret(secret)
        self._clock: Callable[[], float] = settings.get("clock", time.time)
        self._scope_claims = _several(settings.pop("scope_claims", _SCOPE_CLAIMS))
        self._scope_prefix: str = settings.pop("scope_prefix", "")
        send: Send | None = settings.pop("send", None)
        self._keys: KeySource
        if keys is None and secret is None:
            send = send or _sender(jwks_url or issuer)
            self._keys = FetchedKeys(issuer, jwks_url, send=send, **settings)
        else:
            settings.pop("clock", None)
            if settings:
                raise TypeError(f"settings for fetched keys: {', '.join(sorted(settings))}")
            self._keys = FixedKeys(read_keys(keys) if keys is not None else ())
        self.memory = TokenMemory(clock=self._clock)

    def for_audience(self, audience: str) -> "JwtVerifier":
        """Return the same for an audience, with the same keys, unless it has one already."""
        if self.audience:
            return self
        bound: JwtVerifier = object.__new__(JwtVerifier)
        bound.__dict__.update(self.__dict__)
        bound.audience = (audience,)
        bound.memory = TokenMemory(clock=self._clock)
        return bound

    async def verify(self, token: str) -> Principal | None:
        """Return whom a token stands for.

        Raises:
            AuthError: the issuer's keys could not be fetched.
        """
        digest = digest_of(token)
        known = self.memory.find(digest)
        if known is not None:
            return known[0]
        try:
            principal = await self._read(token)
        except _NotGood as error:
            log.info("a token is refused: %s", error)
            return None
        self.memory.keep(digest, principal, _REMEMBERED)
        return principal

    async def _read(self, token: str) -> Principal:
        parts = _COMPACT.fullmatch(token)
        if parts is None:
            raise _NotGood("it is no JWT")
        header = _object(parts[2], "header")
        fault = header_fault(header, self.algorithms)
        if fault is not None:
            raise _NotGood(fault)
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
            raise _NotGood(fault)
        return principal_of(claims, self._scope_claims, self._scope_prefix)

    async def _check_signature(
        self, header: Mapping[str, Any], signed: bytes, signature: bytes
    ) -> None:
        algorithm: str = header["alg"]
        verify = require_jwt().get_algorithm_by_name(algorithm).verify
        if self._secret is not None:
            if not verify(signed, self._secret, signature):
                raise _NotGood("its signature is wrong: it is not that of the shared secret")
            return
        id = header.get("kid")
        if not isinstance(id, str | None):
            raise _NotGood("the id of its key is no text")
        tried = 0
        # A key that has changed under its name, or without one, shows in this way alone.
        for find in (self._keys.candidates, self._keys.candidates_anew):
            found = await find(algorithm, id)
            tried += len(found)
            if any(verify(signed, each.key, signature) for each in found[:_CANDIDATES_MOST]):
                return
        if not tried:
            raise _NotGood(f"the issuer has no key {_shown(id)} for {algorithm}")
        raise _NotGood(f"its signature is wrong: it is not that of the issuer's key {_shown(id)}")


class _NotGood(Exception):
    """Why a token is refused."""


def _several(audience: str | Sequence[str] | None) -> tuple[str, ...]:
    if audience is None:
        return ()
    return (audience,) if isinstance(audience, str) else tuple(audience)


def _checked_algorithms(asked: Sequence[str] | None, *, has_secret: bool) -> frozenset[str]:
    known = _SYMMETRIC if has_secret else ASYMMETRIC
    chosen = frozenset(asked or (("HS256",) if has_secret else known))
    unfit = sorted(chosen.difference(known))
    if unfit:
        needs = "go with a shared secret" if has_secret else "go with keys"
        raise ValueError(f"algorithms {', '.join(unfit)} do not {needs}: {', '.join(known)} do")
    return chosen


def _checked_secret(secret: str | bytes) -> bytes:
    found = secret.encode() if isinstance(secret, str) else secret
    if len(found) < _SECRET_LEAST:
        raise ValueError(f"the secret has {len(found)} bytes, expected at least {_SECRET_LEAST}")
    if b"-----BEGIN" in found or found.startswith((b"ssh-", b"ecdsa-")):
        # Everybody knows a public key: whoever takes it for a secret takes everybody's tokens.
        raise ValueError("the secret is a key of a pair; give public keys as keys")
    return found


def _sender(url: str) -> Send:
    from accord.transports.http.client.guarded import AddressPolicy, GuardedSender

    # The operator named this URL, so that it may be anywhere; what it redirects to may not.
    return GuardedSender(AddressPolicy.beside(url, [url]), seconds=10.0).send


def header_fault(header: Mapping[str, Any], algorithms: Iterable[str]) -> str | None:
    """Say why a token with this header is refused; None where it is not."""
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
        raise _NotGood("it is no JWT") from None


def _object(part: str, name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_bytes(part), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _NotGood(f"its {name} is no JSON object") from None


def claims_fault(
    claims: Mapping[str, Any],
    *,
    issuer: str | None,
    audience: Sequence[str],
    clients: Collection[str] = (),
    now: float,
    leeway: float = 0.0,
) -> str | None:
    """Say why a token with these claims is refused; None where it is not.

    Args:
        claims: what the token says.
        issuer: who must have issued it; None where that is known otherwise.
        audience: whom it must be meant for.
        clients: who must have got it, where it does not say whom it is meant for.
        now: seconds since 1970.
        leeway: seconds by which clocks may differ.
    """
    if issuer is not None and claims.get("iss") != issuer:
        return f"its issuer is {_shown(claims.get('iss'))}, expected {_shown(issuer)}"
    if not is_for(claims.get("aud"), audience):  # auth.token.audience-validated
        client = _client(claims)
        if claims.get("aud") is not None or client is None or client not in clients:
            expected = " or ".join(map(_shown, audience)) or "none"
            return (
                f"its audience is {_shown(claims.get('aud'))}, expected {expected} (see audience=)"
            )
    ends = _moment(claims, "exp")
    if ends is None:
        return "it does not say when it expires"
    if ends + leeway <= now:
        return f"it expired {now - ends:.0f} s ago"
    for name in ("nbf", "iat"):
        begins = _moment(claims, name)
        if name in claims and begins is None:
            return f"{name} is no time"
        if begins is not None and begins - leeway > now:
            return (
                f"it is not valid for another {begins - now:.0f} s ({name}); do the clocks agree?"
            )
    if _subject(claims) is None:
        return "it stands for nobody: it has neither sub nor a client id"
    return None


def _shown(value: object) -> str:
    """Return what stands in a token, for the log: short, and on one line."""
    return ascii(value)[:200]


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) < _LAST_MOMENT else None


# Later than this no date can be written.
_LAST_MOMENT: Final = 253_402_300_800


def _subject(claims: Mapping[str, Any]) -> str | None:
    found = claims.get("sub") or _client(claims)
    return found if isinstance(found, str) else None


def _client(claims: Mapping[str, Any]) -> str | None:
    for name in ("client_id", "azp", "cid", "appid"):
        found = claims.get(name)
        if isinstance(found, str) and found:
            return found
    return None


def principal_of(
    claims: Mapping[str, Any], scope_claims: Iterable[str] = _SCOPE_CLAIMS, prefix: str = ""
) -> Principal:
    """Return whom claims stand for; they have been found to be good.

    Args:
        claims: what a token says.
        scope_claims: where its scopes are.
        prefix: what they begin with elsewhere.
    """
    issuer = claims.get("iss")
    return Principal(
        subject=_subject(claims) or "",
        client_id=_client(claims),
        scopes=frozenset(
            each if each.startswith(prefix) else f"{prefix}{each}"
            for each in _scopes(claims, scope_claims)
        ),
        issuer=issuer if isinstance(issuer, str) else None,
        expires_at=_moment(claims, "exp"),
        claims=claims,
    )


def _scopes(claims: Mapping[str, Any], names: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for name in names:
        given = claims.get(name)
        if isinstance(given, str):
            found.update(given.split())
        elif isinstance(given, list):
            found.update(each for each in given if isinstance(each, str))
    return frozenset(found)
