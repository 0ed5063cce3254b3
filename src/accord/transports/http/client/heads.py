"""The heads of requests over HTTP/1.1, and the addresses that they go to."""

from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

_REMEMBERED: Final = 64
_UNQUOTED: Final = "%/:=&?~+!$,;'@()*[]-._"


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
