"""The seam to HTTP libraries: settings, and a method that sends a request and returns its response.

Everything above it knows no HTTP library. Failures differ by one question: can the server have
received the request?
"""

import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.errors import MissingExtra
from accord.http.rules.addresses import is_loopback

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.http.client.aiohttp_sender import AiohttpSender
    from accord.http.client.sockets import SocketSender

log = logging.getLogger("accord.http")

OwnSender: TypeAlias = "AiohttpSender | SocketSender"

# Errors of OpenSSL when the peer answers its greeting with something other than TLS.
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
_TRUST_HINT: Final = "HttpClientOptions(verify=...) sets which certificates are trusted"
# A peer that is silent for a minute is gone, on streams that may be quiet for hours.
_PROBE_AFTER, _PROBE_EVERY, _PROBES = 30, 10, 3
# Servers close idle connections after 5 s (uvicorn, Node.js) or later. Below it, a request is not
# written to a connection that is being closed at the same moment.
IDLE: Final = 4.0
PROXY_SCHEMES: Final = ("http://", "https://")
# The media types of an answer that is one JSON message; the empty one stands for a missing header.
JSON_TYPES: Final = ("application/json", "")

HttpHeaders: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
)
"""Headers of every request, or a function that returns them, called for each one."""


class HttpClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are sent.

    Attributes:
        session: an `aiohttp.ClientSession` to use, with its connector, cookies and TLS settings;
            it stays yours to close. It must not limit connections: a call whose server asks back
            needs two.
        sender: anything with a method `send` as `Sender` has, in place of ours.
        proxy: the URL of a proxy; by default the one that the environment names, "" for none.
        verify: whether certificates are checked; or an `ssl.SSLContext` with the certificates to
            trust and, if the server asks for one, our own.
        connect: seconds to make a connection.
        listen: whether to keep a stream open for messages that belong to no request.
        patience: seconds to keep trying while the server cannot be reached.
    """

    session: Any = None
    sender: Any = None
    proxy: str | None = None
    verify: "bool | SSLContext" = True
    connect: float = 10.0
    listen: bool = True
    patience: float = 15.0

    def __post_init__(self) -> None:
        if self.proxy and not self.proxy.startswith(PROXY_SCHEMES):
            scheme = self.proxy.partition("://")[0][:20]  # the rest may have a password in it
            raise ValueError(f"proxy begins with {scheme!r}, expected http://host:port")


class NotSent(Exception):
    """No connection was made: the server has not seen the request.

    Attributes:
        reason: why, without advice.
        is_lasting: whether trying again is pointless.
        hint: the setting that would help; empty when none would.
    """

    def __init__(self, reason: str, *, is_lasting: bool = False, hint: str = "") -> None:
        super().__init__(f"{reason} ({hint})" if hint else reason)
        self.reason = reason
        self.is_lasting = is_lasting
        self.hint = hint


class ConnectionCut(Exception):
    """The connection broke, or the answer is not HTTP; the server may have seen the request."""


class SenderResponse(Protocol):
    """The response to one request, its head read."""

    status: int

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case."""

    async def chunk(self) -> bytes:
        """Return the next bytes of the body as they arrive; empty at its end.

        Raises:
            ConnectionCut: the connection broke before the end.
        """

    def close(self) -> None:
        """Let go of the response; may be repeated."""


class Sender(Protocol):
    """Sends HTTP requests."""

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> SenderResponse:
        """Send a request and wait for the head of its response; redirects are not followed.

        Raises:
            NotSent: there is no connection.
            ConnectionCut: there is no response.
        """


# -- which sender


def sender_for(url: str, options: HttpClientOptions) -> OwnSender:
    """Make a sender on the running loop: on sockets of our own, or with aiohttp if need be."""
    if _needs_aiohttp(url, options):
        from accord.http.client.aiohttp_sender import AiohttpSender

        return AiohttpSender(options)
    from accord.http.client.sockets import SocketSender

    return SocketSender(options)


def require_sender(url: str, options: HttpClientOptions) -> None:
    """Check that a sender can be made.

    Raises:
        MissingExtra: the library that it needs is not installed.
        OutdatedPackage: its version has known faults.
    """
    if _needs_aiohttp(url, options):
        require_aiohttp()


def require_aiohttp(extra: str = "http", needed_for: str = "connecting to a URL") -> None:
    """Check that aiohttp is installed.

    Raises:
        MissingExtra: it is not.
    """
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        raise MissingExtra(extra, needed_for=needed_for) from None


def _needs_aiohttp(url: str, options: HttpClientOptions) -> bool:
    if options.session is not None or options.proxy or (options.proxy is None and proxy_for(url)):
        return True
    try:
        import httptools  # noqa: F401
    except ImportError:
        return True
    from accord.http import parser  # noqa: F401  # refuses a version with faults

    return False


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; None for a direct connection."""
    import urllib.request

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not proxy.startswith(PROXY_SCHEMES):
        scheme = proxy.partition("://")[0][:20]
        log.warning("the environment names a proxy of kind %s, which is not supported", scheme)
        return None
    return proxy or None


# -- failures in words


def tls_failure(error: object) -> NotSent:
    """Return the failure of a TLS handshake, with what may help."""
    untrusted = getattr(error, "verify_message", None)
    if untrusted:
        reason, hint = f"TLS failed: {untrusted[:100]}", _TRUST_HINT
    elif getattr(error, "reason", None) in _NOT_TLS:
        reason, hint = "TLS failed: the server there does not speak TLS; is it http://?", ""
    else:
        reason, hint = f"TLS failed: {first_line(error)}", ""
    return NotSent(reason, is_lasting=True, hint=hint)


def describe_os_error(error: OSError) -> str:
    """Return an error of the operating system in its own words."""
    number = error.errno or 0
    return (os.strerror(number) if number > 0 else first_line(error)).lower()


def first_line(error: object) -> str:
    """Return the first line of an error's text, cut to a length that fits a message."""
    text = getattr(error, "strerror", None) or str(error)
    return str(text).strip().split("\n", 1)[0][:160]


def enable_keepalive(sock: socket.socket | None) -> None:
    """Let the system notice a peer that is gone, on a stream that may be quiet for long."""
    if sock is None:
        return
    with contextlib.suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
