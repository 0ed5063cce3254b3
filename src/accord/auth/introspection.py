"""Verifies opaque tokens: the issuer is asked about each (RFC 7662)."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import msgspec

from accord.auth.client_identity import basic_authorization
from accord.auth.jwt_verifier import as_tuple, claims_fault, principal_from_claims
from accord.auth.verifiers import REQUEST_SOURCE, TokenMemory, token_digest
from accord.errors import AuthError
from accord.http.client.guarded import (
    HttpResponse,
    NoResponse,
    Send,
    form_request,
    operator_sender,
)
from accord.http.rules.responses import quote_url
from accord.principal import Principal

log = logging.getLogger("accord.auth")

# Seconds that a refused token is remembered, so that not every request asks again.
_REFUSED_FOR: Final = 10.0
_REFUSED_MOST: Final = 1_000
# The expiry of tokens for which the issuer gives none; they are asked about again anyway.
_FAR: Final = 3600.0


class IntrospectionVerifier:
    """Accepts tokens that their issuer calls active and meant for this server.

    Args:
        url: of the introspection endpoint.
        client_id: of this server at the issuer.
        client_secret: of this server at the issuer.
        audience: the accepted audiences; by default the URL of the server that uses the verifier.
            An empty list accepts tokens without an audience.
        clients: ids of clients that exist for this server alone: their tokens are accepted also
            without an audience.
        issuer: the expected `iss` of responses that have one.
        authenticate: how the secret is sent: "basic" in a header, "post" in the form.
        remember: seconds for which a response counts, and so how long a revoked token still works.
        settings: `send` sends the requests, `clock` returns seconds since 1970.
    """

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        audience: str | Sequence[str] | None = None,
        clients: Sequence[str] = (),
        issuer: str | None = None,
        authenticate: Literal["basic", "post"] = "basic",
        remember: float = 30.0,
        **settings: Any,
    ) -> None:
        self.url = url
        self.audience = None if audience is None else as_tuple(audience)
        self.clients = frozenset(as_tuple(clients))
        self.issuer = issuer
        self._client = (client_id, client_secret)
        self._authenticate = authenticate
        self._remember = remember
        self._clock: Callable[[], float] = settings.pop("clock", time.time)
        self._send: Send = settings.pop("send", None) or operator_sender(url)
        if settings:
            raise TypeError(f"unknown settings: {', '.join(sorted(settings))}")
        self.memory = TokenMemory(clock=self._clock)
        # Separate, so that made-up tokens do not displace valid ones.
        self._refused = TokenMemory(most=_REFUSED_MOST, clock=self._clock)
        self._asking: dict[bytes, asyncio.Task[Principal | None]] = {}
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, FairQueue] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<IntrospectionVerifier at {quote_url(self.url)}>"

    def for_audience(self, audience: str) -> "IntrospectionVerifier":
        """Return a verifier for an audience; itself if it has one already."""
        if self.audience is not None:
            return self
        bound = copy(self)
        bound.audience = (audience,)
        bound.memory = TokenMemory(clock=self._clock)
        bound._refused = TokenMemory(most=_REFUSED_MOST, clock=self._clock)
        bound._asking = {}
        return bound

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid token.

        Raises:
            AuthError: the issuer cannot be asked.
        """
        digest = token_digest(token)
        known = self.memory.find(digest) or self._refused.find(digest)
        if known is not None:
            return known[0]
        loop = asyncio.get_running_loop()
        task = self._asking.get(digest)
        if task is None or task.get_loop() is not loop:
            # One question for all requests with the token meanwhile.
            task = self._asking[digest] = loop.create_task(self._ask_in_turn(token, digest))
            task.add_done_callback(lambda _: self._asking.pop(digest, None))
        return await asyncio.shield(task)

    async def _ask_in_turn(self, token: str, digest: bytes) -> Principal | None:
        # Made-up tokens must not flood the issuer, nor delay valid ones: one address gets at most
        # half of the concurrent requests, and has a queue of its own.
        queue = self._queues.setdefault(asyncio.get_running_loop(), FairQueue())
        try:
            async with queue.take(REQUEST_SOURCE.get()):
                return await self._ask(token, digest)
        except QueueFull:
            why = "introspection failed: too many tokens are being asked about"
            raise AuthError(why) from None

    async def _ask(self, token: str, digest: bytes) -> Principal | None:
        fields = {"token": token, "token_type_hint": "access_token"}
        headers = {}
        name, secret = self._client
        if self._authenticate == "basic":
            headers["Authorization"] = basic_authorization(name, secret)
        else:
            fields |= {"client_id": name, "client_secret": secret}
        try:
            response = await self._send(form_request(self.url, fields, headers))
        except NoResponse as error:
            raise AuthError(f"introspection failed: {error.reason}") from None
        principal = self._judge(_answer(response, self.url))
        if principal is None:
            self._refused.keep(digest, None, _REFUSED_FOR)
        else:
            self.memory.keep(digest, principal, self._remember)
        return principal

    def _judge(self, claims: Mapping[str, Any]) -> Principal | None:
        if claims.get("active") is not True:
            return None
        now = self._clock()
        audience, checked = self.audience, dict(claims)
        if audience is not None and not audience and not claims.get("aud"):
            checked["aud"] = audience = ("",)
        # The issuer has checked the times already, and may leave them out.
        checked.setdefault("exp", now + _FAR)
        checked.setdefault("sub", claims.get("username"))
        issuer = self.issuer if "iss" in claims else None
        fault = claims_fault(
            checked,
            issuer=issuer,
            audience=audience or (),
            clients=self.clients,
            now=now,
            leeway=60.0,
        )
        if fault is not None:
            log.info("an introspected token is refused: %s", fault)
            return None
        found = principal_from_claims(checked)
        expires_at = found.expires_at if "exp" in claims else None
        issuer = found.issuer or self.issuer
        return msgspec.structs.replace(found, issuer=issuer, expires_at=expires_at, claims=claims)


def _answer(response: HttpResponse, url: str) -> Mapping[str, Any]:
    found = response.object()
    if response.status != 200 or found is None:
        # Most likely our own credentials are wrong, not the caller's token.
        log.error("introspection at %s was answered with %s", quote_url(url), response.summary)
        raise AuthError(f"introspection failed: {response.summary}")
    return found


class QueueFull(Exception):
    """The queue of a source is full, or its turn did not come in time."""


class FairQueue:
    """Limits concurrent work, fairly between sources. For one event loop.

    No source gets more than its share, and free slots go round between the sources that wait: a
    source that sends a flood delays only itself.

    Args:
        most: how many tasks may run at once.
        share: how many of these may be of one source.
        waiting: how many more of one source may wait.
        waiting_in_all: how many may wait in all.
        seconds: how long a task waits at most.
    """

    def __init__(
        self,
        most: int = 100,
        *,
        share: int = 50,
        waiting: int = 100,
        waiting_in_all: int = 2_000,
        seconds: float = 10.0,
    ) -> None:
        self._most = most
        self._share = share
        self._waiting = waiting
        self._waiting_in_all = waiting_in_all
        self._seconds = seconds
        self._working: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def take(self, source: str) -> AsyncIterator[None]:
        """Hold a slot for the block, after waiting for it.

        Raises:
            QueueFull: too many wait, or the slot did not come in time.
        """
        if self._has_slot(source):
            self._working[source] += 1
        else:
            await self._wait(source)
        try:
            yield
        finally:
            self._free(source)

    def _has_slot(self, source: str) -> bool:
        return self._working.total() < self._most and self._working[source] < self._share

    async def _wait(self, source: str) -> None:
        queue = self._queues.get(source, ())
        is_full = sum(map(len, self._queues.values())) >= self._waiting_in_all
        if len(queue) >= self._waiting or is_full:
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(source, deque()).append(turn)
        try:
            async with asyncio.timeout(self._seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._free(source)  # the slot arrived as the wait was given up
            else:
                self._leave(source, turn)
            if isinstance(error, TimeoutError):
                raise QueueFull from None
            raise

    def _leave(self, source: str, turn: "asyncio.Future[None]") -> None:
        queue = self._queues.get(source)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[source]

    def _free(self, source: str) -> None:
        """Free a slot, and hand it to the source that has waited longest."""
        self._working[source] -= 1
        if not self._working[source]:
            del self._working[source]
        for waiting in list(self._queues):
            if not self._has_slot(waiting):
                continue
            queue = self._queues[waiting]
            turn = queue.popleft()
            if queue:
                self._queues.move_to_end(waiting)
            else:
                del self._queues[waiting]
            if turn.done():  # given up a moment ago
                continue
            self._working[waiting] += 1
            turn.set_result(None)
