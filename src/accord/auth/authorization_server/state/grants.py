"""Grants, codes, refresh tokens, devices and logins in a backend.

A revoked grant is first added to the index of revoked grants, which every process reads, then
marked in its own record: if the process ends in between, the same can be done again.
"""

from typing import Final

import msgspec

from accord.auth.authorization_server.models import (
    AuthorizationCode,
    DeviceRequest,
    StoredGrant,
    StoredRefreshToken,
)
from accord.auth.authorization_server.state.clients import ClientRecords, grants_of
from accord.auth.authorization_server.state.records import Records, blocks
from accord.auth.authorization_server.state.sign_ins import (
    SignInRecords,
    grant_owner,
    login_owner,
    parse_owner,
)

REVOKED: Final = "auth:revoked"
"""The index of revoked grants whose tokens have not expired."""

REVOCATIONS: Final = "auth:revocations"
"""A record whose version changes with each grant that is revoked."""

REPLAY_NOTICED: Final = 3600.0
"""Seconds that used codes are kept longer, to tell a replay from an unknown code."""

_DEVICES: Final = "auth:devices"
# All machines use the clock of the store, which each reads with a small error.
_SKEW: Final = 10.0
# How often the end of a grant is moved within its time to live, at most.
_NOTES: Final = 200
# So long after its end, a device still learns that it has expired.
_DEVICE_SLACK: Final = 60.0
# How many revoked grants are read; each process keeps them in memory.
_REVOKED_MOST: Final = 1_000_000
# Seconds after which the index is read again although nothing has changed.
_REREAD: Final = 60.0
_LONG_AGO: Final = 0.0


class _Grant(msgspec.Struct, frozen=True):
    grant: StoredGrant
    expires_at: float
    revoked_at: float | None = None


class _Code(msgspec.Struct, frozen=True):
    code: AuthorizationCode
    used_at: float | None = None


class _Login(msgspec.Struct, frozen=True):
    subject: str
    expires_at: float


class GrantRecords:
    """What users allowed, and the codes and tokens that prove it."""

    def __init__(self, records: Records, clients: ClientRecords, sessions: SignInRecords) -> None:
        self.records = records
        self._backend = records.backend
        self._clients = clients
        self._sessions = sessions
        self._revoked: frozenset[str] = frozenset()
        self._revoked_version = -1
        self._revoked_read_at = float("-inf")

    # -- grants

    @blocks
    async def add(self, grant: StoredGrant, *, now: float, expires_at: float) -> None:
        """Store a grant, and note that its client was used."""
        ttl = self.records.ttl(expires_at)
        await self.records.put(_grant_at(grant.grant_id), _Grant(grant, expires_at), ttl=ttl)
        await self.records.gather(
            self._backend.add(grants_of(grant.client_id), [grant.grant_id], ttl=ttl),
            self._clients.note_use(grant.client_id, now, expires_at),
        )

    @blocks
    async def find(self, grant_id: str) -> StoredGrant | None:
        """Return a grant that is not revoked."""
        found = await self.records.get(_Grant, _grant_at(grant_id))
        return None if found is None or found.revoked_at is not None else found.grant

    @blocks
    async def extend(self, grant: StoredGrant, *, now: float, expires_at: float) -> bool:
        """Keep a grant at least until a time, and note that it was used; false if it is revoked."""
        # For longer than was asked for, so that most calls need not write anything.
        longer = expires_at + (expires_at - now) / _NOTES
        is_long_enough = True

        def extend(found: _Grant) -> _Grant | None:
            nonlocal is_long_enough
            is_long_enough = found.expires_at >= expires_at
            if found.revoked_at is not None or is_long_enough:
                return None
            return msgspec.structs.replace(found, expires_at=longer)

        name = _grant_at(grant.grant_id)
        kept = await self.records.change(_Grant, name, extend, ttl=self._grant_ttl)
        if kept is None or kept.revoked_at is not None:
            return False
        if is_long_enough:
            return True
        ttl = self._grant_ttl(kept)
        await self.records.gather(
            self._backend.add(grants_of(grant.client_id), [grant.grant_id], ttl=ttl),
            self._clients.note_use(grant.client_id, now, kept.expires_at),
            self._clients.keep_consent(grant),
            self._sessions.extend_use(grant_owner(grant.grant_id), kept.expires_at),
        )
        return True

    def _grant_ttl(self, grant: _Grant) -> float:
        return self.records.ttl(grant.expires_at)

    @blocks
    async def revoke(self, grant_id: str, now: float, *, keep_until: float) -> None:
        """Revoke a grant and its tokens; it is forgotten once they have expired."""
        await self._revoke(grant_id, now, keep_until)

    async def _revoke(self, grant_id: str, now: float, keep_until: float) -> None:
        ttl = max(keep_until - now, 0.0) + _SKEW
        await self._backend.add(REVOKED, [grant_id], ttl=ttl)
        await self._backend.put(REVOCATIONS, b"", ttl=ttl)

        def revoke(found: _Grant) -> _Grant | None:
            if found.revoked_at is not None:
                return None
            return msgspec.structs.replace(found, revoked_at=now, expires_at=keep_until)

        kept = await self.records.change(_Grant, _grant_at(grant_id), revoke, ttl=lambda _: ttl)
        if kept is not None:
            await self._backend.add(grants_of(kept.grant.client_id), [grant_id], ttl=ttl)
        await self._sessions.end_use(grant_owner(grant_id))

    @blocks
    async def read_revoked(self) -> frozenset[str]:
        """Return the ids of revoked grants with tokens that have not expired yet.

        The index is read only if it has changed.
        """
        changed = await self._backend.get(REVOCATIONS)
        version = 0 if changed is None else changed.version
        now = self.records.now()
        if version != self._revoked_version or abs(now - self._revoked_read_at) > _REREAD:
            # After the version: what is added meanwhile changes it once more.
            members = await self._backend.members(REVOKED, limit=_REVOKED_MOST)
            self._revoked = frozenset(members)
            self._revoked_version, self._revoked_read_at = version, now
        return self._revoked

    @blocks
    async def end_session(self, session_id: str, now: float, *, keep_until: float) -> None:
        """Delete a session, log its browsers out, and revoke its grants."""
        for owner in await self._sessions.owners(session_id):
            is_login, name = parse_owner(owner)
            if is_login:
                await self._remove_login(name)
            else:
                await self._revoke(name, now, keep_until)
        await self._sessions.delete(session_id)

    # -- codes

    @blocks
    async def add_code(self, hashed: str, code: AuthorizationCode) -> None:
        await self.records.put(_code_at(hashed), _Code(code), ttl=self._code_ttl(_Code(code)))

    def _code_ttl(self, code: _Code) -> float:
        return self.records.ttl(code.code.expires_at + REPLAY_NOTICED)

    @blocks
    async def find_code(self, hashed: str) -> AuthorizationCode | None:
        """Return the record of a code, used or not."""
        found = await self.records.get(_Code, _code_at(hashed))
        return None if found is None else found.code

    @blocks
    async def use_code(self, hashed: str, now: float) -> bool:
        """Mark a code as used; false if it was used before."""
        is_first = False

        def use(found: _Code) -> _Code | None:
            nonlocal is_first
            is_first = found.used_at is None
            return msgspec.structs.replace(found, used_at=now) if is_first else None

        found = await self.records.change(_Code, _code_at(hashed), use, ttl=self._code_ttl)
        return found is not None and is_first

    # -- refresh tokens

    @blocks
    async def add_refresh_token(self, hashed: str, grant_id: str, expires_at: float) -> None:
        token = StoredRefreshToken(grant_id, expires_at)
        await self.records.put(_token_at(hashed), token, ttl=self._token_ttl(token))

    def _token_ttl(self, token: StoredRefreshToken) -> float:
        return self.records.ttl(token.expires_at)

    @blocks
    async def find_refresh_token(self, hashed: str) -> StoredRefreshToken | None:
        """Return what is stored of a refresh token, used or not."""
        return await self.records.get(StoredRefreshToken, _token_at(hashed))

    @blocks
    async def use_refresh_token(self, hashed: str, now: float) -> float | None:
        """Mark a refresh token as used; return when that was done before, None for the first use.

        A token that is not stored any more counts as used long ago.
        """
        before: float | None = _LONG_AGO

        def use(found: StoredRefreshToken) -> StoredRefreshToken | None:
            nonlocal before
            before = found.used_at
            return None if before is not None else msgspec.structs.replace(found, used_at=now)

        name = _token_at(hashed)
        found = await self.records.change(StoredRefreshToken, name, use, ttl=self._token_ttl)
        return _LONG_AGO if found is None else before

    # -- devices

    @blocks
    async def add_device(self, hashed: str, device: DeviceRequest) -> bool:
        """Store the request of a device; false if another one shows the same user code."""
        ttl = self._device_ttl(device)
        if not await self.records.add(_user_code_at(device.user_code), hashed, ttl=ttl):
            return False
        await self._backend.add(_DEVICES, [hashed], ttl=ttl)
        await self.records.put(_device_at(hashed), device, ttl=ttl)
        return True

    def _device_ttl(self, device: DeviceRequest) -> float:
        return self.records.ttl(device.expires_at) + _DEVICE_SLACK

    @blocks
    async def change_device(self, hashed: str, before: DeviceRequest, after: DeviceRequest) -> bool:
        """Store the new state of a device; false if its state is another than the caller knows."""
        is_changed = False

        def change(found: DeviceRequest) -> DeviceRequest | None:
            nonlocal is_changed
            is_changed = found == before
            return after if is_changed else None

        name = _device_at(hashed)
        found = await self.records.change(DeviceRequest, name, change, ttl=self._device_ttl)
        return found is not None and is_changed

    @blocks
    async def find_device(self, hashed: str) -> DeviceRequest | None:
        return await self.records.get(DeviceRequest, _device_at(hashed))

    @blocks
    async def find_device_of(self, user_code: str) -> str | None:
        """Return the hashed code of the device that shows a user code."""
        return await self.records.get(str, _user_code_at(user_code))

    @blocks
    async def remove_device(self, hashed: str) -> bool:
        """Delete the request of a device; false if it is gone already."""
        found = await self.records.take(DeviceRequest, _device_at(hashed), lambda _: True)
        if found is None:
            return False
        await self.records.gather(
            self._backend.delete(_user_code_at(found.user_code)),
            self._backend.remove(_DEVICES, [hashed]),
        )
        return True

    @blocks
    async def count_devices(self) -> int:
        return await self._backend.count(_DEVICES)

    # -- logins

    @blocks
    async def add_login(self, hashed: str, subject: str, expires_at: float) -> None:
        """Store the user of a browser."""
        ttl = self.records.ttl(expires_at)
        await self.records.put(_login_at(hashed), _Login(subject, expires_at), ttl=ttl)

    @blocks
    async def find_login(self, hashed: str, now: float) -> str | None:
        """Return the user of a browser; None if the login has expired."""
        found = await self.records.get(_Login, _login_at(hashed))
        return None if found is None or found.expires_at <= now else found.subject

    @blocks
    async def remove_login(self, hashed: str) -> None:
        """Log a browser out."""
        await self._remove_login(hashed)

    async def _remove_login(self, hashed: str) -> None:
        await self._backend.delete(_login_at(hashed))
        await self._sessions.end_use(login_owner(hashed))


def _grant_at(grant_id: str) -> str:
    return f"auth:grant:{grant_id}"


def _code_at(hashed: str) -> str:
    return f"auth:code:{hashed}"


def _token_at(hashed: str) -> str:
    return f"auth:refresh:{hashed}"


def _device_at(hashed: str) -> str:
    return f"auth:device:{hashed}"


def _user_code_at(user_code: str) -> str:
    return f"auth:user-code:{user_code[:64]}"


def _login_at(hashed: str) -> str:
    return f"auth:login:{hashed}"
