"""Settings of the authorization server, checked once."""

from collections.abc import Mapping
from typing import Final

import msgspec

from accord.auth.authorization_server.models import RegisteredClient
from accord.auth.authorization_server.signing_keys import Algorithm

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
        scopes: what there is to allow, with a sentence for the person who is asked.
        default_scopes: for clients that ask for none in particular.
        clients: those that need not register, by id.
        registration: whether programs may register themselves.
        registration_token: what they must then show as a bearer token; None for nothing.
        remember_consent: whether people are asked only once for the same client and scopes.
        access_ttl: seconds that an access token lives.
        refresh_ttl: seconds that a refresh token lives unused.
        code_ttl: seconds that an authorization code lives.
        login_ttl: seconds that a person stays logged in, in one browser.
        device_ttl: seconds that a device waits for a person.
        key_ttl: seconds after which a signing key is replaced.
        algorithm: of the signatures.
        reuse_tolerance: seconds in which a refresh token may be used again, for clients that
            refresh twice at once; 0 takes every second use for a theft.
        client_ttl: seconds after which a program that registered and has no grant is forgotten.
        clients_most: how many programs may be registered; then the one that has had no grant for
            longest makes room.
        users: names and hashed passwords.
        person: who it always is, without a login; on loopback only.
        auto_approve: whether that person is not even asked; on loopback only.
        login_url: of the developer's own login; people come back through its parameter `next`.
        is_external: whether the developer's own login says who it is.
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
    person: str | None = None
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
            raise ValueError("registration_token is empty: anybody could show it; None for nothing")
        if self.algorithm not in ("ES256", "RS256"):
            raise ValueError(f"algorithm is {self.algorithm!r}, expected 'ES256' or 'RS256'")
        for scope in self.scopes:
            # RFC 6749, section 3.3: what a scope may be made of.
            if not scope or any(not "!" <= c <= "~" or c in '"\\' for c in scope):
                raise ValueError(f"scope {scope!r} has characters that no scope may have")
        unknown = set(self.default_scopes) - set(self.scopes)
        if unknown:
            raise ValueError(f"default_scopes names {sorted(unknown)}, which scopes does not")

    def knows(self, subject: str) -> bool:
        """Whether a person could log in now, as far as that is decided here."""
        if self.is_external:
            return True
        return subject in self.users if self.person is None else subject == self.person

    @property
    def needs_loopback(self) -> bool:
        """Whether these settings are safe for nobody but people at this machine."""
        return self.person is not None
