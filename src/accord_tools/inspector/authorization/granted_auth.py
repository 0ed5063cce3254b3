"""The token of a walk as the authorization of a connection."""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from accord.auth.flow import refresh
from accord.errors import FlowFailed
from accord.http.client.auth import Challenge
from accord.http.client.guarded import AddressPolicy, GuardedSender

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.auth.client_identity import DpopKey
    from accord.auth.oauth import OAuth
    from accord.auth.tokens import TokenGrant


class GrantedAuth:
    """Sends the token of one grant, renewed when it is due; never asks for another grant.

    Args:
        settings: of the client that the token was granted to.
        grant: the token; None sends requests without one.
        on_renewed: called with the old and the new grant.
    """

    def __init__(
        self,
        settings: "OAuth",
        grant: "TokenGrant | None",
        on_renewed: "Callable[[TokenGrant, TokenGrant], object]" = lambda _old, _new: None,
    ) -> None:
        self._settings = settings
        self.grant = grant
        self._on_renewed = on_renewed
        self._turn = asyncio.Lock()

    @property
    def prover(self) -> "DpopKey | None":
        """What proves the possession of a token that is bound to a key."""
        return self._settings.dpop

    async def token(self, resource_url: str) -> str | None:
        """Return the token, renewed if it is due."""
        # A refresh token works once: requests that come together renew together.
        async with self._turn:
            grant = self.grant
            if grant is None:
                return None
            if grant.refresh_token is not None and grant.is_due(time.time()):
                # If it fails, the server refuses the old one, and says why.
                with contextlib.suppress(FlowFailed):
                    grant = self.grant = await self._renew(grant, resource_url)
            return grant.access_token

    async def _renew(self, grant: "TokenGrant", resource_url: str) -> "TokenGrant":
        settings = self._settings
        policy = AddressPolicy.beside(resource_url, settings.trust)
        sender = GuardedSender(policy, tls=settings.tls, proxy=settings.proxy)
        flow = refresh(grant, time.time(), key=settings.client_key, dpop=settings.dpop)
        renewed = await sender.run(flow)
        self._on_renewed(grant, renewed)
        return renewed

    async def challenged(self, challenge: Challenge) -> bool:
        """Refuse to obtain another token: that is what the walk is for."""
        return False
