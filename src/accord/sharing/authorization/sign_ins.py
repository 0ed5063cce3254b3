"""Sign-ins with identity providers in a store that several machines share.

A session lives as long as the longest of its uses, each of which is a record of its own; the index
of its uses finds them.
"""

import asyncio
from typing import Final

import msgspec

from accord.auth.authorization_server.secrets import digest
from accord.auth.authorization_server.store import StoredSession, StoredSignIn
from accord.sharing.authorization.records import SharedRecords

_SIGN_INS: Final = "auth:sign-ins"
# How many sign-ins are forgotten at once if there are too many.
_CROWDED_OUT: Final = 100
_USES_MOST: Final = 100_000


class _Session(msgspec.Struct, frozen=True):
    provider: str
    body: bytes
    expires_at: float
    busy_until: float = 0.0


class _Use(msgspec.Struct, frozen=True):
    session_id: str
    expires_at: float


class SharedSignIns:
    """Sign-ins that have begun, and the sessions of users that signed in."""

    def __init__(self, records: SharedRecords) -> None:
        self._records = records
        self._backend = records.backend

    # -- sign-ins under way

    async def add_sign_in(self, hashed: str, sign_in: StoredSignIn, most: int) -> None:
        if await self._backend.count(_SIGN_INS) >= most:
            crowd = await self._backend.members(_SIGN_INS, limit=_CROWDED_OUT)
            await asyncio.gather(*(self._backend.delete(_sign_in_at(each)) for each in crowd))
            await self._backend.remove(_SIGN_INS, crowd)
        ttl = self._records.ttl(sign_in.expires_at)
        await self._backend.add(_SIGN_INS, [hashed], ttl=ttl)
        await self._records.put(_sign_in_at(hashed), sign_in, ttl=ttl)

    async def take_sign_in(self, hashed: str, browser: str) -> StoredSignIn | None:
        found = await self._records.take(
            StoredSignIn, _sign_in_at(hashed), lambda it: it.browser == browser
        )
        if found is not None:
            await self._backend.remove(_SIGN_INS, [hashed])
        return found

    # -- sessions and their uses

    async def add(self, session: StoredSession, owner: str, expires_at: float) -> None:
        made = _Session(session.provider, session.body, expires_at)
        name = _session_at(session.session_id)
        await self._records.put(name, made, ttl=self._session_ttl(made))
        await self._use(owner, session.session_id, expires_at)

    def _session_ttl(self, session: _Session) -> float:
        return self._records.ttl(session.expires_at)

    async def _use(self, owner: str, session_id: str, expires_at: float) -> None:
        ttl = self._records.ttl(expires_at)
        await self._backend.add(_uses_of(session_id), [owner], ttl=ttl)
        await self._records.put(_use_at(owner), _Use(session_id, expires_at), ttl=ttl)

    async def share(self, owner: str, other: str, expires_at: float) -> bool:
        found = await self._records.get(_Use, _use_at(owner))
        if found is None:
            return False
        await self._extend(found.session_id, expires_at)
        await self._use(other, found.session_id, expires_at)
        return True

    async def _extend(self, session_id: str, expires_at: float) -> None:
        """Keep a session at least until a time."""

        def extend(found: _Session) -> _Session | None:
            if found.expires_at >= expires_at:
                return None
            return msgspec.structs.replace(found, expires_at=expires_at)

        name = _session_at(session_id)
        await self._records.change(_Session, name, extend, ttl=self._session_ttl)

    async def extend_use(self, owner: str, expires_at: float) -> None:
        """Keep the session of an owner at least until a time, if it uses one."""
        found = await self._records.get(_Use, _use_at(owner))
        if found is not None and found.expires_at < expires_at:
            await self._extend(found.session_id, expires_at)
            await self._use(owner, found.session_id, expires_at)

    async def end_use(self, owner: str) -> None:
        """End the use of a session; one that has no use any more is deleted."""
        found = await self._records.take(_Use, _use_at(owner), lambda _: True)
        if found is None:
            return
        await self._backend.remove(_uses_of(found.session_id), [owner])
        left = await self._records_of_uses(found.session_id)
        if not left:
            await self.delete(found.session_id)
            return
        ends = max(each.expires_at for each in left)
        await self._records.change(
            _Session,
            _session_at(found.session_id),
            lambda session: msgspec.structs.replace(session, expires_at=ends),
            ttl=self._session_ttl,
        )

    async def _records_of_uses(self, session_id: str) -> list[_Use]:
        owners = await self.owners(session_id)
        uses = await asyncio.gather(*(self._records.get(_Use, _use_at(each)) for each in owners))
        return [each for each in uses if each is not None]

    async def owners(self, session_id: str) -> list[str]:
        """Return the owners that use a session."""
        return await self._backend.members(_uses_of(session_id), limit=_USES_MOST)

    async def delete(self, session_id: str) -> None:
        """Delete a session."""
        await self._backend.delete(_session_at(session_id))

    async def find(self, session_id: str) -> StoredSession | None:
        found = await self._records.get(_Session, _session_at(session_id))
        return None if found is None else StoredSession(session_id, found.provider, found.body)

    async def find_of(self, owner: str) -> StoredSession | None:
        found = await self._records.get(_Use, _use_at(owner))
        return None if found is None else await self.find(found.session_id)

    # -- renewing

    async def claim(self, session_id: str, now: float, seconds: float) -> bool:
        is_free = False

        def claim(found: _Session) -> _Session | None:
            nonlocal is_free
            is_free = found.busy_until <= now
            return msgspec.structs.replace(found, busy_until=now + seconds) if is_free else None

        name = _session_at(session_id)
        found = await self._records.change(_Session, name, claim, ttl=self._session_ttl)
        return found is not None and is_free

    async def release(self, session_id: str) -> None:
        await self._records.change(
            _Session,
            _session_at(session_id),
            lambda found: msgspec.structs.replace(found, busy_until=0.0),
            ttl=self._session_ttl,
        )

    async def renew(self, session_id: str, body: bytes) -> None:
        await self._records.change(
            _Session,
            _session_at(session_id),
            lambda found: msgspec.structs.replace(found, body=body, busy_until=0.0),
            ttl=self._session_ttl,
        )


def _sign_in_at(hashed: str) -> str:
    return f"auth:sign-in:{hashed}"


def _session_at(session_id: str) -> str:
    return f"auth:session:{session_id}"


def _use_at(owner: str) -> str:
    return f"auth:use:{digest(owner)}"


def _uses_of(session_id: str) -> str:
    return f"auth:uses-of:{session_id}"
