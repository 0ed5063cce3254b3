"""Requests to the authorization server, its responses and its refusals, as data."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers in which proxies name their client."""

# Far more than any request of OAuth has.
_FIELDS_MOST = 50

_NOT_ALLOWED: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the authorization server.

    Attributes:
        method: of HTTP.
        path: within the authorization server.
        query: undecoded.
        headers: names in lower case.
        body: undecoded.
        address: the IP address of the client.
        issuer: the URL at which this request reaches the authorization server.
        resources: the URLs of the servers that tokens can be for; the first is the default.
        subject: the user, as returned by the developer's own login.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    address: str = ""
    issuer: str
    resources: tuple[str, ...] = ()
    subject: str | None = None

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the server over HTTPS."""
        return self.issuer.startswith("https:")

    @property
    def is_forwarded(self) -> bool:
        """Whether the request has headers of a proxy."""
        return any(name in self.headers for name in FORWARDED)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        # By hand: other programs on this host may have set cookies that parsers reject.
        for pair in self.headers.get("cookie", "").split(";"):
            key, equals, value = pair.strip().partition("=")
            if key == name and equals:
                return value
        return None

    def form(self) -> dict[str, str]:
        """Read the body as a form.

        Raises:
            OAuthRefusal: the body is not a form.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise OAuthRefusal(
                "invalid_request", "the body must be application/x-www-form-urlencoded"
            )
        try:
            return parse_form(self.body.decode())
        except UnicodeDecodeError:
            raise OAuthRefusal("invalid_request", "the body is not UTF-8") from None


class OAuthResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response of the authorization server."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def with_headers(self, *headers: tuple[str, str]) -> "OAuthResponse":
        """Return this response with more headers."""
        return msgspec.structs.replace(self, headers=(*self.headers, *headers))


def parse_form(text: str) -> dict[str, str]:
    """Parse form parameters; empty ones count as omitted (RFC 6749, section 3.1).

    Raises:
        OAuthRefusal: one is repeated, or there are too many.
    """
    try:
        pairs = parse_qsl(text, max_num_fields=_FIELDS_MOST, errors="strict")
    except ValueError:
        raise OAuthRefusal("invalid_request", "the parameters cannot be read") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            if name == "resource":
                raise OAuthRefusal("invalid_target", "a token is for one resource, not for several")
            raise OAuthRefusal("invalid_request", f"parameter {name[:50]!r} is repeated")
        found[name] = value
    return found


def json_response(
    document: Any, *, status: int = 200, cache: str = "no-store", **headers: str
) -> OAuthResponse:
    """Return a JSON response; by default it is not cached."""
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    kept = (("content-type", "application/json"), ("cache-control", cache))
    return OAuthResponse(status=status, headers=kept + more, body=msgspec.json.encode(document))


def redirect(location: str) -> OAuthResponse:
    """Return a redirect to another URL, with GET."""
    return OAuthResponse(
        status=303,
        headers=(
            ("location", location),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ),
    )


class OAuthRefusal(Exception):
    """An OAuth error response to a request.

    A transaction of the store that ends with a refusal is committed: what was counted or revoked
    on the way stays.
    """

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        # RFC 6749, section 5.2, limits the characters of a description.
        self.description = _NOT_ALLOWED.sub("?", description)
        self.status = status
