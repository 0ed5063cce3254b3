"""Verifiers of tokens: the interface, fixed tokens, several in order, and a memory."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from accord.auth.resource import is_token
from accord.errors import AuthError
from accord.principal import Principal

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend

REQUEST_SOURCE: Final[ContextVar[str]] = ContextVar("accord-source", default="")
"""The network of the client whose token is being verified, for fair limits."""

Remembered: TypeAlias = tuple[Principal | None, float]
"""Whose a token is, None for an invalid one, and until when that holds."""

# A principal with its claims weighs a few kilobytes.
_REMEMBERED: Final = 10_000


@runtime_checkable
class TokenVerifier(Protocol):
    """Verifies tokens."""

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid token.

        Raises:
            AuthError: the token cannot be verified now.
        """


def for_audience(verifier: TokenVerifier, audience: str) -> TokenVerifier:
    """Return a verifier that accepts tokens for an audience, unless it has audiences of its own.

    Verifiers without an audience of their own have a method `for_audience`.
    """
    bind = getattr(verifier, "for_audience", None)
    if bind is None:
        return verifier
    bound: TokenVerifier = bind(audience)
    return bound


class StaticTokens:
    """Accepts fixed tokens, for development and for machines.

    Attributes:
        issuer: empty, since no authorization server issues them.

    Args:
        tokens: each with its principal, or with its scopes.

    Raises:
        ValueError: one is not a valid bearer token.
    """

    issuer: tuple[str, ...] = ()

    def __init__(self, tokens: Mapping[str, Principal | Iterable[str]]) -> None:
        for number, token in enumerate(tokens, 1):
            if not is_token(token):
                # Perhaps part of a secret, so it is not shown.
                raise ValueError(f"token {number} is empty or has characters that no token has")
        # Kept as digests: the timing of a look-up reveals nothing about the tokens.
        self._known = {
            token_digest(token): _principal(given, number)
            for number, (token, given) in enumerate(tokens.items(), 1)
        }

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an unknown or expired one."""
        found = self._known.get(token_digest(token))
        if found is None or (found.expires_at is not None and found.expires_at <= time.time()):
            return None
        return found

    def __repr__(self) -> str:
        return f"<StaticTokens: {len(self._known)}>"


def _principal(given: Principal | Iterable[str], number: int) -> Principal:
    if isinstance(given, Principal):
        return given
    scopes = given.split() if isinstance(given, str) else given
    return Principal(f"token-{number}", scopes=frozenset(scopes))


class FirstOf:
    """Asks verifiers in order; the first that accepts a token decides."""

    def __init__(self, *verifiers: TokenVerifier) -> None:
        if not verifiers:
            raise ValueError("FirstOf needs at least one verifier")
        self.verifiers = verifiers

    @property
    def issuer(self) -> tuple[str, ...] | None:
        """The authorization servers of all; None if they are unknown."""
        named = [getattr(each, "issuer", None) for each in self.verifiers]
        found = [(each,) if isinstance(each, str) else each or () for each in named]
        issuers = tuple(dict.fromkeys(one for each in found for one in each))
        return issuers if issuers or None not in named else None

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid token.

        Raises:
            AuthError: no verifier accepts it, and one could not verify it now.
        """
        unsure: AuthError | None = None
        for verifier in self.verifiers:
            try:
                found = await verifier.verify(token)
            except AuthError as error:
                unsure = error
                continue
            if found is not None:
                return found
        if unsure is not None:
            raise unsure
        return None

    def use_backend(self, backend: "Backend") -> None:
        """Let the verifiers share state with other workers by their store."""
        for each in self.verifiers:
            use_backend = getattr(each, "use_backend", None)
            if use_backend is not None:
                use_backend(backend)

    def for_audience(self, audience: str) -> "FirstOf":
        """Return the same verifiers for an audience."""
        return FirstOf(*(for_audience(each, audience) for each in self.verifiers))


class TokenMemory:
    """Remembers the results of verification by the digests of tokens, for a while.

    A guard reads the `memory` of a verifier before it asks the verifier.

    Args:
        most: how many are remembered; the oldest are forgotten.
        clock: seconds since 1970.

    Attributes:
        known: by digest the principal, and until when that holds.
    """

    def __init__(self, *, most: int = _REMEMBERED, clock: Callable[[], float] = time.time) -> None:
        self._most = most
        self.clock = clock
        self.known: dict[bytes, Remembered] = {}

    def find(self, digest: bytes) -> Remembered | None:
        """Return the principal of a token and when it ends; None for an unknown token."""
        found = self.known.get(digest)
        if found is None:
            return None
        if found[1] <= self.clock():
            del self.known[digest]
            return None
        return found

    def keep(self, digest: bytes, principal: Principal | None, seconds: float) -> None:
        """Remember for so many seconds, at the longest until a principal's token expires."""
        until = self.clock() + seconds
        if principal is not None and principal.expires_at is not None:
            until = min(until, principal.expires_at)
        while len(self.known) >= self._most:
            self.known.pop(next(iter(self.known)))
        self.known[digest] = (principal, until)


def token_digest(token: str | bytes) -> bytes:
    """Return the digest by which a token is remembered."""
    given = token.encode() if isinstance(token, str) else token
    # The fastest cryptographic hash: it is computed with every request.
    return blake2b(given).digest()
