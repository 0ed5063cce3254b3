"""Talks to an identity provider: discovery, exchange of codes, the user, refreshing.

Everything that a provider sends is checked here, and bounded in size and time.
"""

import hmac
import logging
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from accord.auth.authorization_server.upstream.settings import Upstream, UpstreamUser
from accord.auth.client_identity import AuthMethod, ClientIdentity, Pkce, token_request
from accord.auth.jwt_verifier import InvalidToken, JwtVerifier, unverified_claims
from accord.errors import AuthError
from accord.http.client.guarded import (
    AddressPolicy,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
    Send,
)
from accord.http.rules.responses import quote_text, quote_url

log = logging.getLogger("accord.auth")

_OPENID: Final = "/.well-known/openid-configuration"
_SECONDS: Final = 10.0
_SIZE_MOST: Final = 256 * 1024
_FRESH: Final = 3600.0
# Old metadata is better than none while the provider cannot be reached.
_KEPT: Final = 86_400.0
_TOKEN_MOST: Final = 16 * 1024
_CLAIMS_MOST: Final = 32 * 1024
_AGENT: Final = "accord"
# Errors of a token endpoint that say that this refresh token will never do again.
_FINAL: Final = frozenset(
    {"invalid_grant", "bad_refresh_token", "interaction_required", "login_required"}
)
_DUE_SECONDS: Final = 60.0
_DUE_PART: Final = 0.2


class UpstreamFault(Exception):
    """A provider could not be used.

    The message is for the log: what a provider sends is not shown to users.

    Attributes:
        is_temporary: whether the same may succeed later.
        is_final: whether the user has to sign in again.
    """

    def __init__(self, why: str, *, is_temporary: bool = False, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_temporary = is_temporary
        self.is_final = is_final


class ProviderMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider is asked, and how."""

    authorization_endpoint: str
    token_endpoint: str
    issuer: str | None = None
    userinfo_endpoint: str | None = None
    jwks_uri: str | None = None
    sends_issuer: bool = False
    methods: tuple[str, ...] | None = None


class UpstreamTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a user at a provider; `repr` does not show them."""

    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    lifetime: float = 0.0
    id_token: str | None = None

    def __repr__(self) -> str:
        return f"UpstreamTokens(expires_at={self.expires_at})"

    def is_due(self, now: float) -> bool:
        """Whether the access token should be renewed before it is used."""
        if self.expires_at is None:
            return False
        return now >= self.expires_at - min(_DUE_SECONDS, self.lifetime * _DUE_PART)


class UpstreamProvider:
    """One identity provider.

    Args:
        upstream: its settings.
        send: sends requests, in place of a guarded sender.
    """

    def __init__(self, upstream: Upstream, send: Send | None = None) -> None:
        self.upstream = upstream
        near = upstream.issuer or upstream.token_endpoint or ""
        self._policy = AddressPolicy.beside(near, upstream.urls)
        self._send = send or GuardedSender(self._policy, size=_SIZE_MOST, seconds=_SECONDS).send
        self._metadata: ProviderMetadata | None = None
        self._fetched_at = float("-inf")
        self._verifiers: dict[tuple[str, str], JwtVerifier] = {}

    # -- discovery

    async def metadata(self) -> ProviderMetadata:
        """Return where the provider is asked.

        Raises:
            UpstreamFault: its metadata cannot be fetched, or is not its own.
        """
        upstream = self.upstream
        if upstream.authorization_endpoint and upstream.token_endpoint:
            return ProviderMetadata(
                authorization_endpoint=upstream.authorization_endpoint,
                token_endpoint=upstream.token_endpoint,
                userinfo_endpoint=upstream.userinfo_endpoint,
                issuer=upstream.issuer,
            )
        now = time.monotonic()
        if self._metadata is not None and now - self._fetched_at < _FRESH:
            return self._metadata
        try:
            self._metadata = await self._discover()
            self._fetched_at = now
        except UpstreamFault as fault:
            is_usable = self._metadata is not None and now - self._fetched_at < _KEPT
            if self._metadata is None or not (is_usable and fault.is_temporary):
                raise
            log.warning("%s; its earlier metadata is used", fault)
        return self._metadata

    async def _discover(self) -> ProviderMetadata:
        url = f"{(self.upstream.issuer or '').rstrip('/')}{_OPENID}"
        response = await self._get(url)
        said = response.object()
        if response.status != 200 or said is None:
            is_temporary = response.status >= 500 or response.status == 429
            raise self._fault(
                f"{quote_url(url)} answered {response.summary}", is_temporary=is_temporary
            )
        issuer = said.get("issuer")
        if not isinstance(issuer, str) or not self.upstream.is_own_metadata(issuer):
            raise self._fault(
                f"the metadata at {quote_url(url)} is that of another issuer, "
                f"{str(issuer)[:200]!r}, expected {self.upstream.issuer!r} exactly"
            )
        methods = said.get("token_endpoint_auth_methods_supported")
        found = ProviderMetadata(
            issuer=issuer,
            authorization_endpoint=self._endpoint(said, "authorization_endpoint") or "",
            token_endpoint=self._endpoint(said, "token_endpoint") or "",
            userinfo_endpoint=self._endpoint(said, "userinfo_endpoint"),
            jwks_uri=self._endpoint(said, "jwks_uri"),
            sends_issuer=said.get("authorization_response_iss_parameter_supported") is True,
            methods=tuple(map(str, methods)) if isinstance(methods, list) else None,
        )
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not getattr(found, name):
                raise self._fault(f"its metadata at {quote_url(url)} has no {name}")
        return found

    def _endpoint(self, said: Mapping[str, Any], name: str) -> str | None:
        url = said.get(name)
        if not isinstance(url, str) or not url:
            return None
        try:
            self._policy.check_url(url)
        except NoResponse as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise self._fault(f"its {name} must not be used: {error.reason}{hint}") from None
        return url

    # -- the authorization request and its response

    def authorization_url(  # the parameters of the request
        self,
        metadata: ProviderMetadata,
        *,
        redirect_uri: str,
        state: str,
        nonce: str,
        pkce: Pkce,
        may_switch: bool = False,
    ) -> str:
        """Return the URL at which the user signs in."""
        upstream = self.upstream
        fields = {
            **upstream.parameters,
            **(upstream.switch_parameters if may_switch else {}),
            "response_type": "code",
            "client_id": upstream.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
        }
        if upstream.scopes:
            fields["scope"] = " ".join(upstream.scopes)
        if upstream.is_openid:
            fields["nonce"] = nonce
        if upstream.pkce:
            fields |= {"code_challenge": pkce.challenge, "code_challenge_method": "S256"}
        parts = urlsplit(metadata.authorization_endpoint)
        kept = [pair for pair in parse_qsl(parts.query) if pair[0] not in fields]
        query = urlencode([*kept, *fields.items()])
        path = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        return urlunsplit((parts.scheme, parts.netloc, path, query, ""))

    def check_issuer(self, metadata: ProviderMetadata, iss: str | None) -> None:
        """Make sure that a response is from this provider (RFC 9207), as far as it says so.

        Raises:
            UpstreamFault: it is from another one.
        """
        if iss is None:
            if metadata.sends_issuer:
                raise self._fault("its response has no iss, although its metadata promises one")
            return
        # The template of many tenants cannot be compared; the ID token names the tenant.
        if metadata.issuer is not None and not self.upstream.tenants and iss != metadata.issuer:
            raise self._fault(f"a response of {iss[:200]!r} came in place of its own")

    # -- tokens

    async def exchange(self, code: str, *, redirect_uri: str, pkce: Pkce) -> UpstreamTokens:
        """Redeem a code.

        Raises:
            UpstreamFault: the provider does not accept it, or its answer is not valid.
        """
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        if self.upstream.pkce:
            fields["code_verifier"] = pkce.verifier
        return await self._request_tokens(fields)

    async def refresh(self, tokens: UpstreamTokens, user_id: str) -> UpstreamTokens:
        """Renew tokens; the refresh token is kept if the response has none.

        Raises:
            UpstreamFault: the provider does not accept it, or its answer is not valid.
        """
        fields = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token or ""}
        renewed = await self._request_tokens(fields)
        if renewed.id_token is not None and self.upstream.is_openid:
            claims = await self._read_id_token(renewed.id_token, nonce=None)
            if self._read_user(claims).id != user_id:
                raise self._fault("it renewed the tokens of another user", is_final=True)
        kept = renewed.refresh_token or tokens.refresh_token
        return msgspec.structs.replace(renewed, refresh_token=kept)

    async def _request_tokens(self, fields: Mapping[str, str]) -> UpstreamTokens:
        metadata = await self.metadata()
        upstream = self.upstream
        client = ClientIdentity(
            client_id=upstream.client_id,
            client_secret=upstream.client_secret,
            method=self._method(metadata),
        )
        request = token_request(
            metadata.token_endpoint, fields, client, issuer=metadata.issuer or ""
        )
        now = time.time()
        response = await self._ask(request)
        said = response.object()
        error = None if said is None else said.get("error")
        # GitHub answers errors with 200.
        if not response.is_ok or isinstance(error, str):
            came = f"its token endpoint answered {_without(response.summary, fields)}"
            is_known = isinstance(error, str)
            is_temporary = not is_known and (response.status >= 500 or response.status == 429)
            raise self._fault(
                came, is_temporary=is_temporary, is_final=is_known and error in _FINAL
            )
        token = None if said is None else said.get("access_token")
        if said is None or not isinstance(token, str) or not _is_header_value(token):
            raise self._fault(f"its token endpoint answered {response.summary}, without a token")
        kind = said.get("token_type", "bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise self._fault(f"its token is of type {str(kind)[:40]!r}, expected bearer")
        lifetime = _seconds(said.get("expires_in"))
        return UpstreamTokens(
            access_token=token,
            refresh_token=_text(said.get("refresh_token")),
            expires_at=None if lifetime is None else now + lifetime,
            lifetime=lifetime or 0.0,
            id_token=_text(said.get("id_token")),
        )

    def _method(self, metadata: ProviderMetadata) -> AuthMethod:
        if self.upstream.client_secret is None:
            return "none"
        if self.upstream.authenticate is not None:
            return "client_secret_post" if self.upstream.authenticate == "post" else _BASIC
        offered = metadata.methods
        if offered is not None and _BASIC not in offered and "client_secret_post" in offered:
            return "client_secret_post"
        return _BASIC

    # -- the user

    async def find_user(self, tokens: UpstreamTokens, *, nonce: str) -> UpstreamUser:
        """Return the user that signed in.

        Raises:
            UpstreamFault: the provider does not say, or not in a way that can be verified.
        """
        metadata = await self.metadata()
        if not self.upstream.is_openid:
            claims = await self._get_object(metadata.userinfo_endpoint or "", tokens)
            emails = await self._find_emails(tokens)
            if emails is not None:
                claims = {**claims, "emails": list(emails)}
            return self._read_user(claims, emails)
        if tokens.id_token is None:
            raise self._fault("its token endpoint answered without an id_token")
        claims = await self._read_id_token(tokens.id_token, nonce=nonce)
        if "email" not in claims and "email" in self.upstream.scopes and metadata.userinfo_endpoint:
            more = await self._get_object(metadata.userinfo_endpoint, tokens)
            # OpenID Connect Core, section 5.3.2: the answer may be about another user.
            if more.get("sub") != claims.get("sub"):
                raise self._fault("its userinfo endpoint answered for another user")
            claims = {**more, **claims}
        return self._read_user(claims)

    def _read_user(
        self, claims: Mapping[str, Any], emails: tuple[str, ...] | None = None
    ) -> UpstreamUser:
        if len(msgspec.json.encode(claims)) > _CLAIMS_MOST:
            # They are kept in memory for users that are active.
            raise self._fault(f"it says more than {_CLAIMS_MOST} bytes of a user")
        try:
            return self.upstream.read_user(claims, emails)
        except ValueError as error:
            raise self._fault(f"it does not say which user signed in: {error}") from None

    async def _read_id_token(self, token: str, *, nonce: str | None) -> Mapping[str, Any]:
        """Verify an ID token (OpenID Connect Core, section 3.1.3.7)."""
        metadata = await self.metadata()
        upstream = self.upstream
        try:
            issuer = metadata.issuer or ""
            if upstream.tenants:
                tenant = unverified_claims(token).get("tid")
                found = upstream.issuer_for(issuer, tenant)
                if found is None:
                    raise InvalidToken(f"its tenant {str(tenant)[:60]!r} is not among the tenants")
                issuer = found
            verifier = self._verifier(issuer, metadata.jwks_uri or "")
            claims = (await verifier.read(token)).claims
        except InvalidToken as error:
            raise self._fault(f"its ID token is refused: {error}") from None
        except AuthError as error:
            raise self._fault(str(error), is_temporary=True) from None
        fault = id_token_fault(claims, client_id=upstream.client_id, nonce=nonce)
        if fault is not None:
            raise self._fault(f"its ID token is refused: {fault}")
        return claims

    def _verifier(self, issuer: str, jwks_uri: str) -> JwtVerifier:
        found = self._verifiers.get((issuer, jwks_uri))
        if found is None:
            found = JwtVerifier(
                issuer, audience=self.upstream.client_id, jwks_url=jwks_uri, send=self._send
            )
            self._verifiers[issuer, jwks_uri] = found
        return found

    async def _find_emails(self, tokens: UpstreamTokens) -> tuple[str, ...] | None:
        """Return the verified addresses of the user, if the provider has a list of them."""
        url = self.upstream.emails_endpoint
        if url is None:
            return None
        response = await self._get(url, tokens)
        if response.status in (401, 403, 404):
            return ()  # the scope for it was not granted
        try:
            listed = msgspec.json.decode(response.body, type=list[_Email])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            came = f"{quote_url(url)} answered {response.summary}, expected a list of addresses"
            raise self._fault(came, is_temporary=response.status >= 500) from None
        verified = [each for each in listed if each.verified and "@" in each.email]
        return tuple(each.email for each in sorted(verified, key=lambda it: not it.primary))

    # -- requests

    async def _get_object(self, url: str, tokens: UpstreamTokens) -> Mapping[str, Any]:
        response = await self._get(url, tokens)
        said = response.object()
        if response.status != 200 or said is None:
            is_temporary = response.status >= 500 or response.status == 429
            came = f"{quote_url(url)} answered {response.summary}, expected a JSON object"
            raise self._fault(came, is_temporary=is_temporary)
        return said

    async def _get(self, url: str, tokens: UpstreamTokens | None = None) -> HttpResponse:
        headers = {"Accept": "application/json", "User-Agent": _AGENT}
        if tokens is not None:
            headers["Authorization"] = f"Bearer {tokens.access_token}"
        return await self._ask(HttpRequest(method="GET", url=url, headers=headers))

    async def _ask(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._send(request)
        except NoResponse as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise self._fault(f"{error.reason}{hint}", is_temporary=True) from None

    def _fault(
        self,
        why: str,
        *,
        is_temporary: bool = False,
        is_final: bool = False,
    ) -> UpstreamFault:
        return UpstreamFault(
            f"identity provider {self.upstream.name}: {why}",
            is_temporary=is_temporary,
            is_final=is_final,
        )


_BASIC: Final = "client_secret_basic"


class _Email(msgspec.Struct):
    email: str
    verified: bool = False
    primary: bool = False


def id_token_fault(claims: Mapping[str, Any], *, client_id: str, nonce: str | None) -> str | None:
    """Return why an ID token with these claims is refused, beyond the rules for all tokens.

    Args:
        claims: of a token whose signature, issuer and times were checked.
        client_id: of this server at the provider.
        nonce: of the authorization request; None for a token that was renewed.
    """
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or client_id not in named:
        return f"its audience is {str(audience)[:200]!r}, expected {client_id!r}"
    party = claims.get("azp")
    if party is None and len(named) > 1:
        return "it has several audiences and no azp"
    if party is not None and party != client_id:
        return f"it was issued to {str(party)[:200]!r}, expected {client_id!r}"
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        return "it has no sub"
    if nonce is not None:
        given = claims.get("nonce")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
            return "its nonce is that of another request, or missing"
    return None


def _is_header_value(token: str) -> bool:
    is_printable = token.isascii() and token.isprintable() and " " not in token
    return bool(token) and is_printable and len(token) <= _TOKEN_MOST


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value and len(value) <= _TOKEN_MOST else None


def _seconds(value: object) -> float | None:
    """Read a lifetime, which some providers write as text; None if it is missing or invalid."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
        return float(value)
    return None


def _without(text: str, fields: Mapping[str, str]) -> str:
    """Remove the secrets of a request: some providers repeat them in their errors."""
    for name, value in fields.items():
        if name in ("code", "code_verifier", "refresh_token") and len(value) > 3:
            text = text.replace(value, f"<{name}>")
    return quote_text(text)
