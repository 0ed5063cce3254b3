"""Pure decisions about HTTP answers: what a client makes of status, headers and body.

The counterpart of `bindings.http`, which decides about requests. Challenges are read leniently,
since proxies and frameworks write them. What others wrote is quoted on one line, without secrets.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from accord.protocol.jsonrpc import ErrorBody
from accord.types._base import RequestId

Origin: TypeAlias = tuple[str, str | None, int | None]

# What an error may quote.
_QUOTED: Final = 200
# What fits into an error message beside the URL and the hint.
_EXCERPT: Final = 120
# The title of a page stands near its beginning.
_LOOKED_AT: Final = 2_000
_NOT_TEXT: Final = re.compile(
    r"<!--.*?-->|<(script|style|head)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE
)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.DOTALL | re.IGNORECASE)

_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_PARAM: Final = re.compile(rf'({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"=][^\s,"]*))')
_SCHEME: Final = re.compile(rf"({_WORD})(?:\s+|$|(?=,))")
_CREDENTIALS: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*(?=\s*(?:,|$))")
_GAP: Final = re.compile(r"[\s,]+")
# Longer than any that means something, and short enough to read in no time.
_LONGEST: Final = 8 * 1024

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


def explain(status: int, content_type: str, body: bytes, *, retry_after: str | None = None) -> str:
    """Describe an unusable answer, and what may be the reason."""
    said = excerpt(_read_message(body))
    if status >= 400:
        hint = None if said.startswith("nothing is served") else _HINTS.get(status)
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


def _read_message(body: bytes) -> bytes:
    """Return the text of an error of JSON-RPC or OAuth; the body itself if it is something else."""
    answer = parse_response(body)
    if answer is not None and isinstance(answer.error, ErrorBody):
        return answer.error.message.encode()
    try:
        text = msgspec.json.decode(body, type=_OAuthError).error_description
    except (ValueError, RecursionError):
        return body
    return text.encode() or body


class _OAuthError(msgspec.Struct):
    error: str
    error_description: str


def endpoint_url(base: str, named: str) -> str | None:
    """Resolve the URI of an `endpoint` event; None where it leads to another origin."""
    try:
        url = urljoin(base, named.strip())
        return url if origin(url) == origin(base) else None
    except ValueError:
        return None


def is_same_origin(base: str, url: str) -> bool:
    """Whether two URLs have one origin, or the second has the same over TLS."""
    here, there = origin(base), origin(url)
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


def origin(url: str) -> Origin:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


class AuthChallenge(msgspec.Struct, frozen=True):
    """One challenge: its scheme and parameters, the names of both in lower case."""

    scheme: str
    params: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes it names."""
        return tuple(dict.fromkeys(self.params.get("scope", "").split()))

    @property
    def error(self) -> str:
        """Its error code, empty where it has none."""
        return self.params.get("error", "")

    @property
    def resource_metadata(self) -> str | None:
        """Where the metadata of the protected resource is."""
        return self.params.get("resource_metadata") or None


def parse_challenges(values: Iterable[str]) -> list[AuthChallenge]:
    """Read the challenges of all WWW-Authenticate headers; unreadable ones are left out."""
    return [found for value in values for found in _parse(value[:_LONGEST])]


def bearer_challenge(values: Iterable[str]) -> AuthChallenge | None:
    """Find the challenge for bearer tokens: the one that says most about them."""
    bearers = [each for each in parse_challenges(values) if each.scheme == "bearer"]
    return max(bearers, key=lambda each: len(each.params), default=None)


def _parse(text: str) -> list[AuthChallenge]:
    found: list[AuthChallenge] = []
    params: dict[str, str] = {}
    at = 0
    while at < len(text):
        if gap := _GAP.match(text, at):
            at = gap.end()
        param = _PARAM.match(text, at)
        if param is not None and found:
            quoted, plain = param[2], param[3]
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            # The first counts: a second one may have been appended on the way.
            params.setdefault(param[1].lower(), value)
            at = param.end()
        elif word := _SCHEME.match(text, at):
            params = {}
            found.append(AuthChallenge(word[1].lower(), params))
            at = word.end()
            if credentials := _CREDENTIALS.match(text, at):
                at = credentials.end()
        else:
            # Nothing that belongs here: go on after the next comma.
            comma = text.find(",", at)
            at = len(text) if comma < 0 else comma + 1
    return found


def one_line(text: str) -> str:
    """Return a text on one line, without characters that could make a terminal do things."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def quote_text(text: str) -> str:
    """Return the beginning of a text, as it may be quoted."""
    return one_line(text)[:_QUOTED]


def quote_url(url: str, base: str = "") -> str:
    """Return a URL as it may be quoted: queries and names before the host may be secret."""
    try:
        parts = urlsplit(urljoin(base, url))
    except ValueError:
        return "a malformed URL"
    host = parts.netloc.rpartition("@")[2]
    return quote_text(f"{parts.scheme}://{host}{parts.path}")
