"""The state of the authorization server in a store that several machines share.

Its operations block, like those of the SQLite store: they run on the event loop of the store, and
the thread that calls waits. There are no transactions and no locks: see `store` for the order of
writes.
"""

import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeVar

import msgspec

from accord.auth.authorization_server.models import (
    AuthorizationCode,
    DeviceRequest,
    RegisteredClient,
    StoredGrant,
)
from accord.auth.authorization_server.store import (
    StoredKey,
    StoredRefreshToken,
    StoredSession,
    StoredSignIn,
)
from accord.auth.authorization_server.threads import LoopCalls
from accord.errors import Conflict, StoreUnavailable
from accord.sharing.authorization.clients import SharedClients
from accord.sharing.authorization.grants import SharedGrants
from accord.sharing.authorization.records import (
    SharedAttempts,
    SharedRecords,
    decode_record,
)
from accord.sharing.authorization.sign_ins import SharedSignIns
from accord.sharing.backends.backend import Backend

T = TypeVar("T")

_KEYS: Final = "auth:keys"
# What the server itself needs outlives pauses of a year.
_OWN_TTL: Final = 400 * 86_400.0
_RENEW: Final = 6 * 3600.0
# Seconds for which keys that were read count while the store does not answer.
_STALE_MOST: Final = 30.0


class SharedAuthorizationStore:
    """The state of an authorization server, as `AuthorizationStore`.

    Args:
        backend: an open store.
        calls: runs coroutines on the loop of the store.
        client_ttl: seconds after which a registered client without a grant is forgotten.
        clock: returns seconds since 1970; by default the clock of the store.
        on_close: called by `close`.
    """

    def __init__(
        self,
        backend: Backend,
        calls: LoopCalls,
        *,
        client_ttl: float,
        clock: Callable[[], float] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._backend = backend
        self._calls = calls
        self._clock = clock
        self._on_close = on_close
        # By how much the clock of the store is ahead of this machine's.
        self._ahead = 0.0
        records = self._records = SharedRecords(backend, self.now)
        self._clients = SharedClients(records, client_ttl)
        self._sessions = SharedSignIns(records)
        self._grants = SharedGrants(records, self._clients, self._sessions)
        self._known_keys: list[StoredKey] = []
        self._keys_read_at = self._renewed_at = float("-inf")
        self._secrets: set[str] = set()
        self._run(self._compare_clocks())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._calls.run(work)

    def close(self) -> None:
        if self._on_close is not None:
            self._on_close()

    def leave_to_parent(self) -> None:
        """Do nothing: its thread and its connections stay behind."""

    def now(self) -> float:
        return time.time() + self._ahead if self._clock is None else self._clock()

    async def _compare_clocks(self) -> None:
        if self._clock is None:
            before = time.time()
            found = await self._backend.now()
            self._ahead = found - (before + time.time()) / 2

    def transaction(self) -> AbstractContextManager[None]:
        return nullcontext()

    def attempts(self, name: str, *, limit: int, window: float) -> "BlockingAttempts":
        attempts = SharedAttempts(self._records, name.replace(" ", "-"), limit, window)
        return BlockingAttempts(attempts, self._calls)

    # -- clients

    def client(self, client_id: str) -> RegisteredClient | None:
        return self._run(self._clients.find(client_id))

    def add_client(self, client: RegisteredClient) -> None:
        self._run(self._clients.add(client))

    def update_client(self, client: RegisteredClient) -> bool:
        return self._run(self._clients.update(client))

    def count_clients(self) -> int:
        return self._run(self._clients.count())

    def forget_idle_clients(self, before: float) -> None:
        """Do nothing: clients that are not used expire."""

    def forget_idle_client(self, *, never_used_before: float | None = None) -> bool:
        return self._run(self._clients.forget_idle(never_used_before))

    # -- grants, codes and refresh tokens

    def add_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> None:
        self._run(self._grants.add(grant, now, expires_at))

    def grant(self, grant_id: str) -> StoredGrant | None:
        return self._run(self._grants.find(grant_id))

    def extend_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> bool:
        return self._run(self._grants.extend(grant, now, expires_at))

    def revoke(self, grant_id: str, now: float, *, keep_until: float) -> None:
        self._run(self._grants.revoke(grant_id, now, keep_until))

    def revoked_grants(self) -> frozenset[str]:
        return self._run(self._grants.read_revoked())

    def add_code(self, hashed: str, code: AuthorizationCode) -> None:
        self._run(self._grants.add_code(hashed, code))

    def code(self, hashed: str) -> AuthorizationCode | None:
        return self._run(self._grants.code(hashed))

    def use_code(self, hashed: str, now: float) -> bool:
        return self._run(self._grants.use_code(hashed, now))

    def add_refresh_token(self, hashed: str, grant_id: str, expires_at: float) -> None:
        self._run(self._grants.add_refresh_token(hashed, grant_id, expires_at))

    def refresh_token(self, hashed: str) -> StoredRefreshToken | None:
        return self._run(self._grants.refresh_token(hashed))

    def use_refresh_token(self, hashed: str, now: float) -> float | None:
        return self._run(self._grants.use_refresh_token(hashed, now))

    # -- devices

    def add_device(self, hashed: str, device: DeviceRequest) -> bool:
        return self._run(self._grants.add_device(hashed, device))

    def change_device(self, hashed: str, before: DeviceRequest, after: DeviceRequest) -> bool:
        return self._run(self._grants.change_device(hashed, before, after))

    def device(self, hashed: str) -> DeviceRequest | None:
        return self._run(self._grants.device(hashed))

    def device_hash(self, user_code: str) -> str | None:
        return self._run(self._grants.device_hash(user_code))

    def remove_device(self, hashed: str) -> bool:
        return self._run(self._grants.remove_device(hashed))

    def count_devices(self) -> int:
        return self._run(self._grants.count_devices())

    # -- users

    def add_login(self, hashed: str, subject: str, expires_at: float) -> None:
        self._run(self._grants.add_login(hashed, subject, expires_at))

    def login(self, hashed: str, now: float) -> str | None:
        return self._run(self._grants.login(hashed, now))

    def remove_login(self, hashed: str) -> None:
        self._run(self._grants.remove_login(hashed))

    def remember_consent(self, grant: StoredGrant) -> None:
        self._run(self._clients.remember_consent(grant))

    def consented_scopes(
        self, subject: str, client_id: str, resource: str
    ) -> frozenset[str] | None:
        return self._run(self._clients.consented_scopes(subject, client_id, resource))

    # -- users that sign in with an identity provider

    def add_sign_in(self, hashed: str, sign_in: StoredSignIn, *, most: int) -> None:
        self._run(self._sessions.add_sign_in(hashed, sign_in, most))

    def take_sign_in(self, hashed: str, browser: str) -> StoredSignIn | None:
        return self._run(self._sessions.take_sign_in(hashed, browser))

    def add_session(self, session: StoredSession, owner: str, *, expires_at: float) -> None:
        self._run(self._sessions.add(session, owner, expires_at))

    def share_session(self, owner: str, other: str, *, expires_at: float) -> bool:
        return self._run(self._sessions.share(owner, other, expires_at))

    def session(self, session_id: str) -> StoredSession | None:
        return self._run(self._sessions.find(session_id))

    def session_of(self, owner: str) -> StoredSession | None:
        return self._run(self._sessions.find_of(owner))

    def claim_session(self, session_id: str, now: float, seconds: float) -> bool:
        return self._run(self._sessions.claim(session_id, now, seconds))

    def release_session(self, session_id: str) -> None:
        self._run(self._sessions.release(session_id))

    def renew_session(self, session_id: str, body: bytes) -> None:
        self._run(self._sessions.renew(session_id, body))

    def end_session(self, session_id: str, now: float, *, keep_until: float) -> None:
        self._run(self._grants.end_session(session_id, now, keep_until))

    # -- keys and secrets

    def signing_keys(self) -> list[StoredKey]:
        return self._run(self._read_keys())

    async def _read_keys(self) -> list[StoredKey]:
        now = time.monotonic()
        try:
            found = await self._records.get(list[StoredKey], _KEYS)
        except StoreUnavailable:
            if now - self._keys_read_at > _STALE_MOST:
                raise
            return self._known_keys
        self._known_keys, self._keys_read_at = found or [], now
        return self._known_keys

    def add_key(self, key: StoredKey, *, replaces: str | None) -> bool:
        return self._run(self._add_key(key, replaces))

    async def _add_key(self, key: StoredKey, replaces: str | None) -> bool:
        is_added = False

        def add(found: list[StoredKey] | None) -> list[StoredKey] | None:
            nonlocal is_added
            keys = found or []
            current = [
                each for each in keys if each.retired_at is None and each.algorithm == key.algorithm
            ]
            is_added = (current[0].key_id if current else None) == replaces
            retired = [
                msgspec.structs.replace(each, retired_at=key.created_at)
                if each in current
                else each
                for each in keys
            ]
            return [key, *retired] if is_added else None

        await self._records.put_either(list[StoredKey], _KEYS, add, ttl=_OWN_TTL)
        return is_added

    def secret(self, name: str, fresh: str) -> str:
        return self._run(self._secret(name, fresh))

    async def _secret(self, name: str, fresh: str) -> str:
        where = _secret_at(name)
        self._secrets.add(where)
        found = await self._records.get(str, where)
        if found is not None:
            return found
        body = msgspec.json.encode(fresh)
        try:
            await self._backend.put(where, body, ttl=_OWN_TTL, expect=0)
        except Conflict as conflict:
            # Another process was faster.
            return fresh if conflict.record is None else decode_record(str, where, conflict.record)
        return fresh

    # -- cleaning up

    def sweep(self, now: float, *, keys_before: float) -> None:
        """Forget old keys, and keep alive what never ends; everything else expires by itself."""
        self._run(self._sweep(keys_before))

    async def _sweep(self, keys_before: float) -> None:
        await self._compare_clocks()

        def prune(found: list[StoredKey]) -> list[StoredKey] | None:
            left = [
                each for each in found if each.retired_at is None or each.retired_at >= keys_before
            ]
            return left if len(left) < len(found) else None

        await self._records.change(list[StoredKey], _KEYS, prune, ttl=lambda _: _OWN_TTL)
        if time.monotonic() - self._renewed_at > _RENEW:
            for name in (_KEYS, *self._secrets):
                await self._backend.touch(name, ttl=_OWN_TTL)
            self._renewed_at = time.monotonic()


class BlockingAttempts:
    """Counts attempts in a shared store, as `AttemptCounter`. Blocks."""

    def __init__(self, attempts: SharedAttempts, calls: LoopCalls) -> None:
        self._attempts = attempts
        self._calls = calls

    def reserve(self, key: str, now: float) -> float:
        return self._calls.run(self._attempts.reserve(key, now))

    def release(self, key: str, now: float) -> None:
        self._calls.run(self._attempts.release(key, now))

    def forget(self, key: str) -> None:
        self._calls.run(self._attempts.forget(key))

    def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        return self._calls.run(self._attempts.wait_for(key, now, more))


def _secret_at(name: str) -> str:
    return f"auth:secret:{name}"
