"""The data of the authorization server: its records, its settings, its requests and responses."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import parse_qsl

import msgspec

from accord.auth.authorization_server.upstream.settings import Upstream

AUTHORIZATION_CODE: Final = "authorization_code"
CLIENT_CREDENTIALS: Final = "client_credentials"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105  # the name of a grant type

ClientAuthentication: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]
AUTHENTICATION_METHODS: Final = get_args(ClientAuthentication)
ApplicationType: TypeAlias = Literal["native", "web"]
APPLICATION_TYPES: Final[tuple[ApplicationType, ...]] = ("native", "web")
Algorithm: TypeAlias = Literal["ES256", "RS256"]

Form: TypeAlias = Mapping[str, str]
"""The fields of a form."""

FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers in which proxies name their client."""

# Far more than any request of OAuth has.
_FIELDS_MOST = 50
# RFC 6749, sections 3.3 and 5.2, limits the characters of a scope and of a description.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NOT_ALLOWED: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
_RETRY: Final = {"retry_after": "60"}
_REFUSAL_HEADERS: Final = {
    401: {"www_authenticate": 'Basic realm="accord"'},
    429: _RETRY,
    503: _RETRY,
}


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A client that may ask for tokens.

    Attributes:
        client_id: its id.
        name: the name that users read; not verified.
        redirect_uris: where browsers may be redirected to, exactly.
        grant_types: the grants that it may use.
        authentication: how it authenticates at the token endpoint.
        secret_hash: the digest of its secret; None for a public client.
        scopes: the scopes that it may ask for; None for all.
        application_type: whether it runs on the user's device or on a web server, if it says so.
        created_at: when it was registered.
        fresh_until: when its metadata document has to be fetched again; None for a client whose id
            is not the URL of a document.
    """

    client_id: str
    name: str = ""
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = (AUTHORIZATION_CODE, REFRESH_TOKEN)
    authentication: ClientAuthentication = "none"
    secret_hash: str | None = None
    scopes: tuple[str, ...] | None = None
    application_type: ApplicationType | None = None
    created_at: float = 0.0
    fresh_until: float | None = None

    @property
    def shown_name(self) -> str:
        return self.name or self.client_id


class StoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The permission behind a family of tokens, given by a user or the operator."""

    grant_id: str
    client_id: str
    subject: str
    scopes: tuple[str, ...]
    resource: str


class StoredKey(msgspec.Struct, frozen=True):
    """A signing key as it is stored."""

    key_id: str
    algorithm: str
    pem: bytes
    created_at: float
    retired_at: float | None = None


class StoredRefreshToken(msgspec.Struct, frozen=True):
    """The grant of a refresh token, when it expires, and when it was used."""

    grant_id: str
    expires_at: float
    used_at: float | None = None


class StoredSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in with an identity provider that has begun.

    Attributes:
        browser: the hash of the cookie of the browser that began it.
        provider: the name of the provider.
        expires_at: when it is too late to finish it.
        body: the rest, encrypted.
    """

    browser: str
    provider: str
    expires_at: float
    body: bytes


class StoredSession(msgspec.Struct, frozen=True):
    """A sign-in with an identity provider that was finished; the body is encrypted."""

    session_id: str
    provider: str
    body: bytes


class AuthorizationCode(msgspec.Struct, frozen=True, kw_only=True):
    """The grant and the request behind an authorization code."""

    grant: StoredGrant
    redirect_uri: str
    challenge: str
    expires_at: float


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A device that waits for the user's consent."""

    grant: StoredGrant
    user_code: str
    expires_at: float
    interval: float
    state: Literal["pending", "allowed", "denied"] = "pending"
    polled_at: float = 0.0


class AuthorizationServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an authorization server behaves.

    Attributes:
        scopes: the scopes that can be allowed, with a sentence for the consent page.
        default_scopes: for clients that ask for no scope.
        clients: the clients that need not register, by id.
        registration: whether clients may register themselves.
        registration_token: the bearer token that registration requires; None for no token.
        client_metadata_documents: whether the id of a client may be the URL of its metadata.
        remember_consent: whether users are asked only once for the same client and scopes.
        access_ttl: seconds that an access token lives.
        refresh_ttl: seconds that a refresh token lives unused.
        code_ttl: seconds that an authorization code lives.
        login_ttl: seconds that a user stays logged in, in one browser.
        device_ttl: seconds that a device waits for the user.
        key_ttl: seconds after which a signing key is replaced.
        algorithm: of the signatures.
        reuse_tolerance: seconds in which a refresh token may be used again, for clients that
            refresh twice at once; 0 treats every second use as a theft.
        client_ttl: seconds after which a registered client without a grant is forgotten.
        clients_most: how many clients may be registered; then the one without a grant for longest
            is forgotten.
        users: names and hashed passwords.
        single_user: the only user, without a login; on loopback only.
        auto_approve: whether that user is not asked for consent; on loopback only.
        login_url: of the developer's own login; its parameter `next` is the URL to return to.
        is_external: whether the developer's own login names the user.
        upstreams: the identity providers that users sign in with.
    """

    scopes: Mapping[str, str] = msgspec.field(default_factory=dict)
    default_scopes: tuple[str, ...] = ()
    clients: Mapping[str, RegisteredClient] = msgspec.field(default_factory=dict)
    registration: bool = True
    registration_token: str | None = None
    client_metadata_documents: bool = True
    remember_consent: bool = False
    access_ttl: float = 600.0
    refresh_ttl: float = 30 * 86_400.0
    code_ttl: float = 60.0
    login_ttl: float = 3_600.0
    device_ttl: float = 600.0
    key_ttl: float = 90 * 86_400.0
    algorithm: Algorithm = "ES256"
    reuse_tolerance: float = 0.0
    client_ttl: float = 180 * 86_400.0
    clients_most: int = 10_000
    users: Mapping[str, str] = msgspec.field(default_factory=dict)
    single_user: str | None = None
    auto_approve: bool = False
    login_url: str | None = None
    is_external: bool = False
    upstreams: tuple[Upstream, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name.endswith(("_ttl", "_most")) and not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected more than 0")
        if self.reuse_tolerance < 0:
            raise ValueError(f"reuse_tolerance is {self.reuse_tolerance!r}, expected 0 or more")
        if self.registration_token == "":
            raise ValueError(
                "registration_token is empty: any client could send it; use None for no token"
            )
        if self.algorithm not in ("ES256", "RS256"):
            raise ValueError(f"algorithm is {self.algorithm!r}, expected 'ES256' or 'RS256'")
        for scope in self.scopes:
            if not _SCOPE.fullmatch(scope):
                raise ValueError(f"scope {scope!r} has characters that are not allowed")
        names = [each.name for each in self.upstreams]
        if len(set(names)) < len(names):
            raise ValueError(f"upstreams {names} need different names: Upstream(name=...)")
        unknown = set(self.default_scopes) - set(self.scopes)
        if unknown:
            raise ValueError(f"default_scopes names {sorted(unknown)}, which scopes does not")

    def knows(self, subject: str) -> bool:
        """Whether a user may log in; true for any user of an external login."""
        if self.is_external:
            return True
        if self.upstreams:
            # Whether the user may enter is decided with what the provider says of them.
            return subject.partition(":")[0] in {each.name for each in self.upstreams}
        return subject in self.users if self.single_user is None else subject == self.single_user

    @property
    def needs_loopback(self) -> bool:
        """Whether these settings are safe only for users of this machine."""
        return self.single_user is not None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the authorization server.

    Attributes:
        method: of HTTP.
        path: within the authorization server.
        query: undecoded.
        headers: names in lower case.
        body: undecoded.
        address: the IP address of the client.
        issuer: the URL at which this request reaches the authorization server.
        resources: the URLs of the servers that tokens can be for; the first is the default.
        subject: the user, as returned by the developer's own login.
        refusal: why the metadata document of the client cannot be used, if it was fetched.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    address: str = ""
    issuer: str
    resources: tuple[str, ...] = ()
    subject: str | None = None
    refusal: "OAuthRefusal | None" = None

    @property
    def url(self) -> str:
        """Where browsers send this request, and the forms of its page."""
        query = f"?{self.query}" if self.query else ""
        return f"{self.issuer.rstrip('/')}{self.path}{query}"

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the server over HTTPS."""
        return self.issuer.startswith("https:")

    @property
    def is_forwarded(self) -> bool:
        """Whether the request has headers of a proxy."""
        return any(name in self.headers for name in FORWARDED)

    def cookie(self, name: str) -> str | None:
        # By hand: other programs on this host may have set cookies that parsers reject.
        for pair in self.headers.get("cookie", "").split(";"):
            key, equals, value = pair.strip().partition("=")
            if key == name and equals:
                return value
        return None

    def form(self) -> dict[str, str]:
        """Read the body as a form.

        Raises:
            OAuthRefusal: the body is not a form.
        """
        if self.media_type != "application/x-www-form-urlencoded":
            raise OAuthRefusal(
                "invalid_request", "the body must be application/x-www-form-urlencoded"
            )
        try:
            return parse_form(self.body.decode())
        except UnicodeDecodeError:
            raise OAuthRefusal("invalid_request", "the body is not UTF-8") from None


class OAuthResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response of the authorization server."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def with_headers(self, *headers: tuple[str, str]) -> "OAuthResponse":
        return msgspec.structs.replace(self, headers=(*self.headers, *headers))


def parse_form(text: str) -> dict[str, str]:
    """Parse form parameters; empty ones count as omitted (RFC 6749, section 3.1).

    Raises:
        OAuthRefusal: one is repeated, or there are too many.
    """
    try:
        pairs = parse_qsl(text, max_num_fields=_FIELDS_MOST, errors="strict")
    except ValueError:
        raise OAuthRefusal("invalid_request", "the parameters cannot be read") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            if name == "resource":
                raise OAuthRefusal("invalid_target", "a token is for one resource, not for several")
            raise OAuthRefusal("invalid_request", f"parameter {name[:50]!r} is repeated")
        found[name] = value
    return found


def json_response(
    document: Any, *, status: int = 200, cache: str = "no-store", **headers: str
) -> OAuthResponse:
    """Return a JSON response; by default it is not cached."""
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    kept = (("content-type", "application/json"), ("cache-control", cache))
    return OAuthResponse(status=status, headers=kept + more, body=msgspec.json.encode(document))


def redirect(location: str) -> OAuthResponse:
    """Return a redirect to another URL, with GET."""
    return OAuthResponse(
        status=303,
        headers=(
            ("location", location),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ),
    )


class OAuthRefusal(Exception):
    """An OAuth error response to a request.

    A transaction of the store that ends with a refusal is committed: what was counted or revoked
    on the way stays.
    """

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = _NOT_ALLOWED.sub("?", description)
        self.status = status

    @property
    def response(self) -> OAuthResponse:
        document = {"error": self.error, "error_description": self.description}
        headers = _REFUSAL_HEADERS.get(self.status, {})
        return json_response(document, status=self.status, **headers)
