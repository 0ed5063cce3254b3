"""Tokens that say nothing themselves: their issuer is asked about each (RFC 7662)."""

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote_plus
from weakref import WeakKeyDictionary

from accord.auth.jwt_tokens import claims_fault, principal_of
from accord.auth.turns import SOURCE, NoTurn, Turns
from accord.auth.verifiers import TokenMemory, digest_of
from accord.bindings.shown import shown_url
from accord.errors import AuthError
from accord.principal import Principal
from accord.transports.http.client.requests import HttpResponse, NoResponse, Send, form_request

__all__ = ["IntrospectionVerifier"]

log = logging.getLogger("accord.auth")

# Tokens that are not good are asked about again soon, but not with every request.
_REFUSED_FOR: Final = 10.0
_REFUSED_MOST: Final = 1_000
# Made-up tokens must not turn us against the issuer, nor keep good ones from being asked about: one
# address has half of the places at most, and waits in a line of its own.
_ASKING_MOST: Final = 100
_SHARE: Final = 50
_WAITING: Final = 100
_WAITING_IN_ALL: Final = 2_000
_PATIENCE: Final = 10.0
# Where the issuer does not say when a token ends, it is asked again as if it ended now.
_FAR: Final = 3600.0


class IntrospectionVerifier:
    """Takes tokens that their issuer calls active and meant for this server.

    Args:
        url: of the introspection endpoint.
        client_id: who we are there.
        client_secret: proves it.
        audience: whom tokens must be meant for; by default the URL of the server that uses the
            verifier. An empty list takes tokens whose audience the issuer does not tell.
        clients: ids of clients that are there for this server alone: their tokens are taken also
            where the issuer does not tell the audience.
        issuer: what the answer's `iss` must be, where it has one.
        authenticate: how the secret is sent: "basic" in a header, "post" in the form.
        remember: seconds for which an answer counts, and so how long a revoked token still works.
        settings: `send` carries the requests, `clock` tells seconds since 1970.
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
        self.audience = (audience,) if isinstance(audience, str) else audience
        self.clients = frozenset((clients,) if isinstance(clients, str) else clients)
        self.issuer = issuer
        self._client = (client_id, client_secret)
        self._authenticate = authenticate
        self._remember = remember
        self._clock: Callable[[], float] = settings.pop("clock", time.time)
        self._send: Send = settings.pop("send", None) or _sender(url)
        if settings:
            raise TypeError(f"unknown settings: {', '.join(sorted(settings))}")
        self.memory = TokenMemory(clock=self._clock)
        # By itself: however many are made up, no good one is forgotten for them.
        self._refused = TokenMemory(most=_REFUSED_MOST, clock=self._clock)
        self._asking: dict[bytes, asyncio.Task[Principal | None]] = {}
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<IntrospectionVerifier at {shown_url(self.url)}>"

    def for_audience(self, audience: str) -> "IntrospectionVerifier":
        """Return the same for an audience, unless it has one already."""
        if self.audience is not None:
            return self
        bound: IntrospectionVerifier = object.__new__(IntrospectionVerifier)
        bound.__dict__.update(self.__dict__)
        bound.audience = (audience,)
        bound.memory = TokenMemory(clock=self._clock)
        bound._refused = TokenMemory(most=_REFUSED_MOST, clock=self._clock)
        bound._asking = {}
        return bound

    async def verify(self, token: str) -> Principal | None:
        """Return whom a token stands for.

        Raises:
            AuthError: the issuer cannot be asked.
        """
        digest = digest_of(token)
        known = self.memory.find(digest) or self._refused.find(digest)
        if known is not None:
            return known[0]
        loop = asyncio.get_running_loop()
        task = self._asking.get(digest)
        if task is None or task.get_loop() is not loop:
            # One question for all requests that bring the token meanwhile.
            task = self._asking[digest] = loop.create_task(self._ask_in_turn(token, digest))
            task.add_done_callback(lambda _: self._asking.pop(digest, None))
        return await asyncio.shield(task)

    async def _ask_in_turn(self, token: str, digest: bytes) -> Principal | None:
        loop = asyncio.get_running_loop()
        turns = self._turns.get(loop)
        if turns is None:
            turns = self._turns[loop] = Turns(
                _ASKING_MOST,
                share=_SHARE,
                waiting=_WAITING,
                waiting_in_all=_WAITING_IN_ALL,
                seconds=_PATIENCE,
            )
        try:
            async with turns.take(SOURCE.get()):
                return await self._ask(token, digest)
        except NoTurn:
            why = "introspection failed: too many tokens are being asked about"
            raise AuthError(why) from None

    async def _ask(self, token: str, digest: bytes) -> Principal | None:
        fields = {"token": token, "token_type_hint": "access_token"}
        headers = {}
        name, secret = self._client
        if self._authenticate == "basic":
            pair = f"{quote_plus(name)}:{quote_plus(secret)}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
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
        audience, told = self.audience, dict(claims)
        if audience is not None and not audience and not claims.get("aud"):
            told["aud"] = audience = [""]
        # The issuer has looked at the times already, and may not tell them.
        told.setdefault("exp", now + _FAR)
        told.setdefault("sub", claims.get("username"))
        issuer = self.issuer if "iss" in claims else None
        fault = claims_fault(
            told,
            issuer=issuer,
            audience=audience or (),
            clients=self.clients,
            now=now,
            leeway=60.0,
        )
        if fault is not None:
            log.info("an introspected token is refused: %s", fault)
            return None
        found = principal_of(told)
        return Principal(
            subject=found.subject,
            client_id=found.client_id,
            scopes=found.scopes,
            issuer=found.issuer or self.issuer,
            expires_at=found.expires_at if "exp" in claims else None,
            claims=claims,
        )


def _answer(response: HttpResponse, url: str) -> Mapping[str, Any]:
    found = response.object()
    if response.status != 200 or found is None:
        # Most likely our own credentials: the caller's token may be as good as any.
        log.error("introspection at %s was answered with %s", shown_url(url), response.shown)
        raise AuthError(f"introspection failed: {response.shown}")
    return found


def _sender(url: str) -> Send:
    from accord.transports.http.client.guarded import AddressPolicy, GuardedSender

    return GuardedSender(AddressPolicy.beside(url, [url]), seconds=10.0).send
