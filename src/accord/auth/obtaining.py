"""One authorization from registration to token: by a code, by another device, by ourselves."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from accord.auth.browser import HOST, PATH, Interaction, LoopbackRedirect
from accord.auth.client_key import ClientKey
from accord.auth.credentials import AuthMethod, ClientIdentity
from accord.auth.device import DEVICE_GRANT, poll_device, start_device
from accord.auth.discovery import Discovered
from accord.auth.flow import (
    AuthorizationRequest,
    ResourceRejected,
    TokenRefused,
    authorization_url,
    code_in,
    exchange_code,
    request_client_credentials,
)
from accord.auth.pkce import new_pkce
from accord.auth.registration import ClientDescription, given_client, register
from accord.auth.tokens import Grant, TokenStore, client_key
from accord.errors import FlowFailed
from accord.transports.http.client.guarded import GuardedSender
from accord.transports.http.client.requests import NoResponse

__all__ = ["Obtaining", "Wishes"]

# What a redirect says of a client that the server does not know; "" where it says nothing.
_UNKNOWN_CLIENT: Final = ("", "invalid_client", "unauthorized_client")


class Wishes(Protocol):
    """What was chosen for authorizations; `OAuth` says what each means."""

    client_id: str | None
    client_secret: str | None
    client_key: ClientKey | None
    authenticate: Literal["basic", "post"] | None
    client_metadata_url: str | None
    client_name: str
    grant: Literal["authorization_code", "client_credentials", "device"]
    resource: Literal["send", "omit", "auto"]
    redirect_port: int
    redirect_uri: str | None
    timeout: float


class Obtaining:
    """Obtains grants from authorization servers that were discovered."""

    def __init__(self, how: Wishes, store: TokenStore, interaction: Interaction) -> None:
        self._how = how
        self._store = store
        self._interaction = interaction

    async def obtain(
        self, sender: GuardedSender, found: Discovered, scopes: tuple[str, ...]
    ) -> Grant:
        """Obtain a grant in the way that was chosen.

        Raises:
            FlowFailed: it could not be obtained.
        """
        names_resource = self._how.resource != "omit"
        try:
            return await self._granted(sender, found, scopes, names_resource=names_resource)
        except ResourceRejected:
            if self._how.resource != "auto":
                raise
            return await self._granted(sender, found, scopes, names_resource=False)

    async def _granted(
        self,
        sender: GuardedSender,
        found: Discovered,
        scopes: tuple[str, ...],
        *,
        names_resource: bool,
    ) -> Grant:
        if self._how.grant == "authorization_code":
            return await self._by_code(sender, found, scopes, names_resource=names_resource)
        client = given_client(found.server, self._description())
        grants: tuple[str, ...] = ("client_credentials",)
        if self._how.grant == "device":
            grants = (DEVICE_GRANT, "refresh_token")
        if client is None:
            client = await sender.run(
                register(
                    found.server,
                    self._description(),
                    redirect_uris=(),
                    grants=grants,
                    scopes=scopes,
                )
            )
        if self._how.grant == "device":
            return await self._by_device(
                sender, found, client, scopes, names_resource=names_resource
            )
        return await sender.run(
            request_client_credentials(
                found,
                client,
                time.time(),
                key=self._how.client_key,
                scopes=scopes,
                names_resource=names_resource,
            )
        )

    # -- a code by way of a browser

    async def _by_code(
        self,
        sender: GuardedSender,
        found: Discovered,
        scopes: tuple[str, ...],
        *,
        names_resource: bool,
    ) -> Grant:
        kept = await self._kept_client(found)
        if kept is not None:
            # The server may have forgotten it, and would tell the person alone. So it is not kept
            # while the person is asked: an attempt that is given up, or killed, leads to a new one.
            await self._forget(found.server.issuer, kept)
        async with self._redirect(kept) as redirect:
            client = kept
            if client is None or not _serves(client, redirect.uri, scopes):
                client = await self._registered(sender, found, redirect.uri, scopes)
            request = AuthorizationRequest(
                found=found,
                client=client,
                key=self._how.client_key,
                redirect_uri=redirect.uri,
                pkce=new_pkce(),
                state=secrets.token_urlsafe(24),
                scopes=scopes,
                names_resource=names_resource,
            )
            code = await self._code(sender, request, redirect)
        try:
            return await sender.run(exchange_code(code, request, time.time()))
        except ResourceRejected:
            if self._how.resource != "auto":
                raise
            without = msgspec.structs.replace(request, names_resource=False)
            return await sender.run(exchange_code(code, without, time.time()))
        except TokenRefused as error:
            if error.error == "invalid_client":
                await self._forget(found.server.issuer, client)
            raise

    async def _forget(self, issuer: str, client: ClientIdentity) -> None:
        """Let the next attempt begin with a new registration."""
        if client.is_registered:
            await self._store.write(client_key(issuer), None)

    async def _keep(self, issuer: str, client: ClientIdentity) -> None:
        """Keep a registration that the authorization server has shown to know."""
        if client.is_registered:
            await self._store.write(client_key(issuer), msgspec.json.encode(client).decode())

    async def _code(
        self, sender: GuardedSender, request: AuthorizationRequest, redirect: LoopbackRedirect
    ) -> str:
        # As it was written: putting the URL together drops some of the characters to be refused.
        endpoint = request.found.server.authorization_endpoint
        if endpoint is not None:
            _check_page(sender, "authorization", "authorization_endpoint", endpoint, request.found)
        url = authorization_url(request)
        redirect.state = request.state
        params = await self._interaction.authorize(url, redirect)
        try:
            code = code_in(params, request)
        except FlowFailed:
            if params.get("error", "") not in _UNKNOWN_CLIENT:
                await self._keep(request.found.server.issuer, request.client)
            raise
        await self._keep(request.found.server.issuer, request.client)
        return code

    @asynccontextmanager
    async def _redirect(self, client: ClientIdentity | None) -> AsyncIterator[LoopbackRedirect]:
        """Listen on the port that the client is registered with, if that is free."""
        given = urlsplit(self._how.redirect_uri or "")
        where = {"host": HOST, "path": PATH}
        if given.hostname is not None:
            where = {"host": given.hostname, "path": given.path}
        port = chosen = self._how.redirect_port or given.port or 0
        if not port and client is not None and client.redirect_uris:
            port = urlsplit(client.redirect_uris[0]).port or 0
        redirect = LoopbackRedirect(port, **where)
        try:
            await redirect.__aenter__()
        except OSError as error:
            if chosen:
                came = error.strerror or str(error)
                asked = f"port {port} of this machine"
                hint = "end what uses it, or choose another redirect_port or redirect_uri"
                raise FlowFailed("redirect", asked=asked, came=came, hint=hint) from None
            redirect = LoopbackRedirect(0, **where)
            await redirect.__aenter__()
        try:
            yield redirect
        finally:
            await redirect.__aexit__(None, None, None)

    async def _kept_client(self, found: Discovered) -> ClientIdentity | None:
        given = given_client(found.server, self._description())
        if given is not None:
            return given
        text = await self._store.read(client_key(found.server.issuer))
        try:
            kept = None if text is None else msgspec.json.decode(text, type=ClientIdentity)
        except msgspec.DecodeError:
            return None
        return kept if kept is not None and kept.is_usable(time.time()) else None

    async def _registered(
        self, sender: GuardedSender, found: Discovered, uri: str, scopes: tuple[str, ...]
    ) -> ClientIdentity:
        # What may be asked for later is registered now: a step up needs no other client.
        resource = found.resource_metadata
        supported = () if resource is None else resource.scopes_supported or ()
        return await sender.run(
            register(
                found.server,
                self._description(),
                redirect_uris=[uri],
                scopes=tuple(dict.fromkeys([*scopes, *supported])),
            )
        )

    # -- a person elsewhere

    async def _by_device(
        self,
        sender: GuardedSender,
        found: Discovered,
        client: ClientIdentity,
        scopes: tuple[str, ...],
        *,
        names_resource: bool,
    ) -> Grant:
        key = self._how.client_key
        code = await sender.run(
            start_device(
                found, client, time.time(), key=key, scopes=scopes, names_resource=names_resource
            )
        )
        _check_page(
            sender, "device authorization", "verification_uri", code.verification_uri, found
        )
        self._interaction.say(f"To authorize, {code.told}")
        ends = time.monotonic() + min(code.expires_in, self._how.timeout)
        while time.monotonic() + code.interval < ends:
            await asyncio.sleep(code.interval)
            answer = await sender.run(
                poll_device(
                    code,
                    found,
                    client,
                    time.time(),
                    key=key,
                    scopes=scopes,
                    names_resource=names_resource,
                )
            )
            if isinstance(answer, Grant):
                return answer
            code = msgspec.structs.replace(code, interval=answer)
        raise FlowFailed(
            "device authorization",
            asked=code.verification_uri,
            came="no authorization in time",
            hint="authorize sooner, or allow more time with OAuth(timeout=...)",
        )

    @property
    def _method(self) -> AuthMethod | None:
        if self._how.client_key is not None:
            return "private_key_jwt"
        chosen: dict[str | None, AuthMethod] = {
            "basic": "client_secret_basic",
            "post": "client_secret_post",
        }
        return chosen.get(self._how.authenticate)

    def _description(self) -> ClientDescription:
        return ClientDescription(
            name=self._how.client_name,
            client_id=self._how.client_id,
            client_secret=self._how.client_secret,
            method=self._method,
            metadata_url=self._how.client_metadata_url,
        )


def _check_page(sender: GuardedSender, step: str, name: str, url: str, found: Discovered) -> None:
    """Make sure that a person may be sent to a page that the authorization server names."""
    try:
        sender.policy.check_url(url)
    except NoResponse as error:
        came = f"a {name} that must not be opened: {error.reason}"
        asked = found.server.url
        raise FlowFailed(step, asked=asked, came=came, hint=error.hint) from None


def _serves(client: ClientIdentity, uri: str, scopes: tuple[str, ...]) -> bool:
    """Whether a client can be used for a request, or another has to be registered."""
    is_given = not client.is_registered
    return is_given or (uri in client.redirect_uris and client.may_ask(scopes))
