"""ClientRecords and consents in a backend."""

from collections import deque
from typing import Final

import msgspec

from accord.auth.authorization_server.models import RegisteredClient, StoredGrant
from accord.auth.authorization_server.secrets import digest
from accord.auth.authorization_server.state.records import Records, blocks
from accord.errors import Conflict

CLIENTS: Final = "auth:clients"
"""The index of all clients, by the digests of their ids."""

# That a client was used is written down at most so often within its time to live.
_NOTES: Final = 200
# When clients have to make room, so many are looked at.
_LOOKED_AT: Final = 20_000
_AT_ONCE: Final = 50
# Seconds until they are looked at again, if none of them may go or some may.
_PAUSE: Final = 60.0
_STALE: Final = 600.0
_CONSENTS_MOST: Final = 10_000


class StoredClient(msgspec.Struct, frozen=True):
    """A client as it is stored, and about when it was last used."""

    client: RegisteredClient
    used_at: float | None = None

    @property
    def last_used(self) -> float:
        return max(self.client.created_at, self.used_at or 0.0)


class _Idle:
    """ClientRecords that may go, as one process found them, the first one first."""

    def __init__(self) -> None:
        self.clients: deque[str] = deque()
        self.found_at = float("-inf")
        self.has_found = False

    def is_stale(self, now: float) -> bool:
        """Whether all clients have to be looked at again."""
        if not self.clients and self.has_found:
            return True
        return now - self.found_at > (_STALE if self.clients else _PAUSE)


class ClientRecords:
    """The clients that registered or are described by a document, and what users allowed them.

    Args:
        records: where they are.
        client_ttl: seconds after which a client without a grant is forgotten.
    """

    def __init__(self, records: Records, client_ttl: float) -> None:
        self.records = records
        self._backend = records.backend
        self._client_ttl = client_ttl
        self._slack = client_ttl / _NOTES
        self._never_used = _Idle()
        self._used = _Idle()

    @blocks
    async def find(self, client_id: str) -> RegisteredClient | None:
        found = await self.records.get(StoredClient, _client_at(digest(client_id)))
        return None if found is None else found.client

    @blocks
    async def add(self, client: RegisteredClient, *, used_at: float | None = None) -> None:
        """Store a client, and when it was last used."""
        hashed, ttl = digest(client.client_id), self._client_ttl + self._slack
        # In this order: what is counted exists, and can make room.
        await self.records.put(_client_at(hashed), StoredClient(client, used_at), ttl=ttl)
        await self._backend.add(CLIENTS, [hashed], ttl=ttl)
        if self._used.has_found and len(self._used.clients) < _LOOKED_AT:
            # The last one of those that may go: a flood of clients displaces itself.
            self._used.clients.append(hashed)

    @blocks
    async def update(self, client: RegisteredClient) -> bool:
        """Replace what is stored of a client; false if nothing is. When it was used is kept."""
        hashed, ttl = digest(client.client_id), self._client_ttl + self._slack
        changed = await self.records.change(
            StoredClient,
            _client_at(hashed),
            lambda found: msgspec.structs.replace(found, client=client),
            ttl=lambda _: ttl,
        )
        if changed is None:
            return False
        await self._backend.add(CLIENTS, [hashed], ttl=ttl)
        return True

    async def note_use(self, client_id: str, now: float, expires_at: float) -> None:
        """Keep a client that was used, at least as long as its grant; no-op for unknown ones."""
        hashed = digest(client_id)
        # As long as all grants that it gets until the next note.
        ttl = max(self._client_ttl, expires_at - now) + self._slack
        is_noted = True

        def note(found: StoredClient) -> StoredClient | None:
            nonlocal is_noted
            is_noted = found.used_at is not None and now - found.used_at < self._slack
            return None if is_noted else msgspec.structs.replace(found, used_at=now)

        await self.records.change(StoredClient, _client_at(hashed), note, ttl=lambda _: ttl)
        if not is_noted:
            await self._backend.add(CLIENTS, [hashed], ttl=ttl)

    @blocks
    async def count(self) -> int:
        return await self._backend.count(CLIENTS)

    # -- making room

    @blocks
    async def forget_idle(self, *, never_used_before: float | None = None) -> bool:
        """Forget a client without a grant, about the one that was used the longest time ago.

        Args:
            never_used_before: only clients that never had a grant and registered before this.

        Returns:
            False if all clients have one.
        """
        idle = self._used if never_used_before is None else self._never_used
        now = self.records.now()
        if not idle.is_stale(now):
            return await self._forget_first(idle, never_used_before)
        # All clients are read for this, so not for each client that wants to register.
        idle.clients = deque(await self._find_idle(never_used_before))
        idle.found_at, idle.has_found = now, False
        return await self._forget_first(idle, never_used_before)

    async def _forget_first(self, idle: "_Idle", never_used_before: float | None) -> bool:
        while idle.clients:
            if await self._forget_if_idle(idle.clients.popleft(), never_used_before):
                idle.has_found = True
                return True
        return False

    async def _find_idle(self, never_used_before: float | None) -> list[str]:
        """Return clients that may go, the one that was used the longest time ago first."""
        members = await self._backend.members(CLIENTS, limit=_LOOKED_AT)
        found: list[tuple[float, str]] = []
        for start in range(0, len(members), _AT_ONCE):
            part = members[start : start + _AT_ONCE]
            clients = await self.records.gather(
                *(self.records.get(StoredClient, _client_at(each)) for each in part)
            )
            found += [
                (client.last_used, hashed)
                for hashed, client in zip(part, clients, strict=True)
                if client is not None and _may_go(client, never_used_before)
            ]
        found.sort()
        return [hashed for _, hashed in found]

    async def _forget_if_idle(self, hashed: str, never_used_before: float | None) -> bool:
        name = _client_at(hashed)
        found = await self.records.get_versioned(StoredClient, name)
        if found is None:
            await self._backend.remove(CLIENTS, [hashed])
            return False
        client, version = found
        if not _may_go(client, never_used_before):
            return False
        if await self._backend.count(grants_of(client.client.client_id)) > 0:
            return False
        try:
            await self._backend.delete(name, expect=version)
        except Conflict:
            return False  # it was used a moment ago
        await self._backend.remove(CLIENTS, [hashed])
        await self._forget_consents(hashed)
        return True

    async def _forget_consents(self, hashed: str) -> None:
        index = _consents_of(hashed)
        names = await self._backend.members(index, limit=_CONSENTS_MOST)
        for name in names:
            await self._backend.delete(name)
        await self._backend.remove(index, names)

    # -- consents

    @blocks
    async def remember_consent(self, grant: StoredGrant) -> None:
        """Store the consent of a user, for the next time."""
        name = _consent_at(grant.subject, grant.client_id, grant.resource)
        ttl = self._client_ttl + self._slack
        await self._backend.add(_consents_of(digest(grant.client_id)), [name], ttl=ttl)
        await self.records.put(name, grant.scopes, ttl=ttl)

    async def keep_consent(self, grant: StoredGrant) -> None:
        """Keep the consent behind a grant, if it is remembered, as long as the client."""
        name = _consent_at(grant.subject, grant.client_id, grant.resource)
        ttl = self._client_ttl + self._slack
        if await self._backend.touch(name, ttl=ttl):
            await self._backend.add(_consents_of(digest(grant.client_id)), [name], ttl=ttl)

    @blocks
    async def consented_scopes(
        self, subject: str, client_id: str, resource: str
    ) -> frozenset[str] | None:
        """Return the scopes that a user allowed before; None for no consent."""
        name = _consent_at(subject, client_id, resource)
        found = await self.records.get(list[str], name)
        return None if found is None else frozenset(found)


def grants_of(client_id: str) -> str:
    """Return the index of the grants of a client."""
    return f"auth:grants-of:{digest(client_id)}"


def _client_at(hashed: str) -> str:
    return f"auth:client:{hashed}"


def _consents_of(hashed: str) -> str:
    return f"auth:consents-of:{hashed}"


def _consent_at(subject: str, client_id: str, resource: str) -> str:
    # Hashed one by one, so that no text can run over into the next.
    return f"auth:consent:{digest(' '.join(map(digest, (subject, client_id, resource))))}"


def _may_go(client: StoredClient, never_used_before: float | None) -> bool:
    if never_used_before is None:
        return True
    return client.used_at is None and client.client.created_at < never_used_before
