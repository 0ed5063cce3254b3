"""The seam to authorization: tokens for requests, and answers to servers that want another one.

The transport knows no OAuth. It asks for a token before each request and reports every challenge.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

import msgspec

from accord.errors import AccordError, AuthError, FlowFailed, Forbidden, Unauthorized
from accord.http.client.sender import NotSent, SenderResponse
from accord.http.rules.responses import (
    AuthChallenge,
    bearer_challenge,
    is_same_origin,
    parse_challenges,
    quote_text,
)

log = logging.getLogger("accord.http")

CHALLENGES: Final = 3
"""How often one request is repeated because the server wanted another token."""

Pausing: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]

_NONCE: Final = "dpop-nonce"
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was refused for lack of authorization.

    Attributes:
        url: of the server.
        status: 401 or 403.
        values: the WWW-Authenticate headers.
        token: the token that was sent; None without one.
        repeats: how often this request was repeated before.
    """

    url: str
    status: int
    values: tuple[str, ...] = ()
    token: str | None = None
    repeats: int = 0

    def __repr__(self) -> str:
        return f"Challenge(status={self.status}, values={self.values})"

    @property
    def bearer(self) -> AuthChallenge:
        """The part about tokens."""
        return token_challenge(self.values) or AuthChallenge("bearer")


class Authorizer(Protocol):
    """Gives the tokens for a server."""

    async def token(self, resource_url: str) -> str | None:
        """Return the token for the next request; None to try without one.

        Raises:
            AuthError: a token is needed and could not be obtained.
        """

    async def challenged(self, challenge: Challenge) -> bool:
        """Obtain another token; true when the request should be repeated.

        Raises:
            AuthError: none could be obtained.
        """


class Prover(Protocol):
    """Proves with each request that the client has the key of its token (DPoP).

    An authorizer whose tokens are bound to a key has one as its attribute `prover`.
    """

    def headers(self, method: str, url: str, token: str) -> Mapping[str, str]:
        """Return the headers of a request with a token."""

    def learn(self, url: str, nonce: str | None) -> object:
        """Remember the nonce that a server wants in proofs; None if it did not say."""


Auth: TypeAlias = str | Authorizer
"""A bearer token, "oauth", or anything that gives tokens."""


class Bearer:
    """A token that was obtained by other means."""

    def __init__(self, token: str) -> None:
        text = token.strip()
        if text[:7].lower() == "bearer ":
            text = text[7:].strip()
        if not _TOKEN.fullmatch(text):
            raise ValueError("the bearer token has characters that are not allowed in tokens")
        self._token = text

    async def token(self, resource_url: str) -> str | None:
        return self._token

    @property
    def fixed_token(self) -> str:
        """The token, which never changes."""
        return self._token

    async def challenged(self, challenge: Challenge) -> bool:
        return False  # there is no other token


class Denied(NotSent):
    """A request that is given up because there is no token for it."""

    def __init__(self, error: AccordError) -> None:
        super().__init__(str(error), is_lasting=True)
        self.error = error


class RequestAuthorization:
    """Puts tokens into the requests of one connection."""

    def __init__(self, authorizer: Authorizer, url: str, pausing: Pausing) -> None:
        self._authorizer = authorizer
        self._prover: Prover | None = getattr(authorizer, "prover", None)
        self._url = url
        self._pausing = pausing

    async def token(self, url: str) -> str | None:
        """Return the token for a request to a URL; None when the URL is of another origin.

        Raises:
            Denied: the token could not be obtained.
        """
        if not is_same_origin(self._url, url):
            return None
        try:
            return await self._authorizer.token(self._url)
        except Exception as error:  # authorizers are user code
            raise self._denial(error) from None

    def fixed_token(self, url: str) -> str | None:
        """Return the token for a request to a URL where it needs no waiting; None elsewhere."""
        authorizer = self._authorizer
        if isinstance(authorizer, Bearer) and is_same_origin(self._url, url):
            return authorizer.fixed_token
        return None

    def sign(
        self, method: str, url: str, headers: Mapping[str, str], token: str | None
    ) -> Mapping[str, str]:
        """Return the headers of a request with its token, in place of any other."""
        if token is None or self._prover is None:
            return with_token(headers, token)
        added = self._prover.headers(method, url, token)
        named = {name.lower() for name in added}
        return {name: headers[name] for name in headers if name.lower() not in named} | {**added}

    def observe(self, url: str, response: SenderResponse) -> None:
        """Remember what a response says about the next request."""
        if self._prover is not None and is_same_origin(self._url, url):
            self._prover.learn(url, response.header(_NONCE))

    async def answer(
        self, url: str, response: SenderResponse, token: str | None, repeats: int
    ) -> bool:
        """Answer a challenge; true when the request should be repeated.

        Raises:
            Denied: no other token could be obtained.
        """
        values = challenge_values(response)
        challenge = Challenge(
            url=self._url, status=response.status, values=values, token=token, repeats=repeats
        )
        if not is_same_origin(self._url, url):
            return False
        if self._prover is not None and _wants_nonce(response, values):
            return True  # the token is good: only the proof lacked what `observe` remembered
        if response.status == 403 and challenge.bearer.error != "insufficient_scope":
            return False
        try:
            with self._pausing():
                return await self._authorizer.challenged(challenge)
        except Exception as error:  # authorizers are user code
            raise self._denial(error) from None

    def _denial(self, error: Exception) -> Denied:
        if isinstance(error, Denied):
            return error
        if isinstance(error, AccordError):
            return Denied(error)
        log.exception("the authorizer failed")
        return Denied(FlowFailed("authorizer", came=type(error).__name__))


@contextlib.contextmanager
def pause_deadline(deadline: asyncio.Timeout | None, seconds: float) -> Iterator[None]:
    """Stop a deadline for a while; afterwards it has its whole time again."""
    if deadline is None or deadline.expired() or deadline.when() is None:
        yield
        return
    with contextlib.suppress(RuntimeError):  # it is over, by another way
        deadline.reschedule(None)
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):
            deadline.reschedule(asyncio.get_running_loop().time() + seconds)


def with_token(headers: Mapping[str, str], token: str | None) -> Mapping[str, str]:
    """Return headers with a token, in place of any other that they may have."""
    if token is None:
        return headers
    others = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    return {**others, "Authorization": f"Bearer {token}"}  # auth.token.bearer-header


def _wants_nonce(response: SenderResponse, values: tuple[str, ...]) -> bool:
    is_named = response.status == 401 and bool(response.header(_NONCE))
    return is_named and any(each.error == "use_dpop_nonce" for each in parse_challenges(values))


def token_challenge(values: tuple[str, ...]) -> AuthChallenge | None:
    """Find the challenge for tokens: for bearer tokens, or else for those bound to a key."""
    bound = (each for each in parse_challenges(values) if each.scheme == "dpop")
    return bearer_challenge(values) or next(bound, None)


def challenge_values(response: SenderResponse) -> tuple[str, ...]:
    """Return the WWW-Authenticate headers of a response."""
    several = getattr(response, "headers_named", None)
    if several is not None:
        return tuple(several("www-authenticate"))
    only = response.header("www-authenticate")
    return () if only is None else (only,)


def auth_error(
    place: str, response: SenderResponse, why: str, *, has_auth: bool
) -> AuthError | None:
    """Return the error for a request that was refused; None when the status has other reasons."""
    values = challenge_values(response)
    challenge = token_challenge(values)
    said = _describe_challenge(challenge)
    if response.status == 401:
        text = f"{place}: {why}{said}; {_hint(values, has_auth=has_auth)}"
        return Unauthorized(text[:500], challenge=", ".join(values)[:1_000])
    if response.status == 403 and challenge is not None:
        text = f"{place}: {why}{said}"
        return Forbidden(text[:500], scopes=challenge.scopes)
    return None


def _hint(values: tuple[str, ...], *, has_auth: bool) -> str:
    """Return what would help, by what the server asks for."""
    schemes = list(dict.fromkeys(each.scheme for each in parse_challenges(values)))
    if schemes == ["dpop"] and not has_auth:
        return "pass auth=OAuth(dpop=DpopKey()) to obtain a token that is bound to a key"
    if schemes and not {"bearer", "dpop"} & set(schemes):
        named = quote_text(" or ".join(schemes))
        return f"the server does not take tokens but {named}: pass headers={{'Authorization': ...}}"
    if has_auth:
        return "the server does not take the token"
    challenge = token_challenge(values)
    if challenge is not None and challenge.resource_metadata is None:
        return 'pass auth="..." with a token; the server names no metadata to obtain one by'
    return 'pass auth="oauth" to obtain a token, or auth="..." with one'


def _describe_challenge(challenge: AuthChallenge | None) -> str:
    if challenge is None or not challenge.params:
        return ""
    facts = {
        "error": challenge.error,
        "because": challenge.params.get("error_description", ""),
        "scopes": " ".join(challenge.scopes),
        "metadata": challenge.resource_metadata or "",
    }
    text = ", ".join(f"{name} {quote_text(value)}" for name, value in facts.items() if value)
    return f"; it says: {text}" if text else ""
