"""From a server that wants a token to the authorization server that gives one: pure flows.

The order is that of the specification: the metadata that the challenge names, protected resource
metadata (RFC 9728) below the path and at the root, authorization server metadata in every
well-known form (RFC 8414, OpenID Connect), and for servers of the older kind metadata or default
paths at the server's own root.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import msgspec

from accord.bindings.shown import plain, shown_url
from accord.errors import FlowFailed
from accord.protocol.revisions import REVISIONS
from accord.transports.http.client.requests import Flow, HttpRequest, HttpResponse, NoResponse

__all__ = [
    "Discovered",
    "ResourceMetadata",
    "ServerMetadata",
    "UnreadableMetadata",
    "belongs_to",
    "canonical_resource",
    "default_metadata",
    "discover",
    "find_resource_metadata",
    "find_server_metadata",
    "is_same_issuer",
    "metadata_urls",
    "resource_metadata_urls",
]

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_PORTS: Final = {"http": 80, "https": 443}
STEP_RESOURCE: Final = "protected resource metadata"
STEP_SERVER: Final = "authorization server metadata"


class UnreadableMetadata(FlowFailed):
    """What stands where nobody said that metadata is, is none."""


class ResourceMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What a protected resource says of itself (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] | None = None
    url: str = ""


class ServerMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What an authorization server says of itself (RFC 8414).

    `is_assumed` is set where it says nothing, and the default paths are all there is.
    """

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    device_authorization_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False
    is_assumed: bool = False
    url: str = ""

    @property
    def refuses_pkce(self) -> bool:
        """Whether it says that it cannot check S256."""
        methods = self.code_challenge_methods_supported
        return methods is not None and "S256" not in methods


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """Where a token for a server comes from, and what it is for."""

    resource: str
    server: ServerMetadata
    resource_metadata: ResourceMetadata | None = None


# -- URLs


def canonical_resource(url: str) -> str:
    """Return the canonical URI of a server: the most specific one, without fragment and query.

    >>> canonical_resource("HTTPS://Example.com:443/mcp/")
    'https://example.com/mcp'
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return urlunsplit((scheme, _host(url), parts.path.rstrip("/"), "", ""))


def belongs_to(resource: str, url: str) -> bool:
    """Whether a resource is the server at a URL, or one that it is part of."""
    try:
        ours, theirs = urlsplit(url), urlsplit(resource)
        if theirs.fragment or (ours.scheme.lower(), _host(url)) != (
            theirs.scheme.lower(),
            _host(resource),
        ):
            return False
    except ValueError:
        return False
    if theirs.query and theirs.query != ours.query:
        return False
    path, prefix = ours.path.rstrip("/") + "/", theirs.path.rstrip("/") + "/"
    return path.startswith(prefix) and ".." not in theirs.path.split("/")


def resource_metadata_urls(url: str) -> list[str]:
    """Return where protected resource metadata may be, the most specific place first."""
    path = urlsplit(url).path.rstrip("/")
    places = [f"{_RESOURCE}{path}", _RESOURCE]
    return [urljoin(_root(url), place) for place in dict.fromkeys(places)]


def metadata_urls(issuer: str) -> list[str]:
    """Return where the metadata of an issuer may be, in the order to ask."""
    path = urlsplit(issuer).path.rstrip("/")
    places = [f"{_OAUTH}{path}", f"{_OPENID}{path}", f"{path}{_OPENID}"]
    return [urljoin(_root(issuer), place) for place in dict.fromkeys(places)]


def default_metadata(url: str) -> ServerMetadata:
    """Return the default paths of a server that has no metadata."""
    root = _root(url)
    return ServerMetadata(
        issuer=root,
        authorization_endpoint=f"{root}/authorize",  # auth.fallback.authorize-path
        token_endpoint=f"{root}/token",  # auth.fallback.token-path
        registration_endpoint=f"{root}/register",  # auth.fallback.register-path
        is_assumed=True,
    )


def _root(url: str) -> str:
    """Return a URL with its path removed."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{_host(url)}"


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = parts.port
    is_usual = port is None or port == _PORTS.get(parts.scheme.lower())
    return host if is_usual else f"{host}:{port}"


# -- flows


def discover(
    url: str, *, named: str | None = None, preferred: Sequence[str] = ()
) -> Flow[Discovered]:
    """Find the authorization server of a server.

    Args:
        url: of the server.
        named: where its challenge says that its metadata is.
        preferred: issuers to choose where it names several.

    Raises:
        FlowFailed: there is none, or what was found must not be trusted.
    """
    unreadable = None
    try:
        found = yield from find_resource_metadata(url, named=named)
    except UnreadableMetadata as error:
        found, unreadable = None, error
    if found is None or not found.authorization_servers:
        server = yield from _find_at_root(url)
        if unreadable is not None and server.is_assumed:
            raise unreadable
        resource = canonical_resource(url) if found is None else found.resource
        return Discovered(resource=resource, server=server, resource_metadata=found)
    offered = found.authorization_servers
    chosen = (each for wish in preferred for each in offered if is_same_issuer(each, wish))
    issuer = next(chosen, offered[0])
    server = yield from find_server_metadata(issuer)
    return Discovered(resource=found.resource, server=server, resource_metadata=found)


def find_resource_metadata(url: str, *, named: str | None = None) -> Flow[ResourceMetadata | None]:
    """Find the metadata of a protected resource; None where the server has none.

    Raises:
        UnreadableMetadata: something is there, where metadata might be, but is none.
        FlowFailed: what was found is not about this server, or cannot be read.
    """
    places, unreadable = resource_metadata_urls(url), None
    if named is not None:
        named = _joined(url, named)
        places = [named, *(each for each in places if each != named)]
    for place in places:
        request = _get(place)
        response = yield from _ask(request, STEP_RESOURCE)
        if response is None:
            continue
        said = response.object()
        if said is None:
            hint = "the server has to answer with the JSON object of RFC 9728"
            failed = {"asked": request.shown, "came": response.shown, "hint": hint}
            if named is not None and place == places[0]:
                raise FlowFailed(STEP_RESOURCE, **failed)
            # Some servers answer every path with a page.
            unreadable = unreadable or UnreadableMetadata(STEP_RESOURCE, **failed)
            continue
        return _checked_resource(said, url, request)
    if unreadable is not None:
        raise unreadable
    return None


def _joined(url: str, named: str) -> str:
    try:
        return urljoin(url, named)
    except ValueError:
        came = f"a malformed URL, {plain(named)!r}"
        hint = "resource_metadata in the server's challenge has to be a URL"
        raise FlowFailed(STEP_RESOURCE, asked=shown_url(url), came=came, hint=hint) from None


def _checked_resource(said: Mapping[str, Any], url: str, request: HttpRequest) -> ResourceMetadata:
    resource = said.get("resource")
    if not isinstance(resource, str) or not belongs_to(resource, url):
        shown = repr(resource)[:200]
        hint = f"the metadata has to name {canonical_resource(url)} as its resource"
        came = f"metadata of another resource, {shown}"
        raise _failed(STEP_RESOURCE, request, came, hint)
    return ResourceMetadata(
        resource=resource,
        authorization_servers=_texts(said, "authorization_servers") or (),
        scopes_supported=_texts(said, "scopes_supported"),
        url=request.url,
    )


def find_server_metadata(issuer: str) -> Flow[ServerMetadata]:
    """Find the metadata of an issuer, in all forms in which it may be published.

    Raises:
        FlowFailed: there is none of this issuer.
    """
    tried: list[str] = []
    try:
        places = metadata_urls(issuer)
    except ValueError:
        came = f"a malformed URL as the issuer, {plain(issuer)!r}"
        hint = "the server's metadata has to name the URL of its authorization server"
        raise FlowFailed(STEP_SERVER, asked="authorization_servers", came=came, hint=hint) from None
    for place in places:
        request = _get(place)
        response = yield from _ask(request, STEP_SERVER)
        if response is None:
            tried.append(shown_url(place))
            continue
        said = response.object()
        if said is None:
            tried.append(f"{shown_url(place)} ({response.shown})")
        elif not is_same_issuer(said.get("issuer"), issuer):
            # One that names another issuer is how one server poses as another.
            tried.append(f"{shown_url(place)} (issuer {str(said.get('issuer'))[:100]!r})")
        else:
            return _metadata(said, place)
    hint = (
        f"one of these has to answer with a JSON object whose issuer is {issuer[:200]!r}, exactly "
        "as the server's metadata names it"
    )
    raise FlowFailed(STEP_SERVER, asked=", ".join(tried)[:600], came="none of them", hint=hint)


def _find_at_root(url: str) -> Flow[ServerMetadata]:
    """Find an authorization server that is the server itself, as the first revision had it."""
    root = _root(url)  # auth.discovery.base-url
    request = _get(f"{root}{_OAUTH}")
    response = yield from _ask(request, STEP_SERVER)
    said = None if response is None else response.object()
    if said is None:
        return default_metadata(url)  # auth.fallback.default-paths
    if not is_same_issuer(said.get("issuer"), root):
        came = f"metadata of another issuer, {str(said.get('issuer'))[:100]!r}"
        raise _failed(STEP_SERVER, request, came, f"its issuer has to be {root}")
    return _metadata(said, request.url)


def _ask(request: HttpRequest, step: str) -> Flow[HttpResponse | None]:
    """Ask for a document; None where there is none, so that the next place can be tried."""
    try:
        response = yield request
    except NoResponse as error:
        raise _failed(step, request, error.reason, error.hint) from None
    if response.is_ok:
        return response
    if response.status >= 500 or response.status == 429:
        # To go on would be to fall back to something else because of a passing fault.
        raise _failed(step, request, response.shown, "try again later")
    return None


def _metadata(said: Mapping[str, Any], url: str) -> ServerMetadata:
    texts: dict[str, Any] = {
        name: value
        for name, value in said.items()
        if name in _ENDPOINTS and isinstance(value, str) and value
    }
    return ServerMetadata(
        issuer=said["issuer"],
        **texts,
        scopes_supported=_texts(said, "scopes_supported"),
        grant_types_supported=_texts(said, "grant_types_supported"),
        token_endpoint_auth_methods_supported=_texts(said, "token_endpoint_auth_methods_supported"),
        code_challenge_methods_supported=_texts(said, "code_challenge_methods_supported"),
        authorization_response_iss_parameter_supported=(
            said.get("authorization_response_iss_parameter_supported") is True
        ),
        client_id_metadata_document_supported=(
            said.get("client_id_metadata_document_supported") is True
        ),
        url=url,
    )


_ENDPOINTS: Final = frozenset(
    {
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "device_authorization_endpoint",
        "revocation_endpoint",
    }
)


def is_same_issuer(said: object, expected: str) -> bool:
    """Compare issuers as they are written, but for the one slash that means nothing."""
    if not isinstance(said, str):
        return False
    if said == expected:
        return True
    is_bare = urlsplit(expected).path in ("", "/")
    return is_bare and said.rstrip("/") == expected.rstrip("/")


def _texts(said: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    values = said.get(name)
    if not isinstance(values, list):
        return None
    return tuple(each for each in values if isinstance(each, str))


def _get(url: str) -> HttpRequest:
    newest = next(row.id for row in reversed(list(REVISIONS.values())) if row.handshake)
    # auth.discovery.protocol-version-header
    headers = {"Accept": "application/json", "MCP-Protocol-Version": newest}
    return HttpRequest(method="GET", url=url, headers=headers)


def _failed(step: str, request: HttpRequest, came: str, hint: str = "") -> FlowFailed:
    return FlowFailed(step, asked=request.shown, came=came, hint=hint)
