"""Settings of the authorization server, checked once."""

from collections.abc import Mapping
from typing import Final

import msgspec

from accord.auth.authorization_server.access_tokens import Algorithm
from accord.auth.authorization_server.models import RegisteredClient

_POSITIVE: Final = (
    "access_ttl",
    "refresh_ttl",
    "code_ttl",
    "login_ttl",
    "device_ttl",
    "key_ttl",
    "client_ttl",
    "clients_most",
)


class AuthorizationServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an authorization server behaves.

    Attributes:
        scopes: the scopes that can be allowed, with a sentence for the consent page.
        default_scopes: for clients that ask for no scope.
        clients: the clients that need not register, by id.
        registration: whether clients may register themselves.
        registration_token: the bearer token that registration requires; None for no token.
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
    """

    scopes: Mapping[str, str] = msgspec.field(default_factory=dict)
    default_scopes: tuple[str, ...] = ()
    clients: Mapping[str, RegisteredClient] = msgspec.field(default_factory=dict)
    registration: bool = True
    registration_token: str | None = None
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

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
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
            # RFC 6749, section 3.3, limits the characters of a scope.
            if not scope or any(not "!" <= c <= "~" or c in '"\\' for c in scope):
                raise ValueError(f"scope {scope!r} has characters that are not allowed")
        unknown = set(self.default_scopes) - set(self.scopes)
        if unknown:
            raise ValueError(f"default_scopes names {sorted(unknown)}, which scopes does not")

    def knows(self, subject: str) -> bool:
        """Whether a user may log in; true for any user of an external login."""
        if self.is_external:
            return True
        return subject in self.users if self.single_user is None else subject == self.single_user

    @property
    def needs_loopback(self) -> bool:
        """Whether these settings are safe only for users of this machine."""
        return self.single_user is not None
