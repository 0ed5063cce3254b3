"""Pure decisions about HTTP answers: what a client makes of status, headers and body.

The counterpart of `bindings.http`, which decides about requests.
"""

import re
from codecs import BOM_UTF8
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from accord.bindings.quoting import one_line
from accord.protocol.jsonrpc import ErrorBody
from accord.types._base import RequestId

# What fits into an error message beside the URL and the hint.
_EXCERPT: Final = 120
# The title of a page stands near its beginning.
_LOOKED_AT: Final = 2_000
_NOT_TEXT: Final = re.compile(
    r"<!--.*?-->|<(script|style|head)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE
)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.DOTALL | re.IGNORECASE)

_HINTS: Final = {
    400: "the server did not accept the request as it is",
    401: "it wants authorization",
    403: "the credentials, or the host the request came from, are not allowed",
    404: "nothing is served at this path; servers often use /mcp",
    405: "this path takes no POST; is it the endpoint of an MCP server?",
    406: "the server does not offer JSON and event streams",
    407: "a proxy wants authorization",
    413: "the message is too large for the server or a proxy",
    415: "the server does not take JSON",
    421: "the server does not serve this host name",
    426: "the server wants another protocol, perhaps https",
    429: "too many requests",
    502: "a proxy got no answer from the server",
    503: "the server is overloaded or stopping",
    504: "a proxy waited too long for the server",
}


class ResponseMessage(msgspec.Struct):
    """The members of a response, before its request is known."""

    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    error: ErrorBody | UnsetType = UNSET


_decode: Final = msgspec.json.Decoder(ResponseMessage).decode


def parse_response(body: bytes) -> ResponseMessage | None:
    """Parse a response; None if the body is not one."""
    try:
        answer = _decode(body)
    except (ValueError, RecursionError):
        return None
    has_outcome = answer.result is not UNSET or answer.error is not UNSET
    return answer if has_outcome and answer.method is UNSET else None


def excerpt(body: bytes) -> str:
    """Return the beginning of a body in one line, of a page its title or text."""
    text = body[:_LOOKED_AT].decode("utf-8", "replace")
    if "<" in text[:200] and ">" in text:
        title = _TITLE.search(text)
        text = title[1] if title and title[1].strip() else _NOT_TEXT.sub(" ", text)
    text = one_line(text)
    return text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 3]}..."


def explain(
    status: int,
    content_type: str,
    body: bytes,
    *,
    get: bool = False,
    retry_after: str | None = None,
) -> str:
    """Describe an unusable answer, and what may be the reason."""
    answer = parse_response(body)
    if answer is not None and isinstance(answer.error, ErrorBody):
        body = answer.error.message.encode()
    said = excerpt(body)
    if status >= 400:
        hint = None if get and status == 405 else _HINTS.get(status)
        wait = parse_retry_after(retry_after)
        if wait is not None:
            asks = f"it asks to wait {wait:.0f} s"
            hint = f"{hint}; {asks}" if hint else asks
    elif 300 <= status < 400:
        hint = "the server redirects elsewhere; connect to where it is"
    elif body.startswith(BOM_UTF8):
        hint = "a byte order mark stands before the JSON"
    elif content_type in ("application/json", ""):
        hint = "no answer to the request"
    else:
        hint = f"the body is {content_type}, expected JSON or an event stream"
    parts = [f"HTTP {status}", f": {said}" if said else "", f" ({hint})" if hint else ""]
    return "".join(parts)


def endpoint_url(base: str, named: str) -> str | None:
    """Resolve the URI of an `endpoint` event; None where it leads to another origin."""
    try:
        url = urljoin(base, named.strip())
        return url if _origin(url) == _origin(base) else None
    except ValueError:
        return None


def is_same_origin(base: str, url: str) -> bool:
    """Whether two URLs have one origin, or the second has the same over TLS."""
    here, there = _origin(base), _origin(url)
    is_upgraded = here[::2] == ("http", 80) and there == ("https", here[1], 443)
    return is_upgraded or here == there


def redirect_url(base: str, location: str | None) -> str | None:
    """Resolve a redirect; None where it leads to another origin, but for the same one over TLS.

    Credentials travel along, in headers or in the URL, so only the server they were meant for may
    get them: another port of its host may belong to someone else.
    """
    if not location:
        return None
    try:
        url = urljoin(base, location)
        if not is_same_origin(base, url):
            return None
    except ValueError:
        return None
    here, there = urlsplit(base), urlsplit(url)
    user, at, _ = here.netloc.rpartition("@")
    if at and "@" not in there.netloc:
        return there._replace(netloc=f"{user}@{there.netloc}").geturl()
    return url


def parse_retry_after(retry_after: str | None) -> float | None:
    """Read a Retry-After header that is a number of seconds; None for any other."""
    if retry_after is None or not retry_after.strip().isdecimal():
        return None
    text = retry_after.strip()
    return float(text) if text.isascii() and len(text) < 9 else None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default
