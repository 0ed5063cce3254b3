"""Where an authorization server keeps its state: by its settings, and by those of the server."""

import asyncio
import errno
import logging
import os
import re
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from accord.auth.authorization_server.models import OAuthRefusal
from accord.auth.authorization_server.secrets import digest
from accord.auth.authorization_server.state.older_form import COPY, TABLES, take_over
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.threads import DirectCalls, LoopCalls, StoreLoop
from accord.errors import AuthError, StoreError

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend

log = logging.getLogger("accord.auth")

StoreKeys: TypeAlias = Sequence[str | bytes] | Literal["none"]
"""The keys that seal what is written to a store; "none" writes it as it is."""

DEFAULT_FILE: Final = Path("accord-auth.db")
"""The file with the state, unless the settings name another place."""

MEMORY: Final = ":memory:"
"""The path of a store in memory."""

# Seconds that a process waits for another one that writes.
_BUSY: Final = 10.0
_NOT_IN_NAMESPACE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class StoreSource:
    """Opens the store of an authorization server.

    A file or a URL of its own is always used. Without one, the store of the workers that serve
    together is used where processes could not share the state otherwise.

    Args:
        store: the path of a file; the URL of a store, or a backend that is not open yet; None for
            none of these.
        keys: seal what is written to a store that a URL names.

    Raises:
        ConfigurationError: the URL is wrong, or the store needs keys.
    """

    def __init__(self, store: "str | Path | Backend | None", keys: StoreKeys | None = None) -> None:
        self.is_default = store is DEFAULT_FILE
        self.path: str | None = None
        self._url: str | None = None
        self._backend: Backend | None = None
        self._given: tuple[Backend, asyncio.AbstractEventLoop] | None = None
        self._keys = keys
        self._namespace = "accord-auth"
        if store is None:
            self.path = MEMORY
        elif isinstance(store, str) and _is_url(store):
            self._url = store
            self._open_backend()  # a wrong URL is reported at once
        elif isinstance(store, str | Path):
            self.path = str(store)
        else:
            self._backend = store
        if keys is not None and self._url is None:
            raise ValueError("store_keys seals what is written to a store that has a URL")

    @property
    def is_in_memory(self) -> bool:
        """Whether the state is in the memory of this process, unless workers share a store."""
        return self.path == MEMORY

    def set_issuer(self, issuer: str) -> None:
        """Keep the state apart from that of other issuers in the same store."""
        name = _NOT_IN_NAMESPACE.sub("-", issuer.partition("://")[2])[:40]
        self._namespace = f"auth-{name}-{digest(issuer)[:8]}"

    def use_backend(self, backend: "Backend") -> bool:
        """Use the store of workers that serve together, on the running loop, if that is needed.

        Returns:
            Whether it is used from now on.
        """
        if self.is_in_memory:
            is_used = backend.is_shared
        else:
            # The processes of one machine share the file, which outlives their own store.
            is_used = self.is_default and backend.is_remote
        if is_used:
            self._given = backend, asyncio.get_running_loop()
            if not self.is_in_memory and DEFAULT_FILE.exists():
                log.warning(
                    "the state of the authorization server is in %s; that in %s is not used",
                    backend.url,
                    DEFAULT_FILE.absolute(),
                )
        return is_used

    def check(self, store_of_workers: "str | Backend | None" = None) -> None:
        """Make sure that the state can be read and written, as far as that is known beforehand.

        Args:
            store_of_workers: the one that the server will be served with.

        Raises:
            AuthError: it cannot; says why.
        """
        if self.path is None or (self.is_default and _is_remote(store_of_workers)):
            return
        check_file(self.path)

    def open(self, client_ttl: float) -> AuthorizationStore:
        """Open the store. Blocks.

        Raises:
            AuthError: the file cannot be used; says why.
            StoreError: the store cannot be reached.
        """
        if self._given is not None:
            backend, loop = self._given
            return AuthorizationStore(backend, LoopCalls(loop), client_ttl=client_ttl)
        if self.path is not None:
            return open_file(self.path, client_ttl=client_ttl)
        return self._open_own(client_ttl)

    def _open_own(self, client_ttl: float) -> AuthorizationStore:
        backend, thread = self._open_backend(), StoreLoop()
        try:
            thread.run(backend.open())
            thread.at_end(backend.close)
            store = AuthorizationStore(
                backend, thread, client_ttl=client_ttl, on_close=thread.close
            )
        except BaseException:
            thread.close()
            raise
        # Closed with the last reference, at the latest.
        weakref.finalize(store, thread.end)
        return store

    def _open_backend(self) -> "Backend":
        """Return the backend, not connected yet, sealed if there are keys."""
        if self._backend is not None:
            return self._backend
        open_backend = import_module("accord.sharing").open_backend
        seal_backend = import_module("accord.sharing.backends.sealed_backend").seal_backend
        backend = open_backend(self._url or "", namespace=self._namespace)
        sealed: Backend = seal_backend(backend, self._keys)[0]
        return sealed


def open_file(
    path: str, *, client_ttl: float, clock: Callable[[], float] | None = None
) -> AuthorizationStore:
    """Open the state in a file, which only its owner may read; a file of an older form gets ours.

    Args:
        path: of the file; ":memory:" for none.
        client_ttl: as of `AuthorizationStore`.
        clock: as of `AuthorizationStore`.

    Raises:
        AuthError: the file cannot be used; says why. It is left as it is.
    """
    if path == MEMORY:
        memory = import_module("accord.sharing").MemoryBackend(clock=clock or time.time)
        calls = DirectCalls()
        return AuthorizationStore(memory, calls, client_ttl=client_ttl, clock=clock)
    with report_path(path):
        backends = import_module("accord.sharing.backends.sqlite_backend")
        backend = backends.BlockingSqliteBackend(
            os.path.realpath(path), namespace="accord-auth", timeout=_BUSY, older=TABLES
        )
        calls = DirectCalls(backend.lock, partial(backend.transaction, keeps=OAuthRefusal))
        _keep_private(path)
        calls.run(backend.open())
        try:
            store = AuthorizationStore(
                backend,
                calls,
                client_ttl=client_ttl,
                clock=clock,
                on_close=lambda: calls.run(backend.close()),
            )
            backend.migrate(COPY, lambda db: take_over(db, store))
        except BaseException:
            calls.run(backend.close())
            raise
    return store


def _keep_private(path: str) -> None:
    """Restrict a file that exists to its owner."""
    if os.path.exists(path) and sys.platform != "win32" and os.stat(path).st_mode & 0o077:
        os.chmod(path, 0o600)


def check_file(path: str) -> None:
    """Make sure that a store can be opened, read and written; a missing file is not created.

    Raises:
        AuthError: the store cannot be used; says why.
    """
    if path == MEMORY:
        return
    import sqlite3

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
            import_module("accord.sharing.backends.sqlite_connection").read_version(
                db, path, TABLES
            )
            db.execute("BEGIN IMMEDIATE")
            # SQLite finds a read-only file only when it writes.
            db.execute(f"PRAGMA user_version = {db.execute('PRAGMA user_version').fetchone()[0]}")
            db.execute("ROLLBACK")


@contextmanager
def report_path(path: str) -> Iterator[None]:
    """Turn errors of SQLite, the system and the backend into an AuthError that names the file."""
    import sqlite3

    try:
        yield
    except (sqlite3.Error, OSError, StoreError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AuthError(
            f"the store of the authorization server, {os.path.abspath(path)}, cannot be used: "
            f"{why}; repair, restore or move the file (users then have to allow their programs "
            "again), or name another one with AuthorizationServer(store=...)"
        ) from None


def _is_url(text: str) -> bool:
    return "://" in text


def _is_remote(store: "str | Backend | None") -> bool:
    if store is None:
        return False
    if isinstance(store, str):
        return not store.startswith(("sqlite:", "memory:"))
    return store.is_remote
