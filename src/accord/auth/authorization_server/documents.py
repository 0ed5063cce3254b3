"""Clients whose id is the URL of their metadata (client id metadata documents).

The document is fetched when such a client asks for consent, checked, and stored as a client until
it is stale. Any program can make up such ids, so fetches are bounded in number, size and time, and
do not go into the own network.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Container, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.authorization_server.clients import read_description
from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    REFRESH_TOKEN,
    OAuthRefusal,
    RegisteredClient,
    Request,
    parse_form,
)
from accord.auth.urls import client_url_fault
from accord.http.client.guarded import (
    AddressPolicy,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
    Send,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.auth.authorization_server.endpoints import Endpoints

log = logging.getLogger("accord.auth")

_SCHEME: Final = "https://"
# As much as a registration may have; the draft advises 5 KB, and usual documents have 1 KB.
_SIZE_MOST: Final = 16 * 1024
# The user waits for the page meanwhile.
_SECONDS: Final = 5.0
_FETCHES_MOST: Final = 16
# All pages of one authorization see one document; changes are noticed within a day at the latest.
_FRESH_LEAST: Final = 60.0
_FRESH_USUAL: Final = 300.0
_FRESH_MOST: Final = 86_400.0
_MAX_AGE: Final = re.compile(r"\bmax-age\s*=\s*\"?([0-9]{1,10})", re.IGNORECASE)
_NEVER_FRESH: Final = re.compile(r"\bno-(?:store|cache)\b", re.IGNORECASE)
_JSON: Final = re.compile(r"application/(?:[a-z0-9.-]+\+)?json", re.IGNORECASE)


class _Document(msgspec.Struct, kw_only=True):
    # auth.cimd.required-members; everything else is optional.
    client_id: str
    client_name: str
    redirect_uris: list[str]
    token_endpoint_auth_method: str = "none"  # noqa: S105  # the only method that needs no secret
    grant_types: list[str] = msgspec.field(
        default_factory=lambda: [AUTHORIZATION_CODE, REFRESH_TOKEN]
    )
    response_types: list[str] | None = None
    scope: str | None = None
    application_type: str | None = None
    client_secret: Any = msgspec.UNSET


class ClientDocuments:
    """Fetches the metadata documents of clients.

    Args:
        trust: origins that may be asked although they are at private addresses.
        send: sends requests, in place of a guarded sender.

    Raises:
        ValueError: `trust` has something that is not an origin.
    """

    def __init__(self, trust: Sequence[str] = (), send: Send | None = None) -> None:
        for each in trust:
            if urlsplit(each).scheme != "https" or not urlsplit(each).hostname:
                raise ValueError(f"trust has {each!r}, expected an origin: https://host[:port]")
        self._send = send or document_sender(trust)
        self._under_way = 0

    async def prepare(self, request: Request, endpoints: "Callable[[], Endpoints]") -> Request:
        """Return a request after the document of its client, if it has one, was fetched.

        A document that cannot be used is not an exception: the request then has a refusal.
        """
        url = _document_url(request)
        if url is None:
            return request
        try:
            # The store blocks.
            if await asyncio.to_thread(lambda: _needs_document(endpoints(), request, url)):
                found = await self._fetch(url)
                await asyncio.to_thread(lambda: _keep_document(endpoints(), url, found))
        except OAuthRefusal as refusal:
            log.info("the metadata document of a client cannot be used: %s", refusal)
            return msgspec.structs.replace(request, refusal=refusal)
        return request

    async def _fetch(self, url: str) -> HttpResponse:
        if self._under_way >= _FETCHES_MOST:
            raise OAuthRefusal(
                "temporarily_unavailable", "too many clients are being looked up", status=503
            )
        self._under_way += 1
        try:
            headers = {"Accept": "application/json"}
            return await self._send(HttpRequest(method="GET", url=url, headers=headers))
        except NoResponse as error:
            # Only logged: the reason would show which names and addresses there are inside.
            log.warning("the metadata of client %r cannot be fetched: %s", url[:200], error.reason)
            raise _unusable("cannot be fetched") from None
        finally:
            self._under_way -= 1


def _needs_document(endpoints: "Endpoints", request: Request, url: str) -> bool:
    return endpoints.needs_document(request, url, endpoints.store.now())


def _keep_document(endpoints: "Endpoints", url: str, response: HttpResponse) -> None:
    endpoints.keep_document(url, response, endpoints.store.now())


def document_sender(trust: Sequence[str], *, tls: "SSLContext | None" = None) -> Send:
    """Return a sender that fetches documents from public addresses and from trusted origins."""
    policy = AddressPolicy.for_public(trust)
    # The draft advises against following redirects: the id is the URL of the document itself.
    return GuardedSender(policy, size=_SIZE_MOST, seconds=_SECONDS, redirects=0, tls=tls).send


def _document_url(request: Request) -> str | None:
    """Return the client id of a request if it is the URL of a document."""
    try:
        if request.path == "/authorize":
            given = parse_form(request.query).get("client_id", "")
        elif request.path == "/device_authorization" and request.method == "POST":
            given = request.form().get("client_id", "")
        else:
            return None
    except OAuthRefusal:
        return None  # the endpoint says why
    return given if given.startswith(_SCHEME) else None


def check_document_url(url: str) -> None:
    """Make sure that a client id can be the URL of a document.

    Raises:
        OAuthRefusal: it cannot.
    """
    fault = client_url_fault(url)  # auth.cimd.https-hosted
    if fault is not None:
        raise OAuthRefusal("invalid_client", f"the client_id of the program {fault}")


def read_document(
    url: str, response: HttpResponse, now: float, *, known_scopes: Container[str]
) -> RegisteredClient:
    """Read the client that a response describes.

    Raises:
        OAuthRefusal: the document is not one of a client with this id, or not valid.
    """
    if response.status != 200:
        raise _unusable(f"was answered with HTTP {response.status}")
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if not _JSON.fullmatch(kind):
        raise _unusable(f"has the type {kind[:50]!r}, expected application/json")
    try:
        said = msgspec.json.decode(response.body, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # auth.cimd.as-checks-structure
        raise _unusable(f"cannot be read: {str(error)[:200].lower()}") from None
    if said.client_id != url:  # auth.cimd.as-checks-id
        raise _unusable(f"is for another client_id, {said.client_id[:200]!r}")
    if said.client_secret is not msgspec.UNSET:
        raise _unusable("has a client_secret, which would not be secret")
    if said.token_endpoint_auth_method != "none":  # noqa: S105
        method = said.token_endpoint_auth_method[:50]
        raise _unusable(f"has token_endpoint_auth_method {method!r}, expected 'none'")
    if not " ".join(said.client_name.split()):
        raise _unusable("has an empty client_name")
    try:
        client = read_description(said, url, now, known_scopes=known_scopes)
    except OAuthRefusal as refusal:
        raise _unusable(f"is not valid: {refusal.description}") from None
    return msgspec.structs.replace(client, fresh_until=now + fresh_seconds(response.headers, now))


def _unusable(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_client", f"the metadata document of the program {why}")


def fresh_seconds(headers: Mapping[str, str], now: float) -> float:
    """Return for how long a document may be used, by the rules of HTTP and within bounds."""
    control = headers.get("cache-control", "")
    found = _FRESH_USUAL
    max_age = _MAX_AGE.search(control)
    if _NEVER_FRESH.search(control):
        found = 0.0
    elif max_age is not None:
        age = headers.get("age", "")
        found = float(max_age[1]) - (float(age) if age.isdecimal() and len(age) < 11 else 0.0)
    elif "expires" in headers:
        found = _seconds_until(headers["expires"], now)
    return min(max(found, _FRESH_LEAST), _FRESH_MOST)


def _seconds_until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return 0.0  # RFC 9111, section 5.3: an invalid date means that it has expired
