"""Shared state in a file of SQLite, for the processes of one machine."""

import asyncio
import logging
import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar
from urllib.parse import quote
from warnings import warn

from accord.errors import ConfigurationError, StoreUnavailable
from accord.private_files import make_file
from accord.sharing.backends import sqlite_work as work
from accord.sharing.backends.backend import (
    Backend,
    NotifierByOldName,
    OnNotify,
    takes_ring,
)
from accord.sharing.backends.engine import Followers
from accord.sharing.backends.sqlite_connection import (
    SLOT,
    disconnect,
    explain,
    find_tables,
    is_due,
    open_connection,
    sweep,
)
from accord.sharing.backends.sqlite_notifications import (
    Notifications,
    NotificationSocket,
    open_notification_socket,
)
from accord.sharing.backends.sqlite_thread import SqliteThread, StoreBatch

__all__ = ["BlockingSqliteBackend", "SqliteBackend"]

log = logging.getLogger("accord.sharing")

P = ParamSpec("P")
Value = TypeVar("Value")

# Names in the file begin with it and a colon.
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


def _operation(
    operation: Callable[Concatenate[Backend, P], Coroutine[Any, Any, Value]],
    work: Callable[Concatenate[StoreBatch, P], Value],
    *,
    is_write: bool,
) -> Callable[Concatenate["SqliteBackend", P], Coroutine[Any, Any, Value]]:
    """Return an operation of a backend that is done in the thread of the file."""

    @wraps(operation)
    async def call(self: "SqliteBackend", /, *args: P.args, **keywords: P.kwargs) -> Value:
        run = self._write if is_write else self._read
        result: Value = await run(lambda batch: work(batch, *args, **keywords))
        return result

    return call


class SqliteBackend(NotifierByOldName):
    """Keeps what workers share in a file, for all processes of one machine.

    The file is used in a thread of its own, and is made readable for its user alone. It has to be
    on a local disk. Several servers of one process may share an object; each opens and closes it.

    Args:
        path: the file; it is made if it does not exist.
        namespace: deployments with different ones share a file without seeing each other.
        timeout: seconds to wait while another process holds the lock of the file.
        notifications: how processes wake each other. "sockets": with sockets in the temporary
            folder, and where that does not work as with "polling": with a look into the file
            twenty times a second.
        bells: the name of `notifications` until 0.4.
    """

    is_shared = True
    is_remote = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "accord",
        timeout: float = 5.0,
        notifications: Literal["sockets", "polling"] = "sockets",
        bells: Literal["sockets", "polling"] | None = None,
    ) -> None:
        if bells is not None:
            notifications = bells
            old = "SqliteBackend(bells=...) will go in 0.4: write notifications=..."
            warn(old, DeprecationWarning, stacklevel=2)
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigurationError(
                f"invalid namespace {namespace!r}: it has 1 to 100 letters, digits, '.', '_', '-'"
            )
        self._path = os.path.abspath(os.fspath(path))
        # As `open_backend` takes it: four slashes before an absolute path.
        self.url = f"sqlite:///{quote(self._path)}"
        self.namespace = namespace
        self._prefix = f"{namespace}:"
        self._timeout = timeout
        self._notifications = notifications
        self._thread: SqliteThread | None = None
        self._opened = 0
        self._followers = Followers()
        self._registered: set[str] = set()
        self._socket: NotificationSocket | None = None

    async def open(self) -> None:
        """Open the file, on the running loop; each call needs a `close`."""
        thread = self._thread
        if thread is None or not thread.is_alive or thread.loop.is_closed():
            self._reset()
            thread = self._thread = SqliteThread(
                self._path,
                timeout=self._timeout,
                notifications=Notifications(self._prefix),
                hear=self._hear,
            )
        elif thread.loop is not asyncio.get_running_loop():
            raise StoreUnavailable(f"{self._path} is open on another event loop")
        self._opened += 1
        try:
            await self._read(lambda _: None)  # connects
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the file, when everything that opened it has closed it."""
        self._opened = max(0, self._opened - 1)
        thread = self._thread
        if thread is not None and not self._opened:
            self._reset()
            await thread.stop()

    async def now(self) -> float:
        """Return the time of the machine."""
        return time.time()

    # -- records

    get = _operation(Backend.get, work.find_record, is_write=False)
    put = _operation(Backend.put, work.put_record, is_write=True)
    delete = _operation(Backend.delete, work.delete_record, is_write=True)
    touch = _operation(Backend.touch, work.touch_record, is_write=True)

    # -- indexes

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index; those that are in it live for this long from now on."""
        names = list(members)
        if names:
            await self._write(lambda batch: work.add_members(batch, index, names, ttl))

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index; return how many were in it."""
        names = list(members)
        if not names:
            return 0
        return int(await self._write(lambda batch: work.remove_members(batch, index, names)))

    members = _operation(Backend.members, work.find_members, is_write=False)
    count = _operation(Backend.count, work.count_members, is_write=False)

    # -- logs

    append = takes_ring(_operation(Backend.append, work.append_entries, is_write=True))
    read = _operation(Backend.read, work.read_log, is_write=False)
    seize = _operation(Backend.seize, work.seize_log, is_write=True)
    extend = _operation(Backend.extend, work.extend_log, is_write=True)
    drop = _operation(Backend.drop, work.drop_log, is_write=True)

    # -- notifications

    async def notify(self, *topics: str) -> None:
        """Call what follows these topics, in every process."""
        if not await self._read(lambda batch: batch.notify(topics)):
            await self._write(lambda batch: batch.notify(topics))

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified, from when this returns until `unfollow`."""
        thread = self._get_thread()
        self._followers.add(topic, on_notify)
        if topic in self._registered:
            return
        if self._socket is None and self._notifications == "sockets":
            self._socket = open_notification_socket(thread.loop, self._followers.notify)
        address = "" if self._socket is None else self._socket.address
        try:
            await self._write(lambda batch: batch.notifications.follow(batch.db, topic, address))
        except BaseException:
            if self._followers.discard(topic, on_notify) and thread.is_alive:
                # It may be registered or not.
                future = thread.submit(
                    lambda batch: batch.notifications.unfollow(batch.db, topic), is_write=True
                )
                future.add_done_callback(_ignore)
            raise
        if topic in self._followers:
            self._registered.add(topic)

    async def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        if self._followers.discard(topic, on_notify):
            self._registered.discard(topic)
            await self._write(lambda batch: batch.notifications.unfollow(batch.db, topic))

    # -- buckets

    take = _operation(Backend.take, work.take_from_bucket, is_write=True)

    # -- operation

    async def describe(self) -> dict[str, str | int | float]:
        """Return the version of SQLite, the size of the file, and how much it holds."""
        facts: dict[str, str | int | float] = await self._read(
            lambda batch: work.describe_file(batch, self._path)
        )
        return facts

    # -- the thread

    def _get_thread(self) -> SqliteThread:
        if self._thread is None:
            raise StoreUnavailable(f"{self._path} is not open")
        return self._thread

    def _read(self, function: Callable[[StoreBatch], Any]) -> Awaitable[Any]:
        return self._get_thread().submit(function, is_write=False)

    def _write(self, function: Callable[[StoreBatch], Any]) -> Awaitable[Any]:
        return self._get_thread().submit(function, is_write=True)

    def _hear(self, topics: Iterable[str] | None) -> None:
        if topics is None:
            self._followers.notify_all()
        else:
            self._followers.notify(topics)

    def _reset(self) -> None:
        """Forget the thread, and what is followed."""
        self._thread = None
        self._opened = 0
        self._followers = Followers()
        self._registered.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class BlockingSqliteBackend(SqliteBackend):
    """Keeps it in a file that is used in the threads that call, one at a time.

    Its operations block, and never wait for an event loop. So code without one drives them, and
    has several of them in one transaction. What was committed survives a loss of power, and what
    was deleted is overwritten. It follows no topics.

    Args:
        path: as of `SqliteBackend`.
        namespace: as of `SqliteBackend`.
        timeout: as of `SqliteBackend`.
        older: the tables of an older form of the file, which `migrate` takes over.

    Attributes:
        lock: held during each operation and transaction; callers may hold it for several.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "accord",
        timeout: float = 10.0,
        older: Sequence[str] = (),
    ) -> None:
        super().__init__(path, namespace=namespace, timeout=timeout)
        self._older = older
        self._names = Notifications(self._prefix)
        self.lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        # What operations share: in a transaction, and outside of any.
        self._batch: StoreBatch | None = None
        self._reads: StoreBatch | None = None
        self._swept_at = 0.0
        self._disconnect: Callable[[], object] | None = None

    async def open(self) -> None:
        """Open the file, if it is not open."""
        with self.lock:
            if self._db is not None:
                return
            db = open_connection(
                self._path, timeout=self._timeout, adopts=self._older, after_fork=True
            )
            # With the last reference, at the latest.
            self._db, self._disconnect = db, weakref.finalize(self, disconnect, db)
            self._reads = StoreBatch(db, self._names, is_write=False)
            db.execute(f"PRAGMA busy_timeout = {round(self._timeout * 1000)}")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA secure_delete = ON")

    async def close(self) -> None:
        """Close the file."""
        with self.lock:
            self._db = self._reads = None
            if self._disconnect is not None:
                self._disconnect()

    @contextmanager
    def transaction(
        self, *, is_durable: bool = True, keeps: type[BaseException] | tuple[()] = ()
    ) -> Iterator[None]:
        """Run a block as one exclusive transaction; an error in it undoes all of it.

        Args:
            is_durable: whether it has to survive a loss of power. One that need not does not wait
                for the disk.
            keeps: an error that undoes nothing.
        """
        with self.lock, self._explain():
            if self._batch is not None:
                yield
                return
            db = self._get_connection()
            self._sweep(db)
            if not is_durable:
                db.execute("PRAGMA synchronous = NORMAL")
            try:
                db.execute("BEGIN IMMEDIATE")
                batch = self._batch = StoreBatch(db, self._names, is_write=True)
                try:
                    yield
                except keeps:
                    batch.commit()
                    raise
                batch.commit()
            finally:
                self._batch = None
                if db.in_transaction:
                    with suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                if not is_durable:
                    db.execute("PRAGMA synchronous = FULL")

    def migrate(self, suffix: str, move: Callable[[Callable[..., list[Any]]], None]) -> None:
        """Take over what the tables of an older form keep, and delete them, in one transaction.

        Before, a copy of the file is made beside it. Of several processes, one does so.

        Args:
            suffix: of the name of the copy.
            move: writes with operations of this backend; called with a function that returns
                columns of all rows of a table.
        """
        db = self._get_connection()
        if not find_tables(db, self._older):
            return
        with self.transaction():
            tables = find_tables(db, self._older)
            if not tables:
                return  # another process was faster

            def read(table: str, columns: str, order: str = "rowid") -> list[Any]:
                if table not in tables:
                    return []
                return db.execute(f"SELECT {columns} FROM {table} ORDER BY {order}").fetchall()  # noqa: S608  # our names

            copy = _copy_file(self._path, suffix)
            move(read)
            for table in tables:
                db.execute(f"DROP TABLE {table}")
        log.warning("%s has a new form now; %s is the old one", self._path, copy)

    def _get_connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreUnavailable(f"{self._path} is not open")
        return self._db

    async def _read(self, function: Callable[[StoreBatch], Any]) -> Any:
        with self.lock:
            batch = self._batch or self._reads
            if batch is None:
                raise StoreUnavailable(f"{self._path} is not open")
            try:
                return function(batch)
            except sqlite3.Error as error:
                raise explain(error, self._path, timeout=self._timeout) from error

    async def _write(self, function: Callable[[StoreBatch], Any]) -> Any:
        with self.lock:
            if self._batch is not None:
                return await self._read(function)
            with self.transaction():
                return await self._read(function)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self._path, timeout=self._timeout) from error

    def _sweep(self, db: sqlite3.Connection) -> None:
        """Delete some of what has expired, from time to time."""
        if time.monotonic() - self._swept_at > SLOT:
            self._swept_at = time.monotonic()
            if is_due(db, time.time()):
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    sweep(db, time.time())


def _copy_file(path: str, suffix: str) -> str:
    """Copy a file that only this process may write to now; return the name of the copy."""
    made = f"{path}{suffix}.part"
    with suppress(FileNotFoundError):
        os.unlink(made)  # of a process that has ended
    make_file(made)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(made)) as target:
        source.backup(target)
    names = (f"{path}{suffix}{number}" for number in ("", *(f".{each}" for each in range(2, 100))))
    copy = next(name for name in names if not os.path.exists(name))
    os.replace(made, copy)
    return copy


def _ignore(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
