"""Which URLs are taken: redirect URIs, resources, issuers. Pure."""

import re
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from accord.bindings.addresses import host_fault

__all__ = [
    "canonical",
    "is_loopback",
    "is_loopback_url",
    "origin_of",
    "redirect_fault",
    "same_redirect",
    "same_resource",
    "with_query",
]

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_LENGTH_MOST: Final = 2_000
# Nothing but what a URI is made of: no spaces, backslashes, control characters, other scripts.
_URI: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_LOOPBACK_URI: Final = re.compile(
    r"(?P<host>http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?(?P<rest>(?:[/?].*)?)"
)
_LOOPBACK_HOST: Final = re.compile(
    r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_PORTS: Final = {"http": 80, "https": 443}


def is_loopback(host: str | None) -> bool:
    """Tell whether a host name, with or without port, means this machine."""
    return host is not None and _LOOPBACK_HOST.fullmatch(host) is not None


def is_loopback_url(url: str) -> bool:
    """Tell whether a URL leads to this machine."""
    try:
        return (urlsplit(url).hostname or "") in _LOOPBACK
    except ValueError:
        return False


def origin_of(url: str) -> str:
    """Return scheme and authority of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def redirect_fault(uri: str) -> str | None:
    """Say why a redirect URI cannot be registered; None where it can."""
    if len(uri) > _LENGTH_MOST:
        return f"is longer than {_LENGTH_MOST} characters"
    if not _URI.fullmatch(uri):
        return "holds characters that no URI has"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return "is no URI"
    if "#" in uri:
        return "has a fragment"
    if parts.username is not None:  # which is there, if empty, wherever a password is
        return "names a user"
    if not parts.hostname or port == 0:
        return "names no host"
    fault = host_fault(parts.hostname)
    if fault is not None:
        return f"names a host that {fault}"
    if ".." in parts.path.split("/"):
        return "has a path with .. in it"
    if parts.scheme == "https":
        return None
    if parts.scheme == "http" and _LOOPBACK_URI.fullmatch(uri):
        return None
    return "is neither https nor http on localhost, 127.0.0.1 or [::1]"


def same_redirect(registered: str, asked: str) -> bool:
    """Compare character by character; on loopback any port will do (RFC 8252, section 7.3)."""
    if registered == asked:  # auth.redirect.exact-match
        return True
    one, other = _LOOPBACK_URI.fullmatch(registered), _LOOPBACK_URI.fullmatch(asked)
    if one is None or other is None or redirect_fault(asked) is not None:
        return False
    return one["host"] == other["host"] and one["rest"] == other["rest"]


def canonical(url: str) -> str | None:
    """Return the one form of a resource's URL; None where it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme.lower(), parts.hostname
    if scheme not in _PORTS or not host or "#" in url or parts.username is not None:
        return None
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS[scheme]:
        shown = f"{shown}:{port}"
    return urlunsplit((scheme, shown, parts.path.rstrip("/"), parts.query, ""))


def same_resource(one: str, other: str) -> bool:
    """Tell whether two URLs name one resource; the names of loopback are all the same."""
    first, second = canonical(one), canonical(other)
    if first is None or second is None:
        return False
    return first == second or _without_name(first) == _without_name(second)


def _without_name(url: str) -> str:
    parts = urlsplit(url)
    if (parts.hostname or "") not in _LOOPBACK:
        return url
    return f"{parts.scheme}://loopback:{parts.port}{parts.path}?{parts.query}"


def with_query(uri: str, **values: str | None) -> str:
    """Add values to the query of a URI and leave the rest as it is."""
    added = urlencode({name: value for name, value in values.items() if value is not None})
    return f"{uri}{'&' if '?' in uri else '?'}{added}"
