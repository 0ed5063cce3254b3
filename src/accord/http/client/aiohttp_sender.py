"""Requests sent with aiohttp: the one place that sets it up and puts its failures into words."""

import asyncio
import contextlib
import io
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from accord.http.client.heads import CookieJar, parse_address
from accord.http.client.sender import (
    IDLE,
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    describe_os_error,
    enable_keepalive,
    first_line,
    proxy_for,
    tls_failure,
)
from accord.http.rules.responses import explain

if TYPE_CHECKING:
    import ssl

    from aiohttp.abc import ResolveResult

_LARGE: Final = 256 * 1024
# Sent unless the caller says otherwise. Proxies that compress delay what should flow.
_USUAL_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "accord"}
_AUTOMATIC_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_CLIENT_ERRORS: Final = range(400, 500)


def open_session(
    *,
    connect: float = 10.0,
    verify: "bool | ssl.SSLContext" = True,
    idle: float = IDLE,
    is_raw: bool = False,
    decompress: bool = True,
    resolver: AbstractResolver | None = None,
) -> aiohttp.ClientSession:
    """Open a session without limits, cookies and proxies of the environment.

    The arguments mean what they mean for `AiohttpSender`.
    """
    # Unlimited: a limit on connections would let calls starve the answers to questions that their
    # server asks. The wire limits the number of requests under way.
    connector = aiohttp.TCPConnector(
        limit=0,
        keepalive_timeout=idle,
        ssl=verify,
        resolver=resolver,
        use_dns_cache=resolver is None,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect),
        headers=None if is_raw else _USUAL_HEADERS,
        skip_auto_headers=_AUTOMATIC_HEADERS if is_raw else (),
        auto_decompress=decompress,
        raise_for_status=False,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),  # those of aiohttp have no bounds
    )


class AiohttpSender:
    """Sends requests with aiohttp; to be made and closed on the loop it is used on.

    Args:
        options: how requests are sent.
        idle: seconds that a connection is kept for the next request.
        is_raw: whether requests have the headers that are given and no others.
        keeps_cookies: whether cookies of responses go with later requests.
        is_encoded: whether URLs are sent as they are; else aiohttp writes them anew, and decodes
            what need not be encoded, such as dots.
        check_address: called with each host and the address that it resolved to, just before the
            connection is made; raises an exception to refuse it, which `send` raises again.
    """

    def __init__(
        self,
        options: HttpClientOptions,
        *,
        idle: float = IDLE,
        is_raw: bool = False,
        keeps_cookies: bool = True,
        is_encoded: bool = False,
        check_address: Callable[[str, str], None] | None = None,
    ) -> None:
        self._is_own = options.session is None
        self._is_encoded = is_encoded
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=options.connect)
        self._cookies = CookieJar() if keeps_cookies and self._is_own else None
        # The environment is not asked when the user brings a session; that may have a proxy.
        self._proxy = options.proxy if self._is_own else options.proxy or ""
        self._proxies: dict[str, str] = {}
        if self._is_own:
            resolver = None if check_address is None else self._resolver(check_address)
            self._session = open_session(
                connect=options.connect,
                verify=options.verify,
                idle=idle,
                is_raw=is_raw,
                decompress=check_address is None,
                resolver=resolver,
            )
        else:
            self._session = options.session

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> "AiohttpResponse":
        proxy = self._proxy_for(url) or None
        # As a file, aiohttp writes a large body piece by piece.
        data = io.BytesIO(body) if body is not None and len(body) > _LARGE else body
        try:
            response = await self._session.request(
                method,
                URL(url, encoded=True) if self._is_encoded else url,
                headers=self._with_cookies(url, headers),
                data=data,
                timeout=self._timeout,
                allow_redirects=False,
                proxy=proxy,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _failure(error, proxy) from None
        if self._cookies is not None and "Set-Cookie" in response.headers:
            with contextlib.suppress(ValueError):  # a host that IDNA does not know
                for text in response.headers.getall("Set-Cookie"):
                    self._cookies.note(text, parse_address(url))
        if method == "GET" and response.connection is not None:
            transport = response.connection.transport
            enable_keepalive(None if transport is None else transport.get_extra_info("socket"))
        return AiohttpResponse(response)

    def _with_cookies(self, url: str, headers: Mapping[str, str]) -> Mapping[str, str]:
        if self._cookies is None or self._cookies.is_empty:
            return headers
        cookies = self._cookies.header(parse_address(url))
        return {"Cookie": cookies, **headers} if cookies else headers

    def _proxy_for(self, url: str) -> str:
        if self._proxy is not None:
            return self._proxy
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        proxy = self._proxies.get(origin)
        if proxy is None:
            # Kept: looking into the environment for each request would be slow.
            proxy = self._proxies[origin] = proxy_for(url) or ""
        return proxy

    def _resolver(self, check_address: Callable[[str, str], None]) -> AbstractResolver:
        def check(host: str, address: str) -> None:
            # The user named the proxy, so it may be anywhere.
            proxies = (self._proxy or "", *self._proxies.values())
            if host not in {urlsplit(proxy).hostname for proxy in proxies}:
                check_address(host, address)

        return _CheckedResolver(check)

    async def close(self) -> None:
        """Close the connections, if they are ours."""
        if self._is_own:
            await self._session.close()

    def abandon(self) -> None:
        """Let go of the connections without a loop to close them on."""
        if self._is_own and not self._session.closed:
            connector = self._session.connector
            self._session.detach()
            with contextlib.suppress(Exception):
                # All that is possible without a loop.
                connector._close()  # type: ignore[union-attr]  # None is suppressed with the rest


class AiohttpResponse:
    """A response of aiohttp, its head read."""

    __slots__ = ("_content", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self.status = response.status
        self.headers = response.headers

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    def headers_named(self, name: str) -> list[str]:
        return self.headers.getall(name, [])

    async def chunk(self) -> bytes:
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionCut(_reason(error)) from None

    def close(self) -> None:
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()


class _Refused(OSError):
    """The refusal of an address, on its way through aiohttp."""

    def __init__(self, why: Exception) -> None:
        super().__init__(None, str(why))
        self.why = why


class _CheckedResolver(AbstractResolver):
    """Resolves names for aiohttp, which connects to nothing but the addresses returned."""

    def __init__(self, check: Callable[[str, str], None]) -> None:
        self._check = check

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> "list[ResolveResult]":
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        allowed: list[ResolveResult] = []
        for kind, _, proto, _, address in found:
            try:
                self._check(host, str(address[0]))
            except Exception as error:
                # One forbidden address among others is not an accident.
                raise _Refused(error) from None
            allowed.append(
                {
                    "hostname": host,
                    "host": str(address[0]),
                    "port": port,
                    "family": kind,
                    "proto": proto,
                    "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                }
            )
        return allowed

    async def close(self) -> None:
        return None


# -- failures in words


def _failure(error: Exception, proxy: str | None) -> Exception:
    """Return the exception that stands for one of aiohttp."""
    refusal = _find_refusal(error)
    if refusal is not None:
        return refusal
    if isinstance(error, aiohttp.ClientHttpProxyError | aiohttp.ClientProxyConnectionError):
        return _proxy_failure(error, proxy)
    if isinstance(error, aiohttp.ClientSSLError):
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
        return tls_failure(inner or error)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent(_reason(error))
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError | ValueError):
        return NotSent(_reason(error), is_lasting=True)
    return ConnectionCut(_reason(error))


def _find_refusal(error: BaseException) -> Exception | None:
    """Return the refusal of an address inside an error of aiohttp."""
    seen: BaseException | None = error
    while seen is not None:
        for each in (seen, getattr(seen, "os_error", None)):
            if isinstance(each, _Refused):
                return each.why
        seen = seen.__cause__ or seen.__context__
    return None


def _proxy_failure(
    error: aiohttp.ClientHttpProxyError | aiohttp.ClientProxyConnectionError, proxy: str | None
) -> NotSent:
    host = urlsplit(proxy or "").netloc.rpartition("@")[2]
    if not isinstance(error, aiohttp.ClientHttpProxyError):
        return NotSent(f"the proxy {host}: {_reason(error)}")
    why = explain(error.status, "", error.message.encode())
    return NotSent(f"the proxy {host}: {why}", is_lasting=error.status in _CLIENT_ERRORS)


def _reason(error: BaseException) -> str:
    """Return in a few words what went wrong."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    inner = getattr(error, "os_error", None)
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(inner, OSError):
        return describe_os_error(inner)
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection broke in the middle of the answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer is not HTTP: {' '.join(error.message.split())[:120]}"
    return first_line(error) or type(error).__name__
