"""A guard around any ASGI app: nothing passes without a token that the server takes.

Every request is looked at by itself. What stays open is named: the metadata that tells clients
where to get a token, health checks, and the preflights of browsers.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import lru_cache, partial
from time import time
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.auth import resource
from accord.auth.resource import METADATA, Refusal
from accord.auth.turns import SOURCE
from accord.auth.verifiers import (
    FirstOf,
    RecentTokens,
    TokenMemory,
    TokenVerifier,
    digest_of,
    for_audience,
)
from accord.bindings.addresses import client_network
from accord.errors import AuthError
from accord.principal import Principal

__all__ = ["Guard", "Protection"]

log = logging.getLogger("accord.auth")

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_PRINCIPAL: Final = "accord.principal"
_CHALLENGE_FOR: Final = "accord.challenge"
_ADMITTED: Final = "accord.admitted"
_UNKNOWN: Final = (None, 0.0)
_HEALTH: Final = ("/healthz", "/readyz")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_JSON: Final = (b"content-type", b"application/json")
_NO_STORE: Final = (b"cache-control", b"no-store")
_CHALLENGE: Final = b"www-authenticate"
# Anybody may read where to get a token, pages in browsers too.
_ANYBODY: Final = (b"access-control-allow-origin", b"*")
_MAX_AGE: Final = (b"cache-control", b"public, max-age=300")


class Protection(Protocol):
    """What a guard has to know; `Protected` is one."""

    @property
    def verifier(self) -> TokenVerifier:
        """Says whether a token is good."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """Where clients get tokens."""

    @property
    def public_url(self) -> str | None:
        """Where clients reach the server."""

    @property
    def scopes(self) -> frozenset[str]:
        """What every token must allow."""

    @property
    def scopes_supported(self) -> tuple[str, ...]:
        """What clients may ask for."""

    @property
    def resource_name(self) -> str | None:
        """What people know the server by."""

    @property
    def documentation(self) -> str | None:
        """A page about it."""


class _Place(msgspec.Struct, frozen=True):
    """The server as one client reaches it: its URL, and where its metadata is."""

    resource: str
    metadata_url: str | None
    verifier: TokenVerifier
    memory: TokenMemory | None
    recent: RecentTokens
    challenge_for: Callable[[Iterable[str]], tuple[bytes, bytes]]


class Guard:
    """An ASGI app that lets requests with a good token through to another one.

    Whom the token stands for is in the scope, as "accord.principal". An app that finds out only
    later that more is needed calls what is there as "accord.challenge" with the scopes, and answers
    with status 403 and the header it gets. One whose answer lasts awaits what "accord.admitted"
    returns now and then: false once the token is not good any more. What else the app has, such as
    `options`, the guard has too. An app with more than one endpoint says so with `resource_paths`:
    to each further path, the one that clients know it by.

    Args:
        app: any ASGI app.
        protection: what is required.
        path: of the app's endpoint, within where it is mounted.
        public_url: where clients reach it, unless the protection says so.
        open_paths: further paths that need no token.
    """

    def __init__(
        self,
        app: Any,
        protection: Protection,
        *,
        path: str = "/mcp",
        public_url: str | None = None,
        open_paths: Iterable[str] = (),
    ) -> None:
        self.app: App = app
        self.protection = protection
        self.path = path.rstrip("/")
        url = protection.public_url if protection.public_url is not None else public_url
        self.public_url = None if url is None else endpoint_url(url, self.path)
        self._open = frozenset(each.rstrip("/") for each in (*_HEALTH, *open_paths))
        self._places: dict[str, _Place] = {}
        self._required = protection.scopes
        # Without an authorization server there is nothing to tell: the metadata has to name one
        # (auth.prm.lists-as).
        self._has_metadata: bool = getattr(protection, "has_metadata", True)
        self._others: Mapping[str, str] = getattr(app, "resource_paths", None) or {}
        self._public = None
        if self.public_url is not None:
            self._public = self._known(self.public_url, self.path)

    def __getattr__(self, name: str) -> Any:
        # So that whoever serves the app can ask for what it offers, with a guard or without.
        if name == "app" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.app, name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place = self._public
        if place is not None and scope.get("path") == self.path and scope.get("method") == "POST":
            admitted = self._recall(scope, place)
            if admitted is not None:
                scope[_PRINCIPAL] = admitted
                scope[_CHALLENGE_FOR] = place.challenge_for
                await self.app(scope, receive, send)
                return
        # Whatever stands outside of us does not decide who is who.
        scope.pop(_PRINCIPAL, None)
        await self._call(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is not known to be good."""
        if self._is_open(scope):
            await self.app(scope, receive, send)
            return
        place = self._place(scope)
        if isinstance(place, Refusal):
            await self._refuse(place, None, scope, receive, send)
            return
        if self._is_metadata(scope):
            await self._publish(place, scope, send)
            return
        shown = scope["headers"], scope.get("query_string", b"")
        client = scope.get("client")
        SOURCE.set("" if client is None else client_network(str(client[0])))
        admitted = self._recall(scope, place) or await self._admit(*shown, place)
        if isinstance(admitted, Refusal):
            await self._refuse(admitted, place, scope, receive, send)
            return
        scope[_PRINCIPAL] = admitted
        scope[_CHALLENGE_FOR] = place.challenge_for
        scope[_ADMITTED] = partial(self._admits_still, *shown, place)
        await self.app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return bool(scope["type"] == "lifespan")
        if scope["method"] == "OPTIONS" and METADATA not in scope["path"]:
            return _is_preflight(scope)
        return _local_path(scope).rstrip("/") in self._open

    def _recall(self, scope: Scope, place: _Place) -> Principal | None:
        """Return who sends a request, where its token was found to be good a moment ago."""
        if place.memory is None or scope.get("query_string"):
            return None
        given = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                if given is not None:
                    return None
                given = value
        if given is None:
            return None
        recent = place.recent.known.get(given)
        if recent is not None and recent[1] > time():
            return recent[0]
        if not given.startswith(b"Bearer "):
            return None
        principal, until = place.memory.find(digest_of(given[7:])) or _UNKNOWN
        if principal is None or not self._required <= principal.scopes:
            return None
        place.recent.keep(given, principal, until)
        return principal

    async def _admit(self, headers: Headers, query: bytes, place: _Place) -> Principal | Refusal:
        """Say who sends a request, or why it is refused."""
        token = resource.bearer_of(headers, query)
        if token is None:
            return resource.missing_token(sorted(self._required))
        if isinstance(token, Refusal):
            return token
        try:
            principal = await place.verifier.verify(token)
        except AuthError as error:
            log.info("a token cannot be verified: %s", error)  # who could not tell complains
            return resource.unavailable()
        if principal is None:  # auth.token.invalid-401
            return resource.invalid_token(scopes=sorted(self._required))
        if not self._required <= principal.scopes:
            return resource.lacks_scopes(self._required)
        return principal

    async def _admits_still(self, headers: Headers, query: bytes, place: _Place) -> bool:
        admitted = await self._admit(headers, query, place)
        # Who cannot tell now sends nobody away.
        return isinstance(admitted, Principal) or admitted.status == 503

    # -- where we are

    def _place(self, scope: Scope) -> _Place | Refusal:
        path = self._path_of(scope)
        if self._public is not None:
            above = self._public.resource.removesuffix(self.path)
            return self._public if path == self.path else self._known(f"{above}{path}", path)
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        server, root = scope.get("server"), scope.get("root_path", "").rstrip("/")
        # A socket in the file system has no port; some servers tell one as text.
        port = None if server is None else int(server[1] or 0) or None
        origin = _origin(host, scope.get("scheme", "http"), port)
        if origin is None:
            why = "only requests to localhost are served; set public_url for others"
            return Refusal(403, "forbidden_host", why)
        return self._known(f"{origin}{root}{path}", path)

    def _path_of(self, scope: Scope) -> str:
        """Return the path of the endpoint that a request is for, or about."""
        before, about, rest = _local_path(scope).rstrip("/").partition(METADATA)
        named = rest.removeprefix(self._prefix) if about else before
        return self._others.get(named, self.path)

    @property
    def _prefix(self) -> str:
        """What stands before our path where clients reach us."""
        return urlsplit(self.public_url or "").path.removesuffix(self.path)

    def _known(self, url: str, path: str) -> _Place:
        found = self._places.get(url)
        if found is None:
            verifier = for_audience(self.protection.verifier, url)
            # Clients that name no resource have tokens for the endpoint that goes unnamed.
            unnamed = f"{url.removesuffix(path)}{self.path}"
            other = for_audience(self.protection.verifier, unnamed)
            if path != self.path and other is not verifier:
                verifier = FirstOf(verifier, other)
            memory = getattr(verifier, "memory", None)
            described_at = resource.metadata_url(url, path) if self._has_metadata else None
            challenge_for = partial(_challenge_for, self._required, described_at)
            recent = RecentTokens()
            found = _Place(url, described_at, verifier, memory, recent, challenge_for)
            if len(self._places) < _PLACES_MOST:
                self._places[url] = found
        return found

    # -- metadata

    def _is_metadata(self, scope: Scope) -> bool:
        """Whether a path is one of ours for metadata: at the root, with our path, or our URL's."""
        if scope["type"] != "http" or METADATA not in scope["path"]:
            return False
        before, _, rest = _local_path(scope).partition(METADATA)
        rest, prefix = rest.rstrip("/"), self._prefix
        if before not in ("", prefix):
            return False
        paths = (self.path, *self._others.values())
        return not rest or any(rest in (path, f"{prefix}{path}") for path in paths)

    async def _publish(self, place: _Place, scope: Scope, send: Send) -> None:
        method = scope["method"]
        if not self._has_metadata:
            await _respond(send, 404, [_JSON, _ANYBODY], _NO_METADATA, is_head=method == "HEAD")
        elif method == "OPTIONS":
            allowed = [
                (b"access-control-allow-methods", b"GET"),
                (b"access-control-allow-headers", b"*"),
            ]
            await _respond(send, 204, [_ANYBODY, *allowed], None)
        elif method not in ("GET", "HEAD"):
            await _respond(send, 405, [(b"allow", b"GET, HEAD, OPTIONS")], b"")
        else:
            protection = self.protection
            body = resource.metadata(
                place.resource,
                protection.issuers,
                scopes=protection.scopes_supported,
                name=protection.resource_name,
                documentation=protection.documentation,
            )
            await _respond(send, 200, [_JSON, _MAX_AGE, _ANYBODY], body, is_head=method == "HEAD")

    # -- refusing

    async def _refuse(
        self, refusal: Refusal, place: _Place | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.error})
            return
        headers = [_JSON, _NO_STORE]
        if place is not None and refusal.status in (401, 403):
            headers.append((_CHALLENGE, _challenge(refusal, place.metadata_url)))
        if refusal.status == 503:
            headers.append((b"retry-after", b"5"))
        await _respond(send, refusal.status, headers + self._cors(scope), refusal.body)

    def _cors(self, scope: Scope) -> Headers:
        """Let pages read why, if the app lets them read its answers."""
        headers: Headers = []
        ask = getattr(self.app, "cors_headers", None)
        if ask is not None:
            headers += ask(scope)
        return headers


_NO_METADATA: Final = msgspec.json.encode(
    {
        "error": "not_found",
        "error_description": "no authorization server issues tokens for this server; its operator "
        "gives them out",
    }
)
# Only names of loopback make places of their own, one for each way to write them.
_PLACES_MOST: Final = 16


def _challenge_for(
    required: frozenset[str], url: str | None, scopes: Iterable[str]
) -> tuple[bytes, bytes]:
    """Return the header of an answer that names all scopes needed."""
    return _CHALLENGE, _challenge(resource.lacks_scopes({*required, *scopes}), url)


@lru_cache(maxsize=256)
def _challenge(refusal: Refusal, url: str | None) -> bytes:
    return resource.challenge(refusal, url).encode("latin-1", "ignore")


def endpoint_url(public_url: str, path: str) -> str:
    """Return the URL of an endpoint, given that of the app or its own.

    >>> endpoint_url("https://Example.com/tools", "/mcp")
    'https://example.com/tools/mcp'
    >>> endpoint_url("https://example.com/tools/mcp/", "/mcp")
    'https://example.com/tools/mcp'
    """
    url = resource.canonical(public_url)
    return url if urlsplit(url).path.endswith(path) else f"{url}{path}"


def _local_path(scope: Scope) -> str:
    """Return the path below where the app is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


@lru_cache(maxsize=64)
def _origin(host: bytes, scheme: str, listens_on: int | None) -> str | None:
    """Return where a client on this machine reaches us, by the name that it uses.

    The port is that of the socket: tokens for another server on this machine, which that server may
    have sent us under its own name, are not for us.
    """
    scheme = {"ws": "http", "wss": "https"}.get(scheme, scheme)
    try:
        parts = urlsplit(f"{scheme}://{host.decode('latin-1')}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if name not in _LOOPBACK or parts.username is not None or parts.path:
        return None
    usual = 443 if scheme == "https" else 80
    if listens_on is not None and (port or usual) != listens_on:
        return None
    return resource.canonical(parts.geturl())


def _is_preflight(scope: Scope) -> bool:
    if scope["method"] != "OPTIONS":
        return False
    names = {name for name, _ in scope["headers"]}
    return b"origin" in names and b"access-control-request-method" in names


async def _respond(
    send: Send, status: int, headers: Headers, body: bytes | None, *, is_head: bool = False
) -> None:
    if body is not None:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    sent = b"" if is_head or body is None else body
    await send({"type": "http.response.body", "body": sent, "more_body": False})
