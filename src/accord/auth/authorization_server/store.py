"""The state of the authorization server in SQLite. Blocks: it is used off the event loop.

Codes, refresh tokens, secrets and logins are stored as hashes. Several processes may share a file.
"""

import errno
import os
import sqlite3
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from accord.auth.authorization_server.models import (
    AuthorizationCode,
    DeviceRequest,
    OAuthRefusal,
    RegisteredClient,
    StoredGrant,
)
from accord.errors import AuthError

MEMORY: Final = ":memory:"
"""The path of a store in memory."""

Record = TypeVar("Record")

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS clients (
  id TEXT PRIMARY KEY, created_at REAL NOT NULL, used_at REAL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS grants (
  id TEXT PRIMARY KEY, client_id TEXT NOT NULL, expires_at REAL NOT NULL, revoked_at REAL,
  body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS revoked_grants ON grants (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS grants_of_clients ON grants (client_id);
CREATE TABLE IF NOT EXISTS codes (
  hash TEXT PRIMARY KEY, expires_at REAL NOT NULL, used_at REAL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS refresh_tokens (
  hash TEXT PRIMARY KEY, grant_id TEXT NOT NULL, expires_at REAL NOT NULL, used_at REAL);
CREATE TABLE IF NOT EXISTS devices (
  hash TEXT PRIMARY KEY, user_code TEXT NOT NULL UNIQUE, expires_at REAL NOT NULL,
  body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS logins (
  hash TEXT PRIMARY KEY, subject TEXT NOT NULL, expires_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS consents (
  subject TEXT, client_id TEXT, resource TEXT, scopes TEXT NOT NULL,
  PRIMARY KEY (subject, client_id, resource));
CREATE TABLE IF NOT EXISTS keys (
  id TEXT PRIMARY KEY, algorithm TEXT NOT NULL, pem BLOB NOT NULL, created_at REAL NOT NULL,
  retired_at REAL);
CREATE TABLE IF NOT EXISTS upstream_requests (
  hash TEXT PRIMARY KEY, browser TEXT NOT NULL, provider TEXT NOT NULL, expires_at REAL NOT NULL,
  body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS upstream_sessions (
  id TEXT PRIMARY KEY, provider TEXT NOT NULL, busy_until REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS upstream_uses (
  owner TEXT PRIMARY KEY, session_id TEXT NOT NULL, expires_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS uses_of_sessions ON upstream_uses (session_id);
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_LAST_USED: Final = "max(created_at, coalesce(used_at, 0))"
_WITHOUT_GRANT: Final = "NOT EXISTS (SELECT 1 FROM grants WHERE client_id = clients.id)"
# Used codes are kept this much longer, to tell a replay from an unknown code.
_REPLAY_NOTICED: Final = 3600.0
_BUSY: Final = 10.0
_EXPIRING: Final = (
    "grants",
    "refresh_tokens",
    "devices",
    "logins",
    "upstream_requests",
    "upstream_uses",
)


class StoredKey(msgspec.Struct, frozen=True):
    """A signing key as it is stored."""

    key_id: str
    algorithm: str
    pem: bytes
    created_at: float
    retired_at: float | None


class Store:
    """The state of an authorization server.

    Args:
        path: of the file, which only its owner may read; ":memory:" for none.

    Raises:
        AuthError: the file cannot be used; says why. It is left as it is.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.RLock()
        with _report_path(path):
            if path != MEMORY:
                _keep_private(path)
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_BUSY
            )
            # Closed with the last reference, at the latest.
            weakref.finalize(self, self._db.close)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA secure_delete=ON")
            self._db.executescript(_TABLES)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block as one exclusive transaction; a refusal commits, other errors roll back."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except OAuthRefusal:
                self._db.execute("COMMIT")
                raise
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _text(self, query: str, *values: object) -> str | None:
        """Return the first column of the first row."""
        rows = self.rows(query, *values)
        return str(rows[0][0]) if rows else None

    def execute(self, query: str, *values: object) -> int:
        """Run a statement; return how many rows it changed."""
        with self._lock:
            return self._db.execute(query, values).rowcount

    def put(self, table: str, *, replace: bool = False, **columns: object) -> None:
        """Add a row, or replace the one with the same key."""
        verb = "INSERT OR REPLACE" if replace else "INSERT"
        marks = ", ".join("?" * len(columns))
        self.execute(
            f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({marks})", *columns.values()
        )

    def _record(self, kind: type[Record], query: str, *values: object) -> Record | None:
        rows = self.rows(query, *values)
        return msgspec.json.decode(rows[0][0], type=kind) if rows else None

    def _count(self, table: str) -> int:
        found: int = self.rows(f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608  # our names
        return found

    # -- clients

    def client(self, client_id: str) -> RegisteredClient | None:
        return self._record(RegisteredClient, "SELECT body FROM clients WHERE id = ?", client_id)

    def add_client(self, client: RegisteredClient) -> None:
        self.put(
            "clients",
            replace=True,
            id=client.client_id,
            created_at=client.created_at,
            body=msgspec.json.encode(client),
        )

    def update_client(self, client: RegisteredClient) -> bool:
        """Replace what is stored of a client; false if nothing is. When it was used is kept."""
        query = "UPDATE clients SET body = ? WHERE id = ?"
        return self.execute(query, msgspec.json.encode(client), client.client_id) > 0

    def count_clients(self) -> int:
        return self._count("clients")

    def forget_idle_clients(self, before: float) -> None:
        """Forget the clients without a grant that were last used before a time."""
        self._forget_clients(f"{_LAST_USED} < ?", before)

    def forget_idle_client(self, *, never_used_before: float | None = None) -> bool:
        """Forget the client without a grant for longest; false if all clients have one.

        Args:
            never_used_before: only clients that never had a grant and registered before this.
        """
        if never_used_before is None:
            return self._forget_clients("TRUE", most=1)
        condition = "used_at IS NULL AND created_at < ?"
        return self._forget_clients(condition, never_used_before, most=1)

    def _forget_clients(self, condition: str, *values: float, most: int = -1) -> bool:
        query = f"SELECT id FROM clients WHERE {condition} AND {_WITHOUT_GRANT}"  # noqa: S608  # our names
        with self.transaction():
            rows = self.rows(f"{query} ORDER BY {_LAST_USED}, rowid LIMIT ?", *values, most)
            for (client_id,) in rows:
                self.execute("DELETE FROM clients WHERE id = ?", client_id)
                self.execute("DELETE FROM consents WHERE client_id = ?", client_id)
        return bool(rows)

    # -- grants, codes and refresh tokens

    def add_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> None:
        """Store a grant, and note that its client was used."""
        self.put(
            "grants",
            id=grant.grant_id,
            client_id=grant.client_id,
            expires_at=expires_at,
            body=msgspec.json.encode(grant),
        )
        self._use_client(grant.client_id, now)

    def _use_client(self, client_id: str, now: float) -> None:
        self.execute("UPDATE clients SET used_at = ? WHERE id = ?", now, client_id)

    def grant(self, grant_id: str) -> StoredGrant | None:
        """Return a grant that is not revoked."""
        query = "SELECT body FROM grants WHERE id = ? AND revoked_at IS NULL"
        return self._record(StoredGrant, query, grant_id)

    def extend_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> None:
        """Keep a grant at least until a time, and note that it was used."""
        query = "UPDATE grants SET expires_at = max(expires_at, ?) WHERE id = ?"
        self.execute(query, expires_at, grant.grant_id)
        query = "UPDATE upstream_uses SET expires_at = max(expires_at, ?) WHERE owner = ?"
        self.execute(query, expires_at, grant_owner(grant.grant_id))
        self._use_client(grant.client_id, now)

    def revoke(self, grant_id: str, now: float, *, keep_until: float) -> None:
        """Revoke a grant and its tokens; it is forgotten once they have expired."""
        query = (
            "UPDATE grants SET revoked_at = ?, expires_at = ? WHERE id = ? AND revoked_at IS NULL"
        )
        self.execute(query, now, keep_until, grant_id)
        self.execute("DELETE FROM refresh_tokens WHERE grant_id = ? AND used_at IS NULL", grant_id)
        self._end_use(grant_owner(grant_id))

    def revoked_grants(self) -> frozenset[str]:
        """Return the ids of revoked grants with tokens that have not expired yet."""
        rows = self.rows("SELECT id FROM grants WHERE revoked_at IS NOT NULL")
        return frozenset(row[0] for row in rows)

    def add_code(self, hashed: str, code: AuthorizationCode) -> None:
        body = msgspec.json.encode(code)
        self.put("codes", hash=hashed, expires_at=code.expires_at, body=body)

    def code(self, hashed: str) -> AuthorizationCode | None:
        """Return the record of a code, used or not."""
        return self._record(AuthorizationCode, "SELECT body FROM codes WHERE hash = ?", hashed)

    def use_code(self, hashed: str, now: float) -> bool:
        """Mark a code as used; false if it was used before."""
        query = "UPDATE codes SET used_at = ? WHERE hash = ? AND used_at IS NULL"
        return self.execute(query, now, hashed) == 1

    def add_refresh_token(self, hashed: str, grant_id: str, expires_at: float) -> None:
        self.put("refresh_tokens", hash=hashed, grant_id=grant_id, expires_at=expires_at)

    def refresh_token(self, hashed: str) -> tuple[str, float, float | None] | None:
        """Return the grant of a refresh token, when it expires, and when it was used."""
        query = "SELECT grant_id, expires_at, used_at FROM refresh_tokens WHERE hash = ?"
        rows = self.rows(query, hashed)
        return msgspec.convert(rows[0], tuple[str, float, float | None]) if rows else None

    def use_refresh_token(self, hashed: str, now: float) -> None:
        query = "UPDATE refresh_tokens SET used_at = ? WHERE hash = ? AND used_at IS NULL"
        self.execute(query, now, hashed)

    # -- devices

    def add_device(self, hashed: str, device: DeviceRequest) -> None:
        """Store the request of a device, or its new state."""
        self.put(
            "devices",
            replace=True,
            hash=hashed,
            user_code=device.user_code,
            expires_at=device.expires_at,
            body=msgspec.json.encode(device),
        )

    def device(self, hashed: str) -> DeviceRequest | None:
        return self._record(DeviceRequest, "SELECT body FROM devices WHERE hash = ?", hashed)

    def device_hash(self, user_code: str) -> str | None:
        """Return the hashed code of the device that shows a user code."""
        return self._text("SELECT hash FROM devices WHERE user_code = ?", user_code)

    def remove_device(self, hashed: str) -> None:
        self.execute("DELETE FROM devices WHERE hash = ?", hashed)

    def count_devices(self) -> int:
        return self._count("devices")

    # -- users

    def add_login(self, hashed: str, subject: str, expires_at: float) -> None:
        """Store the user of a browser."""
        self.put("logins", hash=hashed, subject=subject, expires_at=expires_at)

    def login(self, hashed: str, now: float) -> str | None:
        """Return the user of a browser; None if the login has expired."""
        query = "SELECT subject FROM logins WHERE hash = ? AND expires_at > ?"
        return self._text(query, hashed, now)

    def remove_login(self, hashed: str) -> None:
        self.execute("DELETE FROM logins WHERE hash = ?", hashed)
        self._end_use(login_owner(hashed))

    def _end_use(self, owner: str) -> None:
        """End the use of an upstream session; one that has no use any more is deleted."""
        if self.execute("DELETE FROM upstream_uses WHERE owner = ?", owner):
            self._forget_unused_sessions()

    def _forget_unused_sessions(self) -> None:
        self.execute(
            "DELETE FROM upstream_sessions WHERE NOT EXISTS "
            "(SELECT 1 FROM upstream_uses WHERE session_id = upstream_sessions.id)"
        )

    def remember_consent(self, grant: StoredGrant) -> None:
        """Store the consent of a user, for the next time."""
        self.put(
            "consents",
            replace=True,
            subject=grant.subject,
            client_id=grant.client_id,
            resource=grant.resource,
            scopes=" ".join(grant.scopes),
        )

    def consented_scopes(
        self, subject: str, client_id: str, resource: str
    ) -> frozenset[str] | None:
        """Return the scopes that a user allowed before; None for no consent."""
        query = "SELECT scopes FROM consents WHERE subject = ? AND client_id = ? AND resource = ?"
        found = self._text(query, subject, client_id, resource)
        return None if found is None else frozenset(found.split())

    # -- keys and secrets

    def signing_keys(self) -> list[StoredKey]:
        """Return all keys, the newest first."""
        query = "SELECT id, algorithm, pem, created_at, retired_at FROM keys"
        rows = self.rows(f"{query} ORDER BY created_at DESC, rowid DESC")
        return [StoredKey(*row) for row in rows]

    def add_key(self, key: StoredKey) -> None:
        """Store a key and retire the earlier keys of its algorithm."""
        query = "UPDATE keys SET retired_at = ? WHERE retired_at IS NULL AND algorithm = ?"
        self.execute(query, key.created_at, key.algorithm)
        query = "INSERT INTO keys (id, algorithm, pem, created_at) VALUES (?, ?, ?, ?)"
        self.execute(query, key.key_id, key.algorithm, key.pem, key.created_at)

    def secret(self, name: str, fresh: str) -> str:
        """Return a secret of the server; `fresh` becomes that secret if it is new."""
        self.execute("INSERT OR IGNORE INTO secrets (name, value) VALUES (?, ?)", name, fresh)
        return self._text("SELECT value FROM secrets WHERE name = ?", name) or fresh

    # -- cleaning up

    def sweep(self, now: float, *, keys_before: float) -> None:
        """Delete expired records."""
        for table in _EXPIRING:
            self.execute(f"DELETE FROM {table} WHERE expires_at < ?", now)  # noqa: S608  # our names
        self.execute("DELETE FROM codes WHERE expires_at < ?", now - _REPLAY_NOTICED)
        self.execute("DELETE FROM keys WHERE retired_at < ?", keys_before)
        self._forget_unused_sessions()


def login_owner(hashed: str) -> str:
    """Return the name under which a login uses an upstream session."""
    return f"login {hashed}"


def grant_owner(grant_id: str) -> str:
    """Return the name under which a grant uses an upstream session."""
    return f"grant {grant_id}"


def check_store(path: str) -> None:
    """Make sure that a store can be opened, read and written; a missing file is not created.

    Raises:
        AuthError: the store cannot be used; says why.
    """
    if path == MEMORY:
        return
    with _report_path(path):
        if not os.path.exists(path):
            folder = os.path.dirname(os.path.abspath(path))
            if not os.path.isdir(folder):
                raise FileNotFoundError(errno.ENOENT, f"the folder {folder} does not exist")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, f"the folder {folder} is not writable")
            return
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        where = f"{Path(path).absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(where, uri=True, isolation_level=None, timeout=_BUSY)) as db:
            found = [str(row[0]) for row in db.execute("PRAGMA quick_check(1)")]
            if found != ["ok"]:
                raise sqlite3.DatabaseError(f"the database is damaged: {'; '.join(found)[:200]}")
            db.execute("BEGIN IMMEDIATE")
            # SQLite finds a read-only file only when it writes.
            db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")
            db.execute("ROLLBACK")


@contextmanager
def _report_path(path: str) -> Iterator[None]:
    """Turn errors of SQLite and the system into an AuthError that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AuthError(
            f"the store of the authorization server, {os.path.abspath(path)}, cannot be used: "
            f"{why}; repair, restore or move the file (users then have to allow their programs "
            "again), or name another one with AuthorizationServer(store=...)"
        ) from None


def _keep_private(path: str) -> None:
    """Create the file for its owner alone, before SQLite does; restrict one that exists."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if sys.platform != "win32" and os.fstat(handle).st_mode & 0o077:
            os.fchmod(handle, 0o600)
    finally:
        os.close(handle)
