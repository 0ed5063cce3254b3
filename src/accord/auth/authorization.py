"""One authorization, from registration to token: by a code, by another device, by the client.

Or by an assertion in place of a user's consent: a JWT that another authority signed (RFC 7523). A
workload presents the JWT that its platform gave it. In a company, the identity provider that the
user has logged in with signs an assertion for one authorization server (ID-JAG); administrators
decide there, and users are not asked.
"""

import asyncio
import inspect
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.auth.browser import HOST, PATH, LoopbackRedirect, UserInteraction
from accord.auth.client_identity import (
    AuthMethod,
    ClientDescription,
    ClientIdentity,
    check_offered,
    new_pkce,
    preregistered_client,
    register,
    token_request,
)
from accord.auth.discovery import DiscoveryResult, find_server_metadata, send_request
from accord.auth.flow import (
    ASSERTION_GRANT,
    DEVICE_GRANT,
    STEP_AUTHORIZATION,
    STEP_DEVICE,
    AuthorizationRequest,
    ForgedResponse,
    GrantRequest,
    ResourceRejected,
    TokenRefused,
    authorization_url,
    exchange_code,
    poll_device,
    read_authorization_response,
    request_client_credentials,
    request_with_assertion,
    start_device,
)
from accord.auth.tokens import TokenGrant, TokenStore, stored_client_key
from accord.errors import FlowFailed
from accord.http.client.guarded import (
    Flow,
    GuardedSender,
    HttpResponse,
    NoResponse,
    Send,
    operator_sender,
    run_flow,
)
from accord.http.rules.responses import quote_text
from accord.runtime.tasks import run_in_thread

if TYPE_CHECKING:
    from accord.auth.oauth import OAuth


TokenSource: TypeAlias = str | os.PathLike[str] | Callable[[], str | Awaitable[str]]
"""A token, the path of a file that holds it, or a function that returns it."""

STEP_ASSERTION: Final = "assertion"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  # a type
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
_THREAD: Final = "accord-assertion"
# RFC 7515: three parts of base64url. A token of any other form is not sent anywhere.
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")

_METHODS: Final[dict[str | None, AuthMethod]] = {
    "basic": "client_secret_basic",
    "post": "client_secret_post",
}
# The errors in a redirect by which a server says that it does not know the client.
_UNKNOWN_CLIENT: Final = ("", "invalid_client", "unauthorized_client")


# -- assertions in place of consent


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


# -- authorizations


def describe_client(settings: "OAuth") -> ClientDescription:
    """Return how the client describes itself to an authorization server."""
    method = _METHODS.get(settings.authenticate)
    return ClientDescription(
        name=settings.client_name,
        client_id=settings.client_id,
        client_secret=settings.client_secret,
        method="private_key_jwt" if settings.client_key is not None else method,
        metadata_url=settings.client_metadata_url,
    )


async def listen_for_redirect(
    settings: "OAuth", client: ClientIdentity | None, stack: AsyncExitStack
) -> LoopbackRedirect:
    """Listen on the port that the client is registered with, if it is free.

    Raises:
        FlowFailed: the port that the settings name is taken.
    """
    given = urlsplit(settings.redirect_uri or "")
    where = {"host": HOST, "path": PATH}
    if given.hostname is not None:
        where = {"host": given.hostname, "path": given.path}
    port = chosen = settings.redirect_port or given.port or 0
    if not port and client is not None and client.redirect_uris:
        port = urlsplit(client.redirect_uris[0]).port or 0
    try:
        return await stack.enter_async_context(LoopbackRedirect(port, **where))
    except OSError as error:
        came = error.strerror or str(error)
    if not chosen:
        return await stack.enter_async_context(LoopbackRedirect(0, **where))
    hint = "end the program that uses it, or choose another redirect_port or redirect_uri"
    raise FlowFailed("redirect", asked=f"port {port} of this machine", came=came, hint=hint)


class AuthorizationAttempt:
    """Obtains one grant from an authorization server that was discovered."""

    def __init__(
        self,
        settings: "OAuth",
        store: TokenStore,
        *,
        sender: GuardedSender,
        found: DiscoveryResult,
        scopes: tuple[str, ...],
    ) -> None:
        self._settings = settings
        self._store = store
        self._sender = sender
        self._found = found
        self._issuer = found.server.issuer
        self._scopes = scopes
        self._names_resource = settings.resource != "omit"
        self._interaction = UserInteraction(
            open_browser=settings.open_browser,
            paste=settings.paste,
            tell=settings.tell,
            seconds=settings.timeout,
        )
        self._description = describe_client(settings)

    async def obtain(self) -> TokenGrant:
        """Obtain the grant, without the parameter `resource` if the server rejects it.

        Raises:
            FlowFailed: it could not be obtained.
        """
        if self._settings.dpop is not None:
            check_offered(self._found.server, self._settings.dpop, "token")
        obtain = {
            "authorization_code": self._obtain_by_code,
            "client_credentials": self._obtain_by_credentials,
            "device": self._obtain_by_device,
            "jwt_bearer": self._obtain_by_assertion,
        }[self._settings.grant]
        try:
            return await obtain()
        except ResourceRejected:
            if self._settings.resource != "auto":
                raise
            self._names_resource = False
            return await obtain()

    async def _obtain_by_credentials(self) -> TokenGrant:
        asked = await self._identify(["client_credentials"])
        return await self._sender.run(request_client_credentials(asked, time.time()))

    async def _obtain_by_assertion(self) -> TokenGrant:
        get_assertion = self._settings.assertion
        assert get_assertion is not None  # checked with the settings
        asked = await self._identify([ASSERTION_GRANT])
        wanted = AssertionRequest(
            issuer=self._issuer, resource=self._found.resource, scopes=self._scopes
        )
        assertion = await get_assertion(wanted)
        return await self._sender.run(request_with_assertion(asked, assertion, time.time()))

    async def _identify(self, grants: list[str]) -> GrantRequest:
        """Return the request for a grant without a redirect, with its client, registered if new."""
        server, described = self._found.server, self._description
        client = preregistered_client(server, described)
        if client is None:
            client = await self._sender.run(
                register(server, described, redirect_uris=(), grants=grants, scopes=self._scopes)
            )
        return GrantRequest(
            found=self._found,
            client=client,
            key=self._settings.client_key,
            dpop=self._settings.dpop,
            scopes=self._scopes,
            names_resource=self._names_resource,
        )

    # -- a code, by way of a browser

    async def _obtain_by_code(self) -> TokenGrant:
        kept = await self._load_client()
        if kept is not None:
            # The server may have forgotten it, and would show that to the user alone. So it is not
            # kept while the user is asked: an attempt that is given up leads to a new registration.
            await self._forget_client(kept)
        async with AsyncExitStack() as stack:
            redirect = await listen_for_redirect(self._settings, kept, stack)
            client = kept
            if client is None or not client.is_usable_for(redirect.uri, self._scopes):
                client = await self._register(redirect.uri)
            request = AuthorizationRequest(
                found=self._found,
                client=client,
                key=self._settings.client_key,
                dpop=self._settings.dpop,
                redirect_uri=redirect.uri,
                pkce=new_pkce(),
                state=secrets.token_urlsafe(24),
                scopes=self._scopes,
                names_resource=self._names_resource,
                assumes_pkce=self._settings.pkce == "assume",
            )
            code = await self._ask_for_code(request, redirect)
        try:
            return await self._sender.run(exchange_code(code, request, time.time()))
        except ResourceRejected:
            if self._settings.resource != "auto":
                raise
            # The code is still good: the user need not be asked again.
            without = msgspec.structs.replace(request, names_resource=False)
            return await self._sender.run(exchange_code(code, without, time.time()))
        except TokenRefused as error:
            if error.error == "invalid_client":
                await self._forget_client(client)
            raise

    async def _ask_for_code(self, request: AuthorizationRequest, redirect: LoopbackRedirect) -> str:
        # Checked as it was written: building the URL drops some of the characters to be refused.
        endpoint = self._found.server.authorization_endpoint
        if endpoint is not None:
            self._check_page(STEP_AUTHORIZATION, "authorization_endpoint", endpoint)
        url = authorization_url(request)
        redirect.state, redirect.accepts = request.state, request.is_from_issuer
        params = await self._interaction.authorize(url, redirect)
        try:
            code = read_authorization_response(params, request)
        except ForgedResponse:
            raise  # what it says of the client is not to be believed
        except FlowFailed:
            if params.get("error", "") not in _UNKNOWN_CLIENT:
                await self._keep_client(request.client)
            raise
        await self._keep_client(request.client)
        return code

    # -- the registered client

    async def _load_client(self) -> ClientIdentity | None:
        given = preregistered_client(self._found.server, self._description)
        if given is not None:
            return given
        text = await self._store.read(stored_client_key(self._issuer))
        try:
            kept = None if text is None else msgspec.json.decode(text, type=ClientIdentity)
        except msgspec.DecodeError:
            return None
        return kept if kept is not None and kept.is_usable(time.time()) else None

    async def _register(self, redirect_uri: str) -> ClientIdentity:
        # Scopes that may be asked for later are registered now: a step up needs no other client.
        resource = self._found.resource_metadata
        supported = () if resource is None else resource.scopes_supported or ()
        return await self._sender.run(
            register(
                self._found.server,
                self._description,
                redirect_uris=[redirect_uri],
                scopes=tuple(dict.fromkeys([*self._scopes, *supported])),
            )
        )

    async def _forget_client(self, client: ClientIdentity) -> None:
        """Make the next attempt begin with a new registration."""
        if client.is_registered:
            await self._store.write(stored_client_key(self._issuer), None)

    async def _keep_client(self, client: ClientIdentity) -> None:
        """Keep a registration, now that the authorization server has shown that it knows it."""
        if client.is_registered:
            text = msgspec.json.encode(client).decode()
            await self._store.write(stored_client_key(self._issuer), text)

    # -- a code that the user enters on another device

    async def _obtain_by_device(self) -> TokenGrant:
        asked = await self._identify([DEVICE_GRANT, "refresh_token"])
        code = await self._sender.run(start_device(asked, time.time()))
        self._check_page(STEP_DEVICE, "verification_uri", code.verification_uri)
        self._interaction.say(f"To authorize, {code.instructions}")
        ends = time.monotonic() + min(code.expires_in, self._settings.timeout)
        while time.monotonic() + code.interval < ends:
            await asyncio.sleep(code.interval)
            answer = await self._sender.run(poll_device(code, asked, time.time()))
            if isinstance(answer, TokenGrant):
                return answer
            code = msgspec.structs.replace(code, interval=answer)
        raise FlowFailed(
            STEP_DEVICE,
            asked=code.verification_uri,
            came="no authorization in time",
            hint="authorize sooner, or allow more time with OAuth(timeout=...)",
        )

    def _check_page(self, step: str, name: str, url: str) -> None:
        """Make sure that the user may be sent to a page that the authorization server names."""
        try:
            self._sender.policy.check_url(url)
        except NoResponse as error:
            came = f"a {name} that must not be opened: {error.reason}"
            asked = self._found.server.url
            raise FlowFailed(step, asked=asked, came=came, hint=error.hint) from None
