"""Sign-ins with identity providers in a backend.

A session lives as long as the longest of its uses, each of which is a record of its own; the index
of its uses finds them.
"""

from typing import Final

import msgspec

from accord.auth.authorization_server.models import StoredSession, StoredSignIn
from accord.auth.authorization_server.secrets import digest
from accord.auth.authorization_server.state.records import Records, blocks

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


class SignInRecords:
    """Sign-ins that have begun, and the sessions of users that signed in."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self._backend = records.backend

    # -- sign-ins under way

    @blocks
    async def begin(self, hashed: str, sign_in: StoredSignIn, *, most: int) -> None:
        """Store a sign-in that begins; if there are too many, some others are forgotten."""
        if await self._backend.count(_SIGN_INS) >= most:
            crowd = await self._backend.members(_SIGN_INS, limit=_CROWDED_OUT)
            await self.records.gather(*(self._backend.delete(_sign_in_at(each)) for each in crowd))
            await self._backend.remove(_SIGN_INS, crowd)
        ttl = self.records.ttl(sign_in.expires_at)
        await self._backend.add(_SIGN_INS, [hashed], ttl=ttl)
        await self.records.put(_sign_in_at(hashed), sign_in, ttl=ttl)

    @blocks
    async def take(self, hashed: str, browser: str) -> StoredSignIn | None:
        """Return a sign-in of this browser once; None for any other, which stays."""
        found = await self.records.take(
            StoredSignIn, _sign_in_at(hashed), lambda it: it.browser == browser
        )
        if found is not None:
            await self._backend.remove(_SIGN_INS, [hashed])
        return found

    # -- sessions and their uses

    @blocks
    async def add(self, session: StoredSession, owner: str, *, expires_at: float) -> None:
        """Store a session that an owner uses, until a time at least.

        A session that has no use any more is deleted.
        """
        made = _Session(session.provider, session.body, expires_at)
        name = _session_at(session.session_id)
        await self.records.put(name, made, ttl=self._session_ttl(made))
        await self._use(owner, session.session_id, expires_at)

    def _session_ttl(self, session: _Session) -> float:
        return self.records.ttl(session.expires_at)

    async def _use(self, owner: str, session_id: str, expires_at: float) -> None:
        ttl = self.records.ttl(expires_at)
        await self._backend.add(_uses_of(session_id), [owner], ttl=ttl)
        await self.records.put(_use_at(owner), _Use(session_id, expires_at), ttl=ttl)

    @blocks
    async def share(self, owner: str, other: str, *, expires_at: float) -> bool:
        """Let another owner use the session of an owner; false if there is no such session."""
        found = await self.records.get(_Use, _use_at(owner))
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
        await self.records.change(_Session, name, extend, ttl=self._session_ttl)

    async def extend_use(self, owner: str, expires_at: float) -> None:
        """Keep the session of an owner at least until a time, if it uses one."""
        found = await self.records.get(_Use, _use_at(owner))
        if found is not None and found.expires_at < expires_at:
            await self._extend(found.session_id, expires_at)
            await self._use(owner, found.session_id, expires_at)

    async def end_use(self, owner: str) -> None:
        """End the use of a session; one that has no use any more is deleted."""
        found = await self.records.take(_Use, _use_at(owner), lambda _: True)
        if found is None:
            return
        await self._backend.remove(_uses_of(found.session_id), [owner])
        left = await self._records_of_uses(found.session_id)
        if not left:
            await self.delete(found.session_id)
            return
        ends = max(each.expires_at for each in left)
        await self.records.change(
            _Session,
            _session_at(found.session_id),
            lambda session: msgspec.structs.replace(session, expires_at=ends),
            ttl=self._session_ttl,
        )

    async def _records_of_uses(self, session_id: str) -> list[_Use]:
        owners = await self.owners(session_id)
        uses = await self.records.gather(
            *(self.records.get(_Use, _use_at(each)) for each in owners)
        )
        return [each for each in uses if each is not None]

    async def owners(self, session_id: str) -> list[str]:
        """Return the owners that use a session."""
        return await self._backend.members(_uses_of(session_id), limit=_USES_MOST)

    async def delete(self, session_id: str) -> None:
        """Delete a session."""
        await self._backend.delete(_session_at(session_id))

    @blocks
    async def find(self, session_id: str) -> StoredSession | None:
        """Return a session."""
        return await self._find(session_id)

    async def _find(self, session_id: str) -> StoredSession | None:
        found = await self.records.get(_Session, _session_at(session_id))
        return None if found is None else StoredSession(session_id, found.provider, found.body)

    @blocks
    async def find_of(self, owner: str) -> StoredSession | None:
        """Return the session that an owner uses."""
        found = await self.records.get(_Use, _use_at(owner))
        return None if found is None else await self._find(found.session_id)

    # -- renewing

    @blocks
    async def claim(self, session_id: str, now: float, seconds: float) -> bool:
        """Reserve the renewal of a session for a while; false if another process has it."""
        is_free = False

        def claim(found: _Session) -> _Session | None:
            nonlocal is_free
            is_free = found.busy_until <= now
            return msgspec.structs.replace(found, busy_until=now + seconds) if is_free else None

        name = _session_at(session_id)
        found = await self.records.change(_Session, name, claim, ttl=self._session_ttl)
        return found is not None and is_free

    @blocks
    async def release(self, session_id: str) -> None:
        """End the reservation of a session."""
        await self.records.change(
            _Session,
            _session_at(session_id),
            lambda found: msgspec.structs.replace(found, busy_until=0.0),
            ttl=self._session_ttl,
        )

    @blocks
    async def renew(self, session_id: str, body: bytes) -> None:
        """Store the new body of a session, and end its reservation."""
        await self.records.change(
            _Session,
            _session_at(session_id),
            lambda found: msgspec.structs.replace(found, body=body, busy_until=0.0),
            ttl=self._session_ttl,
        )


def login_owner(hashed: str) -> str:
    """Return the name under which a login uses an upstream session."""
    return f"login {hashed}"


def grant_owner(grant_id: str) -> str:
    """Return the name under which a grant uses an upstream session."""
    return f"grant {grant_id}"


def parse_owner(owner: str) -> tuple[bool, str]:
    """Return whether an owner is a login, and the hash of the login or the id of the grant."""
    kind, _, name = owner.partition(" ")
    return kind == "login", name


def _sign_in_at(hashed: str) -> str:
    return f"auth:sign-in:{hashed}"


def _session_at(session_id: str) -> str:
    return f"auth:session:{session_id}"


def _use_at(owner: str) -> str:
    return f"auth:use:{digest(owner)}"


def _uses_of(session_id: str) -> str:
    return f"auth:uses-of:{session_id}"
