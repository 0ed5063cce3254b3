"""The gate in front of everything: which requests of a browser, or of others, are let in.

Any web page may send requests to a port of this machine, and a name of its own may lead here. So
host, origin and the browser's own remarks must be exactly right, and all but the files of the page
needs the key of this launch. No header ever allows another origin to read an answer.
"""

import hmac
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

KEY_HEADER: Final = "x-accord-key"
API: Final = "/api/"
FEED: Final = "/feed"
_PAGES: Final = ("/", "/index.html")
_READING: Final = ("GET", "HEAD")
_TUNNEL: Final = (
    "A tunnel has to have the same port at both ends, or accord inspect has to be started with "
    "--public-url and the address that the browser uses"
)
_PORTS: Final = {"http": 80, "https": 443}


class PageAddress(NamedTuple):
    """Where the page is: each value of `Host` that is ours, with the origin of such a page."""

    origins: Mapping[str, str]


class GateRequest(NamedTuple):
    """What the gate looks at: names of headers are in lower case."""

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]

    def values(self, name: str) -> list[str]:
        """Return the values of a header."""
        wanted = name.encode()
        return [value.decode("latin-1") for each, value in self.headers if each == wanted]


class GateRefusal(NamedTuple):
    """Why a request is not let in.

    Attributes:
        status: of the response.
        why: for people.
        is_wrong_key: whether it had a key of another launch, or a guess.
    """

    status: int
    why: str
    is_wrong_key: bool = False


def loopback_address(port: int) -> PageAddress:
    """Return the address of a page that only this machine can reach."""
    names = ("127.0.0.1", "[::1]", "localhost")
    hosts = [f"{name}:{port}" for name in names]
    if port == _PORTS["http"]:
        hosts += names
    return PageAddress({host: f"http://{host}" for host in hosts})


def public_address(url: str) -> PageAddress:
    """Return the address of a page that others reach at a URL, through a proxy or directly."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}".lower()
    hosts = [parts.netloc.lower()]
    if parts.port == _PORTS.get(parts.scheme):
        origin = origin.rpartition(":")[0]
        hosts.append(hosts[0].rpartition(":")[0])
    return PageAddress(dict.fromkeys(hosts, origin))


def examine(
    request: GateRequest, address: PageAddress, key: str, files: Container[str]
) -> GateRefusal | None:
    """Return why a request is refused; None lets it in.

    Args:
        request: its head.
        address: of the page.
        key: of this launch.
        files: the paths of the page's files, which hold no secret and need no key.
    """
    return (
        _examine_sender(request, address)
        or _examine_method(request)
        or _examine_key(request, key, files)
        or _examine_type(request)
    )


def _examine_sender(request: GateRequest, address: PageAddress) -> GateRefusal | None:
    hosts = [each.lower() for each in request.values("host")]
    if len(hosts) != 1 or hosts[0] not in address.origins:
        names = ", ".join(address.origins)
        return GateRefusal(403, f"Host is not this page; it is reached as {names}. {_TUNNEL}")
    origins = request.values("origin")
    if origins and origins != [address.origins[hosts[0]]]:
        return GateRefusal(403, "a page of another origin may not use this one")
    is_page = request.method in _READING and request.path in _PAGES
    allowed = ("same-origin", "none") if is_page else ("same-origin",)
    if any(each not in allowed for each in request.values("sec-fetch-site")):
        return GateRefusal(
            403, "a link or script of another page led here; copy the address into a new tab"
        )
    return None


def _examine_method(request: GateRequest) -> GateRefusal | None:
    if request.path.startswith(API):
        allowed: tuple[str, ...] = ("POST",)
    else:
        allowed = ("GET",) if request.path == FEED else _READING
    if request.method in allowed:
        return None
    return GateRefusal(405, f"expected {' or '.join(allowed)}")


def _examine_key(request: GateRequest, key: str, files: Container[str]) -> GateRefusal | None:
    if request.method in _READING and request.path in files:
        return None
    given = request.values(KEY_HEADER)
    if len(given) == 1 and hmac.compare_digest(given[0].encode(), key.encode()):
        return None
    why = "the key of this launch is missing or wrong; open the address that accord inspect printed"
    return GateRefusal(401, why, is_wrong_key=bool(given))


def _examine_type(request: GateRequest) -> GateRefusal | None:
    if request.method != "POST":
        return None
    types = request.values("content-type")
    if len(types) == 1 and types[0].partition(";")[0].strip().lower() == "application/json":
        return None
    return GateRefusal(415, "expected Content-Type: application/json")
