"""Requests to URLs that strangers wrote, under a policy about where they may go.

Requests and responses are data. A flow is a generator that yields requests, gets their responses
and returns a value, so that any HTTP library can carry it and tests need none.

Metadata of authorization names URLs that the client then requests, so a hostile server could make
it request places only the client can reach. Every address is therefore checked as it was resolved,
just before the connection is made: a name that resolves differently the second time gains nothing.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec

from accord.http.client.sender import (
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    require_aiohttp,
)
from accord.http.rules.addresses import (
    AddressKind,
    address_kind,
    ends_in_number,
    host_fault,
    is_loopback,
    literal_address_kind,
)
from accord.http.rules.responses import Origin, origin, quote_text, quote_url, redirect_url

if TYPE_CHECKING:
    import ssl

    from accord.http.client.aiohttp_sender import AiohttpResponse, AiohttpSender

Value = TypeVar("Value")

_REDIRECTS: Final = 3
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
# `urlsplit` drops some of these, so that the URL checked would not be the one requested.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TRUST_HINT: Final = "name its origin in trust=[...] if it is meant to be asked"
_TLS_HINT: Final = "OAuth(tls=...) sets which certificates are trusted"
_FORM: Final = "application/x-www-form-urlencoded"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be sent.

    `repr` shows neither headers nor body: both may be secret.
    """

    method: str
    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | None = None

    def __repr__(self) -> str:
        return f"HttpRequest({self.summary!r})"

    @property
    def summary(self) -> str:
        """Method and URL for messages to users: no query, no secrets."""
        return f"{self.method} {quote_url(self.url)}"


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole response: header names are lower case, `url` is the one that answered."""

    status: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    url: str = ""

    def __repr__(self) -> str:
        return f"HttpResponse({self.status}, {quote_url(self.url)!r}, {len(self.body)} bytes)"

    @property
    def is_ok(self) -> bool:
        """Whether the status says that it succeeded."""
        return 200 <= self.status < 300

    def object(self) -> dict[str, Any] | None:
        """Return the body if it is a JSON object, else None."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def summary(self) -> str:
        """The status, and the text of an OAuth error, for messages to users."""
        said = self.object() or {}
        error, about = said.get("error"), said.get("error_description")
        if isinstance(error, str):
            text = error if not isinstance(about, str) else f"{error}: {about}"
            return f"HTTP {self.status} {quote_text(text)}"
        return f"HTTP {self.status}{_kind(self)}"


Send: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a request, or raises `NoResponse`."""

Flow: TypeAlias = Generator[HttpRequest, HttpResponse, Value]
"""A flow: yields requests, gets responses (or has `NoResponse` raised), returns a value."""


class NoResponse(Exception):
    """A request got no response, or was not sent: raised into the flow that yielded it.

    `is_refused` says that our own policy refused it; `hint` says what to change.
    """

    def __init__(self, reason: str, *, is_refused: bool = False, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_refused = is_refused
        self.hint = hint


def form_request(
    url: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> HttpRequest:
    """Return the POST of a form, as OAuth endpoints take it."""
    usual = {"Content-Type": _FORM, "Accept": "application/json"}
    body = urlencode(fields, quote_via=quote_plus).encode()
    return HttpRequest(method="POST", url=url, headers={**usual, **(headers or {})}, body=body)


def _kind(response: HttpResponse) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if not response.body:
        return " with an empty body"
    return f" with {quote_text(kind)}" if kind else ""


async def run_flow(flow: Flow[Value], send: Send) -> Value:
    """Carry a flow to its end."""
    try:
        request = next(flow)
        while True:
            try:
                response = await send(request)
            except NoResponse as error:
                request = flow.throw(error)
            else:
                request = flow.send(response)
    except StopIteration as end:
        value: Value = end.value
        return value
    finally:
        flow.close()


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
    origins: frozenset[Origin] = frozenset()

    @classmethod
    def beside(cls, url: str, trust: Iterable[str] = ()) -> Self:
        """Make the policy for the services that belong to a server: as near as it, no nearer.

        The server's own host may be at any address, since it is connected to anyway. The URL alone
        decides: a name that resolves to a private address opens no other private address.
        """
        host = (urlsplit(url).hostname or "").lower()
        kinds: set[AddressKind] = {"public"}
        if is_loopback(host):
            kinds |= {"loopback", "private"}
        elif literal_address_kind(host) == "private":
            kinds.add("private")
        origins = frozenset(map(origin, trust))
        hosts = {host, *(urlsplit(each).hostname or "" for each in trust)}
        return cls(kinds=frozenset(kinds), hosts=frozenset(hosts), origins=origins)

    @classmethod
    def for_public(cls, trust: Iterable[str]) -> Self:
        """Make the policy for public addresses and for origins that the user named."""
        named = tuple(trust)
        hosts = frozenset((urlsplit(each).hostname or "").lower() for each in named)
        return cls(hosts=hosts, origins=frozenset(map(origin, named)))

    def check_url(self, url: str) -> None:
        """Make sure that a URL may be requested, as far as can be known without resolving it.

        Raises:
            NoResponse: it may not.
        """
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            _ = parts.port
        except ValueError:
            raise NoResponse("the URL is malformed", is_refused=True) from None
        where = quote_url(url)
        if parts.scheme not in ("http", "https") or not host:
            raise NoResponse(f"{where} is not an http(s) URL", is_refused=True)
        if parts.username is not None:  # empty, but present, when there is only a password
            raise NoResponse(f"{where} carries credentials in the URL", is_refused=True)
        self._check_host(url, host)
        is_near = is_loopback(host) and ("loopback" in self.kinds or host in self.hosts)
        if parts.scheme == "http" and not is_near and origin(url) not in self.origins:
            why = f"{where} is not https"
            raise NoResponse(why, is_refused=True, hint=f"serve it over https, or {_TRUST_HINT}")
        if literal_address_kind(host) is not None:
            self.check_address(host, host)
        elif is_loopback(host):
            # Checked here as well: the resolver lets the name of a proxy on this machine pass.
            self.check_address(host, "127.0.0.1")

    def _check_host(self, url: str, host: str) -> None:
        """Refuse hosts that HTTP libraries, resolvers, browsers or terminals read differently."""
        fault = host_fault(host)
        if fault is None and _CONTROL.search(url):
            fault = "is in a URL with control characters"
        # A name that the user wrote may have other letters and zones, but must not be a number:
        # some versions of aiohttp connect to those without asking the resolver.
        if fault is None or (host in self.hosts and not ends_in_number(host)):
            return
        hint = "" if host.isascii() else "it has to be written as xn--..."
        if ends_in_number(host):
            hint = "write the address in full, as in 127.0.0.1"
        shown = quote_text(host.encode("ascii", "backslashreplace").decode())
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
            f"{host} is at a {kind} address, which the server may not send clients to",
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
        proxy: the URL of a proxy, which then resolves names itself; by default the one that the
            environment names, "" for none.
        redirects: how many redirects within an origin are followed.
    """

    def __init__(
        self,
        policy: AddressPolicy | None = None,
        *,
        size: int = 512 * 1024,
        seconds: float = 15.0,
        tls: "ssl.SSLContext | None" = None,
        proxy: str | None = None,
        redirects: int = _REDIRECTS,
    ) -> None:
        self.policy = policy or AddressPolicy()
        self._size = size
        self._seconds = seconds
        self._redirects = redirects
        self._options = HttpClientOptions(verify=True if tls is None else tls, proxy=proxy)
        self._sender: AiohttpSender | None = None

    async def __aenter__(self) -> Self:
        self._sender = self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.close()

    def _open(self) -> "AiohttpSender":
        require_aiohttp("auth", "authorization over HTTP")
        from accord.http.client.aiohttp_sender import AiohttpSender

        return AiohttpSender(
            self._options, keeps_cookies=False, check_address=self.policy.check_address
        )

    async def run(self, flow: Flow[Value]) -> Value:
        """Carry a flow to its end.

        Raises:
            NoResponse: a request got no response, and the flow did not know a way around it.
        """
        async with self._borrow() as sender:
            return await run_flow(flow, lambda request: self._send_in_time(request, sender))

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send one request.

        Raises:
            NoResponse: the policy does not allow it, or the response is late or too large.
        """
        async with self._borrow() as sender:
            return await self._send_in_time(request, sender)

    @contextlib.asynccontextmanager
    async def _borrow(self) -> "AsyncIterator[AiohttpSender]":
        if self._sender is not None:
            yield self._sender
            return
        sender = self._open()
        try:
            yield sender
        finally:
            await sender.close()

    async def _send_in_time(self, request: HttpRequest, sender: "AiohttpSender") -> HttpResponse:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(request, sender)
        except TimeoutError:
            why = f"no whole answer from {quote_url(request.url)} within {self._seconds:g} s"
            raise NoResponse(why) from None

    async def _follow(self, request: HttpRequest, sender: "AiohttpSender") -> HttpResponse:
        url = request.url
        for _ in range(self._redirects + 1):
            self.policy.check_url(url)
            response = await self._send_once(request, url, sender)
            if response.status not in _REDIRECTED or request.method != "GET":
                return response
            if not self._redirects:
                return response
            # Another origin was not named by the user: the redirect is returned, not followed.
            there = redirect_url(url, response.headers.get("location"))
            if there is None:
                return response
            url = there
        raise NoResponse(f"{quote_url(request.url)} redirects more than {self._redirects} times")

    async def _send_once(
        self, request: HttpRequest, url: str, sender: "AiohttpSender"
    ) -> HttpResponse:
        try:
            response = await sender.send(request.method, url, request.headers, request.body)
            try:
                return await self._read(response, url)
            finally:
                response.close()
        except NotSent as error:
            hint = _TLS_HINT if error.hint else ""
            raise NoResponse(f"{quote_url(url)}: {error.reason}", hint=hint) from None
        except ConnectionCut as error:
            raise NoResponse(f"{quote_url(url)}: {error}") from None

    async def _read(self, response: "AiohttpResponse", url: str) -> HttpResponse:
        body = b""
        while chunk := await response.chunk():
            body += chunk
            if len(body) > self._size:
                why = f"{quote_url(url)} sent more than {self._size} bytes"
                raise NoResponse(why, is_refused=True)
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return HttpResponse(status=response.status, headers=headers, body=body, url=url)


def operator_sender(url: str) -> Send:
    """Return a sender for a URL that the operator named: at any address, unlike its redirects."""
    return GuardedSender(AddressPolicy.beside(url, [url]), seconds=10.0).send
