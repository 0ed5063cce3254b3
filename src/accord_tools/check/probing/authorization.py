"""Authorization of a server under check: the metadata it publishes, and a token for the check."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from accord.errors import AuthError, ConnectFailed, FlowFailed, MissingExtra
from accord.http.client.guarded import (
    AddressPolicy,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
)
from accord.http.rules.responses import AuthChallenge, quote_url
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.revisions import HANDSHAKE, newest
from accord.trace import HttpFacts
from accord_tools.check.probing.http_exchange import exchange, post_message
from accord_tools.check.probing.messages import initialize_params, new_request
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.target import ServerTarget

if TYPE_CHECKING:
    from accord.auth import OAuth
    from accord.auth.tokens import TokenGrant


_NEWEST: Final = newest(HANDSHAKE)
# A server may name any number; only the first ones are tried.
_ISSUERS: Final = 3


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The token that an authorization server issued for the check.

    Attributes:
        token: for the server under check.
        client_id: of the client it was issued to.
        redirect_uri: where that client is sent back; empty if unknown.
        lifetime: seconds until it expires; None if unknown.
        is_rotated: whether refreshing it issued a new refresh token; None if it has none.
    """

    token: str
    client_id: str
    redirect_uri: str = ""
    lifetime: float | None = None
    is_rotated: bool | None = None

    def __repr__(self) -> str:
        return f"Granted(client_id={self.client_id!r})"


async def obtain(target: ServerTarget, oauth: "OAuth | None" = None) -> Granted | None:
    """Obtain a token for a server that asks for one; return None if it does not.

    Args:
        target: the server.
        oauth: used in place of one that opens a browser; has its own store.

    Raises:
        ConnectFailed: the server cannot be reached, or no token could be obtained.
        MissingExtra: the auth extra is not installed.
    """
    try:
        from accord.auth import MemoryStore, OAuth
        from accord.http.client.auth import Challenge
    except ImportError:
        raise MissingExtra("auth", needed_for="obtaining a token") from None
    if oauth is None:
        # Metadata that omits PKCE is a finding, not a reason to end the check.
        oauth = OAuth(client_name="accord check", store=MemoryStore(), pkce="assume")
    challenge = await _get_challenge(target)
    if challenge is None:
        return None
    try:
        await oauth.challenged(Challenge(url=target.spec.url, status=401, values=challenge))
        grant = await _read_grant(oauth, target.spec.url)
        if grant is None:
            raise FlowFailed("token", asked=target.spec.url, came="no token", hint="")
        # A given secret is not stored with the grant, so it cannot be refreshed here.
        return await _refresh(target.spec.url, grant, may_ask=oauth.client_secret is None)
    except AuthError as error:
        raise ConnectFailed(f"{target.spec.name}: no token could be obtained: {error}") from None


async def _get_challenge(target: ServerTarget) -> tuple[str, ...] | None:
    http = target.reached_with(transport="http")
    async with http.connection(is_judged=False) as connection:
        if target.spec.transport == "sse":
            headers = {"accept": CONTENT_TYPE}
            async with exchange(connection, method="GET", headers=headers) as heard:
                pass
        else:
            opening = new_request("initialize", initialize_params(_NEWEST, {}))
            heard = await post_message(connection, opening)
    if heard.status != 401:
        return None
    challenge = heard.headers.get("www-authenticate")
    return () if challenge is None else (challenge,)


async def _read_grant(oauth: "OAuth", url: str) -> "TokenGrant | None":
    from accord.auth.tokens import TokenGrant
    from accord.auth.urls import canonical_resource

    store = oauth.store
    assert store is not None
    name = f"server {canonical_resource(url)} {oauth.client_id or ''}".rstrip()
    key = await store.read(name)
    text = None if key is None else await store.read(key)
    return None if text is None else msgspec.json.decode(text, type=TokenGrant)


async def _refresh(url: str, grant: "TokenGrant", *, may_ask: bool) -> Granted:
    """Refresh a token before the check uses it, because that may revoke the older one."""
    from accord.auth.flow import refresh

    is_rotated = None
    lifetime = grant.lifetime if grant.expires_at is not None else None
    if may_ask and grant.refresh_token is not None and grant.client.client_secret is None:
        try:
            newer = await GuardedSender(AddressPolicy.beside(url)).run(refresh(grant, time.time()))
        except FlowFailed:
            pass
        else:
            is_rotated = newer.refresh_token != grant.refresh_token
            grant = newer
    return Granted(
        token=grant.access_token,
        client_id=grant.client.client_id,
        redirect_uri=next(iter(grant.client.redirect_uris), ""),
        lifetime=lifetime,
        is_rotated=is_rotated,
    )


# -- metadata


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata that a server and its authorization server publish.

    Attributes:
        resource: metadata of the protected resource (RFC 9728).
        issuers: the authorization servers that it names.
        metadata: of the first of them that has any (RFC 8414).
        openid: its OpenID configuration.
        refused: why a URL was not fetched; empty if all were.
    """

    resource: Mapping[str, object] | None = None
    issuers: tuple[str, ...] = ()
    metadata: Mapping[str, object] | None = None
    openid: Mapping[str, object] | None = None
    refused: str = ""


def guarded_sender(url: str, seconds: float) -> GuardedSender:
    """Return a sender for the URLs that a server at this URL names."""
    # The user named the server's own origin, even without TLS.
    return GuardedSender(AddressPolicy.beside(url, trust=[_root(url)]), seconds=seconds)


def quote_value(named: object) -> str:
    """Return a URL from another service as a report may quote it."""
    if isinstance(named, str) and named.lower().startswith(("http://", "https://")):
        return quote_url(named)
    return "something that is not a URL"


def is_oauth(challenges: Sequence[AuthChallenge], published: Published) -> bool:
    """Return whether a server that answers 401 says that it uses OAuth.

    It may have a way of its own, which the text allows.
    """
    schemes = {each.scheme for each in challenges}
    documents = (published.resource, published.metadata, published.openid)
    return "bearer" in schemes or bool(published.refused) or any(documents)


async def fetch_metadata(
    sender: GuardedSender, connection: RawConnection, url: str, challenges: Sequence[AuthChallenge]
) -> Published:
    """Fetch metadata from the URLs that a client would try, in that order.

    Args:
        sender: fetches the URLs that the server names.
        connection: records what the server itself publishes.
        url: of the server.
        challenges: of its refusal.
    """
    fetcher = _DocumentFetcher(sender, connection, url)
    named = [each.resource_metadata for each in challenges if each.resource_metadata]
    resource = await fetcher.first([*named, *_well_known(url, "oauth-protected-resource")])
    listed = (resource or {}).get("authorization_servers")
    issuers = tuple(
        each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)
    )
    metadata = openid = None
    # Before 2025-06-18 the server was its own authorization server, at the root of its host.
    for issuer in issuers[:_ISSUERS] or [_root(url)]:
        metadata = await fetcher.first(_well_known(issuer, "oauth-authorization-server"))
        openid = await fetcher.first(_well_known(issuer, "openid-configuration"))
        if metadata is not None or openid is not None:
            break
    return Published(
        resource=resource,
        issuers=issuers,
        metadata=metadata,
        openid=openid,
        refused=fetcher.refused,
    )


class _DocumentFetcher:
    """Fetches documents; records those of the server itself, and why others were not fetched."""

    def __init__(self, sender: GuardedSender, connection: RawConnection, url: str) -> None:
        self.refused = ""
        self._sender = sender
        self._connection = connection
        self._origin = _root(url)

    async def first(self, urls: Sequence[str]) -> Mapping[str, object] | None:
        """Return the first document that exists."""
        for url in urls:
            request = HttpRequest(method="GET", url=url, headers={"accept": "application/json"})
            try:
                response = await self._sender.send(request)
            except NoResponse as error:
                # What cannot be reached from here may publish anything.
                if error.is_refused or _root(url) != self._origin:
                    said = "was not asked" if error.is_refused else "did not answer"
                    self.refused = self.refused or f"{quote_value(url)} {said}: {error}"
                continue
            document = response.object()
            if response.status == 200 and document is not None:
                self._keep(request, response)
                return document
        return None

    def _keep(self, request: HttpRequest, response: HttpResponse) -> None:
        # A report shows only answers of the server under check, not of other services.
        if _root(response.url) == self._origin:
            log = self._connection.log
            log.take("client", b"", HttpFacts(method="GET", headers=request.headers))
            facts = HttpFacts(status=response.status, headers=response.headers)
            log.take("server", response.body, facts)


def _well_known(url: str, name: str) -> list[str]:
    """Return the well-known URLs of a document: before the path, after it, and at the root."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    places = [f"/.well-known/{name}{path}"]
    if path:
        places += [f"{path}/.well-known/{name}", f"/.well-known/{name}"]
    return [urlunsplit((parts.scheme, parts.netloc, place, "", "")) for place in places]


def _root(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, "", "", ""))
