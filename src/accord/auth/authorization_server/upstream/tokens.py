"""Fresh tokens of identity providers, for tools that call their APIs."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.auth.authorization_server.upstream.provider import UpstreamFault, UpstreamProvider
from accord.auth.authorization_server.upstream.sessions import (
    FoundSession,
    UpstreamSession,
    UpstreamSessions,
)
from accord.errors import SignInRequired, StoreError, StoreUnavailable, UpstreamFailed

if TYPE_CHECKING:
    from accord.auth.authorization_server.endpoints import Endpoints

log = logging.getLogger("accord.auth")

# Longer than a request to a provider may take: a process that died in between blocks no longer.
_LEASE: Final = 30.0
_POLL: Final = 0.1
# Seconds between attempts to store renewed tokens; together shorter than the lease.
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)


class UpstreamAccount:
    """The account of a user at their identity provider: what `ctx.principal.upstream` is.

    Attributes:
        provider: the name of the provider.
        claims: what the provider said of the user when they signed in.
    """

    def __init__(
        self, accounts: "UpstreamAccounts", grant_id: str, provider: str, claims: Mapping[str, Any]
    ) -> None:
        self._accounts = accounts
        self._grant_id = grant_id
        self.provider = provider
        self.claims = claims

    def __repr__(self) -> str:
        return f"<UpstreamAccount at {self.provider!r}>"

    async def token(self, *, refused: str | None = None) -> str:
        """Return an access token for the API of the provider, renewed if it is about to expire.

        Args:
            refused: a token that the API refused although it has not expired: another one is
                obtained.

        Raises:
            SignInRequired: the provider gives no token any more; the next request of the program
                is answered with 401, so that it asks the user to sign in.
            UpstreamFailed: the provider gives none at the moment.
        """
        return await self._accounts.token(self._grant_id, self.provider, refused)


class UpstreamAccounts:
    """Hands out the tokens of all sessions, and renews each once for all that wait.

    Args:
        endpoints: opens the store when it is first called.
        providers: by name.
        revoked: is called when a grant was revoked here.
    """

    def __init__(
        self,
        endpoints: "Callable[[], Endpoints]",
        providers: Mapping[str, UpstreamProvider],
        revoked: Callable[[], None],
    ) -> None:
        self._endpoints = endpoints
        self._providers = providers
        self._revoked = revoked
        self._renewing: dict[
            tuple[asyncio.AbstractEventLoop, str], asyncio.Task[UpstreamSession]
        ] = {}

    def account(self, grant_id: str) -> UpstreamAccount | None:
        """Return the account behind a grant; None if its session has ended. Blocks."""
        found = self._sessions.of_grant(grant_id)
        if found is None or found.session is None:
            return None
        return UpstreamAccount(self, grant_id, found.provider, found.session.user.claims)

    @property
    def _sessions(self) -> UpstreamSessions:
        return self._endpoints().sessions

    async def token(self, grant_id: str, provider: str, refused: str | None) -> str:
        """Return an access token that is not about to expire."""
        try:
            found = await asyncio.to_thread(lambda: self._sessions.of_grant(grant_id))
            if found is None or found.session is None or provider not in self._providers:
                raise self._sign_in_again(provider)
            if not _is_due(found.session, refused):
                return found.session.tokens.access_token
            return (await self._renew(found, refused)).tokens.access_token
        except StoreError as error:
            log.warning("the sign-in of a user cannot be read: %s", error)
            why = "the sign-in of the user cannot be read at the moment; try again later"
            raise UpstreamFailed(why, provider=provider) from None

    async def _renew(self, found: FoundSession, refused: str | None) -> UpstreamSession:
        """Wait for a renewal, begun here or by another caller."""
        loop = asyncio.get_running_loop()
        here = (loop, found.id)
        task = self._renewing.get(here)
        if task is None:
            task = loop.create_task(self._renew_once(found, refused), name="accord-upstream")
            self._renewing[here] = task
            task.add_done_callback(lambda done: self._end_renewal(here, done))
        # It is finished in any case: a new refresh token would be lost otherwise.
        return await asyncio.shield(task)

    def _end_renewal(
        self,
        here: tuple[asyncio.AbstractEventLoop, str],
        task: "asyncio.Task[UpstreamSession]",
    ) -> None:
        self._renewing.pop(here, None)
        if not task.cancelled():
            task.exception()  # read: it is raised for the callers that wait

    async def _renew_once(self, found: FoundSession, refused: str | None) -> UpstreamSession:
        is_claimed = await self._wait_for_claim(found.id)
        try:
            current = await asyncio.to_thread(lambda: self._sessions.find(found.id))
            if current is None or current.session is None:
                raise self._sign_in_again(found.provider)
            session = current.session
            if _is_due(session, refused):
                session = await self._refresh(current, session)
                await self._keep(current, session)
                is_claimed = False
        finally:
            if is_claimed:
                with suppress(StoreError):  # it ends by itself
                    await asyncio.to_thread(lambda: self._sessions.release(found.id))
        return session

    async def _wait_for_claim(self, session_id: str) -> bool:
        """Reserve the renewal; false if that takes too long."""
        ends = time.monotonic() + _LEASE
        while not await asyncio.to_thread(lambda: self._claim(session_id)):
            # Another process renews it; two requests with one refresh token look like a theft.
            await asyncio.sleep(_POLL)
            if time.monotonic() > ends:
                return False
        return True

    def _claim(self, session_id: str) -> bool:
        """Reserve the renewal; also true if the session has ended, which is found afterwards."""
        endpoints = self._endpoints()
        sessions, now = endpoints.sessions, endpoints.store.now()
        return sessions.claim(session_id, now, _LEASE) or sessions.find(session_id) is None

    async def _keep(self, found: FoundSession, session: UpstreamSession) -> None:
        """Store renewed tokens, also if the store is away for a moment: they would be lost."""
        for pause in _PAUSES:
            try:
                await asyncio.to_thread(lambda: self._sessions.renew(found, session))
            except StoreUnavailable:
                await asyncio.sleep(pause)
            else:
                return
        await asyncio.to_thread(lambda: self._sessions.renew(found, session))

    async def _refresh(self, found: FoundSession, session: UpstreamSession) -> UpstreamSession:
        provider = self._providers[found.provider]
        if session.tokens.refresh_token is None:
            log.info("identity provider %s gave no refresh token: sign-in ends", found.provider)
            await self._end(found)
            raise self._sign_in_again(found.provider)
        try:
            tokens = await provider.refresh(session.tokens, session.user.id)
        except UpstreamFault as fault:
            log.warning("%s", fault)
            if fault.is_final:
                await self._end(found)
                raise self._sign_in_again(found.provider) from None
            title = provider.upstream.title
            raise UpstreamFailed(
                f"{title} gives no token at the moment; try again later", provider=found.provider
            ) from None
        return msgspec.structs.replace(
            session, tokens=msgspec.structs.replace(tokens, id_token=None)
        )

    async def _end(self, found: FoundSession) -> None:
        await asyncio.to_thread(lambda: self._endpoints().end_session(found.id))
        self._revoked()

    def _sign_in_again(self, name: str) -> SignInRequired:
        provider = self._providers.get(name)
        title = name if provider is None else provider.upstream.title
        return SignInRequired(
            f"the sign-in with {title} has ended: sign in again; this program is asked to do so "
            "with its next request",
            provider=name,
        )


def _is_due(session: UpstreamSession, refused: str | None) -> bool:
    tokens = session.tokens
    return tokens.access_token == refused or tokens.is_due(time.time())
