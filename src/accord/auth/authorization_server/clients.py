"""Clients of the authorization server: preconfigured, registered (RFC 7591), or described by a
document; and how they authenticate.

The id of a client with a document is the URL of its metadata. The document is fetched when such a
client asks for consent, checked, and stored as a client until it is stale. Any program can make up
such ids, so fetches are bounded in number, size and time, and do not go into the own network.
"""

import asyncio
import logging
import re
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Container, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote_plus, urlsplit

import msgspec

from accord.auth.authorization_server.models import (
    APPLICATION_TYPES,
    AUTHENTICATION_METHODS,
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    REFRESH_TOKEN,
    ApplicationType,
    AuthorizationServerSettings,
    ClientAuthentication,
    Form,
    OAuthRefusal,
    RegisteredClient,
    Request,
    parse_form,
)
from accord.auth.authorization_server.secrets import digest, equal, new_secret
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.urls import client_url_fault, redirect_fault
from accord.http.client.guarded import (
    AddressPolicy,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
    Send,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.auth.authorization_server.endpoints import Endpoints


log = logging.getLogger("accord.auth")

# A client that registers asks the user at once; an hour is long enough for an answer.
_UNUSED: Final = 3_600.0
# Usual registrations have some hundred bytes, one or two URIs and short names.
_BODY_MOST: Final = 16 * 1024
_URIS_MOST: Final = 10
_NAME_MOST: Final = 100
_SCOPE_MOST: Final = 1_000
_GRANTS: Final = (AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE)

# -- of documents

_SCHEME: Final = "https://"
# As much as a registration may have; the draft advises 5 KB, and usual documents have 1 KB.
_SIZE_MOST: Final = 16 * 1024
# The user waits for the page meanwhile.
_SECONDS: Final = 5.0
_FETCHES_MOST: Final = 16
# All pages of one authorization see one document; changes are noticed within a day at the latest.
_FRESH_LEAST: Final = 60.0
_FRESH_USUAL: Final = 300.0
_FRESH_MOST: Final = 86_400.0
_MAX_AGE: Final = re.compile(r"\bmax-age\s*=\s*\"?([0-9]{1,10})", re.IGNORECASE)
_NEVER_FRESH: Final = re.compile(r"\bno-(?:store|cache)\b", re.IGNORECASE)
_JSON: Final = re.compile(r"application/(?:[a-z0-9.-]+\+)?json", re.IGNORECASE)


class Clients:
    """The clients that may ask for tokens."""

    def __init__(self, store: AuthorizationStore, settings: AuthorizationServerSettings) -> None:
        self._store = store
        self._settings = settings

    def find(self, client_id: str) -> RegisteredClient | None:
        found = self._settings.clients.get(client_id) or self._store.clients.find(client_id)
        if found is not None and found.fresh_until is not None:
            # The operator may have switched documents off since it was stored.
            return found if self._settings.client_metadata_documents else None
        return found

    # -- clients that are described by a document

    def needs_document(self, client_id: str, now: float) -> bool:
        """Whether the metadata document of a client has to be fetched."""
        if not self._settings.client_metadata_documents or client_id in self._settings.clients:
            return False
        known = self._store.clients.find(client_id)
        return known is None or known.fresh_until is None or known.fresh_until <= now

    def keep_document(self, client: RegisteredClient, now: float) -> None:
        """Store a client that its document describes, in place of what was known of it.

        Raises:
            OAuthRefusal: too many clients are stored.
        """
        with self._store.transaction():
            if not self._store.clients.update(client):
                self._make_room(now)
                self._store.clients.add(client)

    # -- authentication

    def find_presented(self, request: Request, form: Form) -> RegisteredClient | None:
        """Return the client that a request names, before it is authenticated."""
        try:
            return self.find(_credentials(request, form)[0])
        except OAuthRefusal:
            return None

    def authenticate(
        self, found: RegisteredClient | None, request: Request, form: Form
    ) -> RegisteredClient:
        """Return the client that sent a request.

        Args:
            found: the client that the request names.
            request: the request.
            form: its form.

        Raises:
            OAuthRefusal: the client id is missing or unknown, or the secret is wrong.
        """
        client_id, secret = _credentials(request, form)
        if found is None:
            raise _invalid_client(f"client {client_id[:100]!r} is not registered here")
        if found.secret_hash is None:
            if secret is not None:
                raise _invalid_client("the client has no secret and must not send one")
            return found
        # Digests are compared: they have one length, whatever was sent.
        if secret is None or not equal(digest(secret), found.secret_hash):
            raise _invalid_client("the client's secret is wrong or missing")
        return found

    def register(self, body: bytes, authorization: str | None, now: float) -> dict[str, Any]:
        """Register a program that describes itself.

        Raises:
            OAuthRefusal: it may not register, or its description is invalid.
        """
        self._check_token(authorization)
        client, secret = _read_registration(body, now, known_scopes=self._settings.scopes)
        with self._store.transaction():
            self._make_room(now)
            self._store.clients.add(client)
        return _registration_response(client, secret)

    def _check_token(self, authorization: str | None) -> None:
        needed = self._settings.registration_token
        if needed is None:
            return
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not equal(token.strip(), needed):
            raise OAuthRefusal(
                "invalid_token", "registration needs the operator's token", status=401
            )

    def _make_room(self, now: float) -> None:
        most = self._settings.clients_most
        if self._store.clients.count() < most:
            return
        # Clients that never got a grant go first, except for those that may be asking right now.
        if self._store.clients.forget_idle(never_used_before=now - _UNUSED):
            return
        if self._store.clients.forget_idle():
            return
        log.warning("no client can register: clients_most=%d, and all of them have grants", most)
        raise OAuthRefusal("temporarily_unavailable", "too many clients are registered", status=503)


class KnownClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that the operator has set up, and that need not register.

    Attributes:
        client_id: its id.
        secret: its secret; None for a public client.
        name: the name that users read.
        redirect_uris: where browsers may be redirected to; without any it uses client credentials.
        scopes: the scopes that it may ask for; None for all.
        grant_types: the grants that it may use; by default those that fit the other settings.
    """

    client_id: str
    secret: str | None = None
    name: str = ""
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    grant_types: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for uri in self.redirect_uris:
            fault = redirect_fault(uri)
            if fault is not None:
                raise ValueError(f"redirect URI {uri!r} of {self.client_id!r} {fault}")
        if self.secret == "":
            raise ValueError(f"client {self.client_id!r} has an empty secret; None for no secret")
        if CLIENT_CREDENTIALS in self._grants and self.secret is None:
            raise ValueError(f"client {self.client_id!r} has neither a secret nor redirect URIs")

    @property
    def _grants(self) -> tuple[str, ...]:
        if self.grant_types is not None:
            return self.grant_types
        if self.redirect_uris:
            return (AUTHORIZATION_CODE, REFRESH_TOKEN)
        return (CLIENT_CREDENTIALS,)

    @property
    def client(self) -> RegisteredClient:
        """The client as the server stores it: the secret hashed."""
        return RegisteredClient(
            client_id=self.client_id,
            name=self.name,
            redirect_uris=self.redirect_uris,
            grant_types=self._grants,
            authentication="none" if self.secret is None else "client_secret_basic",
            secret_hash=None if self.secret is None else digest(self.secret),
            scopes=self.scopes,
        )

    def __repr__(self) -> str:
        return f"<KnownClient {self.client_id!r}>"


class _Registration(msgspec.Struct, kw_only=True):
    redirect_uris: list[str] = msgspec.field(default_factory=list)
    token_endpoint_auth_method: str = "client_secret_basic"  # noqa: S105  # the default of RFC 7591
    grant_types: list[str] = msgspec.field(
        default_factory=lambda: [AUTHORIZATION_CODE, REFRESH_TOKEN]
    )
    response_types: list[str] | None = None
    client_name: str = ""
    scope: str | None = None
    application_type: str | None = None


class _Description(Protocol):
    """What a client says of itself, in a registration or a document."""

    redirect_uris: list[str]
    grant_types: list[str]
    response_types: list[str] | None
    client_name: str
    scope: str | None
    application_type: str | None


def _read_registration(
    body: bytes, now: float, *, known_scopes: Container[str]
) -> tuple[RegisteredClient, str | None]:
    """Read the metadata of a client; return the client, with its secret if it has one."""
    if len(body) > _BODY_MOST:
        why = f"a registration has at most {_BODY_MOST} bytes"
        raise OAuthRefusal("invalid_client_metadata", why, status=413)
    try:
        asked = msgspec.json.decode(body, type=_Registration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid_metadata(
            f"the registration cannot be read: {str(error)[:200].lower()}"
        ) from None
    if CLIENT_CREDENTIALS in asked.grant_types:
        # Any program that registers could otherwise get a token without a user's consent.
        raise _invalid_metadata("client_credentials is for clients that the operator has set up")
    described = read_description(asked, new_secret(16), now, known_scopes=known_scopes)
    secret = None if asked.token_endpoint_auth_method == "none" else new_secret()  # noqa: S105
    client = msgspec.structs.replace(
        described,
        authentication=_authentication(asked.token_endpoint_auth_method),
        secret_hash=None if secret is None else digest(secret),
    )
    return client, secret


def read_description(
    said: _Description, client_id: str, now: float, *, known_scopes: Container[str]
) -> RegisteredClient:
    """Return the public client that describes itself.

    Raises:
        OAuthRefusal: the description is invalid.
    """
    grants = _grant_types(said)
    responses = said.response_types
    if responses is not None and AUTHORIZATION_CODE in grants and "code" not in responses:
        raise _invalid_metadata(
            "response_types must name code where grant_types has authorization_code"
        )
    return RegisteredClient(
        client_id=client_id,
        name=_name(said.client_name),
        redirect_uris=_redirect_uris(said, grants),
        grant_types=grants,
        scopes=_scopes(said.scope, known_scopes),
        application_type=_application_type(said.application_type),
        created_at=now,
    )


def _registration_response(client: RegisteredClient, secret: str | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "client_id": client.client_id,
        "client_id_issued_at": int(client.created_at),
        "redirect_uris": client.redirect_uris,
        "grant_types": client.grant_types,
        "response_types": ["code"] if AUTHORIZATION_CODE in client.grant_types else [],
        "token_endpoint_auth_method": client.authentication,
    }
    if secret is not None:
        document |= {"client_secret": secret, "client_secret_expires_at": 0}
    if client.name:
        document["client_name"] = client.name
    if client.application_type is not None:
        document["application_type"] = client.application_type
    if client.scopes is not None:
        document["scope"] = " ".join(client.scopes)
    return document


def _invalid_metadata(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client_metadata", why)


def _grant_types(asked: _Description) -> tuple[str, ...]:
    known = tuple(grant for grant in dict.fromkeys(asked.grant_types) if grant in _GRANTS)
    if not {AUTHORIZATION_CODE, DEVICE_CODE} & set(known):
        raise _invalid_metadata(f"grant_types must name {AUTHORIZATION_CODE} or {DEVICE_CODE}")
    return known


def _redirect_uris(asked: _Description, grants: tuple[str, ...]) -> tuple[str, ...]:
    uris = tuple(dict.fromkeys(asked.redirect_uris))
    if len(uris) > _URIS_MOST:
        raise OAuthRefusal("invalid_redirect_uri", f"at most {_URIS_MOST} redirect URIs are taken")
    if not uris and AUTHORIZATION_CODE in grants:
        raise OAuthRefusal("invalid_redirect_uri", "redirect_uris is missing")
    for uri in uris:
        fault = redirect_fault(uri)
        if fault is not None:
            raise OAuthRefusal("invalid_redirect_uri", f"redirect URI {uri[:200]!r} {fault}")
    return uris


def _authentication(method: str) -> ClientAuthentication:
    if method not in AUTHENTICATION_METHODS:
        shown = ", ".join(AUTHENTICATION_METHODS)
        raise _invalid_metadata(
            f"token_endpoint_auth_method must be one of {shown}, not {method[:50]!r}"
        )
    return method  # type: ignore[return-value]  # one of the three


def _application_type(named: str | None) -> ApplicationType | None:
    for known in APPLICATION_TYPES:
        if named == known:
            return known
    if named is None:
        return None
    raise _invalid_metadata(f"application_type must be native or web, not {named[:50]!r}")


def _name(name: str) -> str:
    name = " ".join(name.split())
    if len(name) > _NAME_MOST:
        raise _invalid_metadata(f"client_name has at most {_NAME_MOST} characters")
    # Invisible characters, and those that change the direction of text, can disguise a name.
    if any(unicodedata.category(each) in ("Cc", "Cf", "Co", "Cs") for each in name):
        raise _invalid_metadata("client_name has invisible characters")
    return name


def _scopes(scope: str | None, known: Container[str]) -> tuple[str, ...] | None:
    if scope is None:
        return None
    if len(scope) > _SCOPE_MOST:
        raise _invalid_metadata(f"scope has at most {_SCOPE_MOST} characters")
    kept = tuple(each for each in dict.fromkeys(scope.split()) if each in known)
    return kept or None


def _credentials(request: Request, form: Form) -> tuple[str, str | None]:
    """Return the client id and the secret that a request presents."""
    header = request.headers.get("authorization")
    if header is None:
        client_id = form.get("client_id")
        if client_id is None:
            raise _invalid_client("client_id is missing")
        return client_id, form.get("client_secret")
    if "client_secret" in form:
        raise OAuthRefusal("invalid_request", "the client's secret is sent twice")
    client_id, secret = _basic_credentials(header)
    if form.get("client_id", client_id) != client_id:
        raise OAuthRefusal("invalid_request", "client_id differs from the Authorization header")
    return client_id, secret


def _basic_credentials(header: str) -> tuple[str, str | None]:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        raise _invalid_client("the Authorization header must be Basic")
    try:
        name, colon, secret = b64decode(value.strip(), validate=True).decode().partition(":")
    except ValueError:
        raise _invalid_client("the Authorization header cannot be read") from None
    if not colon:
        raise _invalid_client("the Authorization header has no colon")
    # RFC 6749, section 2.3.1: both parts are form-encoded before they are joined.
    return unquote_plus(name), unquote_plus(secret) or None


def _invalid_client(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client", why, status=401)


# -- documents


class _Document(msgspec.Struct, kw_only=True):
    # auth.cimd.required-members; everything else is optional.
    client_id: str
    client_name: str
    redirect_uris: list[str]
    token_endpoint_auth_method: str = "none"  # noqa: S105  # the only method that needs no secret
    grant_types: list[str] = msgspec.field(
        default_factory=lambda: [AUTHORIZATION_CODE, REFRESH_TOKEN]
    )
    response_types: list[str] | None = None
    scope: str | None = None
    application_type: str | None = None
    client_secret: Any = msgspec.UNSET


class ClientDocuments:
    """Fetches the metadata documents of clients.

    Args:
        trust: origins that may be asked although they are at private addresses.
        send: sends requests, in place of a guarded sender.

    Raises:
        ValueError: `trust` has something that is not an origin.
    """

    def __init__(self, trust: Sequence[str] = (), send: Send | None = None) -> None:
        for each in trust:
            if urlsplit(each).scheme != "https" or not urlsplit(each).hostname:
                raise ValueError(f"trust has {each!r}, expected an origin: https://host[:port]")
        self._send = send or document_sender(trust)
        self._under_way = 0

    async def prepare(self, request: Request, endpoints: "Callable[[], Endpoints]") -> Request:
        """Return a request after the document of its client, if it has one, was fetched.

        A document that cannot be used is not an exception: the request then has a refusal.
        """
        url = _document_url(request)
        if url is None:
            return request
        try:
            # The store blocks.
            if await asyncio.to_thread(lambda: _needs_document(endpoints(), request, url)):
                found = await self._fetch(url)
                await asyncio.to_thread(lambda: _keep_document(endpoints(), url, found))
        except OAuthRefusal as refusal:
            log.info("the metadata document of a client cannot be used: %s", refusal)
            return msgspec.structs.replace(request, refusal=refusal)
        return request

    async def _fetch(self, url: str) -> HttpResponse:
        if self._under_way >= _FETCHES_MOST:
            raise OAuthRefusal(
                "temporarily_unavailable", "too many clients are being looked up", status=503
            )
        self._under_way += 1
        try:
            headers = {"Accept": "application/json"}
            return await self._send(HttpRequest(method="GET", url=url, headers=headers))
        except NoResponse as error:
            # Only logged: the reason would show which names and addresses there are inside.
            log.warning("the metadata of client %r cannot be fetched: %s", url[:200], error.reason)
            raise _unusable("cannot be fetched") from None
        finally:
            self._under_way -= 1


def _needs_document(endpoints: "Endpoints", request: Request, url: str) -> bool:
    return endpoints.needs_document(request, url, endpoints.store.now())


def _keep_document(endpoints: "Endpoints", url: str, response: HttpResponse) -> None:
    endpoints.keep_document(url, response, endpoints.store.now())


def document_sender(trust: Sequence[str], *, tls: "SSLContext | None" = None) -> Send:
    """Return a sender that fetches documents from public addresses and from trusted origins."""
    policy = AddressPolicy.for_public(trust)
    # The draft advises against following redirects: the id is the URL of the document itself.
    return GuardedSender(policy, size=_SIZE_MOST, seconds=_SECONDS, redirects=0, tls=tls).send


def _document_url(request: Request) -> str | None:
    """Return the client id of a request if it is the URL of a document."""
    try:
        if request.path == "/authorize":
            given = parse_form(request.query).get("client_id", "")
        elif request.path == "/device_authorization" and request.method == "POST":
            given = request.form().get("client_id", "")
        else:
            return None
    except OAuthRefusal:
        return None  # the endpoint says why
    return given if given.startswith(_SCHEME) else None


def check_document_url(url: str) -> None:
    """Make sure that a client id can be the URL of a document.

    Raises:
        OAuthRefusal: it cannot.
    """
    fault = client_url_fault(url)  # auth.cimd.https-hosted
    if fault is not None:
        raise OAuthRefusal("invalid_client", f"the client_id of the program {fault}")


def read_document(
    url: str, response: HttpResponse, now: float, *, known_scopes: Container[str]
) -> RegisteredClient:
    """Read the client that a response describes.

    Raises:
        OAuthRefusal: the document is not one of a client with this id, or not valid.
    """
    if response.status != 200:
        raise _unusable(f"was answered with HTTP {response.status}")
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if not _JSON.fullmatch(kind):
        raise _unusable(f"has the type {kind[:50]!r}, expected application/json")
    try:
        said = msgspec.json.decode(response.body, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # auth.cimd.as-checks-structure
        raise _unusable(f"cannot be read: {str(error)[:200].lower()}") from None
    if said.client_id != url:  # auth.cimd.as-checks-id
        raise _unusable(f"is for another client_id, {said.client_id[:200]!r}")
    if said.client_secret is not msgspec.UNSET:
        raise _unusable("has a client_secret, which would not be secret")
    if said.token_endpoint_auth_method != "none":  # noqa: S105
        method = said.token_endpoint_auth_method[:50]
        raise _unusable(f"has token_endpoint_auth_method {method!r}, expected 'none'")
    if not " ".join(said.client_name.split()):
        raise _unusable("has an empty client_name")
    try:
        client = read_description(said, url, now, known_scopes=known_scopes)
    except OAuthRefusal as refusal:
        raise _unusable(f"is not valid: {refusal.description}") from None
    return msgspec.structs.replace(client, fresh_until=now + fresh_seconds(response.headers, now))


def _unusable(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client", f"the metadata document of the program {why}")


def fresh_seconds(headers: Mapping[str, str], now: float) -> float:
    """Return for how long a document may be used, by the rules of HTTP and within bounds."""
    control = headers.get("cache-control", "")
    found = _FRESH_USUAL
    max_age = _MAX_AGE.search(control)
    if _NEVER_FRESH.search(control):
        found = 0.0
    elif max_age is not None:
        age = headers.get("age", "")
        found = float(max_age[1]) - (float(age) if age.isdecimal() and len(age) < 11 else 0.0)
    elif "expires" in headers:
        found = _seconds_until(headers["expires"], now)
    return min(max(found, _FRESH_LEAST), _FRESH_MOST)


def _seconds_until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return 0.0  # RFC 9111, section 5.3: an invalid date means that it has expired
