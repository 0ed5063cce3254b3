"""A guard around any ASGI app: requests need a valid token; and its settings, `Protected`.

Every request is checked by itself. Open without a token are the metadata that names the
authorization server, health checks, and the preflights of browsers.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.auth import resource
from accord.auth.resource import AccessRefusal
from accord.auth.urls import RESOURCE_METADATA, canonical_url, endpoint_url, metadata_url
from accord.auth.verifiers import (
    REQUEST_SOURCE,
    FirstOf,
    Remembered,
    TokenMemory,
    TokenVerifier,
    for_audience,
    token_digest,
)
from accord.errors import AuthError
from accord.http.rules.addresses import LOOPBACK_HOSTS, client_network
from accord.http.server.exchange import Admission, Headers, ListenerApp, Receive, Scope, Send
from accord.http.settings import setting_of
from accord.principal import Principal

if TYPE_CHECKING:
    from accord.http.server.connection import HttpConnection
    from accord.http.server.listener_request import ListenerExchange, ReceivedHead
    from accord.sharing.backends.backend import Backend

log = logging.getLogger("accord.auth")

App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
_PRINCIPAL: Final = "accord.principal"
_CHALLENGE_FOR: Final = "accord.challenge"
_ADMITTED: Final = "accord.admitted"
_HEALTH: Final[tuple[str, ...]] = ("/healthz", "/readyz")
_METRICS: Final = "/metrics"
_JSON: Final = (b"content-type", b"application/json")
_NO_STORE: Final = (b"cache-control", b"no-store")
_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = b"Bearer "
_CHALLENGE: Final = b"www-authenticate"
# The metadata is public: pages of any origin may read it.
_ANY_ORIGIN: Final = (b"access-control-allow-origin", b"*")
_MAX_AGE: Final = (b"cache-control", b"public, max-age=300")
_NO_METADATA: Final = msgspec.json.encode(
    {
        "error": "not_found",
        "error_description": "no authorization server issues tokens for this server; its operator "
        "gives them out",
    }
)
# One for each endpoint and each name of loopback.
_RESOURCES_MOST: Final = 16


class Protected:
    """A server that requires tokens: the argument of `Server(auth=...)`.

    Args:
        verifier: verifies tokens.
        issuer: the authorization servers that issue tokens, one or several; by default the
            verifier's issuer. With an empty list clients get tokens by other means, and no metadata
            is published. `StaticTokens` has no issuer.
        public_url: where clients reach the server; not needed on loopback.
        scopes: the scopes that every token must have.
        scopes_supported: the scopes that clients may ask for; by default `scopes` and those that
            the tools, resources and prompts of the server need.
        implied_scopes: for a scope the narrower ones that it includes, such as
            {"admin": ["write"], "write": ["read"]}; a token with it is treated as having those too.
        resource_name: the name of the server, for users.
        documentation: the URL of a page about it.

    Raises:
        ValueError: the issuer is missing, or the URL is invalid.
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        issuer: str | Sequence[str] | None = None,
        public_url: str | None = None,
        scopes: Iterable[str] = (),
        scopes_supported: Iterable[str] | None = None,
        implied_scopes: Mapping[str, Iterable[str]] | None = None,
        resource_name: str | None = None,
        documentation: str | None = None,
    ) -> None:
        issuers = getattr(verifier, "issuer", None) if issuer is None else issuer
        if issuers is None:
            raise ValueError(
                "issuer is missing: name the authorization server that issues tokens, or issuer=[] "
                "if clients get tokens by other means"
            )
        self.issuers = (issuers,) if isinstance(issuers, str) else tuple(issuers)
        self.has_metadata = bool(self.issuers)
        if public_url is not None:
            canonical_url(public_url)
        self.verifier = verifier
        self.public_url = public_url
        self.scopes = frozenset(_split_scopes(scopes))
        self.scopes_supported: Sequence[str] | None = None
        if scopes_supported is not None:
            named = {*_split_scopes(scopes_supported), *self.scopes}
            self.scopes_supported = tuple(resource.sort_scopes(named))
        self.implied_scopes = {
            scope: frozenset(_split_scopes(others))
            for scope, others in (implied_scopes or {}).items()
        }
        self.resource_name = resource_name
        self.documentation = documentation

    def use_backend(self, backend: "Backend") -> None:
        """Let a verifier share state with other workers by their store, if it keeps any."""
        use_backend = getattr(self.verifier, "use_backend", None)
        if use_backend is not None:
            use_backend(backend)

    def guard(self, app: App, *, path: str = "/mcp", public_url: str | None = None) -> "Guard":
        """Return an ASGI app that requires tokens and passes requests on to another one.

        Args:
            app: any ASGI app.
            path: of its endpoint, below its mount point.
            public_url: where clients reach it, unless the settings have it.
        """
        return Guard(app, self, path=path, public_url=public_url)


class KnownHeaders:
    """The cache in front of `Guard.admit`: admissions by the bytes of Authorization headers.

    It never says more than the verifier's own memory: what that has forgotten, or what has expired,
    is decided anew. In a burst each token is digested only once. All headers are forgotten together
    and soon, so that no token stays in memory for long.

    Args:
        memory: what the verifier remembers.
        most: how many headers are remembered.
        seconds: for how long at most.
    """

    def __init__(self, memory: TokenMemory, *, most: int = 256, seconds: float = 2.0) -> None:
        self._memory = memory
        self._known: dict[bytes, tuple[bytes, Remembered, Admission]] = {}
        self._most = most
        self._seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._known)

    def find(self, header: bytes) -> Admission | None:
        """Return the admission of a header, while its token is remembered."""
        known = self._known.get(header)
        if known is None:
            return None
        digest, remembered, admission = known
        # As `TokenMemory.find`, for the header that nearly all requests have.
        memory = self._memory
        is_current = memory.known.get(digest) is remembered and remembered[1] > memory.clock()
        return admission if is_current else None

    def learn(
        self, head: "TokenHead", admit: Callable[["TokenHead", Principal], Admission | None]
    ) -> Admission | None:
        """Return the admission of a head whose token the verifier remembers. On a running loop.

        Args:
            head: with one header.
            admit: decides about the principal of the token.
        """
        header = head.given[0]
        if not header.startswith(_BEARER):
            return None
        digest = token_digest(header[len(_BEARER) :])
        remembered = self._memory.find(digest)
        if remembered is None or remembered[0] is None:
            return None
        admission = admit(head, remembered[0])
        if admission is not None:
            self._keep(header, (digest, remembered, admission))
        return admission

    def _keep(self, header: bytes, found: tuple[bytes, Remembered, Admission]) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop or len(self._known) >= self._most:
            self._known.clear()
        if not self._known:
            self._loop = loop
            loop.call_later(self._seconds, self._known.clear)
        self._known[header] = found


class ProtectedEndpoint(msgspec.Struct, frozen=True):
    """One endpoint as its clients reach it: its URL, its metadata, its verifier."""

    resource: str
    metadata_url: str | None
    verifier: TokenVerifier
    known: KnownHeaders | None
    challenge_for: Callable[[Iterable[str]], tuple[bytes, bytes]]


class TokenHead(NamedTuple):
    """What the admission of a request may depend on; nothing else in its head changes it.

    Attributes:
        target: the endpoint that it is for. Its path decides that, and without a public URL also
            its host, scheme and mount point, and the port of the server.
        given: its Authorization headers.
        query: its query string, where a token is refused.
    """

    target: ProtectedEndpoint
    given: tuple[bytes, ...]
    query: bytes = b""


class Guard:
    """An ASGI app that passes requests with a valid token on to another one.

    The principal of the token is in the scope, as "accord.principal". An app that needs more scopes
    calls `scope["accord.challenge"]` with them, and answers with status 403 and the header that it
    returns. An app with a long response awaits `scope["accord.admitted"]()` now and then: false
    once the token is not valid any more. Other attributes of the app, such as `options`, are
    attributes of the guard too. An app with more than one endpoint has `resource_paths`: from each
    further path to the one that clients use for it. The scopes that parts of the app need are its
    `entry_scopes`; a request without a token is asked for these if every token may enter.

    Args:
        app: any ASGI app.
        protection: the settings.
        path: of the app's endpoint, below its mount point.
        public_url: where clients reach it, unless the settings have it.
        open_paths: further paths that need no token.

    Attributes:
        direct_app: the app, if requests of the listener may go on to it without ASGI.
    """

    def __init__(
        self,
        app: App,
        protection: Protected,
        *,
        path: str = "/mcp",
        public_url: str | None = None,
        open_paths: Iterable[str] = (),
    ) -> None:
        self.app = app
        self.protection = protection
        self.path = path.rstrip("/")
        url = protection.public_url if protection.public_url is not None else public_url
        self.public_url = None if url is None else endpoint_url(url, self.path)
        own = _HEALTH
        if setting_of(app, "metrics"):
            own = (*_HEALTH, _METRICS)
        self._open = frozenset(each.rstrip("/") for each in (*own, *open_paths))
        self._resources: dict[str, ProtectedEndpoint] = {}
        self._required = protection.scopes
        self._implied = protection.implied_scopes
        # Metadata has to name an authorization server (auth.prm.lists-as).
        self._has_metadata = protection.has_metadata
        self._other_paths: Mapping[str, str] = getattr(app, "resource_paths", None) or {}
        is_plain = type(self).__call__ is Guard.__call__  # a subclass may check more
        self.direct_app = app if is_plain and isinstance(app, ListenerApp) else None
        self._public = self._usual = None
        if self.public_url is not None:
            self._public = self._resource_at(self.public_url, self.path)
            self._usual = None if self.path in self._open else self._public

    def __getattr__(self, name: str) -> Any:
        # Servers that run the app read its attributes, with a guard or without.
        if name == "app" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.app, name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Only this guard sets the principal: one from outer apps is removed.
        scope.pop(_PRINCIPAL, None)
        is_usual = scope.get("path") == self.path and scope.get("method") == "POST"
        target = self._usual if is_usual else None
        if target is None:
            if self._is_open(scope):
                await self.app(scope, receive, send)
                return
            found = self._find_resource(scope)
            if isinstance(found, AccessRefusal):
                await self._refuse(found, None, scope, receive, send)
                return
            target = found
            if self._is_metadata(scope):
                await self._publish(target, scope, send)
                return
        given = [value for name, value in scope["headers"] if name == _AUTHORIZATION]
        query = scope.get("query_string", b"")
        admission = self._recall(target, given[0]) if len(given) == 1 and not query else None
        if admission is None:
            head = TokenHead(target, tuple(given), query)
            client = scope.get("client")
            REQUEST_SOURCE.set("" if client is None else client_network(str(client[0])))
            principal = await self.admit(head)
            if isinstance(principal, AccessRefusal):
                await self._refuse(principal, target, scope, receive, send)
                return
            admission = self._admission(head, principal)
        scope[_PRINCIPAL] = admission.principal
        scope[_CHALLENGE_FOR] = admission.challenge_for
        scope[_ADMITTED] = admission.is_admitted
        await self.app(scope, receive, send)

    def admit_exchange(
        self, connection: "HttpConnection", head: "ReceivedHead"
    ) -> "ListenerExchange | None":
        """Return a request of the listener for the app, if its token was verified a moment ago.

        None for all others, which are served as ASGI requests. So nearly all calls take the direct
        way from the socket to the app.
        """
        app, target = self.direct_app, self._usual
        if app is None or target is None or head.path != self.path or head.method != "POST":
            return None
        given = head.headers.get(_AUTHORIZATION)
        if given is None or head.query or _AUTHORIZATION in head.repeated:
            return None
        admission = self._recall(target, given)
        if admission is None:
            return None
        exchange: ListenerExchange = app.make_exchange(connection, head)
        exchange.admission = admission
        return exchange

    # -- admission

    async def admit(self, head: TokenHead) -> Principal | AccessRefusal:
        """Decide whether a request is admitted: return its principal, or why it is refused.

        The only decision there is, on the listener and as ASGI, in each revision, when a request
        arrives and while its response goes on.
        """
        token = resource.bearer_token(head.given, head.query)
        if token is None:
            return resource.missing_token(self._challenged_scopes)
        if isinstance(token, AccessRefusal):
            return token
        try:
            verified = await head.target.verifier.verify(token)
        except AuthError as error:
            log.info("a token cannot be verified: %s", error)  # the verifier logs the cause
            return resource.unavailable()
        if verified is None:  # auth.token.invalid-401
            return resource.invalid_token(scopes=self._challenged_scopes)
        return self._grant(verified)

    def _recall(self, target: ProtectedEndpoint, given: bytes) -> Admission | None:
        """Return what `admit` would decide about a header whose token its verifier remembers."""
        known = target.known
        if known is None:
            return None
        return known.find(given) or known.learn(TokenHead(target, (given,)), self._admit_verified)

    def _admit_verified(self, head: TokenHead, verified: Principal) -> Admission | None:
        principal = self._grant(verified)
        return self._admission(head, principal) if isinstance(principal, Principal) else None

    def _grant(self, verified: Principal) -> Principal | AccessRefusal:
        """Return the principal with the scopes that its own imply, if they are all it needs.

        auth.scope.hierarchy
        """
        principal = verified
        if self._implied:
            wider = resource.widen_scopes(verified.scopes, self._implied)
            principal = msgspec.structs.replace(verified, scopes=wider)
        if not self._required <= principal.scopes:
            return resource.insufficient_scope(self._required)
        return principal

    def _admission(self, head: TokenHead, principal: Principal) -> Admission:
        again = partial(self._is_still_admitted, head)
        return Admission(principal, head.target.challenge_for, again)

    async def _is_still_admitted(self, head: TokenHead) -> bool:
        admitted = await self.admit(head)
        # A verifier that cannot be reached ends no stream.
        return isinstance(admitted, Principal) or admitted.status == 503

    @property
    def _challenged_scopes(self) -> list[str]:
        """The scopes for a client without a token (auth.scope.challenge-has-scope)."""
        return resource.sort_scopes(self._required or getattr(self.app, "entry_scopes", ()))

    # -- the endpoint of a request

    def _is_open(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return bool(scope["type"] == "lifespan")
        if scope["method"] == "OPTIONS" and RESOURCE_METADATA not in scope["path"]:
            return _is_preflight(scope)
        return local_path(scope).rstrip("/") in self._open

    def _find_resource(self, scope: Scope) -> ProtectedEndpoint | AccessRefusal:
        path = self._path_of(scope)
        if self._public is not None:
            above = self._public.resource.removesuffix(self.path)
            return self._public if path == self.path else self._resource_at(f"{above}{path}", path)
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        server, root = scope.get("server"), scope.get("root_path", "").rstrip("/")
        # A Unix socket has no port; some servers give the port as text.
        port = None if server is None else int(server[1] or 0) or None
        origin = _origin(host, scope.get("scheme", "http"), port)
        if origin is None:
            why = "only requests to localhost are served; set public_url for others"
            return AccessRefusal(403, "forbidden_host", why)
        return self._resource_at(f"{origin}{root}{path}", path)

    def _path_of(self, scope: Scope) -> str:
        """Return the path of the endpoint that a request is for, or asks the metadata of."""
        before, about, rest = local_path(scope).rstrip("/").partition(RESOURCE_METADATA)
        named = rest.removeprefix(self._prefix) if about else before
        return self._other_paths.get(named, self.path)

    @property
    def _prefix(self) -> str:
        """The prefix of our path in the public URL."""
        return urlsplit(self.public_url or "").path.removesuffix(self.path)

    def _resource_at(self, url: str, path: str) -> ProtectedEndpoint:
        found = self._resources.get(url)
        if found is None:
            verifier = for_audience(self.protection.verifier, url)
            # Clients that omit the parameter resource have tokens for the main endpoint.
            unnamed = f"{url.removesuffix(path)}{self.path}"
            other = for_audience(self.protection.verifier, unnamed)
            if path != self.path and other is not verifier:
                verifier = FirstOf(verifier, other)
            memory: TokenMemory | None = getattr(verifier, "memory", None)
            described_at = metadata_url(url, path) if self._has_metadata else None
            challenge_for = partial(_challenge_for, self._required, described_at)
            known = None if memory is None else KnownHeaders(memory)
            found = ProtectedEndpoint(url, described_at, verifier, known, challenge_for)
            if len(self._resources) < _RESOURCES_MOST:
                self._resources[url] = found
        return found

    # -- metadata

    def _is_metadata(self, scope: Scope) -> bool:
        """Whether a path is one of our metadata: at the root, with our path, or our URL's."""
        if scope["type"] != "http" or RESOURCE_METADATA not in scope["path"]:
            return False
        before, _, rest = local_path(scope).partition(RESOURCE_METADATA)
        rest, prefix = rest.rstrip("/"), self._prefix
        if before not in ("", prefix):
            return False
        paths = (self.path, *self._other_paths.values())
        return not rest or any(rest in (path, f"{prefix}{path}") for path in paths)

    async def _publish(self, target: ProtectedEndpoint, scope: Scope, send: Send) -> None:
        method = scope["method"]
        if not self._has_metadata:
            await respond(send, 404, [_JSON, _ANY_ORIGIN], _NO_METADATA, is_head=method == "HEAD")
        elif method == "OPTIONS":
            allowed = [
                (b"access-control-allow-methods", b"GET"),
                (b"access-control-allow-headers", b"*"),
            ]
            await respond(send, 204, [_ANY_ORIGIN, *allowed], None)
        elif method not in ("GET", "HEAD"):
            await respond(send, 405, [(b"allow", b"GET, HEAD, OPTIONS")], b"")
        else:
            protection = self.protection
            body = resource.resource_metadata(
                target.resource,
                self.issuers_for(scope),
                scopes=self._supported_scopes,
                name=protection.resource_name,
                documentation=protection.documentation,
            )
            await respond(send, 200, [_JSON, _MAX_AGE, _ANY_ORIGIN], body, is_head=method == "HEAD")

    @property
    def _supported_scopes(self) -> Sequence[str]:
        named = self.protection.scopes_supported
        if named is not None:
            return named
        return resource.sort_scopes({*self._required, *getattr(self.app, "entry_scopes", ())})

    def issuers_for(self, scope: Scope) -> tuple[str, ...]:
        """Return the authorization servers that the metadata names to the client of a request."""
        return self.protection.issuers

    # -- refusing

    async def _refuse(
        self,
        refusal: AccessRefusal,
        target: ProtectedEndpoint | None,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.error})
            return
        headers = [_JSON, _NO_STORE]
        if target is not None and refusal.status in (401, 403):
            headers.append((_CHALLENGE, _challenge(refusal, target.metadata_url)))
        if refusal.status == 503:
            headers.append((b"retry-after", b"5"))
        await respond(send, refusal.status, headers + self._cors(scope), refusal.body)

    def _cors(self, scope: Scope) -> Headers:
        """Return CORS headers, if the app allows the origin to read its responses."""
        headers: Headers = []
        ask = getattr(self.app, "cors_headers", None)
        if ask is not None:
            headers += ask(scope)
        return headers


def _challenge_for(
    required: frozenset[str], url: str | None, scopes: Iterable[str]
) -> tuple[bytes, bytes]:
    """Return a challenge header that names all scopes that are needed."""
    return _CHALLENGE, _challenge(resource.insufficient_scope({*required, *scopes}), url)


@lru_cache(maxsize=256)
def _challenge(refusal: AccessRefusal, url: str | None) -> bytes:
    return resource.challenge(refusal, url).encode("latin-1", "ignore")


def local_path(scope: Scope) -> str:
    """Return the path below the mount point of the app."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


@lru_cache(maxsize=64)
def _origin(host: bytes, scheme: str, listens_on: int | None) -> str | None:
    """Return the origin at which a client on this machine reaches us, by the name that it uses.

    The port has to be that of the socket: another server on this machine could otherwise forward
    its own tokens to us under its own name.
    """
    scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    try:
        parts = urlsplit(f"{scheme}://{host.decode('latin-1')}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if name not in LOOPBACK_HOSTS or parts.username is not None or parts.path:
        return None
    usual = 443 if scheme == "https" else 80
    if listens_on is not None and (port or usual) != listens_on:
        return None
    return canonical_url(parts.geturl())


def _is_preflight(scope: Scope) -> bool:
    if scope["method"] != "OPTIONS":
        return False
    names = {name for name, _ in scope["headers"]}
    return b"origin" in names and b"access-control-request-method" in names


async def respond(
    send: Send, status: int, headers: Headers, body: bytes | None, *, is_head: bool = False
) -> None:
    """Send a whole response; without a body it has no length either."""
    if body is not None:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    sent = b"" if is_head or body is None else body
    await send({"type": "http.response.body", "body": sent, "more_body": False})


def _split_scopes(scopes: Iterable[str]) -> Iterable[str]:
    return scopes.split() if isinstance(scopes, str) else scopes
