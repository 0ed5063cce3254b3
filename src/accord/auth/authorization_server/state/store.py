"""The state of an authorization server, in a backend.

Its operations block, and are used off the event loop. Each is atomic by itself. In a backend
without transactions, operations of one `transaction` are carried out one after the other, and the
process may end between any two: callers write what nothing refers to yet first, and last what makes
the rest count.

Codes, refresh tokens, secrets and logins are stored as hashes.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import msgspec

from accord.auth.authorization_server.models import StoredKey
from accord.auth.authorization_server.state.clients import ClientRecords
from accord.auth.authorization_server.state.grants import GrantRecords
from accord.auth.authorization_server.state.records import (
    AttemptCounter,
    Records,
    blocks,
    decode_record,
)
from accord.auth.authorization_server.state.sign_ins import SignInRecords
from accord.auth.authorization_server.threads import BackendCalls
from accord.errors import Conflict, StoreUnavailable

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend

_KEYS: Final = "auth:keys"
# What the server itself needs outlives pauses of a year.
_OWN_TTL: Final = 400 * 86_400.0
_RENEW: Final = 6 * 3600.0
# Seconds for which keys that were read count while the store does not answer.
_STALE_MOST: Final = 30.0


class AuthorizationStore:
    """The state of an authorization server.

    Args:
        backend: an open one.
        calls: runs coroutines where the backend is used.
        client_ttl: seconds after which a registered client without a grant is forgotten.
        clock: returns seconds since 1970; by default the clock of the backend.
        on_close: called by `close`.

    Attributes:
        backend: where it is kept.
        clients: clients, and what users allowed them before.
        grants: grants, codes, refresh tokens, devices and logins.
        sign_ins: sign-ins with identity providers.
    """

    def __init__(
        self,
        backend: "Backend",
        calls: BackendCalls,
        *,
        client_ttl: float,
        clock: Callable[[], float] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.backend = backend
        self._clock = clock
        self._on_close = on_close
        # By how much the clock of the backend is ahead of this machine's.
        self._ahead = 0.0
        records = self.records = Records(backend, calls, self.now)
        self.clients = ClientRecords(records, client_ttl)
        self.sign_ins = SignInRecords(records)
        self.grants = GrantRecords(records, self.clients, self.sign_ins)
        self._known_keys: list[StoredKey] = []
        self._keys_version = 0
        self._keys_read_at = self._renewed_at = float("-inf")
        self._secrets: set[str] = set()
        calls.run(self._compare_clocks())

    def close(self) -> None:
        """Let go of the backend. What it keeps stays, unless that is in memory."""
        if self._on_close is not None:
            self._on_close()

    def now(self) -> float:
        """Return the seconds since 1970, by a clock on which all processes agree."""
        return time.time() + self._ahead if self._clock is None else self._clock()

    async def _compare_clocks(self) -> None:
        if self._clock is None:
            before = time.time()
            found = await self.backend.now()
            self._ahead = found - (before + time.time()) / 2

    def transaction(self) -> AbstractContextManager[object]:
        """Run a block as one exclusive transaction, if the backend has transactions.

        A refusal commits, other errors roll back.
        """
        return self.records.calls.transaction()

    def attempts(self, name: str, *, limit: int, window: float) -> AttemptCounter:
        """Return a counter of attempts that all processes share."""
        return AttemptCounter(self.records, name, limit, window)

    # -- keys and secrets

    @blocks
    async def signing_keys(self) -> list[StoredKey]:
        """Return all keys, the newest first."""
        now = time.monotonic()
        try:
            found = await self.backend.get(_KEYS)
        except StoreUnavailable:
            if now - self._keys_read_at > _STALE_MOST:
                raise
            return self._known_keys
        if found is None:
            self._known_keys = []
        elif found.version != self._keys_version:
            self._known_keys = decode_record(list[StoredKey], _KEYS, found)
            self._keys_version = found.version
        self._keys_read_at = now
        return self._known_keys

    @blocks
    async def add_key(self, key: StoredKey, *, replaces: str | None) -> bool:
        """Store a key and retire the earlier keys of its algorithm.

        Args:
            key: the new one.
            replaces: the id of the newest key of this algorithm that is not retired; None if it has
                no key yet. If it is another one, nothing is stored and the result is false.
        """
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

        await self.records.put_either(list[StoredKey], _KEYS, add, ttl=_OWN_TTL)
        return is_added

    @blocks
    async def secret(self, name: str, fresh: str) -> str:
        """Return a secret of the server; `fresh` becomes that secret if it is new."""
        where = _secret_at(name)
        self._secrets.add(where)
        found = await self.records.get(str, where)
        if found is not None:
            return found
        body = msgspec.json.encode(fresh)
        try:
            await self.backend.put(where, body, ttl=_OWN_TTL, expect=0)
        except Conflict as conflict:
            # Another process was faster.
            return fresh if conflict.record is None else decode_record(str, where, conflict.record)
        return fresh

    # -- cleaning up

    @blocks
    async def sweep(self, *, keys_before: float) -> None:
        """Delete keys that were retired before a time, and keep alive what never ends.

        Everything else expires by itself.
        """
        await self._compare_clocks()

        def prune(found: list[StoredKey]) -> list[StoredKey] | None:
            left = [
                each for each in found if each.retired_at is None or each.retired_at >= keys_before
            ]
            return left if len(left) < len(found) else None

        await self.records.change(list[StoredKey], _KEYS, prune, ttl=lambda _: _OWN_TTL)
        if time.monotonic() - self._renewed_at > _RENEW:
            for name in (_KEYS, *self._secrets):
                await self.backend.touch(name, ttl=_OWN_TTL)
            self._renewed_at = time.monotonic()


def _secret_at(name: str) -> str:
    return f"auth:secret:{name}"
