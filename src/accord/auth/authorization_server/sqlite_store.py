"""The state of the authorization server in SQLite. Blocks: it is used off the event loop.

Several processes may share a file.
"""

import errno
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
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
from accord.auth.authorization_server.secrets import AttemptCounter, Attempts
from accord.auth.authorization_server.store import (
    REPLAY_NOTICED,
    StoredKey,
    StoredRefreshToken,
    StoredSession,
    StoredSignIn,
    grant_owner,
    login_owner,
    parse_owner,
)
from accord.errors import AuthError

MEMORY: Final = ":memory:"
"""The path of a store in memory."""

Record = TypeVar("Record")

# Seconds that a process waits for another one that writes.
_BUSY: Final = 10.0
_BUSY_PAUSE: Final = 0.01


# -- the file: opened, checked, private


class SqliteDatabase:
    """A SQLite file, or a database in memory. Blocks.

    Args:
        path: of the file, which only its owner may read; ":memory:" for none.
        tables: the statements that make them, if they do not exist.

    Raises:
        AuthError: the file cannot be used; says why. It is left as it is.
    """

    def __init__(self, path: str, tables: str) -> None:
        self.is_in_memory = path == MEMORY
        self._lock = threading.RLock()
        with report_path(path):
            if not self.is_in_memory:
                _keep_private(path)
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_BUSY
            )
            # Closed with the last reference, at the latest.
            self._closing = weakref.finalize(self, self._db.close)
            self._begin_log()
            self._db.execute("PRAGMA secure_delete=ON")
            self._db.executescript(tables)
            self._synchronous = int(self._db.execute("PRAGMA synchronous").fetchone()[0])

    def _begin_log(self) -> None:
        """Switch to a write-ahead log, which readers do not wait for."""
        ends = time.monotonic() + _BUSY
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                # SQLite does not wait here for another process that opens the new file, too.
                is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > ends:
                    raise
                time.sleep(_BUSY_PAUSE)
            else:
                return

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def leave_to_parent(self) -> None:
        """Never close it in this process: it belongs to the process that this one comes from."""
        self._closing.detach()

    @contextmanager
    def transaction(self, *, is_durable: bool = True) -> Iterator[None]:
        """Run a block as one exclusive transaction; a refusal commits, other errors roll back.

        Args:
            is_durable: whether it has to survive a loss of power. One that need not does not wait
                for the disk.
        """
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            if not is_durable:
                self._db.execute("PRAGMA synchronous=NORMAL")
            try:
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
            finally:
                if not is_durable:
                    self._db.execute(f"PRAGMA synchronous={self._synchronous}")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds."""
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def text(self, query: str, *values: object) -> str | None:
        """Return the first column of the first row."""
        rows = self.rows(query, *values)
        return str(rows[0][0]) if rows else None

    def record(self, kind: type[Record], query: str, *values: object) -> Record | None:
        """Return the first column of the first row, decoded."""
        rows = self.rows(query, *values)
        return msgspec.json.decode(rows[0][0], type=kind) if rows else None

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        found: int = self.rows(f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608  # our names
        return found

    def execute(self, query: str, *values: object) -> int:
        """Run a statement; return how many rows it changed."""
        with self._lock:
            return self._db.execute(query, values).rowcount

    def put(self, table: str, *, verb: str = "INSERT", **columns: object) -> int:
        """Add a row; return how many rows were added."""
        marks = ", ".join("?" * len(columns))
        return self.execute(
            f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({marks})", *columns.values()
        )


def check_file(path: str) -> None:
    """Make sure that a store can be opened, read and written; a missing file is not created.

    Raises:
        AuthError: the store cannot be used; says why.
    """
    if path == MEMORY:
        return
    with report_path(path):
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
def report_path(path: str) -> Iterator[None]:
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


# -- the tables

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
CREATE TABLE IF NOT EXISTS attempts (
  name TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL, expires_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS attempts_by_key ON attempts (name, key, at);
"""
_LAST_USED: Final = "max(created_at, coalesce(used_at, 0))"
_WITHOUT_GRANT: Final = "NOT EXISTS (SELECT 1 FROM grants WHERE client_id = clients.id)"
_REPLACE: Final = "INSERT OR REPLACE"
_LONG_AGO: Final = 0.0
# How many of the oldest sign-ins are forgotten at once if there are too many.
_CROWDED_OUT: Final = 100
_EXPIRING: Final = (
    "grants",
    "refresh_tokens",
    "devices",
    "logins",
    "upstream_requests",
    "upstream_uses",
    "attempts",
)


class SqliteStore:
    """The state of an authorization server, as `AuthorizationStore`.

    Args:
        path: of the file, which only its owner may read; ":memory:" for none.

    Raises:
        AuthError: the file cannot be used; says why. It is left as it is.
    """

    def __init__(self, path: str) -> None:
        self._db = SqliteDatabase(path, _TABLES)

    def close(self) -> None:
        self._db.close()

    def leave_to_parent(self) -> None:
        """Never close it in this process: it belongs to the process that this one comes from."""
        self._db.leave_to_parent()

    def now(self) -> float:
        return time.time()

    def transaction(self) -> AbstractContextManager[None]:
        return self._db.transaction()

    def attempts(self, name: str, *, limit: int, window: float) -> AttemptCounter:
        if self._db.is_in_memory:
            return Attempts(limit, window)
        return SqliteAttempts(self._db, name, limit, window)

    # -- clients

    def client(self, client_id: str) -> RegisteredClient | None:
        query = "SELECT body FROM clients WHERE id = ?"
        return self._db.record(RegisteredClient, query, client_id)

    def add_client(self, client: RegisteredClient) -> None:
        self._db.put(
            "clients",
            verb=_REPLACE,
            id=client.client_id,
            created_at=client.created_at,
            body=msgspec.json.encode(client),
        )

    def update_client(self, client: RegisteredClient) -> bool:
        query = "UPDATE clients SET body = ? WHERE id = ?"
        return self._db.execute(query, msgspec.json.encode(client), client.client_id) > 0

    def count_clients(self) -> int:
        return self._db.count("clients")

    def forget_idle_clients(self, before: float) -> None:
        self._forget_clients(f"{_LAST_USED} < ?", before)

    def forget_idle_client(self, *, never_used_before: float | None = None) -> bool:
        if never_used_before is None:
            return self._forget_clients("TRUE", most=1)
        condition = "used_at IS NULL AND created_at < ?"
        return self._forget_clients(condition, never_used_before, most=1)

    def _forget_clients(self, condition: str, *values: float, most: int = -1) -> bool:
        query = f"SELECT id FROM clients WHERE {condition} AND {_WITHOUT_GRANT}"  # noqa: S608  # our names
        with self.transaction():
            rows = self._db.rows(f"{query} ORDER BY {_LAST_USED}, rowid LIMIT ?", *values, most)
            for (client_id,) in rows:
                self._db.execute("DELETE FROM clients WHERE id = ?", client_id)
                self._db.execute("DELETE FROM consents WHERE client_id = ?", client_id)
        return bool(rows)

    # -- grants, codes and refresh tokens

    def add_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> None:
        self._db.put(
            "grants",
            id=grant.grant_id,
            client_id=grant.client_id,
            expires_at=expires_at,
            body=msgspec.json.encode(grant),
        )
        self._use_client(grant.client_id, now)

    def _use_client(self, client_id: str, now: float) -> None:
        self._db.execute("UPDATE clients SET used_at = ? WHERE id = ?", now, client_id)

    def grant(self, grant_id: str) -> StoredGrant | None:
        query = "SELECT body FROM grants WHERE id = ? AND revoked_at IS NULL"
        return self._db.record(StoredGrant, query, grant_id)

    def extend_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> bool:
        query = (
            "UPDATE grants SET expires_at = max(expires_at, ?) WHERE id = ? AND revoked_at IS NULL"
        )
        if self._db.execute(query, expires_at, grant.grant_id) == 0:
            return False
        query = "UPDATE upstream_uses SET expires_at = max(expires_at, ?) WHERE owner = ?"
        self._db.execute(query, expires_at, grant_owner(grant.grant_id))
        self._use_client(grant.client_id, now)
        return True

    def revoke(self, grant_id: str, now: float, *, keep_until: float) -> None:
        query = (
            "UPDATE grants SET revoked_at = ?, expires_at = ? WHERE id = ? AND revoked_at IS NULL"
        )
        self._db.execute(query, now, keep_until, grant_id)
        query = "DELETE FROM refresh_tokens WHERE grant_id = ? AND used_at IS NULL"
        self._db.execute(query, grant_id)
        self._end_use(grant_owner(grant_id))

    def revoked_grants(self) -> frozenset[str]:
        rows = self._db.rows("SELECT id FROM grants WHERE revoked_at IS NOT NULL")
        return frozenset(row[0] for row in rows)

    def add_code(self, hashed: str, code: AuthorizationCode) -> None:
        body = msgspec.json.encode(code)
        self._db.put("codes", hash=hashed, expires_at=code.expires_at, body=body)

    def code(self, hashed: str) -> AuthorizationCode | None:
        return self._db.record(AuthorizationCode, "SELECT body FROM codes WHERE hash = ?", hashed)

    def use_code(self, hashed: str, now: float) -> bool:
        query = "UPDATE codes SET used_at = ? WHERE hash = ? AND used_at IS NULL"
        return self._db.execute(query, now, hashed) == 1

    def add_refresh_token(self, hashed: str, grant_id: str, expires_at: float) -> None:
        self._db.put("refresh_tokens", hash=hashed, grant_id=grant_id, expires_at=expires_at)

    def refresh_token(self, hashed: str) -> StoredRefreshToken | None:
        query = "SELECT grant_id, expires_at, used_at FROM refresh_tokens WHERE hash = ?"
        rows = self._db.rows(query, hashed)
        return StoredRefreshToken(*rows[0]) if rows else None

    def use_refresh_token(self, hashed: str, now: float) -> float | None:
        query = "UPDATE refresh_tokens SET used_at = ? WHERE hash = ? AND used_at IS NULL"
        if self._db.execute(query, now, hashed) == 1:
            return None
        found = self.refresh_token(hashed)
        return _LONG_AGO if found is None or found.used_at is None else found.used_at

    # -- devices

    def add_device(self, hashed: str, device: DeviceRequest) -> bool:
        added = self._db.put(
            "devices",
            verb="INSERT OR IGNORE",
            hash=hashed,
            user_code=device.user_code,
            expires_at=device.expires_at,
            body=msgspec.json.encode(device),
        )
        return added == 1

    def change_device(self, hashed: str, before: DeviceRequest, after: DeviceRequest) -> bool:
        with self.transaction():
            if self.device(hashed) != before:
                return False
            query = "UPDATE devices SET body = ? WHERE hash = ?"
            self._db.execute(query, msgspec.json.encode(after), hashed)
        return True

    def device(self, hashed: str) -> DeviceRequest | None:
        return self._db.record(DeviceRequest, "SELECT body FROM devices WHERE hash = ?", hashed)

    def device_hash(self, user_code: str) -> str | None:
        return self._db.text("SELECT hash FROM devices WHERE user_code = ?", user_code)

    def remove_device(self, hashed: str) -> bool:
        return self._db.execute("DELETE FROM devices WHERE hash = ?", hashed) == 1

    def count_devices(self) -> int:
        return self._db.count("devices")

    # -- users

    def add_login(self, hashed: str, subject: str, expires_at: float) -> None:
        self._db.put("logins", hash=hashed, subject=subject, expires_at=expires_at)

    def login(self, hashed: str, now: float) -> str | None:
        query = "SELECT subject FROM logins WHERE hash = ? AND expires_at > ?"
        return self._db.text(query, hashed, now)

    def remove_login(self, hashed: str) -> None:
        self._db.execute("DELETE FROM logins WHERE hash = ?", hashed)
        self._end_use(login_owner(hashed))

    def remember_consent(self, grant: StoredGrant) -> None:
        self._db.put(
            "consents",
            verb=_REPLACE,
            subject=grant.subject,
            client_id=grant.client_id,
            resource=grant.resource,
            scopes=" ".join(grant.scopes),
        )

    def consented_scopes(
        self, subject: str, client_id: str, resource: str
    ) -> frozenset[str] | None:
        query = "SELECT scopes FROM consents WHERE subject = ? AND client_id = ? AND resource = ?"
        found = self._db.text(query, subject, client_id, resource)
        return None if found is None else frozenset(found.split())

    # -- users that sign in with an identity provider

    def add_sign_in(self, hashed: str, sign_in: StoredSignIn, *, most: int) -> None:
        with self.transaction():
            if self._db.count("upstream_requests") >= most:
                query = "SELECT hash FROM upstream_requests ORDER BY expires_at LIMIT ?"
                self._db.execute(
                    f"DELETE FROM upstream_requests WHERE hash IN ({query})",  # noqa: S608  # our names
                    _CROWDED_OUT,
                )
            self._db.put("upstream_requests", hash=hashed, **msgspec.structs.asdict(sign_in))

    def take_sign_in(self, hashed: str, browser: str) -> StoredSignIn | None:
        with self.transaction():
            query = (
                "SELECT provider, expires_at, body FROM upstream_requests "
                "WHERE hash = ? AND browser = ?"
            )
            rows = self._db.rows(query, hashed, browser)
            query = "DELETE FROM upstream_requests WHERE hash = ? AND browser = ?"
            self._db.execute(query, hashed, browser)
        if not rows:
            return None
        provider, expires_at, body = rows[0]
        return StoredSignIn(browser=browser, provider=provider, expires_at=expires_at, body=body)

    def add_session(self, session: StoredSession, owner: str, *, expires_at: float) -> None:
        with self.transaction():
            self._db.put(
                "upstream_sessions",
                id=session.session_id,
                provider=session.provider,
                busy_until=0.0,
                body=session.body,
            )
            self._use_session(owner, session.session_id, expires_at)

    def _use_session(self, owner: str, session_id: str, expires_at: float) -> None:
        columns = {"owner": owner, "session_id": session_id, "expires_at": expires_at}
        self._db.put("upstream_uses", verb=_REPLACE, **columns)

    def share_session(self, owner: str, other: str, *, expires_at: float) -> bool:
        query = "SELECT session_id FROM upstream_uses WHERE owner = ?"
        found = self._db.text(query, owner)
        if found is not None:
            self._use_session(other, found, expires_at)
        return found is not None

    def session(self, session_id: str) -> StoredSession | None:
        query = "SELECT id, provider, body FROM upstream_sessions WHERE id = ?"
        rows = self._db.rows(query, session_id)
        return StoredSession(*rows[0]) if rows else None

    def session_of(self, owner: str) -> StoredSession | None:
        rows = self._db.rows(
            "SELECT id, provider, body FROM upstream_sessions "
            "WHERE id = (SELECT session_id FROM upstream_uses WHERE owner = ?)",
            owner,
        )
        return StoredSession(*rows[0]) if rows else None

    def claim_session(self, session_id: str, now: float, seconds: float) -> bool:
        query = "UPDATE upstream_sessions SET busy_until = ? WHERE id = ? AND busy_until <= ?"
        return self._db.execute(query, now + seconds, session_id, now) == 1

    def release_session(self, session_id: str) -> None:
        self._db.execute("UPDATE upstream_sessions SET busy_until = 0 WHERE id = ?", session_id)

    def renew_session(self, session_id: str, body: bytes) -> None:
        query = "UPDATE upstream_sessions SET body = ?, busy_until = 0 WHERE id = ?"
        self._db.execute(query, body, session_id)

    def end_session(self, session_id: str, now: float, *, keep_until: float) -> None:
        with self.transaction():
            query = "SELECT owner FROM upstream_uses WHERE session_id = ?"
            for (owner,) in self._db.rows(query, session_id):
                is_login, name = parse_owner(owner)
                if is_login:
                    self.remove_login(name)
                else:
                    self.revoke(name, now, keep_until=keep_until)
            self._db.execute("DELETE FROM upstream_uses WHERE session_id = ?", session_id)
            self._db.execute("DELETE FROM upstream_sessions WHERE id = ?", session_id)

    def _end_use(self, owner: str) -> None:
        """End the use of an upstream session; one that has no use any more is deleted."""
        if self._db.execute("DELETE FROM upstream_uses WHERE owner = ?", owner):
            self._forget_unused_sessions()

    def _forget_unused_sessions(self) -> None:
        self._db.execute(
            "DELETE FROM upstream_sessions WHERE NOT EXISTS "
            "(SELECT 1 FROM upstream_uses WHERE session_id = upstream_sessions.id)"
        )

    # -- keys and secrets

    def signing_keys(self) -> list[StoredKey]:
        query = "SELECT id, algorithm, pem, created_at, retired_at FROM keys"
        rows = self._db.rows(f"{query} ORDER BY created_at DESC, rowid DESC")
        return [StoredKey(*row) for row in rows]

    def add_key(self, key: StoredKey, *, replaces: str | None) -> bool:
        with self.transaction():
            query = (
                "SELECT id FROM keys WHERE retired_at IS NULL AND algorithm = ? "
                "ORDER BY created_at DESC, rowid DESC LIMIT 1"
            )
            if self._db.text(query, key.algorithm) != replaces:
                return False
            query = "UPDATE keys SET retired_at = ? WHERE retired_at IS NULL AND algorithm = ?"
            self._db.execute(query, key.created_at, key.algorithm)
            query = "INSERT INTO keys (id, algorithm, pem, created_at) VALUES (?, ?, ?, ?)"
            self._db.execute(query, key.key_id, key.algorithm, key.pem, key.created_at)
        return True

    def secret(self, name: str, fresh: str) -> str:
        query = "SELECT value FROM secrets WHERE name = ?"
        found = self._db.text(query, name)
        if found is None:
            self._db.put("secrets", verb="INSERT OR IGNORE", name=name, value=fresh)
            # Another process may have been faster.
            found = self._db.text(query, name)
        return found or fresh

    # -- cleaning up

    def sweep(self, now: float, *, keys_before: float) -> None:
        with self.transaction():
            for table in _EXPIRING:
                self._db.execute(f"DELETE FROM {table} WHERE expires_at < ?", now)  # noqa: S608  # our names
            self._db.execute("DELETE FROM codes WHERE expires_at < ?", now - REPLAY_NOTICED)
            self._db.execute("DELETE FROM keys WHERE retired_at < ?", keys_before)
            self._forget_unused_sessions()


class SqliteAttempts:
    """Counts the attempts of all processes that share a file.

    Args:
        database: where they are counted.
        name: of the counter.
        limit: the number of attempts.
        window: the seconds in which they count.
    """

    def __init__(self, database: SqliteDatabase, name: str, limit: int, window: float) -> None:
        self._db = database
        self._name = name
        self._limit = limit
        self._window = window

    def reserve(self, key: str, now: float) -> float:
        # A loss of power forgets attempts of the last moments, which does no harm.
        with self._db.transaction(is_durable=False):
            wait = self.wait_for(key, now)
            if wait <= 0:
                ends = now + self._window
                self._db.put("attempts", name=self._name, key=key, at=now, expires_at=ends)
        return wait

    def release(self, key: str, now: float) -> None:
        with self._db.transaction(is_durable=False):
            self._db.execute(
                "DELETE FROM attempts WHERE rowid = "
                "(SELECT rowid FROM attempts WHERE name = ? AND key = ? AND at = ? LIMIT 1)",
                self._name,
                key,
                now,
            )

    def forget(self, key: str) -> None:
        with self._db.transaction(is_durable=False):
            query = "DELETE FROM attempts WHERE name = ? AND key = ?"
            self._db.execute(query, self._name, key)

    def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        query = "SELECT count(*), min(at) FROM attempts WHERE name = ? AND key = ? AND at > ?"
        count, first = self._db.rows(query, self._name, key, now - self._window)[0]
        if count + more < self._limit:
            return 0.0
        found: float = (now if first is None else first) + self._window - now
        return found
