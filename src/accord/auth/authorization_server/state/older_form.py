"""Files of the form up to 0.2, in which each kind of record had a table of its own."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from accord.auth.authorization_server.models import (
    AuthorizationCode,
    DeviceRequest,
    RegisteredClient,
    StoredGrant,
    StoredKey,
    StoredSession,
    StoredSignIn,
)
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.errors import StoreError

T = TypeVar("T")
Read: TypeAlias = Callable[..., list[Any]]

TABLES: Final = (
    "refresh_tokens",
    "clients",
    "grants",
    "codes",
    "devices",
    "logins",
    "consents",
    "keys",
    "upstream_requests",
    "upstream_sessions",
    "upstream_uses",
    "secrets",
    "attempts",
)
"""The tables of that form. Files of the first versions have some of them."""

COPY: Final = ".before-0.3"
"""What is added to the name of a file, for the copy of it as it was."""

_PLENTY: Final = 1_000_000_000


def take_over(read: Read, store: AuthorizationStore) -> None:
    """Write into a store what the tables keep."""
    now = store.now()
    for name, value in read("secrets", "name, value"):
        store.secret(name, value)
    _take_keys(read, store)
    for body, used_at in read("clients", "body, used_at", "created_at"):
        store.clients.add(_decode(RegisteredClient, body), used_at=used_at)
    columns = "subject, client_id, resource, scopes"
    for subject, client_id, resource, scopes in read("consents", columns):
        consent = StoredGrant(
            grant_id="",
            client_id=client_id,
            subject=subject,
            scopes=tuple(scopes.split()),
            resource=resource,
        )
        store.clients.remember_consent(consent)
    _take_grants(read, store, now)
    _take_sign_ins(read, store)
    for name, key, at, expires_at in read("attempts", "name, key, at, expires_at"):
        store.attempts(name, limit=_PLENTY, window=expires_at - at).reserve(key, at)


def _decode(kind: type[T], body: bytes) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise StoreError(f"a record of an older form cannot be read: {str(error)[:200]}") from None


def _take_keys(read: Read, store: AuthorizationStore) -> None:
    # Each is retired by the next one of its algorithm, as it was then.
    newest: dict[str, str] = {}
    for row in read("keys", "id, algorithm, pem, created_at", "created_at, rowid"):
        key = StoredKey(*row)
        store.add_key(key, replaces=newest.get(key.algorithm))
        newest[key.algorithm] = key.key_id


def _take_grants(read: Read, store: AuthorizationStore, now: float) -> None:
    grants = store.grants
    for body, expires_at, revoked_at in read("grants", "body, expires_at, revoked_at"):
        grant = _decode(StoredGrant, body)
        grants.add(grant, now=now, expires_at=expires_at)
        if revoked_at is not None:
            grants.revoke(grant.grant_id, now, keep_until=expires_at)
    for hashed, body, used_at in read("codes", "hash, body, used_at"):
        grants.add_code(hashed, _decode(AuthorizationCode, body))
        if used_at is not None:
            grants.use_code(hashed, used_at)
    columns = "hash, grant_id, expires_at, used_at"
    for hashed, grant_id, expires_at, used_at in read("refresh_tokens", columns):
        grants.add_refresh_token(hashed, grant_id, expires_at)
        if used_at is not None:
            grants.use_refresh_token(hashed, used_at)
    for hashed, body in read("devices", "hash, body"):
        grants.add_device(hashed, _decode(DeviceRequest, body))
    for hashed, subject, expires_at in read("logins", "hash, subject, expires_at"):
        grants.add_login(hashed, subject, expires_at)


def _take_sign_ins(read: Read, store: AuthorizationStore) -> None:
    sign_ins = store.sign_ins
    columns = "hash, browser, provider, expires_at, body"
    for hashed, browser, provider, expires_at, body in read("upstream_requests", columns):
        sign_in = StoredSignIn(browser=browser, provider=provider, expires_at=expires_at, body=body)
        sign_ins.begin(hashed, sign_in, most=_PLENTY)
    uses: dict[str, list[tuple[str, float]]] = {}
    for owner, session_id, expires_at in read("upstream_uses", "owner, session_id, expires_at"):
        uses.setdefault(session_id, []).append((owner, expires_at))
    columns = "id, provider, body, busy_until"
    for id, provider, body, busy_until in read("upstream_sessions", columns):
        for number, (owner, expires_at) in enumerate(uses.get(id, ())):
            if number == 0:
                sign_ins.add(StoredSession(id, provider, body), owner, expires_at=expires_at)
            else:
                sign_ins.share(uses[id][0][0], owner, expires_at=expires_at)
        sign_ins.claim(id, busy_until, 0.0)
