"""Obtaining a token for a check, as a client does: by OAuth, asking a person where it must be."""

import time
from typing import TYPE_CHECKING, Final

import msgspec

from accord.check.probing.exchange import posted
from accord.check.probing.raw_connection import CLIENT_INFO
from accord.check.probing.subject import Subject
from accord.errors import AuthError, ConnectFailed, FlowFailed, MissingExtra
from accord.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from accord.auth import OAuth
    from accord.auth.tokens import Grant


_NEWEST: Final = [row.id for row in REVISIONS.values() if row.handshake][-1]


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What an authorization server gave for the check.

    Attributes:
        token: for the server under check.
        client_id: whom it was given to.
        lifetime: seconds that it is good for; None where nobody says.
        is_rotated: whether another refresh token came with the next one; None where there is none.
    """

    token: str
    client_id: str
    lifetime: float | None = None
    is_rotated: bool | None = None

    def __repr__(self) -> str:
        return f"Granted(client_id={self.client_id!r})"


async def obtain(subject: Subject, oauth: "OAuth | None" = None) -> Granted | None:
    """Obtain a token for a server that asks for one; None where it does not.

    Args:
        subject: the server.
        oauth: an `accord.auth.OAuth` in place of one that opens a browser; with a store of its own.

    Raises:
        ConnectFailed: the server cannot be reached, or none could be obtained.
        MissingExtra: what it takes is not installed.
    """
    try:
        from accord.auth import MemoryStore, OAuth
        from accord.transports.http_authorization import Challenge
    except ImportError:
        raise MissingExtra("auth", needed_for="obtaining a token") from None
    if oauth is None:
        oauth = OAuth(client_name="accord check", store=MemoryStore())
    challenge = await _challenge_of(subject)
    if challenge is None:
        return None
    try:
        await oauth.challenged(Challenge(url=subject.url, status=401, values=challenge))
        grant = await _stored(oauth, subject.url)
        if grant is None:
            raise FlowFailed("token", asked=subject.url, came="no token", hint="")
        # A secret that was given is not stored with the grant, and has to be shown for another.
        return await _renewed(subject.url, grant, may_ask=oauth.client_secret is None)
    except AuthError as error:
        raise ConnectFailed(f"{subject.name}: no token could be obtained: {error}") from None


async def _challenge_of(subject: Subject) -> tuple[str, ...] | None:
    params = {"protocolVersion": _NEWEST, "capabilities": {}, "clientInfo": CLIENT_INFO}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    http = msgspec.structs.replace(subject, form="http")
    async with http.line(is_judged=False) as line:
        if subject.form == "sse":
            reply = await line.carrier.request("GET", headers={"accept": "text/event-stream"})
            status, challenge = reply.status, reply.header("www-authenticate")
        else:
            heard = await posted(line, message)
            status, challenge = heard.status, heard.headers.get("www-authenticate")
    if status != 401:
        return None
    return () if challenge is None else (challenge,)


async def _stored(oauth: "OAuth", url: str) -> "Grant | None":
    from accord.auth.discovery import canonical_resource
    from accord.auth.tokens import Grant

    store = oauth.store
    assert store is not None
    name = f"server {canonical_resource(url)} {oauth.client_id or ''}".rstrip()
    key = await store.read(name)
    text = None if key is None else await store.read(key)
    return None if text is None else msgspec.json.decode(text, type=Grant)


async def _renewed(url: str, grant: "Grant", *, may_ask: bool) -> Granted:
    """Renew a token before anything rests on it: an older one may be revoked by that."""
    from accord.auth.flow import refresh
    from accord.auth.sending import AddressPolicy, GuardedSender

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
