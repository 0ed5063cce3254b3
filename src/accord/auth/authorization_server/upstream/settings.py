"""Identity providers that users sign in with: settings, which users may enter, URLs. Pure."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.auth.urls import canonical_http_url, is_loopback_url, with_query

if TYPE_CHECKING:
    from accord.auth.authorization_server.models import Request

EVERYONE: Final = "everyone"

# A colon separates the name from the id of a user, so a name has none.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NOT_IN_NAME: Final = re.compile(r"[^a-z0-9._-]+")
_TENANT: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TENANT_ID: Final = "{tenantid}"
_ID_MOST: Final = 255
# How providers write that an email address is verified.
_TRUE: Final = (True, "true", "True", "1")
_NOT_KEPT: Final = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "jti", "sid"})


class UpstreamUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user, as an identity provider describes them.

    Attributes:
        provider: the name of the provider.
        id: the id of the user at the provider.
        emails: the verified email addresses, the main one first.
        name: the name that pages show.
        claims: all that the provider says.
    """

    provider: str
    id: str
    emails: tuple[str, ...] = ()
    name: str = ""
    claims: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The user in tokens: no two providers share one."""
        return f"{self.provider}:{self.id}"

    @property
    def email(self) -> str | None:
        """The main verified email address."""
        return self.emails[0] if self.emails else None

    @property
    def shown_name(self) -> str:
        shown = self.email or self.id
        return f"{self.name} ({shown})" if self.name and self.name != shown else shown


AllowUser: TypeAlias = Callable[[UpstreamUser], bool | Awaitable[bool]]
Allow: TypeAlias = Iterable[str] | AllowUser | Literal["everyone"]
"""The users that may enter: rules, a function, or everyone."""


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """An identity provider that users sign in with.

    With `issuer` alone it speaks OpenID Connect, and its endpoints are discovered. With endpoints
    it speaks plain OAuth, and the user is read from `userinfo_endpoint`.

    Attributes:
        client_id: the id that the provider gave to this server.
        allow: the users that may enter: a list of ids, of verified email addresses and of their
            domains ("@example.com"); a function of an `UpstreamUser`; or "everyone": all users
            that the provider lets in.
        client_secret: the secret that belongs to the id; None for a public client.
        issuer: its URL, exactly as its metadata and tokens name it.
        name: in the callback URL and in the subjects of tokens; by default the issuer's host.
        title: the name for users.
        scopes: what the server may do at the provider.
        authorization_endpoint: of plain OAuth.
        token_endpoint: of plain OAuth.
        userinfo_endpoint: of plain OAuth; answers with a JSON object about the user.
        emails_endpoint: answers with the list of the user's addresses, as GitHub does.
        subject_claims: the claims that identify a user for ever.
        parameters: further parameters of the authorization request.
        switch_parameters: those that let the user choose another account.
        email_verified_claim: the claim that says that the email address is verified.
        email_domain_claim: the claim with the domain for whose addresses the provider answers;
            other addresses do not count.
        own_email_domains: the domains of the provider itself, for whose addresses it answers too.
        tenants: the tenants that may sign in, where the issuer is a template for many.
        authenticate: how the secret is sent; by default as the metadata says.
        pkce: whether the provider accepts PKCE; only a provider that fails with it needs False.
        trust: further origins at which endpoints may be, although at private addresses.

    Raises:
        ValueError: settings are missing, contradict each other, or are not safe.
    """

    client_id: str
    allow: Allow
    client_secret: str | None = None
    issuer: str | None = None
    name: str = ""
    title: str = ""
    scopes: Sequence[str] = ("openid", "profile", "email")
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    userinfo_endpoint: str | None = None
    emails_endpoint: str | None = None
    subject_claims: tuple[str, ...] = ("sub",)
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    switch_parameters: Mapping[str, str] = msgspec.field(
        default_factory=lambda: {"prompt": "select_account"}
    )
    email_verified_claim: str = "email_verified"
    email_domain_claim: str | None = None
    own_email_domains: tuple[str, ...] = ()
    tenants: Sequence[str] = ()
    authenticate: Literal["basic", "post"] | None = None
    pkce: bool = True
    trust: Sequence[str] = ()

    def __post_init__(self) -> None:
        named = self.name or _default_name(self.issuer or self.authorization_endpoint)
        if not _NAME.fullmatch(named):
            raise ValueError(
                f"upstream name {named!r} is not valid: expected lower-case letters, digits, "
                "dots, hyphens and underscores"
            )
        self._set("name", named)
        self._set("title", self.title or named)
        scopes = self.scopes.split() if isinstance(self.scopes, str) else self.scopes
        self._set("scopes", tuple(scopes))
        if not self.client_id:
            raise ValueError(f"upstream {named}: client_id is empty")
        if self.client_secret == "":
            raise ValueError(f"upstream {named}: client_secret is empty; leave it out if none")
        self._set("allow", _check_allow(named, self.allow))
        self._check_urls()
        self._check_tenants()

    def _set(self, name: str, value: object) -> None:
        msgspec.structs.force_setattr(self, name, value)

    def _check_urls(self) -> None:
        endpoints = (self.authorization_endpoint, self.token_endpoint, self.userinfo_endpoint)
        if any(endpoints) and not all(endpoints):
            raise ValueError(
                f"upstream {self.name}: plain OAuth needs authorization_endpoint, token_endpoint "
                "and userinfo_endpoint; for OpenID Connect give issuer alone"
            )
        if not any(endpoints) and self.issuer is None:
            raise ValueError(f"upstream {self.name}: issuer is missing, or the endpoints")
        if self.is_openid and "openid" not in self.scopes:
            raise ValueError(
                f"upstream {self.name}: scopes lacks openid, which identifies the user"
            )
        for url in (self.issuer, *endpoints, self.emails_endpoint):
            if url is None:
                continue
            found = canonical_http_url(url)
            if found is None or "?" in found:
                raise ValueError(f"upstream {self.name}: {url!r} is not a URL, https://host/path")
            if not found.startswith("https:") and not is_loopback_url(found):
                raise ValueError(f"upstream {self.name}: {url!r} is not https")

    def _check_tenants(self) -> None:
        for tenant in self.tenants:
            if not _TENANT.fullmatch(tenant):
                raise ValueError(f"upstream {self.name}: tenant {tenant!r} is not a tenant id")
        self._set("tenants", tuple(each.lower() for each in self.tenants))

    def __repr__(self) -> str:
        # The secret is not shown.
        return f"<Upstream {self.name!r}: {self.issuer or self.authorization_endpoint}>"

    @property
    def is_openid(self) -> bool:
        """Whether it speaks OpenID Connect, rather than plain OAuth."""
        return self.authorization_endpoint is None

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs that the operator named, which may be at any address."""
        given = (
            self.issuer,
            self.authorization_endpoint,
            self.token_endpoint,
            self.userinfo_endpoint,
            self.emails_endpoint,
        )
        return tuple(each for each in given if each is not None) + tuple(self.trust)

    # -- issuers

    def is_own_metadata(self, issuer: object) -> bool:
        """Whether discovered metadata names this issuer, or its template if tenants are listed."""
        if issuer == self.issuer:
            return True
        if not self.tenants or not isinstance(issuer, str) or _TENANT_ID not in issuer:
            return False
        place = urlsplit(self.issuer or "")
        there = urlsplit(issuer)
        return (place.scheme, place.netloc) == (there.scheme, there.netloc)

    def issuer_for(self, metadata_issuer: str, tenant: object) -> str | None:
        """Return the issuer that an ID token must have; None for a tenant that may not sign in."""
        if not self.tenants:
            return metadata_issuer
        if not isinstance(tenant, str) or tenant.lower() not in self.tenants:
            return None
        return metadata_issuer.replace(_TENANT_ID, tenant)

    # -- users

    def read_user(
        self, claims: Mapping[str, Any], emails: Iterable[str] | None = None
    ) -> UpstreamUser:
        """Read a user from verified claims.

        Args:
            claims: of the ID token, or the answer of the API.
            emails: the verified addresses, if these were fetched.

        Raises:
            ValueError: the claims do not identify a user.
        """
        parts = [_id_text(claims.get(name)) for name in self.subject_claims]
        if not all(parts) or len(".".join(parts)) > _ID_MOST:
            names = " and ".join(self.subject_claims)
            raise ValueError(f"{names} is missing or not an id")
        name = claims.get("name") or claims.get("preferred_username") or claims.get("login")
        if emails is None:
            own = self._verified_email(claims)
            emails = () if own is None else (own,)
        return UpstreamUser(
            provider=self.name,
            id=".".join(parts),
            emails=tuple(emails),
            name=" ".join(name.split())[:100] if isinstance(name, str) else "",
            claims={key: value for key, value in claims.items() if key not in _NOT_KEPT},
        )

    def _verified_email(self, claims: Mapping[str, Any]) -> str | None:
        email = claims.get("email")
        if not isinstance(email, str) or "@" not in email:
            return None
        if claims.get(self.email_verified_claim) not in _TRUE:
            return None
        if self.email_domain_claim is not None:
            domain = email.rpartition("@")[2].lower()
            vouched = claims.get(self.email_domain_claim)
            is_vouched = isinstance(vouched, str) and vouched.lower() == domain
            if not is_vouched and domain not in self.own_email_domains:
                return None
        return email

    def allows_by_rules(self, user: UpstreamUser) -> bool:
        """Whether rules let a user in; true where a function decides, which is asked apart."""
        if callable(self.allow) or self.allow == EVERYONE:
            return True
        return any(_fits(rule, user) for rule in self.allow)


def _default_name(url: str | None) -> str:
    host = urlsplit(url or "").hostname or "" if "[" not in (url or "") else "provider"
    return _NOT_IN_NAME.sub("-", host.lower())


def _check_allow(name: str, allow: object) -> Allow:
    if callable(allow):
        return allow
    if isinstance(allow, str):
        if allow == EVERYONE:
            return EVERYONE
        raise ValueError(
            f"upstream {name}: allow is {allow!r}, expected a list such as [{allow!r}], a function "
            "or 'everyone'"
        )
    if not isinstance(allow, Iterable):
        raise ValueError(  # noqa: TRY004  # the same kind of error for all settings
            f"upstream {name}: allow is {allow!r}, expected a list, a function or 'everyone'"
        )
    rules = tuple(allow)
    if not rules:
        raise ValueError(f"upstream {name}: allow is empty: no user could sign in")
    for rule in rules:
        if not isinstance(rule, str) or not rule.strip() or rule in ("@", EVERYONE, "*"):
            raise ValueError(
                f"upstream {name}: allow has {rule!r}, expected an email address, a domain such "
                "as '@example.com', or the id of a user"
            )
    return rules


def _fits(rule: str, user: UpstreamUser) -> bool:
    if rule.startswith("@"):
        domain = rule[1:]
        return any(_same(domain, each.rpartition("@")[2]) for each in user.emails)
    if "@" in rule:
        return any(_same(rule, each) for each in user.emails)
    return rule in (user.id, user.subject)


def _same(one: str, other: str) -> bool:
    # In other scripts lower case makes different letters equal.
    if one.isascii() and other.isascii():
        return one.lower() == other.lower()
    return one == other


def _id_text(value: object) -> str:
    """Return an id as text; empty for anything that is not an id."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.isprintable() and value.strip() == value:
        return value
    return ""


# -- the URLs at which a browser leaves for a provider, and comes back


def start_url(request: "Request", name: str, *, may_switch: bool = False) -> str:
    """Return the URL at which a browser begins to sign in, to return to the page of a request.

    `may_switch` lets the user choose another account than the last time.
    """
    page = f"{request.path}?{request.query}" if request.query else request.path
    start = f"{request.issuer.rstrip('/')}/upstream/{name}/start"
    return with_query(start, next=page, switch="1" if may_switch else None)


def callback_url(issuer: str, name: str) -> str:
    """Return the redirect URI that has to be registered with a provider."""
    return f"{issuer.rstrip('/')}/upstream/{name}/callback"
