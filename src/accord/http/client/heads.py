"""The heads of requests over HTTP/1.1: the addresses that they go to, and cookies.

Balancers find the server of a session by cookies. The part of RFC 6265 that this takes: Path,
Secure, Max-Age and Expires. Every cookie goes to the host that set it and to no other, whatever its
Domain says: without a list of public suffixes a wider domain cannot be trusted.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from math import inf
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

_REMEMBERED: Final = 64
_UNQUOTED: Final = "%/:=&?~+!$,;'@()*[]-._"
# RFC 6265, section 6.1, asks clients for 50 cookies of 4,096 bytes per domain.
_MOST: Final = 50
_MOST_BYTES: Final = 4_096
# All of them travel with every request, and servers take heads of 8 KB (nginx) or 16 KB (Node.js).
_MOST_BYTES_IN_ALL: Final = 8 * 1024
_MOST_DIGITS: Final = 12


class HttpAddress(NamedTuple):
    """The address of a URL, and the headers that every request to it has."""

    host: str
    port: int
    is_safe: bool
    target: str
    path: str
    usual: Mapping[str, str]
    url: str


@lru_cache(maxsize=_REMEMBERED)
def parse_address(url: str) -> HttpAddress:
    """Return the address of a URL.

    Raises:
        ValueError: its host or port is malformed.
    """
    parts = urlsplit(url)
    is_safe = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if is_safe else 80)
    target = path = quote(parts.path or "/", safe=_UNQUOTED)
    if parts.query:
        target += "?" + quote(parts.query, safe=_UNQUOTED)
    name = f"[{host}]" if ":" in host else host.encode("idna").decode()
    named = name if parts.port is None or port == (443 if is_safe else 80) else f"{name}:{port}"
    usual = {"Host": named, "Accept-Encoding": "identity", "User-Agent": "accord"}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        usual["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return HttpAddress(host, port, is_safe, target, path, usual, url)


def write_head(
    method: str, address: HttpAddress, headers: Mapping[str, str], cookies: str
) -> bytes:
    """Write the head of a request, without its length and the blank line.

    Raises:
        ValueError: a header has a line break in it.
    """
    usual = dict(address.usual)
    if cookies:
        usual["Cookie"] = cookies
    given = {name.lower() for name in headers}
    lines = [f"{method} {address.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in usual.items() if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError("a header has a line break in it")
    return f"{head}\r\n".encode()


def merge_headers(*several: Mapping[str, str]) -> dict[str, str]:
    """Merge headers; of two with the same name in any case the later counts."""
    joined = {name.lower(): (name, value) for each in several for name, value in each.items()}
    return dict(joined.values())


class _Cookie(NamedTuple):
    value: str
    is_secure: bool
    expires: float


class CookieJar:
    """The cookies that servers have set, bounded in number and bytes; the oldest make room.

    Args:
        now: the clock, in seconds since 1970.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        # By host, path and name, the oldest first.
        self._cookies: dict[tuple[str, str, str], _Cookie] = {}
        # When the first of them expires.
        self.expires = inf

    @property
    def is_empty(self) -> bool:
        """Whether no cookie is kept."""
        return not self._cookies

    def note(self, text: str, address: HttpAddress) -> bool:
        """Take a Set-Cookie header in a response from an address; false when it changes nothing."""
        pair, _, rest = text.partition(";")
        name, equals, value = pair.strip().partition("=")
        is_plain = pair.isascii() and pair.isprintable()
        if not name or not equals or len(pair) > _MOST_BYTES or not is_plain:
            return False
        host = address.host
        attributes = _attributes(rest)
        is_secure = "secure" in attributes
        domain = attributes.get("domain", "").lstrip(".").lower()
        is_foreign = domain and host != domain and not host.endswith(f".{domain}")
        if is_foreign or (is_secure and not address.is_safe):
            return False
        where = attributes.get("path", "")
        where = where if where.startswith("/") else _default_path(address.path)
        if len(where) > _MOST_BYTES:
            return False
        key = (host, where, name.strip())
        expires = self._expiry(attributes)
        known = self._cookies.pop(key, None)
        if expires > self._now():
            self._cookies[key] = _Cookie(value.strip(), is_secure, expires)
            self._make_room()
        elif known is None:
            return False
        self._note_expiry()
        return True

    def header(self, address: HttpAddress) -> str:
        """Return the Cookie header of a request to an address; empty when no cookie fits."""
        self.expire()
        fitting = [
            (len(where), f"{name}={cookie.value}")
            for (owner, where, name), cookie in self._cookies.items()
            if owner == address.host
            and _covers(where, address.path)
            and (address.is_safe or not cookie.is_secure)
        ]
        # Longer paths first, then older cookies (RFC 6265, section 5.4); sorting is stable.
        fitting.sort(key=lambda each: -each[0])
        return "; ".join(text for _, text in fitting)

    def expire(self) -> bool:
        """Drop expired cookies; false when none has expired."""
        now = self._now()
        if now < self.expires:
            return False
        self._cookies = {key: each for key, each in self._cookies.items() if each.expires > now}
        self._note_expiry()
        return True

    def _note_expiry(self) -> None:
        self.expires = min((each.expires for each in self._cookies.values()), default=inf)

    def _expiry(self, attributes: dict[str, str]) -> float:
        age = attributes.get("max-age", "")
        if age.removeprefix("-").isdecimal() and age.isascii():  # counts before Expires
            if age.startswith("-"):
                return -inf
            return self._now() + int(age[:_MOST_DIGITS]) if int(age[:_MOST_DIGITS]) else -inf
        if "expires" not in attributes:
            return inf
        try:
            return parsedate_to_datetime(attributes["expires"]).timestamp()
        except (ValueError, OverflowError, IndexError):
            return inf

    def _make_room(self) -> None:
        sizes = {key: sum(map(len, key)) + len(each.value) for key, each in self._cookies.items()}
        while len(sizes) > _MOST or sum(sizes.values()) > _MOST_BYTES_IN_ALL:
            oldest = next(iter(sizes))
            del sizes[oldest], self._cookies[oldest]


def _attributes(text: str) -> dict[str, str]:
    found = {}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        found[name.strip().lower()] = value.strip()  # the last one counts
    return found


def _default_path(path: str) -> str:
    """Return the directory of a path (RFC 6265, section 5.1.4)."""
    return path[: path.rfind("/")] or "/" if path.startswith("/") else "/"


def _covers(where: str, path: str) -> bool:
    if not path.startswith(where):
        return False
    return where.endswith("/") or path[len(where) : len(where) + 1] in ("", "/")
