"""A request to the authorization server and its answer, as data."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers by which proxies tell for whom they ask."""

# Far more than any request of OAuth has.
_FIELDS_MOST = 50

_UNSAID: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the authorization server.

    Attributes:
        method: of HTTP.
        path: within the authorization server.
        query: as it came.
        headers: names in lower case.
        body: as it came.
        address: of whoever sent it.
        issuer: under which URL the authorization server is reached by this request.
        resources: the URLs of what tokens can be for; the first is the default.
        subject: who the developer's own login says it is.
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
        """Whether a proxy, or a client that plays one, says for whom it asks."""
        return any(name in self.headers for name in FORWARDED)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie."""
        # By hand: other programs on this host may have set cookies that no parser takes.
        for pair in self.headers.get("cookie", "").split(";"):
            key, equals, value = pair.strip().partition("=")
            if key == name and equals:
                return value
        return None

    def form(self) -> dict[str, str]:
        """Read the body as a form.

        Raises:
            Refusal: it is none.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise OAuthRefusal(
                "invalid_request", "the body must be application/x-www-form-urlencoded"
            )
        try:
            return parameters(self.body.decode())
        except UnicodeDecodeError:
            raise OAuthRefusal("invalid_request", "the body is not UTF-8") from None


class OAuthResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of the authorization server."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def adding(self, *headers: tuple[str, str]) -> "OAuthResponse":
        """Return the same with more headers."""
        return msgspec.structs.replace(self, headers=(*self.headers, *headers))


def parameters(text: str) -> dict[str, str]:
    """Read parameters; empty ones count as left out, as OAuth says.

    Raises:
        Refusal: one is there twice, or there are too many.
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
            raise OAuthRefusal("invalid_request", f"parameter {name[:50]!r} is there twice")
        found[name] = value
    return found


def json_answer(
    document: Any, *, status: int = 200, cache: str = "no-store", **headers: str
) -> OAuthResponse:
    """Answer with JSON; nothing is cached unless told."""
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    kept = (("content-type", "application/json"), ("cache-control", cache))
    return OAuthResponse(status=status, headers=kept + more, body=msgspec.json.encode(document))


def redirect(location: str) -> OAuthResponse:
    """Send a browser elsewhere, with GET."""
    return OAuthResponse(
        status=303,
        headers=(
            ("location", location),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ),
    )


class OAuthRefusal(Exception):
    """A request that is refused in the words of OAuth.

    What was found out on the way is kept: a refusal ends no transaction without a commit.
    """

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        # RFC 6749, section 5.2: what a description may be made of.
        self.description = _UNSAID.sub("?", description)
        self.status = status
