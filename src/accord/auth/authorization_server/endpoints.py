"""The endpoints: a request in, an answer out, the clock passed in. Blocks; runs off the loop."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from accord.auth.authorization_server.attempts import Attempts
from accord.auth.authorization_server.client_authentication import authenticated, claimed_client
from accord.auth.authorization_server.clients import Clients
from accord.auth.authorization_server.consent import Consent
from accord.auth.authorization_server.exchange import Request, Response, json_answer
from accord.auth.authorization_server.grants import Grants
from accord.auth.authorization_server.keys import Keys
from accord.auth.authorization_server.metadata import (
    authorization_server_metadata,
    openid_configuration,
)
from accord.auth.authorization_server.records import Client, Refusal
from accord.auth.authorization_server.settings import Settings
from accord.auth.authorization_server.store import Store
from accord.bindings.addresses import client_network

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AUTHORIZATION_SERVER", "OPENID", "PATHS", "Endpoints"]

AUTHORIZATION_SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"
PATHS: Final = (
    "/authorize",
    "/device",
    "/device_authorization",
    "/jwks",
    "/register",
    "/revoke",
    "/token",
)
# People look at these; programs in browsers of other sites need not read them.
_PAGES: Final = ("/authorize", "/device")
_CACHED: Final = "public, max-age=300"
_CORS: Final = (("access-control-allow-origin", "*"),)
_PREFLIGHT: Final = (
    ("access-control-allow-methods", "GET, POST, OPTIONS"),
    ("access-control-allow-headers", "authorization, content-type, mcp-protocol-version"),
    ("access-control-max-age", "600"),
)
_WINDOW: Final = 60.0
# By client and address: an honest client fails now and then, and never so often.
_FAILURES: Final = 60
_REGISTRATIONS: Final = 60
_SWEEP: Final = 60.0
_COUNTED: Final = ("invalid_client", "invalid_grant", "invalid_token")


class Endpoints:
    """Answers the requests to an authorization server."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.keys = Keys(
            store,
            algorithm=settings.algorithm,
            rotate_after=settings.key_ttl,
            access_ttl=settings.access_ttl,
        )
        self._settings = settings
        self._clients = Clients(store, settings)
        self._grants = Grants(store, self.keys, settings)
        self._consent = Consent(store, self._grants, self._clients, settings)
        self._failures = Attempts(_FAILURES, _WINDOW)
        self._registrations = Attempts(_REGISTRATIONS, _WINDOW)
        self._devices = Attempts(_REGISTRATIONS, _WINDOW)
        self._swept_at = 0.0
        self._served: dict[tuple[str, str], Callable[[Request, float], Response]] = {
            ("GET", AUTHORIZATION_SERVER): self._metadata,
            ("GET", OPENID): self._openid,
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

    def respond(self, request: Request, now: float) -> Response:
        """Answer a request."""
        self._sweep(now)
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS" and request.path not in _PAGES:
            return Response(status=204, headers=_CORS + _PREFLIGHT)
        served = self._served.get((method, request.path))
        if served is None:
            allowed = [verb for verb, path in self._served if path == request.path]
            refusal = Refusal("invalid_request", "this method is not served here", status=405)
            return _refused(refusal).adding(("allow", ", ".join(allowed)))
        if request.path in _PAGES:
            return served(request, now)
        try:
            response = served(request, now)
        except Refusal as refusal:
            response = _refused(refusal)
        return response.adding(*_CORS)

    @contextmanager
    def _limited(self, key: str, now: float) -> Iterator[None]:
        """Count what fails within as a guess, and refuse where there were too many."""
        if self._failures.reserve(key, now) > 0:
            raise Refusal("slow_down", "too many failures; wait a minute", status=429)
        is_guess = False
        try:
            yield
        except Refusal as refusal:
            is_guess = refusal.error in _COUNTED
            raise
        finally:
            if not is_guess:
                self._failures.release(key, now)

    @contextmanager
    def _authenticated(
        self, request: Request, form: dict[str, str], now: float
    ) -> Iterator[Client]:
        """Say which client asks; its failures turn away no other client of the same address.

        Clients that are not known share one count: any number of names can be made up.
        """
        name = claimed_client(request.headers, form)
        known = name is not None and self._clients.find(name) is not None
        with self._limited(f"{client_network(request.address)} {name if known else ''}", now):
            yield authenticated(request.headers, form, self._clients.find)

    def _sweep(self, now: float) -> None:
        if now - self._swept_at >= _SWEEP:
            self._swept_at = now
            self.store.sweep(now, keys_before=self.keys.swept_before(now))
            self._clients.sweep(now)

    # -- documents

    def _metadata(self, request: Request, now: float) -> Response:
        document = authorization_server_metadata(request.issuer, self._settings)
        return json_answer(document, cache=_CACHED)

    def _openid(self, request: Request, now: float) -> Response:
        return json_answer(openid_configuration(request.issuer, self._settings), cache=_CACHED)

    def _jwks(self, request: Request, now: float) -> Response:
        return json_answer(self.keys.jwks(now), cache=_CACHED)

    # -- tokens

    def _token(self, request: Request, now: float) -> Response:
        form = request.form()
        with self._authenticated(request, form, now) as client:
            given = self._grants.tokens(
                client, form, issuer=request.issuer, resources=request.resources, now=now
            )
        return json_answer(given, pragma="no-cache")

    def _revoke(self, request: Request, now: float) -> Response:
        form = request.form()
        with self._authenticated(request, form, now) as client:
            token = form.get("token")
            if token is None:
                raise Refusal("invalid_request", "token is missing")
            self._grants.revoke(client, token, now)
        # The same answer for tokens that never were (RFC 7009, section 2.2).
        return json_answer({})

    def _device_authorization(self, request: Request, now: float) -> Response:
        form = request.form()
        with self._authenticated(request, form, now) as client:
            _count(self._devices, request, now)
            return json_answer(self._consent.add_device(client, form, request, now))

    def _register(self, request: Request, now: float) -> Response:
        if not self._settings.registration:
            raise Refusal("access_denied", "registration is turned off here", status=403)
        _count(self._registrations, request, now)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal("invalid_client_metadata", "the body must be application/json")
        authorization = request.headers.get("authorization")
        with self._limited(f"{client_network(request.address)} /register", now):
            told = self._clients.register(request.body, authorization, now)
        return json_answer(told, status=201)


def _count(requests: Attempts, request: Request, now: float) -> None:
    """Count what anybody may ask for and what is kept for a while."""
    if requests.reserve(client_network(request.address), now) > 0:
        raise Refusal("slow_down", "too many requests of this kind; wait a minute", status=429)


def _refused(refusal: Refusal) -> Response:
    document = {"error": refusal.error, "error_description": refusal.description}
    response = json_answer(document, status=refusal.status)
    if refusal.status == 401:
        response = response.adding(("www-authenticate", 'Basic realm="accord"'))
    elif refusal.status in (429, 503):
        response = response.adding(("retry-after", str(int(_WINDOW))))
    return response
