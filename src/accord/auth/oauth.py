"""Obtains tokens as servers ask for them: the flows, a person, a store, joined into one object."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from accord.auth.browser import Interaction, OpenBrowser
from accord.auth.client_key import ClientKey
from accord.auth.discovery import (
    ServerMetadata,
    belongs_to,
    canonical_resource,
    discover,
    is_same_issuer,
)
from accord.auth.flow import (
    ResourceRejected,
    TokenRefused,
    chosen_scopes,
    refresh,
)
from accord.auth.obtaining import Obtaining
from accord.auth.tokens import (
    FileStore,
    Grant,
    TokenStore,
    check_writable,
    client_key,
    issuer_in,
    server_key,
)
from accord.bindings.shown import plain
from accord.errors import FlowFailed
from accord.transports.http.client.auth import Challenge
from accord.transports.http.client.guarded import AddressPolicy, GuardedSender

__all__ = ["OAuth"]

Value = TypeVar("Value")

log = logging.getLogger("accord.auth")

_NEAR: Final = ("localhost", "127.0.0.1", "::1")
# So that not every request waits in vain for an issuer that is away.
_RENEW_PAUSE: Final = 10.0


class _Known:
    """What is known of one server in this process."""

    __slots__ = ("grant", "is_loaded", "refused", "renew_at", "source")

    def __init__(self) -> None:
        self.grant: Grant | None = None
        self.is_loaded = False
        self.renew_at = 0.0
        self.source: Literal["store", "refresh", "authorization"] = "store"
        # What was asked for in vain: asking again would only trouble the person.
        self.refused: set[tuple[int, str, tuple[str, ...]]] = set()


class _Flight:
    __slots__ = ("task", "waiting")

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.waiting = 0


@dataclass(kw_only=True)
class OAuth:
    """Obtains, keeps and renews tokens; may be shared by any number of connections.

    Args:
        client_id: given by the authorization server; by default the client registers itself.
        client_secret: the same, where the client has one.
        client_key: a key in place of the secret.
        authenticate: how the secret is shown: "basic" in a header, "post" in the form; by default
            what the server says that it supports.
        client_metadata_url: where the client publishes its metadata, used where servers support it.
        client_name: what a person reads when asked for consent.
        issuer: the only authorization server to trust; required together with a secret, or with a
            key that signs for a fixed audience: any server could else have them sent to its own.
        scopes: to ask for, in place of all that the server supports.
        grant: "authorization_code" asks a person in a browser, "device" a person elsewhere,
            "client_credentials" nobody.
        resource: whether authorization servers are told which server a token is for: "send",
            "omit", or "auto", which leaves it out for servers that explicitly reject it.
        store: where tokens are kept; by default a file that only its owner can read.
        redirect_port: the port to be redirected to, where the client is registered with one.
        redirect_uri: the same for all of the URI, such as http://localhost:8080/signed-in; without
            a port, any will do.
        open_browser: called with the URL in place of opening a browser; may return the URL that it
            was redirected to.
        paste: returns what a person pastes where there is no browser.
        tell: called with texts for the person.
        timeout: seconds that a person may take.
        offline: whether to ask for refresh tokens where that is a scope of its own.
        trust: origins that may be asked although they are at private addresses or without TLS.
        tls: an `ssl.SSLContext` for authorization servers.
        proxy: the URL of a proxy for them.
    """

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    client_key: ClientKey | None = None
    authenticate: Literal["basic", "post"] | None = None
    client_metadata_url: str | None = None
    client_name: str = "accord"
    issuer: str | None = None
    scopes: Sequence[str] | None = None
    grant: Literal["authorization_code", "client_credentials", "device"] = "authorization_code"
    resource: Literal["send", "omit", "auto"] = "auto"
    store: TokenStore | None = None
    redirect_port: int = 0
    redirect_uri: str | None = None
    open_browser: OpenBrowser | None = None
    paste: Callable[[], Any] | None = None
    tell: Callable[[str], object] | None = None
    timeout: float = 300.0
    offline: bool = True
    trust: Sequence[str] = ()
    tls: Any = None
    proxy: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.grant not in ("authorization_code", "client_credentials", "device"):
            raise ValueError(f"there is no grant {self.grant!r}")
        if self.resource not in ("send", "omit", "auto"):
            raise ValueError(f"resource is {self.resource!r}, expected send, omit or auto")
        if isinstance(self.scopes, str):
            self.scopes = self.scopes.split()
        self.client_secret = self.client_secret or None  # a variable that is not set
        self._check_client()
        self._store: TokenStore = self.store if self.store is not None else FileStore()
        self._servers: dict[str, _Known] = {}
        self._flights: dict[tuple[Any, str], _Flight] = {}
        interaction = Interaction(
            open_browser=self.open_browser,
            paste=self.paste,
            tell=self.tell,
            seconds=self.timeout,
        )
        self._obtaining = Obtaining(self, self._store, interaction)

    def _check_client(self) -> None:
        if self.authenticate not in (None, "basic", "post"):
            raise ValueError(f"authenticate is {self.authenticate!r}, expected basic or post")
        if self.client_key is not None and self.client_secret is not None:
            raise ValueError("give a client_secret or a client_key, not both")
        if self.client_key is not None and not (self.client_id or self.client_metadata_url):
            raise ValueError("client_key needs the client_id that the server knows it by")
        self._check_pinned()
        if self.redirect_uri is not None:
            parts = urlsplit(self.redirect_uri)
            is_near = parts.scheme == "http" and parts.hostname in _NEAR and not parts.username
            if not is_near or parts.query or parts.fragment or self.redirect_port:
                raise ValueError(
                    f"redirect_uri is {self.redirect_uri[:200]!r}, expected http:// on localhost, "
                    "127.0.0.1 or [::1], without a query, and no redirect_port beside it"
                )
        for each in self.trust:
            if urlsplit(each).scheme not in ("http", "https") or not urlsplit(each).hostname:
                raise ValueError(f"trust names {each!r}, expected an origin: https://host[:port]")

    def _check_pinned(self) -> None:
        """Demand the issuer where a hostile server could have a credential sent elsewhere."""
        if self.issuer is not None:
            return
        is_fixed = self.client_key is not None and self.client_key.has_fixed_audience
        if self.client_secret is None and not is_fixed:
            return
        given = "client_secret" if self.client_secret is not None else "ClientKey(audience=...)"
        raise ValueError(
            f"{given} needs issuer=: add OAuth(issuer='https://...'), the URL of the authorization "
            "server that the client is registered with; otherwise any server could name its own "
            "authorization server and be sent the credential"
        )

    # -- what a connection asks

    async def token(self, resource_url: str) -> str | None:
        """Return the token for a server, renewed where it is due; None where there is none.

        Raises:
            FlowFailed: it is over, and the authorization server cannot be asked for another.
        """
        known = self._servers.get(resource_url)
        if known is None or not known.is_loaded:
            known = await self._load(resource_url)
        grant = known.grant
        if grant is None:
            return None
        # One that cannot be renewed is shown until the server refuses it.
        if not grant.is_due(time.time()) or grant.refresh_token is None:
            return grant.access_token
        is_over = grant.expires_at is not None and time.time() >= grant.expires_at
        if not is_over and time.monotonic() < known.renew_at:
            return grant.access_token
        try:
            await self._renew(resource_url, known, grant)
        except FlowFailed as error:
            # It is renewed before it is over; until then it may serve.
            if is_over:
                raise
            known.renew_at = time.monotonic() + _RENEW_PAUSE
            log.info("a token could not be renewed yet: %s", error)
        return None if known.grant is None else known.grant.access_token

    async def challenged(self, challenge: Challenge) -> bool:
        """Obtain another token, once for all who wait; true where it is worth trying.

        Raises:
            FlowFailed: none could be obtained; says at which step and why.
        """
        return await self._share(f"answer {challenge.url}", lambda: self._answer(challenge))

    async def forget(self, resource_url: str) -> bool:
        """Forget the token for a server, and the client that was registered for it.

        Returns:
            Whether there was anything to forget.
        """
        self._servers.pop(resource_url, None)
        key = await self._store.read(self._server_key(resource_url))
        if key is None:
            return False
        await self._store.write(key, None)
        issuer = issuer_in(key)
        if issuer is not None:
            await self._store.write(client_key(issuer), None)
        await self._store.write(self._server_key(resource_url), None)
        return True

    # -- what is known

    def _server_key(self, url: str) -> str:
        return server_key(canonical_resource(url), self.client_id)

    async def _load(self, url: str) -> _Known:
        known = self._servers.setdefault(url, _Known())
        found = await self._read_grant(url)
        if found is not None and (known.grant is None or found != known.grant):
            known.grant, known.source = found, "store"
        known.is_loaded = True
        return known

    async def _read_grant(self, url: str) -> Grant | None:
        key = await self._store.read(self._server_key(url))
        text = None if key is None else await self._store.read(key)
        try:
            grant = None if text is None else msgspec.json.decode(text, type=Grant)
        except msgspec.DecodeError:
            return None
        if grant is None or not belongs_to(grant.resource, url):  # auth.tokens.only-own-issuer
            return None
        is_ours = self.issuer is None or is_same_issuer(grant.issuer, self.issuer)
        return self._with_secret(grant) if is_ours else None

    def _with_secret(self, grant: Grant) -> Grant:
        """Let a client that was given prove who it is with what was given now."""
        client = grant.client
        if client.is_registered or client.client_id != self.client_id:
            return grant
        given = msgspec.structs.replace(client, client_secret=self.client_secret)
        return msgspec.structs.replace(grant, client=given)

    async def _keep(self, url: str, known: _Known, grant: Grant) -> None:
        known.grant, client = grant, grant.client
        if not client.is_registered:
            # A secret that was given is kept by whoever gave it.
            client = msgspec.structs.replace(client, client_secret=None)
        stored = msgspec.structs.replace(grant, client=client)
        await self._store.write(grant.key, msgspec.json.encode(stored).decode())
        await self._store.write(self._server_key(url), grant.key)

    # -- renewing

    async def _renew(self, url: str, known: _Known, held: Grant) -> bool:
        return await self._share(f"refresh {url}", lambda: self._refresh(url, known, held))

    async def _refresh(self, url: str, known: _Known, held: Grant) -> bool:
        """Renew a token, unless another process has; false where that is no longer possible."""
        async with self._store.lock(held.key):
            latest = await self._read_grant(url) or held
            if latest.access_token != held.access_token and not latest.is_due(time.time()):
                known.grant, known.source = latest, "refresh"
                return True
            try:
                renewed = await self._refreshed(url, latest)
            except TokenRefused as error:
                if error.is_passing:
                    raise
                log.info("a refresh token is of no use any more: %s", error)
                known.grant = None
                await self._store.write(latest.key, None)
                if error.error == "invalid_client" and latest.client.is_registered:
                    # The server has forgotten us: who is asked next must not meet the same.
                    await self._store.write(client_key(latest.issuer), None)
                return False
            known.source = "refresh"
            await self._keep(url, known, renewed)
            return True

    async def _refreshed(self, url: str, grant: Grant) -> Grant:
        async with self._sender(url) as sender:
            try:
                return await sender.run(refresh(grant, time.time(), key=self.client_key))
            except ResourceRejected:
                if self.resource != "auto":
                    raise
            without = msgspec.structs.replace(grant, names_resource=False)
            return await sender.run(refresh(without, time.time(), key=self.client_key))

    # -- answering challenges

    async def _answer(self, challenge: Challenge) -> bool:
        url, scopes = challenge.url, challenge.bearer.scopes
        known = self._servers.setdefault(url, _Known())
        if (challenge.status, challenge.token or "", scopes) in known.refused:
            return False
        current = known.grant
        if current is None or current.access_token == challenge.token:
            known = await self._load(url)  # another process may have been quicker
            current = known.grant
        is_other = current is not None and current.access_token != challenge.token
        if current is not None and is_other and not current.is_due(time.time()):
            return True
        is_repeated = challenge.repeats > 0 and known.source == "authorization"
        if challenge.status == 401 and current is not None and current.refresh_token is not None:
            is_tried = known.source == "refresh" and challenge.repeats > 0
            if not is_tried and not is_repeated and await self._renew(url, known, current):
                return True
        return await self._authorize(challenge, known, is_repeated=is_repeated)

    async def _authorize(self, challenge: Challenge, known: _Known, *, is_repeated: bool) -> bool:
        url, bearer, held = challenge.url, challenge.bearer, known.grant
        await check_writable(self._store)  # said before a person is asked, not after it
        async with self._sender(url) as sender:
            preferred = [each for each in (self.issuer, held and held.issuer) if each]
            found = await sender.run(
                discover(url, named=bearer.resource_metadata, preferred=preferred)
            )
            self._check_issuer(found.server)
            is_same = held is not None and held.issuer == found.server.issuer
            before = held.asked if held is not None and is_same else ()
            is_machine = self.grant == "client_credentials"
            # Some providers grant machines all they may have by one name, and by no other.
            is_settled = is_machine and self.scopes is not None and challenge.status == 401
            scopes = chosen_scopes(
                found,
                wanted=self.scopes,
                challenged=() if is_settled else bearer.scopes,
                held=before,
                offline=self.offline and not is_machine,
            )
            if is_repeated and is_same and set(scopes) <= set(before):
                known.refused.add((challenge.status, challenge.token or "", bearer.scopes))
                return False
            grant = await self._obtaining.obtain(sender, found, scopes)
        known.source = "authorization"
        await self._keep(url, known, grant)
        return True

    def _check_issuer(self, server: ServerMetadata) -> None:
        """Make sure that the server may send us there with what we are known by."""
        if self.issuer is None or is_same_issuer(server.issuer, self.issuer):
            return
        raise FlowFailed(
            "authorization server metadata",
            asked=server.url or server.issuer,
            came=f"the server is protected by {plain(server.issuer)}",
            hint=f"OAuth(issuer={self.issuer!r}) trusts no other",
        )

    # -- the rest

    def _sender(self, url: str) -> GuardedSender:
        return GuardedSender(AddressPolicy.beside(url, self.trust), tls=self.tls, proxy=self.proxy)

    async def _share(self, name: str, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Do something once for all who want it at the same time on this loop."""
        loop = asyncio.get_running_loop()
        here = (loop, name)
        flight = self._flights.get(here)
        if flight is None:
            task = loop.create_task(work())
            flight = self._flights[here] = _Flight(task)
            task.add_done_callback(lambda done: self._landed(here, done))
        flight.waiting += 1
        try:
            value: Value = await asyncio.shield(flight.task)
            return value
        finally:
            flight.waiting -= 1
            # A renewal is brought to its end: its refresh token would be lost with it.
            if not flight.waiting and name.startswith("answer ") and not flight.task.done():
                flight.task.cancel()

    def _landed(self, here: tuple[Any, str], task: "asyncio.Task[Any]") -> None:
        self._flights.pop(here, None)
        if not task.cancelled():
            task.exception()
