"""One authorization, from registration to token: by a code, by another device, by the client."""

import asyncio
import secrets
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.assertions import AssertionRequest
from accord.auth.browser import HOST, PATH, LoopbackRedirect, UserInteraction
from accord.auth.client_identity import (
    AuthMethod,
    ClientDescription,
    ClientIdentity,
    new_pkce,
    preregistered_client,
    register,
)
from accord.auth.discovery import DiscoveryResult
from accord.auth.dpop import check_offered
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
from accord.http.client.guarded import GuardedSender, NoResponse

if TYPE_CHECKING:
    from accord.auth.oauth import OAuth

_METHODS: Final[dict[str | None, AuthMethod]] = {
    "basic": "client_secret_basic",
    "post": "client_secret_post",
}
# The errors in a redirect by which a server says that it does not know the client.
_UNKNOWN_CLIENT: Final = ("", "invalid_client", "unauthorized_client")


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
