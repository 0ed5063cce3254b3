"""URLs of servers, issuers and redirects: one spelling of each, and which are accepted. Pure."""

import re
from typing import Final
from urllib.parse import SplitResult, urlencode, urlsplit, urlunsplit

from accord.http.rules.addresses import LOOPBACK_HOSTS, host_fault

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
"""Where a protected server publishes its metadata (RFC 9728)."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LENGTH_MOST: Final = 2_000
# The characters of a URI (RFC 3986): no spaces, backslashes, control characters, other scripts.
_URI: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_LOOPBACK_URI: Final = re.compile(
    r"(?P<host>http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?(?P<rest>(?:[/?].*)?)"
)
_LOOPBACK_HOST: Final = re.compile(
    r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE
)


# -- one spelling


def canonical_url(url: str) -> str:
    """Return a URL in one spelling: lower-case scheme and host, no default port, no final slash.

    >>> canonical_url("HTTPS://Example.COM:443/mcp/")
    'https://example.com/mcp'

    Raises:
        ValueError: the URL is not absolute, or has a fragment or a user name.
    """
    parts = urlsplit(url)
    if not parts.scheme or not parts.hostname or "#" in url:
        raise ValueError(f"invalid resource {url!r}: expected scheme://host/path, no fragment")
    if parts.username is not None:
        raise ValueError(f"invalid resource {url!r}: it contains a user name")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme.lower()}://{_authority(parts)}{parts.path.rstrip('/')}{query}"


def canonical_http_url(url: str) -> str | None:
    """Return an http or https URL in its canonical spelling; None for anything else."""
    try:
        found = canonical_url(url)
    except ValueError:
        return None
    return found if found.startswith(("http://", "https://")) else None


def canonical_resource(url: str) -> str:
    """Return the canonical URI of a server: the most specific one, without fragment and query.

    >>> canonical_resource("HTTPS://Example.com:443/mcp/")
    'https://example.com/mcp'
    """
    parts = urlsplit(url)
    return urlunsplit((parts.scheme.lower(), _authority(parts), parts.path.rstrip("/"), "", ""))


def root_url(url: str) -> str:
    """Return a URL with its path removed."""
    parts = urlsplit(url)
    return f"{parts.scheme.lower()}://{_authority(parts)}"


def _authority(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    name = f"[{host}]" if ":" in host else host
    port = parts.port
    is_default = port is None or port == _DEFAULT_PORTS.get(parts.scheme.lower())
    return name if is_default else f"{name}:{port}"


# -- comparing


def belongs_to(resource: str, url: str) -> bool:
    """Whether a resource is the server at a URL, or contains it."""
    try:
        ours, theirs = urlsplit(url), urlsplit(resource)
        if theirs.fragment or root_url(url) != root_url(resource):
            return False
    except ValueError:
        return False
    if theirs.query and theirs.query != ours.query:
        return False
    path, prefix = ours.path.rstrip("/") + "/", theirs.path.rstrip("/") + "/"
    return path.startswith(prefix) and ".." not in theirs.path.split("/")


def is_same_issuer(said: object, expected: str) -> bool:
    """Compare issuers as they are written, except for a slash after the host."""
    if not isinstance(said, str):
        return False
    if said == expected:
        return True
    is_bare = urlsplit(expected).path in ("", "/")
    return is_bare and said.rstrip("/") == expected.rstrip("/")


def is_same_resource(one: str, other: str) -> bool:
    """Whether two URLs name one resource; the names of loopback are all the same."""
    first, second = canonical_http_url(one), canonical_http_url(other)
    if first is None or second is None:
        return False
    return first == second or _without_loopback_name(first) == _without_loopback_name(second)


def _without_loopback_name(url: str) -> str:
    parts = urlsplit(url)
    if parts.hostname not in LOOPBACK_HOSTS:
        return url
    return f"{parts.scheme}://loopback:{parts.port}{parts.path}?{parts.query}"


def is_same_redirect(registered: str, asked: str) -> bool:
    """Compare character by character; on loopback any port will do (RFC 8252, section 7.3)."""
    if registered == asked:  # auth.redirect.exact-match
        return True
    one, other = _LOOPBACK_URI.fullmatch(registered), _LOOPBACK_URI.fullmatch(asked)
    if one is None or other is None or redirect_fault(asked) is not None:
        return False
    return one["host"] == other["host"] and one["rest"] == other["rest"]


# -- which are accepted


def is_loopback_host(host: str | None) -> bool:
    """Whether the value of a Host header, with or without port, means this machine."""
    return host is not None and _LOOPBACK_HOST.fullmatch(host) is not None


def is_loopback_url(url: str) -> bool:
    """Whether a URL leads to this machine."""
    try:
        return urlsplit(url).hostname in LOOPBACK_HOSTS
    except ValueError:
        return False


def redirect_fault(uri: str) -> str | None:
    """Return why a redirect URI cannot be registered; None for one that can."""
    if len(uri) > _LENGTH_MOST:
        return f"is longer than {_LENGTH_MOST} characters"
    if not _URI.fullmatch(uri):
        return "has characters that are not allowed in a URI"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return "is not a URI"
    if "#" in uri:
        return "has a fragment"
    if parts.username is not None:  # which is set, if empty, wherever a password is
        return "contains a user name"
    if not parts.hostname or port == 0:
        return "has no host"
    fault = host_fault(parts.hostname)
    if fault is not None:
        return f"has a host that {fault}"
    if ".." in parts.path.split("/"):
        return "has .. in its path"
    if parts.scheme == "https":
        return None
    if parts.scheme == "http" and _LOOPBACK_URI.fullmatch(uri):
        return None
    return "is neither https nor http on localhost, 127.0.0.1 or [::1]"


def client_url_fault(url: str) -> str | None:
    """Return why a URL cannot be that of a client's metadata; None for one that can.

    >>> client_url_fault("https://app.example")
    'has no path'
    """
    fault = redirect_fault(url)
    if fault is not None:
        return fault
    parts = urlsplit(url)
    if parts.scheme != "https":
        return "is not https"
    if parts.path in ("", "/"):
        return "has no path"
    return "has . in its path" if "." in parts.path.split("/") else None


# -- making URLs


def endpoint_url(public_url: str, path: str) -> str:
    """Return the URL of an endpoint, given the URL of the app or of the endpoint itself.

    >>> endpoint_url("https://Example.com/tools", "/mcp")
    'https://example.com/tools/mcp'
    >>> endpoint_url("https://example.com/tools/mcp/", "/mcp")
    'https://example.com/tools/mcp'
    """
    url = canonical_url(public_url)
    return url if urlsplit(url).path.endswith(path) else f"{url}{path}"


def metadata_url(resource: str, path: str) -> str:
    """Return the URL of a resource's metadata, given the path of its endpoint.

    A prefix of that path, such as a mount or a proxy's prefix, stays in front: requests below it
    reach the server, while those at the root of the host may not.

    >>> metadata_url("https://a.example/tools/mcp", "/mcp")
    'https://a.example/tools/.well-known/oauth-protected-resource/mcp'
    """
    parts = urlsplit(resource)
    prefix = parts.path.removesuffix(path) if path and parts.path.endswith(path) else ""
    local = parts.path.removeprefix(prefix)
    return f"{parts.scheme}://{parts.netloc}{prefix}{RESOURCE_METADATA}{local}"


def with_query(uri: str, **values: str | None) -> str:
    """Add values to the query of a URI and leave the rest as it is."""
    added = urlencode({name: value for name, value in values.items() if value is not None})
    return f"{uri}{'&' if '?' in uri else '?'}{added}"
