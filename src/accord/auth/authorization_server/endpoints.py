"""The endpoints: where they are reached, and what they answer; the clock is passed in.

`Endpoints` blocks and runs off the loop; `LazyEndpoints` opens it when it is first used;
`Deployment` is pure.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.authorization_server.access_tokens import SigningKeys
from accord.auth.authorization_server.clients import Clients, check_document_url, read_document
from accord.auth.authorization_server.consent import Consent
from accord.auth.authorization_server.grants import Grants
from accord.auth.authorization_server.login import Logins
from accord.auth.authorization_server.models import (
    AUTHENTICATION_METHODS,
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    FORWARDED,
    REFRESH_TOKEN,
    AuthorizationServerSettings,
    OAuthRefusal,
    OAuthResponse,
    RegisteredClient,
    Request,
    json_response,
)
from accord.auth.authorization_server.secrets import FailureLimit, digest
from accord.auth.authorization_server.state.records import AttemptCounter
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.store_source import StoreSource
from accord.auth.authorization_server.upstream.sessions import (
    TokenSeal,
    UpstreamSession,
    UpstreamSessions,
)
from accord.auth.guard import local_path
from accord.auth.urls import (
    canonical_http_url,
    endpoint_url,
    is_loopback_host,
    is_loopback_url,
    is_same_resource,
)
from accord.http.client.guarded import HttpResponse
from accord.http.rules.addresses import LOOPBACK_HOSTS, client_network
from accord.http.server.exchange import Scope

if TYPE_CHECKING:
    from collections.abc import Callable


_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_PATHS: Final = frozenset(
    ["/authorize", "/device", "/device_authorization", "/jwks", "/register", "/revoke", "/token"]
)
UPSTREAM: Final = "/upstream/"
"""Below this are the paths of the identity providers."""
# Pages for users: scripts of other sites need not read them.
_PAGES: Final = ("/authorize", "/device")
_CACHED: Final = "public, max-age=300"
_CORS: Final = (("access-control-allow-origin", "*"),)
_PREFLIGHT: Final = (
    ("access-control-allow-methods", "GET, POST, OPTIONS"),
    ("access-control-allow-headers", "authorization, content-type, mcp-protocol-version"),
    ("access-control-max-age", "600"),
)
_WINDOW: Final = 60.0
# By client and address: correct clients fail now and then, but not every second.
_FAILURES: Final = 60
_REGISTRATIONS: Final = 60
_SIGN_INS_BY_ADDRESS: Final = 120
# A browser in a loop of redirects stops here.
_SIGN_INS_BY_BROWSER: Final = 20
_SWEEP: Final = 60.0
_COUNTED: Final = ("invalid_client", "invalid_grant", "invalid_token")


class Endpoints:
    """Answers the requests to an authorization server."""

    def __init__(
        self,
        store: AuthorizationStore,
        settings: AuthorizationServerSettings,
        seals: Mapping[str, TokenSeal] | None = None,
    ) -> None:
        self.store = store
        self.sessions = UpstreamSessions(store, settings.upstreams, seals or {})
        self.keys = SigningKeys(store, settings)
        self._settings = settings
        self._clients = Clients(store, settings)
        self._grants = Grants(store, self.keys, settings, self.sessions)
        self._logins = Logins(store, settings, self.sessions)
        self._consent = Consent(store, self._grants, self._clients, settings, self._logins)
        count = partial(store.attempts, window=_WINDOW)
        self._failures = FailureLimit(count("failures", limit=_FAILURES))
        self._registrations = count("registrations", limit=_REGISTRATIONS)
        self._documents = count("documents", limit=_REGISTRATIONS)
        self._devices = count("devices", limit=_REGISTRATIONS)
        self._sign_ins_by_browser = count("sign-ins by browser", limit=_SIGN_INS_BY_BROWSER)
        self._sign_ins_by_address = count("sign-ins by address", limit=_SIGN_INS_BY_ADDRESS)
        self._swept_at = 0.0
        self._routes: dict[tuple[str, str], Callable[[Request, float], OAuthResponse]] = {
            ("GET", _OAUTH): self._metadata,
            ("GET", _OPENID): self._openid,
            ("GET", "/jwks"): self._jwks,
            ("GET", "/authorize"): self._consent.authorize,
            ("POST", "/authorize"): self._consent.authorize,
            ("GET", "/device"): self._consent.device,
            ("POST", "/device"): self._consent.device,
            ("POST", "/device_authorization"): self._device_authorization,
            ("POST", "/token"): self._token,
            ("POST", "/revoke"): self._revoke,
            ("POST", "/register"): self._register,
        }

    def respond(self, request: Request, now: float) -> OAuthResponse:
        self._sweep(now)
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS" and request.path not in _PAGES:
            return OAuthResponse(status=204, headers=_CORS + _PREFLIGHT)
        served = self._routes.get((method, request.path))
        if served is None:
            allowed = [verb for verb, path in self._routes if path == request.path]
            refusal = OAuthRefusal("invalid_request", "this method is not served here", status=405)
            return refusal.response.with_headers(("allow", ", ".join(allowed)))
        if request.path in _PAGES:
            return served(request, now)
        try:
            response = served(request, now)
        except OAuthRefusal as refusal:
            response = refusal.response
        return response.with_headers(*_CORS)

    # -- clients that are described by a document

    def needs_document(self, request: Request, url: str, now: float) -> bool:
        """Whether the metadata document of a client has to be fetched for a request.

        Raises:
            OAuthRefusal: it must not be, or there were too many requests of this kind.
        """
        if not self._clients.needs_document(url, now):
            return False
        check_document_url(url)
        _count(self._documents, request, now)
        return True

    def keep_document(self, url: str, response: HttpResponse, now: float) -> None:
        """Store the client that a document describes.

        Raises:
            OAuthRefusal: the document is invalid.
        """
        client = read_document(url, response, now, known_scopes=self._settings.scopes)
        self._clients.keep_document(client, now)

    # -- users that sign in with an identity provider

    def may_begin_sign_in(self, browser: str, address: str, now: float) -> bool:
        """Count a sign-in that begins; false after too many."""
        counts = (
            (self._sign_ins_by_browser, digest(browser)),
            (self._sign_ins_by_address, client_network(address)),
        )
        return all(attempts.reserve(key, now) <= 0 for attempts, key in counts)

    def sign_in(
        self, request: Request, url: str, session: UpstreamSession, now: float
    ) -> OAuthResponse:
        """Log in a user that an identity provider vouches for, and return to a page."""
        return self._logins.sign_in(request, url, session, now)

    def refuse_sign_in(self, page: Request, refusal: OAuthRefusal) -> OAuthResponse:
        """Send the refusal of a sign-in to the program that asked for a page."""
        return self._consent.refuse_sign_in(page, refusal)

    def refusal_url(self, page: Request, refusal: OAuthRefusal) -> str | None:
        """Return the URL that carries the refusal of a sign-in to the program, if there is one."""
        return self._consent.refusal_url(page, refusal)

    def end_session(self, session_id: str) -> None:
        """End a sign-in: its browsers are logged out, its grants revoked."""
        now = self.store.now()
        keep_until = now + self._settings.access_ttl
        self.sessions.end(session_id, now, keep_until=keep_until)

    # -- limits and authentication

    @contextmanager
    def _limit_failures(self, key: str, now: float) -> Iterator[None]:
        """Count failures within the block as guesses, and refuse after too many."""
        if self._failures.begin(key, now) > 0:
            raise OAuthRefusal("slow_down", "too many failures; wait a minute", status=429)
        is_guess = False
        try:
            yield
        except OAuthRefusal as refusal:
            is_guess = refusal.error in _COUNTED
            raise
        finally:
            self._failures.end(key, now, is_failure=is_guess)

    @contextmanager
    def _authenticate(
        self, request: Request, form: dict[str, str], now: float
    ) -> Iterator[RegisteredClient]:
        """Yield the client of a request; failures of one client do not affect another.

        Unknown clients of one address share one count: any number of ids can be made up.
        """
        named = self._clients.find_presented(request, form)
        name = "" if named is None else named.client_id
        with self._limit_failures(f"{client_network(request.address)} {name}", now):
            yield self._clients.authenticate(named, request, form)

    def _sweep(self, now: float) -> None:
        if now - self._swept_at >= _SWEEP:
            self._swept_at = now
            self.store.sweep(keys_before=self.keys.swept_before(now))
            self._logins.read_key()

    # -- documents

    def _metadata(self, request: Request, now: float) -> OAuthResponse:
        document = authorization_server_metadata(request.issuer, self._settings)
        return json_response(document, cache=_CACHED)

    def _openid(self, request: Request, now: float) -> OAuthResponse:
        """Answer clients that look for OpenID discovery with the same, without ID tokens."""
        document = authorization_server_metadata(request.issuer, self._settings) | {
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self._settings.algorithm],
        }
        return json_response(document, cache=_CACHED)

    def _jwks(self, request: Request, now: float) -> OAuthResponse:
        return json_response(self.keys.jwks(now), cache=_CACHED)

    # -- tokens

    def _token(self, request: Request, now: float) -> OAuthResponse:
        form = request.form()
        with self._authenticate(request, form, now) as client:
            given = self._grants.tokens(client, form, request, now)
        return json_response(given, pragma="no-cache")

    def _revoke(self, request: Request, now: float) -> OAuthResponse:
        form = request.form()
        with self._authenticate(request, form, now) as client:
            self._grants.revoke(client, form, now)
        # The same response for unknown tokens (RFC 7009, section 2.2).
        return json_response({})

    def _device_authorization(self, request: Request, now: float) -> OAuthResponse:
        form = request.form()
        if request.refusal is not None:
            raise request.refusal
        # One transaction: what is counted and what is stored are written together.
        with self._authenticate(request, form, now) as client, self.store.transaction():
            _count(self._devices, request, now)
            return json_response(self._consent.add_device(client, form, request, now))

    def _register(self, request: Request, now: float) -> OAuthResponse:
        if not self._settings.registration:
            raise OAuthRefusal("access_denied", "registration is turned off here", status=403)
        authorization = request.headers.get("authorization")
        key = f"{client_network(request.address)} /register"
        with self.store.transaction():  # as above
            _count(self._registrations, request, now)
            if request.media_type != "application/json":
                raise OAuthRefusal("invalid_client_metadata", "the body must be application/json")
            with self._limit_failures(key, now):
                document = self._clients.register(request.body, authorization, now)
        return json_response(document, status=201)


def _count(requests: AttemptCounter, request: Request, now: float) -> None:
    """Count requests that need no authentication and leave something in the store."""
    if requests.reserve(client_network(request.address), now) > 0:
        raise OAuthRefusal("slow_down", "too many requests of this kind; wait a minute", status=429)


def authorization_server_metadata(
    issuer: str, settings: AuthorizationServerSettings
) -> dict[str, Any]:
    """Return the document of RFC 8414."""
    grants = [AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE]
    if any(CLIENT_CREDENTIALS in client.grant_types for client in settings.clients.values()):
        grants.append(CLIENT_CREDENTIALS)
    base = issuer.rstrip("/")
    document: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "revocation_endpoint": f"{base}/revoke",
        "device_authorization_endpoint": f"{base}/device_authorization",
        "jwks_uri": f"{base}/jwks",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": grants,
        "token_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
        "revocation_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,  # auth.iss.as-advertises
    }
    if settings.client_metadata_documents:
        document["client_id_metadata_document_supported"] = True  # auth.cimd.supported
    if settings.scopes:
        document["scopes_supported"] = list(settings.scopes)
    if settings.registration:
        document["registration_endpoint"] = f"{base}/register"
    return document


class Deployment(msgspec.Struct, frozen=True):
    """Where an authorization server is reached.

    Attributes:
        issuer: its URL; None for the name of loopback that each request uses.
        resources: URLs of the servers that it issues tokens for.
        path: of the protected endpoint beside it, if any.
        other_paths: of further endpoints; tokens for these have to be requested explicitly.
        needs_loopback: whether only this machine may reach it.
        upstreams: the names of the identity providers.
    """

    issuer: str | None = None
    resources: tuple[str, ...] = ()
    path: str | None = None
    other_paths: tuple[str, ...] = ()
    needs_loopback: bool = False
    upstreams: tuple[str, ...] = ()

    def at(self, public_url: str | None) -> "Deployment":
        """Return this deployment at a URL, which is that of the issuer unless it has one.

        Raises:
            ValueError: the URL is invalid, or not safe.
        """
        if public_url is None:
            return self
        path = self.path or ""
        resource = endpoint_url(public_url, path)
        issuer = self.issuer or check_issuer(resource.removesuffix(path))
        return msgspec.structs.replace(self, issuer=issuer, resources=(resource, *self.resources))

    def route(self, scope: Scope) -> str | None:
        """Return the path of the authorization server that a request is for; None for others."""
        path = local_path(scope).rstrip("/")
        prefix = urlsplit(self.issuer or "").path.rstrip("/")
        if prefix and path.startswith(f"{prefix}/"):
            path = path.removeprefix(prefix)
        if path in _PATHS:
            return path
        if path.startswith(UPSTREAM) and path.split("/")[2] in self.upstreams:
            return path
        for known in (_OAUTH, _OPENID):
            suffix = path.removeprefix(known)
            if suffix != path and suffix in self._suffixes(scope):
                return known
        return None

    def _suffixes(self, scope: Scope) -> tuple[str, ...]:
        """Return the suffixes of a well-known path: none, the issuer's path, the endpoint's."""
        issuer = urlsplit(self.issuer or "").path.rstrip("/")
        mount = str(scope.get("root_path", "")).rstrip("/")
        # Clients of 2025-03-26, for which the server itself is the issuer, look there.
        paths = (self.path or "", *self.other_paths)
        endpoints = (f"{before}{path}" for before in ("", issuer, mount) for path in paths)
        return ("", issuer, mount, *endpoints)

    def issuer_of(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """Return the issuer for a request.

        Raises:
            OAuthRefusal: the request is not for this host, or not over HTTPS.
        """
        self._check_request(scope, headers)
        if self.issuer is not None:
            return self.issuer
        # Any other name than loopback was refused above.
        mount = str(scope.get("root_path", "")).rstrip("/")
        return f"{scope.get('scheme', 'http')}://{headers['host'].lower()}{mount}"

    def resources_of(self, issuer: str, asked: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the resources that tokens can be for, given those that a request names."""
        found = self.resources
        own = None if self.path is None else canonical_http_url(f"{issuer}{self.path}")
        if own is not None and self.issuer is None:
            found = (own, *found)
        if not self.other_paths or not found:
            return found
        above = found[0].removesuffix(self.path or "")
        others = [f"{above}{path}" for path in self.other_paths]
        return (
            *found,
            *(each for each in others if any(is_same_resource(each, it) for it in asked)),
        )

    def _check_request(self, scope: Scope, headers: Mapping[str, str]) -> None:
        is_local = self.issuer is None or is_loopback_url(self.issuer)
        if is_local and not is_loopback_host(headers.get("host")):
            why = "only requests to localhost are served; set public_url for others"
            raise OAuthRefusal("invalid_request", why, status=403)
        if not is_local and headers.get("x-forwarded-proto", "https").split(",")[0] == "http":
            raise OAuthRefusal("invalid_request", "only HTTPS is served here", status=403)
        if self.needs_loopback:
            client = scope.get("client")
            is_near = client is None or str(client[0]) in LOOPBACK_HOSTS
            if not is_near or any(name in headers for name in FORWARDED):
                why = "without passwords, only users of this computer are served"
                raise OAuthRefusal("access_denied", why, status=403)


def check_issuer(issuer: str) -> str:
    """Return an issuer's URL without a slash at its end.

    Raises:
        ValueError: it is invalid, or not https (auth.https.endpoints).
    """
    found = canonical_http_url(issuer)
    if found is None or "?" in found:
        raise ValueError(f"issuer is {issuer!r}, expected https://host[:port][/path]")
    if not found.startswith("https:") and not is_loopback_url(found):
        raise ValueError(
            f"issuer is {issuer!r}, expected https: tokens would be readable on the way"
        )
    return found


def decode_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request; of repeated ones the last counts."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


# -- opening them


class LazyEndpoints:
    """Opens a store and the endpoints on it once for all threads, and again in each process.

    Args:
        source: opens the store.
        settings: of the authorization server.
        seals: encrypt the tokens of identity providers.
    """

    def __init__(
        self,
        source: StoreSource,
        settings: AuthorizationServerSettings,
        seals: Mapping[str, TokenSeal],
    ) -> None:
        self._source = source
        self._settings = settings
        self._seals = seals
        self._lock = Lock()
        self._opened: _Opened | None = None
        self._uses = 0

    def get(self) -> Endpoints:
        """Return the endpoints. Blocks.

        Raises:
            AuthError: the file of the store cannot be used.
            StoreError: the store cannot be used.
        """
        opened = self._opened
        if opened is not None and opened.is_current(self._uses):
            return opened.endpoints
        with self._lock:
            opened = self._opened
            if opened is not None and opened.is_current(self._uses):
                return opened.endpoints
            self._close()
            uses, store = self._uses, self._source.open(self._settings.client_ttl)
            try:
                made = Endpoints(store, self._settings, self._seals)
            except BaseException:
                store.close()
                raise
            self._opened = _Opened(made, uses)
            return made

    def renew(self) -> None:
        """Let the next use open the store again: it is another one now.

        Does not wait, so that the loop of the store may call it.
        """
        self._uses += 1

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


class _Opened:
    """Endpoints and their open store, in the process that opened it."""

    def __init__(self, endpoints: Endpoints, uses: int) -> None:
        self.endpoints = endpoints
        self._uses = uses
        self._process = os.getpid()

    def is_current(self, uses: int) -> bool:
        """Whether it is still the store to use, and was not opened before a fork."""
        return self._uses == uses and self._process == os.getpid()

    def close(self) -> None:
        if self._process == os.getpid():  # otherwise it belongs to the parent
            self.endpoints.store.close()
