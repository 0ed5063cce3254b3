"""OAuth for clients: obtains tokens when servers ask for them, keeps and renews them."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import msgspec

from accord.auth.authorization import AuthorizationAttempt
from accord.auth.browser import HOST, PATH, OpenBrowser, Paste
from accord.auth.client_identity import ClientDescription, ClientKey, client_document
from accord.auth.discovery import ServerMetadata, discover
from accord.auth.flow import ResourceRejected, TokenRefused, choose_scopes, refresh
from accord.auth.tokens import (
    FileStore,
    TokenGrant,
    TokenStore,
    issuer_of_key,
    read_grant,
    stored_client_key,
    stored_server_key,
)
from accord.auth.urls import belongs_to, canonical_resource, client_url_fault, is_same_issuer
from accord.errors import FlowFailed
from accord.http.client.auth import Challenge
from accord.http.client.guarded import AddressPolicy, GuardedSender
from accord.http.rules.addresses import LOOPBACK_HOSTS
from accord.http.rules.responses import quote_text

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.auth.authorization import Assertion
    from accord.auth.client_identity import DpopKey

log = logging.getLogger("accord.auth")

Grant: TypeAlias = Literal["authorization_code", "client_credentials", "device", "jwt_bearer"]
"""How a token is obtained."""

# An issuer that cannot be reached is not asked with every request.
_RENEW_PAUSE: Final = 10.0


@dataclass(slots=True)
class _ServerState:
    """The token of one server in this process, and how it was obtained."""

    grant: TokenGrant | None = None
    is_loaded: bool = False
    renew_at: float = 0.0
    source: Literal["store", "refresh", "authorization"] = "store"
    # The scopes of the last request and its issuer, also once the token is gone.
    asked: tuple[str, ...] = ()
    asked_of: str = ""
    # Challenges that authorizing again did not satisfy: the user is not asked a second time.
    refused: set[tuple[int, str, tuple[str, ...]]] = field(default_factory=set)


@dataclass(slots=True)
class _SharedTask:
    """A task, and how many callers wait for it."""

    task: asyncio.Task[bool]
    waiting: int = 0


@dataclass(kw_only=True)
class OAuth:
    """Obtains, keeps and renews tokens; may be shared by any number of connections.

    Args:
        client_id: given by the authorization server; by default the client registers itself.
        client_secret: given by the authorization server, for clients that have one.
        client_key: a key in place of the secret.
        authenticate: how the secret is sent: "basic" in a header, "post" in the form; by default
            as the server's metadata says.
        client_metadata_url: where the client publishes its metadata; for servers that support it.
            It is the client's id there, and the same for all of them.
        client_name: the name that the user reads on the consent page.
        issuer: the only authorization server to trust; required together with a secret, or with a
            key that signs for a fixed audience: any server could otherwise have them sent to its
            own authorization server.
        scopes: to ask for, in place of all that the server supports.
        grant: "authorization_code" asks the user in a browser, "device" on another device,
            "client_credentials" needs no user, "jwt_bearer" presents an assertion.
        assertion: for the grant "jwt_bearer": a `WorkloadToken`, an `IdentityAssertion`, or a
            coroutine function that returns the assertion for an `AssertionRequest`.
        resource: whether requests name the server that a token is for: "send", "omit", or "auto",
            which leaves the parameter out for authorization servers that explicitly reject it.
        pkce: "require" refuses an authorization server whose metadata does not say that it checks
            PKCE; "assume" uses PKCE there all the same.
        dpop: a key that tokens are bound to, for servers that support it (DPoP).
        store: where tokens are kept; by default a file that only its owner can read.
        redirect_port: the port of the redirect, if the client is registered with a fixed one.
        redirect_uri: the whole redirect URI, such as http://localhost:8080/signed-in; without a
            port, any port is used.
        open_browser: called with the URL in place of opening a browser; may return the URL that the
            browser was redirected to.
        paste: returns the text that the user pastes, without a browser.
        tell: called with messages for the user.
        timeout: seconds that the user may take.
        offline: whether to ask for refresh tokens if there is a scope for that.
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
    grant: Grant = "authorization_code"
    assertion: "Assertion | None" = field(default=None, repr=False)
    resource: Literal["send", "omit", "auto"] = "auto"
    pkce: Literal["require", "assume"] = "require"
    dpop: "DpopKey | None" = None
    store: TokenStore | None = None
    redirect_port: int = 0
    redirect_uri: str | None = None
    open_browser: OpenBrowser | None = None
    paste: Paste | None = None
    tell: Callable[[str], object] | None = None
    timeout: float = 300.0
    offline: bool = True
    trust: Sequence[str] = ()
    tls: "SSLContext | None" = None
    proxy: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.grant not in get_args(Grant):
            raise ValueError(f"grant is {self.grant!r}, expected {', '.join(get_args(Grant))}")
        if self.resource not in ("send", "omit", "auto"):
            raise ValueError(f"resource is {self.resource!r}, expected send, omit or auto")
        if self.pkce not in ("require", "assume"):
            raise ValueError(f"pkce is {self.pkce!r}, expected require or assume")
        if isinstance(self.scopes, str):
            self.scopes = self.scopes.split()
        self.client_secret = self.client_secret or None  # a variable that is not set
        self._check_client()
        self._store: TokenStore = self.store if self.store is not None else FileStore()
        self._servers: dict[str, _ServerState] = {}
        self._shared: dict[tuple[asyncio.AbstractEventLoop, str], _SharedTask] = {}

    def _check_client(self) -> None:
        if self.authenticate not in (None, "basic", "post"):
            raise ValueError(f"authenticate is {self.authenticate!r}, expected basic or post")
        if self.client_key is not None and self.client_secret is not None:
            raise ValueError("give a client_secret or a client_key, not both")
        if self.client_key is not None and not (self.client_id or self.client_metadata_url):
            raise ValueError("client_key needs the client_id that the server knows it by")
        self._check_pinned()
        self._check_assertion()
        if self.client_metadata_url is not None:
            fault = client_url_fault(self.client_metadata_url)  # auth.cimd.https-hosted
            if fault is not None:
                shown = self.client_metadata_url[:200]
                raise ValueError(f"client_metadata_url {shown!r} {fault}")
        if self.redirect_uri is not None:
            parts = urlsplit(self.redirect_uri)
            is_loopback = (
                parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS and not parts.username
            )
            if not is_loopback or parts.query or parts.fragment or self.redirect_port:
                raise ValueError(
                    f"redirect_uri is {self.redirect_uri[:200]!r}, expected http:// on localhost, "
                    "127.0.0.1 or [::1], without a query, and no redirect_port beside it"
                )
        for each in self.trust:
            if urlsplit(each).scheme not in ("http", "https") or not urlsplit(each).hostname:
                raise ValueError(f"trust has {each!r}, expected an origin: https://host[:port]")

    def _check_pinned(self) -> None:
        """Demand the issuer if a hostile server could have a credential sent elsewhere."""
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

    def _check_assertion(self) -> None:
        if (self.assertion is None) != (self.grant != "jwt_bearer"):
            raise ValueError("assertion and grant='jwt_bearer' need each other")
        if self.assertion is None:
            return
        if self.client_id is None:
            raise ValueError("assertion needs the client_id that the authorization server knows")
        if self.issuer is None:
            raise ValueError(
                "assertion needs issuer=: the URL of the authorization server that it is for; "
                "otherwise any server could name its own and be sent the assertion"
            )

    # -- the interface of a connection

    async def token(self, resource_url: str) -> str | None:
        """Return the token for a server, renewed if it is due; None for a server without one.

        Raises:
            FlowFailed: the token has expired, and the authorization server cannot be reached.
        """
        state = self._servers.get(resource_url)
        if state is None or not state.is_loaded:
            state = await self._load(resource_url)
        grant = state.grant
        if grant is None:
            return None
        # A token that cannot be renewed is sent until the server refuses it.
        if not grant.is_due(time.time()) or grant.refresh_token is None:
            return grant.access_token
        is_expired = grant.expires_at is not None and time.time() >= grant.expires_at
        if not is_expired and time.monotonic() < state.renew_at:
            return grant.access_token
        try:
            await self._renew(resource_url, state, grant)
        except FlowFailed as error:
            # Renewal begins before the token expires; until then the old one can be used.
            if is_expired:
                raise
            state.renew_at = time.monotonic() + _RENEW_PAUSE
            log.info("a token could not be renewed yet: %s", error)
        return None if state.grant is None else state.grant.access_token

    @property
    def prover(self) -> "DpopKey | None":
        """What proves the possession of tokens that are bound to a key."""
        return self.dpop

    async def challenged(self, challenge: Challenge) -> bool:
        """Obtain another token, once for all requests that wait; true if a retry makes sense.

        Raises:
            FlowFailed: no token could be obtained; says at which step and why.
        """
        return await self._share(f"answer {challenge.url}", lambda: self._answer(challenge))

    def client_document(self) -> dict[str, Any]:
        """Return the document to publish at `client_metadata_url`, as JSON.

        Raises:
            ValueError: there is no such URL.
        """
        if self.client_metadata_url is None:
            raise ValueError("client_document needs OAuth(client_metadata_url=...)")
        port = f":{self.redirect_port}" if self.redirect_port else ""
        uri = self.redirect_uri or f"http://{HOST}{port}{PATH}"
        described = ClientDescription(name=self.client_name)
        return client_document(
            self.client_metadata_url, described, redirect_uris=[uri], key=self.client_key
        )

    async def forget(self, resource_url: str) -> bool:
        """Forget the token for a server, and the client that was registered for it.

        Returns:
            Whether anything was stored.
        """
        self._servers.pop(resource_url, None)
        key = await self._store.read(self._server_key(resource_url))
        if key is None:
            return False
        await self._store.write(key, None)
        issuer = issuer_of_key(key)
        if issuer is not None:
            await self._store.write(stored_client_key(issuer), None)
        await self._store.write(self._server_key(resource_url), None)
        return True

    # -- the store

    def _server_key(self, url: str) -> str:
        return stored_server_key(canonical_resource(url), self.client_id)

    async def _load(self, url: str) -> _ServerState:
        state = self._servers.setdefault(url, _ServerState())
        found = await self._read_grant(url)
        if found is not None and (state.grant is None or found != state.grant):
            state.grant, state.source = found, "store"
        state.is_loaded = True
        return state

    async def _read_grant(self, url: str) -> TokenGrant | None:
        key = await self._store.read(self._server_key(url))
        grant = None if key is None else read_grant(await self._store.read(key))
        if grant is None or not belongs_to(grant.resource, url):  # auth.tokens.only-own-issuer
            return None
        if grant.thumbprint != ("" if self.dpop is None else self.dpop.thumbprint):
            return None  # bound to another key, or to none
        is_ours = self.issuer is None or is_same_issuer(grant.issuer, self.issuer)
        return self._with_secret(grant) if is_ours else None

    def _with_secret(self, grant: TokenGrant) -> TokenGrant:
        """Add the secret of a preregistered client, which is not stored."""
        client = grant.client
        if client.is_registered or client.client_id != self.client_id:
            return grant
        given = msgspec.structs.replace(client, client_secret=self.client_secret)
        return msgspec.structs.replace(grant, client=given)

    async def _keep(self, url: str, state: _ServerState, grant: TokenGrant) -> None:
        state.grant, client = grant, grant.client
        state.asked, state.asked_of = grant.asked, grant.issuer
        if not client.is_registered:
            # The secret of a preregistered client is part of the settings: it is not stored.
            client = msgspec.structs.replace(client, client_secret=None)
        stored = msgspec.structs.replace(grant, client=client)
        before = await self._store.read(self._server_key(url))
        await self._store.write(grant.key, msgspec.json.encode(stored).decode())
        await self._store.write(self._server_key(url), grant.key)
        if before is not None and before != grant.key:
            await self._store.write(before, None)  # of another authorization server or client

    # -- renewing

    async def _renew(self, url: str, state: _ServerState, old: TokenGrant) -> bool:
        return await self._share(f"refresh {url}", lambda: self._refresh(url, state, old))

    async def _refresh(self, url: str, state: _ServerState, old: TokenGrant) -> bool:
        """Renew a token, unless another process has; false if the refresh token is not accepted."""
        async with self._store.lock(old.key):
            latest = await self._read_grant(url) or old
            if latest.access_token != old.access_token and not latest.is_due(time.time()):
                state.grant, state.source = latest, "refresh"
                return True
            try:
                renewed = await self._request_refresh(url, latest)
            except TokenRefused as error:
                if error.is_temporary:
                    raise
                log.info("a refresh token is not accepted any more: %s", error)
                state.grant = None
                state.asked, state.asked_of = latest.asked, latest.issuer
                await self._store.write(latest.key, None)
                if error.error == "invalid_client" and latest.client.is_registered:
                    # The server has forgotten this client: the next attempt registers again.
                    await self._store.write(stored_client_key(latest.issuer), None)
                return False
            state.source = "refresh"
            await self._keep(url, state, renewed)
            return True

    async def _request_refresh(self, url: str, grant: TokenGrant) -> TokenGrant:
        keys: Any = {"key": self.client_key, "dpop": self.dpop}
        async with self._sender(url) as sender:
            try:
                return await sender.run(refresh(grant, time.time(), **keys))
            except ResourceRejected:
                if self.resource != "auto":
                    raise
            without = msgspec.structs.replace(grant, names_resource=False)
            return await sender.run(refresh(without, time.time(), **keys))

    # -- answering challenges

    async def _answer(self, challenge: Challenge) -> bool:
        """Find, renew or obtain a token that answers a challenge."""
        url, scopes = challenge.url, challenge.bearer.scopes
        state = self._servers.setdefault(url, _ServerState())
        if (challenge.status, challenge.token or "", scopes) in state.refused:
            return False
        current = state.grant
        if current is None or current.access_token == challenge.token:
            state = await self._load(url)  # another process may have obtained one
            current = state.grant
        is_other = current is not None and current.access_token != challenge.token
        if current is not None and is_other and not current.is_due(time.time()):
            return True
        is_repeated = challenge.repeats > 0 and state.source == "authorization"
        if challenge.status == 401 and current is not None and current.refresh_token is not None:
            is_tried = state.source == "refresh" and challenge.repeats > 0
            if not is_tried and not is_repeated and await self._renew(url, state, current):
                return True
        return await self._authorize(challenge, state, is_repeated=is_repeated)

    async def _authorize(
        self, challenge: Challenge, state: _ServerState, *, is_repeated: bool
    ) -> bool:
        url, bearer, held = challenge.url, challenge.bearer, state.grant
        check_store = getattr(self._store, "check", None)
        if check_store is not None:
            await check_store()  # reported before the user is asked, not after
        async with self._sender(url) as sender:
            preferred = [each for each in (self.issuer, held and held.issuer) if each]
            found = await sender.run(
                discover(url, named=bearer.resource_metadata, preferred=preferred)
            )
            self.check_issuer(found.server)
            await self.check_binding(url, found.server)
            asked, asked_of = state.asked, state.asked_of
            if held is not None:
                asked, asked_of = held.asked, held.issuer
            is_same = asked_of == found.server.issuer
            before = asked if is_same else ()  # auth.scope.client-union
            is_machine = self.grant in ("client_credentials", "jwt_bearer")
            # Some providers grant machines one scope that stands for all, and accept no other.
            is_settled = is_machine and self.scopes is not None and challenge.status == 401
            scopes = choose_scopes(
                found,
                wanted=self.scopes,
                challenged=() if is_settled else bearer.scopes,
                held=before,
                offline=self.offline and not is_machine,
            )
            if is_repeated and is_same and set(scopes) <= set(before):
                state.refused.add((challenge.status, challenge.token or "", bearer.scopes))
                return False
            attempt = AuthorizationAttempt(
                self, self._store, sender=sender, found=found, scopes=scopes
            )
            grant = await attempt.obtain()
        state.source = "authorization"
        await self._keep(url, state, grant)
        return True

    def check_issuer(self, server: ServerMetadata) -> None:
        """Make sure that the server names the authorization server that was configured.

        Raises:
            FlowFailed: it names another.
        """
        if self.issuer is None or is_same_issuer(server.issuer, self.issuer):
            return
        raise FlowFailed(
            "authorization server metadata",
            asked=server.url or server.issuer,
            came=f"the server is protected by {quote_text(server.issuer)}",
            hint=f"OAuth(issuer={self.issuer!r}) trusts no other",
        )

    async def check_binding(self, url: str, server: ServerMetadata) -> None:
        """Make sure that a given client id is shown only to the server that it was used with.

        A registered client is stored by issuer, so another server leads to another registration; a
        metadata document is the same everywhere.

        Raises:
            FlowFailed: it was used with another.
        """
        if self.client_id is None or self.issuer is not None:
            return
        key = await self._store.read(self._server_key(url))
        before = None if key is None else issuer_of_key(key)
        if before is None or before == server.issuer:
            return
        # auth.binding.preregistered-mismatch-error
        raise FlowFailed(
            "authorization server metadata",
            asked=server.url or server.issuer,
            came=f"the server was protected by {quote_text(before)} and is now protected by "
            f"{quote_text(server.issuer)}",
            hint=f"client {self.client_id[:100]!r} is known to the first; if it is registered with "
            "the second too, pass OAuth(issuer=...) with that URL",
        )

    # -- requests, and work that callers share

    def _sender(self, url: str) -> GuardedSender:
        return GuardedSender(AddressPolicy.beside(url, self.trust), tls=self.tls, proxy=self.proxy)

    async def _share(self, name: str, work: Callable[[], Coroutine[None, None, bool]]) -> bool:
        """Do something once for all callers that want it at the same time on this loop."""
        loop = asyncio.get_running_loop()
        here = (loop, name)
        shared = self._shared.get(here)
        if shared is None:
            task = loop.create_task(work())
            shared = self._shared[here] = _SharedTask(task)
            task.add_done_callback(lambda done: self._end_shared(here, done))
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiting -= 1
            # A renewal is finished in any case: its refresh token would be lost otherwise.
            if not shared.waiting and name.startswith("answer ") and not shared.task.done():
                shared.task.cancel()

    def _end_shared(
        self, here: tuple[asyncio.AbstractEventLoop, str], task: asyncio.Task[bool]
    ) -> None:
        self._shared.pop(here, None)
        if not task.cancelled():
            task.exception()  # read: it is raised for the callers that wait
