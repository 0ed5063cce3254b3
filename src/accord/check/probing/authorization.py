"""Obtains a token for a check by OAuth, as a client does; the user may have to sign in."""

import time
from typing import TYPE_CHECKING, Final

import msgspec

from accord.check.probing.exchange import post_message
from accord.check.probing.raw_connection import CLIENT_INFO
from accord.check.probing.target import ServerTarget
from accord.errors import AuthError, ConnectFailed, FlowFailed, MissingExtra
from accord.protocol.revisions import SPOKEN, newest

if TYPE_CHECKING:
    from accord.auth import OAuth
    from accord.auth.tokens import TokenGrant


_NEWEST: Final = newest(SPOKEN)


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """The token that an authorization server issued for the check.

    Attributes:
        token: for the server under check.
        client_id: of the client it was issued to.
        lifetime: seconds until it expires; None if unknown.
        is_rotated: whether refreshing it issued a new refresh token; None if it has none.
    """

    token: str
    client_id: str
    lifetime: float | None = None
    is_rotated: bool | None = None

    def __repr__(self) -> str:
        return f"Granted(client_id={self.client_id!r})"


async def obtain(target: ServerTarget, oauth: "OAuth | None" = None) -> Granted | None:
    """Obtain a token for a server that asks for one; return None if it does not.

    Args:
        target: the server.
        oauth: used in place of one that opens a browser; has its own store.

    Raises:
        ConnectFailed: the server cannot be reached, or no token could be obtained.
        MissingExtra: the auth extra is not installed.
    """
    try:
        from accord.auth import MemoryStore, OAuth
        from accord.transports.http.client.auth import Challenge
    except ImportError:
        raise MissingExtra("auth", needed_for="obtaining a token") from None
    if oauth is None:
        oauth = OAuth(client_name="accord check", store=MemoryStore())
    challenge = await _get_challenge(target)
    if challenge is None:
        return None
    try:
        await oauth.challenged(Challenge(url=target.url, status=401, values=challenge))
        grant = await _read_grant(oauth, target.url)
        if grant is None:
            raise FlowFailed("token", asked=target.url, came="no token", hint="")
        # A given secret is not stored with the grant, so it cannot be refreshed here.
        return await _refresh(target.url, grant, may_ask=oauth.client_secret is None)
    except AuthError as error:
        raise ConnectFailed(f"{target.name}: no token could be obtained: {error}") from None


async def _get_challenge(target: ServerTarget) -> tuple[str, ...] | None:
    params = {"protocolVersion": _NEWEST, "capabilities": {}, "clientInfo": CLIENT_INFO}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    http = msgspec.structs.replace(target, form="http")
    async with http.connection(is_judged=False) as connection:
        if target.form == "sse":
            reply = await connection.carrier.request("GET", headers={"accept": "text/event-stream"})
            status, challenge = reply.status, reply.header("www-authenticate")
        else:
            heard = await post_message(connection, message)
            status, challenge = heard.status, heard.headers.get("www-authenticate")
    if status != 401:
        return None
    return () if challenge is None else (challenge,)


async def _read_grant(oauth: "OAuth", url: str) -> "TokenGrant | None":
    from accord.auth.tokens import TokenGrant
    from accord.auth.urls import canonical_resource

    store = oauth.store
    assert store is not None
    name = f"server {canonical_resource(url)} {oauth.client_id or ''}".rstrip()
    key = await store.read(name)
    text = None if key is None else await store.read(key)
    return None if text is None else msgspec.json.decode(text, type=TokenGrant)


async def _refresh(url: str, grant: "TokenGrant", *, may_ask: bool) -> Granted:
    """Refresh a token before the check uses it, because that may revoke the older one."""
    from accord.auth.flow import refresh
    from accord.transports.http.client.guarded import AddressPolicy, GuardedSender

    is_rotated = None
    lifetime = grant.lifetime if grant.expires_at is not None else None
    if may_ask and grant.refresh_token is not None and grant.client.client_secret is None:
        try:
            newer = await GuardedSender(AddressPolicy.beside(url)).run(refresh(grant, time.time()))
        except FlowFailed:
            pass
        else:
            is_rotated = newer.refresh_token != grant.refresh_token
            grant = newer
    return Granted(
        token=grant.access_token,
        client_id=grant.client.client_id,
        lifetime=lifetime,
        is_rotated=is_rotated,
    )
