"""Requests to an API: sent over kept connections, bounded in time and size.

Redirects within the server's own origin are followed. Those of GET to other origins are followed
without credentials, and never into a network that the server itself is not in.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from accord.compose.openapi.arguments import ApiRequest
from accord.compose.openapi.security import Credentials
from accord.errors import ToolError
from accord.http.client.sender import (
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    require_aiohttp,
)
from accord.http.rules.responses import origin, quote_url, redirect_url

if TYPE_CHECKING:
    from accord.http.client.aiohttp_sender import AiohttpSender

_REDIRECTS: Final = 5
_REDIRECTED: Final = frozenset({301, 302, 303, 307, 308})
_READING: Final = ("GET", "HEAD")
_ACCEPT: Final = "application/json, */*;q=0.5"


class ApiResponse(NamedTuple):
    """A whole response of an API."""

    status: int
    content_type: str
    body: bytes
    retry_after: str | None = None
    location: str | None = None


def _open(options: HttpClientOptions) -> "AiohttpSender":
    require_aiohttp(needed_for="calling an API")
    from accord.http.client.aiohttp_sender import AiohttpSender

    # Callers must not share cookies that an API sets.
    return AiohttpSender(options, keeps_cookies=False, is_encoded=True)


def _stays_at(base: str, url: str) -> bool:
    try:
        return origin(url) == origin(base)
    except ValueError:
        return False


class ApiSender:
    """Sends requests on the loop that it was made on.

    Args:
        options: how requests are sent.
        timeout: seconds for an exchange with its redirects.
        max_bytes: the largest answer.
    """

    def __init__(self, options: HttpClientOptions, *, timeout: float, max_bytes: int) -> None:
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._own: AiohttpSender | None = None
        self._sender: Any = options.sender
        if self._sender is None:
            self._sender = self._own = _open(options)

    async def close(self) -> None:
        """Close the connections."""
        if self._own is not None:
            await self._own.close()

    async def exchange(
        self,
        base: str,
        request: ApiRequest,
        headers: Mapping[str, str],
        credentials: Credentials,
    ) -> ApiResponse:
        """Send a request and return the whole response.

        Args:
            base: the URL of the server, without a slash at its end.
            request: what to send.
            headers: those of every request.
            credentials: go to this server alone.

        Raises:
            ToolError: there is no response, or the path leads to another server; the text names
                the host and not the URL.
        """
        host = urlsplit(base).netloc.rpartition("@")[2]
        query = "&".join([*request.query, *credentials.query])
        url = f"{base}{request.path}{'?' if query else ''}{query}"
        if not _stays_at(base, url):
            raise ToolError(f"the path of the operation leads to another server than {host}")
        sent = {"Accept": _ACCEPT, **headers, **request.headers, **credentials.headers}
        cookies = [*request.cookies, *credentials.cookies]
        if cookies:
            sent["Cookie"] = "; ".join(cookies)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._follow(request.method, url, sent, request.body)
        except TimeoutError:
            raise ToolError(f"{host} did not answer within {self._timeout:g} s") from None
        except NotSent as error:
            raise ToolError(f"{host} cannot be reached: {credentials.mask(error.reason)}") from None
        except ConnectionCut as error:
            raise ToolError(f"{host} gave no answer: {credentials.mask(str(error))}") from None

    async def _follow(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> ApiResponse:
        for _ in range(_REDIRECTS):
            response = await self._send(method, url, headers, body)
            if response.status not in _REDIRECTED or response.location is None:
                return response
            there = redirect_url(url, response.location)
            if there is None:
                if method not in _READING:
                    return response
                return await self._send_elsewhere(method, url, response.location)
            if response.status in (301, 302, 303) and method not in _READING:
                method, body = "GET", None
                headers = {name: each for name, each in headers.items() if name != "Content-Type"}
            url = there
        raise ToolError(f"{quote_url(url)} redirects more than {_REDIRECTS} times")

    async def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> ApiResponse:
        response = await self._sender.send(method, url, headers, body)
        try:
            chunks, size = [], 0
            while chunk := await response.chunk():
                size += len(chunk)
                if size > self._max_bytes:
                    raise ToolError(
                        f"the answer is larger than {self._max_bytes} bytes (max_bytes); ask for "
                        "less"
                    )
                chunks.append(chunk)
        finally:
            response.close()
        return ApiResponse(
            response.status,
            response.header("Content-Type") or "",
            b"".join(chunks),
            response.header("Retry-After"),
            response.header("Location"),
        )

    async def _send_elsewhere(self, method: str, url: str, location: str) -> ApiResponse:
        from accord.http.client.guarded import (
            AddressPolicy,
            GuardedSender,
            HttpRequest,
            NoResponse,
        )

        sender = GuardedSender(
            AddressPolicy.beside(url), size=self._max_bytes, seconds=self._timeout
        )
        try:
            there = urljoin(url, location)
            found = await sender.send(
                HttpRequest(method=method, url=there, headers={"Accept": _ACCEPT})
            )
        except (NoResponse, ValueError) as error:
            raise ToolError(f"the API redirects elsewhere: {error}") from None
        return ApiResponse(
            found.status,
            found.headers.get("content-type", ""),
            found.body,
            found.headers.get("retry-after"),
        )
