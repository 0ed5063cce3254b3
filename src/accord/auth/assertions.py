"""Assertions in place of a user's consent: a JWT that another authority signed (RFC 7523).

A workload presents the JWT that its platform gave it. In a company, the identity provider that the
user has logged in with signs an assertion for one authorization server (ID-JAG); administrators
decide there, and users are not asked.
"""

import inspect
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.auth.client_identity import ClientIdentity, token_request
from accord.auth.discovery import find_server_metadata, send_request
from accord.errors import FlowFailed
from accord.http.client.guarded import (
    Flow,
    HttpResponse,
    Send,
    operator_sender,
    run_flow,
)
from accord.http.rules.responses import quote_text
from accord.runtime.tasks import run_in_thread

TokenSource: TypeAlias = str | os.PathLike[str] | Callable[[], str | Awaitable[str]]
"""A token, the path of a file that holds it, or a function that returns it."""

STEP_ASSERTION: Final = "assertion"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  # a type
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_THREAD: Final = "accord-assertion"
# RFC 7515: three parts of base64url. A token of any other form is not sent anywhere.
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


class AssertionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an assertion is needed for.

    Attributes:
        issuer: the authorization server that it is presented to.
        resource: the server that a token is wanted for.
        scopes: the scopes that are wanted.
    """

    issuer: str
    resource: str
    scopes: tuple[str, ...] = ()


Assertion: TypeAlias = Callable[[AssertionRequest], Awaitable[str]]
"""Returns the assertion for a request: `WorkloadToken`, `IdentityAssertion`, or your own."""


class WorkloadToken:
    """The JWT by which a platform identifies a workload, such as a token of a service account.

    It is read anew for every request, since platforms replace it.

    Args:
        source: the path of its file (`pathlib.Path`), the JWT, or a function that returns it.
    """

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def __call__(self, request: AssertionRequest) -> str:
        """Return the JWT.

        Raises:
            FlowFailed: it cannot be read, or is not a JWT.
        """
        return await _read_token(self._source, "the workload's token")

    def __repr__(self) -> str:
        return "<WorkloadToken>"


class IdentityAssertion:
    """Exchanges the user's ID token for assertions, at the identity provider that issued it.

    Args:
        id_token: the ID token of the user, the path of its file, or a function that returns it.
        issuer: the identity provider.
        client_id: of this program at the identity provider.
        client_secret: at the identity provider, if it has one.
        token_endpoint: of the identity provider; by default as its metadata says.
        send: sends the requests; by default over https to the identity provider alone.

    Raises:
        ValueError: a URL is invalid.
    """

    def __init__(
        self,
        id_token: TokenSource,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        token_endpoint: str | None = None,
        send: Send | None = None,
    ) -> None:
        for name, url in (("issuer", issuer), ("token_endpoint", token_endpoint)):
            if url is not None and not urlsplit(url).hostname:
                raise ValueError(f"{name} is {url[:200]!r}, expected a URL")
        self._id_token = id_token
        self._issuer = issuer
        self._endpoint = token_endpoint
        self._client = ClientIdentity(
            client_id=client_id,
            client_secret=client_secret,
            method="none" if client_secret is None else "client_secret_basic",
        )
        self._send = send or operator_sender(token_endpoint or issuer)

    async def __call__(self, request: AssertionRequest) -> str:
        """Return an assertion for an authorization server.

        Raises:
            FlowFailed: the identity provider does not give one.
        """
        id_token = await _read_token(self._id_token, "the user's ID token")
        return await run_flow(self._exchange(id_token, request), self._send)

    def _exchange(self, id_token: str, wanted: AssertionRequest) -> Flow[str]:
        endpoint = self._endpoint
        if endpoint is None:
            metadata = yield from find_server_metadata(self._issuer)
            endpoint = metadata.token_endpoint
        if endpoint is None:
            came = "metadata without a token_endpoint"
            raise FlowFailed(STEP_ASSERTION, asked=self._issuer, came=came)
        fields = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "subject_token": id_token,
            "subject_token_type": _ID_TOKEN,
            "audience": wanted.issuer,
            "resource": wanted.resource,
        }
        if wanted.scopes:
            fields["scope"] = " ".join(wanted.scopes)
        request = token_request(endpoint, fields, self._client, issuer=self._issuer)
        response = yield from send_request(request, STEP_ASSERTION)
        return _read_assertion(response, request.summary, id_token)

    def __repr__(self) -> str:
        return f"<IdentityAssertion of {self._issuer!r}>"


def _read_assertion(response: HttpResponse, asked: str, id_token: str) -> str:
    said = response.object() or {}
    if not response.is_ok or "error" in said:
        came = response.summary.replace(id_token, "<id_token>")
        hint = "the identity provider decides whether this program may use that server"
        raise FlowFailed(STEP_ASSERTION, asked=asked, came=came, hint=hint)
    kind, found = said.get("issued_token_type"), said.get("access_token")
    if kind != _ID_JAG:
        came = f"a token of type {quote_text(str(kind))[:100]!r}"
        hint = f"the identity provider has to issue {_ID_JAG}"
        raise FlowFailed(STEP_ASSERTION, asked=asked, came=came, hint=hint)
    return _check_jwt(found, asked)


async def _read_token(source: TokenSource, name: str) -> str:
    if isinstance(source, os.PathLike):
        path = Path(source)
        try:
            return _check_jwt(path.read_text(encoding="ascii"), f"{name} in {path}")
        except (OSError, UnicodeDecodeError) as error:
            came = getattr(error, "strerror", None) or type(error).__name__
            raise FlowFailed(STEP_ASSERTION, asked=f"{name} in {path}", came=came) from None
    if isinstance(source, str):
        return _check_jwt(source, name)
    try:
        found = await run_in_thread(source, _THREAD)
        text = await found if inspect.isawaitable(found) else found
    except FlowFailed:
        raise
    except Exception as error:  # user code may raise anything
        came = f"the function failed: {type(error).__name__}"
        raise FlowFailed(STEP_ASSERTION, asked=name, came=came) from error
    return _check_jwt(text, name)


def _check_jwt(text: object, asked: str) -> str:
    found = text.strip() if isinstance(text, str) else ""
    if not _JWT.fullmatch(found):
        # Perhaps a secret of another kind, so it is not shown.
        raise FlowFailed(STEP_ASSERTION, asked=asked, came="something that is not a signed JWT")
    return found
