"""HTTP requests that several scenarios send, and the authorization metadata that they fetch."""

import ipaddress
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from accord.bindings.challenge import AuthChallenge
from accord.bindings.quoting import quote_url
from accord.check.probing.exchange import RawResponse, exchange, post_message
from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import CLIENT_INFO, RawConnection, next_id
from accord.errors import AccordError
from accord.trace import HttpFacts
from accord.transports.http.client.guarded import AddressPolicy, GuardedSender
from accord.transports.http.client.requests import HttpRequest, HttpResponse, NoResponse
from accord.types import JsonObject

INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PERMISSION: Final = "a permission that the server did not use"
# Other people may use a server behind a URL: a check makes only a few calls.
_CALLS: Final = 8


def request(method: str, params: object = None) -> JsonObject:
    """Return a request with a new id."""
    message: JsonObject = {"jsonrpc": "2.0", "id": next_id(), "method": method}
    return message if params is None else message | {"params": params}


def initialize(revision: str) -> JsonObject:
    """Return an initialize request of a client without capabilities."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT_INFO}
    return request("initialize", params)


@asynccontextmanager
async def open_unjudged(
    probe: Probe, *, revision: str | None = None, headers: Mapping[str, str] | None = None
) -> AsyncIterator[RawConnection]:
    """Open a connection that is not judged and does not listen by GET yet.

    The client declares no capabilities, so that no tool sends it a request.

    Raises:
        AccordError: the server refuses to open one.
    """
    async with probe.open(is_judged=False, begins=False, headers=headers) as connection:
        reply = await connection.initialize(
            revision or probe.revision, capabilities={}, is_confirmed=False
        )
        if reply.is_error:
            raise AccordError(f"no conversation could be opened: {reply}")
        await post_message(connection, INITIALIZED)
        yield connection


def calls(probe: Probe) -> list[JsonObject]:
    """Return calls of tools that may be called, each with a token for progress."""
    made = []
    for tool, arguments in probe.facts.callable_tools()[:_CALLS]:
        token = f"accord-check-{next_id()}"
        params = {"name": tool["name"], "arguments": arguments, "_meta": {"progressToken": token}}
        made.append(request("tools/call", params))
    return made


async def end_session(connection: RawConnection, heard: RawResponse) -> None:
    """End the session that a raw request opened, if there is one."""
    given = heard.headers.get("mcp-session-id")
    if given is not None:
        proof = connection.proof
        async with exchange(connection, method="DELETE", mcp_session_id=given):
            pass
        # The next verdict is about the request that opened it.
        connection.proof = proof


def is_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_RESOURCE: Final = "oauth-protected-resource"
_SERVER: Final = "oauth-authorization-server"
_OPENID: Final = "openid-configuration"
# A server may name any number; only the first ones are tried.
_ISSUERS: Final = 3


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
    """Return whether a server that answers 401 uses OAuth; it does unless it says otherwise."""
    schemes = {each.scheme for each in challenges}
    return not schemes or "bearer" in schemes or published.resource is not None


async def discover(
    sender: GuardedSender, connection: RawConnection, url: str, challenges: Sequence[AuthChallenge]
) -> Published:
    """Fetch metadata from the URLs that a client would try, in that order.

    Args:
        sender: fetches the URLs that the server names.
        connection: records what the server itself publishes.
        url: of the server.
        challenges: of its refusal.
    """
    asker = _DocumentFetcher(sender, connection, url)
    named = [each.resource_metadata for each in challenges if each.resource_metadata]
    resource = await asker.first([*named, *_well_known(url, _RESOURCE)])
    listed = (resource or {}).get("authorization_servers")
    issuers = tuple(
        each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str)
    )
    metadata = openid = None
    # Before 2025-06-18 the server was its own authorization server, at the root of its host.
    for issuer in issuers[:_ISSUERS] or [_root(url)]:
        metadata = await asker.first(_well_known(issuer, _SERVER))
        openid = await asker.first(_well_known(issuer, _OPENID))
        if metadata is not None or openid is not None:
            break
    return Published(
        resource=resource,
        issuers=issuers,
        metadata=metadata,
        openid=openid,
        refused=asker.refused,
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
                if error.is_refused:
                    self.refused = self.refused or f"{quote_value(url)} was not asked: {error}"
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
