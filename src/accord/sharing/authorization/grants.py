"""Grants, codes, refresh tokens, devices and logins in a store that several machines share.

A revoked grant is first added to the index of revoked grants, which every process reads, then
marked in its own record: if the process ends in between, the same can be done again.
"""

import asyncio
from typing import Final

import msgspec

from accord.auth.authorization_server.models import AuthorizationCode, DeviceRequest, StoredGrant
from accord.auth.authorization_server.store import (
    REPLAY_NOTICED,
    StoredRefreshToken,
    grant_owner,
    login_owner,
    parse_owner,
)
from accord.sharing.authorization.clients import SharedClients, grants_of
from accord.sharing.authorization.records import SharedRecords
from accord.sharing.authorization.sign_ins import SharedSignIns

REVOKED: Final = "auth:revoked"
"""The index of revoked grants whose tokens have not expired."""

REVOCATIONS: Final = "auth:revocations"
"""A record whose version changes with each grant that is revoked."""

_DEVICES: Final = "auth:devices"
# All machines use the clock of the store, which each reads with a small error.
_SKEW: Final = 10.0
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


class SharedGrants:
    """What users allowed, and the codes and tokens that prove it."""

    def __init__(
        self, records: SharedRecords, clients: SharedClients, sessions: SharedSignIns
    ) -> None:
        self._records = records
        self._backend = records.backend
        self._clients = clients
        self._sessions = sessions
        self._revoked: frozenset[str] = frozenset()
        self._revoked_version = -1
        self._revoked_read_at = float("-inf")

    # -- grants

    async def add(self, grant: StoredGrant, now: float, expires_at: float) -> None:
        ttl = self._records.ttl(expires_at)
        await self._records.put(_grant_at(grant.grant_id), _Grant(grant, expires_at), ttl=ttl)
        await asyncio.gather(
            self._backend.add(grants_of(grant.client_id), [grant.grant_id], ttl=ttl),
            self._clients.note_use(grant.client_id, now, expires_at),
        )

    async def find(self, grant_id: str) -> StoredGrant | None:
        found = await self._records.get(_Grant, _grant_at(grant_id))
        return None if found is None or found.revoked_at is not None else found.grant

    async def extend(self, grant: StoredGrant, now: float, expires_at: float) -> bool:
        def extend(found: _Grant) -> _Grant | None:
            if found.revoked_at is not None:
                return None
            return msgspec.structs.replace(found, expires_at=max(found.expires_at, expires_at))

        name = _grant_at(grant.grant_id)
        kept = await self._records.change(_Grant, name, extend, ttl=self._grant_ttl)
        if kept is None or kept.revoked_at is not None:
            return False
        ttl = self._grant_ttl(kept)
        await asyncio.gather(
            self._backend.add(grants_of(grant.client_id), [grant.grant_id], ttl=ttl),
            self._clients.note_use(grant.client_id, now, kept.expires_at),
            self._clients.keep_consent(grant),
            self._sessions.extend_use(grant_owner(grant.grant_id), kept.expires_at),
        )
        return True

    def _grant_ttl(self, grant: _Grant) -> float:
        return self._records.ttl(grant.expires_at)

    async def revoke(self, grant_id: str, now: float, keep_until: float) -> None:
        ttl = max(keep_until - now, 0.0) + _SKEW
        await self._backend.add(REVOKED, [grant_id], ttl=ttl)
        await self._backend.put(REVOCATIONS, b"", ttl=ttl)

        def revoke(found: _Grant) -> _Grant | None:
            if found.revoked_at is not None:
                return None
            return msgspec.structs.replace(found, revoked_at=now, expires_at=keep_until)

        kept = await self._records.change(_Grant, _grant_at(grant_id), revoke, ttl=lambda _: ttl)
        if kept is not None:
            await self._backend.add(grants_of(kept.grant.client_id), [grant_id], ttl=ttl)
        await self._sessions.end_use(grant_owner(grant_id))

    async def read_revoked(self) -> frozenset[str]:
        """Return the revoked grants; the index is read only if it has changed."""
        changed = await self._backend.get(REVOCATIONS)
        version = 0 if changed is None else changed.version
        now = self._records.now()
        if version != self._revoked_version or abs(now - self._revoked_read_at) > _REREAD:
            # After the version: what is added meanwhile changes it once more.
            members = await self._backend.members(REVOKED, limit=_REVOKED_MOST)
            self._revoked = frozenset(members)
            self._revoked_version, self._revoked_read_at = version, now
        return self._revoked

    async def end_session(self, session_id: str, now: float, keep_until: float) -> None:
        """Delete a session, log its browsers out, and revoke its grants."""
        for owner in await self._sessions.owners(session_id):
            is_login, name = parse_owner(owner)
            if is_login:
                await self.remove_login(name)
            else:
                await self.revoke(name, now, keep_until)
        await self._sessions.delete(session_id)

    # -- codes

    async def add_code(self, hashed: str, code: AuthorizationCode) -> None:
        await self._records.put(_code_at(hashed), _Code(code), ttl=self._code_ttl(_Code(code)))

    def _code_ttl(self, code: _Code) -> float:
        return self._records.ttl(code.code.expires_at + REPLAY_NOTICED)

    async def code(self, hashed: str) -> AuthorizationCode | None:
        found = await self._records.get(_Code, _code_at(hashed))
        return None if found is None else found.code

    async def use_code(self, hashed: str, now: float) -> bool:
        is_first = False

        def use(found: _Code) -> _Code | None:
            nonlocal is_first
            is_first = found.used_at is None
            return msgspec.structs.replace(found, used_at=now) if is_first else None

        found = await self._records.change(_Code, _code_at(hashed), use, ttl=self._code_ttl)
        return found is not None and is_first

    # -- refresh tokens

    async def add_refresh_token(self, hashed: str, grant_id: str, expires_at: float) -> None:
        token = StoredRefreshToken(grant_id, expires_at)
        await self._records.put(_token_at(hashed), token, ttl=self._token_ttl(token))

    def _token_ttl(self, token: StoredRefreshToken) -> float:
        return self._records.ttl(token.expires_at)

    async def refresh_token(self, hashed: str) -> StoredRefreshToken | None:
        return await self._records.get(StoredRefreshToken, _token_at(hashed))

    async def use_refresh_token(self, hashed: str, now: float) -> float | None:
        before: float | None = _LONG_AGO

        def use(found: StoredRefreshToken) -> StoredRefreshToken | None:
            nonlocal before
            before = found.used_at
            return None if before is not None else msgspec.structs.replace(found, used_at=now)

        name = _token_at(hashed)
        found = await self._records.change(StoredRefreshToken, name, use, ttl=self._token_ttl)
        return _LONG_AGO if found is None else before

    # -- devices

    async def add_device(self, hashed: str, device: DeviceRequest) -> bool:
        ttl = self._device_ttl(device)
        if not await self._records.add(_user_code_at(device.user_code), hashed, ttl=ttl):
            return False
        await self._backend.add(_DEVICES, [hashed], ttl=ttl)
        await self._records.put(_device_at(hashed), device, ttl=ttl)
        return True

    def _device_ttl(self, device: DeviceRequest) -> float:
        return self._records.ttl(device.expires_at) + _DEVICE_SLACK

    async def change_device(self, hashed: str, before: DeviceRequest, after: DeviceRequest) -> bool:
        is_changed = False

        def change(found: DeviceRequest) -> DeviceRequest | None:
            nonlocal is_changed
            is_changed = found == before
            return after if is_changed else None

        name = _device_at(hashed)
        found = await self._records.change(DeviceRequest, name, change, ttl=self._device_ttl)
        return found is not None and is_changed

    async def device(self, hashed: str) -> DeviceRequest | None:
        return await self._records.get(DeviceRequest, _device_at(hashed))

    async def device_hash(self, user_code: str) -> str | None:
        return await self._records.get(str, _user_code_at(user_code))

    async def remove_device(self, hashed: str) -> bool:
        found = await self._records.take(DeviceRequest, _device_at(hashed), lambda _: True)
        if found is None:
            return False
        await asyncio.gather(
            self._backend.delete(_user_code_at(found.user_code)),
            self._backend.remove(_DEVICES, [hashed]),
        )
        return True

    async def count_devices(self) -> int:
        return await self._backend.count(_DEVICES)

    # -- logins

    async def add_login(self, hashed: str, subject: str, expires_at: float) -> None:
        ttl = self._records.ttl(expires_at)
        await self._records.put(_login_at(hashed), _Login(subject, expires_at), ttl=ttl)

    async def login(self, hashed: str, now: float) -> str | None:
        found = await self._records.get(_Login, _login_at(hashed))
        return None if found is None or found.expires_at <= now else found.subject

    async def remove_login(self, hashed: str) -> None:
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
