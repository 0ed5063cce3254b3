"""Finds the authorization server of a protected server: pure flows.

The order is that of the specification: the metadata that the challenge names, protected resource
metadata (RFC 9728) below the path and at the root, authorization server metadata at every
well-known URL (RFC 8414, OpenID Connect), and for servers of 2025-03-26 metadata or default paths
at the server's own root.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from accord.auth.urls import (
    RESOURCE_METADATA,
    belongs_to,
    canonical_resource,
    is_same_issuer,
    root_url,
)
from accord.errors import FlowFailed
from accord.http.client.guarded import Flow, HttpRequest, HttpResponse, NoResponse
from accord.http.rules.responses import is_same_origin, quote_text, quote_url
from accord.protocol.revisions import REVISIONS, newest

_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
STEP_RESOURCE: Final = "protected resource metadata"
STEP_SERVER: Final = "authorization server metadata"


class UnreadableMetadata(FlowFailed):
    """A document at a well-known URL is not metadata."""


class ResourceMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a protected resource (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    url: str = ""


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an authorization server (RFC 8414).

    `is_assumed` is set if the server has no metadata, and these are the default paths.
    """

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False
    is_assumed: bool = False
    url: str = ""

    @property
    def refuses_pkce(self) -> bool:
        """Whether the metadata rules out S256."""
        methods = self.code_challenge_methods_supported
        return methods is not None and "S256" not in methods

    @property
    def omits_pkce(self) -> bool:
        """Whether there is metadata, and it does not say anything of PKCE."""
        return self.code_challenge_methods_supported is None and not self.is_assumed


class DiscoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """The authorization server of a resource."""

    resource: str
    server: ServerMetadata
    resource_metadata: ResourceMetadata | None = None


# -- where metadata may be


def resource_metadata_urls(url: str) -> list[str]:
    """Return the URLs at which resource metadata may be, the most specific one first."""
    path = urlsplit(url).path.rstrip("/")
    places = [f"{RESOURCE_METADATA}{path}", RESOURCE_METADATA]
    return [urljoin(root_url(url), place) for place in dict.fromkeys(places)]


def metadata_urls(issuer: str) -> list[str]:
    """Return the URLs at which the metadata of an issuer may be, in the order to try."""
    path = urlsplit(issuer).path.rstrip("/")
    places = [f"{_OAUTH}{path}", f"{_OPENID}{path}", f"{path}{_OPENID}"]
    return [urljoin(root_url(issuer), place) for place in dict.fromkeys(places)]


def default_metadata(url: str) -> ServerMetadata:
    """Return the default paths of a server without metadata."""
    root = root_url(url)
    return ServerMetadata(
        issuer=root,
        authorization_endpoint=f"{root}/authorize",  # auth.fallback.authorize-path
        token_endpoint=f"{root}/token",  # auth.fallback.token-path
        registration_endpoint=f"{root}/register",  # auth.fallback.register-path
        is_assumed=True,
    )


# -- flows


def discover(
    url: str, *, named: str | None = None, preferred: Sequence[str] = ()
) -> Flow[DiscoveryResult]:
    """Find the authorization server of a server.

    Args:
        url: of the server.
        named: the URL of the metadata in the challenge.
        preferred: the issuers to choose among several.

    Raises:
        FlowFailed: none was found, or the metadata must not be trusted.
    """
    unreadable = None
    try:
        found = yield from find_resource_metadata(url, named=named)
    except UnreadableMetadata as error:
        found, unreadable = None, error
    server = yield from find_authorization_server(url, found, preferred=preferred)
    if unreadable is not None and server.is_assumed:
        raise unreadable
    resource = canonical_resource(url) if found is None else found.resource
    return DiscoveryResult(resource=resource, server=server, resource_metadata=found)


def find_authorization_server(
    url: str, found: ResourceMetadata | None, *, preferred: Sequence[str] = ()
) -> Flow[ServerMetadata]:
    """Find the authorization server that resource metadata names, or else the server itself.

    Args:
        url: of the server.
        found: its metadata; None if it publishes none.
        preferred: the issuers to choose among several.

    Raises:
        FlowFailed: none was found, or the metadata must not be trusted.
    """
    if found is None or not found.authorization_servers:
        return (yield from _find_at_root(url))
    offered = found.authorization_servers
    chosen = ((each, wish) for wish in preferred for each in offered if is_same_issuer(each, wish))
    issuer, wished = next(chosen, (offered[0], offered[0]))
    return (yield from find_server_metadata(issuer, spelled=wished))


def find_resource_metadata(url: str, *, named: str | None = None) -> Flow[ResourceMetadata | None]:
    """Find the metadata of a protected resource; None if the server publishes none.

    Raises:
        UnreadableMetadata: a document at a well-known URL is not metadata.
        FlowFailed: the metadata is for another server, or cannot be read.
    """
    places, unreadable = resource_metadata_urls(url), None
    if named is not None:
        named = _join_url(url, named)
        places = [named, *(each for each in places if each != named)]
    for place in places:
        request = _get(place)
        response = yield from _fetch(request, STEP_RESOURCE)
        if response is None:
            continue
        said = response.object()
        if said is None:
            hint = "the server has to answer with the JSON object of RFC 9728"
            failed = {"asked": request.summary, "came": response.summary, "hint": hint}
            if named is not None and place == places[0]:
                raise FlowFailed(STEP_RESOURCE, **failed)
            # Some servers answer every path with a page.
            unreadable = unreadable or UnreadableMetadata(STEP_RESOURCE, **failed)
            continue
        return _check_resource(said, url, request)
    if unreadable is not None:
        raise unreadable
    return None


def _join_url(url: str, named: str) -> str:
    try:
        return urljoin(url, named)
    except ValueError:
        came = f"a malformed URL, {quote_text(named)!r}"
        hint = "resource_metadata in the server's challenge has to be a URL"
        raise FlowFailed(STEP_RESOURCE, asked=quote_url(url), came=came, hint=hint) from None


def _check_resource(said: Mapping[str, Any], url: str, request: HttpRequest) -> ResourceMetadata:
    resource = said.get("resource")
    if not isinstance(resource, str) or not belongs_to(resource, url):
        shown = repr(resource)[:200]
        hint = f"the metadata has to name {canonical_resource(url)} as its resource"
        if isinstance(resource, str) and _is_beside(resource, url):
            hint = f"the server is at {quote_url(resource)}: use that URL; or {hint}"
        came = f"metadata of another resource, {shown}"
        raise _failure(STEP_RESOURCE, request, came, hint)
    return ResourceMetadata(
        resource=resource,
        authorization_servers=_string_list(said, "authorization_servers") or (),
        scopes_supported=_string_list(said, "scopes_supported"),
        url=request.url,
    )


def _is_beside(resource: str, url: str) -> bool:
    try:
        return is_same_origin(resource, url)
    except ValueError:
        return False


def find_server_metadata(issuer: str, *, spelled: str | None = None) -> Flow[ServerMetadata]:
    """Find the metadata of an issuer, at all URLs at which it may be published.

    Args:
        issuer: which the metadata has to name, character by character.
        spelled: how the user spells the same issuer; the metadata may name it in this way too.

    Raises:
        FlowFailed: no metadata of this issuer was found.
    """
    tried: list[str] = []
    try:
        places = metadata_urls(issuer)
    except ValueError:
        came = f"a malformed URL as the issuer, {quote_text(issuer)!r}"
        hint = "the server's metadata has to name the URL of its authorization server"
        raise FlowFailed(STEP_SERVER, asked="authorization_servers", came=came, hint=hint) from None
    for place in places:
        request = _get(place)
        response = yield from _fetch(request, STEP_SERVER)
        if response is None:
            tried.append(quote_url(place))
            continue
        said = response.object()
        if said is None:
            tried.append(f"{quote_url(place)} ({response.summary})")
        elif said.get("issuer") not in (issuer, spelled or issuer):  # auth.asm.issuer-identical
            # Metadata of another issuer is how one server impersonates another.
            tried.append(f"{quote_url(place)} (issuer {str(said.get('issuer'))[:100]!r})")
        else:
            return _metadata(said, place)
    hint = (
        f"one of these has to answer with a JSON object whose issuer is {issuer[:200]!r}, exactly "
        "as the server's metadata names it; if only a slash at its end differs, pass "
        "OAuth(issuer=...) with the spelling of the authorization server"
    )
    raise FlowFailed(STEP_SERVER, asked=", ".join(tried)[:600], came="none of them", hint=hint)


def _find_at_root(url: str) -> Flow[ServerMetadata]:
    """Find an authorization server that is the server itself, as in 2025-03-26."""
    root = root_url(url)  # auth.discovery.base-url
    request = _get(f"{root}{_OAUTH}")
    response = yield from _fetch(request, STEP_SERVER)
    said = None if response is None else response.object()
    if said is None:
        return default_metadata(url)  # auth.fallback.default-paths
    if not is_same_issuer(said.get("issuer"), root):
        came = f"metadata of another issuer, {str(said.get('issuer'))[:100]!r}"
        raise _failure(STEP_SERVER, request, came, f"its issuer has to be {root}")
    return _metadata(said, request.url)


def send_request(request: HttpRequest, step: str) -> Flow[HttpResponse]:
    """Send a request of a step.

    Raises:
        FlowFailed: there was no response.
    """
    try:
        return (yield request)
    except NoResponse as error:
        raise _failure(step, request, error.reason, error.hint) from None


def _fetch(request: HttpRequest, step: str) -> Flow[HttpResponse | None]:
    """Fetch a document; None if it does not exist, so that the next URL can be tried."""
    response = yield from send_request(request, step)
    if response.is_ok:
        return response
    if response.status >= 500 or response.status == 429:
        # Going on would mean a fallback because of a temporary fault.
        raise _failure(step, request, response.summary, "try again later")
    return None


def _metadata(said: Mapping[str, Any], url: str) -> ServerMetadata:
    read: dict[str, Any] = {}
    for name in ServerMetadata.__struct_fields__:
        value = said.get(name)
        if name in _FLAGS:
            read[name] = value is True
        elif name.endswith("_supported"):
            read[name] = _string_list(said, name)
        elif name.endswith("_endpoint") and isinstance(value, str) and value:
            read[name] = value
    return ServerMetadata(issuer=said["issuer"], url=url, **read)


_FLAGS: Final = (
    "authorization_response_iss_parameter_supported",
    "client_id_metadata_document_supported",
)


def _string_list(said: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    values = said.get(name)
    if not isinstance(values, list):
        return None
    return tuple(each for each in values if isinstance(each, str))


def _get(url: str) -> HttpRequest:
    # auth.discovery.protocol-version-header
    headers = {"Accept": "application/json", "MCP-Protocol-Version": newest(REVISIONS)}
    return HttpRequest(method="GET", url=url, headers=headers)


def _failure(step: str, request: HttpRequest, came: str, hint: str = "") -> FlowFailed:
    return FlowFailed(step, asked=request.summary, came=came, hint=hint)
