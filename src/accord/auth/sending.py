"""Sends the requests of authorization under a policy about where they may go.

Metadata is written by strangers. It names URLs that the client then asks, so a hostile server could
make it ask places only the client can reach. Every address is therefore checked as it was resolved,
in the moment of connecting: a name that resolves differently the second time gains nothing.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

from accord.bindings.answers import redirect_url
from accord.bindings.hosts import ends_in_number, host_fault
from accord.bindings.shown import plain, shown_url
from accord.errors import MissingExtra
from accord.transports.http.client.requests import (
    Flow,
    HttpRequest,
    HttpResponse,
    NoResponse,
    run_flow,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from aiohttp.abc import ResolveResult

__all__ = [
    "AddressKind",
    "AddressPolicy",
    "GuardedSender",
    "address_kind",
    "environment_proxy",
    "is_loopback",
]

Value = TypeVar("Value")
AddressKind: TypeAlias = Literal["public", "private", "loopback", "link-local", "unusable"]

# Servers close idle connections after 5 s or later. While somebody logs in, one is as old as that;
# a code is good for one request, which must not meet the end of its connection.
_IDLE: Final = 4.0
_REDIRECTS: Final = 3
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
# Addresses at which cloud machines find their credentials, beside those that are link-local.
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "168.63.129.16", "192.0.0.192"))
)
# `urlsplit` drops some of these, so that what was checked would not be what is asked.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TRUST_HINT: Final = "name its origin in trust=[...] if it is meant to be asked"


def address_kind(address: str) -> AddressKind:
    """Say where an IP address leads; a v4 address inside a v6 one counts as itself."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo and ip.teredo[1])
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner:
            return address_kind(str(inner))
    if ip in _METADATA or ip.is_link_local:
        return "link-local"
    if ip.is_loopback:
        return "loopback"
    if ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        return "unusable"
    return "public" if ip.is_global else "private"


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine by itself, whatever a resolver says."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    kind = _literal_kind(name)
    return kind == "loopback"


@dataclass(frozen=True, kw_only=True)
class AddressPolicy:
    """Where requests may go.

    Args:
        kinds: kinds of addresses that may be connected to.
        hosts: names that may be at any address.
        origins: origins (scheme, host, port) that were named by the user, also without TLS.
    """

    kinds: frozenset[AddressKind] = frozenset({"public"})
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @classmethod
    def beside(cls, url: str, trust: Iterable[str] = ()) -> Self:
        """Make the policy for what belongs to a server: as near as the server itself, no nearer.

        The server's own host may be asked wherever it is, since it is talked to anyway. Decided by
        the URL alone: a name that resolves to a private address opens no other private address.
        """
        host = (urlsplit(url).hostname or "").lower()
        kinds: set[AddressKind] = {"public"}
        if is_loopback(host):
            kinds |= {"loopback", "private"}
        elif _literal_kind(host) == "private":
            kinds.add("private")
        origins = frozenset(map(_origin, trust))
        hosts = {host, *(urlsplit(each).hostname or "" for each in trust)}
        return cls(kinds=frozenset(kinds), hosts=frozenset(hosts), origins=origins)

    def check_url(self, url: str) -> None:
        """Make sure that a URL may be asked, as far as it can be told without resolving it.

        Raises:
            NoResponse: it may not.
        """
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            _ = parts.port
        except ValueError:
            raise NoResponse("the URL is malformed", is_refused=True) from None
        where = shown_url(url)
        if parts.scheme not in ("http", "https") or not host:
            raise NoResponse(f"{where} is no http(s) URL", is_refused=True)
        if parts.username is not None:  # which is there, if empty, wherever a password is
            raise NoResponse(f"{where} carries credentials in the URL", is_refused=True)
        self._check_host(url, host)
        is_near = is_loopback(host) and ("loopback" in self.kinds or host in self.hosts)
        if parts.scheme == "http" and not is_near and _origin(url) not in self.origins:
            why = f"{where} is not https"
            raise NoResponse(why, is_refused=True, hint=f"serve it over https, or {_TRUST_HINT}")
        if _literal_kind(host) is not None:
            self.check_address(host, host)
        elif is_loopback(host):
            # Said here as well: a proxy on this machine makes its name one that is not resolved.
            self.check_address(host, "127.0.0.1")

    def _check_host(self, url: str, host: str) -> None:
        """Refuse hosts that HTTP libraries, resolvers, browsers or terminals read in other ways."""
        fault = host_fault(host)
        if fault is None and _CONTROL.search(url):
            fault = "stands in a URL with control characters"
        # A name that the user wrote may have other letters and zones, but no number for a name:
        # some versions of aiohttp connect to those without asking the resolver.
        if fault is None or (host in self.hosts and not ends_in_number(host)):
            return
        hint = "" if host.isascii() else "it has to be written as xn--..."
        if ends_in_number(host):
            hint = "write the address in full, as in 127.0.0.1"
        shown = plain(host.encode("ascii", "backslashreplace").decode())
        raise NoResponse(f"the host {shown!r} {fault}", is_refused=True, hint=hint)

    def check_address(self, host: str, address: str) -> None:
        """Make sure that an address may be connected to.

        Raises:
            NoResponse: it may not.
        """
        kind = address_kind(address)
        if kind in self.kinds or host.lower() in self.hosts:
            return
        raise NoResponse(
            f"{host} is at a {kind} address, where the server has no business to send us",
            is_refused=True,
            hint=_TRUST_HINT,
        )


class GuardedSender:
    """Sends requests with aiohttp; no cookies, bounded in size and time.

    Each flow has connections of its own; entered as a context manager, they are kept until the end.

    Args:
        policy: where requests may go.
        size: most bytes of a body.
        seconds: most time of an exchange with all its redirects.
        tls: an `ssl.SSLContext` in place of the usual one.
        proxy: the URL of a proxy, which then resolves names itself; by default what the environment
            says, "" for none.
    """

    def __init__(
        self,
        policy: AddressPolicy | None = None,
        *,
        size: int = 512 * 1024,
        seconds: float = 15.0,
        tls: Any = None,
        proxy: str | None = None,
    ) -> None:
        self.policy = policy or AddressPolicy()
        self._size = size
        self._seconds = seconds
        self._tls = tls
        self._proxy = proxy
        self._proxies: set[str] = set()
        self._session: ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def run(self, flow: Flow[Value]) -> Value:
        """Carry a flow to its end.

        Raises:
            NoResponse: a request got no response, and the flow did not know a way around it.
        """
        kept = self._session
        if kept is not None:
            return await run_flow(flow, lambda request: self._send(request, kept))
        async with self._open() as session:
            return await run_flow(flow, lambda request: self._send(request, session))

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send one request.

        Raises:
            NoResponse: the policy does not allow it, or nothing (or too much) came in time.
        """
        if self._session is not None:
            return await self._send(request, self._session)
        async with self._open() as session:
            return await self._send(request, session)

    async def _send(self, request: HttpRequest, session: "ClientSession") -> HttpResponse:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(request, session)
        except TimeoutError:
            why = f"no whole answer from {shown_url(request.url)} within {self._seconds:g} s"
            raise NoResponse(why) from None

    async def _follow(self, request: HttpRequest, session: "ClientSession") -> HttpResponse:
        url = request.url
        for _ in range(_REDIRECTS + 1):
            self.policy.check_url(url)
            response = await self._once(request, url, session)
            if response.status not in _REDIRECTED or request.method != "GET":
                return response
            # Elsewhere would be a place that nobody named: it is told, not followed.
            there = redirect_url(url, response.headers.get("location"))
            if there is None:
                return response
            url = there
        raise NoResponse(f"{shown_url(request.url)} redirects more than {_REDIRECTS} times")

    async def _once(self, request: HttpRequest, url: str, session: "ClientSession") -> HttpResponse:
        aiohttp = _require_aiohttp()
        more: dict[str, Any] = {} if self._tls is None else {"ssl": self._tls}
        proxy = environment_proxy(url) if self._proxy is None else self._proxy
        if proxy:
            more["proxy"] = proxy
            self._proxies.add(urlsplit(proxy).hostname or "")
        try:
            async with session.request(
                request.method,
                url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                **more,
            ) as response:
                return await self._read(response, url)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            refusal = _refusal_in(error)
            if refusal is not None:
                raise refusal from None
            untrusted = _untrusted(error)
            if untrusted:
                why = f"{shown_url(url)}: TLS failed: {untrusted}"
                raise NoResponse(why, hint="OAuth(tls=...) says whom to trust") from None
            raise NoResponse(f"{shown_url(url)}: {_reason(error)}") from None

    async def _read(self, response: "ClientResponse", url: str) -> HttpResponse:
        body = b""
        while chunk := await response.content.readany():
            body += chunk
            if len(body) > self._size:
                why = f"{shown_url(url)} sent more than {self._size} bytes"
                raise NoResponse(why, is_refused=True)
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return HttpResponse(status=response.status, headers=headers, body=body, url=url)

    def _open(self) -> "ClientSession":
        aiohttp = _require_aiohttp()
        resolver = _guarded_resolver(self.policy, self._proxies)
        connector = aiohttp.TCPConnector(
            resolver=resolver, use_dns_cache=False, keepalive_timeout=_IDLE
        )
        session: ClientSession = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "accord", "Accept-Encoding": "identity"},
            auto_decompress=False,
            trust_env=False,
        )
        return session


class _Refused(OSError):
    """An address that the policy does not allow, on its way through aiohttp."""

    def __init__(self, why: NoResponse) -> None:
        super().__init__(None, why.reason)
        self.why = why


def _guarded_resolver(policy: AddressPolicy, proxies: set[str]) -> Any:
    """Make a resolver for aiohttp, which connects to nothing else than what it returns."""
    from aiohttp.abc import AbstractResolver

    class Resolver(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> "list[ResolveResult]":
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
            allowed: list[ResolveResult] = []
            for kind, _, proto, _, address in found:
                try:
                    if host not in proxies:
                        policy.check_address(host, str(address[0]))
                except NoResponse as error:
                    # One forbidden address among others is no accident.
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

    return Resolver()


def environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL."""
    import urllib.request

    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    return proxy if proxy and proxy.startswith("http") else None


def _refusal_in(error: BaseException) -> NoResponse | None:
    """Find the refusal of the resolver inside an error of aiohttp."""
    seen: BaseException | None = error
    while seen is not None:
        for each in (seen, getattr(seen, "os_error", None)):
            if isinstance(each, _Refused):
                return each.why
        seen = seen.__cause__ or seen.__context__
    return None


def _untrusted(error: BaseException) -> str:
    """Say what is wrong with a certificate; empty where it is something else."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return str(getattr(inner, "verify_message", ""))[:100]


def _reason(error: BaseException) -> str:
    inner = getattr(error, "os_error", None) or error
    text = getattr(inner, "strerror", None) or str(inner) or type(error).__name__
    return str(text).strip().split("\n", 1)[0][:160]


def _require_aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("auth", needed_for="authorization over HTTP") from None
    return aiohttp


def _literal_kind(host: str) -> AddressKind | None:
    try:
        return address_kind(host)
    except ValueError:
        return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"
