"""An authorization server for development, tests and small deployments, as an ASGI app."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack
from urllib.parse import parse_qs

import msgspec

from accord.auth.authorization_server.access_tokens import OwnTokenVerifier, RevokedGrants
from accord.auth.authorization_server.clients import ClientDocuments, KnownClient
from accord.auth.authorization_server.endpoints import (
    UPSTREAM,
    Deployment,
    Endpoints,
    LazyEndpoints,
    check_issuer,
    decode_headers,
)
from accord.auth.authorization_server.login import BUSY_PAGE, is_login
from accord.auth.authorization_server.models import (
    Algorithm,
    AuthorizationServerSettings,
    OAuthRefusal,
    OAuthResponse,
    Request,
)
from accord.auth.authorization_server.secrets import hash_password, is_hash
from accord.auth.authorization_server.store_source import (
    DEFAULT_FILE,
    StoreKeys,
    StoreSource,
)
from accord.auth.authorization_server.threads import PoolFull, WorkPool
from accord.auth.authorization_server.upstream.flow import UpstreamFlow
from accord.auth.authorization_server.upstream.provider import UpstreamProvider
from accord.auth.authorization_server.upstream.sessions import UpstreamAccounts, make_seals
from accord.auth.authorization_server.upstream.settings import Upstream
from accord.auth.guard import App, Guard, Protected, respond
from accord.auth.jwks import require_jwt
from accord.auth.urls import is_loopback_url
from accord.errors import AuthError, StoreError
from accord.http.client.guarded import Send as SendRequest
from accord.http.server.exchange import ListenerApp, Receive, Scope, Send
from accord.http.settings import setting_of

if TYPE_CHECKING:
    from pathlib import Path

    from accord.sharing.backends.backend import Backend

log = logging.getLogger("accord.auth")

Authenticate: TypeAlias = Callable[[Request], Awaitable[str | None] | str | None]
"""Returns the user of a request: the developer's own login."""

_DEFAULT_USER: Final = "developer"
_HASHED: Final = "scrypt$"
# More than any form needs; a registration has a lower limit of its own.
_BODY_MOST: Final = 64 * 1024
_BODY_TIMEOUT: Final = 30.0
_UNAVAILABLE: Final = OAuthRefusal(
    "temporarily_unavailable", "the state of this server cannot be read; try again", status=503
)
_FAILED: Final = OAuthRefusal(
    "server_error", "the authorization server failed; its log says why", status=500
)


class AuthorizationSettings(TypedDict, total=False):
    """The options of an authorization server, explained in `AuthorizationServerSettings`.

    `implied_scopes` is explained in `Protected`. `trust` names origins whose client metadata
    documents may be fetched although they are at private addresses; `send` sends these requests, in
    place of a sender with that guard.

    `upstream` names the identity providers that users sign in with, in place of `users`;
    `upstream_keys` are texts of at least 32 characters from which the keys are derived that encrypt
    their tokens in the store: the first encrypts, all of them decrypt. By default the key is
    derived from the client secret of each provider.

    `store_keys` seal what is written to a store that has a URL: the first one seals, all of them
    open. By default they are read from the environment variable ACCORD_STORE_KEYS; "none" writes
    everything as it is.
    """

    upstream: Upstream | Iterable[Upstream]
    upstream_keys: Iterable[str]
    store_keys: StoreKeys | None

    default_scopes: Iterable[str]
    resources: Iterable[str]
    required_scopes: Iterable[str]
    implied_scopes: Mapping[str, Iterable[str]]
    registration: bool
    registration_token: str | None
    client_metadata_documents: bool
    trust: Iterable[str]
    send: SendRequest
    remember_consent: bool
    access_ttl: float
    refresh_ttl: float
    code_ttl: float
    login_ttl: float
    device_ttl: float
    key_ttl: float
    algorithm: Algorithm
    reuse_tolerance: float
    client_ttl: float
    clients_most: int
    login_url: str | None
    resource_name: str | None


class AuthorizationServer:
    """Lets users allow programs to use a server, and issues the tokens for it.

    `Server(auth=AuthorizationServer(users={...}))` is a complete protected server. By itself it is
    an ASGI app.

    Args:
        users: names and passwords, plain or from `hash_password`; a single name is a user without
            a password, on loopback only. The default is such a user, called "developer".
        issuer: its URL; by default that of the server beside it, or of loopback.
        store: the file with its state; None keeps it in memory. For several machines the URL of a
            store, such as "redis://host:6379/0", or a `Backend` that is not open yet. Without one,
            a server that is served with such a store uses that.
        scopes: the scopes that can be allowed, with a sentence for the consent page.
        clients: clients that need not register.
        authenticate: the developer's own login, in place of `users`: returns the user of a request.
        auto_approve: a user that allows everything without a consent page; for tests, on loopback
            only, with the state in memory unless `store` is given.
        options: see `AuthorizationSettings`.

    Raises:
        ValueError: settings contradict each other, or are not safe.
        MissingExtra: the library that signs tokens is not installed.
    """

    def __init__(
        self,
        users: Mapping[str, str] | str | None = None,
        *,
        issuer: str | None = None,
        store: "str | Path | Backend | None" = DEFAULT_FILE,
        scopes: Mapping[str, str] | Iterable[str] = (),
        clients: Iterable[KnownClient] = (),
        authenticate: Authenticate | None = None,
        auto_approve: str | None = None,
        **options: Unpack[AuthorizationSettings],
    ) -> None:
        require_jwt("an authorization server")
        given: dict[str, Any] = dict(options)
        self._resources = tuple(given.pop("resources", ()))
        self.scopes = frozenset(given.pop("required_scopes", ()))
        self.implied_scopes: Mapping[str, Iterable[str]] = given.pop("implied_scopes", {})
        self.resource_name: str | None = given.pop("resource_name", None)
        trust = tuple(given.pop("trust", ()))
        self._documents = ClientDocuments(trust, given.pop("send", None))
        upstreams = _as_upstreams(given.pop("upstream", ()))
        upstream_keys = _as_keys(given.pop("upstream_keys", ()))
        store_keys = given.pop("store_keys", None)
        known = dict(scopes) if isinstance(scopes, Mapping) else dict.fromkeys(scopes, "")
        given["default_scopes"] = tuple(given.get("default_scopes", known))
        self._authenticate = authenticate
        self.settings = AuthorizationServerSettings(
            scopes=known,
            clients={each.client_id: each.client for each in clients},
            **_login_settings(users, authenticate, auto_approve, upstreams),
            **given,
        )
        if auto_approve is not None and store is DEFAULT_FILE:
            store = None
        self._source = StoreSource(store, store_keys)
        self.issuer = None if issuer is None else check_issuer(issuer)
        if self.issuer is not None:
            self._source.set_issuer(self.issuer)
        self._deployment = self._check_deployment(Deployment(self.issuer, self._resources))
        self._revoked = RevokedGrants(lambda: self.endpoints)
        self._upstream_keys = upstream_keys
        is_in_memory = self._source.is_in_memory
        seals = make_seals(upstreams, upstream_keys, is_in_memory=is_in_memory)
        self._lazy = LazyEndpoints(self._source, self.settings, seals)
        providers = {each.name: UpstreamProvider(each) for each in upstreams}
        self._flow = UpstreamFlow(lambda: self.endpoints, providers)
        self._accounts = None
        # A password takes a fifth of a second of a core; any client may send one.
        self._passwords = WorkPool("accord-passwords", threads=2, waiting=8)
        if upstreams:
            forget = self._revoked.forget
            self._accounts = UpstreamAccounts(lambda: self.endpoints, providers, forget)

    @property
    def public_url(self) -> str | None:
        """Where clients reach the server beside it: at the issuer's URL."""
        return self.issuer

    @property
    def endpoints(self) -> Endpoints:
        """The endpoints as functions, without a network; opens the store. Blocks."""
        return self._lazy.get()

    def use_backend(self, backend: "Backend") -> None:
        """Share the state with other workers by their store, unless there is a store of its own.

        The server calls this on its event loop before it serves, again after a restart. The file of
        the default is used further if all workers are on this machine.

        Raises:
            ValueError: the workers could not read what each other encrypts.
        """
        if self._source.use_backend(backend):
            upstreams = self.settings.upstreams
            make_seals(upstreams, self._upstream_keys, is_in_memory=False)
            self._lazy.renew()
            self._revoked.forget()

    def close(self) -> None:
        """Close the store; the next request opens it again, and an empty one if in memory."""
        self._lazy.close()

    def rotate_keys(self) -> None:
        """Sign with a new key from now on; tokens of the old key stay valid. Blocks."""
        self.endpoints.keys.rotate(self.endpoints.store.now())

    # -- the guard of an app beside it

    @property
    def verifier(self) -> OwnTokenVerifier:
        """The verifier of the tokens that are issued here."""
        return self.tokens_of(self._deployment)

    def tokens_of(self, deployment: Deployment) -> OwnTokenVerifier:
        """Return the verifier of the tokens that a deployment issues."""
        return OwnTokenVerifier(
            lambda: self.endpoints,
            issuer=deployment.issuer,
            audiences=deployment.resources,
            revoked=self._revoked,
            accounts=self._accounts,
            use_backend=self.use_backend,
        )

    def guard(
        self, app: App, *, path: str = "/mcp", public_url: str | None = None
    ) -> "ProtectedApp":
        """Return an ASGI app that is an authorization server beside a protected app.

        Args:
            app: any ASGI app.
            path: of its endpoint, below its mount point.
            public_url: where clients reach it; not needed on loopback.

        Raises:
            ValueError: the URL is invalid, or not safe.
            AuthError: the store cannot be used.
        """
        self._source.check(setting_of(app, "store"))
        path = path.rstrip("/")
        public_url = self.public_url if public_url is None else public_url
        others = tuple(dict.fromkeys(getattr(app, "resource_paths", {}).values()))
        deployment = Deployment(self.issuer, self._resources, path, others).at(public_url)
        if self.issuer is None and deployment.issuer is not None:
            self._source.set_issuer(deployment.issuer)
        return ProtectedApp(self, app, self._check_deployment(deployment), public_url)

    def _check_deployment(self, deployment: Deployment) -> Deployment:
        names = tuple(each.name for each in self.settings.upstreams)
        deployment = msgspec.structs.replace(deployment, upstreams=names)
        if not self.settings.needs_loopback:
            return deployment
        if deployment.issuer is not None and not is_loopback_url(deployment.issuer):
            raise ValueError(
                f"issuer {deployment.issuer} is not on loopback: give users with passwords, or "
                "authenticate"
            )
        return msgspec.structs.replace(deployment, needs_loopback=True)

    # -- ASGI

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the authorization server by itself."""
        if scope["type"] == "lifespan":
            await _run_lifespan(receive, send, self._source.check)
        elif scope["type"] == "http":
            route = self._deployment.route(scope)
            await self.serve(self._deployment, route, scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def serve(
        self, deployment: Deployment, route: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request for one of the paths; without a route it is 404."""
        try:
            request = await _read_request(deployment, route, scope, receive)
            if self._authenticate is not None and route in ("/authorize", "/device"):
                subject = self._authenticate(request)
                found = await subject if inspect.isawaitable(subject) else subject
                request = msgspec.structs.replace(request, subject=found)
            if request.path.startswith(UPSTREAM):
                response = await self._flow.respond(request)
            else:
                request = await self._documents.prepare(request, lambda: self.endpoints)
                response = await self._respond_in_thread(request)
            if request.method == "POST":
                self._revoked.forget()
        except OAuthRefusal as refusal:
            response = refusal.response
        except AuthError as error:
            log.error("%s", error)  # noqa: TRY400  # it names the file; a traceback adds nothing
            response = _FAILED.response
        except StoreError as error:
            log.warning("the store of the authorization server cannot be used: %s", error)
            response = _UNAVAILABLE.response
        except Exception:
            log.exception("the authorization server failed at %s", route)
            response = _FAILED.response
        headers = [(name.encode(), value.encode("latin-1")) for name, value in response.headers]
        is_head = scope["method"] == "HEAD"
        await respond(send, response.status, headers, response.body, is_head=is_head)

    async def _respond_in_thread(self, request: Request) -> OAuthResponse:
        # The store may have to be opened: not on the loop.
        if not is_login(request, self.settings):
            return await asyncio.to_thread(lambda: self._respond(request))
        try:
            return await self._passwords.run(lambda: self._respond(request))
        except PoolFull:
            return BUSY_PAGE

    def _respond(self, request: Request) -> OAuthResponse:
        endpoints = self.endpoints
        return endpoints.respond(request, endpoints.store.now())


class ProtectedApp(Guard):
    """An authorization server and the app that it protects, as one ASGI app."""

    def __init__(
        self, server: AuthorizationServer, app: App, deployment: Deployment, public_url: str | None
    ) -> None:
        self._server = server
        self._deployment = deployment
        protection = Protected(
            server.tokens_of(deployment),
            issuer=deployment.issuer or "",
            scopes=server.scopes,
            implied_scopes=server.implied_scopes,
            resource_name=server.resource_name,
        )
        known = server.settings.scopes
        protection.scopes_supported = [each for each in known if each != "offline_access"]
        super().__init__(app, protection, path=deployment.path or "", public_url=public_url)
        # Its own paths differ from that of the endpoint.
        self.direct_app = app if isinstance(app, ListenerApp) else None

    def issuers_for(self, scope: Scope) -> tuple[str, ...]:
        """Return this server, by the name under which the client of a request reaches it."""
        if self._deployment.issuer is not None:
            return self.protection.issuers
        try:
            return (self._deployment.issuer_of(scope, decode_headers(scope)),)
        except OAuthRefusal:
            return ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            route = self._deployment.route(scope)
            if route is not None:
                await self._server.serve(self._deployment, route, scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def _login_settings(
    users: Mapping[str, str] | str | None,
    authenticate: Authenticate | None,
    auto_approve: str | None,
    upstreams: tuple[Upstream, ...],
) -> dict[str, Any]:
    """Return the settings for logins; at most one kind of login is given."""
    if sum(each is not None for each in (users, authenticate, auto_approve, upstreams or None)) > 1:
        raise ValueError("users, authenticate, auto_approve and upstream exclude each other")
    if upstreams:
        return {"upstreams": upstreams}
    if authenticate is not None:
        return {"is_external": True}
    if auto_approve is not None:
        return {"single_user": auto_approve, "auto_approve": True}
    if users is None or isinstance(users, str):
        return {"single_user": users or _DEFAULT_USER}
    if not users:
        raise ValueError("users is empty: no user could log in")
    for name, password in users.items():
        if not name or not password:
            raise ValueError(f"user {name!r} has no name or no password")
        if password.startswith(_HASHED) and not is_hash(password):
            raise ValueError(f"the password of {name!r} is not a complete hash; see hash_password")
    return {
        "users": {
            name: word if word.startswith(_HASHED) else hash_password(word)
            for name, word in users.items()
        }
    }


def _as_upstreams(given: Upstream | Iterable[Upstream]) -> tuple[Upstream, ...]:
    found = (given,) if isinstance(given, Upstream) else tuple(given)
    for each in found:
        if not isinstance(each, Upstream):
            raise ValueError(  # noqa: TRY004  # the same kind of error for all settings
                f"upstream is {type(each).__name__}, expected Upstream(...) or one of "
                "accord.auth.upstreams"
            )
    return found


def _as_keys(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


async def _run_lifespan(receive: Receive, send: Send, check: Callable[[], None]) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await asyncio.to_thread(check)
            except AuthError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _read_request(
    deployment: Deployment, route: str | None, scope: Scope, receive: Receive
) -> Request:
    headers = decode_headers(scope)
    issuer = deployment.issuer_of(scope, headers)
    if route is None:
        raise OAuthRefusal("invalid_request", "not found", status=404)
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            body = await _read_body(receive)
    except TimeoutError:
        raise OAuthRefusal(
            "invalid_request", "the body did not arrive in time", status=408
        ) from None
    client = scope.get("client")
    query = scope.get("query_string", b"").decode("latin-1")
    asked = [*_resources_in(query), *_resources_in(body.decode("latin-1"))]
    return Request(
        method=scope["method"],
        path=route,
        query=query,
        headers=headers,
        body=body,
        address="" if client is None else str(client[0]),
        issuer=issuer,
        resources=deployment.resources_of(issuer, asked),
    )


def _resources_in(form: str) -> list[str]:
    return parse_qs(form).get("resource", []) if "resource" in form else []


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise OAuthRefusal("invalid_request", "the client disconnected", status=400)
        body += message.get("body", b"")
        if len(body) > _BODY_MOST:
            why = f"a request has at most {_BODY_MOST} bytes"
            raise OAuthRefusal("invalid_request", why, status=413)
        if not message.get("more_body", False):
            return bytes(body)
