"""The seam to the HTTP library: one method that sends a request and returns its response.

Everything above it knows no HTTP library. What may go wrong is told apart by one question: can the
server have received the request?
"""

import contextlib
import io
import logging
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from accord.bindings.answers import explain
from accord.errors import MissingExtra
from accord.transports.http.client.cookies import CookieJar
from accord.transports.http.client.options import SPOKEN, HttpClientOptions

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

__all__ = [
    "AiohttpSender",
    "Cut",
    "NotSent",
    "Response",
    "Sender",
    "enable_keepalive",
    "proxy_for",
    "describe_tls_failure",
]

log = logging.getLogger("accord.http")

# Servers close idle connections after 5 s (uvicorn, Node.js) or later. Below it, a request is not
# written to a connection that is being closed at the same moment.
_IDLE: Final = 4.0
_LARGE: Final = 256 * 1024
# Where nobody says otherwise. Proxies that compress hold back what should flow.
_USUAL: Final = {"Accept-Encoding": "identity", "User-Agent": "accord"}
_CLIENT_ERRORS: Final = range(400, 500)
# What OpenSSL says where the answer to its greeting is none.
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
# What is dead for a minute without a sign counts as gone, on streams that may be silent for hours.
_PROBE_AFTER, _PROBE_EVERY, _PROBES = 30, 10, 3


class NotSent(Exception):
    """No connection came about: the server has not seen the request."""

    def __init__(self, reason: str, *, is_lasting: bool = False) -> None:
        super().__init__(reason)
        self.is_lasting = is_lasting


class Cut(Exception):
    """The connection broke, or what came is no HTTP; the server may have seen the request."""


class Response(Protocol):
    """The response to one request, its head read."""

    status: int

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case."""

    async def chunk(self) -> bytes:
        """Return the next bytes of the body, as they come; none at its end.

        Raises:
            Cut: the connection broke before the end.
        """

    def close(self) -> None:
        """Let go of the response; may be repeated."""


class Sender(Protocol):
    """Sends HTTP requests."""

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Send a request and wait for the head of its response; redirects are not followed.

        Raises:
            NotSent: there is no connection.
            Cut: there is no response.
        """


class AiohttpSender:
    """Sends requests with aiohttp; to be made and closed on the loop it is used on."""

    def __init__(self, url: str, options: HttpClientOptions) -> None:
        aiohttp = require_aiohttp()
        self._aiohttp = aiohttp
        self._own = options.session is None
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=options.connect)
        self._cookies = CookieJar()
        self._more: dict[str, Any] = {}
        proxy = proxy_for(url) if options.proxy is None and self._own else options.proxy
        if proxy:
            self._more["proxy"] = proxy
        if not self._own:
            self._session: ClientSession = options.session
            return
        # Unlimited here: a limit on connections would let calls starve the answers to questions
        # that their server asks. The wire limits the number of requests under way.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE, ssl=options.verify)
        # The jar of aiohttp has no bounds.
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=_USUAL,
            raise_for_status=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Response:
        """Send a request and wait for the head of its response."""
        aiohttp = self._aiohttp
        headers = self._with_cookies(url, headers) if self._own else headers
        # As a file, aiohttp writes a large body piece by piece.
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
        try:
            response = await self._session.request(
                method,
                url,
                headers=headers,
                data=data,
                timeout=self._timeout,
                allow_redirects=False,
                **self._more,
            )
        except (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError) as error:
            raise self._stopped_by_proxy(error) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(_reason(error, aiohttp), is_lasting=_is_lasting(error, aiohttp)) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError) as error:
            raise NotSent(_reason(error, aiohttp), is_lasting=True) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Cut(_reason(error, aiohttp)) from None
        if self._own and "Set-Cookie" in response.headers:
            for text in response.headers.getall("Set-Cookie"):
                self._cookies.note(text, **_cookie_place(url))
        if method == "GET" and response.connection is not None:
            transport = response.connection.transport
            enable_keepalive(None if transport is None else transport.get_extra_info("socket"))
        return _AiohttpResponse(response, aiohttp)

    def _with_cookies(self, url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        cookies = "" if self._cookies.is_empty else self._cookies.header(**_cookie_place(url))
        return {"Cookie": cookies, **headers} if cookies else headers

    def _stopped_by_proxy(self, error: Any) -> NotSent:
        host = urlsplit(self._more.get("proxy", "")).netloc.rpartition("@")[2]
        status = getattr(error, "status", None)
        if status is None:
            return NotSent(f"the proxy {host}: {_reason(error, self._aiohttp)}")
        why = explain(status, "", error.message.encode())
        return NotSent(f"the proxy {host}: {why}", is_lasting=status in _CLIENT_ERRORS)

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._own:
            await self._session.close()

    def abandon(self) -> None:
        """Let go of the connections without a loop to close them on."""
        if self._own and not self._session.closed:
            connector = self._session.connector
            self._session.detach()
            with contextlib.suppress(Exception):
                # All that is possible without a loop.
                connector._close()  # type: ignore[union-attr]  # None is suppressed with the rest


class _AiohttpResponse:
    """A response of aiohttp."""

    __slots__ = ("_aiohttp", "_content", "_response", "status")

    def __init__(self, response: "ClientResponse", aiohttp: Any) -> None:
        self._response = response
        self._content = response.content
        self._aiohttp = aiohttp
        self.status = response.status

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

    def headers_named(self, name: str) -> list[str]:
        return self._response.headers.getall(name, [])

    async def chunk(self) -> bytes:
        try:
            return await self._content.readany()
        except (self._aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Cut(_reason(error, self._aiohttp)) from None

    def close(self) -> None:
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()


def require_aiohttp() -> Any:
    """Return aiohttp.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("http", needed_for="connecting to a URL") from None
    return aiohttp


def proxy_for(url: str) -> str | None:
    """Find the proxy that the environment names; asking it for each request would be slow."""
    import urllib.request

    parts = urlsplit(url)
    host = parts.hostname or ""
    if urllib.request.proxy_bypass(host) or host in ("localhost", "127.0.0.1", "::1"):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not proxy.startswith(SPOKEN):
        scheme = proxy.partition("://")[0][:20]
        log.warning("the environment names a proxy of kind %s, which is not spoken", scheme)
        return None
    return proxy or None


def _cookie_place(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    is_safe = parts.scheme == "https"
    return {"host": parts.hostname or "", "path": parts.path or "/", "is_safe": is_safe}


def _is_lasting(error: Exception, aiohttp: Any) -> bool:
    """Whether trying again is pointless."""
    return isinstance(error, aiohttp.ClientSSLError)


def _reason(error: BaseException, aiohttp: Any) -> str:
    """Say in a few words what went wrong."""
    inner = getattr(error, "os_error", None)
    if isinstance(error, aiohttp.ClientSSLError):
        return f"TLS failed: {describe_tls_failure(inner or error)}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(inner, OSError):
        number = inner.errno or 0
        return (os.strerror(number) if number > 0 else _first_line(inner)).lower()
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection broke in the middle of the answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer is not HTTP: {' '.join(error.message.split())[:120]}"
    return _first_line(error) or type(error).__name__


def describe_tls_failure(error: object) -> str:
    """Say what is wrong with TLS, and what may help."""
    why = getattr(error, "verify_message", None)
    if why:
        return f"{why[:100]} (whom to trust is for HttpClientOptions(verify=...) to say)"
    if getattr(error, "reason", None) in _NO_TLS:
        return "what listens there speaks no TLS; is it http://?"
    return _first_line(error)


def _first_line(error: object) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().split("\n", 1)[0][:160]


def enable_keepalive(sock: Any) -> None:
    """Let the system notice a peer that is gone, on a stream that may be silent for long."""
    if sock is None:
        return
    with contextlib.suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
